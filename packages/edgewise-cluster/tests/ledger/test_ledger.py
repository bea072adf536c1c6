"""One ledger for several processes: one budget, rows that always arrive, a database that leaves."""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import psycopg
import pytest
from tests.record.ledger_cases import PROVIDER, asking, cloud_attempt, replying
from tests.record.test_audits import AUDIT
from tests.record.test_verdicts import SAID

from edgewise import Engine, Settings
from edgewise.cloud.door import Permit, SharedBreaker
from edgewise.errors import (
    BudgetExceeded,
    CloudUnreachable,
    LedgerError,
    LedgerUnavailable,
    SettingsError,
    StoreAway,
)
from edgewise.parts import open_ledger
from edgewise.record.ledger import Book, Counts, ToolKey
from edgewise.record.rows import Budget, Interval, parse_amount
from edgewise.testing import Answer, LoopbackCloud, ScriptedBackend, refused_url
from edgewise_bench.scale.postgres_server import PostgresServer
from edgewise_cluster import ledger as shared_module
from edgewise_cluster import postgres as postgres_module
from edgewise_cluster.ledger import SharedLedger
from edgewise_cluster.postgres import PostgresLedger, reserved_row, shown_url

DAILY = Budget(1_000, "day")
WAIT_S = 60.0


def until(done: Callable[[], bool]) -> None:
    give_up = time.monotonic() + WAIT_S
    while not done():
        assert time.monotonic() < give_up, "it never came"
        time.sleep(0.01)


@pytest.fixture
def open_book(postgres_url: str, tmp_path: Path) -> Iterator[Callable[..., SharedLedger]]:
    """Each has a file of its own, as each replica has."""
    opened: list[SharedLedger] = []

    def make(name: str = "one", url: str = postgres_url, **rules: Any) -> SharedLedger:
        rules = {"budgets": (DAILY,)} | rules
        opened.append(SharedLedger(url, tmp_path / name / "ledger.db", **rules))
        return opened[-1]

    yield make
    for book in opened:
        book.close()


def refused_port() -> str:
    return f"postgresql://edgewise:hidden-word@{refused_url().removeprefix('http://')}/ledger"


@pytest.fixture
def away(open_book: Callable[..., SharedLedger], monkeypatch: pytest.MonkeyPatch) -> AwayBook:
    return AwayBook(open_book(), monkeypatch)


class AwayBook:
    """A book whose database leaves and comes back at once."""

    def __init__(self, book: SharedLedger, monkeypatch: pytest.MonkeyPatch) -> None:
        self.book, self._patch = book, monkeypatch
        self._url = book.remote.database._url
        self._patch.setattr(shared_module, "AWAY_S", 0.05)

    def leave(self) -> None:
        self.book.remote.close()
        self.book.remote.database._url = refused_port()

    def come_back(self) -> None:
        self.book.remote.database._url = self._url
        self.book.remote.database._away_until = 0.0


# One budget


def test_two_engines_stop_at_exactly_the_budget(
    open_book: Callable[..., SharedLedger], postgres_url: str
) -> None:
    books = [open_book(str(number), budgets=(Budget(1_000, "day"),)) for number in range(2)]
    refused: list[str] = []

    def spend(book: SharedLedger, name: str) -> None:
        for index in range(30):
            request = asking(f"{name}-{index}")
            try:
                book.reserve(f"{request.id}/0", request, PROVIDER, 25)
                book.settle(f"{request.id}/0", cloud_attempt(25))
            except BudgetExceeded:
                refused.append(request.id)

    threads = [
        threading.Thread(target=spend, args=(book, f"{number}-{index}"))
        for index in range(2)
        for number, book in enumerate(books)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 4 * 30 - 1_000 // 25
    assert [(state.spent, state.reserved) for state in books[0].remaining()] == [(1_000, 0)]
    assert books[1].verify() == []


def test_what_has_no_budget_never_waits_for_the_database(
    open_book: Callable[..., SharedLedger],
) -> None:
    book = open_book(url=refused_port(), budgets=(Budget(5, "day", "ann"),))
    assert book.wait_s(asking("r")) == 0.0
    book.reserve("r/0", asking("r"), PROVIDER, 300)
    book.settle("r/0", cloud_attempt(250))
    with pytest.raises(StoreAway):
        book.reserve("s/0", asking("s", budget_key="ann"), PROVIDER, 1)
    assert book.outbox.report().spent_microdollars == 250


def test_intervals_hold_for_all_of_them(open_book: Callable[..., SharedLedger]) -> None:
    one, two = (open_book(name, intervals=(Interval(3_600.0),)) for name in ("one", "two"))
    one.reserve("r/0", asking("r"), PROVIDER, 1)
    assert two.wait_s(asking("s")) > 3_000


# Rows


def record_everything(book: Book, name: str) -> None:
    book.record(asking(name), replying(name))
    book.record_failure(asking(f"{name}-failed"), RuntimeError("no"), ())
    book.record_audit(replace(AUDIT, id=name, created_at=1.0))
    book.count_calls({ToolKey("ring", "abc"): Counts(1, 2)})


def test_rows_of_all_processes_are_read_as_one_ledger(
    open_book: Callable[..., SharedLedger],
) -> None:
    one, two = open_book("one"), open_book("two")
    record_everything(one, "r")
    record_everything(two, "s")
    until(lambda: not one.waiting() and not two.waiting())
    assert one.report().requests == 4
    assert {row["id"] for row in two.recent()} == {"r", "s", "r-failed", "s-failed"}
    found = one.get("s")
    assert found is not None and [each["id"] for each in found["attempts"]] == ["s/local-0"]
    assert {audit.id for audit in one.audits()} == {"r", "s"}
    assert one.tool_counts() == {ToolKey("ring", "abc"): Counts(2, 4)}
    assert one.seen("s") and not one.seen("t")


def test_rows_wait_while_the_database_is_away_and_arrive_once(away: AwayBook) -> None:
    book = away.book
    away.leave()
    record_everything(book, "r")
    assert book.note("drift", "chat", "it drifts")
    assert book.report().requests == 2, "read from this machine's file"
    assert book.waiting() == 5
    away.come_back()
    until(lambda: not book.waiting())
    assert book.remote.report().requests == 2
    assert book.remote.tool_counts() == {ToolKey("ring", "abc"): Counts(1, 2)}
    found = book.remote.noted("drift", "chat")
    assert found is not None and found.words == "it drifts"


def test_a_verdict_waits_while_the_database_is_away_and_the_last_one_counts(
    away: AwayBook,
) -> None:
    book = away.book
    book.record_verdict(SAID)
    until(lambda: not book.waiting())
    away.leave()
    changed = replace(SAID, right=False)
    book.record_verdict(changed)
    book.record_verdict(replace(SAID, id="two"))
    assert [each.right for each in book.verdicts("ann")] == [False, True], "from this machine"
    away.come_back()
    until(lambda: not book.waiting())
    assert book.remote.verdicts("ann") == [changed, replace(SAID, id="two")]


def test_a_verdict_of_one_machine_is_known_to_another(
    open_book: Callable[..., SharedLedger],
) -> None:
    one, two = open_book("one"), open_book("two")
    one.record(asking("one"), replying("one"))
    until(lambda: not one.waiting())
    two.record_verdict(SAID)
    until(lambda: not two.waiting())
    found = one.get("one")
    assert found is not None and found["verdict"] is True
    assert one.verdicts("ann") == [SAID]


def test_what_is_sent_twice_counts_once(
    open_book: Callable[..., SharedLedger],
) -> None:
    """As when a process dies between the database's answer and its own note of it."""
    book = open_book()
    record_everything(book.outbox, "r")  # so that no thread sends it
    row = reserved_row("r/0", asking("r"), PROVIDER, 60, time.time())
    book.outbox.reserve_here(row, asking("r"), None)
    book.outbox.settle("r/0", cloud_attempt(40))
    entries = book.outbox.batch()
    assert len(entries) == 5
    for _ in range(3):
        book._shipper._send(entries)
    assert book.remote.remaining()[0].spent == 40
    assert book.remote.report().requests == 2
    assert book.remote.tool_counts() == {ToolKey("ring", "abc"): Counts(1, 2)}


def test_a_row_that_the_database_refuses_does_not_stop_the_others(
    open_book: Callable[..., SharedLedger], caplog: pytest.LogCaptureFixture
) -> None:
    book = open_book()
    book.record(asking("r"), replying("r"))
    with book.outbox._store.writing() as connection:  # no ledger of ours holds such a thing
        book.outbox._changed(connection, "counts", "x", json.dumps([["ring", None, 1, 2]]))
    book.record(asking("s"), replying("s"))
    with caplog.at_level(logging.ERROR):
        until(lambda: book.waiting() == 1)
    assert {row["id"] for row in book.recent()} == {"r", "s"}
    assert "counts x cannot go on" in caplog.text
    # It is said to be waiting, and no thread looks at it for ever.
    assert book.outbox.pending() == 1 and book.outbox.pending(stuck=False) == 0


@pytest.mark.parametrize(
    "text",
    ["'; DROP TABLE edgewise.attempts; --", "Zoë 🦉", "nul\0nul", "%s :name ? %(a)s", "\ud800"],
)
def test_any_text_is_stored_as_it_is(open_book: Callable[..., SharedLedger], text: str) -> None:
    book = open_book(budgets=(Budget(2**61, "day", text), Budget(2**62, "month")))
    request = asking(f"id {text}", budget_key=text)
    book.reserve(f"id {text}/0", request, PROVIDER, 2**60)
    book.settle(f"id {text}/0", cloud_attempt(2**60, error=text))
    book.record(request, replying(request.id, text=text))
    until(lambda: not book.waiting())
    assert [state.spent for state in book.remaining()] == [2**60, 2**60]
    found = book.get(request.id)
    assert found is not None and len(found["attempts"]) == 2
    with pytest.raises(BudgetExceeded):
        book.reserve(f"2 {text}/0", request, PROVIDER, 2**61)


# The database away


def test_the_device_answers_and_says_why_the_cloud_did_not(tmp_path: Path) -> None:
    with LoopbackCloud() as cloud:
        cloud.always(Answer(text="The cloud knows."))
        settings = Settings.load(
            {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": cloud.openai_url},
            chain=("openai",),
            ledger=refused_port(),
            budgets=("$1/day",),
            data_dir=tmp_path,
            config_dir=tmp_path,
        )
        with Engine(settings, backend=ScriptedBackend.doubtful("It may be near the sea")) as engine:
            replies = [engine.complete("Where?") for _ in range(2)]
            waiting = engine.ledger.waiting()
    assert {reply.decision.degraded_code for reply in replies} == {"budget_store_away"}
    assert {reply.unrecorded for reply in replies} == {""}, "the rows are in the outbox"
    assert waiting == 2 and not cloud.requests
    assert "hidden-word" not in str([reply.decision.reason for reply in replies])


def test_a_settlement_that_did_not_arrive_is_sent_later(away: AwayBook) -> None:
    book = away.book
    book.reserve("r/0", asking("r", budget_key="ann"), PROVIDER, 300)
    away.leave()
    book.settle("r/0", cloud_attempt(120))
    assert book.outbox.report().spent_microdollars == 120
    away.come_back()
    until(lambda: not book.waiting())
    (state,) = book.remaining()
    assert (state.spent, state.reserved) == (120, 0)
    assert book.verify() == []


def test_an_allowance_bounds_what_leaves_while_it_is_away(
    open_book: Callable[..., SharedLedger], monkeypatch: pytest.MonkeyPatch
) -> None:
    away = AwayBook(open_book(allowance=100), monkeypatch)
    book = away.book
    away.leave()
    book.reserve("r/0", asking("r"), PROVIDER, 60)
    with pytest.raises(StoreAway, match=r"the allowance of \$0\.0001 is spent"):
        book.reserve("s/0", asking("s"), PROVIDER, 60)
    book.settle("r/0", cloud_attempt(40))
    book.reserve("t/0", asking("t"), PROVIDER, 60)
    assert book.outbox.unknown() == 100
    with pytest.raises(StoreAway):
        book.wait_s(asking("u"))
    away.come_back()
    book.settle("t/0", cloud_attempt(50))
    until(lambda: not book.waiting())
    (state,) = book.remaining()
    assert (state.spent, state.reserved) == (90, 0)
    assert book.outbox.unknown() == 0


def test_an_id_is_given_to_one_of_two_machines(open_book: Callable[..., SharedLedger]) -> None:
    one, two = open_book("one"), open_book("two")
    assert [book.claim("r") for book in (one, two, one)] == [True, False, False]


def test_one_id_on_two_machines_without_the_database_is_booked_for_both(
    open_book: Callable[..., SharedLedger], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each pays from its own allowance; nothing that was paid is lost when the database is back."""
    here = AwayBook(open_book("one", allowance=100), monkeypatch)
    there = AwayBook(open_book("two", allowance=100), monkeypatch)
    for away, cost in ((here, 40), (there, 50)):
        away.leave()
        assert away.book.claim("r") and not away.book.claim("r")
        away.book.reserve("r/0", asking("r"), PROVIDER, 60)
        with pytest.raises(LedgerError, match="another request has this id"):
            away.book.reserve("r/0", asking("r"), PROVIDER, 10)
        away.book.settle("r/0", cloud_attempt(cost))
    for away in (here, there):
        away.come_back()
        away.book._shipper.wake()
        until(lambda away=away: not away.book.waiting())  # type: ignore[misc]
    (state,) = here.book.remaining()
    assert (state.spent, state.reserved) == (90, 0)
    assert here.book.verify() == []


def test_a_refused_twin_does_not_cancel_the_reservation_of_the_first(
    open_book: Callable[..., SharedLedger],
) -> None:
    """As when the second one's question to the database got no answer."""
    one, two = open_book("one"), open_book("two")
    one.reserve("r/0", asking("r"), PROVIDER, 60)
    row = reserved_row("r/0", asking("r"), PROVIDER, 60, time.time())
    with pytest.raises(StoreAway):
        two._reserve_away(row, asking("r"), StoreAway("no answer", asked=True))
    until(lambda: not two.waiting())
    assert one.remaining()[0].reserved == 60
    one.settle("r/0", cloud_attempt(40))
    (state,) = one.remaining()
    assert (state.spent, state.reserved) == (40, 0)


def test_an_allowance_never_passes_a_whole_budget(open_book: Callable[..., SharedLedger]) -> None:
    book = open_book(url=refused_port(), budgets=(Budget(0, "day"),), allowance=100)
    with pytest.raises(StoreAway):
        book.reserve("r/0", asking("r"), PROVIDER, 1)


def test_a_reservation_that_died_here_is_booked_in_full(
    open_book: Callable[..., SharedLedger], monkeypatch: pytest.MonkeyPatch
) -> None:
    away = AwayBook(open_book(allowance=100, reservation_s=0.05), monkeypatch)
    away.leave()
    away.book.reserve("r/0", asking("r"), PROVIDER, 60)
    away.come_back()
    until(lambda: not away.book.waiting())
    assert away.book.remaining()[0].spent == 60
    away.book.settle("r/0", cloud_attempt(20))  # late, but the fact
    until(lambda: not away.book.waiting())
    assert away.book.remaining()[0].spent == 20


def test_a_hung_database_hangs_nobody_and_books_nothing(
    open_book: Callable[..., SharedLedger],
    postgres: PostgresServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(postgres_module, "ANSWER_S", 0.3)
    book = open_book()
    book.reserve("r/0", asking("r"), PROVIDER, 100)
    with postgres.stopped():
        with pytest.raises(StoreAway, match="no answer"):
            book.reserve("s/0", asking("s"), PROVIDER, 100)
        began = time.monotonic()
        for index in range(50):  # nobody asks again for a while
            with pytest.raises(StoreAway):
                book.reserve(f"t{index}/0", asking(f"t{index}"), PROVIDER, 100)
        assert time.monotonic() - began < WAIT_S
        book.settle("r/0", cloud_attempt(70))
        assert book.waiting() == 2
    until(lambda: not book.waiting())
    (state,) = book.remaining()
    assert (state.spent, state.reserved) == (70, 0), "the unclear reservation was cancelled"


def test_a_slow_report_is_no_sign_that_the_database_is_away(
    open_book: Callable[..., SharedLedger], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_module, "REPORT_S", 0.2)
    book = open_book()

    def sleep(*_: object) -> NoReturn:
        with book.remote.database.reporting() as connection:
            connection.execute("SELECT pg_sleep(100)")
        raise AssertionError("it did not take too long")

    monkeypatch.setattr(book.remote, "report", sleep)
    with pytest.raises(LedgerUnavailable, match="statement timeout"):
        book.report()
    assert not book.away()
    book.reserve("r/0", asking("r"), PROVIDER, 100)
    assert [state.reserved for state in book.remaining()] == [100]
    assert book.waiting() == 0


def test_money_finds_a_place_beside_many_reports(
    open_book: Callable[..., SharedLedger], monkeypatch: pytest.MonkeyPatch
) -> None:
    book = open_book(intervals=(Interval(0.001),))
    book.reserve("r/0", asking("r"), PROVIDER, 100)
    monkeypatch.setattr(postgres_module, "ANSWER_S", 20.0)
    taken = threading.Semaphore(0)
    over = threading.Event()

    def read() -> None:
        with book.remote.database.reporting():
            taken.release()
            over.wait(WAIT_S)

    readers = [threading.Thread(target=read) for _ in range(postgres_module.CONNECTIONS + 2)]
    for reader in readers:
        reader.start()
    try:
        assert taken.acquire(timeout=WAIT_S)
        book.settle("r/0", cloud_attempt(70))
        assert book.wait_s(asking("s")) == 0.0
        book.reserve("s/0", asking("s"), PROVIDER, 100)
        assert book.waiting() == 0
    finally:
        over.set()
        for reader in readers:
            reader.join()


def test_a_restart_of_the_database_is_not_noticed(
    open_book: Callable[..., SharedLedger], postgres: PostgresServer
) -> None:
    book = open_book()
    book.reserve("r/0", asking("r"), PROVIDER, 100)
    postgres.kill()
    postgres.start()
    book.settle("r/0", cloud_attempt(70))
    assert [(state.spent, state.reserved) for state in book.remaining()] == [(70, 0)]
    assert book.waiting() == 0


def spend_until_killed(url: str, folder: Path, name: str) -> None:
    book = SharedLedger(url, folder / "ledger.db", budgets=(Budget(10**9, "day"),))
    for index in range(100_000):
        request = asking(f"{name}-{index}")
        try:
            book.reserve(f"{request.id}/0", request, PROVIDER, 10)
            book.settle(f"{request.id}/0", cloud_attempt(7))
            book.record(request, replying(request.id))
        except LedgerError:
            time.sleep(0.01)


def test_kills_of_clients_and_of_the_database_lose_nothing(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    url = postgres.fresh()
    context = multiprocessing.get_context("spawn")
    workers = [
        context.Process(target=spend_until_killed, args=(url, tmp_path / str(number), str(number)))
        for number in range(2)
    ]
    for worker in workers:
        worker.start()
    reader = PostgresLedger(url)
    until(lambda: reader.report().requests >= 20)
    reader.close()
    postgres.kill()
    time.sleep(0.2)  # some of what they do meanwhile goes into the outbox
    postgres.start()
    time.sleep(0.2)
    for worker in workers:
        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGKILL)
        worker.join()
    books = [SharedLedger(url, tmp_path / str(number) / "ledger.db") for number in range(2)]
    recorded = {row["id"] for book in books for row in book.outbox.recent(1_000_000)}
    for book in books:
        book._shipper.wake()
        until(lambda book=book: not book.waiting())  # type: ignore[misc]
    remote = books[0].remote
    assert {row["id"] for row in remote.recent(1_000_000)} == recorded, "none lost, none twice"
    assert remote.verify() == []
    remote.sweep(now=time.time() + 86_400)
    report = remote.report()
    assert report.reserved_microdollars == 0
    assert report.abandoned <= 2, "at most the call that each killed process was in"
    with psycopg.connect(url) as connection:
        found = connection.execute(
            "SELECT COUNT(*), SUM(cost_microdollars) FROM edgewise.attempts"
            " WHERE place = 'cloud' AND outcome = 'answered'"
        ).fetchone()
    assert found is not None and found[1] == 7 * found[0]
    for book in books:
        book.close()


# Circuits and rates


def test_a_circuit_that_one_process_opens_is_open_for_all(
    open_book: Callable[..., SharedLedger],
) -> None:
    one, two = (
        SharedBreaker("openai", open_book(name).shared, cooldown_s=2.0) for name in ("one", "two")
    )
    early, other = one.allow(), two.allow()
    assert early and other
    one.failed(early, CloudUnreachable("no way"))
    assert not two.allow() and two.state == "open" and two.seconds_left() > 0
    probe = permitted(two)
    assert not one.allow(), "one probe for all of them"
    two.succeeded(probe)
    assert one.allow() and one.state == "closed"


def test_only_the_probe_says_how_a_circuit_goes_on(
    open_book: Callable[..., SharedLedger],
) -> None:
    one, two = (
        SharedBreaker("openai", open_book(name).shared, cooldown_s=1.0) for name in ("one", "two")
    )
    early, late = [permitted(one) for _ in range(3)], permitted(two)
    one.failed(early[0], CloudUnreachable("no way"))
    one.failed(early[1], CloudUnreachable("no way"))
    assert one.seconds_left() <= 1.0, "what fails beside it does not make it longer"
    probe = permitted(two)
    two.succeeded(late)  # it left before the circuit opened
    one.failed(early[2], CloudUnreachable("no way"))
    assert not one.allow() and one.seconds_left() > 0, "the probe is still out"
    two.failed(probe, CloudUnreachable("no way"))
    assert 1.0 < two.seconds_left() <= 2.0
    probe = permitted(one)
    one.released(probe)
    assert permitted(two), "given back, and free for another"


def permitted(breaker: SharedBreaker) -> Permit:
    found: list[Permit | None] = [None]

    def ask() -> bool:
        found[0] = breaker.allow()
        return found[0] is not None

    until(ask)
    assert found[0] is not None
    return found[0]


def test_a_probe_that_died_is_given_to_another(open_book: Callable[..., SharedLedger]) -> None:
    shared = open_book().shared
    dead = SharedBreaker("openai", shared, cooldown_s=0.01, lease_s=0.1)
    other = SharedBreaker("openai", shared, cooldown_s=0.01, lease_s=0.1)
    dead.failed(permitted(dead), CloudUnreachable("no way"))
    lost, probe = permitted(dead), permitted(other)
    dead.succeeded(lost)
    assert shared.look("openai") is not None, "its time was over, and another one has the probe"
    other.succeeded(probe)
    assert shared.look("openai") is None


def test_a_breaker_is_its_own_while_the_database_is_away(
    open_book: Callable[..., SharedLedger],
) -> None:
    breaker = SharedBreaker("openai", open_book(url=refused_port()).shared, cooldown_s=60.0)
    permit = breaker.allow()
    assert permit and breaker.would_allow()
    breaker.failed(permit, CloudUnreachable("no way"))
    assert not breaker.allow() and breaker.state == "open" and breaker.seconds_left() > 0


def test_clients_have_one_rate_for_all_processes(open_book: Callable[..., SharedLedger]) -> None:
    one, two = open_book("one").shared, open_book("two").shared
    waits = [each.take("ann", 4) for each in (one, two, one, two, one)]
    assert waits[:4] == [0.0] * 4 and 0 < waits[4] <= 15
    assert two.take("bob", 4) == 0.0


# The address


def test_the_password_is_never_shown(tmp_path: Path, postgres: PostgresServer) -> None:
    url = postgres.url("nowhere")
    settings = Settings.load({}, ledger=url, data_dir=tmp_path, config_dir=tmp_path)
    book = open_ledger(settings)
    assert postgres.password not in repr(settings) + book.where
    with pytest.raises(StoreAway) as caught:
        book.sweep()
    assert postgres.password not in str(caught.value)
    assert "nowhere" in str(caught.value)
    book.close()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://u:p@h:5/d?password=x", "postgresql://u@h:5/d"),
        ("postgres://h/d", "postgresql://h/d"),
        ("postgresql://u:p@[::1/d", "postgresql://…"),
    ],
)
def test_an_address_is_shown_without_its_password(url: str, shown: str) -> None:
    assert shown_url(url) == shown


def test_settings_name_a_file_a_database_or_nothing(tmp_path: Path) -> None:
    folder: dict[str, Any] = {"data_dir": tmp_path, "config_dir": tmp_path}
    assert Settings.load({}, **folder).ledger_path == tmp_path / "ledger.sqlite3"
    assert Settings.load({"EDGEWISE_LEDGER": "/x/y.db"}, **folder).ledger_path == Path("/x/y.db")
    with pytest.raises(SettingsError) as caught:
        Settings.load({"EDGEWISE_LEDGER": "mysql://u:hidden-word@h/d"}, **folder)
    assert "hidden-word" not in str(caught.value)
    assert parse_amount("") == 0 and parse_amount("$0.50") == parse_amount("0.5") == 500_000
    with pytest.raises(SettingsError, match="store_away_allowance"):
        open_ledger(Settings.load({}, store_away_allowance="lots", **folder))


def test_a_newer_database_is_left_alone(postgres: PostgresServer) -> None:
    url = postgres.fresh()
    ledger = PostgresLedger(url)
    ledger.sweep()
    ledger.close()
    with psycopg.connect(url) as connection:
        connection.execute("INSERT INTO edgewise.migrations VALUES ('p999_later')")
    with pytest.raises(StoreAway, match="newer edgewise"):
        PostgresLedger(url).sweep()


def test_several_first_users_make_the_tables_once(postgres: PostgresServer) -> None:
    url, failures = postgres.fresh(), list[LedgerError]()

    def use() -> None:
        ledger = PostgresLedger(url)
        try:
            ledger.sweep()
        except LedgerError as error:
            failures.append(error)
        finally:
            ledger.close()

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
