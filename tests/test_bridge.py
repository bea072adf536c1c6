"""A thread's work on an event loop, without any server around it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Generator

import pytest

from edgewise import bridge
from edgewise.bridge import BACKLOG, Cancellation, Worker, current
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
