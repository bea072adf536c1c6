"""Between a thread that works and the event loop that waits for it.

`Worker` runs a generator on a thread and hands what it yields to the loop. `Cancellation` goes the
other way: whoever waited has left, and the thread is told. `awaited` lets a thread wait for a
coroutine. Nothing here knows HTTP.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator
from concurrent.futures import CancelledError as FutureCancelled
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from enum import Enum
from typing import Any, Generic, TypeVar

from edgewise.errors import Cancelled

BACKLOG = 256  # pieces that a slow reader may leave waiting before the work is held up


class End(Enum):
    """Stands behind the last piece; a piece may be anything, None too."""

    MARK = 0


Piece = TypeVar("Piece")
Result = TypeVar("Result")


class Cancellation:
    """How one request is called off. Everything that runs for it finds this through `current`.

    Work blocks on three things: a place in the queue, the local model, the network. Each says,
    while it waits, how it can be woken; `leave` wakes them all, and what they raise ends the flow.
    """

    def __init__(self, client: str = "", *, cloud: str = "", via: tuple[str, ...] = ()) -> None:
        self.client = client
        self.via = via  # the engines that it came through
        self.cloud = cloud  # the one provider and model it wants, "openai/gpt-6-luna"
        self.left = False  # stop working
        self.late = False  # because it took too long: the client still listens
        self._lock = threading.Lock()
        self._wakers: list[Callable[[], object]] = []

    @property
    def gone(self) -> bool:
        """Nobody listens any more."""
        return self.left and not self.late

    def leave(self, *, late: bool = False) -> None:
        """Stop now, from any thread. Returns at once."""
        with self._lock:
            if self.left:
                self.late = self.late and late
                return
            self.left, self.late = True, late
            wakers = list(self._wakers)
        for wake in wakers:
            wake()

    @contextlib.contextmanager
    def waking(self, wake: Callable[[], object]) -> Generator[None]:
        """While inside, leaving calls `wake`. Raises Cancelled where it is too late to wait."""
        with self._lock:
            if self.left:
                raise Cancelled("the client left")
            self._wakers.append(wake)
        try:
            yield
        finally:
            with self._lock:
                self._wakers.remove(wake)

    def check(self) -> None:
        if self.left:
            raise Cancelled("the client left")


current: ContextVar[Cancellation | None] = ContextVar("edgewise_cancellation", default=None)
_loop: ContextVar[asyncio.AbstractEventLoop | None] = ContextVar("edgewise_loop", default=None)


def awaited(awaitable: Awaitable[Result]) -> Result:
    """What a coroutine returns, from synchronous code.

    On a `Worker`'s thread it runs on the event loop that made the worker. Elsewhere it gets a loop
    of its own, as with `asyncio.run`.
    """

    async def run() -> Result:
        return await awaitable

    loop = _loop.get()
    if _has_running_loop():  # which must not be waited for here: it could never answer
        with ThreadPoolExecutor(1, "edgewise-coroutine") as pool:
            return pool.submit(contextvars.copy_context().run, asyncio.run, run()).result()
    if loop is None:
        return asyncio.run(run())
    return awaited_on(loop, run())


def awaited_on(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Result]) -> Result:
    """What a coroutine returns on another thread's loop. Whoever leaves cancels it."""
    cancellation = current.get() or Cancellation()
    future = asyncio.run_coroutine_threadsafe(work, loop)
    try:
        with cancellation.waking(future.cancel):
            return future.result()
    except FutureCancelled as error:
        cancellation.check()
        raise RuntimeError("the coroutine was cancelled") from error
    finally:
        future.cancel()  # where it was too late to wait; a finished one stays as it is


def _has_running_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class Worker(Generic[Piece]):
    """Runs work on a thread and hands what it yields to the event loop that made this.

    `done` is called on the thread when the work has ended, with what it raised, if anything.
    """

    def __init__(
        self,
        cancellation: Cancellation,
        work: Callable[[], Generator[Piece, None, None]],
        done: Callable[[Exception | None], None],
        *,
        name: str,
    ) -> None:
        self.cancellation = cancellation
        self._work = work
        self._done = done
        self._loop = asyncio.get_running_loop()
        self._pieces: deque[Piece | End] = deque()
        self._room = threading.Semaphore(BACKLOG)
        self._told = False  # the loop has been woken and has not looked yet
        self._ready = asyncio.Event()
        context = contextvars.copy_context()
        self.thread = threading.Thread(
            target=context.run, args=(self._run,), name=name, daemon=True
        )

    async def pieces(self) -> AsyncIterator[Piece]:
        """What the work yields; ends early where the client has left."""
        while not self.cancellation.gone:
            await self._ready.wait()
            self._ready.clear()
            self._told = False
            while self._pieces and not self.cancellation.gone:
                piece = self._pieces.popleft()
                self._room.release()
                if piece is End.MARK:
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
        _loop.set(self._loop)
        failure: Exception | None = None
        try:
            with contextlib.closing(self._work()) as work:
                for piece in work:
                    if not self._offer(piece):
                        break
        except Exception as error:  # noqa: BLE001 - a thread's end: nobody above could see it
            failure = error
        finally:
            self._done(failure)
            self._offer(End.MARK)

    def _offer(self, piece: Piece | End) -> bool:
        self._room.acquire()
        if self.cancellation.gone:
            return False
        self._pieces.append(piece)
        if not self._told:
            self._told = True
            try:
                self._loop.call_soon_threadsafe(self._ready.set)
            except RuntimeError:  # the loop is closed: the program is going down
                self.cancellation.leave()
                return False
        return True
