from __future__ import annotations

import base64
import math
from dataclasses import replace
from typing import Any

import openai
import pytest

from edgewise import parts
from edgewise.errors import ExtraMissing, ModelNotFound
from edgewise.testing import LoopbackCloud, ScriptedTranscriber, ScriptedVoice, Status, heard
from edgewise.testing.scripted import SCRIPTED_TRANSCRIBER_FACTS
from tests.conftest import MODELS_DIR
from tests.flows.test_transcribe import CALL as TWO_SPEAKERS
from tests.flows.test_transcribe import TURNS
from tests.server.conftest import Serving
from tests.server.served import Served
from tests.speech.made_voice import silence, voice, wav

TWO = [heard("the first part", 0.2, 2.0, 0.97), heard("mumble mumble", 2.6, 4.4, 0.15)]
SURE = [heard("the first part", 0.2, 2.0, 0.97), heard("and the rest", 2.6, 4.4, 0.97)]
TALK = wav(silence(0.5), voice(5.0), silence(0.5))
LONG = wav(*(part for n in range(4) for part in (voice(20.0, seed=n), silence(1.5))))


@pytest.fixture
def sure(serving: Serving) -> Served:
    return serving(transcriber=ScriptedTranscriber([SURE]))


def ask(served: Served, **options: Any) -> Any:
    file = options.pop("file", ("talk.wav", TALK))
    return served.openai().audio.transcriptions.create(**{"model": "auto", "file": file, **options})


def test_sound_becomes_text_and_every_segment_says_where_it_is_from(sure: Served) -> None:
    answer = ask(sure)
    assert answer.text == "the first part and the rest"
    assert answer.usage.type == "duration" and answer.usage.seconds == 6
    assert [each["source"] for each in answer.edgewise["segments"]] == ["local", "local"]
    assert answer.edgewise["decision"]["code"] == "kept_confident"


def test_only_what_is_in_doubt_goes_to_the_cloud(serving: Serving, cloud: LoopbackCloud) -> None:
    cloud.always("the second part")
    served = serving(transcriber=ScriptedTranscriber([TWO]))
    answer = ask(served)
    assert answer.text == "the first part the second part"
    assert [each["source"] for each in answer.edgewise["segments"]] == ["local", "cloud"]
    assert answer.edgewise["segments"][1]["corrected"] is True
    assert answer.edgewise["source"] == "mixed"
    assert len(cloud.requests) == 1


def test_private_sound_stays(serving: Serving, cloud: LoopbackCloud) -> None:
    served = serving(transcriber=ScriptedTranscriber([TWO]))
    answer = ask(served, extra_headers={"x-edgewise-privacy": "private"})
    assert answer.text == "the first part mumble mumble"
    assert answer.edgewise["degraded_code"] == "private"
    body = ask(served, extra_body={"metadata": {"policy": "local_only"}})
    assert body.edgewise["decision"]["policy"] == "local_only"
    assert not cloud.requests


def test_every_format_is_written(sure: Served) -> None:
    assert ask(sure, response_format="text") == "the first part and the rest\n"
    subtitles = ask(sure, response_format="srt")
    assert subtitles.startswith("1\n00:00:0") and " --> " in subtitles
    assert ask(sure, response_format="vtt").startswith("WEBVTT")
    verbose = ask(sure, response_format="verbose_json")
    assert (verbose.duration, verbose.language, len(verbose.segments)) == (6.0, "en", 2)
    assert verbose.segments[0].text == "the first part" and verbose.words is None
    assert verbose.segments[0].no_speech_prob == 0.0
    both = ["word", "segment"]
    detailed = ask(sure, response_format="verbose_json", timestamp_granularities=both)
    assert [word.word for word in detailed.words][:3] == ["the", "first", "part"]
    words = ask(sure, response_format="verbose_json", timestamp_granularities=["word"])
    assert words.segments is None and len(words.words) == 6


def test_plain_formats_say_in_headers_where_they_are_from(sure: Served) -> None:
    form = {"model": "auto", "response_format": "srt"}
    answer = sure.http.post("/v1/audio/transcriptions", data=form, files={"file": TALK})
    assert answer.headers["x-edgewise-source"] == "local"
    assert answer.headers["content-type"].startswith("text/plain")


def test_evidence_is_given_a_word_at_a_time(sure: Served) -> None:
    answer = ask(sure, include=["logprobs"])
    assert [each.token for each in answer.logprobs][:2] == ["the", "first"]
    assert answer.logprobs[0].logprob == pytest.approx(math.log(0.97))


def test_a_stream_tells_segments_when_they_are_final_and_adds_up(serving: Serving) -> None:
    served = serving(transcriber=ScriptedTranscriber([SURE]))
    events = list(ask(served, file=("talk.wav", LONG), stream=True, include=["logprobs"]))
    kinds = [event.type for event in events]
    assert kinds.count("transcript.text.delta") > 2 and kinds[-1] == "transcript.text.done"
    assert "".join(event.delta for event in events[:-1]) == events[-1].text
    assert events[0].edgewise["source"] == "local" and events[0].logprobs
    assert events[-1].edgewise["decision"]["code"] == "kept_confident"


def test_a_stream_never_shows_what_the_cloud_still_corrects(
    serving: Serving, cloud: LoopbackCloud
) -> None:
    cloud.always("the second part")
    served = serving(transcriber=ScriptedTranscriber([TWO]))
    events = list(ask(served, file=("talk.wav", LONG), stream=True))
    assert "mumble" not in "".join(event.delta for event in events[:-1])
    assert "".join(event.delta for event in events[:-1]) == events[-1].text
    assert {event.edgewise["source"] for event in events[:-1]} == {"local", "cloud"}


def test_a_client_that_leaves_ends_the_hearing(serving: Serving) -> None:
    transcriber = ScriptedTranscriber([SURE])
    served = serving(transcriber=transcriber)
    stream = ask(served, file=("talk.wav", LONG), stream=True)
    next(iter(stream))
    stream.close()
    served.settle()
    assert served.metric("edgewise_requests_in_flight") == 1  # the one that asks


@pytest.mark.parametrize(
    "form",
    [
        {"response_format": "diarized_json"},
        {"timestamp_granularities[]": "letter"},
        {"include[]": "everything"},
        {"stream": "perhaps"},
        {"language": "the language of birds"},
        {"metadata[privacy]": "perhaps"},
    ],
    ids=str,
)
def test_a_wrong_field_is_refused_by_its_name(sure: Served, form: dict[str, str]) -> None:
    answer = sure.http.post(
        "/v1/audio/transcriptions", data={"model": "auto", **form}, files={"file": TALK}
    )
    assert answer.status_code == 400, answer.text
    name = next(iter(form)).partition("[")[0]
    assert name in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "said",
    [
        [("privacy", "private")],
        [("private", "true")],
        [("policy", "local_only")],
        [("metadata", '{"privacy": "private"}')],
        [("metadata[private]", "true")],
        [("metadata[edgewise][privacy]", "private")],
        [("edgewise[privacy]", "private")],
        [("options[privacy]", "private")],
        [("metadata.privacy", "private")],
        [("metadata[privacy]", "private"), ("metadata[privacy]", "open")],
        [("model", "local"), ("model", "cloud")],
    ],
    ids=str,
)
@pytest.mark.parametrize("as_file", [False, True])
def test_our_words_in_a_form_are_refused_where_they_do_not_count(
    sure: Served, cloud: LoopbackCloud, said: list[tuple[str, str]], as_file: bool
) -> None:
    if as_file and said[0][0] == "model":
        return
    parts: list[tuple[str, tuple[str | None, str | bytes]]] = [("file", ("talk.wav", TALK))]
    parts += [(name, ("x" if as_file else None, value)) for name, value in said]
    if said[0][0] != "model":
        parts.append(("model", (None, "cloud")))
    answer = sure.http.post("/v1/audio/transcriptions", files=parts)
    assert answer.status_code == 400, answer.text
    assert not cloud.requests


def test_what_is_no_sound_is_refused(sure: Served) -> None:
    for files in ({"file": b"no sound at all"}, {"file": b""}, {"other": TALK}):
        answer = sure.http.post("/v1/audio/transcriptions", data={"model": "auto"}, files=files)
        assert answer.status_code == 400, answer.text
    assert sure.http.post("/v1/audio/transcriptions", json={"model": "auto"}).status_code == 400


def test_a_missing_extra_says_what_to_install(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(_: object) -> None:
        raise ExtraMissing("speech", "faster-whisper")

    monkeypatch.setattr(parts, "open_transcriber", missing)
    with pytest.raises(openai.APIStatusError) as caught:
        ask(serving(), model="local")
    assert (caught.value.status_code, caught.value.code) == (501, "missing_extra")
    assert "comes with the extra 'speech'; `edgewise doctor` says there how" in caught.value.message


def test_missing_weights_are_unavailable_and_say_how_to_get_them(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(_: object) -> None:
        raise ModelNotFound("run `edgewise pull whisper-tiny.en`")

    monkeypatch.setattr(parts, "open_transcriber", missing)
    with pytest.raises(openai.InternalServerError) as caught:
        ask(serving(), model="local")
    assert (caught.value.status_code, caught.value.code) == (503, "no_local_model")
    assert "edgewise pull" in caught.value.message


def test_the_cloud_alone_hears_when_it_is_named(serving: Serving, cloud: LoopbackCloud) -> None:
    cloud.always("what the cloud hears")
    served = serving(transcriber=ScriptedTranscriber([SURE]))
    answer = ask(served, model="cloud/openai")
    assert (answer.text, answer.edgewise["source"]) == ("what the cloud hears", "cloud")
    cloud.always(Status(400))
    with pytest.raises(openai.BadRequestError):
        ask(served, model="cloud")


@pytest.mark.real_model
def test_the_real_model_hears_no_words_in_a_made_voice(serving: Serving) -> None:
    if not (MODELS_DIR / "whisper-tiny.en").is_dir():
        pytest.skip("run `edgewise pull whisper-tiny.en` first")
    settings = {"cache_dir": MODELS_DIR.parent, "threads": 1, "fetch_default_model": False}
    answer = ask(serving(settings=settings), model="local/whisper-tiny.en")
    assert answer.edgewise["source"] == "local" and answer.edgewise["seconds"] == 6.0


def test_a_prompt_and_a_temperature_reach_whoever_hears(
    serving: Serving, cloud: LoopbackCloud
) -> None:
    transcriber = ScriptedTranscriber([TWO])
    ask(serving(transcriber=transcriber), prompt="Zürich, Škoda", temperature=0.4)
    assert {(each.hint, each.temperature) for each in transcriber.listened} == {
        ("Zürich, Škoda", 0.4)
    }
    (sent,) = cloud.requests
    assert sent.body["prompt"] == "Zürich, Škoda the first part"  # and what was said before
    assert float(sent.body["temperature"]) == 0.4


@pytest.mark.parametrize("temperature", ["warm", "2", "-1", "nan"])
def test_a_temperature_that_is_none_is_refused(sure: Served, temperature: str) -> None:
    form = {"model": "auto", "temperature": temperature}
    answer = sure.http.post("/v1/audio/transcriptions", data=form, files={"file": TALK})
    assert answer.status_code == 400 and answer.json()["error"]["param"] == "temperature"


def test_a_deadline_that_the_device_would_miss_sends_the_sound_to_the_cloud(
    serving: Serving, cloud: LoopbackCloud
) -> None:
    cloud.always("heard by the cloud")
    slow = replace(SCRIPTED_TRANSCRIBER_FACTS, real_time_factor=2.0)
    served = serving(transcriber=ScriptedTranscriber([SURE], facts=slow))
    answer = ask(served, extra_headers={"x-edgewise-deadline-ms": "3000"})
    assert answer.text == "heard by the cloud"
    assert answer.edgewise["decision"]["code"] == "handoff_deadline"


MANY = replace(SCRIPTED_TRANSCRIBER_FACTS, languages=(), translates=True)


@pytest.mark.filterwarnings("ignore:deprecated")  # OpenAI's library says so of its own method
def test_speech_is_translated_at_its_own_door(serving: Serving, cloud: LoopbackCloud) -> None:
    cloud.always("and the rest")
    transcriber = ScriptedTranscriber([TWO], facts=MANY)
    served = serving(transcriber=transcriber)
    client = served.openai()
    answer: Any = client.audio.translations.create(model="auto", file=("talk.wav", TALK))
    assert answer.text == "the first part and the rest"
    assert [each.translate for each in transcriber.listened] == [True]
    (seen,) = cloud.requests
    assert (seen.path, seen.body["model"]) == ("/v1/audio/translations", "whisper-1")
    verbose: Any = client.audio.translations.create(
        model="auto", file=("talk.wav", TALK), response_format="verbose_json"
    )
    assert (verbose.language, verbose.edgewise["language"]) == ("english", "en")
    subtitles: Any = client.audio.translations.create(
        model="auto", file=("talk.wav", TALK), response_format="srt"
    )
    assert "the first part" in subtitles


@pytest.mark.filterwarnings("ignore:deprecated")
def test_a_private_translation_stays_and_one_that_cannot_be_made_here_is_an_error(
    serving: Serving, cloud: LoopbackCloud
) -> None:
    private = {"x-edgewise-privacy": "private"}
    able = serving(transcriber=ScriptedTranscriber([TWO], facts=MANY)).openai()
    kept: Any = able.audio.translations.create(
        model="auto", file=("talk.wav", TALK), extra_headers=private
    )
    assert kept.text == "the first part mumble mumble"
    unable = serving(transcriber=ScriptedTranscriber([TWO])).openai()
    with pytest.raises(openai.BadRequestError, match="cannot translate"):
        unable.audio.translations.create(
            model="auto", file=("talk.wav", TALK), extra_headers=private
        )
    assert not cloud.requests


def test_channels_are_speakers(serving: Serving) -> None:
    served = serving(transcriber=ScriptedTranscriber(TURNS))
    call, split = ("call.wav", TWO_SPEAKERS), {"channels": "split"}
    verbose = ask(served, file=call, response_format="verbose_json", extra_body=split)
    assert [(each.speaker, each.text) for each in verbose.segments] == [
        ("1", "hello"),
        ("2", "good day"),
        ("1", "bye"),
    ]
    text = serving(transcriber=ScriptedTranscriber(TURNS))
    assert ask(text, file=call, response_format="text", extra_body=split).startswith("1: hello\n2:")
    voices = serving(transcriber=ScriptedTranscriber(TURNS))
    assert "<v 2>good day" in ask(voices, file=call, response_format="vtt", extra_body=split)
    streamed = serving(transcriber=ScriptedTranscriber(TURNS))
    events = list(ask(streamed, file=call, stream=True, extra_body=split))
    assert "".join(event.delta for event in events[:-1]) == events[-1].text
    with pytest.raises(openai.BadRequestError, match="channels"):
        ask(served, extra_body={"channels": "three"})


def test_a_text_is_spoken_as_openais_clients_ask(serving: Serving, cloud: LoopbackCloud) -> None:
    voice = ScriptedVoice()
    client = serving(voice=voice).openai()
    said: Any = client.audio.speech.create(model="tts-1", voice="alloy", input="Good morning.")
    assert said.content.startswith(b"ID3")  # mp3 is what they get unless they ask for another
    assert said.response.headers["content-type"] == "audio/mpeg"
    assert said.response.headers["x-edgewise-source"] == "local"
    asked = {"model": "tts-1", "voice": "alloy", "input": "Good morning.", "speed": 1.25}
    with client.audio.speech.with_streaming_response.create(**asked, response_format="wav") as wave:
        assert b"".join(wave.iter_bytes()).startswith(b"RIFF")
    assert voice.texts == ["Good morning."] * 2
    assert not cloud.requests


def test_spoken_words_come_as_events_where_that_is_asked(serving: Serving) -> None:
    served = serving(voice=ScriptedVoice())
    asked = {"model": "auto", "voice": {"id": "any"}, "input": "Hello.", "stream_format": "sse"}
    events = served.chunks("/v1/audio/speech", **asked, response_format="wav")
    assert [event["type"] for event in events] == ["speech.audio.delta", "speech.audio.done"]
    assert base64.b64decode(events[0]["audio"]).startswith(b"RIFF")
    assert events[1]["edgewise"]["source"] == "local"


def test_the_cloud_speaks_where_it_is_named_and_private_text_stays(
    serving: Serving, cloud: LoopbackCloud
) -> None:
    served = serving(voice=ScriptedVoice())
    asked = {"voice": "nova", "input": "Hello.", "response_format": "wav"}
    there = served.http.post("/v1/audio/speech", json={"model": "cloud", **asked})
    assert (there.status_code, there.headers["x-edgewise-source"]) == (200, "cloud")
    assert cloud.requests[0].body["voice"] == "nova"
    private = {"x-edgewise-privacy": "private"}
    here = served.http.post("/v1/audio/speech", json={"model": "auto", **asked}, headers=private)
    assert here.headers["x-edgewise-source"] == "local"
    shut = served.http.post("/v1/audio/speech", json={"model": "cloud", **asked}, headers=private)
    assert shut.status_code >= 400 and len(cloud.requests) == 1


def test_what_cannot_be_spoken_is_refused_with_the_field(serving: Serving) -> None:
    served = serving(voice=ScriptedVoice())
    asked = {"model": "auto", "voice": "alloy", "input": "Hello."}
    for wrong in ({"input": ""}, {"input": 5}, {"speed": 9}, {"response_format": "midi"}):
        answer = served.http.post("/v1/audio/speech", json=asked | wrong)
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, next(iter(wrong)))
    long = served.http.post("/v1/audio/speech", json=asked | {"input": "x" * 16_001})
    assert long.status_code == 400 and "16,000" in long.json()["error"]["message"]
