"""One SQLite file: opened on first use, shared by threads, one error class for every failure."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from edgewise.errors import LedgerUnavailable
from edgewise.record.report import LOST, Note, write_note

try:
    import fcntl
except ImportError:  # Windows: without turns, as SQLite does it
    fcntl = None  # type: ignore[assignment]


class Turns:
    """A queue in front of a file: the kernel's, of an advisory lock on the file's folder.

    Whoever is first in the queue waits for the file itself and lets the next one move up when it
    has it. So nobody who comes later gets it first. A process that dies leaves the queue.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._descriptor = -1

    @contextmanager
    def first(self, wait_s: float) -> Iterator[None]:
        """Wait for the turn, at most so long: one who stopped in the queue must not stop all."""
        if fcntl is None:
            yield
            return
        if self._descriptor < 0:
            self._descriptor = os.open(self._folder, os.O_RDONLY | os.O_CLOEXEC)
        held = _lock(self._descriptor, wait_s)
        try:
            yield
        finally:
            if held:
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            else:
                self.close()  # a thread still waits on it: the next turn has a place of its own

    def close(self) -> None:
        """In a forked child too: the descriptor is the child's, the lock the parent's."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def _lock(descriptor: int, wait_s: float) -> bool:
    """Whether the lock is held. A kernel's wait has no end, so another thread does the waiting."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except OSError:
        pass
    waiting = _Waiting(os.dup(descriptor))
    threading.Thread(target=waiting.wait, name="edgewise-turn", daemon=True).start()
    return waiting.got(wait_s)


class _Waiting:
    """One wait in the kernel's queue, with a way to leave it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor  # the same open file, so the same lock
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._held = self._left = False

    def wait(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
            with self._lock:
                self._held = not self._left
            if self._left:
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        except OSError:
            pass  # a file system without locks: no turns
        finally:
            os.close(self._descriptor)
            self._done.set()

    def got(self, wait_s: float) -> bool:
        self._done.wait(wait_s)
        with self._lock:
            self._left = not self._held
            return self._held


# -- the tables, step by step ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Migration:
    """One step. The number in its name gives the order; a published step is never edited."""

    name: str
    statements: tuple[str, ...]


_REQUESTS = """
CREATE TABLE requests (
    id TEXT NOT NULL PRIMARY KEY,
    created_at REAL NOT NULL,
    task TEXT NOT NULL,
    policy TEXT NOT NULL,
    handoff TEXT NOT NULL,
    private INTEGER NOT NULL,
    budget_key TEXT NOT NULL,
    source TEXT NOT NULL,
    model TEXT NOT NULL,
    decision_code TEXT NOT NULL,
    reason TEXT NOT NULL,
    degraded INTEGER NOT NULL,
    degraded_code TEXT NOT NULL,
    needs_cloud_handoff INTEGER NOT NULL,
    cloud_handoff INTEGER NOT NULL,
    truncated INTEGER NOT NULL,
    confidence REAL,
    threshold REAL,
    decided_after_tokens INTEGER,
    features TEXT NOT NULL,
    calibration TEXT NOT NULL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cost_microdollars INTEGER NOT NULL,
    cost_avoided_microdollars INTEGER NOT NULL,
    first_token_ms REAL,
    total_ms REAL,
    finish_reason TEXT NOT NULL,
    error_code TEXT NOT NULL,
    error TEXT NOT NULL,
    prompt_text TEXT,
    reply_text TEXT,
    tool_calls_text TEXT
)
"""

_ATTEMPTS = """
CREATE TABLE attempts (
    id TEXT NOT NULL PRIMARY KEY,
    request_id TEXT NOT NULL,
    place TEXT NOT NULL,
    backend TEXT NOT NULL,
    model TEXT NOT NULL,
    budget_key TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('reserved', 'settled')),
    started_at REAL NOT NULL,
    day TEXT NOT NULL,
    month TEXT NOT NULL,
    expires_at REAL,
    settled_at REAL,
    outcome TEXT NOT NULL,
    error TEXT NOT NULL,
    tries INTEGER NOT NULL,
    first_token_ms REAL,
    total_ms REAL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL,
    shown_chars INTEGER NOT NULL,
    reserved_microdollars INTEGER NOT NULL CHECK (reserved_microdollars >= 0),
    cost_microdollars INTEGER NOT NULL CHECK (cost_microdollars >= 0),
    estimated INTEGER NOT NULL
)
"""

# What budgets read: one row per window and key, so that a check costs the same at any size.
# Key '' is the sum over all keys.
_SPEND = """
CREATE TABLE spend (
    window_name TEXT NOT NULL,
    budget_key TEXT NOT NULL,
    settled_microdollars INTEGER NOT NULL,
    reserved_microdollars INTEGER NOT NULL,
    PRIMARY KEY (window_name, budget_key)
) WITHOUT ROWID
"""


# How the device's calls of each tool turned out, without their content.
_TOOL_RECORD = """
CREATE TABLE tool_record (
    name TEXT NOT NULL,
    schema_hash TEXT NOT NULL,
    confirmed INTEGER NOT NULL,
    changed INTEGER NOT NULL,
    PRIMARY KEY (name, schema_hash)
) WITHOUT ROWID
"""


# Seconds of sound that a provider charged for.
_AUDIO_SECONDS = tuple(
    f"ALTER TABLE {table} ADD COLUMN audio_seconds REAL NOT NULL DEFAULT 0"
    for table in ("requests", "attempts")
)


# What left as placeholders, by kind: counts and nothing else.
_REDACTED = ("ALTER TABLE attempts ADD COLUMN redacted TEXT NOT NULL DEFAULT '{}'",)

# Which attempts are one handoff, and of which task: least times between handoffs read them.
_HANDOFFS = (
    "ALTER TABLE attempts ADD COLUMN task TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE attempts ADD COLUMN handoff TEXT NOT NULL DEFAULT ''",
    "CREATE INDEX handoffs_by_time ON attempts (started_at) WHERE place = 'cloud'",
)


# Answers kept on the device that were also asked of the cloud. Texts only on request.
_AUDITS = """
CREATE TABLE audits (
    id TEXT NOT NULL PRIMARY KEY,
    request_id TEXT NOT NULL,
    created_at REAL NOT NULL,
    task TEXT NOT NULL,
    model TEXT NOT NULL,
    calibration TEXT NOT NULL,
    confidence REAL,
    threshold REAL,
    share REAL NOT NULL,
    agree REAL NOT NULL CHECK (agree BETWEEN 0 AND 1),
    judged_by TEXT NOT NULL,
    cost_microdollars INTEGER NOT NULL CHECK (cost_microdollars >= 0),
    features TEXT NOT NULL,
    cloud_text TEXT
)
"""


# What began or ended: a calibration that no longer fits, or fits again.
_NOTES = """
CREATE TABLE notes (
    created_at REAL NOT NULL,
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    words TEXT NOT NULL
)
"""


# What goes on to a shared ledger, in the order of writing: rows by their id, the rest as JSON.
# `stuck`: why it cannot go on.
_OUTBOX = """
CREATE TABLE outbox (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    body TEXT NOT NULL,
    stuck TEXT NOT NULL DEFAULT ''
)
"""


# Ids that requests were given from outside, taken before anything is done for them; and which
# reservation an attempt is, so that another one of the same id does not settle it.
_CLAIMS = (
    "CREATE TABLE claims (id TEXT NOT NULL PRIMARY KEY, claimed_at REAL NOT NULL)",
    "ALTER TABLE attempts ADD COLUMN claim TEXT NOT NULL DEFAULT ''",
)


# What people, programs and the cloud said about answers: one verdict on each, the last that counts.
# And from which confidence on an answer stays, which says what a verdict on it proves.
_VERDICTS = (
    """
CREATE TABLE verdicts (
    id TEXT NOT NULL PRIMARY KEY,
    created_at REAL NOT NULL,
    workload TEXT NOT NULL,
    task TEXT NOT NULL,
    calibration TEXT NOT NULL,
    confidence REAL,
    above REAL,
    correct INTEGER NOT NULL,
    judged_by TEXT NOT NULL
)
""",
    "CREATE INDEX verdicts_by_workload ON verdicts (workload, created_at)",
    "ALTER TABLE requests ADD COLUMN kept_from REAL",
)


# Who of those behind one key asked, as a trusted client says it; what they spent, as budgets read
# it; and what was asked by day, which stays when old requests are deleted. `pruned` is what deleted
# attempts have cost: `spend` stays, and its check can still be made. `price_guessed`: the price was
# on no list, so that the cost is the most it could be.
_PEOPLE = (
    *(
        f"ALTER TABLE {table} ADD COLUMN {name} TEXT NOT NULL DEFAULT ''"
        for table in ("requests", "attempts")
        for name in ("user_name", "group_name")
    ),
    *(
        f"ALTER TABLE {table} ADD COLUMN price_guessed INTEGER NOT NULL DEFAULT 0"
        for table in ("requests", "attempts")
    ),
    *(
        f"""
CREATE TABLE {table} (
    window_name TEXT NOT NULL,
    budget_key TEXT NOT NULL,
    user_name TEXT NOT NULL,
    group_name TEXT NOT NULL,
    settled_microdollars INTEGER NOT NULL,
    reserved_microdollars INTEGER NOT NULL,
    PRIMARY KEY (window_name, budget_key, user_name, group_name)
)
"""
        for table in ("spend_of_people", "pruned")
    ),
    """
CREATE TABLE days (
    day TEXT NOT NULL,
    budget_key TEXT NOT NULL,
    user_name TEXT NOT NULL,
    group_name TEXT NOT NULL,
    requests INTEGER NOT NULL,
    kept INTEGER NOT NULL,
    doubtful INTEGER NOT NULL,
    cloud INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    avoided_microdollars INTEGER NOT NULL,
    PRIMARY KEY (day, budget_key, user_name, group_name)
)
""",
)
# Kept: answered by the device alone. Doubtful: of those, where a better answer was wanted.
COUNTED = """{row}.budget_key, {row}.user_name, {row}.group_name, 1,
        CASE WHEN {row}.source = 'local' THEN 1 ELSE 0 END,
        CASE WHEN {row}.source = 'local' AND ({row}.degraded <> 0 OR {row}.needs_cloud_handoff <> 0)
            THEN 1 ELSE 0 END,
        CASE WHEN {row}.source IN ('cloud', 'mixed') THEN 1 ELSE 0 END,
        CASE WHEN {row}.error_code <> '' THEN 1 ELSE 0 END,
        {row}.cost_avoided_microdollars"""
COUNTS = ("requests", "kept", "doubtful", "cloud", "failed", "avoided_microdollars")
ADD_COUNTS = "ON CONFLICT (day, budget_key, user_name, group_name) DO UPDATE SET " + ", ".join(
    f"{name} = days.{name} + excluded.{name}" for name in COUNTS
)
_DAY = "strftime('%Y-%m-%d', {row}.created_at, 'unixepoch')"
_COUNT_REQUESTS = (
    f"""
CREATE TRIGGER days_on_insert AFTER INSERT ON requests BEGIN
    INSERT INTO days VALUES ({_DAY.format(row="NEW")}, {COUNTED.format(row="NEW")}) {ADD_COUNTS};
END
""",
    # `WHERE true`: SQLite would read ON as part of a join.
    f"INSERT INTO days SELECT {_DAY.format(row='requests')}, {COUNTED.format(row='requests')}"
    f" FROM requests WHERE true {ADD_COUNTS}",
)


def _charge_people(row: str, sign: str) -> str:
    """The same as below for the person who asked, where one is known."""
    return f"""
    INSERT INTO spend_of_people
    SELECT windows.name, {row}.budget_key, {row}.user_name, {row}.group_name,
        {sign}{row}.cost_microdollars * ({row}.state = 'settled'),
        {sign}{row}.cost_microdollars * ({row}.state = 'reserved')
    FROM (SELECT {row}.day AS name UNION SELECT {row}.month) AS windows
    WHERE {row}.cost_microdollars <> 0 AND ({row}.user_name <> '' OR {row}.group_name <> '')
    ON CONFLICT (window_name, budget_key, user_name, group_name) DO UPDATE SET
        settled_microdollars = settled_microdollars + excluded.settled_microdollars,
        reserved_microdollars = reserved_microdollars + excluded.reserved_microdollars;
    """


_CHARGE_PEOPLE = (
    "CREATE TRIGGER people_on_insert AFTER INSERT ON attempts"
    f" BEGIN {_charge_people('NEW', '')} END",
    "CREATE TRIGGER people_on_update AFTER UPDATE OF"
    " state, cost_microdollars, budget_key, user_name, group_name, day, month ON attempts"
    f" BEGIN {_charge_people('OLD', '-')} {_charge_people('NEW', '')} END",
    "CREATE TRIGGER people_on_delete AFTER DELETE ON attempts"
    f" BEGIN {_charge_people('OLD', '-')} END",
    "CREATE INDEX people_by_group ON spend_of_people (window_name, budget_key, group_name)",
)


def _charge(row: str, sign: str) -> str:
    """Add an attempt to (or take it from) its day and month, for its key and for all keys."""
    return f"""
    INSERT INTO spend
    SELECT windows.name, keys.name,
        {sign}{row}.cost_microdollars * ({row}.state = 'settled'),
        {sign}{row}.cost_microdollars * ({row}.state = 'reserved')
    FROM (SELECT {row}.day AS name UNION SELECT {row}.month) AS windows,
        (SELECT '' AS name UNION SELECT {row}.budget_key) AS keys
    WHERE {row}.cost_microdollars <> 0
    ON CONFLICT (window_name, budget_key) DO UPDATE SET
        settled_microdollars = settled_microdollars + excluded.settled_microdollars,
        reserved_microdollars = reserved_microdollars + excluded.reserved_microdollars;
    """


# Triggers, so that no writer can forget them: no second program, no shell.
_TRIGGERS = (
    f"CREATE TRIGGER spend_on_insert AFTER INSERT ON attempts BEGIN {_charge('NEW', '')} END",
    "CREATE TRIGGER spend_on_update AFTER UPDATE OF"
    " state, cost_microdollars, budget_key, day, month ON attempts"
    f" BEGIN {_charge('OLD', '-')} {_charge('NEW', '')} END",
    f"CREATE TRIGGER spend_on_delete AFTER DELETE ON attempts BEGIN {_charge('OLD', '-')} END",
)

_INDEXES = (
    "CREATE INDEX requests_by_time ON requests (created_at)",
    "CREATE INDEX attempts_by_request ON attempts (request_id)",
    "CREATE INDEX attempts_by_time ON attempts (started_at)",
    "CREATE INDEX attempts_open ON attempts (expires_at) WHERE state = 'reserved'",
)

MIGRATIONS = (
    Migration(
        "m001_requests_attempts_spend", (_REQUESTS, _ATTEMPTS, _SPEND, *_TRIGGERS, *_INDEXES)
    ),
    Migration("m002_tool_record", (_TOOL_RECORD,)),
    Migration("m003_audio_seconds", _AUDIO_SECONDS),
    Migration("m004_audits", (_AUDITS, "CREATE INDEX audits_by_time ON audits (created_at)")),
    Migration("m005_notes", (_NOTES,)),
    Migration("m006_redacted", _REDACTED),
    Migration("m007_handoffs", _HANDOFFS),
    Migration("m008_outbox", (_OUTBOX,)),
    Migration("m009_claims", _CLAIMS),
    Migration("m010_verdicts", _VERDICTS),
    Migration("m011_people", (*_PEOPLE, *_COUNT_REQUESTS, *_CHARGE_PEOPLE)),
    Migration("m012_kept_at", ("ALTER TABLE requests ADD COLUMN kept_at REAL",)),
)


def check_known(
    connection: sqlite3.Connection, migrations: Sequence[Migration] = MIGRATIONS
) -> bool:
    """True if nothing is left to apply. Raises if the file is newer, or not a ledger."""
    tables = _tables(connection)
    if not tables:
        return False
    path = connection.execute("PRAGMA database_list").fetchone()[2]
    if "edgewise_migrations" not in tables:
        raise LedgerUnavailable(f"{path!r} is an SQLite database, but not a ledger of edgewise")
    known = {migration.name for migration in migrations}
    newer = _applied(connection) - known
    if newer:
        raise LedgerUnavailable(
            f"the ledger {path!r} was written by a newer edgewise (it has {max(newer)!r}); "
            "upgrade edgewise, or use another ledger file"
        )
    return _applied(connection) == known


def has_tables(connection: sqlite3.Connection) -> bool:
    return bool(_tables(connection))


def _tables(connection: sqlite3.Connection) -> set[str]:
    found = connection.execute("SELECT name FROM sqlite_master WHERE type='table'")
    return {name for (name,) in found}


def migrate(
    connection: sqlite3.Connection, now: float, migrations: Sequence[Migration] = MIGRATIONS
) -> None:
    """Apply what is missing, in an open write transaction: all of it, or nothing."""
    # Another process may have migrated it before we got the lock.
    if check_known(connection, migrations):
        return
    connection.execute(
        "CREATE TABLE IF NOT EXISTS edgewise_migrations"
        " (name TEXT NOT NULL PRIMARY KEY, applied_at REAL NOT NULL)"
    )
    applied = _applied(connection)
    for migration in migrations:
        if migration.name in applied:
            continue
        for statement in migration.statements:
            connection.execute(statement)
        connection.execute("INSERT INTO edgewise_migrations VALUES (?, ?)", (migration.name, now))


def _applied(connection: sqlite3.Connection) -> set[str]:
    return {name for (name,) in connection.execute("SELECT name FROM edgewise_migrations")}


# -- transactions on one file ----------------------------------------------------------------------


# POSIX drops all locks of a process on a file when it closes any descriptor of that file. So a new
# file is created under this lock, before anyone in this process can have it open.
_creating = threading.Lock()

# A child must neither use nor close a connection inherited through fork().
_inherited: list[sqlite3.Connection] = []

_NEW = ".new"
STUCK_S = 0.5  # who waits for a file that is held locked for long
LOOK_S = 0.0005  # between two looks at the lock of whose turn it is
_NONSENSE = "it is damaged (it holds what no ledger holds); move it away or restore a copy"
_ADVICE = {
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_READONLY: "it is read-only",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened",
    sqlite3.SQLITE_PERM: "access is denied",
    sqlite3.SQLITE_BUSY: "another process holds it locked",
    sqlite3.SQLITE_CORRUPT: "it is damaged; move it away or restore a copy",
    sqlite3.SQLITE_NOTADB: "it is not an SQLite file; move it away or restore a copy",
}


class Store:
    """Transactions on one file. One connection and one lock: SQLite has one writer anyway. Reports
    have another of each, since with a write-ahead log a reader holds up no writer.

    An empty file has lost its rows, unless somebody is just making it. What is left is kept aside,
    and the new one has a note of it (LOST).
    """

    def __init__(self, path: Path, *, busy_s: float, clock: Callable[[], float]) -> None:
        self.path = path
        self._busy_s = busy_s
        self._clock = clock
        self._forget()

    def _forget(self) -> None:
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._reports_lock = threading.RLock()  # taken before the other one, where both are
        self._reports: sqlite3.Connection | None = None
        self._identity = (0, 0)
        self._stuck = False  # the last one who wanted to write has waited in vain
        self._turns = Turns(self.path.parent)

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """One snapshot of the file, for what costs the same at any size."""
        with self._transaction("BEGIN") as connection:
            yield connection

    @contextmanager
    def reporting(self) -> Iterator[sqlite3.Connection]:
        """The same for what may read every row: no writer waits for it, nor it for one."""
        self._check_process()
        with self._reports_lock, self._named_errors():
            connection = self._open_reports()
            try:
                connection.execute("BEGIN")
                yield connection
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")  # nothing was written

    @contextmanager
    def writing(self, *, durable: bool = True) -> Iterator[sqlite3.Connection]:
        """All or nothing, alone among all processes; on disk when the block has ended.

        Without `durable` it survives a crash of the program, but maybe not a power cut: it reaches
        the disk with the next durable write. That saves waiting for the disk.
        """
        with self._transaction("BEGIN IMMEDIATE", durable=durable) as connection:
            yield connection

    @contextmanager
    def _transaction(self, begin: str, *, durable: bool = True) -> Iterator[sqlite3.Connection]:
        self._check_process()
        # From arrival: waits in a row do not add up. Nor do those of one request, which writes
        # several times: where somebody waited in vain, the next one hardly waits.
        patience_s = min(self._busy_s, STUCK_S) if self._stuck else self._busy_s
        until = time.monotonic() + patience_s
        with self._in_time(), self._named_errors():
            connection = self._open()
            if not durable:
                connection.execute("PRAGMA synchronous = NORMAL")
            try:
                self._begin(connection, begin, until)
                yield connection
                connection.execute("COMMIT")
            finally:
                # After some errors, as a full disk, SQLite has already rolled back.
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                if not durable:
                    connection.execute("PRAGMA synchronous = FULL")

    @contextmanager
    def _in_time(self) -> Iterator[None]:
        """Hold the lock. Raises LedgerUnavailable if those before take too long."""
        if not self._lock.acquire(timeout=self._busy_s):
            cause = _ADVICE[sqlite3.SQLITE_BUSY]
            raise LedgerUnavailable(f"the ledger {str(self.path)!r}: {cause}")
        try:
            yield
        finally:
            self._lock.release()

    def _check_process(self) -> None:
        if self._process != os.getpid():
            _inherited.extend(each for each in (self._connection, self._reports) if each)
            self._turns.close()
            self._forget()

    def _begin(self, connection: sqlite3.Connection, begin: str, until: float) -> None:
        if begin == "BEGIN":  # readers wait for nobody
            connection.execute(begin)
            return
        with self._turns.first(max(0.0, until - time.monotonic()) / 2):
            # Only the first in the queue looks, and often. SQLite itself would sleep for longer and
            # longer between two looks.
            connection.execute("PRAGMA busy_timeout = 0")
            try:
                self._until_free(lambda: connection.execute(begin), LOOK_S, until)
                self._stuck = False
            except sqlite3.OperationalError as error:
                self._stuck = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
                raise
            finally:
                connection.execute(f"PRAGMA busy_timeout = {int(1000 * self._busy_s)}")

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        if self._process != os.getpid():
            return
        with self._reports_lock, self._lock, self._named_errors():
            self._turns.close()
            reports, self._reports = self._reports, None
            connection, self._connection = self._connection, None
            for each in (reports, connection):
                if each is not None:
                    each.close()

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            cause = f"{_ADVICE[code]} ({error})" if code in _ADVICE else str(error)
            if cause.startswith("Could not decode"):  # and then it quotes the text
                cause = _NONSENSE
            raise LedgerUnavailable(f"the ledger {str(self.path)!r}: {cause}") from error
        except (ValueError, TypeError) as error:  # of what was read; nothing is computed here
            raise LedgerUnavailable(f"the ledger {str(self.path)!r}: {_NONSENSE}") from error
        except OSError as error:
            cause = error.strerror or str(error)
            raise LedgerUnavailable(f"the ledger {str(self.path)!r}: {cause}") from error

    def _open(self) -> sqlite3.Connection:
        if self._connection is not None:
            self._check_still_there()
            return self._connection
        lost = self._create_file()
        connection = self._connect()
        try:
            self._prepare(connection, lost)
            self._identity = self._look()
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return connection

    def _open_reports(self) -> sqlite3.Connection:
        if self._connection is None:
            with self._lock:
                self._open()  # makes the file, and its tables
        else:
            self._check_still_there()
        if self._reports is None:
            connection = self._connect()
            connection.execute("PRAGMA query_only = ON")
            self._reports = connection
        return self._reports

    def _connect(self) -> sqlite3.Connection:
        # mode=rw: SQLite must not create the file, with default permissions.
        return sqlite3.connect(
            f"{self.path.absolute().as_uri()}?mode=rw",
            uri=True,
            timeout=self._busy_s,
            isolation_level=None,
            check_same_thread=False,
        )

    def _create_file(self) -> str:
        """Make the file if there is none. Says what became of a ledger that was there before."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _creating:
            if not self.path.exists() and not self._beside("-wal").exists():
                # Stays until there are tables: an empty file beside it is new, and not a lost one.
                self._beside(_NEW).touch(0o600)
            # SQLite deletes the log of an empty file, so what is left is kept before it looks.
            lost = self._keep_aside() if self._is_empty() else ""
            with contextlib.suppress(FileExistsError):
                os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        return lost

    def _beside(self, ending: str) -> Path:
        return self.path.with_name(self.path.name + ending)

    def _is_empty(self) -> bool:
        """Whether nothing is here, and nobody is making it. Who was just done shows in its size."""
        return not self._size() and not self._beside(_NEW).exists() and not self._size()

    def _size(self) -> int:
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0

    def _keep_aside(self) -> str:
        """Keep what is left of a ledger under a name with the time. Says where that is."""
        moment = datetime.fromtimestamp(self._clock(), UTC).strftime("%Y%m%dT%H%M%SZ")
        aside = self._beside(f".lost-{moment}")
        aside.touch(0o600)  # as empty as it was; nothing may open the file itself, see above
        with contextlib.suppress(FileNotFoundError):
            shutil.copy2(self._beside("-wal"), f"{aside}-wal")
        return f"it was found empty at {moment}; what was left of it is {str(aside)!r}"

    def _prepare(self, connection: sqlite3.Connection, lost: str) -> None:
        # Checked before anything is changed: the file may be somebody else's.
        complete = check_known(connection)
        self._use_write_ahead_log(connection)
        # FULL: a commit is on the disk, not only in the kernel, before a cloud call starts.
        connection.execute("PRAGMA synchronous = FULL")
        if not complete:
            connection.execute("BEGIN IMMEDIATE")
            first = not has_tables(connection)
            migrate(connection, self._clock())
            if first and lost:
                write_note(connection, Note(self._clock(), *LOST, lost))
            connection.execute("COMMIT")
        self._beside(_NEW).unlink(missing_ok=True)

    def _use_write_ahead_log(self, connection: sqlite3.Connection) -> None:
        # SQLite does not wait for a lock on this statement, so several first users collide.
        until = time.monotonic() + self._busy_s
        found = self._until_free(
            lambda: connection.execute("PRAGMA journal_mode = WAL"), 0.005, until
        )
        (mode,) = found.fetchone()
        if mode != "wal":
            raise LedgerUnavailable(
                f"the ledger {str(self.path)!r}: this file system cannot hold a write-ahead log; "
                "put the ledger on a local disk"
            )

    def _until_free(
        self, execute: Callable[[], sqlite3.Cursor], pause_s: float, until: float
    ) -> sqlite3.Cursor:
        """Repeat a statement while another process holds the lock; raises if it takes too long."""
        while True:
            try:
                return execute()
            except sqlite3.OperationalError as error:
                busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
                if not busy or time.monotonic() > until:
                    raise
                time.sleep(pause_s)

    def _look(self) -> tuple[int, int]:
        status = os.stat(self.path)
        return status.st_dev, status.st_ino

    def _check_still_there(self) -> None:
        # Further writes would succeed and be lost. Closing would delete the log of a file that has
        # since replaced it. So the connection stays open and unused.
        try:
            unchanged = self._look() == self._identity
        except FileNotFoundError:
            unchanged = False
        if not unchanged:
            raise LedgerUnavailable(
                f"the ledger {str(self.path)!r} was moved or deleted while in use; "
                "put it back or start edgewise again"
            )
