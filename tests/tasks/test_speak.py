"""Speaking through the engine: who speaks, what leaves, what it costs, and real sound."""

from __future__ import annotations

import asyncio
import io
import subprocess
import wave
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from edgewise import AsyncEngine, Engine, Settings
from edgewise.errors import (
    CloudClosed,
    CloudRejected,
    DoesNotFit,
    ExtraMissing,
    GenerationFailed,
    InvalidRequest,
    ModelNotFound,
)
from edgewise.flows.speak import MOST_CHARACTERS, in_parts
from edgewise.local import espeak
from edgewise.local.store import InstalledModel
from edgewise.speech import audio
from edgewise.speech.audio import as_wave, in_wave, open_sound
from edgewise.tasks import MOST_SPOKEN
from edgewise.testing import Answer, LoopbackCloud, Malformed, ScriptedVoice, Status

WORDS = "The ferry leaves at ten."
Make = Callable[..., Engine]


@pytest.fixture
def cloud() -> Iterator[LoopbackCloud]:
    with LoopbackCloud() as running:
        yield running


@pytest.fixture
def make(cloud: LoopbackCloud, tmp_path: Path) -> Iterator[Make]:
    made: list[Engine] = []

    def maker(voice: Any = None, **settings: Any) -> Engine:
        given = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": cloud.openai_url}
        home = tmp_path / f"home{len(made)}"
        loaded = Settings.load(given, data_dir=home, config_dir=home, **settings)
        made.append(Engine(loaded, voice=voice))
        return made[-1]

    yield maker
    for engine in made:
        engine.close()


@pytest.fixture
def mute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(espeak, "find_program", lambda: "")


def seconds_of(data: bytes) -> float:
    with open_sound(data) as sound:
        return sum(len(block) for block in sound.blocks()) / audio.RATE


def test_the_device_speaks_and_nothing_leaves(make: Make, cloud: LoopbackCloud) -> None:
    voice = ScriptedVoice()
    reply = make(voice).speak(WORDS)
    assert (reply.source, reply.text, voice.texts) == ("local", WORDS, [WORDS])
    assert reply.decision.code == "spoken_local"
    assert reply.audio.media_type == "audio/wav"
    assert reply.audio.seconds == pytest.approx(0.24) == seconds_of(reply.audio.data)
    assert "0.2 s of audio/wav" in repr(reply)
    assert reply.to_dict()["bytes"] == len(reply.audio.data)
    assert not cloud.requests


def test_without_a_voice_the_cloud_speaks_and_is_paid_for_by_the_character(
    make: Make, cloud: LoopbackCloud, mute: None
) -> None:
    engine = make()
    reply = engine.speak(WORDS, voice="nova", speed=1.5)
    (seen,) = cloud.requests
    assert seen.path == "/v1/audio/speech"
    wanted = {"model": "tts-1", "input": WORDS, "voice": "nova", "response_format": "wav"}
    assert seen.body == wanted | {"speed": 1.5}
    assert (reply.source, reply.voice) == ("cloud", "nova")
    assert reply.decision.code == "handoff_no_local_model"
    assert in_wave(reply.audio.data)[1] == 24_000
    # 15 dollars for a million characters.
    assert reply.usage.cost_microdollars == 15 * len(WORDS)
    assert not reply.price_guessed
    rows = engine.ledger.recent(1)
    assert [row["task"] for row in rows] == ["speak"]


def test_what_must_stay_stays_and_the_error_says_what_to_install(
    make: Make, cloud: LoopbackCloud, mute: None
) -> None:
    engine = make()
    with pytest.raises(ModelNotFound, match="apt install espeak-ng"):
        engine.speak(WORDS, private=True)
    with pytest.raises(ModelNotFound, match="apt install espeak-ng"):
        engine.speak(WORDS, policy="local_only")
    with pytest.raises(ModelNotFound, match="espeak-ng"):
        engine.speak("Write to jane@example.com.", private_kinds="EMAIL")
    with pytest.raises(ModelNotFound, match="espeak-ng"):
        engine.speak("Write to jane@example.com.", redact=True)
    with pytest.raises(CloudClosed, match="redacted"):
        engine.speak("Write to jane@example.com.", redact=True, policy="cloud_only")
    assert not cloud.requests
    assert engine.speak(WORDS, redact=True).source == "cloud"  # nothing is in it


def test_nobody_hears_a_placeholder(make: Make, cloud: LoopbackCloud) -> None:
    voice = ScriptedVoice()
    text = "Write to jane@example.com."
    reply = make(voice).speak(text, redact=["EMAIL"], policy="prefer_cloud")
    assert (reply.source, voice.texts) == ("local", [text])
    assert reply.decision.degraded_code == "not_redactable"
    assert not cloud.requests


def test_a_budget_is_kept_and_a_price_that_nobody_knows_is_not_paid(
    make: Make, cloud: LoopbackCloud, mute: None
) -> None:
    enough = make(budgets=["$0.001/day"])
    assert enough.speak(WORDS).source == "cloud"
    with pytest.raises(DoesNotFit, match="budget"):
        enough.speak("word " * 20)
    unknown = {"voice_model": "somebody-new", "base_url": cloud.openai_url}
    limited = make(budgets=["$5/day"], chain=["openai"], providers={"openai": unknown})
    asked = len(cloud.requests)
    with pytest.raises(DoesNotFit, match="voice_price"):
        limited.speak(WORDS)
    assert len(cloud.requests) == asked
    free = make(chain=["openai"], providers={"openai": unknown})
    guessed = free.speak(WORDS)
    assert guessed.price_guessed and guessed.usage.cost_microdollars == 300 * len(WORDS)
    named = {**unknown, "voice_price": 20.0, "voice": "carl"}
    priced = make(budgets=["$5/day"], chain=["openai"], providers={"openai": named}).speak(WORDS)
    assert (priced.usage.cost_microdollars, priced.price_guessed) == (20 * len(WORDS), False)
    assert cloud.requests[-1].body["voice"] == "carl"


def test_a_long_text_is_spoken_in_parts_by_one_provider(
    make: Make, cloud: LoopbackCloud, mute: None
) -> None:
    text = "This sentence has forty-two characters, so. " * 200
    reply = make().speak(text)
    said = [seen.body["input"] for seen in cloud.requests]
    assert len(said) == 3 and all(len(part) <= MOST_CHARACTERS for part in said)
    assert " ".join(said) == text.strip()
    assert all(part.endswith(".") for part in said)
    assert reply.audio.seconds == pytest.approx(sum(map(len, said)) * 0.05, rel=0.01)
    assert in_parts("no end " * 1000, 100)[0] == "no end " * 14
    assert "".join(in_parts("x" * 250, 100)) == "x" * 250


def test_a_cloud_that_fails_leaves_the_device(make: Make, cloud: LoopbackCloud) -> None:
    for fault in (Status(500), Malformed(), Answer(speech=b"RIFF no wave"), Answer(speech=b"")):
        cloud.always(fault)
        reply = make(ScriptedVoice()).speak(WORDS, policy="prefer_cloud")
        assert (reply.source, reply.decision.code) == ("local", "fallback_local")
        assert reply.degraded and reply.audio.seconds == pytest.approx(0.24)
    cloud.always(Status(400, message="no such voice"))
    with pytest.raises(CloudRejected, match="no such voice"):
        make(ScriptedVoice()).speak(WORDS, policy="cloud_only", voice="nobody")


def test_a_device_that_fails_leaves_it_to_the_cloud(make: Make, cloud: LoopbackCloud) -> None:
    assert make(ScriptedVoice(fails=True)).speak(WORDS).source == "cloud"
    with pytest.raises(GenerationFailed):
        make(ScriptedVoice(fails=True)).speak(WORDS, private=True)


@pytest.mark.parametrize(("kind", "head"), [
    ("wav", b"RIFF"), ("mp3", b"ID3"), ("opus", b"OggS"), ("flac", b"fLaC"), ("aac", b"\xff\xf1"),
])  # fmt: skip
def test_the_device_writes_every_format(make: Make, kind: Any, head: bytes) -> None:
    reply = make(ScriptedVoice()).speak(WORDS * 4, format=kind)
    assert reply.audio.data.startswith(head)
    assert seconds_of(reply.audio.data) == pytest.approx(0.96, abs=0.1)


def test_samples_are_as_openai_sends_them(make: Make) -> None:
    reply = make(ScriptedVoice()).speak(WORDS, format="pcm")
    assert len(reply.audio.data) / 2 / 24_000 == pytest.approx(0.24, abs=0.001)


def test_without_pyav_only_waves_are_written(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audio, "find_spec", lambda name: None)
    with pytest.raises(ExtraMissing, match="speech"):
        make(ScriptedVoice()).speak(WORDS, format="mp3")
    assert make(ScriptedVoice()).speak(WORDS).source == "local"


def test_wrong_arguments_are_named(make: Make) -> None:
    engine = make(ScriptedVoice())
    wrong: list[tuple[str, dict[str, Any], str]] = [
        ("  ", {}, "nothing to say"),
        ("x" * (MOST_SPOKEN + 1), {}, "at most 16,000"),
        ("x", {"speed": 9.0}, "speed"),
        ("x", {"format": "midi"}, "format"),
        ("x", {"voice": "v" * 65}, "voice"),
        ("x", {"voice": "a\nb"}, "voice"),
        ("x", {"threshold": 0.5}, "threshold"),
    ]
    for text, options, words in wrong:
        with pytest.raises(InvalidRequest, match=words):
            engine.speak(text, **options)
    given: Any = b"bytes"
    with pytest.raises(InvalidRequest, match="text"):
        engine.speak(given)


def test_many_speak_at_once_and_the_async_engine_too(tmp_path: Path) -> None:
    voice = ScriptedVoice()

    async def ask() -> list[str]:
        loaded = Settings.load({}, data_dir=tmp_path, config_dir=tmp_path)
        async with AsyncEngine(loaded, voice=voice) as engine:
            replies = await asyncio.gather(*(engine.speak(f"Number {n}.") for n in range(8)))
        return [reply.text for reply in replies]

    assert asyncio.run(ask()) == [f"Number {n}." for n in range(8)]
    assert sorted(voice.texts) == sorted(f"Number {n}." for n in range(8))


def test_a_wave_is_read_whatever_length_it_states() -> None:
    assert in_wave(as_wave(b"\1\2" * 100, 22_050)) == (b"\1\2" * 100, 22_050)
    endless = as_wave(b"\1\2" * 10, 8_000)
    endless = endless[:40] + b"\xff\xff\xff\xff" + endless[44:] + b"\3"
    assert in_wave(endless) == (b"\1\2" * 10, 8_000)
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(8_000)
        file.writeframes(bytes(40))
    for data in (b"", b"RIFF", b"ID3 is no wave", out.getvalue(), b"RIFF" + bytes(60)):
        with pytest.raises(InvalidRequest):
            in_wave(data)


# -- espeak-ng itself ------------------------------------------------------------------------------


@pytest.mark.real_model
@pytest.mark.usefixtures("system_voice")
def test_espeak_is_understood(make: Make, default_transcriber: InstalledModel) -> None:
    engine = make(policy="local_only")
    text = "Good morning. Please open the window."
    spoken = engine.speak(text, voice="alloy")  # a cloud's voice is no error here
    assert (spoken.model, spoken.voice) == ("espeak-ng", "en-us")
    assert 1.5 < spoken.audio.seconds < 4.0
    heard = engine.transcribe(spoken.audio, language="en").text.lower()
    assert "morning" in heard and "window" in heard


@pytest.mark.usefixtures("system_voice")
def test_espeak_has_languages_and_speeds(make: Make) -> None:
    engine = make(policy="local_only")
    assert engine.speak("Guten Morgen", language="de-DE").voice == "de"
    assert engine.speak("Hello", language="en-gb").voice == "en-gb"
    assert engine.speak("Hello", language="--help").voice == "en-us"  # no option of the program
    with pytest.raises(InvalidRequest, match="language"):
        engine.speak("Hello", language="English")
    assert engine.speak("Hello", voice="en-GB+f3").voice == "en-gb+f3"
    slow, quick = (engine.speak(WORDS, speed=speed).audio.seconds for speed in (0.5, 2.0))
    assert slow > 1.5 * quick


@pytest.mark.usefixtures("system_voice")
def test_espeak_takes_words_for_words(make: Make) -> None:
    """Neither options, nor phonemes, nor commands to it."""
    engine = make(policy="local_only")
    assert engine.speak("--version").audio.seconds > 0.5
    plain, marked = engine.speak("h@loU"), engine.speak("[[h@loU]]")
    assert marked.audio.seconds > 0.7 * plain.audio.seconds
    assert engine.speak("one\x015S two\x00").audio.seconds > 0.5
    assert engine.speak("Ünïcödé 你好 🎉").audio.seconds > 0.5


def test_espeak_that_hangs_or_fails_is_an_error(tmp_path: Path) -> None:
    def program(script: str) -> espeak.Espeak:
        path = tmp_path / "espeak-ng"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return espeak.Espeak(str(path))

    with pytest.raises(GenerationFailed, match="ended with 3"):
        program("exit 3").speak("x")
    with pytest.raises(GenerationFailed, match="no sound"):
        program("exit 0").speak("x")
    with pytest.raises(GenerationFailed, match="does not start"):
        espeak.Espeak(str(tmp_path / "absent")).speak("x")


def test_espeak_is_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hang(command: list[str], **given: Any) -> None:
        assert command[0] == "espeak" and not given.get("shell")
        raise subprocess.TimeoutExpired(command, given["timeout"])

    monkeypatch.setattr(subprocess, "run", hang)
    with pytest.raises(GenerationFailed, match="had not ended"):
        espeak.Espeak("espeak").speak("x")


def test_a_program_of_the_current_folder_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = tmp_path / "espeak-ng"
    planted.write_text("#!/bin/sh\n")
    planted.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert espeak.find_program() == ""
