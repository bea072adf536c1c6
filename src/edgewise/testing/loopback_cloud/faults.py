"""What a scripted cloud can reply: an answer, or one of the ways an answer goes wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from edgewise.types.messages import ToolCall
from edgewise.types.tokens import FinishReason

FIXED_SENTENCE = "The loopback cloud heard the question and gives this fixed answer."
CUT_SENTENCE = "This answer is long enough to be broken off before it has come to its end."


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A complete answer. Text comes first, tool calls after it, as providers send them.

    chunk_size       characters per streamed piece, of text and of tool arguments alike
    delay_first_s    silence before the first byte, headers included
    delay_between_s  silence between two streamed pieces
    cached_tokens    how many of `input_tokens` came from the provider's cache
    reasoning_tokens how many of `output_tokens` were thoughts nobody sees
    finish           None: "tool_calls" where there are some, otherwise "stop"
    audio_tokens     how many of `input_tokens` were sound
    audio_seconds    of sound; OpenAI's transcriptions then report these instead of tokens
    vectors          for embeddings; None: some for each text, the same for the same text

    Providers count cached and reasoning tokens differently; each protocol sends what its
    provider would, so a client that adds up wrongly is found out.
    """

    text: str = FIXED_SENTENCE
    tool_calls: tuple[ToolCall, ...] = ()
    chunk_size: int = 8
    delay_first_s: float = 0.0
    delay_between_s: float = 0.0
    input_tokens: int = 12
    cached_tokens: int = 0
    output_tokens: int = 8
    reasoning_tokens: int = 0
    finish: FinishReason | None = None
    audio_tokens: int = 0
    audio_seconds: float = 0.0
    vectors: tuple[tuple[float, ...], ...] | None = None

    def __post_init__(self) -> None:
        if self.chunk_size < 1:
            raise ValueError(f"chunk_size must be at least 1, got {self.chunk_size!r}")

    @property
    def finish_reason(self) -> FinishReason:
        return self.finish or ("tool_calls" if self.tool_calls else "stop")

    def pieces(self, text: str) -> list[str]:
        """`text` in pieces of `chunk_size`; an empty text has none."""
        return [text[i : i + self.chunk_size] for i in range(0, len(text), self.chunk_size)]


@dataclass(frozen=True, slots=True)
class Status:
    """An HTTP error with the body the provider would send.

    With `after_chunks` a stream begins well and the error comes as an event inside it.
    Gemini names its waiting time in the body; the others send a `retry-after` header.
    """

    status: int
    retry_after_s: float | None = None
    message: str = ""
    after_chunks: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """The answer breaks off. A body that is not streamed is sent by half.

    how  "reset"  the TCP connection is reset
         "close"  the connection is closed in mid-body, as by a dying proxy
         "end"    the body ends well as HTTP goes, but the answer's own end is missing
    """

    after_chunks: int = 2
    text: str = CUT_SENTENCE
    chunk_size: int = 8
    how: Literal["reset", "close", "end"] = "reset"


@dataclass(frozen=True, slots=True, kw_only=True)
class Malformed:
    """Status 200 and broken JSON: in the body, or in the stream after some good pieces."""

    after_chunks: int = 0


@dataclass(frozen=True, slots=True)
class Empty:
    """A well-formed answer with nothing in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """The request is read and never answered, until the client leaves or the server stops.

    With `after_chunks` a stream begins and then stalls with the connection open.
    """

    after_chunks: int = 0


Fault = Status | Cut | Malformed | Empty | Silence
Scripted = Answer | Fault
