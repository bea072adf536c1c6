"""What a front makes of replicas that answer, refuse, die and are not there. Without Ray."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import httpx2
import pytest
from tests.server.conftest import Serving
from typing_extensions import override

from edgewise import parts
from edgewise.bridge import Cancellation, current
from edgewise.errors import (
    ContextExceeded,
    DeviceBusy,
    GenerationFailed,
    ModelNotFound,
    RuntimeDown,
)
from edgewise.local.backend import CallToWrite
from edgewise.settings import Settings
from edgewise.testing import ScriptedBackend, ScriptedFunctionModel
from edgewise.testing.scripted import SCRIPTED_FACTS
from edgewise.types.messages import Message, Request, ResponseFormat
from edgewise.types.replies import Finish, Token
from edgewise_cluster import remote
from edgewise_cluster.remote import (
    Alive,
    Ask,
    Deployed,
    Failed,
    RemoteCalls,
    RemoteChat,
    RemoteEmbedder,
    Value,
    tell_facts,
    version_of,
)

Script = Callable[[Ask], AsyncIterator[list[Any]]]


class Died(Exception):
    """As Ray raises it, whatever it is called there."""


class Handle:
    """A deployment whose replicas do what each script says, one after the other."""

    def __init__(self, *scripts: Script) -> None:
        self._scripts = list(scripts)
        self.asked: list[Ask] = []
        self.sessions: list[str] = []
        self.cancelled = 0
        self.answer = self

    def options(self, *, session_id: str = "", **_: Any) -> Handle:
        self.sessions.append(session_id)
        return self

    def remote(self, ask: Ask) -> Any:
        if ask.method == "facts":
            return Response(self, says([SCRIPTED_FACTS, Value(SCRIPTED_FACTS)])(ask))
        self.asked.append(ask)
        script = self._scripts[min(len(self.asked), len(self._scripts)) - 1]
        return Response(self, script(ask))


class Response:
    def __init__(self, handle: Handle, items: AsyncIterator[list[Any]]) -> None:
        self._handle, self._items = handle, items

    def __aiter__(self) -> AsyncIterator[list[Any]]:
        return self._items

    def cancel(self) -> None:
        self._handle.cancelled += 1


def says(*batches: list[Any], dies: bool = False) -> Script:
    async def script(ask: Ask) -> AsyncIterator[list[Any]]:
        yield [Alive()]
        for batch in batches:
            yield batch
        if dies:
            raise Died

    return script


def runs(backend: Any, *, dies_after: int = -1) -> Script:
    """A replica with a scripted model; it dies after so many tokens."""

    async def script(ask: Ask) -> AsyncIterator[list[Any]]:
        yield [Alive()]
        for number, item in enumerate(getattr(backend, ask.method)(*ask.arguments, **ask.options)):
            if number == dies_after:
                raise Died
            yield [item]

    return script


async def nobody(ask: Ask) -> AsyncIterator[list[Any]]:
    """No replica takes the request."""
    await asyncio.sleep(3600)
    yield []


ANSWER = "one two three four five"


def model() -> ScriptedBackend:
    return ScriptedBackend.confident(ANSWER)


def asked(**changes: Any) -> Request:
    return replace(Request(messages=(Message("user", "Count."),), max_tokens=50), **changes)


def read(handle: Handle, request: Request | None = None) -> tuple[str, Finish]:
    *tokens, finish = RemoteChat(Deployed(handle, "chat")).generate(request or asked())
    assert isinstance(finish, Finish)
    return "".join(each.text for each in tokens if isinstance(each, Token)), finish


def test_an_answer_is_continued_by_another_replica() -> None:
    handle = Handle(runs(model(), dies_after=2), runs(model(), dies_after=1), runs(model()))
    text, finish = read(handle)
    assert text == ANSWER
    assert [ask.options.get("already", "") for ask in handle.asked] == [
        "",
        "one two",
        "one two three",
    ]
    assert [ask.arguments[0].max_tokens for ask in handle.asked] == [50, 48, 47]
    assert (finish.output_tokens, finish.estimated) == (5, True)
    assert len(set(handle.sessions)) == 3, "the place of a dead replica is not asked again"


def test_what_has_a_form_is_written_again_and_must_come_out_the_same() -> None:
    form = asked(response_format=ResponseFormat({"type": "object"}))
    handle = Handle(runs(model(), dies_after=3), runs(model()))
    assert read(handle, form)[0] == ANSWER
    assert all("already" not in ask.options for ask in handle.asked)
    other = ScriptedBackend.confident("one zwei three")
    with pytest.raises(GenerationFailed, match="differently"):
        read(Handle(runs(model(), dies_after=3), runs(other)), form)


def test_a_call_is_written_again() -> None:
    wanted = 'set_timer {"minutes":5}'
    handle = Handle(
        runs(ScriptedFunctionModel([wanted]), dies_after=2), runs(ScriptedFunctionModel([wanted]))
    )
    tokens = list(
        RemoteCalls(Deployed(handle, "calls")).write_call(CallToWrite("p", prefix="t", owner="o"))
    )
    assert "".join(each.text for each in tokens if isinstance(each, Token)) == wanted


def test_replicas_that_die_one_after_the_other_are_an_error() -> None:
    with pytest.raises(RuntimeDown, match="no replica of chat answers"):
        read(Handle(runs(model(), dies_after=0)))


def test_nobody_waits_for_replicas_that_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "WAIT_S", 0.05)
    with pytest.raises(RuntimeDown):
        read(Handle(nobody))


def test_a_silent_replica_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    async def silent(ask: Ask) -> AsyncIterator[list[Any]]:
        yield [Token("one")]
        await asyncio.sleep(3600)

    monkeypatch.setattr(remote, "SILENT_S", 0.05)
    handle = Handle(silent, runs(model()))
    assert read(handle)[0] == ANSWER
    assert handle.asked[1].options["already"] == "one"


@pytest.mark.parametrize(
    "error", [ContextExceeded(9, 4), DeviceBusy("full", retry_after_s=7.0), RuntimeDown("down")]
)
def test_errors_of_ours_arrive_as_what_they_are(error: Any) -> None:
    with pytest.raises(type(error)) as raised:
        read(Handle(says([Failed.of(error)])))
    assert (str(raised.value), vars(raised.value)) == (str(error), vars(error))


def test_other_errors_tell_nothing_of_the_request() -> None:
    with pytest.raises(GenerationFailed) as raised:
        read(Handle(says([Failed.of(ValueError("somebody's words"))])))
    assert "words" not in str(raised.value)


def test_leaving_cancels_the_replica() -> None:
    async def goes_on(ask: Ask) -> AsyncIterator[list[Any]]:
        yield [Token("one")]
        await asyncio.sleep(3600)

    handle = Handle(goes_on)
    stream = RemoteChat(Deployed(handle, "chat")).generate(asked())
    next(stream)
    stream.close()
    asyncio.run_coroutine_threadsafe(asyncio.sleep(0.1), remote._loop()).result(10)
    assert handle.cancelled == 1


def test_aborting_wakes_whoever_waits() -> None:
    handle = Handle(nobody)
    stream = RemoteChat(Deployed(handle, "chat")).generate(asked())
    asyncio.run_coroutine_threadsafe(_later(stream.abort), remote._loop())
    with pytest.raises(GenerationFailed, match="called off"):
        next(stream)


async def _later(call: Callable[[], None]) -> None:
    await asyncio.sleep(0.1)
    call()


def test_a_conversation_stays_with_its_replica_and_others_spread() -> None:
    first = asked(owner="ann")
    later = replace(
        first,
        messages=(*first.messages, Message("assistant", "1, 2"), Message("user", "Go on.")),
    )
    session = remote.conversation_session
    assert session(first) == session(later)
    assert session(first) != session(replace(first, owner="bob"))
    assert session(first) != session(asked(messages=(Message("user", "Other."),), owner="ann"))


def test_the_clients_name_travels_along() -> None:
    handle = Handle(says([Value(None)]))
    token = current.set(Cancellation("ann"))
    try:
        RemoteEmbedder(Deployed(handle, "embeddings")).embed(["a text"])
    finally:
        current.reset(token)
    assert [ask.client for ask in handle.asked] == ["ann"]


@pytest.mark.parametrize(
    ("path", "body", "sign"),
    [
        ("/v1/chat/completions", {}, '"error"'),
        ("/v1/messages", {"max_tokens": 64}, "event: error"),
        ("/api/chat", {}, '"error"'),
    ],
)
def test_a_stream_that_nobody_can_continue_ends_with_an_error_event(
    serving: Serving, path: str, body: dict[str, Any], sign: str
) -> None:
    handle = Handle(runs(model(), dies_after=3), runs(model(), dies_after=0))
    served = serving(RemoteChat(Deployed(handle, "chat")), settings={"policy": "local_only"})
    question = {"model": "auto", "stream": True, "messages": [{"role": "user", "content": "?"}]}
    answer = httpx2.post(f"{served.url}{path}", json={**question, **body}, timeout=30)
    assert "one" in answer.text and sign in answer.text and "[DONE]" not in answer.text


def test_the_cloud_answers_where_no_replica_does(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "WAIT_S", 0.05)
    chat = RemoteChat(Deployed(Handle(nobody), "chat"))
    chat.facts()
    served = serving(chat)
    question = {"model": "auto", "messages": [{"role": "user", "content": "?"}]}
    answer = httpx2.post(f"{served.url}/v1/chat/completions", json=question, timeout=30)
    assert json.loads(answer.text)["edgewise"]["source"] == "cloud"


def test_what_a_replica_of_another_version_says_of_its_model_is_not_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While an upgrade runs, the old model answers; the new front must not believe it for good."""
    old, new = version_of('{"name": "old"}'), version_of('{"name": "new"}')
    monkeypatch.setattr(Deployed, "version", new)

    class Upgraded(Handle):
        version = old

        @override
        def remote(self, ask: Ask) -> Any:
            self.asked.append(ask)
            facts = replace(SCRIPTED_FACTS, schemas=self.version == new)
            return Response(self, says(list(tell_facts(ask, self.version, facts)))(ask))

    handle = Upgraded()
    chat = RemoteChat(Deployed(handle, "chat"))
    assert not chat.facts().schemas
    handle.version = new
    assert chat.facts().schemas
    assert chat.facts().schemas and len(handle.asked) == 2, "now it is known"


def test_facts_come_last_with_every_answer() -> None:
    told = list(tell_facts(Ask("generate", version="a"), "a", SCRIPTED_FACTS))
    assert told == [SCRIPTED_FACTS]
    assert list(tell_facts(Ask("generate", version="a"), "b", SCRIPTED_FACTS)) == []


def test_the_runtime_is_for_fronts_only() -> None:
    with pytest.raises(ModelNotFound, match="edgewise deploy"):
        parts.open_backend(Settings.load(backend="ray", model="any"))
