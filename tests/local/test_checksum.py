from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from edgewise.errors import StoreError
from edgewise.local.store.verify import require_sha256, sha256_of


def test_the_hash_is_that_of_the_whole_file_and_progress_reaches_its_end(tmp_path: Path) -> None:
    data = bytes(range(256)) * 10_000  # more than two chunks
    path = tmp_path / "file"
    path.write_bytes(data)
    seen: list[tuple[int, int, str]] = []

    found = sha256_of(path, lambda *report: seen.append(report))

    assert found == hashlib.sha256(data).hexdigest()
    assert len(seen) == 3
    assert seen[-1] == (len(data), len(data), "checking")


def test_an_empty_file_has_the_hash_of_nothing(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    assert sha256_of(path) == hashlib.sha256(b"").hexdigest()


def test_the_right_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"weights")
    require_sha256(path, hashlib.sha256(b"weights").hexdigest())
    assert path.read_bytes() == b"weights"


def test_a_wrong_file_is_refused_and_deleted(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"tampered")
    expected = hashlib.sha256(b"weights").hexdigest()
    with pytest.raises(StoreError, match=expected):
        require_sha256(path, expected)
    assert not path.exists()
