"""A stream that breaks never ends like a whole answer, whatever broke it, in every API."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator
from typing import Any

import anthropic
import httpx2
import ollama
import openai
import pytest
from typing_extensions import override
from websockets.exceptions import ConnectionClosedError
from websockets.sync.client import connect

from edgewise import tasks
from edgewise.errors import ContextExceeded
from edgewise.local.backend import TokenStream
from edgewise.parts import Parts
from edgewise.server.chat import ChatWriter
from edgewise.testing import ScriptedBackend, ScriptedTranscriber, heard
from edgewise.types.messages import Request
from edgewise.types.replies import Event, TextDelta
from edgewise.types.transcripts import Segment
from tests.server.conftest import Serving
from tests.server.served import HELLO, Served, read_all
from tests.speech.made_voice import silence, voice, wav

SECRET = "it is about Mrs Smith"
SHOWN = "The dose is 5"
TALK = ("talk.wav", wav(silence(0.3), voice(1.0)))


class Breaking(ScriptedBackend):
    """A plug-in whose runtime breaks in the middle of its answer."""

    def __init__(self, error: BaseException, after: int = 4) -> None:
        confident = ScriptedBackend.confident("The dose is 5 milligrams at most.")
        super().__init__(confident._answers)
        self._error, self._after = error, after

    @override
    def generate(self, request: Request, *, already: str = "", **layers: int) -> TokenStream:
        for number, item in enumerate(super().generate(request, already=already)):
            if number == self._after:
                raise self._error
            yield item


def chat(served: Served) -> Iterator[str]:
    stream = served.openai().chat.completions.create(model="local", messages=HELLO, stream=True)
    for chunk in stream:
        yield chunk.choices[0].delta.content or ""
        assert chunk.choices[0].finish_reason is None


def responses(served: Served) -> Iterator[str]:
    for event in served.openai().responses.create(model="local", input="How much?", stream=True):
        assert event.type != "response.completed"
        if event.type == "response.output_text.delta":
            yield event.delta
        if event.type == "response.failed":
            raise LookupError(event.response.error.code)


def messages(served: Served) -> Iterator[str]:
    stream = served.anthropic().messages.create(
        model="local", messages=HELLO, max_tokens=50, stream=True
    )
    for event in stream:
        assert event.type != "message_stop"
        if event.type == "content_block_delta":
            yield event.delta.text


def ollama_chat(served: Served) -> Iterator[str]:
    client = ollama.Client(host=served.url)
    served.closing.callback(client.close)
    for part in client.chat(model="local", messages=HELLO, stream=True):
        assert not part.done
        yield part.message.content or ""


def ollama_generate(served: Served) -> Iterator[str]:
    client = ollama.Client(host=served.url)
    served.closing.callback(client.close)
    for part in client.generate(model="local", prompt="How much?", stream=True):
        assert not part.done
        yield part.response or ""


Read = Callable[[Served], Iterator[str]]
CLIENTS: list[tuple[Read, type[Exception]]] = [
    (chat, openai.APIError),
    (responses, LookupError),
    (messages, anthropic.APIError),
    (ollama_chat, ollama.ResponseError),
    (ollama_generate, ollama.ResponseError),
]
by_client = pytest.mark.parametrize(
    ("read", "error"), CLIENTS, ids=[read.__name__ for read, _ in CLIENTS]
)


def until_it_breaks(served: Served, read: Read, error: type[Exception]) -> tuple[str, str]:
    """What the client showed, and what it was told then."""
    texts: list[str] = []
    with pytest.raises(error) as raised:
        for text in read(served):
            texts.append(text)
    assert SECRET not in str(raised.value)
    return "".join(texts).strip(), str(raised.value)


@by_client
@pytest.mark.parametrize("kind", [RuntimeError, KeyError])
def test_every_client_is_told_that_a_plug_in_broke_off(
    serving: Serving, read: Read, error: type[Exception], kind: type[Exception]
) -> None:
    served = serving(Breaking(kind(SECRET)))
    assert until_it_breaks(served, read, error)[0] == SHOWN
    served.settle()
    (row,) = served.state.engine.ledger.recent()
    assert row["error_code"] == "generation_failed"
    assert kind.__name__ in row["error"] and SECRET not in row["error"]
    entry = served.state.engine.ledger.get(row["id"]) or {}
    assert [each["outcome"] for each in entry["attempts"]] == ["generation_failed"]


@by_client
def test_text_that_was_shown_is_not_begun_again_when_the_context_is_full(
    serving: Serving, read: Read, error: type[Exception]
) -> None:
    served = serving(Breaking(ContextExceeded(5000, 4096)))
    assert until_it_breaks(served, read, error)[0] == SHOWN


@by_client
def test_every_client_is_told_that_the_server_itself_broke(
    serving: Serving, monkeypatch: pytest.MonkeyPatch, read: Read, error: type[Exception]
) -> None:
    served = serving()
    monkeypatch.setattr("edgewise.server.answer.run", broken_run)
    shown, told = until_it_breaks(served, read, error)
    assert shown == SHOWN and ("internal_error" in told or "the server failed" in told)


def broken_run(_: Parts, request: Request, *, live: bool) -> Generator[Event, None, None]:
    yield TextDelta(SHOWN, "local")
    raise RuntimeError(SECRET)


def test_a_body_that_broke_has_no_end(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for a client that passes over what it does not know."""
    served = serving()
    monkeypatch.setattr("edgewise.server.answer.run", broken_run)
    body = json.dumps({"model": "local", "messages": HELLO, "stream": True}).encode()
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    with served.raw() as connection:
        connection.sendall(head.encode() + body)
        told = read_all(connection)
    assert SHOWN.encode() in told and b"internal_error" in told
    assert b"[DONE]" not in told and not told.endswith(b"0\r\n\r\n")


def test_where_no_error_can_be_written_the_connection_is_cut(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serving(Breaking(RuntimeError(SECRET)))

    def broken(*_: Any) -> Iterator[bytes]:
        raise RuntimeError("nor can this be written")
        yield

    monkeypatch.setattr(ChatWriter, "failed", broken)
    with pytest.raises(httpx2.RemoteProtocolError):
        served.chunks(model="local")
    served.settle()
    assert served.chat(model="cloud/openai/gpt-6-luna").status_code != 500, "it serves on"


def test_what_would_end_a_program_cuts_the_connection(serving: Serving) -> None:
    served = serving(Breaking(SystemExit(SECRET)))
    with pytest.raises(httpx2.RemoteProtocolError):
        served.chunks(model="local")
    served.settle()
    assert served.chat(model="cloud/openai/gpt-6-luna").status_code != 500, "it serves on"


def test_a_plug_in_that_breaks_before_its_first_word_is_rescued(serving: Serving) -> None:
    served = serving(Breaking(RuntimeError(SECRET), after=0))
    events = served.chunks()
    said = "".join(
        choice["delta"].get("content") or "" for event in events for choice in event["choices"]
    )
    assert said and events[-1]["edgewise"]["decision"]["code"] == "handoff_local_failed"
    entry = served.state.engine.ledger.get(events[-1]["edgewise"]["id"]) or {}
    outcomes = sorted(each["outcome"] for each in entry["attempts"])
    assert outcomes == ["answered", "generation_failed"]


# -- speech ----------------------------------------------------------------------------------------


def test_a_transcription_that_breaks_says_so(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serving(transcriber=ScriptedTranscriber([[heard("five milligrams", 0.3, 1.2)]]))

    def broken(_: Any, __: Any, ___: Any, settled: Callable[[Segment], None]) -> None:
        settled(Segment(id=0, start=0.0, end=1.0, text="The dose is 5"))
        raise RuntimeError(SECRET)

    monkeypatch.setattr(tasks, "transcribe", broken)
    stream = served.openai().audio.transcriptions.create(model="auto", file=TALK, stream=True)
    texts: list[str] = []
    with pytest.raises(openai.APIError) as raised:
        for event in stream:
            assert event.type == "transcript.text.delta"
            texts.append(event.delta)
    assert texts == [SHOWN] and SECRET not in str(raised.value)


class BrokenTranscriber(ScriptedTranscriber):
    @override
    def hear(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError(SECRET)


def test_a_transcriber_that_breaks_hands_off_and_is_recorded(serving: Serving) -> None:
    served = serving(transcriber=BrokenTranscriber([[]]))
    answer = served.openai().audio.transcriptions.create(model="auto", file=TALK)
    assert answer.text
    entry = served.state.engine.ledger.get(answer.edgewise["id"]) or {}
    outcomes = [each["outcome"] for each in entry["attempts"] if each["place"] == "local"]
    assert outcomes == ["generation_failed"]


def test_a_live_session_that_breaks_says_so(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serving(transcriber=ScriptedTranscriber([[]]))

    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError(SECRET)

    monkeypatch.setattr(served.state.engine, "listen", broken)
    with connect(served.url.replace("http", "ws", 1) + "/v1/realtime") as socket:
        assert json.loads(socket.recv(60))["type"] == "session.created"
        socket.send(json.dumps({"type": "input_audio_buffer.append", "audio": "AAA="}))
        told = json.loads(socket.recv(60))
        assert (told["type"], told["error"]["code"]) == ("error", "internal_error")
        assert SECRET not in str(told)
        with pytest.raises(ConnectionClosedError) as closed:
            socket.recv(60)
    assert closed.value.rcvd is not None and closed.value.rcvd.code == 1011
