"""Speech through the engine: real HTTP to a loopback cloud, the ledger, budgets and breakers."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgewise import Engine, Settings
from edgewise.errors import ExtraMissing, InvalidRequest, ModelNotFound, SettingsError
from edgewise.extras import install_command
from edgewise.local.store import InstalledModel
from edgewise.speech.words import word_errors
from edgewise.tasks import checked_language
from edgewise.testing import Answer, LoopbackCloud, ScriptedTranscriber, Silence, Status, heard
from tests.recordings import BECKETT_WORDS
from tests.speech.made_voice import silence, voice, wav

TWO = [heard("the first part", 0.2, 2.0, 0.97), heard("mumble mumble", 2.6, 4.4, 0.15)]
TALK = wav(silence(0.5), voice(5.0), silence(0.5))


@pytest.fixture
def cloud() -> Iterator[LoopbackCloud]:
    with LoopbackCloud() as running:
        yield running


def engine_for(
    cloud: LoopbackCloud, transcriber: ScriptedTranscriber | None = None, **settings: Any
) -> Engine:
    environment = {"OPENAI_API_KEY": "a-key", "OPENAI_BASE_URL": cloud.openai_url}
    made = Settings.load(environment, **settings)
    return Engine(made, transcriber=transcriber or ScriptedTranscriber([TWO]))


def test_a_doubtful_segment_goes_over_the_wire_as_sound_and_comes_back(
    cloud: LoopbackCloud, tmp_path: Path
) -> None:
    cloud.script(Answer(text="the second part"))
    with engine_for(cloud, data_dir=tmp_path) as engine:
        result = engine.transcribe(TALK, language="en-GB")
        row = engine.ledger.get(result.id)
    assert result.text == "the first part the second part"
    (seen,) = cloud.requests
    assert seen.path.endswith("/audio/transcriptions")
    assert row is not None
    assert [attempt["place"] for attempt in row["attempts"]].count("cloud") == 1
    assert result.usage.cost_microdollars > 0
    assert (row["source"], row["task"]) == ("mixed", "transcribe")


def test_a_failing_cloud_opens_the_breaker_and_the_rest_is_not_sent(
    cloud: LoopbackCloud, tmp_path: Path
) -> None:
    cloud.always(Status(500))
    many = [heard(f"mumble number {n}", n + 0.1, n + 0.9, 0.1) for n in range(8)]
    sound = wav(voice(9.0))
    with engine_for(cloud, ScriptedTranscriber([many]), data_dir=tmp_path, cooldown_s=60) as engine:
        result = engine.transcribe(sound)
        codes = {segment.error for segment in result.segments}
        again = engine.transcribe(sound)
    assert result.source == "local" and result.degraded
    assert codes <= {"cloud_server_error", "breaker_open"}
    assert again.decision.code == "kept_in_doubt"
    assert again.decision.degraded_code == "breaker_open"


def test_a_cloud_that_stays_silent_costs_the_limit_and_no_more(
    cloud: LoopbackCloud, tmp_path: Path
) -> None:
    cloud.always(Silence())
    with engine_for(cloud, data_dir=tmp_path, first_token_s=0.3, total_s=1.0) as engine:
        result = engine.transcribe(TALK)
    assert result.text == "the first part mumble mumble"
    assert result.decision.degraded_code == "cloud_timeout"


def test_a_budget_that_is_spent_sends_nothing(cloud: LoopbackCloud, tmp_path: Path) -> None:
    with engine_for(cloud, data_dir=tmp_path, budgets=["$0.000001/day"]) as engine:
        result = engine.transcribe(TALK)
    assert not cloud.requests
    assert result.decision.degraded_code == "budget_spent"
    assert result.segments[1].error == "budget_spent"


def test_a_private_request_never_leaves(cloud: LoopbackCloud, tmp_path: Path) -> None:
    with engine_for(cloud, data_dir=tmp_path) as engine:
        result = engine.transcribe(TALK, private=True)
    assert not cloud.requests and result.decision.degraded_code == "private"


def test_without_a_key_everything_stays_here(tmp_path: Path) -> None:
    with Engine(
        Settings.load({}, data_dir=tmp_path), transcriber=ScriptedTranscriber([TWO])
    ) as engine:
        result = engine.transcribe(TALK)
    assert (result.source, result.decision.degraded_code) == ("local", "no_key")


def test_the_threshold_of_settings_holds_unless_the_request_has_one(
    cloud: LoopbackCloud, tmp_path: Path
) -> None:
    cloud.always(Answer(text="from the cloud"))
    with engine_for(cloud, data_dir=tmp_path, speech_threshold=0.0) as engine:
        assert engine.transcribe(TALK).source == "local"
        assert engine.transcribe(TALK, threshold=1.0).source == "cloud"


def test_the_record_has_the_words_only_when_asked(tmp_path: Path) -> None:
    path = tmp_path / "meeting.wav"
    path.write_bytes(TALK)
    with Engine(
        Settings.load({}, data_dir=tmp_path), transcriber=ScriptedTranscriber([TWO])
    ) as engine:
        kept = engine.transcribe(path, store_text=True, request_id="kept")
        engine.transcribe(path, request_id="not-kept")
        with pytest.raises(InvalidRequest, match="used before"):
            engine.transcribe(path, request_id="kept")
    assert kept.id == "kept"
    with sqlite3.connect(tmp_path / "ledger.sqlite3") as connection:
        dump = "\n".join(line for line in connection.iterdump() if "kept" in line)
    connection.close()
    assert dump.count("the first part") == 1


def test_a_failure_is_written_down_too(tmp_path: Path) -> None:
    transcriber = ScriptedTranscriber([TWO], fails=True)
    with Engine(Settings.load({}, data_dir=tmp_path), transcriber=transcriber) as engine:
        with pytest.raises(Exception, match="told to fail"):
            engine.transcribe(TALK, policy="local_only", request_id="lost")
        assert "generation_failed" in str(engine.ledger.get("lost"))


def test_a_model_that_cannot_transcribe_and_a_missing_one_are_named(
    default_model: InstalledModel, tmp_path: Path
) -> None:
    settings = Settings.load({}, data_dir=tmp_path, fetch_default_model=False)
    with (
        Engine(settings.with_changes(speech_model="smollm2-135m-instruct")) as engine,
        pytest.raises(ModelNotFound, match="cannot transcribe"),
    ):
        engine.transcribe(TALK)
    with (
        Engine(settings.with_changes(speech_model="whisper-huge")) as engine,
        pytest.raises(ModelNotFound, match="whisper"),
    ):
        engine.transcribe(TALK)


def test_without_the_extra_the_command_that_brings_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "av", None)
    with (
        Engine(
            Settings.load({}, data_dir=tmp_path), transcriber=ScriptedTranscriber([TWO])
        ) as engine,
        pytest.raises(ExtraMissing, match=re.escape(install_command("speech"))),
    ):
        engine.transcribe(TALK)


@pytest.mark.parametrize(
    ("given", "plain"), [("en", "en"), ("en-GB", "en"), ("DE_at", "de"), ("", ""), ("auto", "")]
)
def test_languages_are_spelled_as_models_know_them(given: str, plain: str) -> None:
    assert checked_language(given) == plain


@pytest.mark.parametrize("given", ["english please", "e", "1234", "françois"])
def test_what_is_no_language_is_refused(given: str) -> None:
    with pytest.raises(InvalidRequest, match="language"):
        checked_language(given)


def test_a_threshold_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="speech_threshold"):
        Settings.load({}, data_dir=tmp_path, speech_threshold=1.5)


@pytest.mark.real_model
def test_a_person_is_heard_from_a_file_to_the_ledger(
    default_transcriber: InstalledModel, beckett: Path, tmp_path: Path
) -> None:
    told: list[tuple[float, float]] = []
    with Engine(Settings.load(data_dir=tmp_path)) as engine:
        result = engine.transcribe(beckett, progress=lambda *given: told.append(given))
        row = engine.ledger.get(result.id)
    assert word_errors(BECKETT_WORDS, result.text).rate <= 0.1
    assert result.source == "local" and row is not None
    assert result.decision.calibration == "whisper-tiny.en-int8"
    assert result.confidence is not None and 0.5 < result.confidence < 1.0
    assert all(segment.expected_error is not None for segment in result.segments)
    assert len({segment.expected_error for segment in result.segments}) == len(result.segments)
    assert told[-1][0] == pytest.approx(result.seconds, abs=0.01)
    assert result.to_dict()["segments"][0]["words"][0]["probability"] > 0
