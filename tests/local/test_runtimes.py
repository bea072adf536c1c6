"""`NAME@onnx`: models that are converted for another runtime, and when they are converted anew."""

from __future__ import annotations

import errno
import importlib.util
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgewise import plugins
from edgewise.errors import ExtraMissing, ModelNotFound, StoreError
from edgewise.extras import install_command
from edgewise.local import store as store_module
from edgewise.local.backend import LocalRuntime
from edgewise.local.catalogue import (
    HubSource,
    Manifest,
    ModelRow,
    read_manifest,
    sha256_of,
    write_manifest,
)
from edgewise.local.store import InstalledModel, ModelStore, runtime_named, split_runtime
from edgewise_engines import onnx_graph
from tests.local.tiny_qwen import write_tiny_qwen

ROW = ModelRow(
    name="tiny-qwen",
    title="Tiny",
    family="qwen2",
    parameters="9k",
    licence="Apache-2.0",
    quantisation="Q8_0",
    context_tokens=256,
    bytes=1,
    source=HubSource("nobody/tiny", "tiny.gguf"),
    description="Random weights.",
    rung="smallest",
)


def install(root: Path, *, matrices: str = "Q8_0") -> ModelStore:
    """As if `edgewise pull` had fetched it."""
    folder = root / ROW.name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    file = folder / ROW.file_name
    write_tiny_qwen(file, embedding="Q8_0", matrices=matrices)
    digest = sha256_of(file)
    manifest = Manifest(
        name=ROW.name,
        file=file.name,
        quantisation="Q8_0",
        bytes=0,
        modified_ns=0,
        sha256=digest,
        source_sha256=digest,
        vouched_by="edgewise",
    )
    write_manifest(folder, manifest.seen(file))
    return ModelStore(root, rows=[ROW])


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    return install(tmp_path / "models")


def test_a_model_is_pulled_for_a_runtime_and_found_by_its_name(store: ModelStore) -> None:
    steps: list[tuple[int, int, str]] = []
    made = store.pull("smallest@onnx", lambda *step: steps.append(step))
    assert (made.name, made.runtime, made.quantisation) == ("tiny-qwen@onnx", "onnx", "Q8_0")
    assert made.same_bits and made.row is ROW and made.path.name == "model.onnx"
    assert made.bytes > store.find("tiny-qwen").bytes  # the weights beside the graph are counted
    assert store.find("smallest@onnx") == store.find("TINY-QWEN@onnx") == made
    assert [each.name for each in store.installed()] == ["tiny-qwen", "tiny-qwen@onnx"]
    assert {label for _, _, label in steps} == {"converting", "checking"}
    manifest = read_manifest(made.path.parent)
    assert manifest is not None
    assert manifest.source_sha256 == store.find("tiny-qwen").sha256
    assert manifest.converted_with == store_module._made_with(runtime_named("onnx"))
    assert "template.jinja" in manifest.beside and "model.onnx.data" in manifest.beside


def test_what_is_converted_is_left_alone(store: ModelStore) -> None:
    made = store.pull("tiny-qwen@onnx")
    before = made.path.stat().st_mtime_ns
    assert store.pull("tiny-qwen@onnx") == made
    assert made.path.stat().st_mtime_ns == before


def test_it_can_be_used_without_the_file_it_was_made_from(store: ModelStore) -> None:
    made = store.pull("tiny-qwen@onnx")
    store.remove("tiny-qwen")
    assert store.find("tiny-qwen@onnx") == made


def test_it_is_verified_and_removed_like_any_other(store: ModelStore) -> None:
    made = store.pull("tiny-qwen@onnx")
    assert store.verify("smallest@onnx") == made
    weights = made.path.with_name("model.onnx.data")
    weights.write_bytes(weights.read_bytes()[:-1] + b"!")
    with pytest.raises(StoreError, match="run `edgewise pull tiny-qwen --engine onnx` to make"):
        store.verify("tiny-qwen@onnx")
    store.remove("smallest@onnx")
    assert [each.name for each in store.installed()] == ["tiny-qwen"]


def test_other_weights_are_converted_anew(store: ModelStore) -> None:
    old = store.pull("tiny-qwen@onnx")
    install(store.root, matrices="Q4_0")
    assert [each.name for each in store.installed()] == ["tiny-qwen"]
    with pytest.raises(
        ModelNotFound, match=r"made from other weights.*run `edgewise pull tiny-qwen --engine onnx`"
    ):
        store.find("tiny-qwen@onnx")
    made = store.pull("tiny-qwen@onnx")
    assert made.path.with_name("model.onnx.data").stat().st_size < old.bytes
    assert store.find("tiny-qwen@onnx") == made


def test_another_release_of_the_runtime_converts_anew(
    store: ModelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = store.pull("tiny-qwen@onnx")
    newer = replace(runtime_named("onnx"), revision=99)
    monkeypatch.setattr(store_module, "runtime_named", lambda name: newer)
    with pytest.raises(ModelNotFound, match=rf"another release \({made_with(made)}\)"):
        store.find("tiny-qwen@onnx")
    store.pull("tiny-qwen@onnx")
    assert made_with(store.find("tiny-qwen@onnx")).endswith("conversion 99")


def made_with(model: InstalledModel) -> str:
    manifest = read_manifest(model.path.parent)
    assert manifest is not None
    return manifest.converted_with


def test_a_name_that_is_not_converted_says_the_command(store: ModelStore) -> None:
    with pytest.raises(
        ModelNotFound,
        match="smallest is not converted for ONNX Runtime yet; "
        "run `edgewise pull smallest --engine onnx`",
    ):
        store.find("smallest@onnx")


def test_unknown_names_get_the_nearest_one(store: ModelStore) -> None:
    for use in (store.find, store.pull):
        with pytest.raises(ModelNotFound, match=r"no runtime named 'onx'; did you mean onnx\?"):
            use("tiny-qwen@onx")
        with pytest.raises(ModelNotFound, match=r"no model named 'tiny-qwem'; did you mean tiny"):
            use("tiny-qwem@onnx")


def test_a_missing_extra_is_said_before_anything_is_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ExtraMissing, match=re.escape(install_command("onnx"))):
        ModelStore(tmp_path, rows=[ROW]).pull("tiny-qwen@onnx")


def test_a_full_disk_leaves_nothing(store: ModelStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(onnx_graph._Graph, "save", full)
    with pytest.raises(StoreError, match="No space left on device"):
        store.pull("tiny-qwen@onnx")
    assert [each.name for each in store.root.iterdir() if "@" in each.name] == []
    assert [each for each in (store.root / ".partial").iterdir() if each.is_dir()] == []


def test_a_users_own_file_is_stored_under_its_name(store: ModelStore, tmp_path: Path) -> None:
    own = tmp_path / "My Model.gguf"
    write_tiny_qwen(own, embedding="Q8_0", matrices="Q4_0")
    made = store.pull(f"{own}@onnx")
    assert (made.name, made.row) == ("my-model@onnx", None)
    assert store.find("my-model@onnx") == store.find(f"{own}@onnx") == made
    write_tiny_qwen(own, embedding="Q8_0", matrices="Q8_0")
    with pytest.raises(ModelNotFound, match="made from other weights"):
        store.find("my-model@onnx")
    assert store.pull(f"{own}@onnx").bytes > made.bytes


def test_a_users_own_file_takes_no_name_of_the_catalogue(store: ModelStore, tmp_path: Path) -> None:
    own = tmp_path / "Tiny-Qwen.gguf"
    write_tiny_qwen(own)
    with pytest.raises(StoreError, match="rename"):
        store.pull(f"{own}@onnx")


def test_a_runtime_that_reads_gguf_files_gets_them_as_they_are(store: ModelStore) -> None:
    plain, found = store.find("tiny-qwen"), store.find("smallest@geniex")
    assert found == replace(plain, name="tiny-qwen@geniex", runtime="geniex", same_bits=True)


def test_a_runtime_is_what_follows_the_last_at() -> None:
    assert split_runtime("tiny@onnx") == ("tiny", "onnx")
    assert split_runtime("/home/me@work/a.gguf") == ("/home/me@work/a.gguf", "")
    assert split_runtime("/home/me@work/a.gguf@onnx") == ("/home/me@work/a.gguf", "onnx")
    assert split_runtime("tiny") == ("tiny", "")


@pytest.fixture
def without_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if only edgewise itself were installed."""
    points = plugins._points

    def left(group: plugins.Group) -> dict[str, Any]:
        ours = plugins.OURS.get(group, {})
        return {name: point for name, point in points(group).items() if name not in ours}

    monkeypatch.setattr(plugins, "_points", left)
    plugins.load.cache_clear()


@pytest.mark.usefixtures("without_engines")
def test_a_runtime_that_is_not_installed_is_named_with_the_extra_that_brings_it(
    tmp_path: Path,
) -> None:
    for use in (ModelStore(tmp_path, rows=[ROW]).find, ModelStore(tmp_path, rows=[ROW]).pull):
        with pytest.raises(ExtraMissing, match=r"edgewise-engines.*\[onnx\]"):
            use("tiny-qwen@onnx")
        with pytest.raises(ExtraMissing, match=r"edgewise-engines.*\[engines\]"):
            use("tiny-qwen@geniex")


def test_what_was_converted_is_still_listed_without_its_runtime(
    store: ModelStore, request: pytest.FixtureRequest
) -> None:
    made = store.pull("tiny-qwen@onnx")
    request.getfixturevalue("without_engines")
    assert made in store.installed()


def test_a_runtime_that_says_nothing_of_itself_opens_what_it_is_given(
    store: ModelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = plugins._points
    ray = {"parrot": points("local_backends")["ray"]}
    monkeypatch.setattr(
        plugins, "_points", lambda group: ray if group == "local_backends" else points(group)
    )
    assert runtime_named("parrot") == LocalRuntime(title="parrot", package="edgewise-cluster")
    assert store.find("tiny-qwen@parrot").path == store.find("tiny-qwen").path
