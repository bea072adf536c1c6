"""Several writers of one file take turns, whoever is quickest to ask again."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from edgewise.record.store import Store, Turns

WAIT_S = 30.0


def a_store(path: Path) -> Store:
    """As another process would have it: with a connection and a place in the queue of its own."""
    store = Store(path, busy_s=WAIT_S, clock=time.time)
    with store.reading():
        pass
    return store


def until(done: Callable[[], bool]) -> None:
    give_up = time.monotonic() + WAIT_S
    while not done():
        assert time.monotonic() < give_up
        time.sleep(0.001)


def test_whoever_waits_is_served_before_whoever_just_wrote(tmp_path: Path) -> None:
    path, served, waiting = tmp_path / "ledger.db", list[str](), threading.Event()
    first, second = a_store(path), a_store(path)

    def write_once() -> None:
        waiting.set()
        with second.writing():
            served.append("waited")

    other = threading.Thread(target=write_once)
    with first.writing():
        other.start()
        waiting.wait(WAIT_S)
        time.sleep(0.3)  # long enough for SQLite to sleep a tenth of a second between two looks
    for _ in range(20):
        with first.writing():
            served.append("again")
    other.join()
    # It may miss the first moment, because a machine is busy; it does not miss twenty.
    assert served.index("waited") <= 1
    first.close()
    second.close()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no turns")
def test_one_who_stopped_in_the_queue_does_not_stop_the_others(tmp_path: Path) -> None:
    stopped, late = Turns(tmp_path), Turns(tmp_path)
    passed = []
    with stopped.first(WAIT_S), late.first(0.05):
        passed.append("late")
    with late.first(WAIT_S), stopped.first(0.05):
        passed.append("stopped")
    assert passed == ["late", "stopped"]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no turns")
def test_a_turn_that_came_too_late_is_given_back(tmp_path: Path) -> None:
    holder, late = Turns(tmp_path), Turns(tmp_path)
    with holder.first(WAIT_S), late.first(0.01):
        pass
    until(lambda: not [t for t in threading.enumerate() if t.name == "edgewise-turn"])
    with holder.first(0.01):
        third = Turns(tmp_path)
        assert third._descriptor < 0
    with late.first(WAIT_S):
        pass
    holder.close()
    late.close()
