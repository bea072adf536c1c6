"""Which calibration a model gets."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from edgewise import Engine, Tool
from edgewise.calibrations import (
    calibration_of,
    find_calibration,
    learnt_path,
    model_key,
    own_path,
    shipped_document,
    undo_own,
    write_own,
)
from edgewise.decide.calibration import CHAT
from edgewise.errors import SettingsError
from edgewise.local.backend import DeviceFacts
from edgewise.settings import Settings
from edgewise.testing import ScriptedBackend, ScriptedFunctionModel, ScriptedTranscriber, heard
from tests.speech.made_voice import silence, voice, wav

SHIPPED = "smollm2-135m-instruct-q8_0"
FACTS = DeviceFacts(
    backend="llama_cpp", model="smollm2-135m-instruct", quantisation="Q8_0", context_tokens=2048
)


def document(**changes: Any) -> str:
    file = resources.files("edgewise.calibrations") / f"{SHIPPED}.json"
    return json.dumps(json.loads(file.read_text("utf-8")) | changes)


def test_the_shipped_one_is_found_by_model_and_quantisation(tmp_path: Path) -> None:
    assert find_calibration(Settings(data_dir=tmp_path), model_key(FACTS), CHAT).name == SHIPPED


def test_whatever_is_written_first_the_data_folder_is_the_users_alone(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "learnt" / "data")
    write_own(learnt_path(settings, "refund"), {})
    assert stat.S_IMODE(Path(settings.data_dir).stat().st_mode) == 0o700
    assert stat.S_IMODE(learnt_path(settings, "refund").parent.stat().st_mode) == 0o700


def test_an_engine_that_rounds_anew_has_a_shipped_one_of_its_own(tmp_path: Path) -> None:
    facts = replace(
        FACTS,
        backend="executorch",
        model="smollm2-135m-instruct@executorch",
        quantisation="int8",
    )
    found = calibration_of(Settings(data_dir=tmp_path), facts, CHAT)
    assert found.verified and found.name == "smollm2-135m-instruct-int8@executorch"
    assert not calibration_of(
        Settings(data_dir=tmp_path), replace(facts, quantisation="int4"), CHAT
    ).verified


@pytest.mark.parametrize(
    ("name", "before", "rows"),
    [
        (SHIPPED, True, 14398),
        ("qwen2.5-coder-0.5b-instruct-q4_k_m", False, 14398),
        ("qwen2.5-coder-1.5b-instruct-q4_k_m", True, 20828),
    ],
)
def test_shipped_chat_models_are_judged_by_their_hidden_states(
    tmp_path: Path, name: str, before: bool, rows: int
) -> None:
    words = find_calibration(Settings(data_dir=tmp_path), name, CHAT)
    both = words.seen(states=True)
    assert (words.name, both.name) == (name, f"{name}:state")
    assert both.fitted and both.layer_of("state") > 0
    assert ("before" in both.scores) == (both.layer_of("before") > 0) == before
    assert both.measured.risk_rows == rows
    assert {"whole", "stream"} == set(both.measured.risk)
    skips = both.boundaries.at(0.5, 0)[0]
    assert (0.0 < skips < 0.5) == before
    file = resources.files("edgewise.calibrations") / f"{name}.json"
    assert len(file.read_bytes()) < 100_000
    assert both.report["kinds_auroc"] > words.report["kinds_auroc"] + 0.05


def test_the_users_own_comes_first_and_is_read_again_after_a_refit(
    tmp_path: Path,
) -> None:
    settings = Settings(data_dir=tmp_path)
    assert find_calibration(settings, SHIPPED, CHAT).threshold == 0.5
    path = own_path(settings, SHIPPED, "chat")
    path.parent.mkdir()
    path.write_text(document(threshold=0.61), "utf-8")
    assert find_calibration(settings, SHIPPED, CHAT).threshold == 0.61
    path.unlink()
    assert find_calibration(settings, SHIPPED, CHAT).threshold == 0.5


def test_the_file_that_the_settings_name_comes_before_both(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(document(threshold=0.7), "utf-8")
    settings = Settings(data_dir=tmp_path, calibration=str(path))
    assert find_calibration(settings, SHIPPED, CHAT).threshold == 0.7


def test_a_file_that_cannot_be_read_is_an_error_and_not_passed_over(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    path = own_path(settings, SHIPPED, "chat")
    path.parent.mkdir()
    path.write_text("{", "utf-8")
    with pytest.raises(SettingsError, match=SHIPPED):
        find_calibration(settings, SHIPPED, CHAT)


def test_a_refit_counts_from_the_next_request_of_a_running_engine(tmp_path: Path) -> None:
    """For every task: chat once took a new calibration only with a new engine."""
    settings = Settings.load({}, data_dir=tmp_path)
    backend = ScriptedBackend.confident("Paris.")
    function_model = ScriptedFunctionModel(['set_timer {"minutes":5}'] * 2)
    transcriber = ScriptedTranscriber([[heard("the first part", 0.7, 2.0, 0.99)]] * 2)
    tool = Tool("set_timer", "Set a timer.", {"type": "object", "properties": {"minutes": {}}})
    talk = wav(silence(0.5), voice(3.0), silence(0.5))
    parts = {"backend": backend, "function_model": function_model, "transcriber": transcriber}
    with Engine(settings, **parts) as engine:  # type: ignore[arg-type]

        def thresholds() -> tuple[float | None, ...]:
            return (
                engine.complete("Capital of France?").decision.threshold,
                engine.call("Set a timer for 5 minutes", [tool]).decision.threshold,
                engine.transcribe(talk).decision.threshold,
            )

        before = thresholds()
        settings.calibrations_dir.mkdir(parents=True)
        for model, kind, source, threshold in (
            (backend, "chat", SHIPPED, 0.11),
            (function_model, "calls", "edgewise-caller-q8_0", 0.12),
            (transcriber, "speech", "whisper-tiny.en-int8", 0.13),
        ):
            data = dict(shipped_document(source, kind) or {}) | {"threshold": threshold}
            own_path(settings, model_key(model.facts()), kind).write_text(json.dumps(data), "utf-8")
        assert thresholds() == (0.11, 0.12, 0.13) != before


def test_the_previous_calibration_is_kept_aside_and_comes_back(tmp_path: Path) -> None:
    settings = Settings.load(data_dir=tmp_path)
    path = own_path(settings, SHIPPED, "chat")
    assert not undo_own(path), "there is nothing to undo"
    document = dict(shipped_document(SHIPPED, "chat") or {})
    for name in ("first", "second"):
        write_own(path, document | {"name": name})
        assert find_calibration(settings, SHIPPED, CHAT).name == name
    assert undo_own(path)
    assert find_calibration(settings, SHIPPED, CHAT).name == "first"
    assert undo_own(path)
    assert find_calibration(settings, SHIPPED, CHAT).name == SHIPPED
    assert not undo_own(path)


def test_undo_never_brings_back_one_that_was_removed_by_hand(tmp_path: Path) -> None:
    path = own_path(Settings.load(data_dir=tmp_path), SHIPPED, "chat")
    for name in ("first", "second"):
        write_own(path, {"name": name})
    path.unlink()
    write_own(path, {"name": "third"})
    assert undo_own(path)
    assert not path.exists(), "before the third, the shipped one was in use"
