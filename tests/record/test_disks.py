"""A disk that is full or read-only: reported, nothing lost, and it works again afterwards."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from edgewise.errors import LedgerUnavailable
from edgewise.record.ledger import Ledger
from tests.record.ledger_cases import asking, replying

REPOSITORY = Path(__file__).parents[2]


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
from tests.record.test_disks import fill_up
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
