"""A model that nobody has calibrated: its confidence is called unverified at every door."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edgewise import Engine
from edgewise.calibrations import find_calibration
from edgewise.decide.calibration import CHAT
from edgewise.local.store import InstalledModel
from edgewise.settings import Settings
from edgewise.testing import LoopbackCloud, ScriptedBackend
from edgewise.types.replies import Finished, Switched
from tests.cli.conftest import Run
from tests.cli.conftest import run as run
from tests.server.conftest import Serving
from tests.server.conftest import cloud as cloud
from tests.server.conftest import serving as serving

HEADER = "x-edgewise-confidence-verified"


@pytest.fixture
def stranger(
    default_model: InstalledModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """The small model under a name that we know nothing about."""
    path = tmp_path / "stranger.gguf"
    path.symlink_to(default_model.path)
    monkeypatch.setenv("EDGEWISE_MODEL", str(path))
    return path


def test_it_gets_what_other_models_showed_and_no_promise() -> None:
    found = find_calibration(Settings(), "stranger-q8_0", CHAT)
    assert (found.name, found.verified) == ("transfer", False)
    assert found.threshold == 0.5, "the gate decides with it all the same"
    assert not found.measured.risk and not found.measured.quantiles
    left_out = found.report["left_out"]
    assert len(left_out) == 3 and all(each["auroc"] > 0.6 for each in left_out.values())
    assert find_calibration(Settings(), "smollm2-135m-instruct-q8_0", CHAT).verified


def test_sure_answers_stay_and_doubtful_ones_leave(cloud: LoopbackCloud, tmp_path: Path) -> None:
    cloud.always("Paris.")
    settings = Settings.load(
        {"OPENAI_API_KEY": "sk-0123456789", "OPENAI_BASE_URL": cloud.openai_url}, data_dir=tmp_path
    )
    with Engine(settings, backend=ScriptedBackend.confident("In Paris.")) as engine:
        kept = engine.complete("Where?")
        promised = engine.complete("Where?", max_error=0.2)
    assert (kept.source, kept.confidence_verified) == ("local", False)
    assert kept.decision.reason.startswith("unverified confidence 0.9")
    assert promised.decision.code == "handoff_risk_unreachable", "it never claims a risk"
    with Engine(settings, backend=ScriptedBackend.doubtful("Perhaps Lyon.")) as engine:
        switched, *_, last = engine.stream("Where?")
    assert isinstance(switched, Switched) and isinstance(last, Finished)
    assert switched.confidence is not None and not switched.confidence_verified
    assert last.reply.source == "cloud" and "unverified confidence" in switched.reason


@pytest.mark.real_model
@pytest.mark.usefixtures("stranger")
def test_every_command_says_so(run: Run) -> None:
    asked = run("ask", "--local", "--max-tokens", "4", "--why", "Name a colour.")
    assert "(unverified)" in asked.err and "calibration transfer, unverified" in asked.err
    reply = run("ask", "--local", "--max-tokens", "4", "--json", "Name a colour.").json
    assert (reply["confidence_verified"], reply["decision"]["calibration"]) == (False, "transfer")
    assert "(unverified)" in run("chat", "--local", "--max-tokens", "4", stdin="Hello\n").out
    told = run("why", "--last").out
    assert "o unverified confidence" in told and "edgewise calibrate --builtin" in told
    assert run("why", "--last", "--json").json["verified"] is False
    assert "(unverified)" in run("ledger", "--last", "1").out
    assert run("ledger", "--last", "1", "--json").json[0]["confidence_verified"] is False
    checked = run("doctor", "--quick", "--json").json
    (found,) = (each for each in checked if each["what"] == "calibration")
    assert found["state"] == "note" and "unverified" in found["detail"]
    assert "--builtin" in found["fix"]


@pytest.mark.real_model
def test_a_model_of_ours_is_not_called_so(run: Run, default_model: object) -> None:
    asked = run("ask", "--local", "--max-tokens", "4", "--json", "Name a colour.")
    assert asked.json["confidence_verified"] is True
    assert "unverified" not in run("why", "--last").out


def test_the_server_says_so_in_bodies_headers_streams_and_its_ledger(serving: Serving) -> None:
    served = serving()
    whole = served.chat()
    assert whole.json()["edgewise"]["confidence_verified"] is False
    assert whole.headers[HEADER] == "false"
    end = [chunk["edgewise"] for chunk in served.chunks() if "edgewise" in chunk][-1]
    assert end["confidence_verified"] is False
    row: dict[str, Any] = served.http.get("/edgewise/requests").json()["requests"][0]
    assert row["confidence_verified"] is False
    assert served.metric('edgewise_confidence_count{verified="false"}') == 2


def test_a_stream_that_switches_says_so_when_it_does(
    serving: Serving, cloud: LoopbackCloud
) -> None:
    cloud.always("Paris.")
    served = serving(ScriptedBackend.doubtful("Perhaps Lyon."))
    first = served.chunks()[0]["edgewise"]
    assert first["source"] == "cloud"
    assert first["confidence_verified"] is False
