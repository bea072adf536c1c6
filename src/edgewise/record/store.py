"""One SQLite file: opened on first use, shared by threads, one error class for every failure."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from edgewise.errors import LedgerUnavailable
from edgewise.record.migrations import check_known, has_tables, migrate
from edgewise.record.report import LOST, Note, write_note
from edgewise.record.turns import Turns

# POSIX drops all locks of a process on a file when it closes any descriptor of that file. So a new
# file is created under this lock, before anyone in this process can have it open.
_creating = threading.Lock()

# A child must neither use nor close a connection inherited through fork().
_inherited: list[sqlite3.Connection] = []

_NEW = ".new"
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
    """Transactions on one file. One connection and one lock: SQLite has one writer anyway.

    An empty file that nobody is just making was a ledger once. What is left of it is kept aside,
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
        self._identity = (0, 0)
        self._turns = Turns(self.path.parent)

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """One snapshot of the file."""
        with self._transaction("BEGIN") as connection:
            yield connection

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
        if self._process != os.getpid():
            if self._connection is not None:
                _inherited.append(self._connection)
            self._turns.close()
            self._forget()
        with self._lock, self._named_errors():
            connection = self._open()
            if not durable:
                connection.execute("PRAGMA synchronous = NORMAL")
            try:
                self._begin(connection, begin)
                yield connection
                connection.execute("COMMIT")
            finally:
                # After some errors, as a full disk, SQLite has already rolled back.
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                if not durable:
                    connection.execute("PRAGMA synchronous = FULL")

    def _begin(self, connection: sqlite3.Connection, begin: str) -> None:
        if begin == "BEGIN":  # readers wait for nobody
            connection.execute(begin)
            return
        with self._turns.first(self._busy_s / 2):
            # Only the first in the queue looks, and often. SQLite itself would sleep for longer and
            # longer between two looks.
            connection.execute("PRAGMA busy_timeout = 0")
            try:
                self._until_free(lambda: connection.execute(begin), LOOK_S)
            finally:
                connection.execute(f"PRAGMA busy_timeout = {int(1000 * self._busy_s)}")

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        if self._process != os.getpid():
            return
        with self._lock, self._named_errors():
            self._turns.close()
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

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
        # mode=rw: SQLite must not create the file, with default permissions.
        connection = sqlite3.connect(
            f"{self.path.absolute().as_uri()}?mode=rw",
            uri=True,
            timeout=self._busy_s,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            self._prepare(connection, lost)
            self._identity = self._look()
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return connection

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
        found = self._until_free(lambda: connection.execute("PRAGMA journal_mode = WAL"), 0.005)
        (mode,) = found.fetchone()
        if mode != "wal":
            raise LedgerUnavailable(
                f"the ledger {str(self.path)!r}: this file system cannot hold a write-ahead log; "
                "put the ledger on a local disk"
            )

    def _until_free(self, execute: Callable[[], sqlite3.Cursor], pause_s: float) -> sqlite3.Cursor:
        """Repeat a statement while another process holds the lock; raises if it takes too long."""
        give_up_at = time.monotonic() + self._busy_s
        while True:
            try:
                return execute()
            except sqlite3.OperationalError as error:
                busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
                if not busy or time.monotonic() > give_up_at:
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
