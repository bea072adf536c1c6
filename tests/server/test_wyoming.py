"""`edgewise wyoming`, asked by the protocol's own client over TCP."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import warnings
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy
import pytest
from typing_extensions import override

from edgewise import AsyncEngine, Settings, __version__
from edgewise.errors import SettingsError
from edgewise.local.backend import CallToWrite
from edgewise.local.store import InstalledModel
from edgewise.server import wyoming as server
from edgewise.server.wyoming import HomeFile, Service, Talks
from edgewise.speech.words import word_errors
from edgewise.testing import (
    Answer,
    LoopbackCloud,
    ScriptedFunctionModel,
    ScriptedTranscriber,
    heard,
)
from edgewise.testing.scripted import SCRIPTED_FUNCTION_MODEL_FACTS
from edgewise.types.messages import Message
from tests.campaigns import rounds
from tests.conftest import MODELS_DIR
from tests.recordings import BECKETT_WORDS, sound_of
from tests.speech.made_voice import voice

with warnings.catch_warnings():  # of `audioop`, which the protocol's package takes where it can
    warnings.simplefilter("ignore", DeprecationWarning)
    from wyoming.asr import Transcribe, Transcript, TranscriptChunk, TranscriptStart, TranscriptStop
    from wyoming.audio import AudioChunk, AudioStart, AudioStop
    from wyoming.client import AsyncClient
    from wyoming.error import Error
    from wyoming.event import Event, Eventable
    from wyoming.handle import Handled
    from wyoming.info import Describe, Info
    from wyoming.intent import Intent, IntentsStart, IntentsStop, NotRecognized, Recognize
    from wyoming.ping import Ping, Pong

pytestmark = pytest.mark.anyio
WAIT_S = 60.0
READS_TURNS = replace(SCRIPTED_FUNCTION_MODEL_FACTS, call_format="conversation")
HOME = """- names: Reading Lamp, desk light
  domain: light
  areas: Study
- names: Study Blind
  domain: cover
  areas: Study
- names: Cellar Door
  domain: lock
  areas: Cellar
"""
CONTEXT = {"conversation_id": "talk-1"}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@contextlib.asynccontextmanager
async def served(
    folder: Path,
    *,
    uri: str = "tcp://127.0.0.1:0",
    live: bool = False,
    policy: str = "local_only",
    environment: dict[str, str] | None = None,
    **parts: Any,
) -> AsyncIterator[str]:
    """The address of a server with these parts while inside."""
    entities = folder / "home.yaml"
    entities.write_text(HOME, "utf-8")
    settings = Settings.load(
        environment or {}, data_dir=folder, cache_dir=MODELS_DIR.parent, threads=1
    )
    stop, found = asyncio.Event(), asyncio.get_running_loop().create_future()
    async with AsyncEngine(settings, **parts) as engine:
        service = Service(
            engine=engine,
            home=HomeFile(entities),
            live=live,
            options={"policy": policy},
        )
        running = asyncio.create_task(server.serve(service, uri, found.set_result, stop))
        try:
            yield await asyncio.wait_for(found, WAIT_S)
        finally:
            stop.set()
            await asyncio.wait_for(running, WAIT_S)


def scripted(*answers: str) -> ScriptedFunctionModel:
    return ScriptedFunctionModel(answers or ("none",), facts=READS_TURNS)


async def next_of(client: AsyncClient) -> Event:
    event = await asyncio.wait_for(client.read_event(), WAIT_S)
    assert event is not None, "the server has left"
    return event


async def ask(address: str, *events: Eventable, answers: int = 1) -> list[Event]:
    async with AsyncClient.from_uri(address) as client:
        for event in events:
            await client.write_event(event.event())
        return [await next_of(client) for _ in range(answers)]


def slots_of(event: Event) -> dict[str, Any]:
    return {one.name: one.value for one in Intent.from_event(event).entities}


def speech(seconds: float) -> bytes:
    return (20_000 * voice(seconds)).astype("<i2").tobytes()


def pieces(sound: bytes, rate: int = 16_000, channels: int = 1, size: int = 6_400) -> list[Any]:
    form = {"rate": rate, "width": 2, "channels": channels}
    chunks = [AudioChunk(audio=sound[at : at + size], **form) for at in range(0, len(sound), size)]
    return [AudioStart(**form), *chunks, AudioStop()]


async def test_it_says_what_it_offers(tmp_path: Path) -> None:
    async with served(tmp_path, function_model=scripted()) as address:
        (event,) = await ask(address, Describe())
        (pong,) = await ask(address, Ping(text="hello"))
    info = Info.from_event(event)
    programs: list[Any] = [info.asr[0], info.intent[0]]
    for program in programs:
        assert (program.name, program.version, program.installed) == (
            "edgewise",
            __version__,
            True,
        )
        assert program.attribution.name and program.models[0].installed
        assert program.models[0].languages == ["en"]
    assert not info.asr[0].supports_transcript_streaming
    assert Pong.from_event(pong).text == "hello"


async def test_a_request_becomes_an_intent_with_slots_from_the_list(tmp_path: Path) -> None:
    model = scripted('HassTurnOn {"name":"the desk light"}')
    async with served(tmp_path, function_model=model) as address:
        (event,) = await ask(address, Transcript("turn on the desk light", context=CONTEXT))
        (again,) = await ask(address, Recognize("turn on the desk light"))
    intent = Intent.from_event(event)
    assert intent.name == "HassTurnOn"
    assert slots_of(event) == slots_of(again) == {"name": "Reading Lamp", "domain": "light"}
    assert intent.context == CONTEXT
    assert intent.text == "Okay"


async def test_several_intents_stand_between_a_start_and_a_stop(tmp_path: Path) -> None:
    model = scripted('HassTurnOn {"name":"Reading Lamp"}\nHassTurnOff {"name":"Study Blind"}')
    async with served(tmp_path, function_model=model) as address:
        said = Transcript("turn on the reading lamp and close the study blind")
        start, first, second, stop = await ask(address, said, answers=4)
    assert IntentsStart.is_type(start.type) and IntentsStop.is_type(stop.type)
    assert slots_of(first)["name"] == "Reading Lamp"
    assert slots_of(second) == {"name": "Study Blind", "domain": "cover"}


async def test_a_question_about_a_state_is_answered_by_home_assistants_template(
    tmp_path: Path,
) -> None:
    model = scripted('HassGetState {"name":"Cellar Door","state":"locked"}')
    async with served(tmp_path, function_model=model) as address:
        heard_by = {**CONTEXT, "device_id": "speaker-1"}
        (event,) = await ask(address, Transcript("is the cellar door locked?", context=heard_by))
    assert slots_of(event) == {"name": "Cellar Door", "domain": "lock", "state": "locked"}
    assert "query.matched" in (Intent.from_event(event).text or "")


@pytest.mark.parametrize("context", [None, CONTEXT, {**CONTEXT, "device_id": ""}])
async def test_a_client_that_fills_in_no_templates_gets_none_to_read_out(
    tmp_path: Path, context: dict[str, str] | None
) -> None:
    written = (
        ("is the cellar door locked?", 'HassGetState {"name":"Cellar Door","state":"locked"}'),
        ("how warm is it in the study?", 'HassClimateGetTemperature {"area":"Study"}'),
        ("what time is it?", "HassGetCurrentTime {}"),
        ("turn on the reading lamp", 'HassTurnOn {"name":"Reading Lamp"}'),
    )
    async with served(tmp_path, function_model=scripted(*(call for _, call in written))) as address:
        for words, call in written:
            (event,) = await ask(address, Transcript(words, context=context))
            intent = Intent.from_event(event)
            assert intent.name == call.split()[0]
            assert "{" not in (intent.text or ""), words
    assert intent.text == "Okay", "a plain sentence is for every client"


async def test_a_device_that_is_not_listed_is_asked_for_and_the_answer_counts(
    tmp_path: Path,
) -> None:
    model = scripted('HassTurnOn {"name":"toaster"}', 'HassTurnOn {"name":"Reading Lamp"}')
    async with served(tmp_path, function_model=model) as address:
        (asked,) = await ask(address, Transcript("turn on the toaster", context=CONTEXT))
        (done,) = await ask(address, Transcript("the reading lamp", context=CONTEXT))
    assert Handled.is_type(asked.type)
    assert (Handled.from_event(asked).text or "").endswith("?")
    assert slots_of(done)["name"] == "Reading Lamp"
    assert "turn on the toaster" in model.asked[-1].prompt


# What a device with an incomplete list of a home may be asked, and what a model may make of it.
WIDE = (
    ("Turn on the bed light", 'HassTurnOn {"domain":"light"}'),
    ("Turn on the bed light", 'HassTurnOn {"name":"bed light"}'),
    ("Unlock the back door", 'HassTurnOff {"domain":"lock"}'),
    ("Unlock the back door", 'HassTurnOff {"name":"Cellar Door"}'),
    ("Open the garage door", 'HassTurnOn {"domain":"cover","device_class":"garage"}'),
    ("Set the bed light to 50%", 'HassLightSet {"brightness":50}'),
)


@pytest.mark.parametrize(("words", "written"), WIDE)
async def test_a_home_does_not_act_on_everything_for_a_name_it_does_not_know(
    tmp_path: Path, words: str, written: str
) -> None:
    async with served(tmp_path, function_model=scripted(written)) as address:
        (event,) = await ask(address, Transcript(words, context=CONTEXT))
    assert Handled.is_type(event.type), slots_of(event)
    assert (Handled.from_event(event).text or "").endswith("?")


async def test_all_the_lights_are_switched_where_all_are_meant(tmp_path: Path) -> None:
    async with served(tmp_path, function_model=scripted('HassTurnOff {"domain":"light"}')) as on:
        for words in ("turn off all the lights", "lights off"):
            (event,) = await ask(on, Transcript(words, context=CONTEXT))
            assert slots_of(event)["domain"] == "light", words


async def test_a_cover_without_a_class_is_known_by_its_name(tmp_path: Path) -> None:
    model = scripted('HassTurnOff {"domain":"cover","area":"Study"}')
    async with served(tmp_path, function_model=model) as address:
        (event,) = await ask(address, Transcript("close the blind in the study", context=CONTEXT))
        (named,) = await ask(address, Transcript("close the blind", context=CONTEXT))
    assert slots_of(event) == {"domain": "cover", "device_class": "blind", "area": "Study"}
    assert slots_of(named) == {"name": "Study Blind", "domain": "cover"}


async def test_what_no_intent_serves_is_not_recognized(tmp_path: Path) -> None:
    async with served(tmp_path, function_model=scripted("none")) as address:
        for text in ("write me a poem", "", "   "):
            (event,) = await ask(address, Transcript(text, context=CONTEXT))
            assert NotRecognized.is_type(event.type)
            assert NotRecognized.from_event(event).text == server.NOT_UNDERSTOOD


async def test_sound_becomes_a_transcript(tmp_path: Path) -> None:
    transcriber = ScriptedTranscriber([[heard("turn on the lamp", 0.0, 1.5)]])
    sound = speech(2.0)
    async with served(tmp_path, transcriber=transcriber) as address:
        (event,) = await ask(address, Transcribe(language="en-GB"), *pieces(sound))
        (silent,) = await ask(address, AudioStart(16_000, 2, 1), AudioStop())
    transcript = Transcript.from_event(event)
    assert (transcript.text, transcript.language) == ("turn on the lamp", "en")
    assert transcriber.listened[0].language == "en"
    assert Transcript.from_event(silent).text == ""


async def test_words_are_sent_while_somebody_speaks(tmp_path: Path) -> None:
    transcriber = ScriptedTranscriber([[heard("turn on the lamp", 0.0, 1.5)]])
    async with (
        served(tmp_path, live=True, transcriber=transcriber) as address,
        AsyncClient.from_uri(address) as client,
    ):
        await client.write_event(Describe().event())
        assert Info.from_event(await next_of(client)).asr[0].supports_transcript_streaming
        for piece in pieces(speech(2.0)):
            await client.write_event(piece.event())
        events = [await next_of(client)]
        while not Transcript.is_type(events[-1].type):
            events.append(await next_of(client))
    assert TranscriptStart.is_type(events[0].type) and TranscriptStop.is_type(events[-2].type)
    shown = "".join(
        TranscriptChunk.from_event(one).text for one in events if TranscriptChunk.is_type(one.type)
    )
    assert shown == Transcript.from_event(events[-1]).text
    assert shown.startswith("turn on the lamp")


@pytest.mark.parametrize("policy", ["local_only", "prefer_local"])
async def test_nothing_leaves_the_device_unless_the_policy_says_so(
    tmp_path: Path, policy: str
) -> None:
    doubtful = ScriptedFunctionModel.doubtful('HassTurnOn {"name":"Reading Lamp"}')
    mumbled = ScriptedTranscriber([[heard("mumble", 0.0, 1.5, chance=0.05)]])
    with LoopbackCloud() as cloud:
        cloud.always(Answer(text="I do not know."))
        variables = {"OPENAI_API_KEY": "sk-cloud-key-0123456789"}
        variables |= {"OPENAI_BASE_URL": cloud.openai_url}
        async with served(
            tmp_path,
            policy=policy,
            environment=variables,
            function_model=doubtful,
            transcriber=mumbled,
        ) as address:
            await ask(address, Transcript("turn on the reading lamp"))
            await ask(address, *pieces(speech(2.0)))
        assert bool(cloud.requests) == (policy == "prefer_local")


REFUSED: Sequence[tuple[str, Eventable]] = (
    ("8-bit", AudioStart(16_000, 1, 1)),
    ("9 channels", AudioStart(16_000, 2, 9)),
    ("rate 5", AudioStart(5, 2, 1)),
    ("at most 4,000 characters", Transcript("on " * 2_000)),
)


@pytest.mark.parametrize(("reason", "event"), REFUSED)
async def test_what_cannot_be_served_is_an_error_and_the_connection_stays(
    tmp_path: Path, reason: str, event: Eventable
) -> None:
    async with served(tmp_path, function_model=scripted()) as address:
        refused, pong = await ask(address, event, Ping(), answers=2)
    assert reason in Error.from_event(refused).text
    assert Pong.is_type(pong.type)


async def test_a_recording_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MOST_SECONDS", 1.0)
    transcriber = ScriptedTranscriber([[]])
    async with served(tmp_path, transcriber=transcriber) as address:
        (event,) = await ask(address, *pieces(bytes(64_000)))
    assert "at most 1 seconds" in Error.from_event(event).text
    assert transcriber.listened == []


async def test_a_chunk_in_another_format_is_refused(tmp_path: Path) -> None:
    async with served(tmp_path, transcriber=ScriptedTranscriber([[]])) as address:
        chunk = AudioChunk(8_000, 2, 1, bytes(100))
        (event,) = await ask(address, AudioStart(16_000, 2, 1), chunk)
    assert "audio-chunk" in Error.from_event(event).text


BAD_LINES = (
    b"hello\n",
    b"[1, 2]\n",
    b'{"data": {}}\n',
    b'{"type": "describe", "data": 3}\n',
    b'{"type": "audio-chunk", "payload_length": 99999999999}\n',
    b'{"type": "audio-chunk", "payload_length": -1}\n',
    b'{"type": "transcript", "data_length": "many"}\n',
    b'{"type": "transcript", "data_length": 3}\n{{{',
    b'{"type": "transcript"}\n',
    b'{"type": "audio-start", "data": {"rate": "x", "width": 2, "channels": 1}}\n',
    b"[" * 60_000 + b"\n",
    b"x" * 200_000,
)


@pytest.mark.parametrize("line", BAD_LINES)
async def test_what_is_no_event_ends_that_connection_alone(tmp_path: Path, line: bytes) -> None:
    async with served(tmp_path, function_model=scripted()) as address:
        host, port = address.removeprefix("tcp://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(line)
        answer = await asyncio.wait_for(reader.read(), WAIT_S)
        assert json.loads(answer.split(b"\n")[0])["type"] == "error"
        writer.close()
        (event,) = await ask(address, Describe())
    assert Info.is_type(event.type)


async def test_random_bytes_do_not_bring_it_down(tmp_path: Path) -> None:
    random = numpy.random.default_rng(7)
    async with served(tmp_path, function_model=scripted()) as address:
        host, port = address.removeprefix("tcp://").split(":")
        for _ in range(rounds(200)):
            _, writer = await asyncio.open_connection(host, int(port))
            writer.write(random.bytes(int(random.integers(1, 4_000))) + b"\n")
            with contextlib.suppress(OSError):
                await writer.drain()
            writer.close()
        (event,) = await ask(address, Describe())
    assert Info.is_type(event.type)


class SlowModel(ScriptedFunctionModel):
    """Writes nothing until it is let go; says when it was called off."""

    def __init__(self) -> None:
        super().__init__(["none"])
        self.began, self.go, self.ended = (threading.Event() for _ in range(3))

    @override
    def write_call(self, call: CallToWrite) -> Any:
        self.began.set()
        stream = super().write_call(call)
        try:
            while not self.go.wait(0.01):
                yield next(super().write_call(call))
            yield from stream
        finally:
            self.ended.set()


async def until(happened: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not happened():
            await asyncio.sleep(0.01)


async def test_a_client_that_vanishes_calls_its_work_off(tmp_path: Path) -> None:
    model = SlowModel()
    async with served(tmp_path, function_model=model) as address:
        async with AsyncClient.from_uri(address) as client:
            await client.write_event(Transcript("turn on the reading lamp").event())
            await until(model.began.is_set)
        await until(model.ended.is_set)
        assert not model.go.is_set()


async def test_one_that_vanishes_while_it_speaks_leaves_the_others_alone(tmp_path: Path) -> None:
    transcriber = ScriptedTranscriber([[heard("hello", 0.0, 1.0)]])
    async with served(tmp_path, transcriber=transcriber) as address:
        async with AsyncClient.from_uri(address) as client:
            for piece in pieces(speech(2.0))[:4]:
                await client.write_event(piece.event())
        (event,) = await ask(address, *pieces(speech(2.0)))
    assert Transcript.from_event(event).text == "hello"
    assert len(transcriber.listened) == 1


async def test_many_clients_are_served_at_once(tmp_path: Path) -> None:
    model = scripted('HassTurnOn {"name":"Reading Lamp"}')
    transcriber = ScriptedTranscriber([[heard("hello", 0.0, 1.0)]])
    async with served(tmp_path, function_model=model, transcriber=transcriber) as address:
        asked = [ask(address, Transcript("turn on the reading lamp")) for _ in range(8)]
        spoken = [ask(address, *pieces(speech(1.5))) for _ in range(8)]
        answers = [events[0] for events in await asyncio.gather(*asked, *spoken)]
    assert [event.type for event in answers] == ["intent"] * 8 + ["transcript"] * 8


async def test_too_many_clients_are_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MOST_CLIENTS", 1)
    async with served(tmp_path, function_model=scripted()) as address:
        async with AsyncClient.from_uri(address) as first:
            await first.write_event(Ping().event())
            await next_of(first)
            (event,) = await ask(address)
            assert Error.from_event(event).code == "busy"

        async def is_free() -> bool:
            (answer,) = await ask(address, Ping())
            return bool(Pong.is_type(answer.type))

        async with asyncio.timeout(WAIT_S):
            while not await is_free():
                await asyncio.sleep(0.01)


async def test_a_silent_client_is_sent_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "IDLE_S", 0.05)
    async with (
        served(tmp_path, function_model=scripted()) as address,
        AsyncClient.from_uri(address) as client,
    ):
        assert await asyncio.wait_for(client.read_event(), WAIT_S) is None


async def test_a_socket_of_the_file_system_will_do(tmp_path: Path) -> None:
    uri = f"unix://{tmp_path}/edgewise.sock"
    async with served(tmp_path, uri=uri, function_model=scripted()) as address:
        (event,) = await ask(address, Describe())
    assert Info.is_type(event.type)


def test_the_list_is_read_again_when_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "home.yaml"
    path.write_text(HOME, "utf-8")
    home = HomeFile(path, "Study")
    assert len(home.facts()["entities"]) == 3
    assert home.facts()["area"] == "Study"
    path.write_text(HOME + "- names: Radio\n  domain: media_player\n", "utf-8")
    assert len(home.facts()["entities"]) == 4
    path.write_text("half a fi", "utf-8")  # whoever writes it is not done
    assert len(home.facts()["entities"]) == 4
    with pytest.raises(SettingsError, match="nowhere"):
        HomeFile(tmp_path / "nowhere.yaml")


def test_a_conversation_is_forgotten_in_time() -> None:
    now = [0.0]
    talks = Talks(clock=lambda: now[0])
    talks.note("a", [Message("user", f"turn {number}") for number in range(20)])
    assert [turn.content for turn in talks.before("a")][-1] == "turn 19"
    assert len(talks.before("a")) == server.TALK_TURNS
    assert talks.before("b") == []
    now[0] = server.TALK_S + 1
    assert talks.before("a") == []
    for number in range(2 * server.MOST_TALKS):
        talks.note(str(number), [Message("user", "hello")])
    assert len(talks._held) == server.MOST_TALKS


@pytest.mark.real_model
async def test_a_person_is_transcribed(
    tmp_path: Path, default_transcriber: InstalledModel, beckett: Path
) -> None:
    sound = (32_767 * sound_of(beckett).clip(-1, 1)).astype("<i2").tobytes()
    async with served(tmp_path) as address:
        (event,) = await ask(address, Transcribe(language="en"), *pieces(sound))
    found = word_errors(BECKETT_WORDS, Transcript.from_event(event).text)
    assert found.rate < 0.3


@pytest.mark.real_model
async def test_the_function_model_reads_a_request_to_the_home(
    tmp_path: Path, default_function_model: InstalledModel
) -> None:
    async with served(tmp_path) as address:
        (event,) = await ask(address, Transcript("please close the blind in the study"))
        (asked,) = await ask(address, Transcript("is the cellar door locked?"))
    assert Intent.from_event(event).name == "HassTurnOff"
    assert slots_of(event) == {"domain": "cover", "device_class": "blind", "area": "Study"}
    assert Intent.from_event(asked).name == "HassGetState"
    assert slots_of(asked) == {"name": "Cellar Door", "domain": "lock", "state": "locked"}
