"""A generation under way that another thread can break off."""

from __future__ import annotations

import threading
from collections.abc import Generator
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Generic, TypeVar

from typing_extensions import override

from edgewise.types.tokens import Finish, Token

Item = TypeVar("Item")


class Broken(Exception):
    """Put in a reader's queue by `Generation.abort`. Never leaves the runtime's adapter."""


class Channel(Generic[Item]):
    """What a runtime's thread sends its reader, and the way to call it off."""

    def __init__(self) -> None:
        self.cancelled = threading.Event()
        self.queue: SimpleQueue[Item | BaseException | None] = SimpleQueue()


class Generation(Generator[Token | Finish, None, None]):
    """A `TokenStream` with one thing more: `abort`."""

    def __init__(self, inner: Generator[Token | Finish, None, None], channel: Channel[Any]) -> None:
        self._inner = inner
        self._channel = channel

    def abort(self) -> None:
        """From another thread: the runtime stops, its reader gets a GenerationFailed at once."""
        self._channel.cancelled.set()
        self._channel.queue.put(Broken("called off"))

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
