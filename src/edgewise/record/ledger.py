"""The ledger: records every request and attempt, and pays for cloud calls out of budgets."""

from __future__ import annotations

import hashlib
import json
import logging
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from edgewise.cloud.provider import Circuits, ProviderConfig
from edgewise.errors import Cancelled, InvalidRequest, LedgerError, LedgerUnavailable
from edgewise.record.report import (
    ASKED,
    DAY_S,
    LOST,
    MOST_AUDITS,
    TRIED,
    Audit,
    By,
    Confidence,
    Hours,
    JudgedRequest,
    Note,
    Report,
    Said,
    Stretch,
    Traffic,
    Usage,
    Workload,
    calibrations_in_use,
    judged_requests,
    latest_note,
    make_report,
    one_request,
    read_audits,
    read_usage,
    read_verdicts,
    read_workloads,
    recent_confidences,
    recent_requests,
    timeline,
    traffic,
    verdict_row,
    write_audit,
    write_note,
    write_verdict,
)
from edgewise.record.report import Every as Periods
from edgewise.record.rows import (
    Budget,
    BudgetState,
    Interval,
    Payer,
    Row,
    avoided_microdollars,
    bindable,
    budget_states,
    budgets_for,
    checked_amount,
    failure_row,
    handoff_of,
    insert_once,
    opened_attempt,
    refuse_if_over,
    refuse_if_too_soon,
    refuse_known,
    reply_row,
    settled_columns,
    stored_texts,
    wait_s,
)
from edgewise.record.store import Store
from edgewise.types.messages import Request, Tool, new_request_id
from edgewise.types.replies import Attempt, Reply

_log = logging.getLogger("edgewise")
MOST_REMEMBERED = 1_000
PRUNED_AT_ONCE = 2_000  # rows: others wait for so many, and no more
MONTH_DAYS = 30


@dataclass(frozen=True, slots=True, order=True)
class ToolKey:
    """A tool's name, and a hash of the schema of its arguments."""

    name: str
    schema: str


@dataclass(frozen=True, slots=True)
class Counts:
    """The device's calls that were confirmed, and those that were changed or could not run."""

    confirmed: int = 0
    changed: int = 0

    def plus(self, right: bool) -> Counts:
        return self + (Counts(1, 0) if right else Counts(0, 1))

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.confirmed + other.confirmed, self.changed + other.changed)


class ToolRecord:
    """Counts how the device's calls turn out. If the ledger fails, only this is lost."""

    def __init__(self, ledger: Book) -> None:
        self._ledger = ledger
        self._lock = threading.Lock()
        self._keys: dict[int, tuple[Tool, ToolKey]] = {}  # the tool too: its id() must stay unique

    def note(self, outcomes: Sequence[tuple[Tool, bool]]) -> None:
        """Count calls of the device as right or wrong."""
        if not outcomes:
            return
        changes: dict[ToolKey, Counts] = {}
        with self._lock:
            for tool, right in outcomes:
                key = self._key(tool)
                changes[key] = changes.get(key, Counts()).plus(right)
        try:
            self._ledger.count_calls(changes)
        except LedgerError as error:  # the calls matter more than their record
            _log.warning("the record of tools is not in the ledger: %s", error)

    def _key(self, tool: Tool) -> ToolKey:
        known = self._keys.get(id(tool))
        if known is None:
            if len(self._keys) >= MOST_REMEMBERED:
                self._keys.clear()
            known = self._keys[id(tool)] = (tool, key_of(tool))
        return known[1]


def key_of(tool: Tool) -> ToolKey:
    """A tool with other arguments is another tool, even under the same name."""
    try:
        schema = json.dumps(tool.parameters, sort_keys=True, default=str)
    except (TypeError, ValueError, RecursionError):  # keys that are not text, or a loop
        schema = repr(tool.parameters)
    return ToolKey(tool.name, hashlib.sha256(schema.encode("utf-8", "replace")).hexdigest()[:16])


def read_counts(connection: sqlite3.Connection) -> dict[ToolKey, Counts]:
    rows = connection.execute("SELECT name, schema_hash, confirmed, changed FROM tool_record")
    return {ToolKey(name, schema): Counts(right, wrong) for name, schema, right, wrong in rows}


def add_counts(connection: sqlite3.Connection, changes: Mapping[ToolKey, Counts]) -> None:
    connection.executemany(
        "INSERT INTO tool_record VALUES (?, ?, ?, ?) ON CONFLICT (name, schema_hash) DO UPDATE SET"
        " confirmed = confirmed + excluded.confirmed, changed = changed + excluded.changed",
        [
            (bindable(key.name), key.schema, change.confirmed, change.changed)
            for key, change in changes.items()
        ],
    )


# -- what an engine asks of its ledger -------------------------------------------------------------


class Shared(Circuits, Protocol):
    """Rates of clients and circuits of providers, of all processes together."""

    def take(self, client: str, per_minute: int) -> float: ...


class Book(Protocol):
    """What an engine asks of its ledger. Methods raise LedgerUnavailable if they cannot do it."""

    @property
    def path(self) -> Path:
        """The file on this machine."""
        ...

    @property
    def where(self) -> str:
        """Where it is, in words: the file, or the address of a database without its password."""
        ...

    @property
    def shared(self) -> Shared | None:
        """What processes of one ledger share besides it; None: nothing."""
        ...

    def away(self) -> str:
        """Why what is read comes from this machine's file alone; empty: it does not."""
        ...

    def waiting(self) -> int:
        """How many rows of this machine have not reached the shared database yet."""
        ...

    def lost(self) -> str: ...

    def accept(self) -> str: ...

    def verify(self) -> list[str]: ...

    def close(self) -> None: ...

    # Money: set aside before a cloud call, settled after it; each once for an attempt's id.

    def reserve(
        self, attempt_id: str, request: Request, config: ProviderConfig, microdollars: int
    ) -> None: ...

    def limit(self, budgets: Sequence[Budget], intervals: Sequence[Interval]) -> None: ...

    def has_budget(self, request: Request) -> bool: ...

    def settle(self, attempt_id: str, attempt: Attempt) -> None: ...

    def sweep(self, now: float | None = None) -> int: ...

    def remaining(self) -> list[BudgetState]: ...

    def wait_s(self, request: Request) -> float: ...

    # What is written of requests, and what came of them. A known id changes nothing.

    def prune(self, before: float) -> int: ...

    def claim(self, request_id: str) -> bool: ...

    def record(
        self, request: Request, reply: Reply, *, cost_avoided_microdollars: int = 0
    ) -> None: ...

    def record_failure(
        self, request: Request, error: BaseException, attempts: Sequence[Attempt]
    ) -> None: ...

    def count_calls(self, changes: Mapping[ToolKey, Counts]) -> None: ...

    def record_audit(self, audit: Audit) -> None: ...

    def record_verdict(self, said: Said) -> None: ...

    def note(self, kind: str, subject: str, words: str) -> bool: ...

    # What is read: for reports, the dashboard and the monitors.

    def seen(self, request_id: str) -> bool: ...

    def report(self, since: float | None = None) -> Report: ...

    def usage(
        self, since: float | None = None, by: By = "key", every: Periods = "", key: str = ""
    ) -> list[Usage]: ...

    def sum_up(self, stop: Callable[[], bool]) -> None: ...

    def recent(self, limit: int = 20) -> list[dict[str, Any]]: ...

    def get(self, request_id: str) -> dict[str, Any] | None: ...

    def judged(self, since: float) -> list[JudgedRequest]: ...

    def timeline(self, since: float, stretches: int) -> list[Stretch]: ...

    def traffic(self, state: BudgetState) -> Traffic: ...

    def calibrations(self) -> list[tuple[str, str]]: ...

    def confidences(self, task: str, calibration: str, limit: int) -> list[Confidence]: ...

    def noted(self, kind: str, subject: str) -> Note | None: ...

    def audits(
        self, since: float = 0.0, task: str = "", most: int = MOST_AUDITS
    ) -> list[Audit]: ...

    def verdicts(self, workload: str) -> list[Said]: ...

    def workloads(self) -> list[Workload]: ...

    def tool_counts(self) -> dict[ToolKey, Counts]: ...


# -- the ledger in one file ------------------------------------------------------------------------


class Ledger:
    """One SQLite file, safe for threads and for several processes.

    The file is opened at the first use. Every method raises LedgerUnavailable if the file cannot
    be read or written, and leaves it as it was.
    """

    def __init__(
        self,
        path: Path,
        *,
        budgets: Sequence[Budget] = (),
        intervals: Sequence[Interval] = (),
        reservation_s: float = 150.0,
        busy_s: float = 5.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.limit(budgets, intervals)
        self._reservation_s = reservation_s
        self._clock = clock
        self._store = Store(path, busy_s=busy_s, clock=clock)
        self._hours = Hours(kept=True)  # read and written while reporting, which is one at a time

    def limit(self, budgets: Sequence[Budget], intervals: Sequence[Interval]) -> None:
        """From now on these count: the keys of a server come and go while it runs."""
        self._budgets = tuple(budgets)
        self._intervals = tuple(each for each in intervals if each.seconds)

    @property
    def path(self) -> Path:
        return self._store.path

    @property
    def where(self) -> str:
        return str(self.path)

    @property
    def shared(self) -> Shared | None:
        """A file has no state of other machines."""
        return None

    def away(self) -> str:
        """A file of one's own is never away."""
        return ""

    def waiting(self) -> int:
        return 0

    def close(self) -> None:
        """Close the file. The next use opens it again."""
        self._store.close()

    def reserve(
        self, attempt_id: str, request: Request, config: ProviderConfig, microdollars: int
    ) -> None:
        """Set money aside before a cloud call, once for each attempt id: a known one is refused.

        Raises BudgetExceeded if a budget of this request does not cover the amount, and TooSoon if
        another handoff left less than an interval ago. If it has a budget, and what was spent is
        not known because the ledger was lost, raises LedgerUnavailable until `accept`.
        """
        checked_amount(microdollars)
        payer = Payer.of(request)
        applying = budgets_for(self._budgets, payer)
        # Where nothing is limited, nobody waits for the disk before the request leaves.
        with self._store.writing(durable=bool(applying or self._intervals)) as connection:
            # Read the clock under the lock, so that windows follow the order of writing.
            now = self._clock()
            if _known(connection, "attempts", "id", attempt_id):
                refuse_known(attempt_id)
            settle_expired(connection, now)
            refuse_if_too_soon(*wait_s(connection, self._intervals, request, now))
            if applying:
                _refuse_if_lost(connection, self.path)
            refuse_if_over(budget_states(connection, applying, now), microdollars)
            row = opened_attempt(attempt_id, request.id, payer, now, microdollars)
            row |= {
                "place": "cloud",
                "backend": config.name,
                "model": config.model,
                "state": "reserved",
                "expires_at": now + self._reservation_s,
                "task": request.task,
                "handoff": handoff_of(request),
                "claim": new_request_id(),
            }
            insert_once(connection, "attempts", row)

    def has_budget(self, request: Request) -> bool:
        return bool(budgets_for(self._budgets, Payer.of(request)))

    def wait_s(self, request: Request) -> float:
        """Seconds until this request may leave, as the last handoffs say; 0: now."""
        if not self._intervals:
            return 0.0
        with self._store.reading() as connection:
            return wait_s(connection, self._intervals, request, self._clock())[0]

    def settle(self, attempt_id: str, attempt: Attempt) -> None:
        """Record how a cloud call ended and what it cost. The first settlement counts.

        Only the guess of a sweep ("abandoned") is replaced if the fact still arrives. An attempt
        without a reservation becomes a new settled row.
        """
        now = self._clock()
        columns = settled_columns(attempt, now)
        with self._store.writing() as connection:
            if not settle_open(connection, attempt_id, columns):
                request_id = attempt_id.rpartition("/")[0] or attempt_id
                payer = _payer(connection, request_id)
                row = opened_attempt(attempt_id, request_id, payer, now, 0)
                insert_once(connection, "attempts", row | columns)

    def sweep(self, now: float | None = None) -> int:
        """Settle every expired reservation at its full amount; return how many there were."""
        with self._store.writing() as connection:
            return settle_expired(connection, self._clock() if now is None else now)

    def prune(self, before: float) -> int:
        """Delete requests, attempts and audits from before a moment; return how many requests.

        What budgets count, the figures by day, verdicts and notes stay. It goes in pieces, so that
        nobody waits long.
        """
        while self._prune_attempts(before):
            pass
        count = 0
        while found := self._prune_rows("requests", "created_at", before):
            count += found
        while self._prune_rows("audits", "created_at", before):
            pass
        while self._prune_rows("claims", "claimed_at", before):
            pass
        return count

    def _prune_attempts(self, before: float) -> int:
        with self._store.writing() as connection:
            found = connection.execute(
                "SELECT id, day, month, budget_key, user_name, group_name, cost_microdollars"
                f" FROM attempts WHERE started_at < ? AND state = 'settled' {self._kept_for_others}"
                " ORDER BY started_at LIMIT ?",
                (before, PRUNED_AT_ONCE),
            ).fetchall()
            for (id_,) in [row[:1] for row in found]:
                connection.execute("DELETE FROM attempts WHERE id = ?", (id_,))
            spent: Counter[tuple[str, str, str, str]] = Counter()
            for _, day, month, key, user, group, cost in found:
                for window in (day, month):
                    spent[window, key, user, group] += cost
            keep_spent(connection, spent)
            return len(found)

    def _prune_rows(self, table: str, column: str, before: float) -> int:
        with self._store.writing() as connection:
            return connection.execute(
                f"DELETE FROM {table} WHERE id IN (SELECT id FROM {table}"
                f" WHERE {column} < ? {self._kept_for_others} LIMIT ?)",
                (before, PRUNED_AT_ONCE),
            ).rowcount

    # What has not gone on to a shared ledger yet is not deleted here.
    _kept_for_others = "AND id NOT IN (SELECT subject FROM outbox)"

    def claim(self, request_id: str) -> bool:
        """Take an id for one request. False if it was used; it stays used whatever comes of it."""
        # On the disk at once: it is paid for once, even if the power goes in between.
        with self._store.writing() as connection:
            row = {"id": request_id, "claimed_at": self._clock()}
            return not _used(connection, request_id) and insert_once(connection, "claims", row)

    def seen(self, request_id: str) -> bool:
        """Whether this id was used: by a request that was given it, or by a recorded one."""
        with self._store.reading() as connection:
            return _known(connection, "claims", "id", request_id) or _used(connection, request_id)

    def record(self, request: Request, reply: Reply, *, cost_avoided_microdollars: int = 0) -> None:
        """Write a finished request and its local attempts. A known id changes nothing."""
        now = self._clock()
        texts = stored_texts(request, reply) if request.store_text else {}
        row = reply_row(request, reply, now, cost_avoided_microdollars) | texts
        self._write_request(request, row, reply.attempts, now)

    def record_failure(
        self, request: Request, error: BaseException, attempts: Sequence[Attempt]
    ) -> None:
        """Write a request that raised. A known id changes nothing."""
        now = self._clock()
        texts = stored_texts(request, None) if request.store_text else {}
        row = failure_row(request, error, attempts, now) | texts
        self._write_request(request, row, attempts, now)

    def _write_request(
        self, request: Request, row: Row, attempts: Sequence[Attempt], now: float
    ) -> None:
        # "local" in the id: it must never equal that of a cloud attempt.
        local = [
            opened_attempt(f"{request.id}/local-{index}", request.id, Payer.of(request), now, 0)
            | settled_columns(attempt, now)
            for index, attempt in enumerate(attempts)
            if attempt.place != "cloud"  # those are written by reserve and settle
        ]
        # Wait for the disk if money was spent. A local answer's row may be lost in a crash.
        with self._store.writing(durable=len(local) < len(attempts)) as connection:
            if insert_once(connection, "requests", row):
                for one in local:
                    insert_once(connection, "attempts", one)
                self._changed(connection, "request", request.id)

    def _changed(
        self, connection: sqlite3.Connection, kind: str, subject: str, body: str = ""
    ) -> None:
        """For a ledger whose rows go on to another one."""

    def count_calls(self, changes: Mapping[ToolKey, Counts]) -> None:
        """Add to the counts of tools."""
        with self._store.writing(durable=False) as connection:
            add_counts(connection, changes)
            rows = [[*astuple(key), *astuple(change)] for key, change in changes.items()]
            self._changed(connection, "counts", new_request_id(), json.dumps(rows))

    def tool_counts(self) -> dict[ToolKey, Counts]:
        """The counts of every tool."""
        with self._store.reading() as connection:
            return read_counts(connection)

    def record_audit(self, audit: Audit) -> None:
        """Record how a kept answer compares with the cloud's. A known id changes nothing."""
        with self._store.writing(durable=False) as connection:
            if write_audit(connection, audit, self._clock()):
                self._changed(connection, "audit", audit.id)

    def audits(self, since: float = 0.0, task: str = "", most: int = MOST_AUDITS) -> list[Audit]:
        """The latest audits, newest first."""
        with self._store.reporting() as connection:
            return read_audits(connection, since, task, most)

    def record_verdict(self, said: Said) -> None:
        """Record what was said about an answer; it replaces what was said before.

        Only a person's verdict replaces that of a person.
        """
        with self._store.writing() as connection:
            row = verdict_row(said, self._clock())
            if write_verdict(connection, row):
                self._changed(connection, "verdict", said.id, json.dumps(row))

    def verdicts(self, workload: str) -> list[Said]:
        """The latest of a workload, in the order in which the answers were first judged."""
        with self._store.reading() as connection:
            return read_verdicts(connection, workload)

    def workloads(self) -> list[Workload]:
        """Those of the latest requests, the largest first."""
        with self._store.reporting() as connection:
            return read_workloads(connection)

    def lost(self) -> str:
        """What became of the ledger that was here before, if nobody has accepted it yet."""
        with self._store.reading() as connection:
            return _lost(connection)

    def accept(self) -> str:
        """Let budgets count from what is recorded now. Returns what was lost; empty: nothing."""
        with self._store.writing() as connection:
            words = _lost(connection)
            if words:
                write_note(connection, Note(self._clock(), *LOST, ""))
            return words

    def remaining(self) -> list[BudgetState]:
        """Every budget in its current window, in the order they were given."""
        with self._store.reporting() as connection:  # a writer that waits holds it up no longer
            return budget_states(connection, self._budgets, self._clock())

    def report(self, since: float | None = None) -> Report:
        """Spend, share kept on the device, latencies and reasons; `since` in Unix seconds."""
        with self._store.reporting() as connection:
            return make_report(connection, self._budgets, since, self._clock(), self._hours)

    def sum_up(self, stop: Callable[[], bool]) -> None:
        """Read the past month once, a day at a time, so that reports of it are quick."""
        for days in range(1, MONTH_DAYS + 1):
            if stop():
                return
            with self._store.reporting() as connection:
                now = self._clock()
                for sums in (ASKED, TRIED):
                    for _ in self._hours.rows(connection, sums, now - days * DAY_S, now):
                        pass

    def usage(
        self, since: float | None = None, by: By = "key", every: Periods = "", key: str = ""
    ) -> list[Usage]:
        """What each key, user or group has asked, spent and saved, in whole days of UTC."""
        with self._store.reporting() as connection:
            return read_usage(connection, since, by, every, key)

    def recent(self, limit: int = 20) -> list[dict[str, Any]]:
        """The latest requests, newest first, without their texts."""
        with self._store.reporting() as connection:
            return recent_requests(connection, limit)

    def judged(self, since: float) -> list[JudgedRequest]:
        """The latest few thousand requests with a measured confidence, newest first."""
        with self._store.reporting() as connection:
            return judged_requests(connection, since)

    def timeline(self, since: float, stretches: int) -> list[Stretch]:
        """Requests by source in equal stretches of time from `since` to now."""
        with self._store.reporting() as connection:
            return timeline(connection, since, self._clock(), stretches, self._hours)

    def get(self, request_id: str) -> dict[str, Any] | None:
        """One recorded request with all its attempts and, if stored, its texts."""
        with self._store.reading() as connection:
            return one_request(connection, request_id)

    def calibrations(self) -> list[tuple[str, str]]:
        """Task and calibration of the latest requests with a measured confidence."""
        with self._store.reading() as connection:
            return calibrations_in_use(connection)

    def confidences(self, task: str, calibration: str, limit: int) -> list[Confidence]:
        """The latest confidences of one calibration, newest first."""
        with self._store.reporting() as connection:
            return recent_confidences(connection, task, calibration, limit)

    def note(self, kind: str, subject: str, words: str) -> bool:
        """Record once that something began or, without words, ended. Returns whether it is news."""
        with self._store.writing(durable=False) as connection:
            before = latest_note(connection, kind, subject)
            news = bool(words) != bool(before and before.words)
            if news:
                note = Note(self._clock(), kind, subject, words)
                write_note(connection, note)
                self._changed(connection, "note", new_request_id(), json.dumps(astuple(note)))
            return news

    def noted(self, kind: str, subject: str) -> Note | None:
        with self._store.reading() as connection:
            return latest_note(connection, kind, subject)

    def traffic(self, state: BudgetState) -> Traffic:
        """What to expect until a budget resets."""
        with self._store.reading() as connection:
            return traffic(connection, state.budget, self._clock(), state.resets_at)

    def verify(self) -> list[str]:
        """What is wrong with the file, in words; empty if nothing is. Reads all of it."""
        with self._store.reporting() as connection:
            found = [line for (line,) in connection.execute("PRAGMA integrity_check")]
            problems = [] if found == ["ok"] else found
            return problems + wrong_totals(connection)


def keep_spent(
    connection: sqlite3.Connection, spent: Mapping[tuple[str, str, str, str], int]
) -> None:
    """What deleted attempts have cost, by window, key, user and group: the triggers took it away
    from the totals, and it belongs there."""
    add = "settled_microdollars = {0}.settled_microdollars + excluded.settled_microdollars"
    people = "(window_name, budget_key, user_name, group_name)"
    for (window, key, user, group), cost in spent.items():
        if not cost:
            continue
        tables = ("pruned", "spend_of_people") if user or group else ("pruned",)
        for table in tables:
            connection.execute(
                f"INSERT INTO {table} {people[:-1]}, settled_microdollars, reserved_microdollars)"
                f" VALUES (?, ?, ?, ?, ?, 0) ON CONFLICT {people} DO UPDATE"
                f" SET {add.format(table)}",
                (window, key, user, group, cost),
            )
        for of in {"", key}:
            connection.execute(
                "INSERT INTO spend (window_name, budget_key, settled_microdollars,"
                " reserved_microdollars) VALUES (?, ?, ?, 0)"
                f" ON CONFLICT (window_name, budget_key) DO UPDATE SET {add.format('spend')}",
                (window, of, cost),
            )


def _lost(connection: sqlite3.Connection) -> str:
    note = latest_note(connection, *LOST)
    return note.words if note else ""


def _refuse_if_lost(connection: sqlite3.Connection, path: Path) -> None:
    if words := _lost(connection):
        raise LedgerUnavailable(
            f"the ledger {str(path)!r}: {words}; what was spent before is not known, so nothing "
            "that has a budget leaves until you say `edgewise ledger --accept`"
        )


def settle_open(connection: sqlite3.Connection, attempt_id: str, columns: Row) -> bool:
    """Whether there was a reservation, or the guess of a sweep; then this is how it ended."""
    changes = ", ".join(f"{column} = :{column}" for column in columns)
    cursor = connection.execute(
        f"UPDATE attempts SET {changes} WHERE id = :id"
        " AND (state = 'reserved' OR outcome = 'abandoned')",
        {name: bindable(value) for name, value in (columns | {"id": attempt_id}).items()},
    )
    return cursor.rowcount == 1


def settle_expired(connection: sqlite3.Connection, now: float) -> int:
    # The money may have been spent: the amount stands until more is known.
    cursor = connection.execute(
        "UPDATE attempts SET state = 'settled', outcome = 'abandoned', settled_at = :now"
        " WHERE state = 'reserved' AND expires_at <= :now",
        {"now": now},
    )
    return cursor.rowcount


def _known(connection: sqlite3.Connection, table: str, column: str, value: str) -> bool:
    found = connection.execute(
        f"SELECT 1 FROM {table} WHERE {column} = ? LIMIT 1", (bindable(value),)
    )
    return found.fetchone() is not None


def _used(connection: sqlite3.Connection, request_id: str) -> bool:
    """By a recorded request, or by a cloud call of a lost one."""
    return _known(connection, "requests", "id", request_id) or _known(
        connection, "attempts", "request_id", request_id
    )


def _payer(connection: sqlite3.Connection, request_id: str) -> Payer:
    """Of an attempt that was not reserved: that of its request, if known."""
    row = connection.execute(
        "SELECT budget_key, user_name, group_name FROM attempts WHERE request_id = :id UNION ALL"
        " SELECT budget_key, user_name, group_name FROM requests WHERE id = :id LIMIT 1",
        {"id": bindable(request_id)},
    ).fetchone()
    return Payer(*row) if row else Payer()


def wrong_totals(connection: sqlite3.Connection) -> list[str]:
    """Windows whose running total is not the sum of their attempts."""
    wrong = connection.execute(
        """
        WITH charges AS (
            SELECT day AS window_name, budget_key, state, cost_microdollars FROM attempts
            UNION ALL SELECT month, budget_key, state, cost_microdollars FROM attempts
            UNION ALL SELECT window_name, budget_key, 'settled', settled_microdollars FROM pruned
        ), both_keys AS (
            SELECT * FROM charges WHERE budget_key <> ''
            UNION ALL SELECT window_name, '', state, cost_microdollars FROM charges
        ), sums AS (
            SELECT window_name, budget_key,
                SUM(CASE state WHEN 'settled' THEN cost_microdollars ELSE 0 END) AS settled,
                SUM(CASE state WHEN 'reserved' THEN cost_microdollars ELSE 0 END) AS reserved
            FROM both_keys GROUP BY window_name, budget_key
        )
        SELECT window_name, budget_key FROM sums LEFT JOIN spend USING (window_name, budget_key)
        WHERE settled <> COALESCE(settled_microdollars, 0)
            OR reserved <> COALESCE(reserved_microdollars, 0)
        UNION SELECT window_name, budget_key FROM spend
            LEFT JOIN sums USING (window_name, budget_key)
        WHERE settled IS NULL AND (settled_microdollars <> 0 OR reserved_microdollars <> 0)
        """
    )
    return [f"the total of {window} for key {key!r} is wrong" for window, key in wrong]


# -- one request and its row -----------------------------------------------------------------------


Answer = TypeVar("Answer", bound=Reply)
Watcher = Callable[[Request, Reply], None]  # what it raises is only logged


class Every:
    """Calls a watcher at the first answer, and at every nth after it."""

    def __init__(self, count: int, watcher: Watcher) -> None:
        self._count = count
        self._watcher = watcher
        self._seen = 0

    def __call__(self, request: Request, reply: Reply) -> None:
        self._seen += 1  # two threads at once may skip a count, which does no harm
        if self._seen % self._count == 1:
            self._watcher(request, reply)


@dataclass(slots=True)
class RequestRecorder:
    """`rates`: what the cloud would have charged per million tokens, in and out.

    `watchers` are called for every answer, after it is recorded and before the user has it. They
    must be quick, and do slow work on their own thread.
    """

    ledger: Book
    rates: Callable[[], tuple[int, int]]
    watchers: Sequence[Watcher] = ()
    _told: str = ""  # the trouble with the ledger that the log has already

    def claim(self, request_id: str) -> None:
        """Take an id from outside. Raises InvalidRequest if it was used before."""
        try:
            claimed = self.ledger.claim(request_id)
        except LedgerError as error:  # a ledger that cannot tell also lets nothing out
            self._tell(request_id, error)
            return
        if not claimed:
            raise InvalidRequest(f"request id {request_id!r} was used before")

    def keep(self, request: Request, work: Callable[[list[Attempt]], Answer]) -> Answer:
        """The answer of `work`, recorded."""
        attempts: list[Attempt] = []
        try:
            reply = work(attempts)
        except Exception as error:  # somebody else's cloud or policy may raise anything
            self.failed(request, error, attempts)
            raise
        except (KeyboardInterrupt, SystemExit):  # the second by a signal
            self.left(request, attempts)
            raise
        return self.answered(request, reply)

    def answered(self, request: Request, reply: Answer) -> Answer:
        """The answer; with the reason, if it could not be recorded."""
        try:
            # The rates are for chat, which costs many times as much as these.
            counts = reply.source == "local" and request.task not in ("embed", "decide", "speak")
            avoided = avoided_microdollars(reply, self.rates()) if counts else 0
            self.ledger.record(request, reply, cost_avoided_microdollars=avoided)
            self._told = ""
        except LedgerError as error:  # the answer matters more than its record
            self._tell(request.id, error)
            reply = replace(reply, unrecorded=str(error))
        for watcher in self.watchers:
            try:
                watcher(request, reply)
            except Exception:  # noqa: BLE001  # a watcher must not spoil the answer
                _log.exception("a watcher failed at request %s", request.id)
        return reply

    def failed(self, request: Request, error: Exception, attempts: Sequence[Attempt]) -> None:
        try:
            self.ledger.record_failure(request, error, attempts)
        except LedgerError as failure:
            self._tell(request.id, failure)

    def _tell(self, request_id: str, error: LedgerError) -> None:
        """In the log; loudly only once for each trouble."""
        level = logging.DEBUG if str(error) == self._told else logging.WARNING
        self._told = str(error)
        _log.log(level, "request %s is not in the ledger: %s", request_id, error)

    def left(self, request: Request, attempts: Sequence[Attempt]) -> None:
        """The user left before the end."""
        self.failed(request, Cancelled("the user left"), attempts)
