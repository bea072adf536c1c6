"""A thread's work on an event loop, without any server around it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Generator

import pytest

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
        worker.thread.start()
        return [piece async for piece in worker.pieces()]

    assert asyncio.run(collect()) == list(range(3 * BACKLOG))
    assert ended == [("a-worker", None)]


def test_a_piece_may_be_nothing() -> None:
    def work() -> Generator[None, None, None]:
        yield from (None, None)

    async def collect() -> list[None]:
        worker = Worker(Cancellation(), work, lambda _: None, name="a-worker")
        worker.thread.start()
        return [piece async for piece in worker.pieces()]

    assert asyncio.run(collect()) == [None, None]


def test_what_breaks_is_handed_to_whoever_made_the_worker() -> None:
    failures: list[Exception | None] = []

    def work() -> Generator[int, None, None]:
        yield 1
        raise KeyError("broken")

    async def collect() -> list[int]:
        worker = Worker(Cancellation(), work, failures.append, name="a-worker")
        worker.thread.start()
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
        worker.thread.start()
        async for piece in worker.pieces():
            assert piece == 1
            worker.leave()
        return worker

    worker = asyncio.run(leave_after_one())
    worker.thread.join(60)
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
