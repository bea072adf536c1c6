"""Replies and rows of every task explained with the calibrations that ship."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from edgewise import Engine, Settings, Tool
from edgewise.calibrations import find_document, own_path
from edgewise.errors import EdgewiseError
from edgewise.monitor.why import (
    explain_reply,
    explain_row,
    known_today,
)
from edgewise.testing import LoopbackCloud, ScriptedBackend, Status
from edgewise.testing.scripted import SCRIPTED_FACTS
from edgewise.types.messages import Message, Request
from edgewise.types.replies import Attempt
from tests.flows.calling import function_model

SHIPPED = "smollm2-135m-instruct-q8_0"
SECRET = "sk-live-0123456789abcdefghij"


def shipped() -> dict[str, Any]:
    file = resources.files("edgewise.calibrations") / f"{SHIPPED}.json"
    data: dict[str, Any] = json.loads(file.read_text("utf-8"))
    return data


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(shipped()), "utf-8")
    return Settings.load({}, data_dir=tmp_path, calibration=str(path))


def with_cloud(settings: Settings, cloud: LoopbackCloud) -> Settings:
    environment = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": cloud.openai_url}
    return Settings.load(environment, data_dir=settings.data_dir, calibration=settings.calibration)


def row_of(engine: Engine, request_id: str) -> dict[str, Any]:
    row = engine.ledger.get(request_id)
    assert row is not None
    return row


def test_a_row_says_the_same_as_the_reply_it_was_written_from(settings: Settings) -> None:
    with Engine(settings, backend=ScriptedBackend.confident("Paris.")) as engine:
        reply = engine.complete("What is the capital of France?")
        from_reply = explain_reply(reply, settings)
        assert from_reply == explain_row(row_of(engine, reply.id), settings)
    assert from_reply.outcome == "stayed"
    assert from_reply.score == "final"
    assert {pull.feature for pull in from_reply.pulls} == set(shipped()["final"]["weights"])


def test_a_row_from_before_a_refit_says_so(settings: Settings) -> None:
    with Engine(settings, backend=ScriptedBackend.confident("Paris.")) as engine:
        reply = engine.complete("What is the capital of France?")
        row = row_of(engine, reply.id)
    data = shipped()
    data["final"]["bias"] -= 1.0
    Path(settings.calibration).write_text(json.dumps(data), "utf-8")
    found = explain_row(row, settings)
    assert not found.pulls
    assert "fitted again" in found.notes[0]
    assert found.sentence.startswith("It stayed on the device: its confidence of")


def test_a_row_is_explained_by_the_calibration_of_its_name_whatever_was_fitted_since(
    tmp_path: Path,
) -> None:
    settings = Settings.load({}, data_dir=tmp_path)
    mine = f"{SHIPPED}+own.20261115"
    own = own_path(settings, SHIPPED, "chat")
    own.parent.mkdir()
    own.write_text(json.dumps(shipped() | {"name": mine, "hold_tokens": 3}), "utf-8")
    assert known_today(settings, "chat", mine).hold_tokens == 3
    assert known_today(settings, "chat", SHIPPED).hold_tokens == shipped()["hold_tokens"]
    assert not known_today(settings, "chat", f"{SHIPPED}+own.20250101").found


def test_a_damaged_calibration_costs_only_the_chart(settings: Settings) -> None:
    mine = f"{SHIPPED}+own.1"
    Path(settings.calibration).write_text(json.dumps(shipped() | {"name": mine}), "utf-8")
    with Engine(settings, backend=ScriptedBackend.confident("Paris.")) as engine:
        reply = engine.complete("What is the capital of France?")
        row = row_of(engine, reply.id)
    own = own_path(settings, SHIPPED, "chat")
    own.parent.mkdir()
    own.write_text(json.dumps({"name": mine, "final": {"weights": 3}}), "utf-8")
    Path(settings.calibration).unlink()
    found = explain_row(row, settings)
    assert found.notes == (f"the calibration {mine!r} is no longer here",)
    assert found.sentence.startswith("It stayed on the device: ")


def test_a_stopped_answer_is_explained_by_the_early_score(settings: Settings) -> None:
    with LoopbackCloud() as cloud:
        cloud.always("Canberra.")
        with Engine(
            with_cloud(settings, cloud), backend=ScriptedBackend.doubtful("Sydney is it.")
        ) as engine:
            reply = engine.complete("What is the capital of Australia?")
    found = explain_reply(reply, settings)
    assert found.outcome == "left"
    assert found.score in ("early", "final")
    assert found.pulls
    assert found.changes


def test_calls_carry_the_evidence_of_the_least_sure_one(tmp_path: Path) -> None:
    settings = Settings.load({}, data_dir=tmp_path)
    tools = [Tool("get_weather", "The weather in a place.", {
        "type": "object",
        "properties": {"location": {"type": "string"}},
        "required": ["location"],
    })]  # fmt: skip
    device = function_model('get_weather {"location":"London"}', doubt=["get_weather"])
    with Engine(settings, function_model=device) as engine:
        reply = engine.call("What is the weather in London?", tools)
        row = row_of(engine, reply.id)
    assert row["features"]["call_min"] < 0
    assert reply.decision.features == row["features"]


@pytest.fixture
def failing() -> Iterator[LoopbackCloud]:
    with LoopbackCloud() as cloud:
        cloud.always(Status(400, message=f"bad key {SECRET}"))
        yield cloud


def test_a_failure_is_explained_without_its_secrets(failing: LoopbackCloud, tmp_path: Path) -> None:
    settings = Settings.load(
        {"OPENAI_API_KEY": SECRET, "OPENAI_BASE_URL": failing.openai_url}, data_dir=tmp_path
    )
    with Engine(settings, backend=ScriptedBackend.confident("x")) as engine:
        with pytest.raises(EdgewiseError):
            engine.complete("Hello?", policy="cloud_only", request_id="lost")
        found = explain_row(row_of(engine, "lost"), settings)
    assert found.outcome == "failed"
    assert found.code == "cloud_rejected"
    assert SECRET not in json.dumps(found.to_dict())


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("chat", SHIPPED),
        ("calls", "edgewise-caller-q8_0"),
        ("speech", "whisper-tiny.en-int8"),
        ("see", "pp-ocrv6-small"),
    ],
)
def test_every_shipped_calibration_can_explain(kind: Any, name: str, tmp_path: Path) -> None:
    """A row is explained by the score that gives its confidence."""
    settings = Settings.load({}, data_dir=tmp_path)
    data = find_document(settings, name, kind)
    assert data is not None
    score = {"chat": "final", "calls": "call", "speech": "chance", "see": "whole"}[kind]
    features = dict.fromkeys(data[score]["weights"], 0.3)
    row: dict[str, Any] = {
        "policy": "prefer_local", "handoff": "automatic", "decision_code": "kept_confident",
        "reason": "", "threshold": 0.1, "confidence": None, "calibration": name,
        "decided_after_tokens": None, "degraded_code": "", "truncated": False,
        "features": features, "source": "local", "needs_cloud_handoff": False, "error_code": "",
        "error": "", "task": {"calls": "call", "speech": "transcribe"}.get(kind, "chat"),
    }  # fmt: skip
    known = known_today(settings, str(row["task"]), name)
    row["confidence"] = known.scores[score].of(features)
    found = explain_row(row, settings)
    assert found.score == score
    assert [pull.feature for pull in found.pulls]


def test_embeddings_have_no_score_and_still_a_sentence(tmp_path: Path) -> None:
    settings = Settings.load({}, data_dir=tmp_path)
    row: dict[str, Any] = {
        "policy": "prefer_local", "handoff": "automatic", "decision_code": "embedded_local",
        "reason": "the device made the vectors", "threshold": None, "confidence": None,
        "calibration": "", "decided_after_tokens": None, "degraded_code": "", "truncated": False,
        "features": {}, "source": "local", "needs_cloud_handoff": False, "error_code": "",
        "error": "", "task": "embed",
    }  # fmt: skip
    found = explain_row(row, settings)
    assert found.sentence == "It stayed on the device: the device made the vectors."
    assert not found.notes


def test_an_answer_that_left_for_time_says_how_long_each_side_takes(settings: Settings) -> None:
    here = Attempt(
        place="local",
        backend="scripted",
        model=SCRIPTED_FACTS.model,
        outcome="answered",
        first_token_ms=2000.0,
        total_ms=14_000.0,
        input_tokens=1000,
        output_tokens=61,
    )
    there = Attempt(place="cloud", backend="openai", model="m", outcome="answered", total_ms=2100.0)
    with LoopbackCloud() as cloud:
        cloud.always("Canberra.")
        settings = with_cloud(settings, cloud)
        with Engine(settings, backend=ScriptedBackend.confident("Canberra.")) as engine:
            kept = engine.complete("What is the capital of Australia?")
            assert kept.source == "local"
            for attempt in (here, there) * 3:
                request = Request(messages=(Message("user", "Where is it?"),))
                engine.parts.pace.watch(request, replace(kept, attempts=(attempt,)))
            left = engine.complete("What is the capital of Australia?")
            found = explain_row(row_of(engine, left.id), settings)
    assert left.decision.code == "handoff_slow_device"
    assert found.sentence == (
        "It left for the cloud before the device began: "
        "the device would need about 12 s, the cloud usually takes 2.1 s."
    )
    assert found.changes[0].startswith("With slow_after_s = 0")
