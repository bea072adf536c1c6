"""One SQLite file: shared, damaged, moved, on a disk that is full or read-only."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from edgewise.errors import LedgerUnavailable
from edgewise.record.ledger import Ledger
from edgewise.record.rows import Budget
from tests.record.ledger_cases import (
    PROVIDER,
    Books,
    TurnedClock,
    asking,
    cloud_attempt,
    replying,
)

REPOSITORY = Path(__file__).parents[2]


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_nothing_is_touched_before_the_first_use(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "folder" / "ledger.db", budgets=[Budget(1, "day")])
    ledger.close()
    assert list(tmp_path.iterdir()) == []
    ledger.sweep()
    ledger.close()
    assert ledger.path.exists()


def test_folder_and_files_are_the_users_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        ledger = Ledger(tmp_path / "folder" / "ledger #1?.db")
        ledger.sweep()
        assert mode_of(tmp_path / "folder") == 0o700
        files = sorted((tmp_path / "folder").iterdir())
        assert [file.name.removeprefix("ledger #1?.db") for file in files] == ["", "-shm", "-wal"]
        assert {mode_of(file) for file in files} == {0o600}
        ledger.close()
    finally:
        os.umask(before)


def test_the_file_keeps_a_write_ahead_log_and_syncs_every_commit(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    with ledger._store.reading() as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    ledger.close()


def test_only_free_requests_do_not_wait_for_the_disk(tmp_path: Path) -> None:
    """Commits of local answers need not reach the disk at once; those around money must."""
    ledger = Ledger(tmp_path / "ledger.db")
    seen: list[tuple[str, int]] = []

    def note(statement: str) -> None:
        if statement == "COMMIT":
            seen.append((statement, level()))

    with ledger._store.reading() as connection:
        connection.set_trace_callback(note)

    def level() -> int:
        found: int = connection.execute("PRAGMA synchronous").fetchone()[0]
        return found

    ledger.record(asking("local"), replying("local"))
    assert seen == [("COMMIT", 1)] and level() == 2
    ledger.record(asking("cloud"), replying("cloud", attempts=(cloud_attempt(1),)))
    ledger.settle("cloud/0", cloud_attempt(1))
    assert seen[1:] == [("COMMIT", 2), ("COMMIT", 2)]
    # What is set aside must be on the disk before it leaves, where a budget counts it.
    ledger.reserve("free/0", asking("free"), PROVIDER, 1)
    ledger.limit([Budget(1_000_000, "day")], [])
    ledger.reserve("counted/0", asking("counted"), PROVIDER, 1)
    assert seen[3:] == [("COMMIT", 1), ("COMMIT", 2)]
    ledger.claim("given")  # an id from outside is paid for once, whatever happens
    assert seen[5:] == [("COMMIT", 2)]
    with pytest.raises(KeyboardInterrupt), ledger._store.writing(durable=False):
        raise KeyboardInterrupt
    assert level() == 2
    connection.set_trace_callback(None)
    ledger.close()


def in_a_thread(work: Callable[[], object]) -> Callable[[], bool]:
    """Starts it; says, at the latest after a minute, whether it has ended."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()

    def ended() -> bool:
        thread.join(60)
        return not thread.is_alive()

    return ended


def test_a_report_is_read_while_a_writer_holds_the_ledger(books: Books) -> None:
    ledger = books.open()
    ledger.record(asking("before"), replying("before"))
    found: list[object] = []
    with ledger._store.writing() as connection:
        connection.execute("DELETE FROM requests")
        ended = in_a_thread(
            lambda: found.extend(
                (
                    ledger.report().requests,
                    len(ledger.recent()),
                    len(ledger.judged(0)),
                    sum(sum(each.counts.values()) for each in ledger.timeline(0, 1)),
                )
            )
        )
        assert ended(), "the report waits for the writer"
    assert found == [1, 1, 1, 1]
    assert ledger.report().requests == 0


def test_a_request_is_written_while_a_report_is_read(books: Books) -> None:
    ledger = books.open()
    ledger.sweep()
    with ledger._store.reporting() as connection:
        assert connection.execute("SELECT COUNT(*) FROM requests").fetchone()[0] == 0

        def ask() -> None:
            assert not ledger.seen("r")
            ledger.reserve("r/0", asking("r"), PROVIDER, 1)
            ledger.settle("r/0", cloud_attempt(1))
            ledger.record(asking("r"), replying("r"))

        assert in_a_thread(ask)(), "the writer waits for the report"
        assert connection.execute("SELECT COUNT(*) FROM requests").fetchone()[0] == 0
    assert ledger.seen("r") and ledger.report().requests == 1


def test_a_report_cannot_write(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    with (
        pytest.raises(LedgerUnavailable, match="readonly"),
        ledger._store.reporting() as connection,
    ):
        connection.execute("DELETE FROM requests")
    ledger.close()


def test_a_closed_ledger_opens_again_when_it_is_used(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.record(asking("r"), replying("r"))
    assert ledger.report().requests == 1
    ledger.close()
    ledger.close()
    assert ledger.report().requests == 1
    assert ledger.seen("r")
    ledger.close()


def test_a_transaction_that_raises_leaves_nothing_behind(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db", clock=TurnedClock())
    with pytest.raises(KeyboardInterrupt), ledger._store.writing() as connection:
        connection.execute("INSERT INTO spend VALUES ('2026-11', '', 1, 0)")
        raise KeyboardInterrupt
    assert ledger.verify() == []
    ledger.settle("r/0", cloud_attempt(1))
    ledger.close()


@pytest.mark.parametrize(
    "content", [b"not a database" * 100, b"SQLite format 3\0" + b"\xff" * 4096]
)
def test_a_damaged_file_is_reported_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "ledger.db"
    path.write_bytes(content)
    ledger = Ledger(path)
    for _ in range(2):
        with pytest.raises(LedgerUnavailable, match="move it away or restore a copy"):
            ledger.reserve("r/0", asking("r"), PROVIDER, 1)
    assert path.read_bytes() == content


def test_a_page_damaged_later_is_reported_when_it_is_met(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    for index in range(300):
        ledger.record(asking(f"r{index}"), replying(f"r{index}"))
    ledger.close()
    content = bytearray(ledger.path.read_bytes())
    content[4096 * 4 :] = b"\xa5" * (len(content) - 4096 * 4)
    ledger.path.write_bytes(content)
    with pytest.raises(LedgerUnavailable, match="damaged"):
        ledger.recent(300)
    with pytest.raises(LedgerUnavailable):
        ledger.record(asking("new"), replying("new"))
    ledger.close()


def test_a_folder_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(LedgerUnavailable, match=r"ledger\.db"):
        Ledger(tmp_path / "file" / "ledger.db").sweep()


def test_a_directory_in_place_of_the_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(LedgerUnavailable):
        Ledger(tmp_path).sweep()


def test_waits_for_a_locked_file_do_not_add_up_and_budgets_are_read_meanwhile(
    tmp_path: Path,
) -> None:
    path = tmp_path / "ledger.db"
    Ledger(path, budgets=[Budget(1, "day")]).sweep()
    ledger = Ledger(path, budgets=[Budget(1, "day")], busy_s=2.0)
    ledger.sweep()
    failed: list[str] = []

    def write() -> None:
        with pytest.raises(LedgerUnavailable, match="another process holds it locked") as caught:
            ledger.claim("x")
        failed.append(str(caught.value))

    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    threads = [threading.Thread(target=write, daemon=True) for _ in range(30)]
    for thread in threads:
        thread.start()
    assert ledger.remaining() and threads[0].is_alive()
    for thread in threads:
        thread.join(25)  # one after the other they would wait for a minute
    assert len(failed) == 30
    other.execute("ROLLBACK")
    other.close()
    assert ledger.claim("x")


def test_a_locked_file_is_reported_after_the_wait_and_works_afterwards(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db", busy_s=0.05)
    ledger.sweep()
    other = sqlite3.connect(ledger.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(LedgerUnavailable, match="another process holds it locked"):
        ledger.reserve("r/0", asking("r"), PROVIDER, 1)
    assert not ledger.seen("r")  # readers do not wait for the writer
    other.execute("ROLLBACK")
    other.close()
    ledger.reserve("r/0", asking("r"), PROVIDER, 1)
    ledger.close()


def test_who_comes_after_one_that_waited_in_vain_hardly_waits(tmp_path: Path) -> None:
    """A request writes several times: its waits would add up."""
    ledger = Ledger(tmp_path / "ledger.db", busy_s=0.05)
    ledger.sweep()
    other = sqlite3.connect(ledger.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(LedgerUnavailable, match="another process holds it locked"):
        ledger.reserve("r/0", asking("r"), PROVIDER, 1)
    ledger._store._busy_s = 3600.0
    with pytest.raises(LedgerUnavailable, match="another process holds it locked"):
        ledger.claim("r")
    other.execute("ROLLBACK")
    other.close()
    assert ledger.claim("r") and not ledger._store._stuck


def test_a_short_lock_is_waited_for(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db", busy_s=30.0)
    ledger.sweep()
    other = sqlite3.connect(ledger.path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    release = threading.Timer(0.1, lambda: other.execute("ROLLBACK"))
    release.start()
    ledger.reserve("r/0", asking("r"), PROVIDER, 1)
    release.join()
    other.close()
    ledger.close()


def test_a_lock_on_a_file_still_without_tables_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    hasty = Ledger(path, busy_s=0.05)
    with pytest.raises(LedgerUnavailable, match="locked"):
        hasty.sweep()
    release = threading.Timer(0.1, lambda: other.execute("ROLLBACK"))
    release.start()
    patient = Ledger(path, busy_s=30.0)
    patient.sweep()
    release.join()
    other.close()
    patient.close()


def test_a_writer_is_alone_from_the_first_look(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.sweep()
    other = sqlite3.connect(ledger.path, isolation_level=None, timeout=0.0)
    with ledger._store.writing(), pytest.raises(sqlite3.OperationalError, match="locked"):
        other.execute("BEGIN IMMEDIATE")
    other.close()
    ledger.close()


def test_a_ledger_moved_away_while_in_use_is_reported_until_it_is_back(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db", clock=TurnedClock())
    ledger.settle("r/0", cloud_attempt(1))
    aside = tmp_path / "aside.db"
    ledger.path.rename(aside)
    with pytest.raises(LedgerUnavailable, match="moved or deleted while in use"):
        ledger.settle("s/0", cloud_attempt(1))
    shutil.copy(aside, ledger.path)
    with pytest.raises(LedgerUnavailable, match="moved or deleted while in use"):
        ledger.settle("s/0", cloud_attempt(1))
    aside.rename(ledger.path)
    ledger.settle("s/0", cloud_attempt(1))
    assert ledger.report().spent_microdollars == 2
    ledger.close()


FORKS = """
import os, sys
from pathlib import Path
from tests.record.ledger_cases import PROVIDER, asking, cloud_attempt
from edgewise.record.ledger import Ledger

ledger = Ledger(Path(sys.argv[1]))
ledger.settle("before/0", cloud_attempt(1))
assert ledger.report().spent_microdollars == 1
inherited, reports = ledger._store._connection, ledger._store._reports
children = []
for number in range(3):
    child = os.fork()
    if child == 0:
        for index in range(20):
            ledger.reserve(f"{number}-{index}/0", asking(f"{number}-{index}"), PROVIDER, 3)
            ledger.settle(f"{number}-{index}/0", cloud_attempt(2))
        assert ledger._store._connection is not inherited
        assert ledger.report().requests == 0 and ledger._store._reports is not reports
        assert reports.total_changes == 0  # raises if it was closed
        assert inherited.total_changes > 0  # raises if it was closed
        ledger.close()
        sys.exit(0)
    children.append(child)
for index in range(20):
    ledger.settle(f"parent-{index}/0", cloud_attempt(1))
for child in children:
    assert os.waitpid(child, 0)[1] == 0
assert ledger.verify() == [], ledger.verify()
assert ledger.report().spent_microdollars == 1 + 3 * 20 * 2 + 20
ledger.close()
"""


def test_a_forked_process_opens_the_file_for_itself(tmp_path: Path) -> None:
    child = subprocess.run(
        [sys.executable, "-c", FORKS, str(tmp_path / "ledger.db")],
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)}, capture_output=True, text=True,
    )  # fmt: skip
    assert child.returncode == 0, child.stderr


def test_several_first_users_in_threads_make_one_file(tmp_path: Path) -> None:
    ledgers = [Ledger(tmp_path / "ledger.db", busy_s=30.0) for _ in range(6)]
    failures: list[LedgerUnavailable] = []

    def use(ledger: Ledger) -> Callable[[], None]:
        def settle() -> None:
            try:
                ledger.settle(f"{id(ledger)}/0", cloud_attempt(1))
            except LedgerUnavailable as error:
                failures.append(error)

        return settle

    threads = [threading.Thread(target=use(ledger)) for ledger in ledgers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert ledgers[0].report().spent_microdollars == 6
    for ledger in ledgers:
        ledger.close()


def fill_up(ledger: Ledger) -> int:
    """Record until the disk is full; says how many requests were written."""
    for index in range(100_000):
        try:
            ledger.record(asking(f"r{index}"), replying(f"r{index}"))
        except LedgerUnavailable as error:
            assert "disk is full" in str(error), error
            return index
    raise AssertionError("the disk never filled up")


def test_a_full_database_is_reported_loses_nothing_and_recovers(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.sweep()
    with ledger._store.reading() as connection:
        connection.execute("PRAGMA max_page_count = 40")
    written = fill_up(ledger)
    assert written > 10
    assert ledger.report().requests == written
    assert not ledger.seen(f"r{written}")
    assert ledger.verify() == []
    with ledger._store.reading() as connection:
        connection.execute("PRAGMA max_page_count = 4000")
    ledger.record(asking("after"), replying("after"))
    ledger.close()


# Run in a mount namespace of their own: the file systems vanish with the process.
FULL_DISK = """
import sys
from pathlib import Path
from tests.record.ledger_cases import PROVIDER, asking, replying
from tests.record.test_store import fill_up
from edgewise.errors import LedgerUnavailable
from edgewise.record.ledger import Ledger

ledger = Ledger(Path(sys.argv[1]) / "ledger.db")
ledger.reserve("paid/0", asking("paid"), PROVIDER, 5)
written = fill_up(ledger)
for index in range(50):
    try:
        ledger.reserve(f"refused/{index}", asking("refused"), PROVIDER, 5)
    except LedgerUnavailable:
        break
else:
    raise AssertionError("money was set aside on a full disk")
assert ledger.report().requests == written, "a recorded request is gone"
assert ledger.seen("paid")
assert ledger.verify() == []
(Path(sys.argv[1]) / "ballast").unlink()
ledger.record(asking("after"), replying("after"))
assert ledger.verify() == []
ledger.close()
"""


READ_ONLY = """
import sys
from pathlib import Path
from tests.record.ledger_cases import PROVIDER, asking
from edgewise.errors import LedgerUnavailable
from edgewise.record.ledger import Ledger

for name in ("ledger.db", "new.db", "folder/new.db"):
    try:
        Ledger(Path(sys.argv[1]) / name).reserve("r/0", asking("r"), PROVIDER, 5)
    except LedgerUnavailable as error:
        assert name in str(error), error
    else:
        raise AssertionError(f"{name} was written on a read-only disk")
"""


def run_on_a_disk_of_its_own(tmp_path: Path, prepare: str, script: str) -> None:
    """Mount a small file system where only the child sees it, then run a script on it."""
    disk = tmp_path / "disk"
    disk.mkdir()
    unshare = ["unshare", "--user", "--map-root-user", "--mount"]
    mount = f"mount -t tmpfs -o size=512k tmpfs '{disk}'"
    if (
        shutil.which("unshare") is None
        or subprocess.run([*unshare, "sh", "-c", mount], capture_output=True).returncode
    ):
        pytest.skip("mounting a small disk is not permitted here")
    child = subprocess.run(
        [*unshare, "sh", "-ec", f'{mount}\ncd "$0"\n{prepare}\nexec "$1" -c "$2" "$0"',
         str(disk), sys.executable, script],
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)}, capture_output=True, text=True,
    )  # fmt: skip
    assert child.returncode == 0, child.stderr


def test_a_full_disk_is_reported_loses_nothing_and_recovers(tmp_path: Path) -> None:
    run_on_a_disk_of_its_own(tmp_path, "head -c 100000 /dev/zero > ballast", FULL_DISK)


def test_a_read_only_disk_is_reported(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.sweep()
    ledger.close()
    run_on_a_disk_of_its_own(tmp_path, "cp ../ledger.db .; mount -o remount,bind,ro .", READ_ONLY)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_reported(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir(mode=0o500)
    with pytest.raises(LedgerUnavailable, match=r"[Pp]ermission"):
        Ledger(folder / "ledger.db").sweep()
    assert list(folder.iterdir()) == []
