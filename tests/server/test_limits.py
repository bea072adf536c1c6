"""What a client may take: sizes, counts and lengths, alone and together with others."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from edgewise import bridge, tasks
from edgewise.bridge import Cancellation, current
from edgewise.errors import Cancelled
from edgewise.server import dashboard
from edgewise.server.body import MOST_VALUES, BadField, parse_body
from edgewise.server.realtime import MESSAGE_BYTES, WAITING, WAITING_BYTES, Inbox
from edgewise.server.state import SMALL_BODY
from edgewise.settings import Settings
from edgewise.shared_engine import SharedEngine
from edgewise.speech import audio
from edgewise.testing import LoopbackCloud, ScriptedBackend, ScriptedTranscriber, heard
from edgewise.types.messages import MOST_TURNS, Image
from edgewise.vision import fetch, pictures
from tests.flows.live_sound import LevelTranscriber, LoudnessActivity, spoken
from tests.pictures import one_pixel
from tests.server.conftest import Serving
from tests.server.served import HELLO, Served, body_of, read_all, wait_until
from tests.speech.made_voice import silence, voice, wav

MANY = b'{"a":[' + b"[]," * MOST_VALUES + b"[]]}"
TALK = wav(silence(0.5), voice(5.0), silence(0.5))
CHAT = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n"


# -- JSON -----------------------------------------------------------------------------------------


def test_a_body_of_too_many_values_is_refused_before_it_is_parsed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Parsing it would hold Python's lock, and with it every other request, for seconds."""
    monkeypatch.setattr(json, "loads", lambda *_, **__: pytest.fail("it was parsed"))
    with pytest.raises(BadField, match="200,000 values"):
        parse_body(MANY)
    quoted = b'{"a":[' + b'"\\"",' * MOST_VALUES * 3 + b'""]}'
    with pytest.raises(BadField, match="200,000 values"):
        parse_body(quoted)


def test_a_text_may_be_full_of_commas_and_brackets() -> None:
    text = 'as, "he" said: [{\\' * (MOST_VALUES // 2)
    assert parse_body(json.dumps({"a": text, "b": [1, 2]}).encode()) == {"a": text, "b": [1, 2]}


def test_json_inside_texts_counts_for_the_whole_request(session_served: Served) -> None:
    half = json.dumps({"a": [0] * (MOST_VALUES * 2 // 3)})
    calls = [
        {"id": str(number), "type": "function", "function": {"name": "f", "arguments": half}}
        for number in range(2)
    ]
    told = {"role": "assistant", "content": "", "tool_calls": calls}
    answer = session_served.chat(messages=[*HELLO, told])
    assert answer.status_code == 400 and "200,000 values" in answer.json()["error"]["message"]


@pytest.mark.parametrize("text", ["[" * 100 + "]" * 100, '"\\ud800"'], ids=["deep", "surrogate"])
def test_json_inside_a_text_is_held_to_the_same_rules(session_served: Served, text: str) -> None:
    call = {"name": "f", "arguments": f'{{"a": {text}}}'}
    told = {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": call}]}
    answer = session_served.chat(messages=[*HELLO, told])
    assert answer.status_code == 400, answer.text


def test_more_turns_than_a_provider_could_take_are_refused(
    served: Served, cloud: LoopbackCloud
) -> None:
    """Its library would be so slow that the cloud counts as down, for everybody."""
    many = {"messages": HELLO * (MOST_TURNS + 1)}
    for path in ("/v1/chat/completions", "/api/chat"):
        answer = served.http.post(path, json={"model": "cloud", **many})
        assert answer.status_code == 400 and "10,000 messages" in answer.text
    assert not cloud.requests


# -- bodies ---------------------------------------------------------------------------------------


def test_large_bodies_share_a_room_and_small_ones_still_get_in(serving: Serving) -> None:
    served = serving(bodies_bytes=2 * SMALL_BODY)
    large: dict[str, Any] = {"user": "x" * (SMALL_BODY + 1_000)}
    with served.raw() as slow:
        slow.sendall(CHAT + b"content-length: 131000\r\n\r\n" + b"x" * (SMALL_BODY + 1_000))
        wait_until(lambda: served.state.bodies.used > SMALL_BODY)
        refused = served.chat(**large)
        assert refused.status_code == 429
        assert refused.json()["error"]["code"] == "server_busy"
        assert refused.headers["retry-after"]
        assert served.chat().status_code == 200
    wait_until(lambda: served.state.bodies.used == 0)
    assert served.chat(**large).status_code == 200
    wait_until(lambda: served.state.bodies.used == 0)


@pytest.mark.parametrize("end", ["large", "late"])
def test_a_body_that_is_refused_leaves_the_room(serving: Serving, end: str) -> None:
    served = serving(body_bytes=100_000, body_s=0.3)
    with served.raw() as connection:
        connection.sendall(CHAT + b"transfer-encoding: chunked\r\n\r\n")
        size = 120_000 if end == "large" else 50_000
        connection.sendall(b"%x\r\n" % size + b"x" * size + b"\r\n")
        assert body_of(read_all(connection))[0] == (413 if end == "large" else 408)
    wait_until(lambda: served.state.bodies.used == 0)


# -- pictures -------------------------------------------------------------------------------------


ASKED: dict[str, Callable[[str], dict[str, Any]]] = {
    "/v1/chat/completions": lambda url: {
        "messages": [
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}
        ]
    },
    "/v1/responses": lambda url: {
        "input": [{"role": "user", "content": [{"type": "input_image", "image_url": url}]}]
    },
    "/v1/messages": lambda url: {
        "max_tokens": 9,
        "messages": [
            {
                "role": "user",
                "content": [{"type": "image", "source": {"type": "url", "url": url}}],
            }
        ],
    },
}


@pytest.fixture(scope="module")
def fetching(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Whatever the settings of the engine say, a server asks no private network for strangers."""
    settings = Settings.load(
        {},
        data_dir=tmp_path_factory.mktemp("data"),
        private_image_urls=True,
        server={"port": 0, "remote_images": True},
    )
    with Served.started(settings, ScriptedBackend.confident("Paris.")) as served:
        yield served


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/x.png",
        "http://localhost/x.png",
        "http://[::1]/x.png",
        "http://10.0.0.1/x.png",
        "http://192.168.1.1/x.png",
        "http://169.254.169.254/latest/meta-data",
        "http://[fd00::1]/x.png",
        "http://[::ffff:10.0.0.1]/x.png",
        "http://[64:ff9b::a00:1]/x.png",
        "http://0.0.0.0/x.png",
        "http://100.64.0.1/x.png",
        "file:///etc/passwd",
        "ftp://pictures.example/x.png",
        "http://user:secret@pictures.example/x.png",
        "http://pictures.example:99999/x.png",
    ],
)
def test_private_addresses_are_never_asked(fetching: Served, url: str) -> None:
    for path, body in ASKED.items():
        answer = fetching.http.post(path, json={"model": "auto", **body(url)})
        assert answer.status_code == 400, answer.text
        assert "could not be fetched" in answer.json()["error"]["message"]


def test_pictures_are_counted_before_one_is_fetched_and_tokens_are_counted_without(
    fetching: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "_get", lambda *_: pytest.fail("one was fetched"))
    url = {"type": "image_url", "image_url": {"url": "http://pictures.example/x.png"}}
    answer = fetching.chat(messages=[{"role": "user", "content": [url] * 500}])
    assert answer.status_code == 400
    assert "500 images in one request; 20 are the most" in answer.json()["error"]["message"]
    one = ASKED["/v1/messages"]("http://pictures.example/x.png")
    counted = fetching.http.post("/v1/messages/count_tokens", json={"model": "auto", **one})
    assert counted.status_code == 200, counted.text


def test_the_pictures_of_a_client_that_left_are_not_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cancellation, opened = Cancellation("a client"), []

    def leave(image: Image, position: int = 1) -> None:
        opened.append(position)
        cancellation.leave()

    monkeypatch.setattr(pictures, "open_picture", leave)
    images = (Image(one_pixel()),) * 3
    token = current.set(cancellation)
    try:
        with SharedEngine(Settings.load({}, data_dir=tmp_path), queue=1) as engine:
            asked = engine.parts.request("What is it?", images=images)
            with pytest.raises(Cancelled):
                tasks.settled(engine.parts, asked)
    finally:
        current.reset(token)
    assert opened == [1]


# -- threads --------------------------------------------------------------------------------------


def test_a_system_without_a_thread_to_spare_is_busy_and_nothing_stays_taken(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = threading.Thread.start

    def exhausted(thread: threading.Thread) -> None:
        if thread.name.startswith("edgewise-request"):
            raise RuntimeError("can't start new thread")
        usual(thread)

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", exhausted)
        patched.setattr(bridge, "_threads", bridge._Threads())  # nor one that waits for work
        busy = served.chat()
        assert (busy.status_code, busy.json()["error"]["code"]) == (429, "server_busy")
        with session(served) as socket, pytest.raises(ConnectionClosed):
            told(socket)
    assert (len(served.state.inside), len(served.state.live)) == (0, 0)
    assert served.state.bodies.used == 0
    assert served.chat().status_code == 200


# -- live sessions --------------------------------------------------------------------------------


@contextlib.contextmanager
def session(served: Served) -> Any:
    with connect(served.url.replace("http", "ws", 1) + "/v1/realtime") as socket:
        yield socket


def told(socket: ClientConnection) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(socket.recv(20))
    return found


def test_a_message_that_is_too_long_ends_its_session_and_no_other(served: Served) -> None:
    with session(served) as other, session(served) as socket:
        assert told(socket)["type"] == told(other)["type"] == "session.created"
        with pytest.raises(ConnectionClosed):  # which of the two hears of it is the network's
            socket.send("x" * (MESSAGE_BYTES + 1))
            told(socket)
        other.send(MANY.decode())
        assert "200,000 values" in told(other)["error"]["message"]
        other.send('{"type": "session.update"}')
        assert told(other)["type"] == "session.updated"


def test_nothing_is_unpacked_on_the_event_loop(served: Served) -> None:
    """A client's library offers to compress: 16 KB could become 16 MB there."""
    with session(served) as socket:
        assert socket.protocol.extensions == []


def test_messages_wait_up_to_a_size_and_a_count() -> None:
    async def fill(message: bytes) -> int:
        inbox, count = Inbox(), 0
        with contextlib.suppress(TimeoutError):
            while count < 2 * WAITING:
                await asyncio.wait_for(inbox.put(message), 0.05)
                count += 1
        inbox.get()
        await inbox.put(message)  # there is room again
        return count

    assert asyncio.run(fill(b"")) == WAITING
    assert asyncio.run(fill(bytes(WAITING_BYTES // 3))) == 3
    assert asyncio.run(fill(bytes(WAITING_BYTES + 1))) == 1  # alone it always has room


def test_more_live_sessions_than_may_be_are_told_to_come_again(serving: Serving) -> None:
    served = serving(live_sessions=1)
    with session(served) as first:
        told(first)
        with session(served) as second, pytest.raises(ConnectionClosed) as caught:
            told(second)
        assert caught.value.rcvd is not None
        assert (caught.value.rcvd.code, caught.value.rcvd.reason) == (1013, "server_busy")
        assert served.chat().status_code == 200
    served.settle()
    with session(served) as third:
        assert told(third)["type"] == "session.created"


TWO_KEYS: dict[str, Any] = {
    "keys": {
        "a": {"key_env": "A_KEY", "requests_per_minute": 30},
        "b": {"key_env": "B_KEY", "requests_per_minute": 30},
    },
    "environment": {"A_KEY": "key-a", "B_KEY": "key-b"},
}
A, B = {"authorization": "Bearer key-a"}, {"authorization": "Bearer key-b"}


def test_one_key_takes_no_more_than_half_of_the_live_sessions(serving: Serving) -> None:
    served = serving(live_sessions=4, **TWO_KEYS)
    url = served.url.replace("http", "ws", 1) + "/v1/realtime"
    with connect(url, additional_headers=A) as one, connect(url, additional_headers=A) as two:
        assert told(one)["type"] == told(two)["type"] == "session.created"
        with connect(url, additional_headers=A) as three, pytest.raises(ConnectionClosed):
            told(three)
        with connect(url, additional_headers=B) as other:
            assert told(other)["type"] == "session.created"


def test_one_key_takes_no_more_than_half_of_the_places_to_look_on(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dashboard, "MOST_WATCHING", 2)
    served = serving(**TWO_KEYS)
    with served.http.stream("GET", "/edgewise/events", headers=A) as looks:
        assert looks.status_code == 200
        assert served.http.get("/edgewise/events", headers=A).status_code == 429
        with served.http.stream("GET", "/edgewise/events", headers=B) as other:
            assert other.status_code == 200
        assert served.chat(headers=B).status_code == 200


def test_each_recording_of_a_session_counts_as_a_request(serving: Serving) -> None:
    keys = {"a": {"key_env": "A_KEY", "requests_per_minute": 2}}
    served = serving(transcriber=LevelTranscriber(), keys=keys, environment={"A_KEY": "key-a"})
    url = served.url.replace("http", "ws", 1) + "/v1/realtime"
    sound = base64.b64encode(bytes(9_600)).decode()
    codes: list[str] = []
    with connect(url, additional_headers=A) as socket:
        told(socket)
        for _ in range(4):
            socket.send(json.dumps({"type": "input_audio_buffer.append", "audio": sound}))
            socket.send(json.dumps({"type": "input_audio_buffer.commit"}))
            while (event := told(socket))["type"] not in ("error", "edgewise.session.finished"):
                pass
            codes.append(event["error"]["code"] if event["type"] == "error" else "heard")
            if event["type"] == "error":
                told(socket)  # there is nothing to commit
    assert codes == ["heard", "heard", "rate_limit_exceeded", "rate_limit_exceeded"]


def test_a_session_in_which_nothing_is_said_ends(serving: Serving) -> None:
    with session(serving(total_s=0.3)) as socket:
        told(socket)
        with pytest.raises(ConnectionClosed) as caught:
            told(socket)
        assert caught.value.rcvd is not None and caught.value.rcvd.code == 1000


def test_a_live_session_is_committed_when_its_sound_is_long_enough(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audio, "VoiceActivity", LoudnessActivity)
    data = base64.b64encode((spoken(*range(100, 109)) * 32767).astype("<i2").tobytes()).decode()
    rate = {"audio": {"input": {"format": {"type": "audio/pcm", "rate": 16000}}}}
    with session(serving(transcriber=LevelTranscriber(), sound_s=0.5)) as socket:
        socket.send(json.dumps({"type": "session.update", "session": rate}))
        for _ in range(2):  # the next sound begins the next stretch
            socket.send(json.dumps({"type": "input_audio_buffer.append", "audio": data}))
            while (event := told(socket))["type"] != "edgewise.session.finished":
                assert event["type"] != "error", event
            assert event["text"].startswith("w100 w101")


# -- sound ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", ["said", "unsaid"])
@pytest.mark.parametrize("stream", ["true", "false"])
def test_sound_that_is_too_long_is_refused_by_what_it_says_and_by_what_it_is(
    serving: Serving, length: str, stream: str
) -> None:
    transcriber = ScriptedTranscriber([[heard("the first part", 0.2, 2.0, 0.97)]])
    served = serving(transcriber=transcriber, sound_s=5.0)
    # A WAV that was written to a pipe says the largest length there is.
    data = TALK if length == "said" else TALK[:40] + b"\xff" * 4 + TALK[44:]
    answer = served.http.post(
        "/v1/audio/transcriptions",
        data={"model": "auto", "stream": stream},
        files={"file": ("talk.wav", data, "audio/wav")},
    )
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert error["param"] == "file" and "5 s of sound ([server] sound_s)" in error["message"]
    assert not transcriber.listened
