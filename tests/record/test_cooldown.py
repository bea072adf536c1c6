"""Least times between handoffs: exact under threads, across processes and restarts."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from edgewise.errors import LedgerError, SettingsError, TooSoon
from edgewise.record.ledger import Ledger
from edgewise.record.rows import Interval, parse_interval
from edgewise.types.messages import Message, Request, Task
from edgewise.types.replies import Attempt
from tests.record.ledger_cases import PROVIDER, Books, cloud_attempt

HOUR = (Interval(3600.0),)


def asking(name: str, *, key: str = "", task: Task = "chat", part: str = "") -> Request:
    message = (Message("user", "Where is it?"),)
    return Request(messages=message, id=name, budget_key=key, task=task, part=part)


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def opened(books: Books, clock: Clock) -> Callable[..., Ledger]:
    def make(*intervals: Interval) -> Ledger:
        return books.open(intervals=intervals, clock=clock)

    return make


def leave(ledger: Ledger, request: Request, number: int = 0) -> str:
    """Reserve; the id of the attempt."""
    attempt_id = f"{request.id}/{request.part}{number}"
    ledger.reserve(attempt_id, request, PROVIDER, 10)
    return attempt_id


REFUSED = Attempt(place="cloud", backend="openai", model="m", outcome="cloud_refused")


def test_a_second_handoff_waits_for_the_interval(
    opened: Callable[..., Ledger], clock: Clock
) -> None:
    ledger = opened(Interval(60.0))
    first = leave(ledger, asking("a"))
    clock.now += 20
    assert ledger.wait_s(asking("b")) == pytest.approx(40)
    with pytest.raises(TooSoon, match=r"one handoff every 60 s: the next may leave in 40\.0 s"):
        leave(ledger, asking("b"))
    ledger.settle(first, cloud_attempt(7))
    with pytest.raises(TooSoon):
        leave(ledger, asking("b"))
    clock.now += 40
    assert ledger.wait_s(asking("b")) == 0
    leave(ledger, asking("b"))


def test_without_an_interval_nothing_waits(opened: Callable[..., Ledger]) -> None:
    ledger = opened(Interval(0.0))
    leave(ledger, asking("a"))
    leave(ledger, asking("b"))
    assert ledger.wait_s(asking("c")) == 0


def test_a_handoff_that_nobody_charges_for_does_not_count(opened: Callable[..., Ledger]) -> None:
    ledger = opened(*HOUR)
    first = leave(ledger, asking("a"))
    with pytest.raises(TooSoon):  # it still runs
        leave(ledger, asking("b"))
    ledger.settle(first, REFUSED)
    ledger.reserve("free/0", asking("free"), PROVIDER, 0)  # nothing is reserved, but it runs
    with pytest.raises(TooSoon):
        leave(ledger, asking("b"))
    ledger.settle("free/0", REFUSED)
    second = leave(ledger, asking("b"))
    ledger.settle(second, cloud_attempt(0))  # a provider that costs nothing has answered
    with pytest.raises(TooSoon):
        leave(ledger, asking("c"))


def test_what_one_request_needs_is_one_handoff(opened: Callable[..., Ledger]) -> None:
    ledger = opened(*HOUR)
    for number, part in enumerate(("", "1.", "audit.judge.")):
        leave(ledger, asking("a", part=part), number)
    with pytest.raises(TooSoon):
        leave(ledger, asking("b"))


def test_each_piece_of_sound_is_a_handoff(opened: Callable[..., Ledger]) -> None:
    ledger = opened(*HOUR)
    leave(ledger, asking("a", task="transcribe", part="s1."))
    leave(ledger, asking("a", task="transcribe", part="s1."), 1)  # the next provider of the chain
    with pytest.raises(TooSoon):
        leave(ledger, asking("a", task="transcribe", part="s2."))


def test_a_key_and_a_task_have_intervals_of_their_own(opened: Callable[..., Ledger]) -> None:
    ledger = opened(Interval(60.0, key="app"), Interval(60.0, task="embed"))
    leave(ledger, asking("a", key="app"))
    leave(ledger, asking("b", key="other"))
    leave(ledger, asking("c", task="embed"))
    with pytest.raises(TooSoon, match="for key 'app'"):
        leave(ledger, asking("d", key="app"))
    with pytest.raises(TooSoon, match="for embed"):
        leave(ledger, asking("e", task="embed"))
    leave(ledger, asking("f"))


def test_it_survives_a_restart(opened: Callable[..., Ledger], clock: Clock) -> None:
    first = opened(*HOUR)
    leave(first, asking("a"))
    first.close()
    clock.now += 3599
    with pytest.raises(TooSoon):
        leave(opened(*HOUR), asking("b"))


def test_a_clock_that_was_set_back_closes_the_cloud_for_one_interval_at_most(
    opened: Callable[..., Ledger], clock: Clock
) -> None:
    ledger = opened(Interval(60.0))
    leave(ledger, asking("a"))
    clock.now -= 30
    with pytest.raises(TooSoon):
        leave(ledger, asking("b"))
    clock.now -= 86_400
    leave(ledger, asking("b"))


def try_often(path: Path, who: str, times: int, won: list[str]) -> None:
    ledger = Ledger(path, intervals=HOUR, busy_s=60.0)
    for number in range(times):
        request = asking(f"{who}-{number}")
        try:
            attempt_id = leave(ledger, request)
        except LedgerError as error:
            assert error.code == "cooldown", error
        else:
            won.append(attempt_id)
            ledger.settle(attempt_id, cloud_attempt(5))
    ledger.close()


def test_of_many_threads_one_leaves_in_an_interval(tmp_path: Path) -> None:
    won: list[str] = []
    path = tmp_path / "ledger.sqlite3"
    threads = [
        threading.Thread(target=try_often, args=(path, f"thread{number}", 100, won))
        for number in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1


def test_a_ledger_that_cannot_be_read_closes_the_cloud(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    ledger = Ledger(tmp_path / "file" / "ledger.sqlite3", intervals=HOUR)
    with pytest.raises(LedgerError):
        ledger.wait_s(asking("a"))


def _in_process(path: Path, who: str, results: multiprocessing.Queue[int]) -> None:
    won: list[str] = []
    try_often(path, who, 50, won)
    results.put(len(won))


def test_two_processes_share_the_interval_of_one_ledger(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    results: multiprocessing.Queue[int] = context.Queue()
    path = tmp_path / "ledger.sqlite3"
    children = [
        context.Process(target=_in_process, args=(path, f"process{number}", results))
        for number in range(2)
    ]
    for child in children:
        child.start()
    wins = [results.get(timeout=120) for _ in children]
    for child in children:
        child.join()
    assert sum(wins) == 1


@pytest.mark.parametrize(
    ("text", "interval"),
    [
        ("30", Interval(30.0)),
        (" 0.5 ", Interval(0.5)),
        ("app: 60", Interval(60.0, key="app")),
        ("task transcribe: 5", Interval(5.0, task="transcribe")),
        ("team:red: 5", Interval(5.0, key="team:red")),
    ],
)
def test_an_interval_is_read_from_words(text: str, interval: Interval) -> None:
    assert parse_interval(text) == interval


@pytest.mark.parametrize("text", ["", "soon", "-1", "nan", "inf", ": 5", "task sing: 5", "app:"])
def test_what_is_no_interval_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="cloud_every_s"):
        parse_interval(text)
