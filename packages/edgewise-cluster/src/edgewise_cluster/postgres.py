"""The ledger in PostgreSQL: connections that never hang, and SQLite's queries in its dialect."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import select
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote, urlsplit

from typing_extensions import override

from edgewise.cloud.provider import ProviderConfig
from edgewise.errors import ExtraMissing, LedgerUnavailable, StoreAway
from edgewise.record.ledger import Counts, Ledger, ToolKey, wrong_totals
from edgewise.record.report import Hours
from edgewise.record.rows import (
    MASK,
    Budget,
    BudgetState,
    Interval,
    Payer,
    Row,
    bindable,
    budgets_for,
    checked_amount,
    handoff_of,
    opened_attempt,
    refuse_if_over,
    refuse_if_too_soon,
    refuse_known,
    settled_columns,
    window_end,
)
from edgewise.types.messages import Request, new_request_id
from edgewise.types.replies import Attempt
from edgewise_cluster.postgres_schema import (
    MIGRATIONS,
    OTHER_WORDS,
    SCHEMA,
    SCHEMA_LOCK,
)

if TYPE_CHECKING:
    import sqlite3

    import psycopg

ANSWER_S = 2.0  # for the database to answer; a hung one must not hang a request
AWAY_S = 2.0  # after a failure nobody asks it for so long: requests fail fast
REPORT_S = 10.0  # what a report may take longer: nobody but another report waits for it
CONNECTIONS = 4  # of one process; more would only wait for each other's locks
# A child must neither use nor close a connection inherited through fork().
_inherited: list[psycopg.Connection[Any]] = []
_PARAMETER = re.compile(r"(?<!:):([a-z_]+)|\?")


def shown_url(url: str) -> str:
    """The address without its password: of settings, errors and `doctor`."""
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
        user = f"{parts.username}@" if parts.username else ""
        return f"postgresql://{user}{parts.hostname or ''}{port}{parts.path}"
    except ValueError:
        return "postgresql://…"


class PostgresStore:
    """Transactions in one database. As `Store`, but every failure is StoreAway."""

    def __init__(self, url: str) -> None:
        if importlib.util.find_spec("psycopg") is None:
            raise ExtraMissing("postgres", "psycopg")
        self._url = url
        self.where = shown_url(url)
        self.path = Path(self.where)  # only for words
        self._forget()

    def _forget(self) -> None:
        self._process = os.getpid()
        self._requests, self._reports = _Places(CONNECTIONS, 0.0), _Places(1, REPORT_S)
        self._migrated = False
        self._away_until, self._why = 0.0, ""

    def away(self) -> str:
        """Why nobody asks the database just now; empty: they may."""
        return self._why if time.monotonic() < self._away_until else ""

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """One snapshot of the database."""
        with self._transaction("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY") as connection:
            yield connection

    @contextmanager
    def reporting(self) -> Iterator[sqlite3.Connection]:
        """The same on a connection of its own, for what may read every row. That it is slow is no
        sign that the database is away."""
        begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
        with self._transaction(begin, report=True) as connection:
            yield connection

    @contextmanager
    def writing(self, *, durable: bool = True) -> Iterator[sqlite3.Connection]:
        """All or nothing; on the database's disk when the block has ended."""
        with self._transaction("BEGIN") as connection:
            yield connection

    @contextmanager
    def _transaction(self, begin: str, *, report: bool = False) -> Iterator[sqlite3.Connection]:
        with self._connection(report=report) as connection:
            connection.execute(begin)
            yield cast("sqlite3.Connection", _Dialect(connection))
            connection.execute("COMMIT")

    def call(self, function: str, *values: object) -> Any:
        """What one of our functions returns: one statement, one transaction, one round trip."""
        places = ", ".join(["%s"] * len(values))
        with self._connection() as connection:
            found = connection.execute(f"SELECT {function}({places})", _clean(values)).fetchone()
            return found[0] if found else None

    @contextmanager
    def _connection(self, *, report: bool = False) -> Iterator[psycopg.Connection[Any]]:
        import psycopg  # noqa: PLC0415  # an extra

        if self._process != os.getpid():
            _inherited.extend((*self._requests.idle, *self._reports.idle))
            self._forget()
        if why := self.away():
            raise StoreAway(why)
        places = self._reports if report else self._requests
        if not places.free.acquire(timeout=ANSWER_S + places.more_s):
            kind = LedgerUnavailable if report else StoreAway
            raise kind(f"the ledger {self.where}: too many wait for it")
        connection = None
        try:
            connection = places.take() or self._connect(places.more_s)
            yield connection
            places.idle.append(connection)
        except (psycopg.Error, OSError) as error:
            # None: the cause may quote the password
            raise self._failed(error, connection, report=report) from None
        except BaseException:
            if connection is not None:
                connection.close()  # rolls back
            raise
        finally:
            places.free.release()

    def _failed(
        self, error: Exception, connection: psycopg.Connection[Any] | None, *, report: bool
    ) -> LedgerUnavailable:
        import psycopg  # noqa: PLC0415

        if connection is not None:
            connection.close()
        why = f"the ledger {self.where}: {self._words(error)}"
        if report and isinstance(error, psycopg.errors.QueryCanceled):
            # It is there, only slow. What this machine alone knows would be another report.
            return LedgerUnavailable(why)
        # What is wrong with one statement says nothing about the next one.
        if not isinstance(error, psycopg.DataError | psycopg.IntegrityError):
            self._away_until, self._why = time.monotonic() + AWAY_S, why
            self._close_idle()
        return StoreAway(why, asked=connection is not None)

    def _words(self, error: Exception) -> str:
        """The cause on one line, without any part of the password."""
        if type(error).__name__ == "_WaitTimeout":
            return f"no answer in {ANSWER_S:g} s"
        words = " ".join(str(error).split())[:300]
        rest = self._url.partition("://")[2]
        secret = rest.partition(":")[2] if "@" in rest else ""
        for piece in {secret.rpartition("@")[0], *re.split(r"[@/:?&=]", secret.rpartition("@")[0])}:
            for each in (piece, unquote(piece)):
                if len(each) > 2:
                    words = words.replace(each, MASK)
        return words or type(error).__name__

    def _connect(self, more_s: float) -> psycopg.Connection[Any]:
        connection = _connection_class().connect(
            self._url,
            autocommit=True,
            connect_timeout=int(ANSWER_S),
            tcp_user_timeout=int(1000 * ANSWER_S),
            application_name="edgewise",
        )
        try:
            connection.adapters.register_loader("numeric", _number_loader())
            connection.execute(
                "SELECT set_config('search_path', %s, false),"
                " set_config('statement_timeout', %s, false),"
                " set_config('synchronous_commit', CASE current_setting('synchronous_commit')"
                " WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, false)",
                (SCHEMA, str(int(1000 * (more_s or ANSWER_S)))),
            )
            connection.more_s = more_s
            if not self._migrated:
                self._migrate(connection)
                self._migrated = True
        except BaseException:
            connection.close()
            raise
        return cast("psycopg.Connection[Any]", connection)

    def _migrate(self, connection: psycopg.Connection[Any]) -> None:
        """Apply the steps that are missing, in one transaction: all of them, or nothing."""
        if self._applied(connection) == {step.name for step in MIGRATIONS}:
            return
        with connection.transaction():
            connection.execute(f"SELECT {SCHEMA_LOCK}")
            applied = self._applied(connection)  # another process may just have done it
            if applied is None:
                connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
                connection.execute(
                    "CREATE TABLE migrations"
                    " (name TEXT NOT NULL PRIMARY KEY, applied_at TIMESTAMPTZ DEFAULT now())"
                )
            for step in MIGRATIONS:
                if step.name not in (applied or ()):
                    for statement in step.statements:
                        connection.execute(statement)
                    connection.execute("INSERT INTO migrations VALUES (%s)", (step.name,))

    def _applied(self, connection: psycopg.Connection[Any]) -> set[str] | None:
        """The steps that the database has. Raises StoreAway if a newer edgewise wrote it."""
        # Not to_regclass: after the wait for the lock it may still answer from its cache.
        table = connection.execute(
            "SELECT 1 FROM pg_class JOIN pg_namespace AS place ON relnamespace = place.oid"
            " WHERE relname = 'migrations' AND nspname = %s",
            (SCHEMA,),
        )
        if table.fetchone() is None:
            return None
        applied = {name for (name,) in connection.execute("SELECT name FROM migrations")}
        if newer := applied - {step.name for step in MIGRATIONS}:
            raise StoreAway(
                f"the ledger {self.where} was written by a newer edgewise (it has {max(newer)!r}); "
                "upgrade edgewise"
            )
        return applied

    def close(self) -> None:
        """Close all connections that nobody uses; the next use opens new ones."""
        if self._process == os.getpid():
            self._close_idle()

    def _close_idle(self) -> None:
        for places in (self._requests, self._reports):
            with contextlib.suppress(IndexError):
                while True:
                    places.idle.pop().close()


class _Places:
    """So many connections that may be used at once, and those that nobody uses just now."""

    def __init__(self, most: int, more_s: float) -> None:
        self.free = threading.BoundedSemaphore(most)
        self.more_s = more_s  # that an answer may take longer than others
        self.idle: list[psycopg.Connection[Any]] = []

    def take(self) -> psycopg.Connection[Any] | None:
        """An idle connection that still stands. One whose server left has something to read."""
        while self.idle:
            try:
                connection = self.idle.pop()
            except IndexError:
                return None
            if not connection.closed and not _readable(connection.fileno()):
                return connection
            connection.close()
        return None


class PostgresLedger(Ledger):
    """A ledger in PostgreSQL alone. Reads as the one in a file; money goes through its functions.

    Without a `clock` the database's clock counts, so that all processes have the same windows.
    """

    def __init__(
        self,
        url: str,
        *,
        budgets: Sequence[Budget] = (),
        intervals: Sequence[Interval] = (),
        reservation_s: float = 150.0,
        clock: Callable[[], float] | None = None,
    ) -> None:
        super().__init__(
            Path(),
            budgets=budgets,
            intervals=intervals,
            reservation_s=reservation_s,
            clock=clock or time.time,
        )
        self._own_clock = clock
        self.database = PostgresStore(url)
        self._store = self.database  # type: ignore[assignment]  # the part of it that is used here
        self._hours = Hours()  # other machines' rows come late

    @override
    def sum_up(self, stop: Callable[[], bool]) -> None:
        """Nothing is remembered, so there is nothing to read ahead."""

    _kept_for_others = ""  # nothing goes on from here

    @property
    @override
    def where(self) -> str:
        return self.database.where

    @override
    def away(self) -> str:
        return self.database.away()

    def _now(self) -> float | None:
        return self._own_clock() if self._own_clock else None

    @override
    def reserve(
        self, attempt_id: str, request: Request, config: ProviderConfig, microdollars: int
    ) -> None:
        self.reserve_row(reserved_row(attempt_id, request, config, microdollars, 0.0), request)

    def reserve_row(self, row: Row, request: Request) -> None:
        """The same of a row that is made."""
        microdollars = checked_amount(row["reserved_microdollars"])
        budgets = budgets_for(self._budgets, Payer.of(request))
        intervals = [each for each in self._intervals if each.applies_to(request)]
        asked = {
            "now": self._now(),
            "reservation_s": self._reservation_s,
            "row": _clean(row),
            "budgets": [
                {
                    "key": bindable(b.key),
                    "window": b.window,
                    "limit": b.limit_microdollars,
                    "of": b.of,
                    "name": bindable(b.name),
                }
                for b in budgets
            ],
            "intervals": [
                {"seconds": each.seconds, "key": bindable(each.key), "task": each.task}
                for each in intervals
            ],
        }
        found = self.database.call("reserve", json.dumps(_clean(asked)))
        if found["reserved"]:
            return
        if found.get("known"):
            refuse_known(row["id"])
        waits = zip(found["waits"], intervals, strict=True)
        wait, words = max(((s, each.in_words()) for s, each in waits), default=(0.0, ""))
        refuse_if_too_soon(wait, words)
        now = float(found["now"])
        refuse_if_over(
            [
                BudgetState(budget, int(spent), int(held), 0, window_end(now, budget.window))
                for budget, (spent, held) in zip(budgets, found["states"], strict=True)
            ],
            microdollars,
        )
        raise LedgerUnavailable(f"the ledger {self.where} refused without a reason")

    @override
    def settle(self, attempt_id: str, attempt: Attempt) -> None:
        now = self._now()
        row = settled_row(attempt_id, attempt, self._clock() if now is None else now)
        self.settle_row(row | {"settled_at": now})

    def settle_row(self, row: Row) -> None:
        """The same of a row that a file has."""
        self.database.call("settle", json.dumps(_clean(row)))

    @override
    def sweep(self, now: float | None = None) -> int:
        return int(self.database.call("sweep", self._now() if now is None else now))

    @override
    def count_calls(self, changes: Mapping[ToolKey, Counts]) -> None:
        raise NotImplementedError  # only shipped, by the number of the change

    @override
    def tool_counts(self) -> dict[ToolKey, Counts]:
        with self._store.reading() as connection:
            rows = connection.execute(
                "SELECT name, schema_hash, SUM(confirmed), SUM(changed) FROM tool_record"
                " GROUP BY 1, 2"
            )
            return {ToolKey(name, key): Counts(right, wrong) for name, key, right, wrong in rows}

    @override
    def verify(self) -> list[str]:
        with self._store.reporting() as connection:
            return wrong_totals(connection)


def reserved_row(
    attempt_id: str, request: Request, config: ProviderConfig, microdollars: int, now: float
) -> Row:
    """A whole row of an attempt that is about to leave."""
    row = opened_attempt(attempt_id, request.id, Payer.of(request), now, microdollars)
    return row | {
        "place": "cloud",
        "backend": config.name,
        "model": config.model,
        "state": "reserved",
        "expires_at": None,
        "task": request.task,
        "handoff": handoff_of(request),
        "claim": new_request_id(),
        "audio_seconds": 0.0,
        "redacted": "{}",
        "price_guessed": 0,
    }


def settled_row(attempt_id: str, attempt: Attempt, now: float) -> Row:
    """A whole row of an attempt of which nothing is known but how it ended."""
    request_id = attempt_id.rpartition("/")[0] or attempt_id
    opened = opened_attempt(attempt_id, request_id, Payer(), now, 0)
    return opened | {"task": "", "handoff": ""} | settled_columns(attempt, now)


class _Dialect:
    """A connection that takes SQLite's parameters and words."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def execute(self, query: str, values: Any = ()) -> psycopg.Cursor[Any]:
        return self._connection.execute(_translated(query), _clean(values))

    def executemany(self, query: str, rows: Sequence[Any]) -> None:
        with self._connection.cursor() as cursor:
            cursor.executemany(_translated(query), [_clean(row) for row in rows])


@cache
def _translated(query: str) -> str:
    for word, other in OTHER_WORDS.items():
        query = query.replace(word, other)
    return _PARAMETER.sub(lambda found: f"%({found[1]})s" if found[1] else "%s", query)


def _clean(value: Any) -> Any:
    """The same without the character that PostgreSQL cannot store, and truths as numbers."""
    if isinstance(value, str):
        return str(bindable(value)).replace("\0", "\ufffd")
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, Mapping):
        return {key: _clean(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(each) for each in value]
    return value


@cache
def _connection_class() -> Any:
    import psycopg  # noqa: PLC0415
    from psycopg.abc import PQGen  # noqa: PLC0415

    class Patient(psycopg.Connection[Any]):
        """Every wait for the server has an end; libpq has none."""

        more_s = 0.0

        @override
        def wait(self, gen: PQGen[Any], interval: float = 0.1, timeout: float | None = None) -> Any:
            longest = ANSWER_S + self.more_s
            return super().wait(gen, interval, longest if timeout is None else timeout)

    return Patient


@cache
def _number_loader() -> Any:
    from psycopg.adapt import Loader  # noqa: PLC0415

    class Numbers(Loader):
        """Sums of whole numbers are whole numbers, of any size."""

        @override
        def load(self, data: Any) -> int | float:
            text = bytes(data)
            return int(text) if text.lstrip(b"-").isdigit() else float(text)

    return Numbers


def _readable(descriptor: int) -> bool:
    if hasattr(select, "poll"):
        waiting = select.poll()
        waiting.register(descriptor, select.POLLIN)
        return bool(waiting.poll(0))
    return bool(select.select([descriptor], [], [], 0)[0])
