"""One ledger for several processes: money in PostgreSQL, rows through this machine's file.

The file is the outbox. What is recorded is written there first and goes on in the background, so
that a database that is away costs nobody a request and loses no row.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from typing_extensions import override

from edgewise.cloud.provider import ProviderConfig
from edgewise.errors import LedgerError, StoreAway
from edgewise.record.ledger import Counts, Ledger, ToolKey, settle_expired, settle_open
from edgewise.record.report import (
    MOST_AUDITS,
    Audit,
    By,
    Confidence,
    Every,
    JudgedRequest,
    Note,
    Report,
    Said,
    Stretch,
    Traffic,
    Usage,
    Workload,
    write_verdict,
)
from edgewise.record.rows import (
    Budget,
    BudgetState,
    Interval,
    Payer,
    Row,
    bindable,
    budgets_for,
    checked_amount,
    dollars,
    insert_once,
    refuse_if_too_soon,
    refuse_known,
    settled_columns,
    wait_s,
    window_name,
)
from edgewise.types.messages import Request
from edgewise.types.replies import Attempt, Reply
from edgewise_cluster.postgres import (
    AWAY_S,
    PostgresLedger,
    PostgresStore,
    reserved_row,
    settled_row,
)
from edgewise_cluster.postgres_schema import SETTLED as SETTLED_COLUMNS
from edgewise_cluster.postgres_schema import SETTLED_LATER

_log = logging.getLogger("edgewise")
BATCH = 200  # rows in one transaction
PAUSE_S = 0.05  # before a batch, so that it is not one row
# Kinds of money in the outbox: spent from the allowance, spent without any budget, and settlements
# of what the database has reserved.
ALLOWED, FREE, SETTLED = "allowed", "free", "settled"
MONEY = (ALLOWED, FREE, SETTLED)
UNCLEAR = Attempt(
    place="cloud", backend="", model="", outcome="store_away", error="the reservation got no answer"
)
# A probe is named by its end, to the microsecond. Its result counts while it is out; any other
# result, while the circuit is closed.
_LEASE = "(probed_until AT TIME ZONE 'UTC')::text"
_COUNTS = f"name = ? AND CASE ?::text WHEN '' THEN open_until IS NULL ELSE {_LEASE} = ?::text END"
Entry = tuple[int, str, str, str]  # number, kind, subject, body
Found = TypeVar("Found")


class Outbox(Ledger):
    """This machine's file: a ledger that also remembers what has not gone on yet."""

    @override
    def _changed(
        self, connection: sqlite3.Connection, kind: str, subject: str, body: str = ""
    ) -> None:
        connection.execute(
            "INSERT INTO outbox (kind, subject, body) VALUES (?, ?, ?)",
            (kind, bindable(subject), bindable(body)),
        )

    def reserve_here(self, row: Row, request: Request, most: int | None) -> bool:
        """Set money aside without the database: at most so much that it does not know of.

        False: that is spent. None: there is no limit, because there is no budget.
        """
        with self._store.writing() as connection:
            now = self._clock()
            known = "SELECT 1 FROM attempts WHERE id = ?"
            if connection.execute(known, (bindable(row["id"]),)).fetchone():
                refuse_known(row["id"])
            settle_expired(connection, now)
            refuse_if_too_soon(*wait_s(connection, self._intervals, request, now))
            if most is not None and _unknown(connection) + row["reserved_microdollars"] > most:
                return False
            window = {"day": window_name(now, "day"), "month": window_name(now, "month")}
            fresh = {"started_at": now, "expires_at": now + self._reservation_s}
            insert_once(connection, "attempts", row | window | fresh)
            self._changed(connection, FREE if most is None else ALLOWED, row["id"])
            return True

    def unknown(self) -> int:
        """What was spent from the allowance, and the database does not know of yet."""
        with self._store.reading() as connection:
            return _unknown(connection)

    def settle_here(self, attempt_id: str, attempt: Attempt) -> bool:
        """Whether the attempt was reserved here; then it is settled."""
        with self._store.writing() as connection:
            known = "SELECT outcome FROM attempts WHERE id = ?"
            found = connection.execute(known, (bindable(attempt_id),)).fetchone()
            if found is None:
                return False
            news = settle_open(connection, attempt_id, settled_columns(attempt, self._clock()))
            if news and found[0] == "abandoned":  # the guess may have gone on already
                self._changed(connection, SETTLED, attempt_id)
            return True

    def spool(self, row: Row) -> None:
        """Keep a settlement that the database did not get."""
        with self._store.writing() as connection:
            if insert_once(connection, "attempts", row):
                self._changed(connection, SETTLED, row["id"])

    def keep(self, row: Row) -> None:
        """Keep a copy of what the database has, for reading when it is away."""
        with self._store.writing(durable=False) as connection:
            insert_once(connection, "attempts", row)

    def batch(self) -> list[Entry]:
        """The oldest entries. A reservation goes on when it is settled, or has expired."""
        if not self.pending():
            return []
        self.sweep()
        with self._store.reading() as connection:
            found = connection.execute(
                """SELECT number, kind, subject, body FROM outbox
                LEFT JOIN attempts ON attempts.id = subject AND kind IN (?, ?)
                WHERE stuck = '' AND COALESCE(state, '') <> 'reserved'
                ORDER BY number LIMIT ?""",
                (ALLOWED, FREE, BATCH),
            )
            return list(found)

    def pending(self, *, stuck: bool = True) -> int:
        """How many entries are here; of those that cannot go on, nobody waits for the end."""
        where = "" if stuck else " WHERE stuck = ''"
        with self._store.reading() as connection:
            return int(connection.execute(f"SELECT COUNT(*) FROM outbox{where}").fetchone()[0])

    def rows(self, table: str, column: str, subject: str) -> list[Row]:
        with self._store.reading() as connection:
            found = connection.execute(
                f"SELECT * FROM {table} WHERE {column} = ? ORDER BY rowid", (subject,)
            )
            names = [each[0] for each in found.description]
            return [dict(zip(names, row, strict=True)) for row in found]

    def gone(self, entries: Sequence[Entry]) -> None:
        """They have arrived. Not waited for: what is sent twice counts once."""
        with self._store.writing(durable=False) as connection:
            numbers = [(number,) for number, *_ in entries]
            connection.executemany("DELETE FROM outbox WHERE number = ?", numbers)

    def stuck(self, entry: Entry, why: str) -> None:
        """It cannot go on, whatever the database does. It stays, and the others pass it."""
        with self._store.writing() as connection:
            connection.execute("UPDATE outbox SET stuck = ? WHERE number = ?", (why, entry[0]))


def _unknown(connection: sqlite3.Connection) -> int:
    (found,) = connection.execute(
        "SELECT COALESCE(SUM(cost_microdollars), 0) FROM outbox"
        " JOIN attempts ON attempts.id = subject WHERE kind = ?",
        (ALLOWED,),
    ).fetchone()
    return int(found)


class Shipper:
    """Sends the outbox to the database, in a thread that runs while there is something to send."""

    def __init__(self, outbox: Outbox, remote: PostgresLedger) -> None:
        self._outbox, self._remote = outbox, remote
        self._forget()

    def _forget(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._shipping = threading.Lock()
        self._news, self._closing = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def wake(self) -> None:
        """There is something to send."""
        if self._process != os.getpid():
            self._forget()
        self._news.set()
        if self._thread is not None and self._thread.is_alive():
            return
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._closing.clear()
                self._thread = threading.Thread(
                    target=self._run, name="edgewise-outbox", daemon=True
                )
                self._thread.start()

    def started(self) -> bool:
        return self._thread is not None and self._process == os.getpid()

    def _run(self) -> None:
        while not self._closing.is_set():
            self._news.wait()
            self._closing.wait(PAUSE_S)
            self._news.clear()
            if self._closing.is_set():
                return
            try:
                while self.ship():
                    pass
                if self._outbox.pending(stuck=False):  # still running: look again when it may end
                    self._later()
            except LedgerError:
                self._later()

    def _later(self) -> None:
        self._closing.wait(AWAY_S)
        self._news.set()

    def ship(self) -> int:
        """Send one batch; how many entries it had. Raises LedgerError if they stay here."""
        with self._shipping:
            entries = self._outbox.batch()
            if entries:
                try:
                    self._send(entries)
                    self._outbox.gone(entries)
                except StoreAway:
                    if self._remote.away():
                        raise
                    self._send_one_by_one(entries)
            return len(entries)

    def _send_one_by_one(self, entries: Sequence[Entry]) -> None:
        """The database is there, and refuses something: find out what."""
        for entry in entries:
            try:
                self._send([entry])
                self._outbox.gone([entry])
            except StoreAway as error:
                if self._remote.away():
                    raise
                _log.error("%s %s cannot go on: %s", entry[1], entry[2], error)
                self._outbox.stuck(entry, str(error))

    def _send(self, entries: Sequence[Entry]) -> None:
        rest = [entry for entry in entries if entry[1] not in MONEY]
        if rest:
            loaded = [(entry, self._load(entry)) for entry in rest]
            with self._remote.database.writing() as connection:
                for entry, rows in loaded:
                    _insert(connection, entry, rows)
        for _, kind, subject, _ in entries:
            if kind in MONEY:  # one transaction each: nobody waits for a batch's lock
                for row in self._outbox.rows("attempts", "id", subject):
                    self._remote.settle_row(row)

    def _load(self, entry: Entry) -> Mapping[str, list[Row]]:
        _, kind, subject, _ = entry
        if kind == "audit":
            return {"audits": self._outbox.rows("audits", "id", subject)}
        if kind == "request":
            local = [
                row
                for row in self._outbox.rows("attempts", "request_id", subject)
                if row["place"] != "cloud"  # money has entries of its own
            ]
            return {"requests": self._outbox.rows("requests", "id", subject), "attempts": local}
        return {}

    def close(self) -> None:
        """End the thread, and send what is left if the database is there."""
        if not self.started():
            return
        self._closing.set()
        self._news.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        with contextlib.suppress(LedgerError):
            while self.ship():
                pass


def _insert(connection: sqlite3.Connection, entry: Entry, rows: Mapping[str, list[Row]]) -> None:
    """Everything has an id, or is compared whole: what comes twice counts once."""
    _, kind, subject, body = entry
    for table, found in rows.items():
        for row in found:
            insert_once(connection, table, row)
    if kind == "counts":
        for index, (name, schema, confirmed, changed) in enumerate(json.loads(body)):
            counts = {"confirmed": confirmed, "changed": changed}
            named = {"id": f"{subject}/{index}", "name": name, "schema_hash": schema}
            insert_once(connection, "tool_record", named | counts)
    if kind == "verdict":
        write_verdict(connection, json.loads(body))
    if kind == "note":
        connection.execute(
            "INSERT INTO notes (created_at, kind, subject, words)"
            " SELECT v.* FROM (VALUES (?::float8, ?::text, ?::text, ?::text)) AS v"
            " (created_at, kind, subject, words) WHERE NOT EXISTS (SELECT 1 FROM notes AS n"
            " WHERE n.created_at = v.created_at AND n.kind = v.kind AND n.subject = v.subject)",
            tuple(json.loads(body)),
        )


class SharedState:
    """Rates and circuits of all processes. Every method raises StoreAway."""

    def __init__(self, database: PostgresStore) -> None:
        self._database = database

    def take(self, client: str, per_minute: int) -> float:
        """0 where a request of this client may pass; otherwise the seconds until one may."""
        return float(self._database.call("take", client, float(per_minute)))

    def look(self, provider: str) -> float | None:
        """Seconds until a circuit's next probe; None: it is closed."""
        found = self._database.call("look", provider)
        return None if found is None else float(found)

    def probe(self, provider: str, lease_s: float) -> str:
        """Take the probe of an open circuit; "" if it is not free."""
        with self._database.writing() as connection:
            found = connection.execute(
                "UPDATE breakers"
                " SET probed_until = clock_timestamp() + make_interval(secs => ?::float8)"
                " WHERE name = ? AND open_until <= clock_timestamp()"
                f" AND probed_until <= clock_timestamp() RETURNING {_LEASE}",
                (lease_s, provider),
            ).fetchone()
            return str(found[0]) if found else ""

    def fail(
        self,
        provider: str,
        lease: str,
        at_once: bool,
        most: int,
        cooldown_s: float,
        longest_s: float,
        retry_s: float | None,
    ) -> None:
        """Count a failure, and open the circuit where that is due."""
        with self._database.writing() as connection:
            if not lease:
                connection.execute(
                    "INSERT INTO breakers (name) VALUES (?) ON CONFLICT (name) DO NOTHING",
                    (provider,),
                )
            # Locked: of two that fail at once, the second finds the circuit open.
            still = connection.execute(
                f"SELECT 1 FROM breakers WHERE {_COUNTS} FOR UPDATE", (provider, lease, lease)
            )
            if still.fetchone():
                connection.execute(
                    "SELECT fail(?, ? <> 0, ?, ?::float8, ?::float8, ?::float8)",
                    (provider, at_once, most, cooldown_s, longest_s, retry_s),
                )

    def release(self, provider: str, lease: str) -> None:
        """Give the probe back: nothing was learned."""
        with self._database.writing() as connection:
            connection.execute(
                f"UPDATE breakers SET probed_until = '-infinity' WHERE {_COUNTS}",
                (provider, lease, lease),
            )

    def succeed(self, provider: str, lease: str) -> None:
        """Close the circuit if the probe says so; forget failures of one that is closed."""
        with self._database.writing() as connection:
            connection.execute(f"DELETE FROM breakers WHERE {_COUNTS}", (provider, lease, lease))


class SharedLedger:
    """A `Book` for several processes and machines.

    What has no budget and no interval never waits for the database. What has one leaves only with
    its consent or, if it is away, from `allowance`: so many micro-dollars for each file.
    """

    def __init__(
        self,
        url: str,
        path: Path,
        *,
        budgets: Sequence[Budget] = (),
        intervals: Sequence[Interval] = (),
        reservation_s: float = 150.0,
        allowance: int = 0,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._allowance = allowance
        self.remote = PostgresLedger(
            url, budgets=budgets, intervals=intervals, reservation_s=reservation_s, clock=clock
        )
        self.outbox = Outbox(
            path,
            budgets=budgets,
            intervals=intervals,
            reservation_s=reservation_s,
            clock=clock or time.time,
        )
        self._shipper = Shipper(self.outbox, self.remote)
        self._leaving: dict[str, Row] = {}  # reserved in the database by this process
        self.shared = SharedState(self.remote.database)
        self.limit(budgets, intervals)

    def limit(self, budgets: Sequence[Budget], intervals: Sequence[Interval]) -> None:
        """As `Ledger.limit`."""
        self._budgets, self._intervals = tuple(budgets), tuple(i for i in intervals if i.seconds)
        self.remote.limit(budgets, intervals)
        self.outbox.limit(budgets, intervals)

    @property
    def path(self) -> Path:
        return self.outbox.path

    @property
    def where(self) -> str:
        return self.remote.where

    def away(self) -> str:
        return self.remote.away()

    def waiting(self) -> int:
        return self.outbox.pending()

    def close(self) -> None:
        """Send what is left, if the database is there. The next use opens everything again."""
        self._shipper.close()
        self.remote.close()
        self.outbox.close()

    # Money

    def reserve(
        self, attempt_id: str, request: Request, config: ProviderConfig, microdollars: int
    ) -> None:
        """As `Ledger.reserve`. Raises StoreAway if the database must be asked and is away."""
        checked_amount(microdollars)
        row = reserved_row(attempt_id, request, config, microdollars, time.time())
        if not self._bounded(request):
            self.outbox.reserve_here(row, request, None)
            return
        try:
            self.remote.reserve_row(row, request)
        except StoreAway as away:
            self._reserve_away(row, request, away)
            return
        if len(self._leaving) < 10_000:  # whoever reserves settles; this is against a leak
            self._leaving[attempt_id] = row

    def has_budget(self, request: Request) -> bool:
        return bool(budgets_for(self._budgets, Payer.of(request)))

    def _bounded(self, request: Request) -> bool:
        return self.has_budget(request) or any(each.applies_to(request) for each in self._intervals)

    def _most_away(self, request: Request) -> int:
        applying = budgets_for(self._budgets, Payer.of(request))
        return min([self._allowance, *(each.limit_microdollars for each in applying)])

    def _reserve_away(self, row: Row, request: Request, away: StoreAway) -> None:
        most = self._most_away(request)
        if most and self.outbox.reserve_here(row, request, most):
            self._shipper.wake()  # it settles a reservation that may have been made, too
            return
        if away.asked:
            # Whether it was made is unknown: it must not stay booked.
            facts = settled_row(row["id"], UNCLEAR, time.time())
            kept = ("budget_key", "user_name", "group_name", "backend", "model", "claim")
            self.outbox.spool(facts | {name: row[name] for name in kept})
            self._shipper.wake()
        if most:
            spent = f"the allowance of {dollars(self._allowance)} is spent"
            raise StoreAway(f"{away}; {spent}") from away
        raise away

    def settle(self, attempt_id: str, attempt: Attempt) -> None:
        """As `Ledger.settle`. What the database did not get is kept and sent later."""
        opened = self._leaving.pop(attempt_id, None)
        if opened is None and self.outbox.settle_here(attempt_id, attempt):
            self._shipper.wake()
            return
        row = settled_row(attempt_id, attempt, time.time())
        if opened is not None:
            row = opened | {name: row[name] for name in (*SETTLED_COLUMNS, *SETTLED_LATER)}
        try:
            self.remote.settle(attempt_id, attempt)
        except StoreAway:
            self.outbox.spool(row)
            self._shipper.wake()
            return
        with contextlib.suppress(LedgerError):
            self.outbox.keep(row)

    def sweep(self, now: float | None = None) -> int:
        return self.outbox.sweep(now) + self.remote.sweep(now)

    def wait_s(self, request: Request) -> float:
        """As `Ledger.wait_s`. Raises StoreAway where nothing could be reserved now."""
        if not self._bounded(request):
            return 0.0
        away = self.away()
        if not away:
            try:
                return self.remote.wait_s(request)
            except StoreAway as error:
                away = str(error)
        most = self._most_away(request)
        if not most or self.outbox.unknown() >= most:
            raise StoreAway(away)
        return self.outbox.wait_s(request)

    # Rows

    def record(self, request: Request, reply: Reply, *, cost_avoided_microdollars: int = 0) -> None:
        self.outbox.record(request, reply, cost_avoided_microdollars=cost_avoided_microdollars)
        self._shipper.wake()

    def record_failure(
        self, request: Request, error: BaseException, attempts: Sequence[Attempt]
    ) -> None:
        self.outbox.record_failure(request, error, attempts)
        self._shipper.wake()

    def count_calls(self, changes: Mapping[ToolKey, Counts]) -> None:
        self.outbox.count_calls(changes)
        self._shipper.wake()

    def record_audit(self, audit: Audit) -> None:
        self.outbox.record_audit(audit)
        self._shipper.wake()

    def record_verdict(self, said: Said) -> None:
        self.outbox.record_verdict(said)
        self._shipper.wake()

    def note(self, kind: str, subject: str, words: str) -> bool:
        try:
            return self.remote.note(kind, subject, words)
        except StoreAway:
            news = self.outbox.note(kind, subject, words)
            self._shipper.wake()
            return news

    # Reading

    def _ask(self, question: Callable[[Ledger], Found]) -> Found:
        """Of the database or, if it is away, of this machine's file; `away` says so."""
        if not self._shipper.started():
            self._shipper.wake()  # what an earlier process left
        try:
            return question(self.remote)
        except StoreAway:
            return question(self.outbox)

    def prune(self, before: float) -> int:
        """As `Ledger.prune`: in the database, and in this machine's file what has gone on."""
        self.outbox.prune(before)
        return self.remote.prune(before)

    def claim(self, request_id: str) -> bool:
        """As `Ledger.claim`: of this machine, and of all of them if the database answers.

        Without it two machines may take one id. What has a budget then stays, or is paid from
        each one's allowance.
        """
        if not self.outbox.claim(request_id):
            return False
        try:
            return self.remote.claim(request_id)
        except StoreAway:
            return True

    def seen(self, request_id: str) -> bool:
        return self.outbox.seen(request_id) or self._ask(lambda book: book.seen(request_id))

    def remaining(self) -> list[BudgetState]:
        return self._ask(lambda book: book.remaining())

    def report(self, since: float | None = None) -> Report:
        return self._ask(lambda book: book.report(since))

    def usage(
        self, since: float | None = None, by: By = "key", every: Every = "", key: str = ""
    ) -> list[Usage]:
        return self._ask(lambda book: book.usage(since, by, every, key))

    def sum_up(self, stop: Callable[[], bool]) -> None:
        self.outbox.sum_up(stop)  # what is shown while the database is away

    def recent(self, limit: int = 20) -> list[dict[str, Any]]:
        return self._ask(lambda book: book.recent(limit))

    def get(self, request_id: str) -> dict[str, Any] | None:
        """Of this machine's file if the database does not have it yet."""
        found = self._ask(lambda book: book.get(request_id))
        return self.outbox.get(request_id) if found is None else found

    def judged(self, since: float) -> list[JudgedRequest]:
        return self._ask(lambda book: book.judged(since))

    def timeline(self, since: float, stretches: int) -> list[Stretch]:
        return self._ask(lambda book: book.timeline(since, stretches))

    def traffic(self, state: BudgetState) -> Traffic:
        return self._ask(lambda book: book.traffic(state))

    def calibrations(self) -> list[tuple[str, str]]:
        return self._ask(lambda book: book.calibrations())

    def confidences(self, task: str, calibration: str, limit: int) -> list[Confidence]:
        return self._ask(lambda book: book.confidences(task, calibration, limit))

    def noted(self, kind: str, subject: str) -> Note | None:
        return self._ask(lambda book: book.noted(kind, subject))

    def audits(self, since: float = 0.0, task: str = "", most: int = MOST_AUDITS) -> list[Audit]:
        return self._ask(lambda book: book.audits(since, task, most))

    def verdicts(self, workload: str) -> list[Said]:
        return self._ask(lambda book: book.verdicts(workload))

    def workloads(self) -> list[Workload]:
        return self._ask(lambda book: book.workloads())

    def tool_counts(self) -> dict[ToolKey, Counts]:
        return self._ask(lambda book: book.tool_counts())

    def lost(self) -> str:
        """The file holds no budget: what it lost is rows, and nothing is closed for it."""
        return ""

    def accept(self) -> str:
        return self.outbox.accept()

    def verify(self) -> list[str]:
        return self.outbox.verify() + self.remote.verify()
