"""ScriptedCaller: a function caller that writes what it was told to, with the evidence given."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from edgewise.errors import ContextExceeded, GenerationFailed
from edgewise.local.backend import DeviceFacts, TokenStream
from edgewise.types.tokens import Finish, FinishReason, Token

SCRIPTED_CALLER_FACTS = DeviceFacts(
    backend="scripted", model="scripted-caller", quantisation="none", context_tokens=4096
)
_PIECES = re.compile(r"\w+|\s+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """What one `write_call` was asked for."""

    prompt: str
    grammar: str
    max_tokens: int
    already: str


class ScriptedCaller:
    """Fulfils `edgewise.local.backend.CallBackend` without a model.

        ScriptedCaller(['set_timer {"minutes":5}'])
        ScriptedCaller(['set_timer {"minutes":5}', "none"], logprobs=[[-0.1, -2.0], [-0.3]])

    Each call takes the next answer; the last one repeats. An answer becomes one token per word,
    run of spaces or mark, and an end token without text. `logprobs` has one list per answer; a
    list that is shorter than its tokens repeats its last value. With `already` an answer that
    starts so is continued after it. Grammars are kept in `asked` and not obeyed. Raises
    GenerationFailed in place of the first token where `fails` is true.
    """

    def __init__(
        self,
        answers: Sequence[str],
        *,
        logprobs: Sequence[Sequence[float]] = (),
        facts: DeviceFacts = SCRIPTED_CALLER_FACTS,
        fails: bool = False,
    ) -> None:
        if not answers:
            raise ValueError("a ScriptedCaller needs at least one answer")
        if logprobs and len(logprobs) != len(answers):
            raise ValueError(f"{len(logprobs)} lists of logprobs for {len(answers)} answers")
        self._answers = list(answers)
        self._logprobs = [list(given) for given in logprobs]
        self._facts = facts
        self._fails = fails
        self._lock = threading.Lock()
        self.asked: list[WrittenCall] = []
        self.closed_early = 0
        self.closed = False

    @classmethod
    def doubtful(cls, *answers: str) -> Self:
        """Answers whose every token is close to a guess."""
        return cls(answers, logprobs=[[-2.5]] * len(answers))

    def facts(self) -> DeviceFacts:
        return self._facts

    def write_call(
        self,
        prompt: str,
        *,
        grammar: str = "",
        max_tokens: int = 400,
        seed: int = 0,
        already: str = "",
    ) -> TokenStream:
        words = len((prompt + already).split())
        if words > self._facts.context_tokens:
            raise ContextExceeded(words, self._facts.context_tokens)
        tokens = self._tokens(WrittenCall(prompt, grammar, max_tokens, already))
        if self._fails:
            raise GenerationFailed("told to fail")
        try:
            yield from tokens[:max_tokens]
        except GeneratorExit:
            with self._lock:
                self.closed_early += 1
            raise
        reason: FinishReason = "length" if len(tokens) > max_tokens else "stop"
        yield Finish(reason, input_tokens=words, output_tokens=min(len(tokens), max_tokens))

    def close(self) -> None:
        self.closed = True

    def _tokens(self, call: WrittenCall) -> list[Token]:
        with self._lock:
            number = min(len(self.asked), len(self._answers) - 1)
            self.asked.append(call)
        pieces = [*_PIECES.findall(self._answers[number].removeprefix(call.already)), ""]
        given = self._logprobs[number] if self._logprobs else []
        padded = given + [given[-1] if given else -0.01] * len(pieces)
        return [_token(text, logprob) for text, logprob in zip(pieces, padded, strict=False)]


def _token(text: str, logprob: float) -> Token:
    """The less likely the token, the closer the runner-up."""
    return Token(text, logprob, margin=max(0.1, 6.0 + 4.0 * logprob), entropy=min(3.0, -logprob))
