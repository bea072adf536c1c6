"""A generation that runs on a thread of the runtime, and is read and called off on others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from dataclasses import replace
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Generic, TypeVar

from typing_extensions import override

from edgewise.local.backend import DeviceFacts, TokenStream
from edgewise.types.tokens import Finish, Token

SMOOTHING = 0.3  # weight of the newest request in the measured speeds
LEAST_PROMPT, LEAST_OUTPUT = 8, 4  # tokens: fewer say nothing about speed

Item = TypeVar("Item")


class Channel(Generic[Item]):
    """What the runtime's thread sends to its reader, and a way to cancel it."""

    def __init__(self) -> None:
        self.cancelled = threading.Event()
        self.queue: SimpleQueue[Item | BaseException | None] = SimpleQueue()
        self.interrupt: Callable[[], None] | None = None  # stops the runtime inside a pass

    def cancel(self) -> None:
        self.cancelled.set()
        if self.interrupt is not None:
            self.interrupt()

    def abort(self) -> None:
        """From another thread: the runtime stops; its reader gets an error at once."""
        self.cancel()
        self.queue.put(RuntimeError("called off"))


class Generation(Generator[Token | Finish, None, None]):
    """A `TokenStream` with one thing more: `abort`, from another thread.

    The runtime stops, and the reader gets a GenerationFailed at once.
    """

    def __init__(self, inner: TokenStream, abort: Callable[[], None]) -> None:
        self._inner = inner
        self.abort = abort

    @override
    def send(self, value: None) -> Token | Finish:
        return self._inner.send(value)

    @override
    def throw(
        self,
        kind: Any,
        value: BaseException | object = None,
        trace: TracebackType | None = None,
    ) -> Token | Finish:
        return self._inner.throw(kind, value, trace) if value else self._inner.throw(kind)

    @override
    def close(self) -> None:
        self._inner.close()


def with_speeds(
    facts: DeviceFacts, *, read: int, read_per_s: float, written: int, written_per_s: float
) -> DeviceFacts:
    """The facts after one more request: so many prompt and output tokens at these speeds."""
    if read >= LEAST_PROMPT:
        speed = _smooth(facts.prompt_tokens_per_second, read_per_s)
        facts = replace(facts, prompt_tokens_per_second=speed)
    if written >= LEAST_OUTPUT:
        speed = _smooth(facts.output_tokens_per_second, written_per_s)
        facts = replace(facts, output_tokens_per_second=speed)
    return facts


def _smooth(before: float | None, now: float) -> float:
    return now if before is None else (1 - SMOOTHING) * before + SMOOTHING * now
