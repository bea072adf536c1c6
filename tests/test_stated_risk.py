"""A stated risk, from a request or the settings to the reply and the ledger, for every task.

The calibrations here prove 10 % at a threshold of 0.8 and 1 % at none; those of streams are
stricter.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgewise import Engine, Settings
from edgewise.decide.families import centres_of, write_centres
from edgewise.errors import InvalidRequest, SettingsError
from edgewise.testing import (
    Answer,
    LoopbackCloud,
    ScriptedBackend,
    ScriptedFunctionModel,
    ScriptedTranscriber,
    Status,
    heard,
)
from edgewise.types.replies import Finished, Reply
from tests.speech.made_voice import silence, voice, wav

WHOLE = [[0.9, 200, 4], [0.8, 400, 20], [0.5, 800, 300]]
STREAM = [[0.99, 200, 4], [0.8, 400, 60], [0.5, 800, 300]]
QUANTILES = [round(0.05 * number, 2) for number in range(21)]
MEASURED: dict[str, Any] = {"risk": {"whole": WHOLE}, "risk_rows": 1000, "quantiles": QUANTILES}
SCORE = {"weights": {"mean_logprob": 3.0}, "bias": 2.5}
CHAT: dict[str, Any] = {
    "format": 1,
    "name": "mine",
    "early": SCORE,
    "final": SCORE,
    "hold_tokens": 4,
    "threshold": 0.5,
    "keep_above": 1.0,
    "drop_below": 0.0,
    **MEASURED,
    "risk": {"whole": WHOLE, "stream": STREAM},
}
TEN = "an error of at most 10 % with probability 90 % on requests like those measured"
ONE = "an error of at most 1 % with probability 90 % on requests like those measured"
TALK = wav(silence(0.5), voice(5.0), silence(0.5))
TIMER = {
    "name": "set_timer",
    "description": "Set a countdown timer",
    "parameters": {
        "type": "object",
        "properties": {"minutes": {"type": "integer"}},
        "required": ["minutes"],
    },
}


@pytest.fixture
def cloud() -> Iterator[LoopbackCloud]:
    with LoopbackCloud() as server:
        server.always(Answer(text="The cloud knows."))
        yield server


@pytest.fixture
def chat_file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(CHAT))
    return path


def settings_for(cloud: LoopbackCloud, tmp_path: Path, **overrides: Any) -> Settings:
    environment = {"OPENAI_API_KEY": "a-key", "OPENAI_BASE_URL": cloud.openai_url}
    return Settings.load(environment, data_dir=tmp_path / "data", **overrides)


@pytest.fixture
def engine(cloud: LoopbackCloud, tmp_path: Path, chat_file: Path) -> Iterator[Engine]:
    settings = settings_for(cloud, tmp_path, calibration=str(chat_file))
    backend = ScriptedBackend.confident("It is in Paris I think so")
    with Engine(settings, backend=backend) as made:
        yield made


def test_what_is_sure_enough_for_the_risk_is_kept_and_says_which(engine: Engine) -> None:
    reply = engine.complete("Where?", max_error=0.1)
    assert (reply.source, reply.decision.code) == ("local", "kept_confident")
    assert (reply.decision.threshold, reply.decision.objective) == (0.8, TEN)
    assert reply.decision.reason == f"confidence {reply.confidence:.2f} is high enough for {TEN}"
    row = engine.ledger.get(reply.id)
    assert row is not None and TEN in row["reason"]
    assert reply.to_dict()["decision"]["objective"] == TEN


def test_a_stream_is_held_to_the_table_of_streams(engine: Engine) -> None:
    *_, last = engine.stream("Where?", max_error=0.1)
    assert isinstance(last, Finished)
    assert (last.reply.source, last.reply.decision.threshold) == ("cloud", 0.99)
    assert last.reply.decision.reason.endswith(f"is below 0.99, which {TEN} needs")


def test_a_risk_that_nothing_proves_sends_everything_to_the_cloud(
    engine: Engine, cloud: LoopbackCloud
) -> None:
    reply = engine.complete("Where?", max_error=0.01)
    assert (reply.source, reply.decision.code) == ("cloud", "handoff_risk_unreachable")
    assert reply.decision.reason == (
        f"{ONE} cannot be promised: the 1,000 rows of mine prove no threshold"
    )
    assert [attempt.place for attempt in reply.attempts] == ["cloud"], "no local time is wasted"


@pytest.fixture
def of_families(cloud: LoopbackCloud, tmp_path: Path) -> Iterator[Engine]:
    """An engine whose calibration was measured on questions for capitals."""
    lands = ("Peru", "Chad", "Norway", "Japan", "Egypt", "Cuba", "Ghana", "Laos")
    asked = [("places", "capitals", f"What is the capital of {land}?") for land in lands]
    asked += [("sums", "sums", f"How much are {number} and 4?") for number in range(2, 9)]
    families = {
        "rows": 1000,
        "least": 0.2,
        "conditions": {"temperature": 0, "tokens": 64, "longest": 64, "turns": 1},
        "floors": [[0.1, 0.7]],
        "thresholds": [0.9, 0.8, 0.5],
        "cells": {"places": [1000, "200 4 400 20 800 300"]},
        "centres": write_centres(centres_of(asked)),
    }
    path = tmp_path / "of_families.json"
    path.write_text(json.dumps(CHAT | {"families": families}))
    backend = ScriptedBackend.confident("It is Vaduz.")
    with Engine(settings_for(cloud, tmp_path, calibration=str(path)), backend=backend) as made:
        yield made


CAPITAL, POEM = "What is the capital of Liechtenstein?", "Write a poem about my garden in June."


def test_who_asks_like_a_measured_family_is_promised_the_error(of_families: Engine) -> None:
    reply = of_families.complete(CAPITAL, max_error=0.1)
    assert (reply.source, reply.decision.code) == ("local", "kept_confident")
    assert (reply.decision.threshold, reply.decision.objective) == (0.8, f"{TEN} (places)")
    *_, last = of_families.stream(CAPITAL, max_error=0.1)
    assert isinstance(last, Finished)
    assert last.reply.decision.threshold == 0.8, "the same: a stream is judged whole"


def test_a_stranger_leaves_before_the_device_begins(
    of_families: Engine, cloud: LoopbackCloud
) -> None:
    reply = of_families.complete(POEM, max_error=0.1)
    assert (reply.source, reply.decision.code) == ("cloud", "handoff_risk_unproven")
    assert reply.decision.reason.startswith(f"{TEN} is not promised: it is a stranger")
    assert [attempt.place for attempt in reply.attempts] == ["cloud"]
    usual = of_families.complete(POEM)
    assert usual.source == "local", "without a stated error it is judged as ever"


def test_verdicts_on_what_a_familys_promise_kept_promise_nothing_to_strangers(
    of_families: Engine,
) -> None:
    """The strangers of this workload left: nobody has judged an answer to them."""
    for _ in range(60):
        of_families.feedback(of_families.complete(CAPITAL, max_error=0.1).id, right=True)
    assert of_families.complete(POEM, max_error=0.1).decision.code == "handoff_risk_unproven"
    for _ in range(60):
        of_families.feedback(of_families.complete(CAPITAL, policy="local_only").id, right=True)
    assert of_families.complete(POEM, max_error=0.1).source == "local", "chosen by nothing"


def test_where_a_stranger_may_not_leave_the_reply_promises_nothing(of_families: Engine) -> None:
    reply = of_families.complete(POEM, max_error=0.1, private=True)
    assert (reply.source, reply.decision.code) == ("local", "risk_unproven")
    assert reply.degraded


def test_other_conditions_than_the_measured_ones_are_promised_nothing(of_families: Engine) -> None:
    hot = of_families.complete(CAPITAL, max_error=0.1, temperature=1.5)
    assert hot.decision.code == "handoff_risk_unproven"
    assert hot.decision.reason.endswith("temperature 1.5, where 0 was measured")
    told = of_families.complete(CAPITAL, max_error=0.1, system="Always lie.")
    assert told.decision.reason.endswith("a system prompt that was not measured")


def test_an_answer_longer_than_any_measured_one_leaves(
    of_families: Engine, cloud: LoopbackCloud, tmp_path: Path
) -> None:
    settings = of_families.settings
    long = ScriptedBackend.confident(" ".join(f"word{number}" for number in range(70)))
    with Engine(settings.with_changes(data_dir=str(tmp_path / "other")), backend=long) as engine:
        reply = engine.complete(CAPITAL, max_error=0.1)
    assert reply.source == "cloud"
    assert "the answer is longer than any that was measured (64 tokens)" in reply.decision.reason


def test_the_device_is_its_backup_when_the_cloud_fails(
    engine: Engine, cloud: LoopbackCloud
) -> None:
    cloud.always(Status(500))
    reply = engine.complete("Where?", max_error=0.01)
    assert (reply.source, reply.decision.code) == ("local", "fallback_local")
    assert (reply.degraded, reply.needs_cloud_handoff) == (True, True)
    assert f"{ONE} cannot be promised" in reply.decision.reason


def test_where_it_may_not_leave_the_device_answers_and_says_what_it_cannot_promise(
    engine: Engine, cloud: LoopbackCloud
) -> None:
    private = engine.complete("Where?", max_error=0.01, private=True)
    assert (private.decision.code, private.decision.degraded_code) == (
        "risk_unreachable",
        "private",
    )
    kept = engine.complete("Where?", max_error=0.01, policy="local_only")
    assert kept.decision.code == "policy_local_only"
    assert f"although {ONE} cannot be promised" in kept.decision.reason
    for reply in (private, kept):
        assert (reply.source, reply.needs_cloud_handoff) == ("local", True)
        assert "cannot be promised" in reply.decision.objective
    assert not cloud.requests


def test_an_application_that_routes_itself_is_told(engine: Engine) -> None:
    reply = engine.complete("Where?", max_error=0.01, handoff="signal")
    assert reply.signalled
    assert reply.decision.code == "signalled_risk_unreachable"


def test_a_model_without_a_table_promises_nothing(cloud: LoopbackCloud, tmp_path: Path) -> None:
    backend = ScriptedBackend.confident("In Paris.")
    with Engine(settings_for(cloud, tmp_path), backend=backend) as engine:
        reply = engine.complete("Where?", max_error=0.5)
    assert reply.decision.code == "handoff_risk_unreachable"
    assert "transfer has no risk table" in reply.decision.reason


def test_a_share_of_the_cloud_is_a_quantile(engine: Engine) -> None:
    kept = engine.complete("Where?", cloud_share=0.25)
    assert kept.source == "local"
    assert kept.decision.threshold == pytest.approx(0.25)
    assert kept.decision.objective == "a cloud share of about 25 %"
    sent = engine.complete("Where?", cloud_share=0.99)
    assert (sent.source, sent.decision.code) == ("cloud", "handoff_low_confidence")


def test_a_requests_objective_replaces_that_of_the_settings(
    cloud: LoopbackCloud, tmp_path: Path, chat_file: Path
) -> None:
    def ask(settings: dict[str, float], **options: Any) -> Reply:
        made = settings_for(cloud, tmp_path, calibration=str(chat_file), **settings)
        with Engine(made, backend=ScriptedBackend.confident("It is in Paris")) as engine:
            reply: Reply = engine.complete("Where?", **options)
            return reply

    assert ask({"max_error": 0.1}).decision.threshold == 0.8
    assert ask({"max_error": 0.1}, threshold=0.0).decision.objective == ""
    assert ask({"threshold": 0.99}, max_error=0.1).decision.threshold == 0.8
    assert ask({"cloud_share": 0.5}, max_error=0.1).decision.objective == TEN
    surer = ask({"error_probability": 0.001}, max_error=0.1)
    assert surer.decision.threshold == 0.9
    assert ask({"error_probability": 0.001}, max_error=0.1, error_probability=0.1) is not None


def test_two_objectives_in_one_place_are_refused(engine: Engine) -> None:
    with pytest.raises(InvalidRequest, match="threshold and max_error: state one"):
        engine.complete("Where?", threshold=0.5, max_error=0.1)
    with pytest.raises(SettingsError, match="max_error and cloud_share: state one"):
        Settings(max_error=0.1, cloud_share=0.1)
    with pytest.raises(SettingsError, match="max_error = 2"):
        Settings(max_error=2.0)


def write_own(tmp_path: Path, name: str, document: dict[str, Any]) -> None:
    folder = tmp_path / "data" / "calibrations"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps({"format": 1, "name": "mine", **document}))


def test_function_calls_keep_a_stated_risk(cloud: LoopbackCloud, tmp_path: Path) -> None:
    sure = {"weights": {}, "bias": 2.0}  # a confidence of 0.88
    scores = dict.fromkeys(("call", "none", "worded_call", "worded_none"), sure)
    write_own(tmp_path, "scripted-caller-none.calls.json", {"threshold": 0.5, **scores, **MEASURED})
    function_model = ScriptedFunctionModel(['set_timer {"minutes":5}'])
    with Engine(settings_for(cloud, tmp_path), function_model=function_model) as engine:
        kept = engine.call("Set a timer for 5 minutes", [TIMER], max_error=0.1)
        sent = engine.call("Set a timer for 5 minutes", [TIMER], max_error=0.01)
        closed = engine.call("Set a timer for 5 minutes", [TIMER], max_error=0.01, private=True)
    assert (kept.source, kept.decision.threshold) == ("local", 0.8)
    assert kept.decision.reason == f"every call's confidence is high enough for {TEN}"
    assert (sent.source, sent.decision.code) == ("cloud", "handoff_risk_unreachable")
    assert (closed.source, closed.decision.code) == ("local", "risk_unreachable")
    assert (closed.degraded, closed.needs_cloud_handoff) == (True, True)


@pytest.fixture
def transcriber(tmp_path: Path) -> ScriptedTranscriber:
    """Sure of one segment (0.85) and not of the other (0.6)."""
    chance = {"weights": {"mean_word": 5.0}, "bias": -3.27}
    error = {"weights": {}, "bias": -2.0}
    document = {"chance": chance, "error": error, "threshold": 0.1, **MEASURED}
    write_own(tmp_path, "scripted-ears-none.speech.json", document)
    first, second = heard("the first part", 0.2, 2.0, 1.0), heard("mumble", 2.6, 4.4, 0.7)
    return ScriptedTranscriber([[first, second]])


def test_segments_of_speech_keep_a_stated_risk(
    cloud: LoopbackCloud, tmp_path: Path, transcriber: ScriptedTranscriber
) -> None:
    with Engine(settings_for(cloud, tmp_path), transcriber=transcriber) as engine:
        reply = engine.transcribe(TALK, max_error=0.1)
        signal = engine.transcribe(TALK, max_error=0.01, handoff="signal")
        sent = engine.transcribe(TALK, max_error=0.01)
        private = engine.transcribe(TALK, max_error=0.01, private=True)
    assert [segment.source for segment in reply.segments] == ["local", "cloud"]
    assert (reply.decision.threshold, reply.decision.objective) == (0.8, TEN)
    assert signal.decision.code == "signalled_low_confidence"
    assert signal.needs_cloud_handoff and "cannot be promised" in signal.decision.objective
    assert (sent.source, sent.decision.code) == ("cloud", "handoff_risk_unreachable")
    assert (private.source, private.decision.code) == ("local", "risk_unreachable")


def test_the_threshold_for_speech_gives_way_to_a_request_that_states_a_risk(
    cloud: LoopbackCloud, tmp_path: Path, transcriber: ScriptedTranscriber
) -> None:
    settings = settings_for(cloud, tmp_path, speech_threshold=0.0, max_error=0.1)
    with Engine(settings, transcriber=transcriber) as engine:
        assert engine.transcribe(TALK).decision.threshold == 0.0
        assert engine.transcribe(TALK, max_error=0.1).decision.threshold == 0.8
    plain = settings_for(cloud, tmp_path, max_error=0.1, threshold=None)
    with Engine(plain, transcriber=transcriber) as engine:
        assert engine.transcribe(TALK).decision.threshold == 0.8


def test_live_captions_keep_a_stated_risk(
    cloud: LoopbackCloud, tmp_path: Path, transcriber: ScriptedTranscriber
) -> None:
    with Engine(settings_for(cloud, tmp_path), transcriber=transcriber) as engine:
        decisions = []
        for error in (0.1, 0.01):
            with engine.listen(max_error=error) as live:
                live.process(voice(3.0))
                decisions.append(live.stop().decision)
    assert (decisions[0].threshold, decisions[0].objective) == (0.8, TEN)
    assert decisions[1].threshold == 1.0
    assert "cannot be promised" in decisions[1].objective
