"""The gate: HOLD the text back, KEEP it (show it), or HAND_OFF to the cloud.

It judges readings only; the flow holds the text. After KEEP there is no way back. So a short answer
is held to its end and judged whole, streamed or not: its first words seldom hold what makes it
right or wrong. A long one is judged once, at the end of a sentence, by the same score.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from edgewise.decide.calibration import Calibration, Reading
from edgewise.decide.typed import TypedReading

# An answer that ends within these tokens is judged whole. A longer one is judged at the next end of
# a sentence, and at the latest after these. Of the recorded answers, what streams keep is then
# right as often as what `complete` keeps: docs/notes/confidence-fit.md, "Deciding early".
SHORT_TOKENS, HELD_TOKENS = 24, 40

LOOKED_EVERY = 8  # tokens
LONGEST_CIRCLE = 48  # tokens that come again and again
LEAST_ROUNDS = 3
LEAST_REPEATED = 24  # tokens in the circles together: "ha ha ha" is no loop
LEAST_WORDS = 4  # of an answer that counts as repeated: "Yes." may be right twice

_WORD = re.compile(r"\w+")
_SENTENCE_END = re.compile(r"(\n|[.!?:;\u2026\u3002\uff01\uff1f][\"'\u2019\u201d)\]*_]*)\s*$")


class RepetitionWatch:
    """Takes the texts of tokens, and says when they go round in circles."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    def add(self, text: str) -> bool:
        """Whether the answer repeats itself by now. Looks at every eighth token."""
        self._texts.append(text)
        return len(self._texts) % LOOKED_EVERY == 0 and self._circles()

    def _circles(self) -> bool:
        texts = self._texts
        for length in range(1, min(LONGEST_CIRCLE, len(texts) // LEAST_ROUNDS) + 1):
            repeated = max(LEAST_ROUNDS * length, LEAST_REPEATED)
            if repeated > len(texts):
                continue
            tail = texts[-repeated:]
            # Dashes of a table or dots of a list say nothing; words that come again do.
            if tail[length:] == tail[:-length] and any(map(_WORD.search, tail[-length:])):
                return True
        return False


def repeats_a_turn(answer: str, earlier: Iterable[str]) -> bool:
    """Whether an answer of some length is one that was given before, word for word."""
    words = _words(answer)
    return len(words) >= LEAST_WORDS and any(_words(turn) == words for turn in earlier)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def ends_sentence(text: str) -> bool:
    return _SENTENCE_END.search(text) is not None


def decided_after(texts: Sequence[str]) -> int | None:
    """After how many tokens the gate decides on an answer of these tokens; None: at its end."""
    for count in range(SHORT_TOKENS, min(len(texts), HELD_TOKENS + 1)):
        if count == HELD_TOKENS or ends_sentence("".join(texts[:count])):
            return count
    return None


# -- HOLD, KEEP or HAND_OFF ------------------------------------------------------------------------


Read = Reading | TypedReading


class Verdict(Enum):
    HOLD = "hold"
    KEEP = "keep"
    HAND_OFF = "hand_off"


@dataclass(frozen=True, slots=True)
class Gate:
    """One request's gate: a calibration, the threshold that applies, and its objective.

    `whole`: the threshold was proven for whole answers, so none is shown before its end.
    `longest`: tokens of the longest answer that it was proven for; 0: of any.
    """

    calibration: Calibration
    threshold: float
    objective: str = ""
    usual: float | None = None  # the threshold without budget pacing, if that differs
    whole: bool = False
    longest: int = 0

    def skips(self, reading: Read) -> bool:
        """Whether the device should not even begin: it will hardly know the answer.

        Stop 0 of the boundaries says which chances are too low; of the answers that would have been
        kept, few lie below (`docs/notes/confidence-fit.md`).
        """
        if self.threshold <= 0.0 or reading.before is None:
            return False
        return self.chance_before(reading) < self.calibration.boundaries.at(self.threshold, 0)[0]

    def chance_before(self, reading: Read) -> float:
        """The chance of a right answer, from the hidden state behind the prompt."""
        before = self.calibration.scores.get("before")
        return 1.0 if before is None else before.of(reading)

    def judge(self, reading: Read, held_tokens: int, text: str = "") -> Verdict:
        """The verdict on the beginning of an answer, of which `text` was written so far."""
        if self.threshold <= 0.0:
            return Verdict.KEEP
        if self.calibration.at_end or held_tokens < SHORT_TOKENS:
            return Verdict.HOLD
        if held_tokens < HELD_TOKENS and not ends_sentence(text):
            return Verdict.HOLD
        return self.judge_whole(reading)

    def judge_whole(self, reading: Read) -> Verdict:
        """The verdict on an answer that ended while it was held back."""
        return Verdict.HAND_OFF if self.doubts(self.confidence(reading)) else Verdict.KEEP

    def confidence(self, reading: Read) -> float:
        """The chance that an answer with this evidence is right; 0 if the model gives none.

        One score for beginnings and for whole answers: it was fitted to answers that ended by
        themselves and to such that were cut.
        The runtime's own number, if no calibration has said what that is worth.
        """
        if self.calibration.at_end:
            return 0.0 if reading.engine is None else self.calibration.final.of(reading)
        if reading.tokens or reading.engine is None:
            return self.calibration.final.of(reading) if reading.tokens else 0.0
        return reading.engine

    def doubts(self, confidence: float) -> bool:
        return confidence < self.threshold
