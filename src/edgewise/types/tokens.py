"""What a model emits while it answers, and how the answer ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

FinishReason = Literal["stop", "length", "tool_calls", "filtered"]


@dataclass(frozen=True, slots=True)
class Token:
    """One generated token with the model's own evidence about it.

    logprob  natural log of the probability the model gave this token
    margin   logprob of the best token minus logprob of the second best (0 = a coin toss)
    entropy  Shannon entropy in nats over the best few alternatives and one for the rest
    alternatives  the best few tokens with their logprobs; only if evidence was requested
    state    the hidden state that the token was predicted from, as numpy floats; only if a layer
             was named. That of the first token is the state behind the prompt.

    Some text comes without evidence (a runtime that reports none, a flushed buffer). It has
    `has_evidence=False`, and the meter skips it.
    """

    text: str
    logprob: float = 0.0
    margin: float = 0.0
    entropy: float = 0.0
    has_evidence: bool = True
    alternatives: tuple[tuple[str, float], ...] = ()
    state: Any = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Vectors:
    """Embeddings, one per text, in the order of the texts."""

    values: tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class Finish:
    """The last item of every stream, local or cloud.

    audio_tokens   how many of `input_tokens` were sound
    audio_seconds  of sound that was charged for; if unknown, that was sent
    passes         of the model, for prompt and answer; 0 if unknown
    state          the hidden state behind the last token of the answer, as in `Token`
    confidence     the runtime's own, of the whole answer, if it has one; what it is worth only a
                   calibration can say
    """

    reason: FinishReason = "stop"
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    estimated: bool = False
    audio_tokens: int = 0
    audio_seconds: float = 0.0
    passes: int = field(default=0, compare=False)
    confidence: float | None = None
    state: Any = field(default=None, compare=False, repr=False)
