"""An answer in a model's own format, told again in ours: so all that follows stays the same.

The calls become lines (`calls.prompt`), and each token keeps its evidence but gets the text that
stands for it in those lines. So names, values and their chances are found in every format alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from edgewise.calls.prompt import NO_CALL
from edgewise.calls.question import Question
from edgewise.types.tokens import Token

# The first sentence of an answer in words: enough to tell a refusal from a question. It begins with
# a letter, and a call never does.
FIRST_SENTENCE = r"[^\x00-@\[-`{-\x7f] [^<.?!\x00-\x1f]{0,160} [.?!]?"


@dataclass(frozen=True, slots=True)
class Reading:
    """What a function model wrote: calls as text for `calls.coerce.repair`, and its questions.

    `tokens` are those of the answer, with the texts that they have in the line format.
    """

    text: str
    tokens: tuple[Token, ...]
    questions: tuple[Question, ...] = ()


def written(tokens: Sequence[Token]) -> str:
    return "".join(token.text for token in tokens)


def retell(
    tokens: Sequence[Token], told: Sequence[str], *, stopped: bool = False
) -> tuple[Token, ...]:
    """The tokens with our texts. `told` has one for each character that was written.

    A token without a text of ours counts as part of the next that has one. The first counts with
    the chance that anything but words is written. `stopped`: the answer ends with `told`; what the
    runtime made the model write behind that is no evidence.
    """
    found: list[Token] = []
    silent: list[Token] = []
    position = 0
    for token in _with_first(tokens, words=False):
        start, position = position, position + len(token.text)
        if stopped and start >= len(told):
            break
        text = "".join(told[start:position])
        silent.append(replace(token, text=text))
        if text:
            found.append(_joined(silent))
            silent = []
    return (*found, _joined(silent)) if silent else tuple(found)


def retell_words(tokens: Sequence[Token]) -> tuple[Token, ...]:
    """An answer in words is a `none`: as likely as that any words are written."""
    if not tokens:
        return ()
    first = _with_first(tokens, words=True)[0]
    return (replace(first, text=NO_CALL, alternatives=()),)


def _with_first(tokens: Sequence[Token], *, words: bool) -> list[Token]:
    """The tokens; the first as likely as all that begin words, or all that begin no words."""
    first, *rest = tokens
    likes = [chance for text, chance in first.alternatives if text[:1].isalpha() == words]
    if not first.has_evidence or not likes:
        return [first, *rest]
    chance = math.log(min(1.0, sum(map(math.exp, likes))))
    return [replace(first, logprob=max(chance, first.logprob)), *rest]


def _joined(tokens: Sequence[Token]) -> Token:
    """One token for several. What else might have been written is not told in our format."""
    last = tokens[-1]
    known = [token for token in tokens if token.has_evidence]
    if not known:
        return replace(last, alternatives=())
    return replace(
        last,
        logprob=sum(token.logprob for token in known),
        margin=min(token.margin for token in known),
        entropy=max(token.entropy for token in known),
        has_evidence=True,
        alternatives=(),
    )
