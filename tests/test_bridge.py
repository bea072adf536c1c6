"""A thread's work on an event loop, without any server around it."""

from __future__ import annotations

import _thread
import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Generator

import pytest

from edgewise import bridge
from edgewise.bridge import BACKLOG, PIECE_BYTES, Cancellation, NoThread, Worker, current
from edgewise.errors import Cancelled


def test_what_the_work_yields_arrives_in_order_and_its_end_is_told_on_its_thread() -> None:
    ended: list[tuple[str, Exception | None]] = []

    def work() -> Generator[int, None, None]:
        yield from range(3 * BACKLOG)

    async def collect() -> list[int]:
        worker = Worker(
            Cancellation("me"),
            work,
            lambda failure: ended.append((threading.current_thread().name, failure)),
            name="a-worker",
        )
        worker.start()
        return [piece async for piece in worker.pieces()]

    assert asyncio.run(collect()) == list(range(3 * BACKLOG))
    assert ended == [("a-worker", None)]


def test_a_reader_that_takes_nothing_is_owed_a_bounded_number_of_bytes() -> None:
    made: list[int] = []
    pieces = [b"x" * 20_000] * 100 + [b"y" * 3 * BACKLOG * PIECE_BYTES]

    def work() -> Generator[bytes, None, None]:
        for piece in pieces:
            made.append(len(piece))
            yield piece

    async def look_then_read() -> list[bytes]:
        worker = Worker(Cancellation("me"), work, lambda _: None, name="a-worker")
        worker.start()
        while len(made) < 2:
            await asyncio.sleep(0.01)
        for _ in range(20):  # it would make all of them
            await asyncio.sleep(0.01)
        assert sum(made) <= BACKLOG * PIECE_BYTES + 2 * 20_000
        return [piece async for piece in worker.pieces()]

    assert asyncio.run(look_then_read()) == pieces


def test_a_piece_may_be_nothing() -> None:
    def work() -> Generator[None, None, None]:
        yield from (None, None)

    async def collect() -> list[None]:
        worker = Worker(Cancellation(), work, lambda _: None, name="a-worker")
        worker.start()
        return [piece async for piece in worker.pieces()]

    assert asyncio.run(collect()) == [None, None]


def test_what_breaks_is_handed_to_whoever_made_the_worker() -> None:
    failures: list[Exception | None] = []

    def work() -> Generator[int, None, None]:
        yield 1
        raise KeyError("broken")

    async def collect() -> list[int]:
        worker = Worker(Cancellation(), work, failures.append, name="a-worker")
        worker.start()
        return [piece async for piece in worker.pieces()]

    assert asyncio.run(collect()) == [1]
    assert isinstance(failures[0], KeyError)


def test_leaving_wakes_the_work_wherever_it_waits_and_closes_it() -> None:
    closed = threading.Event()
    woken = threading.Event()

    def work() -> Generator[int, None, None]:
        cancellation = current.get()
        assert cancellation is not None
        try:
            yield 1
            with cancellation.waking(woken.set):
                assert woken.wait(60)
            cancellation.check()
        finally:
            closed.set()

    async def leave_after_one() -> Worker[int]:
        worker = Worker(Cancellation(), work, lambda _: None, name="a-worker")
        worker.start()
        async for piece in worker.pieces():
            assert piece == 1
            worker.leave()
        return worker

    worker = asyncio.run(leave_after_one())
    worker.join(60)
    assert closed.is_set() and worker.cancellation.gone


def test_a_late_caller_still_listens_and_nobody_may_wait_any_more() -> None:
    cancellation = Cancellation()
    cancellation.leave(late=True)
    assert cancellation.left and not cancellation.gone
    with pytest.raises(Cancelled), cancellation.waking(lambda: None):
        pass
    cancellation.leave()
    assert cancellation.gone


def test_it_needs_no_web_framework() -> None:
    script = "import sys, edgewise.bridge; print('\\n'.join(sys.modules))"
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"starlette", "uvicorn", "pydantic"} & set(found)


def test_a_thread_that_is_done_takes_the_next_work_under_its_name() -> None:
    seen: list[tuple[int, str]] = []

    def work() -> Generator[int, None, None]:
        seen.append((threading.get_ident(), threading.current_thread().name))
        yield 1

    async def one(name: str) -> None:
        worker = Worker(Cancellation(), work, lambda _: None, name=name)
        worker.start()
        assert [piece async for piece in worker.pieces()] == [1]
        worker.join(60)

    async def two() -> None:
        await one("first")
        while not bridge._threads._idle:  # it is told of the end just before
            await asyncio.sleep(0.001)
        await one("second")

    bridge._threads.forget()
    asyncio.run(two())
    assert [name for _, name in seen] == ["first", "second"]
    assert seen[0][0] == seen[1][0], "one thread did both"


def test_a_thread_without_work_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bridge, "IDLE_S", 0.01)
    threads = bridge._Threads()
    ran: list[threading.Thread] = []
    threads.run(lambda: ran.append(threading.current_thread()), "short")
    while not ran:
        threading.Event().wait(0.001)
    ran[0].join(60)
    assert not ran[0].is_alive() and not threads._idle


def test_the_loop_is_not_woken_for_a_piece_that_more_follows() -> None:
    """Both come together, with the end."""

    def work() -> Generator[str, None, None]:
        yield "head"
        time.sleep(0.05)
        yield "body"

    async def collect() -> list[list[str]]:
        worker = Worker(
            Cancellation(), work, lambda _: None, name="a", waits=lambda piece: piece == "head"
        )
        worker.start()
        return [batch async for batch in worker.batches()]

    assert asyncio.run(collect())[0] == ["head", "body"]


# -- threads are started off the loop --------------------------------------------------------------


def echoing(number: int, name: str = "a-worker") -> Worker[int]:
    def work() -> Generator[int, None, None]:
        yield number

    return Worker(Cancellation(), work, lambda _: None, name=name)


async def all_of(workers: list[Worker[int]]) -> list[int]:
    return [piece for worker in workers async for piece in worker.pieces()]


def test_the_loop_goes_on_while_a_thread_takes_long_to_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a busy machine a thread that starts another one waits long until that one runs."""
    usual, may_start, on_the_loop = threading.Thread.start, threading.Event(), list[str]()

    def slow(thread: threading.Thread) -> None:
        if asyncio._get_running_loop() is not None:
            on_the_loop.append(thread.name)
        else:
            assert may_start.wait(60)
        usual(thread)

    async def go_on() -> list[int]:
        workers = [echoing(number) for number in range(20)]
        for worker in workers:
            worker.start()
        await asyncio.sleep(0)  # the loop is here, and no thread is
        may_start.set()
        return await all_of(workers)

    monkeypatch.setattr(bridge, "_threads", bridge._Threads())
    monkeypatch.setattr(threading.Thread, "start", slow)
    assert asyncio.run(go_on()) == list(range(20))
    assert on_the_loop == []


def test_a_thread_that_is_free_takes_what_waits_for_a_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    usual, may_start, seen = threading.Thread.start, threading.Event(), list[str]()

    def slow(thread: threading.Thread) -> None:
        if thread.name != "first":
            assert may_start.wait(60)
        usual(thread)

    go, ended = threading.Event(), threading.Semaphore(0)

    def work() -> None:
        assert go.wait(60)
        seen.append(threading.current_thread().name)
        ended.release()

    monkeypatch.setattr(threading.Thread, "start", slow)
    threads = bridge._Threads()
    for name in ("first", "second", "third"):
        threads.run(work, name)
    go.set()
    for _ in range(2):  # one is held by whoever starts its thread
        assert ended.acquire(timeout=60)
    assert "first" in seen
    may_start.set()
    assert ended.acquire(timeout=60)
    assert sorted(seen) == ["first", "second", "third"]


@pytest.mark.parametrize("which", ["a thread", "the one that starts them"])
def test_a_system_without_threads_is_told_and_nothing_stays_waiting(
    monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    def exhausted(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    ended: list[Exception | None] = []

    async def ask() -> list[list[int]]:
        def nothing() -> Generator[int, None, None]:
            yield from ()

        workers = [Worker(Cancellation(), nothing, ended.append, name="a") for _ in range(3)]
        for worker in workers:
            worker.start()
        found = [[piece async for piece in worker.pieces()] for worker in workers]
        assert all(isinstance(worker.failure, NoThread) for worker in workers)
        return found

    with monkeypatch.context() as patched:
        if which == "a thread":
            patched.setattr(threading.Thread, "start", exhausted)
        else:
            patched.setattr(_thread, "start_new_thread", exhausted)
        patched.setattr(bridge, "_threads", bridge._Threads())
        assert asyncio.run(ask()) == [[], [], []]
        assert [type(error) for error in ended] == [NoThread] * 3
        threads = bridge._threads
    done = threading.Event()
    threads.run(done.set, "later")
    assert done.wait(60), "there are threads again"


def test_whoever_cannot_be_woken_keeps_nobody_else_waiting() -> None:
    """A runtime's own `abort` may raise, and it is called on the event loop."""

    def broken() -> None:
        raise ValueError("generator already executing")

    cancellation, woken = Cancellation(), threading.Event()
    with cancellation.waking(broken), cancellation.waking(woken.set):
        cancellation.leave()
    assert woken.is_set() and cancellation.left


def test_what_would_end_a_program_is_told_as_a_failure() -> None:
    def work() -> Generator[int, None, None]:
        yield 1
        raise SystemExit

    async def collect() -> Exception | None:
        worker = Worker(Cancellation(), work, lambda _: None, name="a-worker")
        worker.start()
        assert [piece async for piece in worker.pieces()] == [1]
        return worker.failure

    assert isinstance(asyncio.run(collect()), RuntimeError)
