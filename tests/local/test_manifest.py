from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from edgewise.local.store.verify import Manifest, read_manifest, write_manifest

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
