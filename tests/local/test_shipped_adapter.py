"""Models that are a base and an adapter of the installed package: found, merged, kept, renewed."""

from __future__ import annotations

import json
import pickle
import shutil
import signal
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from edgewise.errors import ModelNotFound, StoreError
from edgewise.local.llama_cpp import open_backend
from edgewise.local.store.catalogue import CALLER_MODEL, MODELS, Adapter, ModelRow
from edgewise.local.store.prepare import shipped_adapter
from edgewise.local.store.store import InstalledModel, ModelStore
from edgewise.local.store.verify import sha256_of
from edgewise.types.tokens import Token
from tests.local.fake_adapter import install_adapter
from tests.local.fake_packages import (
    build_parts,
    fake_row,
    real_default_weights,
    start_python,
    write_tiny_gguf,
)

SIZES = {"first.weight": (64, 96), "second.weight": (64, 96)}
# Pulls in another process that dies, or may write no more, once merging has begun.
PULL = """
    import os, pickle, resource, signal, sys
    from pathlib import Path
    folder, rows, packages, how = sys.argv[1:]
    sys.path.insert(0, packages)
    from edgewise.errors import StoreError
    from edgewise.local.store.store import ModelStore
    seen = []
    def progress(done, total, label):
        seen.append(label)
        if how == "die" and seen.count("merging the adapter") == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        if how == "full" and label == "checking":
            resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
    store = ModelStore(Path(folder), rows=pickle.loads(Path(rows).read_bytes()))
    try:
        store.pull("caller", progress)
    except StoreError as error:
        print(error)
"""


@pytest.fixture
def rows(wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[ModelRow]:
    """A chat model, and a caller that is the same published file with an adapter."""
    data = write_tiny_gguf(tmp_path / "source.gguf")
    chat = fake_row("chat", build_parts(wheels, [data]), data, convert=True)
    adapter = install_adapter(tmp_path / "packages", monkeypatch, SIZES)
    return [chat, replace(chat, name="caller", adapter=adapter)]


@pytest.fixture
def store(rows: list[ModelRow], tmp_path: Path) -> ModelStore:
    return ModelStore(tmp_path / "store", rows=rows)


def adapter_of(row: ModelRow) -> Adapter:
    assert row.adapter is not None
    return row.adapter


def file_of(row: ModelRow, tmp_path: Path) -> Path:
    return tmp_path / "packages" / adapter_of(row).package / adapter_of(row).file


def visible(store: ModelStore) -> list[str]:
    return sorted(path.name for path in store.root.iterdir() if path.name != ".partial")


def test_a_pull_merges_the_adapter_and_notes_what_it_was_made_of(
    store: ModelStore, rows: list[ModelRow]
) -> None:
    labels: list[str] = []
    pulled = store.pull("caller", lambda _done, _all, label: labels.append(label))
    assert pulled == store.find("caller") == store.verify("caller")
    assert list(dict.fromkeys(labels)) == ["downloading", "checking", "merging the adapter"]
    manifest = json.loads((pulled.path.parent / "manifest.json").read_text("utf-8"))
    assert manifest["source_sha256"] == rows[1].sha256
    assert manifest["source"]["adapter_sha256"] == adapter_of(rows[1]).sha256
    assert manifest["source"]["merged"].startswith("20")
    assert (manifest["quantisation"], manifest["sha256"]) == ("Q8_0", sha256_of(pulled.path))
    assert not (store.root / ".partial" / "caller").exists()
    assert pulled.sha256 != store.pull("chat").sha256


def test_two_models_of_one_published_file_fetch_it_once(store: ModelStore, wheels: Path) -> None:
    store.pull("chat", leave_for=["Caller"])
    shutil.rmtree(wheels)
    assert store.pull("caller") == store.find("caller")
    assert visible(store) == ["caller", "chat"]


def test_nothing_is_left_for_a_model_that_is_there_or_being_pulled(
    store: ModelStore, rows: list[ModelRow]
) -> None:
    from filelock import FileLock

    (store.root / ".partial").mkdir(parents=True)
    with FileLock(store.root / ".partial" / "caller.lock"):
        store.pull("chat", leave_for=["caller"])
    assert not (store.root / ".partial" / "caller").exists()
    store.pull("caller", leave_for=["chat", "nobody"])
    assert not (store.root / ".partial" / "chat").exists()


def test_another_adapter_makes_another_file_and_the_old_one_goes(
    store: ModelStore, rows: list[ModelRow], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = store.pull("caller")
    other = install_adapter(tmp_path / "packages", monkeypatch, SIZES, seed=1)
    newer = ModelStore(store.root, rows=[rows[0], replace(rows[1], adapter=other)])
    assert newer.installed() == []
    with pytest.raises(ModelNotFound, match="for another release of edgewise; run `edgewise pull"):
        newer.find("caller")

    new = newer.pull("caller")

    assert new == newer.find("caller") and newer.installed() == [new]
    assert new.sha256 != old.sha256
    assert len(list(store.root.rglob("*.gguf"))) == 1
    with pytest.raises(ModelNotFound, match="another release"):
        store.find("caller")


def test_another_rounding_of_the_same_adapter_makes_another_file(
    store: ModelStore, rows: list[ModelRow]
) -> None:
    store.pull("caller")
    smaller = ModelStore(store.root, rows=[rows[0], replace(rows[1], requantise_to="q4_0")])
    assert smaller.installed() == []
    assert smaller.pull("caller").path.name == "caller.Q4_0.gguf"
    assert [path.name for path in store.root.rglob("*.gguf")] == ["caller.Q4_0.gguf"]


def test_while_the_new_file_cannot_be_made_the_old_one_stays_on_the_disk(
    store: ModelStore, rows: list[ModelRow]
) -> None:
    old = store.pull("caller")
    broken = replace(adapter_of(rows[1]), sha256="0" * 64)
    with pytest.raises(StoreError, match="damaged"):
        ModelStore(store.root, rows=[replace(rows[1], adapter=broken)]).pull("caller")
    assert store.find("caller") == old


def test_a_missing_adapter_is_said_before_anything_is_fetched(
    store: ModelStore, rows: list[ModelRow], tmp_path: Path
) -> None:
    file_of(rows[1], tmp_path).unlink()
    labels: list[str] = []
    with pytest.raises(StoreError, match=r"lacks the adapter caller.gguf; .*pip install --force"):
        store.pull("caller", lambda _done, _all, label: labels.append(label))
    assert labels == []
    with (
        pytest.raises(StoreError, match="lacks the adapter"),
        shipped_adapter(Adapter("a.gguf", "", "no_such_package")),
    ):
        pass


def test_a_damaged_adapter_is_refused_and_left_where_it_is(
    store: ModelStore, rows: list[ModelRow], tmp_path: Path
) -> None:
    path = file_of(rows[1], tmp_path)
    path.write_bytes(path.read_bytes()[:-1] + b"\xff")
    with pytest.raises(StoreError, match=r"is damaged, .*pip install --force-reinstall"):
        store.pull("caller")
    assert path.exists(), "it belongs to the installed package"
    assert visible(store) == []


def test_an_adapter_for_another_base_is_refused(
    store: ModelStore, rows: list[ModelRow], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for sizes, words in (
        ({"blk.0.attn_q.weight": (64, 96)}, "does not fit its base"),
        ({"first.weight": (96, 64)}, "another shape"),
    ):
        adapter = install_adapter(tmp_path / "packages", monkeypatch, sizes)
        other = ModelStore(store.root, rows=[replace(rows[1], adapter=adapter)])
        with pytest.raises(StoreError, match=words):
            other.pull("caller")
        assert visible(store) == []


def test_an_adapter_is_found_inside_a_zip(
    rows: list[ModelRow], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As resources of a package may be; a wheel is unpacked, an editable one is a folder."""
    data = file_of(rows[1], tmp_path).read_bytes()
    with zipfile.ZipFile(tmp_path / "zipped.zip", "w") as archive:
        archive.writestr("zipped_adapter/__init__.py", "")
        archive.writestr("zipped_adapter/caller.gguf", data)
    monkeypatch.syspath_prepend(str(tmp_path / "zipped.zip"))
    with shipped_adapter(replace(adapter_of(rows[1]), package="zipped_adapter")) as path:
        assert path.read_bytes() == data


def pull_elsewhere(store: ModelStore, rows: list[ModelRow], how: str) -> tuple[int, str, str]:
    saved = store.root.parent / "rows.pickle"
    saved.write_bytes(pickle.dumps(tuple(rows)))
    packages = store.root.parent / "packages"
    with start_python(PULL, store.root, saved, packages, how) as process:
        said, errors = process.communicate()
    return process.returncode, said, errors


def test_a_pull_killed_while_merging_shows_nothing_and_the_next_one_completes_without_fetching(
    store: ModelStore, rows: list[ModelRow], wheels: Path
) -> None:
    code, _, errors = pull_elsewhere(store, rows, "die")
    assert code == -signal.SIGKILL, errors
    assert visible(store) == [] and store.installed() == []
    assert list((store.root / ".partial").rglob("*.tmp")), "it died in the middle of the file"
    shutil.rmtree(wheels)
    assert store.pull("caller") == store.verify("caller")
    assert not (store.root / ".partial" / "caller").exists()


def test_a_disk_that_fills_up_while_merging_is_a_store_error(
    store: ModelStore, rows: list[ModelRow]
) -> None:
    code, said, errors = pull_elsewhere(store, rows, "full")
    assert code == 0 and "cannot write in" in said, errors
    assert visible(store) == []
    assert store.pull("caller") == store.find("caller")


def test_the_installed_adapters_are_those_that_are_pinned_and_small_enough_to_ship() -> None:
    total = 0
    for adapter in filter(None, (row.adapter for row in MODELS.values())):
        with shipped_adapter(adapter) as path:
            total += path.stat().st_size
    assert total <= 24_000_000


def test_git_and_so_the_wheel_take_adapters_but_no_other_weights() -> None:
    """The build leaves out what git ignores: a wheel without the adapter would not be noticed."""
    ignored = (Path(__file__).parents[2] / ".gitignore").read_text("utf-8").splitlines()
    assert ignored.index("*.gguf") < ignored.index("!src/edgewise/weights/*.gguf")


@pytest.mark.real_model
def test_the_real_base_with_a_small_adapter_is_a_model_that_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, default_model: InstalledModel
) -> None:
    """The whole way with the real published file; only the adapter is the test's own."""
    adapter = install_adapter(
        tmp_path / "packages", monkeypatch, {"blk.0.attn_q.weight": (576, 576)}
    )
    row = replace(MODELS[CALLER_MODEL], adapter=adapter)
    store = ModelStore(tmp_path / "store", rows=[row])
    partial = store.root / ".partial" / row.name
    partial.mkdir(parents=True)
    shutil.copy(real_default_weights(), partial / "joined.gguf")
    pulled = store.pull(row.name)
    assert pulled.bytes == row.result_bytes
    texts = []
    for model in (pulled, default_model):
        backend = open_backend(model, threads=1, context_tokens=512)
        try:
            prompt = "<|im_start|>user\nName a colour.<|im_end|>\n<|im_start|>assistant\n"
            items = list(backend.write_call(prompt, max_tokens=8))
        finally:
            backend.close()
        texts.append([(i.text, i.logprob) for i in items if isinstance(i, Token)])
    assert texts[0] and texts[0] != texts[1]
