"""Between a thread that works and the event loop that waits for it.

`Worker` runs a generator on a thread and hands what it yields to the loop. `Cancellation` goes the
other way: whoever waited has left, and the thread is told. `awaited` lets a thread wait for a
coroutine. Nothing here knows HTTP.
"""

from __future__ import annotations

import _thread
import asyncio
import contextlib
import contextvars
import logging
import os
import queue
import threading
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator
from concurrent.futures import CancelledError as FutureCancelled
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

from edgewise.errors import Cancelled, place_of

_log = logging.getLogger("edgewise")

BACKLOG = 256  # pieces that a slow reader may leave waiting before the work is held up
PIECE_BYTES = 1024  # a longer one counts as several
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
        self.user, self.group = "", ""  # the person behind the client, where that is known
        self.via = via  # the engines that it came through
        self.cloud = cloud  # the one provider and model it wants, "openai/gpt-6-luna"
        self.left = False  # stop working
        self.late = False  # because it took too long: the client still listens
        self._lock = threading.Lock()
        self._wakers: list[Callable[[], object]] = []

    @property
    def who(self) -> str:
        """Who takes turns with others: a person behind a client that many use, or the client."""
        return f"{self.client}\n{self.user}" if self.user else self.client

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
            try:
                wake()
            except Exception as error:  # noqa: BLE001 - a runtime's own: the others are woken too
                _log.warning("a wait could not be called off: %s", place_of(error))

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


class NoThread(RuntimeError):
    """The system has no thread to spare."""


@dataclass(frozen=True, slots=True)
class _Order:
    work: Callable[[], object]
    name: str
    refused: Callable[[NoThread], object]


class _Threads:
    """Threads that have done their work and wait for more: to start one costs as much as a whole
    small request. The last one that became free is taken first; the others end after a while.

    Starting one waits until it runs, which takes long while others compute. So whoever orders never
    does that: one thread starts the others, and whichever is free first takes what waits longest.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[queue.SimpleQueue[_Order]] = []
        self._waiting: deque[_Order] = deque()  # for a thread
        self._starting = False  # a thread is at it

    def run(
        self,
        work: Callable[[], object],
        name: str,
        refused: Callable[[NoThread], object] = lambda _: None,
    ) -> None:
        """On a thread that has this name meanwhile. Returns at once; `refused`: there is none."""
        order = _Order(work, name, refused)
        with self._lock:
            if self._idle:
                self._idle.pop().put(order)
                return
            self._waiting.append(order)
            if self._starting:
                return
            self._starting = True
        try:
            # `threading` would wait for it. It runs nothing but what is written below.
            _thread.start_new_thread(self._start_all, ())
        except RuntimeError as error:
            self._refuse(error)

    def _start_all(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._starting = False
                    return
                order = self._waiting.popleft()
            try:
                threading.Thread(
                    target=self._serve, args=(order,), name=order.name, daemon=True
                ).start()
            except RuntimeError as error:
                self._refuse(error, order)
                return

    def _refuse(self, error: RuntimeError, *taken: _Order) -> None:
        with self._lock:
            refused, self._starting = [*taken, *self._waiting], False
            self._waiting.clear()
        for order in refused:
            order.refused(NoThread(str(error)))

    def _serve(self, order: _Order | None) -> None:
        thread = threading.current_thread()
        inbox: queue.SimpleQueue[_Order] = queue.SimpleQueue()
        while order is not None:
            thread.name = order.name
            order.work()
            order = None  # and with it all that it holds
            thread.name = "edgewise-idle"
            order = self._next(inbox)

    def _next(self, inbox: queue.SimpleQueue[_Order]) -> _Order | None:
        """What is to be done next; None where there has been nothing for a while."""
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            if len(self._idle) >= MOST_IDLE:
                return None
            self._idle.append(inbox)
        try:
            return inbox.get(timeout=IDLE_S)
        except queue.Empty:
            with self._lock:
                if inbox in self._idle:
                    self._idle.remove(inbox)
                    return None
            return inbox.get()  # it was chosen at the last moment

    def forget(self) -> None:
        """In a child after fork(), which has none of them."""
        self.__init__()  # type: ignore[misc]


_threads = _Threads()
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_threads.forget)


def _weight(piece: object) -> int:
    """As how many pieces it counts. The longest finds room where nothing else waits."""
    size = len(piece) if isinstance(piece, bytes | str) else 0
    return 1 + min(size // PIECE_BYTES, BACKLOG - 1)


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
        self.failure: Exception | None = None  # what broke the work, once it has ended

    def start(self) -> None:
        """Returns at once. Where the system has no thread to spare, it ends with NoThread."""
        _threads.run(lambda: self._context.run(self._run), self._name, self._refused)

    def _refused(self, error: NoThread) -> None:
        self.failure = error
        self._end()

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
                self._room.release(sum(map(_weight, batch)))
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
        try:
            with contextlib.closing(self._work()) as work:
                for piece in work:
                    if not self._offer(piece, wake=not self._waits(piece)):
                        break
        except Exception as error:  # noqa: BLE001 - a thread's end: nobody above could see it
            self.failure = error
        except BaseException as error:  # noqa: BLE001 - it ends a program, not somebody's request
            self.failure = RuntimeError(f"{type(error).__name__} was raised on a thread")
            self.failure.__cause__ = error
        finally:
            self._end()

    def _end(self) -> None:
        self._done(self.failure)
        self._offer(End.MARK)
        self._ended.set()

    def _offer(self, piece: Piece | End, *, wake: bool = True) -> bool:
        for _ in range(_weight(piece)):
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
