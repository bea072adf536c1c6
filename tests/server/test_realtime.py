from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import numpy
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from edgewise import parts as assembly
from edgewise.errors import ExtraMissing
from edgewise.speech import audio
from edgewise.testing import LoopbackCloud, ScriptedTranscriber, Status
from tests.flows.live_sound import LevelTranscriber, LoudnessActivity, Samples, pause, spoken
from tests.server.conftest import Serving
from tests.server.served import Served, wait_until

COMPLETED = "conversation.item.input_audio_transcription.completed"
DELTA = "conversation.item.input_audio_transcription.delta"
CORRECTED = "edgewise.transcription.corrected"
FINISHED = "edgewise.session.finished"
SETTINGS = {"audio": {"input": {"format": {"type": "audio/pcm", "rate": 16000}}}}


@pytest.fixture(autouse=True)
def loudness(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audio, "VoiceActivity", LoudnessActivity)


def coded(samples: Samples) -> str:
    return base64.b64encode((samples * 32767).astype("<i2").tobytes()).decode()


class Caller:
    """One connection of a client."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    def send(self, kind: str, **fields: Any) -> None:
        self.socket.send(json.dumps({"type": kind, **fields}))

    def say(self, *parts: Samples) -> None:
        sound = numpy.concatenate(parts)
        for start in range(0, len(sound), 8000):
            self.send("input_audio_buffer.append", audio=coded(sound[start : start + 8000]))

    def next(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.socket.recv(20))
        return found

    def until(self, kind: str) -> list[dict[str, Any]]:
        """All events up to one of a kind."""
        found = [self.next()]
        while found[-1]["type"] != kind:
            assert found[-1]["type"] != "error", found[-1]
            found.append(self.next())
        return found


def calling(served: Served, **options: Any) -> Iterator[Caller]:
    url = served.url.replace("http", "ws", 1) + "/v1/realtime?intent=transcription"
    with connect(url, **options) as socket:
        yield Caller(socket)


@pytest.fixture
def served(serving: Serving) -> Served:
    return serving(transcriber=LevelTranscriber())


@pytest.fixture
def caller(served: Served) -> Iterator[Caller]:
    for each in calling(served):
        assert each.next()["type"] == "session.created"
        yield each


def test_words_come_as_they_settle_and_utterances_as_items(caller: Caller, served: Served) -> None:
    caller.send("session.update", session=SETTINGS)
    assert caller.next()["type"] == "session.updated"
    caller.say(spoken(*range(100, 109)), pause(), spoken(200, 201, 202), pause())
    caller.send("input_audio_buffer.commit")
    events = caller.until(FINISHED)
    done = [each for each in events if each["type"] == COMPLETED]
    texts = ["w100 w101 w102 w103 w104 w105 w106 w107 w108", "w200 w201 w202"]
    assert [each["transcript"] for each in done] == texts
    for each in done:
        deltas = [
            e["delta"] for e in events if e["type"] == DELTA and e["item_id"] == each["item_id"]
        ]
        assert "".join(deltas) == each["transcript"]
        assert each["edgewise"]["source"] == "local" and each["edgewise"]["confidence"] > 0.5
    first = next(index for index, each in enumerate(events) if each["type"] == DELTA)
    assert first < events.index(done[0]) - 3  # words before the utterance has ended
    assert events[-1]["text"] == " ".join(texts)
    assert served.metric('edgewise_requests_total{code="kept_confident",endpoint="realtime"') == 1


def test_a_correction_names_the_item_it_is_about(caller: Caller, cloud: LoopbackCloud) -> None:
    cloud.always("what was really said")
    caller.send("session.update", session=SETTINGS)
    caller.say(spoken(100, 101), pause(), spoken(600, 601, 602), pause())
    events = caller.until(CORRECTED)  # without another sound from us
    second = [each for each in events if each["type"] == COMPLETED][1]
    assert events[-1]["item_id"] == second["item_id"]
    assert (events[-1]["transcript"], events[-1]["replaced"]) == (
        "what was really said",
        second["transcript"],
    )
    caller.send("input_audio_buffer.commit")
    final = caller.until(FINISHED)[-1]
    assert final["text"] == "w100 w101 what was really said"
    assert [each["source"] for each in final["edgewise"]["segments"]] == ["local", "cloud"]


def test_private_sound_stays_and_a_cloud_that_fails_is_told(
    caller: Caller, cloud: LoopbackCloud
) -> None:
    caller.send("session.update", session=SETTINGS | {"edgewise": {"privacy": "private"}})
    caller.say(spoken(600, 601, 602), pause())
    caller.send("input_audio_buffer.commit")
    final = caller.until(FINISHED)[-1]
    assert final["text"] == "w600 w601 w602" and final["edgewise"]["degraded_code"] == "private"
    assert not cloud.requests


def test_a_cloud_that_fails_is_told(caller: Caller, cloud: LoopbackCloud) -> None:
    cloud.always(Status(400))
    caller.send("session.update", session=SETTINGS)
    caller.say(spoken(600, 601, 602), pause())
    caller.send("input_audio_buffer.commit")
    kinds = [each["type"] for each in caller.until(FINISHED)]
    assert "edgewise.transcription.kept" in kinds and CORRECTED not in kinds


DOUBTED = (spoken(600, 601, 602), pause())
PRIVATE = {"privacy": "private"}


@pytest.mark.parametrize(
    "updates",
    [
        [{"edgewise": PRIVATE}, {}],
        [{"metadata": PRIVATE}, {}],
        [{"edgewise": PRIVATE}, {"edgewise": {"privacy": "open"}}, {"metadata": {}}],
        [{"edgewise": {"policy": "local_only"}}, {"edgewise": {"threshold": 0.99}}],
        [{"edgewise": {"threshold": 0.9}, "metadata": PRIVATE}],
        [{"edgewise": {}, "metadata": {"policy": "local_only"}}],
        [{"edgewise": {"privacy": "open"}, "metadata": {"edgewise_privacy": "private"}}],
        [{"edgewise": {"redact": True}}, {}],
        [{"edgewise": {"private_kinds": ["CARD"]}}, {"edgewise": {}}],
    ],
    ids=str,
)
def test_what_one_update_keeps_in_no_later_one_lets_out(
    caller: Caller, cloud: LoopbackCloud, updates: list[dict[str, Any]]
) -> None:
    for update in updates:
        caller.send("session.update", session=SETTINGS | update)
        assert caller.next()["type"] == "session.updated"
    for _ in range(2):
        caller.say(*DOUBTED)
        caller.send("input_audio_buffer.commit")
        assert caller.until(FINISHED)[-1]["text"] == "w600 w601 w602"
    assert cloud.connections == 0
    assert not cloud.requests


@pytest.mark.parametrize(
    "message",
    [
        {"type": "session.update", "session": PRIVATE},
        {"type": "session.update", "metadata": PRIVATE, "session": {}},
        {"type": "session.update", "edgewise": PRIVATE, "session": {}},
        {"type": "session.update", "session": {"audio": {"input": PRIVATE}}},
        {"type": "session.update", "session": {"metadata": {"private": True}}},
        {"type": "session.update", "session": {"edgewise": {"privacy": "perhaps"}}},
        {"type": "session.update", "session": {"edgewise": {"private": True}}},
    ],
    ids=str,
)
def test_after_a_refused_update_nothing_is_heard(
    caller: Caller, cloud: LoopbackCloud, message: dict[str, Any]
) -> None:
    """The client may have sent its sound before it reads that its privacy was refused."""
    caller.socket.send(json.dumps(message))
    caller.send("input_audio_buffer.append", audio=coded(DOUBTED[0]))
    said = [caller.next(), caller.next()]
    assert [each["type"] for each in said] == ["error", "error"]
    assert "refused" in said[1]["error"]["message"]
    caller.send("session.update", session=SETTINGS)  # nothing of privacy: it had been said
    assert caller.next()["type"] == "session.updated"
    caller.say(*DOUBTED)
    caller.send("input_audio_buffer.commit")
    assert caller.until(FINISHED)[-1]["text"] == "w600 w601 w602"
    assert not cloud.requests


def test_our_words_with_the_sound_are_refused_and_the_sound_is_not_heard(
    caller: Caller, cloud: LoopbackCloud
) -> None:
    caller.send("session.update", session=SETTINGS)
    assert caller.next()["type"] == "session.updated"
    caller.send("input_audio_buffer.append", audio=coded(DOUBTED[0]), privacy="private")
    error = caller.next()["error"]
    assert "session.edgewise.privacy" in error["message"] and error["param"] == "privacy"
    caller.send("input_audio_buffer.commit")
    assert caller.next()["error"]["message"].endswith("there is no sound to commit")
    assert not cloud.requests


@pytest.mark.parametrize("where", ["?privacy=private", "?intent=transcription&edgewise=1"])
def test_our_words_in_the_address_are_refused_before_the_first_sound(
    served: Served, where: str
) -> None:
    url = served.url.replace("http", "ws", 1) + "/v1/realtime" + where
    with pytest.raises(InvalidStatus) as refused, connect(url):
        pass
    assert refused.value.response.status_code == 403, "all that a WebSocket can be told"


@pytest.mark.parametrize(
    "message",
    [
        "no json",
        '"text"',
        '{"type": "response.create"}',
        '{"type": "input_audio_buffer.append", "audio": "*"}',
        '{"type": "input_audio_buffer.append", "audio": "AAAA"}',
        '{"type": "input_audio_buffer.append"}',
        '{"type": "input_audio_buffer.commit"}',
        '{"type": "session.update", "session": {"input_audio_format": "g711_ulaw"}}',
        '{"type": "session.update", "session": {"edgewise": {"privacy": "perhaps"}}}',
        '{"type": "session.update", "session": {"edgewise": {"private": true}}}',
        '{"type": "session.update", "session": {"audio": {"input": {"format": {"rate": 1}}}}}',
    ],
)
def test_a_wrong_message_is_told_and_the_session_goes_on(caller: Caller, message: str) -> None:
    caller.socket.send(message)
    event = caller.next()
    assert event["type"] == "error" and event["error"]["type"] == "invalid_request_error"
    caller.send("session.update", session=SETTINGS)
    assert caller.next()["type"] == "session.updated"


def test_a_client_that_leaves_is_let_go_and_recorded(serving: Serving) -> None:
    served = serving(transcriber=LevelTranscriber())
    for caller in calling(served):
        caller.send("session.update", session=SETTINGS)
        caller.say(spoken(*range(100, 106)), pause())
        caller.until(COMPLETED)
    served.settle()
    wait_until(lambda: bool(served.state.engine.ledger.recent(5)))
    (row,) = served.state.engine.ledger.recent(5)
    assert row["task"] == "transcribe"
    assert served.metric("edgewise_disconnects_total") == 1


def test_a_stranger_and_another_origin_are_refused(serving: Serving) -> None:
    served = serving(transcriber=LevelTranscriber(), key="secret")
    for headers in ({}, {"authorization": "Bearer wrong"}):
        with pytest.raises(InvalidStatus):
            next(calling(served, additional_headers=headers))
    key = {"authorization": "Bearer secret"}
    with pytest.raises(InvalidStatus):
        next(calling(served, additional_headers=key, origin="https://evil.example"))
    for caller in calling(served, additional_headers=key):
        assert caller.next()["type"] == "session.created"
    shown = ["realtime", "openai-insecure-api-key.secret"]
    for caller in calling(served, subprotocols=shown):
        assert caller.socket.subprotocol == "realtime"
        assert caller.next()["type"] == "session.created"


def test_a_missing_extra_is_told_and_ends_the_session(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(_: object) -> None:
        raise ExtraMissing("speech", "faster-whisper")

    monkeypatch.setattr(assembly, "open_transcriber", missing)
    for caller in calling(serving()):
        caller.next()
        caller.say(spoken(100))
        event = caller.next()
        assert event["error"]["code"] == "missing_extra"
        assert (
            "comes with the extra 'speech'; `edgewise doctor` says there how"
            in event["error"]["message"]
        )
        with pytest.raises(ConnectionClosed):
            caller.next()


# The client's own way to connect is one that `websockets` will not know for ever.
@pytest.mark.filterwarnings("ignore:connect\\(\\) must be used:DeprecationWarning")
def test_the_official_client_captions_live(served: Served) -> None:
    with served.openai().realtime.connect(extra_query={"intent": "transcription"}) as connection:
        connection.session.update(session={"type": "transcription", **SETTINGS})
        sound = numpy.concatenate((spoken(*range(100, 106)), pause()))
        for start in range(0, len(sound), 8000):
            connection.input_audio_buffer.append(audio=coded(sound[start : start + 8000]))
        connection.input_audio_buffer.commit()
        for event in connection:
            if event.type == COMPLETED:
                break
    assert event.transcript == "w100 w101 w102 w103 w104 w105"


def test_a_session_outlives_the_time_for_a_head(serving: Serving) -> None:
    served = serving(transcriber=LevelTranscriber(), header_s=0.3)
    for caller in calling(served):
        caller.next()
        with pytest.raises(TimeoutError):
            caller.socket.recv(1.0)
        caller.send("session.update", session=SETTINGS)
        assert caller.next()["type"] == "session.updated"


def test_a_server_that_stops_closes_its_sessions(caller: Caller, served: Served) -> None:
    served.state.draining = True
    with pytest.raises(ConnectionClosed) as caught:
        caller.next()
    assert caught.value.rcvd is not None and caught.value.rcvd.code == 1001


STARTED = "input_audio_buffer.speech_started"
STOPPED = "input_audio_buffer.speech_stopped"
COMMITTED = "input_audio_buffer.committed"


def test_speech_that_starts_and_stops_is_told_with_its_item_and_its_times(caller: Caller) -> None:
    caller.send("session.update", session=SETTINGS)
    caller.say(pause(), spoken(*range(100, 106)))
    caller.until(DELTA)
    caller.say(pause(), spoken(200, 201, 202), pause())
    caller.send("input_audio_buffer.commit")
    # The first of them came before its first word; the rest is still to be read.
    events = caller.until(FINISHED)
    done = [each["item_id"] for each in events if each["type"] == COMPLETED]
    assert len(set(done)) == 2
    steps = {item: [e["type"] for e in events if e.get("item_id") == item] for item in done}
    assert steps[done[0]][-3:] == [STOPPED, COMMITTED, COMPLETED]
    assert steps[done[1]][0] == STARTED and steps[done[1]][-3:] == [STOPPED, COMMITTED, COMPLETED]
    assert STARTED not in steps[done[0]], "it is said once of each item"
    began = next(each["audio_start_ms"] for each in events if each["type"] == STARTED)
    first_end, second_end = (each["audio_end_ms"] for each in events if each["type"] == STOPPED)
    assert 0 < first_end <= began < second_end <= 1000 * events[-1]["edgewise"]["seconds"]
    committed = [each for each in events if each["type"] == COMMITTED]
    assert [each["previous_item_id"] for each in committed] == [None, done[0]]


def test_speech_in_which_no_word_is_heard_is_an_item_without_text(serving: Serving) -> None:
    for caller in calling(serving(transcriber=ScriptedTranscriber([[]]))):
        caller.send("session.update", session=SETTINGS | {"edgewise": {"policy": "local_only"}})
        caller.say(spoken(100, 101, 102), pause())
        caller.send("input_audio_buffer.commit")
        events = caller.until(FINISHED)
        kinds = [each["type"] for each in events]
        assert kinds.count(STARTED) == kinds.count(STOPPED) == kinds.count(COMPLETED) == 1
        assert next(each for each in events if each["type"] == COMPLETED)["transcript"] == ""
        assert events[-1]["text"] == ""


def test_a_prompt_of_the_session_reaches_the_ears(serving: Serving) -> None:
    transcriber = ScriptedTranscriber([[]])
    told = {
        "audio": {"input": {**SETTINGS["audio"]["input"], "transcription": {"prompt": "Škoda"}}}
    }
    for caller in calling(serving(transcriber=transcriber)):
        caller.send("session.update", session=told)
        assert caller.until("session.updated")[-1]["session"]["audio"]["input"]["transcription"][
            "prompt"
        ] == ("Škoda")
        caller.say(spoken(100, 101), pause())
        caller.send("input_audio_buffer.commit")
        caller.until(FINISHED)
    assert {each.hint for each in transcriber.listened} == {"Škoda"}
