"""The open streams of an engine: closed with it, or when the interpreter exits."""

from __future__ import annotations

import contextlib
import weakref
from typing import Protocol


class Stream(Protocol):
    """A generator of events, or live captions."""

    def close(self) -> None: ...


class OpenStreams:
    """Streams that nobody holds any more are forgotten."""

    def __init__(self, owner: object) -> None:
        self._streams: weakref.WeakSet[Stream] = weakref.WeakSet()
        # Also at the interpreter's exit: open streams are cancelled and recorded.
        weakref.finalize(owner, _leave, self._streams)

    def add(self, stream: Stream) -> None:
        self._streams.add(stream)

    def close(self) -> None:
        _leave(self._streams)

    def forget(self) -> None:
        """They are another process's."""
        self._streams.clear()


def _leave(streams: weakref.WeakSet[Stream]) -> None:
    for stream in list(streams):
        with contextlib.suppress(ValueError):  # it is running on another thread, which will notice
            stream.close()
