"""ScriptedBackend: a local model that says what it was told to, with the evidence it was given."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Self, TypedDict, Unpack

from edgewise.errors import ContextExceeded, GenerationFailed
from edgewise.local.backend import DeviceFacts, TokenStream
from edgewise.types.messages import Request
from edgewise.types.tokens import Finish, FinishReason, Token

SCRIPTED_FACTS = DeviceFacts(
    backend="scripted", model="scripted-1", quantisation="none", context_tokens=4096
)


class Options(TypedDict, total=False):
    """What every way of building a ScriptedBackend takes.

    facts           what `facts()` returns
    context_tokens  overrides that of the facts; a longer prompt raises ContextExceeded
    fail_after      raise GenerationFailed after this many tokens of each generation
    delay_s         seconds each token takes
    """

    facts: DeviceFacts
    context_tokens: int
    fail_after: int
    delay_s: float


def word_tokens(
    text: str, *, logprob: float = -0.05, margin: float = 4.0, entropy: float = 0.2
) -> tuple[Token, ...]:
    """`text` as one token per word, all with the same evidence. Joined they are `text` again."""
    words = re.findall(r"\s*\S+|\s+$", text)
    return tuple(Token(word, logprob, margin, entropy) for word in words)


class ScriptedBackend:
    """Fulfils `edgewise.local.backend.ChatBackend` without a model.

        ScriptedBackend.confident("Paris.")
        ScriptedBackend(["Yes.", word_tokens("Perhaps not.", logprob=-2.0)], fail_after=1)

    Each generation takes the next answer; the last one repeats. A string becomes word tokens
    with `logprob`. A token is counted as one word everywhere.

    With `already` the answer of the same request is taken up again: after that prefix where the
    answer starts with it, otherwise from its beginning, after a space.
    """

    def __init__(
        self,
        answers: Sequence[str | tuple[Token, ...]],
        *,
        logprob: float = -0.05,
        **options: Unpack[Options],
    ) -> None:
        if not answers:
            raise ValueError("a ScriptedBackend needs at least one answer")
        self._answers = [
            word_tokens(answer, logprob=logprob) if isinstance(answer, str) else answer
            for answer in answers
        ]
        facts = options.get("facts", SCRIPTED_FACTS)
        context = options.get("context_tokens", facts.context_tokens)
        self._facts = replace(facts, context_tokens=context)
        self._fail_after = options.get("fail_after")
        self._delay_s = options.get("delay_s", 0.0)
        self._lock = threading.Lock()
        self._taken = 0
        self._by_request: dict[str, tuple[Token, ...]] = {}
        self.requests: list[Request] = []
        self.started = 0
        self.closed_early = 0
        self.generated = 0
        self.closed = False

    @classmethod
    def confident(cls, *texts: str, **options: Unpack[Options]) -> Self:
        """Answers a well-sighted gate keeps: every token near certain."""
        tokens = [word_tokens(text, logprob=-0.01, margin=6.0, entropy=0.05) for text in texts]
        return cls(tokens, **options)

    @classmethod
    def doubtful(cls, *texts: str, **options: Unpack[Options]) -> Self:
        """Answers a well-sighted gate hands off: every token close to a guess."""
        tokens = [word_tokens(text, logprob=-2.5, margin=0.1, entropy=2.5) for text in texts]
        return cls(tokens, **options)

    def facts(self) -> DeviceFacts:
        return self._facts

    def generate(self, request: Request, *, already: str = "") -> TokenStream:
        prompt = _count_words(request) + len(already.split())
        if prompt > self._facts.context_tokens:
            raise ContextExceeded(prompt, self._facts.context_tokens)
        tokens = _after(already, self._answer_to(request, already))
        count = 0
        try:
            for token in tokens[: request.max_tokens]:
                self._fail_if_told_to(count)
                time.sleep(self._delay_s)
                with self._lock:
                    self.generated += 1
                count += 1
                yield token
        except GeneratorExit:
            with self._lock:
                self.closed_early += 1
            raise
        self._fail_if_told_to(count)
        reason: FinishReason = "length" if len(tokens) > request.max_tokens else "stop"
        yield Finish(reason, input_tokens=prompt, output_tokens=count)

    def close(self) -> None:
        self.closed = True

    def _fail_if_told_to(self, count: int) -> None:
        if self._fail_after is not None and count >= self._fail_after:
            raise GenerationFailed(f"told to fail after {self._fail_after} tokens")

    def _answer_to(self, request: Request, already: str) -> tuple[Token, ...]:
        with self._lock:
            self.started += 1
            self.requests.append(request)
            if already and request.id in self._by_request:
                return self._by_request[request.id]
            answer = self._answers[min(self._taken, len(self._answers) - 1)]
            self._taken += 1
            self._by_request[request.id] = answer
            return answer


def _count_words(request: Request) -> int:
    return sum(len(message.content.split()) for message in request.messages)


def _after(already: str, answer: tuple[Token, ...]) -> tuple[Token, ...]:
    """What is left of `answer` behind `already`; a token cut in two keeps its evidence."""
    if not already or not answer:
        return answer
    if not "".join(token.text for token in answer).startswith(already):
        return (replace(answer[0], text=" " + answer[0].text), *answer[1:])
    left = len(already)
    rest: list[Token] = []
    for token in answer:
        if left < len(token.text):
            rest.append(replace(token, text=token.text[left:]))
        left = max(0, left - len(token.text))
    return tuple(rest)
