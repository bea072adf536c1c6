"""Between a thread that works and the event loop that sends: bytes one way, leaving the other.

The event loop only moves bytes. Everything else of a request, from parsing its body to writing
its events, happens on a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import threading
import traceback
from collections import deque
from collections.abc import AsyncIterator, Callable

from starlette.types import Receive, Send

from edgewise.server.cancellation import (
    Cancellation,
    current,
)
from edgewise.server.state import ServerState
from edgewise.server.wire import Head, Work, send_head

log = logging.getLogger("edgewise.server")

BACKLOG = 256  # pieces a slow reader may leave waiting before the work is held up


class Worker:
    """Runs a request's work on a thread and hands what it yields to the event loop."""

    def __init__(
        self, cancellation: Cancellation, work: Callable[[], Work], done: Callable[[], None]
    ) -> None:
        self.cancellation = cancellation
        self._work = work
        self._done = done
        self._loop = asyncio.get_running_loop()
        self._pieces: deque[Head | bytes | None] = deque()
        self._room = threading.Semaphore(BACKLOG)
        self._told = False  # the loop has been woken and not looked yet
        self._ready = asyncio.Event()
        context = contextvars.copy_context()
        self.thread = threading.Thread(
            target=context.run, args=(self._run,), name="edgewise-request", daemon=True
        )

    async def pieces(self) -> AsyncIterator[Head | bytes]:
        """What the work yields; ends early where the client has left."""
        while not self.cancellation.gone:
            await self._ready.wait()
            self._ready.clear()
            self._told = False
            while self._pieces and not self.cancellation.gone:
                piece = self._pieces.popleft()
                self._room.release()
                if piece is None:
                    return
                yield piece

    def leave(self, *, late: bool = False) -> None:
        """On the event loop: call the work off; nobody reads what it still yields."""
        self.cancellation.leave(late=late)
        if self.cancellation.gone:
            self._room.release(BACKLOG)  # whatever it still has to say must not hold it up
            self._ready.set()

    def _run(self) -> None:
        current.set(self.cancellation)
        try:
            with contextlib.closing(self._work()) as work:
                for piece in work:
                    if not self._offer(piece):
                        break
        except Exception as error:  # noqa: BLE001 - a thread's end: nobody above could see it
            # Where, but not with what: the message may quote somebody's words.
            where = "".join(traceback.format_tb(error.__traceback__))
            log.error("a request failed: %s\n%s", type(error).__name__, where)
        finally:
            self._done()
            self._offer(None)

    def _offer(self, piece: Head | bytes | None) -> bool:
        self._room.acquire()
        if self.cancellation.gone:
            return False
        self._pieces.append(piece)
        if not self._told:
            self._told = True
            try:
                self._loop.call_soon_threadsafe(self._ready.set)
            except RuntimeError:  # the loop is closed: the server is going down
                self.cancellation.leave()
                return False
        return True


async def relay(
    state: ServerState,
    cancellation: Cancellation,
    work: Callable[[], Work],
    receive: Receive,
    send: Send,
) -> bool:
    """Serve one request. False where the server is full and nothing was begun."""
    worker = Worker(cancellation, work, lambda: state.inside.leave(threading.current_thread()))
    if not state.inside.enter(worker.thread, cancellation, state.server.requests):
        return False
    worker.thread.start()
    watcher = asyncio.create_task(_watch(receive, worker))
    timer = asyncio.get_running_loop().call_later(
        state.server.total_s, lambda: worker.leave(late=True)
    )
    try:
        await _send_all(worker, send, state.server.stall_s)
    except TimeoutError:
        log.warning("a client took nothing for %g s and was let go", state.server.stall_s)
    finally:
        timer.cancel()
        watcher.cancel()
        worker.leave()  # does nothing to work that has ended
    return True


async def _send_all(worker: Worker, send: Send, stall_s: float) -> None:
    begun = False
    async for piece in worker.pieces():
        if isinstance(piece, Head):
            begun = True
            await send_head(send, piece)
        else:
            # One that does not read what it asked for must not hold a slot.
            async with asyncio.timeout(stall_s):
                await send({"type": "http.response.body", "body": piece, "more_body": True})
    if worker.cancellation.gone:
        return
    if not begun:  # the work broke in a way nobody foresaw
        await send_head(send, Head(500, {"content-type": "application/json"}))
        body = b'{"error":{"message":"the server failed; its log says how","type":"server_error"}}'
        await send({"type": "http.response.body", "body": body, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _watch(receive: Receive, worker: Worker) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    worker.leave()
