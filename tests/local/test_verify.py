"""Hashes, and the manifest."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from edgewise.errors import StoreError
from edgewise.local.catalogue import (
    Manifest,
    read_manifest,
    require_sha256,
    sha256_of,
    write_manifest,
)


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


MANIFEST = Manifest(
    name="tiny",
    file="tiny.Q8_0.gguf",
    quantisation="Q8_0",
    bytes=7,
    modified_ns=1_700_000_000_000_000_001,
    sha256="a" * 64,
    source_sha256="b" * 64,
    vouched_by="edgewise",
    converted_with="0.19.0",
    source={"packages": ["tiny==1.0"]},
)


def test_what_was_written_is_read_back_and_nothing_else_is_left(tmp_path: Path) -> None:
    write_manifest(tmp_path, MANIFEST)
    assert read_manifest(tmp_path) == MANIFEST
    assert [path.name for path in tmp_path.iterdir()] == ["manifest.json"]


def test_a_look_at_the_file_notes_its_size_and_time(tmp_path: Path) -> None:
    path = tmp_path / MANIFEST.file
    path.write_bytes(b"weights!")
    os.utime(path, ns=(5, 5_000_000_000))
    assert MANIFEST.seen(path) == replace(MANIFEST, bytes=8, modified_ns=5_000_000_000)


def test_a_folder_without_a_manifest_has_none(tmp_path: Path) -> None:
    assert read_manifest(tmp_path) is None
    assert read_manifest(tmp_path / "not-there") is None


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2},
        {"format": None},
        {"file": "../../somewhere/else.gguf"},
        {"surplus": 1},
        {"sha256": ...},
    ],
    ids=["later format", "no format", "path", "unknown key", "missing key"],
)
def test_a_manifest_that_cannot_be_trusted_counts_as_none(
    tmp_path: Path, change: dict[str, object]
) -> None:
    write_manifest(tmp_path, MANIFEST)
    values = json.loads((tmp_path / "manifest.json").read_text()) | change
    values = {key: value for key, value in values.items() if value is not ...}
    (tmp_path / "manifest.json").write_text(json.dumps(values))
    assert read_manifest(tmp_path) is None


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '"text"', "\ud800"])
def test_a_broken_manifest_counts_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "manifest.json").write_bytes(text.encode("utf-8", errors="surrogatepass"))
    assert read_manifest(tmp_path) is None
