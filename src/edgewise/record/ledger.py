"""The ledger: records every request and attempt, and pays for cloud calls out of budgets."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

from edgewise.errors import LedgerUnavailable
from edgewise.record.audits import MOST_AUDITS, Audit, read_audits, write_audit
from edgewise.record.book import Payee, Shared
from edgewise.record.budget import Budget, BudgetState, budget_states, refuse_if_over
from edgewise.record.cooldown import Interval, handoff_of, refuse_if_too_soon, wait_s
from edgewise.record.report import (
    LOST,
    Confidence,
    JudgedRequest,
    Note,
    Report,
    Stretch,
    Traffic,
    calibrations_in_use,
    judged_requests,
    latest_note,
    make_report,
    one_request,
    recent_confidences,
    recent_requests,
    timeline,
    traffic,
    write_note,
)
from edgewise.record.rows import (
    Row,
    bindable,
    checked_amount,
    failure_row,
    insert_once,
    opened_attempt,
    reply_row,
    settled_columns,
    stored_texts,
)
from edgewise.record.store import Store
from edgewise.record.tool_counts import Counts, ToolKey, add_counts, read_counts
from edgewise.types.messages import Request, new_request_id
from edgewise.types.replies import Attempt, Reply


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
        self._budgets = tuple(budgets)
        self._intervals = tuple(each for each in intervals if each.seconds)
        self._reservation_s = reservation_s
        self._clock = clock
        self._store = Store(path, busy_s=busy_s, clock=clock)

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

    def reserve(self, attempt_id: str, request: Request, config: Payee, microdollars: int) -> None:
        """Set money aside before a cloud call. Repeating an attempt id changes nothing.

        Raises BudgetExceeded if a budget of this request does not cover the amount, and TooSoon if
        another handoff left less than an interval ago. If it has a budget, and what was spent is
        not known because the ledger was lost, raises LedgerUnavailable until `accept`.
        """
        checked_amount(microdollars)
        with self._store.writing() as connection:
            # Read the clock under the lock, so that windows follow the order of writing.
            now = self._clock()
            settle_expired(connection, now)
            if _known(connection, "attempts", "id", attempt_id):
                return
            refuse_if_too_soon(*wait_s(connection, self._intervals, request, now))
            applying = [each for each in self._budgets if each.applies_to(request.budget_key)]
            if applying:
                _refuse_if_lost(connection, self.path)
            refuse_if_over(budget_states(connection, applying, now), microdollars)
            row = opened_attempt(attempt_id, request.id, request.budget_key, now, microdollars)
            row |= {
                "place": "cloud",
                "backend": config.name,
                "model": config.model,
                "state": "reserved",
                "expires_at": now + self._reservation_s,
                "task": request.task,
                "handoff": handoff_of(request),
            }
            insert_once(connection, "attempts", row)

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
                key = _budget_key(connection, request_id)
                row = opened_attempt(attempt_id, request_id, key, now, 0)
                insert_once(connection, "attempts", row | columns)

    def sweep(self, now: float | None = None) -> int:
        """Settle every expired reservation at its full amount; return how many there were."""
        with self._store.writing() as connection:
            return settle_expired(connection, self._clock() if now is None else now)

    def seen(self, request_id: str) -> bool:
        """Whether this id was used: by a recorded request, or by a cloud call of a lost one."""
        with self._store.reading() as connection:
            return _known(connection, "requests", "id", request_id) or _known(
                connection, "attempts", "request_id", request_id
            )

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
            opened_attempt(f"{request.id}/local-{index}", request.id, request.budget_key, now, 0)
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
        with self._store.reading() as connection:
            return read_audits(connection, since, task, most)

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
        with self._store.reading() as connection:
            return budget_states(connection, self._budgets, self._clock())

    def report(self, since: float | None = None) -> Report:
        """Spend, share kept on the device, latencies and reasons; `since` in Unix seconds."""
        with self._store.reading() as connection:
            return make_report(connection, self._budgets, since, self._clock())

    def recent(self, limit: int = 20) -> list[dict[str, Any]]:
        """The latest requests, newest first, without their texts."""
        with self._store.reading() as connection:
            return recent_requests(connection, limit)

    def judged(self, since: float) -> list[JudgedRequest]:
        """The latest few thousand requests with a measured confidence, newest first."""
        with self._store.reading() as connection:
            return judged_requests(connection, since)

    def timeline(self, since: float, stretches: int) -> list[Stretch]:
        """Requests by source in equal stretches of time from `since` to now."""
        with self._store.reading() as connection:
            return timeline(connection, since, self._clock(), stretches)

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
        with self._store.reading() as connection:
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
        with self._store.reading() as connection:
            found = [line for (line,) in connection.execute("PRAGMA integrity_check")]
            problems = [] if found == ["ok"] else found
            return problems + wrong_totals(connection)


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


def _budget_key(connection: sqlite3.Connection, request_id: str) -> str:
    """The key of an attempt that was not reserved: that of its request, if known."""
    row = connection.execute(
        "SELECT budget_key FROM attempts WHERE request_id = :id"
        " UNION ALL SELECT budget_key FROM requests WHERE id = :id LIMIT 1",
        {"id": bindable(request_id)},
    ).fetchone()
    return str(row[0]) if row else ""


def wrong_totals(connection: sqlite3.Connection) -> list[str]:
    """Windows whose running total is not the sum of their attempts."""
    wrong = connection.execute(
        """
        WITH charges AS (
            SELECT day AS window_name, budget_key, state, cost_microdollars FROM attempts
            UNION ALL SELECT month, budget_key, state, cost_microdollars FROM attempts
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
