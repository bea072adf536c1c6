"""`edgewise setup`, and the question before the first answer."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from edgewise import parts
from edgewise.cli import setup as cli_setup
from edgewise.local import quickest
from edgewise.local.catalogue import Machine, ModelRow, ladder
from edgewise.local.quickest import Choice, machine_name
from edgewise.local.store import InstalledModel, ModelStore
from edgewise.settings import Settings
from tests.cli.conftest import Open, Run

GB = 1_000_000_000
SMALL = Machine(2 * GB, 60 * GB, cores=2)
ROOMY = Machine(8 * GB, 60 * GB, cores=4)


@pytest.fixture(autouse=True)
def nobody_named_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EDGEWISE_MODEL")
    monkeypatch.setitem(Settings.__init__.__kwdefaults__, "model", "auto")  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def nothing_is_measured(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> list[Settings]:
    """With which settings the runtimes would be measured."""
    asked: list[Settings] = []

    def tune_models(settings: Settings, *names: object, **options: object) -> list[Choice]:
        asked.append(settings)
        return []

    if "measured" not in request.fixturenames:
        monkeypatch.setattr(cli_setup, "tune_models", tune_models)
    return asked


QUICKER = Choice(
    model="edgewise-caller",
    runtime="onnx",
    calibration="edgewise-caller-q8_0:borrowed",
    milliseconds={"llama_cpp": 200.0, "onnx": 100.0},
    left_out={"executorch": "it is not converted"},
    machine=machine_name(),
)


@pytest.fixture
def measured(
    monkeypatch: pytest.MonkeyPatch, default_function_model: InstalledModel
) -> list[InstalledModel]:
    """The models whose runtimes were measured, by a machine that likes ONNX Runtime."""
    machine(monkeypatch, SMALL)
    asked: list[InstalledModel] = []

    def choose(model: InstalledModel, every: object, *rest: object, **options: object) -> Choice:
        asked.append(model)
        return replace(QUICKER, model=model.name, sha256=model.sha256)

    def candidates(
        store: object, model: InstalledModel, *rest: object
    ) -> list[tuple[str, InstalledModel | str]]:
        return [("llama_cpp", model), ("onnx", model)]

    monkeypatch.setattr(quickest, "choose", choose)
    monkeypatch.setattr(quickest, "candidates", candidates)
    return asked


def test_tune_measures_both_models_once_and_says_what_was_gained(
    run: Run, own_home: Path, measured: list[InstalledModel]
) -> None:
    ran = run("tune")
    assert ran.code == 0
    assert [model.name for model in measured] == ["edgewise-caller", "smollm2-135m-instruct"]
    assert "edgewise-caller: llama.cpp 200 ms · ONNX Runtime 100 ms" in ran.out
    assert "→ ONNX Runtime, 2.0 times as quick as llama.cpp; calibration edgewise-caller" in ran.out
    assert "ExecuTorch: it is not converted" in ran.out
    ran = run("tune", "edgewise-caller", "--json")
    assert (ran.json[0]["runtime"], ran.json[0]["gain"], len(measured)) == ("onnx", 2.0, 2)
    assert run("tune", "edgewise-caller", "--again").code == 0
    assert len(measured) == 3
    assert run("tune", "--forget", "--json").json == {"forgotten": 2}
    assert run("tune", "whisper-tinny").code == 5


def test_tune_has_nothing_to_compare_where_llama_cpp_is_alone(
    run: Run, measured: list[InstalledModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    def alone(store: object, model: object, *rest: object) -> list[tuple[str, object]]:
        return [("llama_cpp", model), ("onnx", "it is not installed")]

    monkeypatch.setattr(quickest, "candidates", alone)
    ran = run("tune", "edgewise-caller")
    assert "edgewise-caller: llama.cpp alone\n  ONNX Runtime: it is not installed" in ran.out
    assert measured == []


def test_setup_measures_what_it_fetched(
    run: Run, only_tiny: Path, nothing_is_measured: list[Settings]
) -> None:
    assert run("setup", "--json").json["runtimes"] == []
    assert nothing_is_measured == []
    assert run("setup", "--yes", "--model", "tiny", "--json").code == 0
    assert [settings.model for settings in nothing_is_measured] == ["tiny"]


@pytest.fixture
def config(own_home: Path) -> Path:
    return own_home / "config" / "config.toml"


@pytest.fixture
def only_tiny(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    default_model: InstalledModel,
    default_function_model: InstalledModel,
) -> Path:
    """A cache with the smallest rung and the function model, and no package index."""
    cache = tmp_path / "cache"
    for model in (default_model, default_function_model):
        shutil.copytree(model.path.parent, cache / "models" / model.name)  # times included
    monkeypatch.setenv("EDGEWISE_CACHE_DIR", str(cache))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    return cache


def machine(monkeypatch: pytest.MonkeyPatch, found: Machine) -> None:
    for place in (cli_setup, parts):
        monkeypatch.setattr(place, "read_machine", lambda folder: found)


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The models that would be downloaded, in their order."""
    names: list[str] = []

    def fetch(store: object, rows: Sequence[ModelRow], whole: int) -> None:
        names.extend(row.name for row in rows)

    monkeypatch.setattr(cli_setup, "_fetch", fetch)
    return names


def test_a_roomy_machine_is_offered_standard_and_nothing_happens_unasked(
    run: Run, no_model: Path, config: Path, monkeypatch: pytest.MonkeyPatch, fetched: list[str]
) -> None:
    machine(monkeypatch, ROOMY)
    ran = run("setup")
    assert ran.code == 0
    assert "This machine: 8 GB of memory and 60 GB of disk free, 4 cores, no GPU" in ran.out
    assert "Chat model:   standard (Qwen2.5 Coder 1.5B Instruct): standard needs about" in ran.out
    assert "1,216 MB, about 2 minutes at 10 MB/s" in ran.out
    assert "setup --model large is possible too" in ran.out
    assert "Nothing was changed." in ran.err and "setup --yes does it" in ran.err
    assert (fetched, config.exists()) == ([], False)


def test_yes_gets_the_chat_model_and_the_function_model_and_remembers(
    run: Run, no_model: Path, config: Path, monkeypatch: pytest.MonkeyPatch, fetched: list[str]
) -> None:
    machine(monkeypatch, ROOMY)
    ran = run("setup", "--yes", "--json")
    assert ran.code == 0
    assert fetched == ["qwen2.5-coder-1.5b-instruct", "edgewise-caller"]
    assert config.read_text("utf-8") == 'model = "standard"\n'
    assert (ran.json["model"], ran.json["done"]) == ("standard", True)
    assert ran.json["name"] == "qwen2.5-coder-1.5b-instruct"
    assert ran.json["machine"] == {
        "memory_bytes": 8 * GB,
        "disk_bytes": 60 * GB,
        "cores": 4,
        "gpu": "",
    }


def test_a_small_machine_gets_tiny_and_a_shared_file_is_counted_once(
    run: Run, no_model: Path, config: Path, monkeypatch: pytest.MonkeyPatch, fetched: list[str]
) -> None:
    machine(monkeypatch, SMALL)
    ran = run("setup", "--yes", "--json")
    assert fetched == ["smollm2-135m-instruct", "edgewise-caller"]
    assert ran.json["download_bytes"] == 98_362_432
    assert "about 4 GB of free memory, and there are 2" in ran.json["reason"]
    assert config.read_text("utf-8") == 'model = "tiny"\n'


def test_a_model_of_the_users_choice_may_be_a_rung_a_name_or_a_file(
    run: Run, config: Path, default_model: InstalledModel, fetched: list[str]
) -> None:
    for name, remembered in (
        ("LARGE", "large"),
        ("qwen2.5-coder-1.5b-instruct", "standard"),
        ("qwen3-0.6b", "qwen3-0.6b"),
        (str(default_model.path), str(default_model.path)),
    ):
        assert run("setup", "--yes", "--model", name).code == 0
        assert config.read_text("utf-8") == f'model = "{remembered}"\n'


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("standart", 5, "did you mean standard"),
        ("./gone.gguf", 5, "there is no file"),
        ("whisper-base", 2, "whisper-base is no chat model"),
        ("edgewise-caller", 2, "edgewise-caller is no chat model"),
    ],
)
def test_a_model_that_cannot_chat_is_not_remembered(
    run: Run, no_model: Path, config: Path, name: str, code: int, words: str
) -> None:
    ran = run("setup", "--yes", "--model", name)
    assert ran.code == code
    assert words in ran.err
    assert not config.exists()


def test_what_cannot_be_fetched_is_not_remembered(run: Run, no_model: Path, config: Path) -> None:
    ran = run("setup", "--yes", "--model", "standard")
    assert ran.code == 6
    assert "pip could not fetch" in ran.err
    assert not config.exists()


def test_a_variable_that_rules_is_named(
    run: Run, config: Path, monkeypatch: pytest.MonkeyPatch, fetched: list[str]
) -> None:
    monkeypatch.setenv("EDGEWISE_MODEL", "tiny")
    assert "EDGEWISE_MODEL=tiny rules" in run("setup", "--yes", "--model", "standard").err


def test_the_bar_counts_all_files_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, int, str]] = []

    class Bar:
        def __enter__(self) -> object:
            return lambda *report: seen.append(report)

        def __exit__(self, *_: object) -> None: ...

    class Store:
        def pull(self, name: str, progress: object, leave_for: object) -> None:
            assert callable(progress)
            progress(0, 98_362_432, "downloading")
            progress(98_362_432, 98_362_432, "downloading")
            progress(7, 9, "checking")

    monkeypatch.setattr(cli_setup, "download_bar", Bar)
    rows = [ladder()["tiny"]] * 2
    cli_setup._fetch(Store(), rows, 196_724_864)  # type: ignore[arg-type]
    downloading = [(done, total) for done, total, label in seen if label == "downloading"]
    half, whole = 98_362_432, 196_724_864
    assert downloading == [(0, whole), (half, whole), (half, whole), (whole, whole)]
    assert seen[2] == (7, 9, "checking")


# -- before the first answer ------------------------------------------------------------------


@pytest.mark.real_model
def test_without_a_terminal_the_same_model_answers_and_one_line_says_how_to_choose(
    script: Run, only_tiny: Path, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGEWISE_FETCH_DEFAULT_MODEL", "false")
    ran = script("ask", "--json", "What is the chemical symbol for gold?")
    assert ran.code == 0
    assert ran.json["model"] == "smollm2-135m-instruct"
    assert ran.err.startswith(
        "No model is chosen: using tiny (SmolLM2 135M Instruct), which is often wrong: standard "
    )
    assert ". To choose: " in ran.err
    assert ran.err.endswith("edgewise setup\n")
    assert not config.exists()


def test_the_line_is_said_when_the_model_is_fetched_and_not_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who asks a hundred times would read it a hundred times."""
    monkeypatch.setattr(parts, "read_machine", lambda _: ROOMY)
    monkeypatch.setattr(cli_setup, "ensure_model", lambda settings, _: settings)
    settings = Settings(cache_dir=tmp_path)
    assert cli_setup.choose_model(settings).model == "standard"
    assert capsys.readouterr().err.startswith("No model is chosen: using standard")
    row = ladder()["standard"]
    here = InstalledModel(row.name, tmp_path / "w.gguf", row.quantisation, "", 1)
    monkeypatch.setattr(ModelStore, "installed", lambda _, **__: [here])
    assert cli_setup.choose_model(settings).model == "standard"
    assert capsys.readouterr().err == ""


@pytest.mark.real_model
@pytest.mark.parametrize("how", ["variable", "flag", "remembered"])
def test_a_named_model_rules_and_nothing_is_asked(
    script: Run, only_tiny: Path, config: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    flags = ["--model", "tiny"] if how == "flag" else []
    if how == "variable":
        monkeypatch.setenv("EDGEWISE_MODEL", "tiny")
    if how == "remembered":
        config.parent.mkdir(parents=True)
        config.write_text('model = "tiny"\n')
    ran = script("ask", *flags, "--json", "What is the chemical symbol for gold?")
    assert (ran.code, ran.err, ran.json["model"]) == (0, "", "smollm2-135m-instruct")


@pytest.mark.real_model
def test_a_no_at_the_terminal_is_remembered_as_tiny(
    terminal: Open, only_tiny: Path, config: Path
) -> None:
    shown = terminal("ask", "What is the chemical symbol for gold?")
    shown.wait_for("[Y/n]")
    assert "This machine: " in shown.text and "Chat model: " in shown.text
    shown.press("n\r")
    assert shown.finish() == 0
    assert "is Au." in shown.text
    assert config.read_text("utf-8") == 'model = "tiny"\n'


@pytest.mark.real_model
def test_a_download_that_fails_does_not_keep_the_first_answer_back(
    script: Run, only_tiny: Path, config: Path
) -> None:
    """Where standard would fit it cannot be fetched; where it does not, tiny is here already."""
    ran = script("demo", "--yes")
    assert ran.code == 0
    assert "Chat model:   " in ran.err
    assert "└ device · smollm2-135m-instruct" in ran.out
    if "Not fetched: " in ran.err:
        assert not config.exists()
    else:
        assert config.read_text("utf-8") == 'model = "tiny"\n'


def test_who_wants_no_downloads_is_not_asked(
    run: Run, no_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGEWISE_FETCH_DEFAULT_MODEL", "false")
    ran = run("ask", "hi")
    assert ran.code == 5
    assert "Chat model:" not in ran.err
    assert not no_model.exists()


def test_a_question_for_the_cloud_proposes_nothing(run: Run, no_model: Path) -> None:
    ran = run("ask", "--cloud", "hi")
    assert ran.code == 4
    assert "setup" not in ran.err
