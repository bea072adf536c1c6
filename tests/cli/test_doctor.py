"""`edgewise doctor`: finds what is missing or broken, says how to mend it, changes nothing."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib.metadata import (
    Distribution,
    EntryPoint,
    PackageNotFoundError,
    distribution,
    metadata,
    version,
)
from pathlib import Path
from typing import Any

import pytest

from edgewise import extras, plugins
from edgewise.cli import doctor as doctor_module
from edgewise.cli.doctor import examine
from edgewise.cli.streams import command
from edgewise.local.catalogue import Machine
from edgewise.local.quickest import Choice, machine_name, remember
from edgewise.local.store import InstalledModel
from edgewise.testing import LoopbackCloud
from tests.cli.conftest import KEY, Run


def finding(findings: list[dict[str, str]], what: str) -> dict[str, str]:
    (found,) = [each for each in findings if each["what"] == what]
    return found


def check(run: Run) -> Any:
    return run("doctor", "--quick", "--json").json


@pytest.mark.real_model
def test_a_healthy_machine_answers_and_is_not_written_about(
    run: Run, default_model: InstalledModel, own_home: Path
) -> None:
    ran = run("doctor", "--json")
    assert (ran.code, ran.err) == (0, "")
    states = {each["what"]: each["state"] for each in ran.json}
    assert states["model"] == states["generation"] == states["ledger"] == states["disk"] == "ok"
    assert re.match(r"[1-9][\d,]* tokens/s, ", finding(ran.json, "generation")["detail"])
    assert run("ledger", "--json").json["requests"] == 0, "a check is no request"


@pytest.mark.real_model
def test_the_page_has_a_mark_for_each_finding_and_an_arrow_for_each_fix(
    run: Run, default_model: InstalledModel
) -> None:
    ran = run("doctor", "--quick")
    assert ran.code == 0
    assert "✓ model       smollm2-135m-instruct Q8_0, 145 MB, " in ran.out
    assert "! cloud       no key: doubtful answers stay on the device" in ran.out
    assert f"→ {command('auth set gemini')}" in ran.out


def test_a_missing_model_is_found_and_not_fetched(run: Run, no_model: Path) -> None:
    ran = run("doctor", "--json")
    assert ran.code == 1
    model = finding(ran.json, "model")
    assert (model["state"], model["fix"]) == ("broken", command("pull smollm2-135m-instruct"))
    assert not no_model.exists()
    page = run("doctor")
    assert page.code == 1
    assert "✗ model       the model smollm2-135m-instruct is not here yet" in page.out


def test_a_model_nobody_knows_is_no_model_to_pull(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGEWISE_MODEL", "smollm3")
    model = finding(check(run), "model")
    assert model["state"] == "broken"
    assert model["fix"].startswith(command("models"))


def test_a_missing_function_model_is_a_note_with_the_command_that_gets_it(
    run: Run, no_model: Path
) -> None:
    function_model = finding(check(run), "function model")
    assert (function_model["state"], function_model["fix"]) == (
        "note",
        command("pull edgewise-caller"),
    )
    assert not no_model.exists()


def test_the_users_own_function_model_is_shown_and_a_wrong_one_is_broken(
    run: Run, monkeypatch: pytest.MonkeyPatch, default_model: InstalledModel, tmp_path: Path
) -> None:
    monkeypatch.setenv("EDGEWISE_CALLER_MODEL", str(default_model.path))
    function_model = finding(check(run), "function model")
    assert (function_model["state"], function_model["fix"]) == ("ok", "")
    assert str(default_model.path) in function_model["detail"]
    for wrong in (str(tmp_path / "gone.gguf"), "edgewise-callr"):
        monkeypatch.setenv("EDGEWISE_CALLER_MODEL", wrong)
        function_model = finding(check(run), "function model")
        assert function_model["state"] == "broken" and function_model["fix"]


def test_a_file_that_is_no_model_is_found_by_loading_it(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "broken.gguf").write_bytes(b"GGUF and then nothing of use")
    monkeypatch.setenv("EDGEWISE_MODEL", str(tmp_path / "broken.gguf"))
    ran = run("doctor", "--json")
    assert ran.code == 1
    assert "broken" in {
        each["state"] for each in ran.json if each["what"] in ("model", "generation")
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("threads = ", "config.toml"),
        ("thread = 3", "there is no setting 'thread'; did you mean 'threads'"),
        ('max_tokens = "many"', "max_tokens = 'many'"),
    ],
)
def test_broken_settings_are_found(run: Run, own_home: Path, text: str, words: str) -> None:
    (own_home / "config").mkdir(parents=True)
    (own_home / "config" / "config.toml").write_text(text)
    ran = run("doctor", "--quick", "--json")
    assert ran.code == 1
    settings = finding(ran.json, "settings")
    assert settings["state"] == "broken"
    assert words in settings["detail"]
    assert "docs/reference/settings.md" in settings["fix"]


def test_an_unknown_policy_is_found(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGEWISE_POLICY", "prefer_loacl")
    settings = finding(run("doctor", "--quick", "--json").json, "settings")
    assert settings["state"] == "broken"
    assert "did you mean 'prefer_local'?" in settings["detail"]


def test_a_missing_key_is_a_note_and_says_how_to_store_one(run: Run) -> None:
    cloud = finding(check(run), "cloud")
    assert cloud["state"] == "note"
    assert "edgewise auth set" in cloud["fix"]


def test_a_chain_without_its_key_is_noted(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGEWISE_CHAIN", "openai, ollama/llama3")
    clouds = [each for each in check(run) if each["what"] == "cloud"]
    assert [each["state"] for each in clouds] == ["note", "ok"]
    assert clouds[0]["fix"] == command("auth set openai")
    assert clouds[1]["detail"].startswith("ollama/")


def test_with_a_key_the_chain_is_named(run: Run, cloud: LoopbackCloud) -> None:
    found = finding(check(run), "cloud")
    assert found["state"] == "ok"
    assert found["detail"].startswith("openai/")
    assert cloud.connections == 0


def test_keys_that_others_can_read_are_broken(run: Run, own_home: Path) -> None:
    run("auth", "set", "openai", "--no-check", stdin=KEY)
    assert finding(check(run), "keys")["state"] == "note"
    (own_home / "config" / "keys.json").chmod(0o644)
    keys = finding(check(run), "keys")
    assert keys["state"] == "broken"
    assert keys["fix"].startswith("chmod 600 ")


def test_damaged_keys_are_said_once(run: Run, own_home: Path) -> None:
    (own_home / "config").mkdir(parents=True)
    (own_home / "config" / "keys.json").write_text(f'{{"openai": "{KEY}')
    ran = run("doctor", "--quick")
    assert ran.code == 1
    assert ran.out.count("keys.json") == 1
    assert KEY not in ran.out


def test_a_ledger_that_cannot_be_opened_is_broken(run: Run, own_home: Path) -> None:
    own_home.mkdir()
    (own_home / "data").write_text("not a folder")
    assert finding(check(run), "ledger")["state"] == "broken"


def test_a_missing_calibration_file_is_broken_and_the_rest_goes_on(
    run: Run, monkeypatch: pytest.MonkeyPatch, default_model: InstalledModel
) -> None:
    monkeypatch.setenv("EDGEWISE_CALIBRATION", "/nowhere/at/all.json")
    findings = check(run)
    assert finding(findings, "calibration")["state"] == "broken"
    assert finding(findings, "disk")["state"] == "ok"


def test_every_broken_thing_comes_with_a_fix(no_model: Path, own_home: Path) -> None:
    (own_home / "config").mkdir(parents=True)
    for text, what in (("", "model"), ('policy = "nope"\n', "settings")):
        (own_home / "config" / "config.toml").write_text(text)
        broken = [each for each in examine(quick=True) if each.state == "broken"]
        assert {each.what for each in broken} == {what}
        assert all(each.fix for each in broken)


def test_a_calibration_that_can_promise_nothing_gets_no_check_mark(run: Run) -> None:
    """The smallest model's: whatever error is allowed, it can keep nothing."""
    found = finding(check(run), "calibration")
    assert found["state"] == "note"
    assert "answers below 0.50 go to the cloud (families of questions" in found["detail"]
    assert "left out: 0.5: 7 % kept, 59 % right, 0.6: 3 % kept, 65 % right" in found["detail"]
    assert found["detail"].endswith(
        "for requests like the 14,398 measured: "
        "with max_error 1 %, 5 %, 10 % or 20 % every answer "
        "goes to the cloud; a stranger is promised nothing"
    )
    assert found["fix"] == f"a larger model can promise more: {command('setup')}"


def test_every_extra_of_the_package_is_looked_at(run: Run) -> None:
    developers = {"dev", "docs"}
    declared = set(metadata("edgewise").get_all("Provides-Extra") or ()) - developers
    found = {each["extra"]: each for each in check(run) if each["extra"]}
    assert set(found) == declared == set(extras.FACTS)
    assert "speech" in found and found["speech"]["megabytes"] > 100
    assert found["speech"]["state"] == "ok"
    assert found["speech"]["detail"] == "installed, for transcribe, listen and act"


def test_an_extra_that_is_not_installed_says_what_it_lacks_its_size_and_the_command(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_rapidocr(name: str) -> Distribution:
        if name == "rapidocr":
            raise PackageNotFoundError(name)
        return distribution(name)

    monkeypatch.setattr(extras, "distribution", without_rapidocr)
    ran = run("doctor", "--quick")
    assert ran.code == 0, "an extra that nobody wanted is no failure"
    assert "· vision      not installed, for see; up to 300 MB; lacks rapidocr==3.10.0\n" in ran.out
    assert "-m pip install " in ran.out and "[vision]" in ran.out
    (vision,) = [each for each in check(run) if each["extra"] == "vision"]
    assert (vision["state"], vision["lacks"]) == ("absent", ["rapidocr==3.10.0"])


def test_an_extra_without_its_system_library_is_a_note_that_names_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_portaudio(name: str) -> None:
        assert name == "sounddevice"
        raise OSError("PortAudio library not found")

    monkeypatch.setattr(extras, "import_module", no_portaudio)
    found = doctor_module._extra("microphone", loads=True)
    assert (found.state, found.fix) == ("note", "on Debian and Ubuntu: apt install libportaudio2")
    assert found.detail.endswith("but the PortAudio library is missing")
    assert doctor_module._extra("microphone", loads=False).state == "ok", "--quick loads nothing"


@pytest.mark.parametrize(("memory", "could"), [(8_000_000_000, "standard"), (1_000, "tiny")])
def test_the_rung_its_source_and_what_the_machine_could_run_are_shown(
    run: Run, own_home: Path, monkeypatch: pytest.MonkeyPatch, memory: int, could: str
) -> None:
    found = Machine(memory, 60_000_000_000, cores=2)
    monkeypatch.setattr(doctor_module, "read_machine", lambda folder: found)
    device = finding(check(run), "device")
    fits = "it fits this machine" if could == "tiny" else f"this machine could run {could}"
    assert device["detail"].startswith(f"tiny, from EDGEWISE_MODEL; {fits}: ")
    assert device["state"] == ("note" if could == "standard" else "ok")
    monkeypatch.delenv("EDGEWISE_MODEL")
    monkeypatch.setenv("EDGEWISE_CACHE_DIR", str(own_home / "empty"))
    device = finding(check(run), "device")
    assert (device["state"], device["detail"][:21]) == ("note", "tiny, nobody chose it")
    assert device["fix"].endswith("edgewise setup")
    (own_home / "config").mkdir(parents=True)
    (own_home / "config" / "config.toml").write_text('model = "standard"')
    device = finding(check(run), "device")
    assert (device["state"], device["fix"]) == ("ok", "")
    assert device["detail"].startswith(f"standard, remembered in {own_home}")


def test_how_the_runtime_is_driven_is_said(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = finding(check(run), "llama.cpp")
    assert runtime["state"] == "ok" and "our own loop" in runtime["detail"]
    monkeypatch.setattr(doctor_module, "why_no_api", lambda: "another release")
    runtime = finding(check(run), "llama.cpp")
    assert runtime["state"] == "note" and "server API" in runtime["detail"]
    assert "another release" in runtime["detail"]


def test_a_model_on_another_runtime_is_shown_until_something_changes(
    run: Run, own_home: Path, default_function_model: InstalledModel
) -> None:
    choice = Choice(
        model=default_function_model.name,
        runtime="onnx",
        calibration="",
        milliseconds={"llama_cpp": 200.0, "onnx": 100.0},
        sha256=default_function_model.sha256,
        machine=machine_name(),
    )
    remember(own_home / "data", choice)
    found = [one for one in run("doctor", "--quick", "--json").json if one["what"] == "quickest"]
    words = "edgewise-caller on ONNX Runtime, 2.0 times as quick as on llama.cpp"
    assert [(one["state"], one["detail"]) for one in found] == [("ok", words)]
    remember(own_home / "data", replace(choice, machine="another one"))
    found = [one for one in run("doctor", "--quick", "--json").json if one["what"] == "quickest"]
    words = "edgewise-caller was measured, but it was another machine: it runs on llama.cpp"
    assert [(one["state"], one["detail"]) for one in found] == [("note", words)]


def test_runtimes_are_named_by_release_and_one_that_does_not_load_is_broken(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = plugins._points
    theirs = EntryPoint("clumsy", "no_such_module:RUNTIME", "edgewise.runtimes")
    found = {**points("runtimes"), "clumsy": [theirs]}
    monkeypatch.setattr(
        plugins, "_points", lambda group: found if group == "runtimes" else points(group)
    )
    monkeypatch.setitem(points("local_backends"), "clumsy", [theirs])
    findings = check(run)
    onnx = finding(findings, "ONNX Runtime")
    assert (onnx["state"], onnx["detail"]) == ("ok", f"onnxruntime {version('onnxruntime')}")
    clumsy = finding(findings, "clumsy")
    assert clumsy["state"] == "broken" and "no_such_module" in clumsy["detail"]
