"""Between a thread that works and the event loop that waits for it.

`Worker` runs a generator on a thread and hands what it yields to the loop. `Cancellation` goes the
other way: whoever waited has left, and the thread is told. `awaited` lets a thread wait for a
coroutine. Nothing here knows HTTP.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import queue
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
IDLE_S = 10.0  # a thread without work waits so long for more
MOST_IDLE = 64  # threads that wait


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


class _Threads:
    """Threads that have done their work and wait for more: to start one costs as much as a whole
    small request. The last one that became free is taken first; the others end after a while.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[queue.SimpleQueue[tuple[Callable[[], object], str]]] = []

    def run(self, work: Callable[[], object], name: str) -> None:
        """On a thread that has this name meanwhile. Raises RuntimeError: the system has none."""
        with self._lock:
            inbox = self._idle.pop() if self._idle else None
        if inbox is not None:
            inbox.put((work, name))
            return
        threading.Thread(target=self._serve, args=(work, name), name=name, daemon=True).start()

    def _serve(self, work: Callable[[], object], name: str) -> None:
        thread = threading.current_thread()
        inbox: queue.SimpleQueue[tuple[Callable[[], object], str]] = queue.SimpleQueue()
        while True:
            thread.name = name
            work()
            del work  # and with it all that it holds
            thread.name = "edgewise-idle"
            with self._lock:
                if len(self._idle) >= MOST_IDLE:
                    return
                self._idle.append(inbox)
            try:
                work, name = inbox.get(timeout=IDLE_S)
            except queue.Empty:
                with self._lock:
                    if inbox in self._idle:
                        self._idle.remove(inbox)
                        return
                work, name = inbox.get()  # it was chosen at the last moment

    def forget(self) -> None:
        """In a child after fork(), which has none of them."""
        self.__init__()  # type: ignore[misc]


_threads = _Threads()
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_threads.forget)


class Worker(Generic[Piece]):
    """Runs work on a thread and hands what it yields to the event loop that made this.

    `done` is called on the thread when the work has ended, with what it raised, if anything.
    `waits` says of a piece that more comes at once: the loop is not woken for it alone.
    """

    def __init__(
        self,
        cancellation: Cancellation,
        work: Callable[[], Generator[Piece, None, None]],
        done: Callable[[Exception | None], None],
        *,
        name: str,
        waits: Callable[[Piece], bool] = lambda _: False,
    ) -> None:
        self.cancellation = cancellation
        self._work = work
        self._done = done
        self._name = name
        self._waits = waits
        self._loop = asyncio.get_running_loop()
        self._pieces: deque[Piece | End] = deque()
        self._room = threading.Semaphore(BACKLOG)
        self._told = False  # the loop has been woken and has not looked yet
        self._ready = asyncio.Event()
        self._ended = threading.Event()
        self._context = contextvars.copy_context()

    def start(self) -> None:
        """Raises RuntimeError where the system has no thread to spare."""
        _threads.run(lambda: self._context.run(self._run), self._name)

    def join(self, seconds: float) -> None:
        """Wait for the work to end, on another thread."""
        self._ended.wait(seconds)

    async def batches(self) -> AsyncIterator[list[Piece]]:
        """What the work has yielded since the last look; ends early where the client has left."""
        while not self.cancellation.gone:
            await self._ready.wait()
            self._ready.clear()
            self._told = False
            batch: list[Piece] = []
            while self._pieces:
                piece = self._pieces.popleft()
                if piece is End.MARK:
                    if batch:
                        yield batch
                    return
                batch.append(piece)
            if batch:
                self._room.release(len(batch))
                yield batch

    async def pieces(self) -> AsyncIterator[Piece]:
        """The same one by one."""
        async for batch in self.batches():
            for piece in batch:
                if self.cancellation.gone:
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
                    if not self._offer(piece, wake=not self._waits(piece)):
                        break
        except Exception as error:  # noqa: BLE001 - a thread's end: nobody above could see it
            failure = error
        finally:
            self._done(failure)
            self._offer(End.MARK)
            self._ended.set()

    def _offer(self, piece: Piece | End, *, wake: bool = True) -> bool:
        if not self._room.acquire(blocking=False):
            self._wake()  # for what waits already
            self._room.acquire()
        if self.cancellation.gone:
            return False
        self._pieces.append(piece)
        return self._wake() if wake else True

    def _wake(self) -> bool:
        if not self._told:
            self._told = True
            try:
                self._loop.call_soon_threadsafe(self._ready.set)
            except RuntimeError:  # the loop is closed: the program is going down
                self.cancellation.leave()
                return False
        return True
