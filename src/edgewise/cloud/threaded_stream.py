"""Runs a provider's blocking stream on a thread, so that waiting for it has an exact bound.

An HTTP client's own time-outs do not cover a name server that never answers, nor the sum of many
small waits. Here the reader decides how long it waits, and leaving never blocks."""

from __future__ import annotations

import contextlib
import queue
import threading

from edgewise.cloud.provider import Chunk, CloudProvider
from edgewise.errors import CloudError, CloudTimeout
from edgewise.types.messages import Request

BACKLOG = 64  # chunks a slow reader may leave waiting before the provider is held up


class Stopped(Exception):
    """Somebody else's thread ended the wait. Never leaves the door."""


class ThreadedStream:
    """One try at one provider."""

    def __init__(self, provider: CloudProvider, request: Request, wire_id: str) -> None:
        self._provider = provider
        self._name = provider.config.name
        self._wire_id = wire_id
        self._queue: queue.Queue[Chunk | CloudError | Stopped | None] = queue.Queue(BACKLOG)
        self._left = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(request,), name=f"edgewise-{self._name}", daemon=True
        )
        self._thread.start()

    def next(self, timeout_s: float) -> Chunk | None:
        """The next chunk; None at the end. Raises CloudTimeout, or what the provider raised.

        Raises Stopped where `wake` was called.
        """
        try:
            item = self._queue.get(timeout=max(0.0, timeout_s))
        except queue.Empty:
            raise CloudTimeout(
                f"{self._name} sent nothing for {timeout_s:.1f} s", provider=self._name
            ) from None
        if isinstance(item, CloudError | Stopped):
            raise item
        return item

    def wake(self) -> None:
        """From another thread: the next thing the reader gets is the end of its wait."""
        while True:
            try:
                self._queue.put_nowait(Stopped())
                return
            except queue.Full:
                with contextlib.suppress(queue.Empty):
                    self._queue.get_nowait()  # nobody will read it

    def close(self) -> None:
        """Leave: break the connection if the thread is still on it. Returns at once."""
        self._left.set()
        if self._thread.is_alive():
            self._provider.abort(self._wire_id)

    def _run(self, request: Request) -> None:
        chunks = self._provider.stream(request, self._wire_id)
        try:
            for chunk in chunks:
                if not self._offer(chunk):
                    return
            self._offer(None)
        except CloudError as error:
            self._offer(error)
        except Exception as error:  # noqa: BLE001 - a plug-in may raise anything; nobody may hang
            self._offer(CloudError(f"{type(error).__name__}: {error}", provider=self._name))
        finally:
            close = getattr(chunks, "close", None)
            if close is not None:
                close()

    def _offer(self, item: Chunk | CloudError | None) -> bool:
        while not self._left.is_set():
            try:
                self._queue.put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False
