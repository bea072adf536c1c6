"""`AsyncEngine`: the same answers, awaited; cancelling a task cancels the work on both sides."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import re
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest
import uvicorn
from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from typing_extensions import override

from edgewise import (
    AsyncConversation,
    AsyncEngine,
    AsyncLiveTranscriber,
    Cancelled,
    Conversation,
    Engine,
    Finished,
    InvalidRequest,
    LiveTranscriber,
    Settings,
    TextDelta,
    Token,
    bridge,
)
from edgewise.shared_engine import SharedEngine
from edgewise.testing import (
    Answer,
    LoopbackCloud,
    ScriptedBackend,
    ScriptedEmbedder,
    ScriptedFunctionModel,
    ScriptedTranscriber,
    Silence,
    heard,
    word_tokens,
)
from edgewise.testing.scripted import SCRIPTED_FACTS
from edgewise.types.messages import Request, ToolCall
from tests.speech.made_voice import silence, voice, wav

pytestmark = pytest.mark.anyio
WORDS = " ".join(f"word{number}" for number in range(40))
ENDLESS = " ".join(f"word{number}" for number in range(5_000))
TALK = wav(silence(0.3), voice(1.0))


def settings_for(folder: Path, url: str = "", **changes: Any) -> Settings:
    environment = {"OPENAI_API_KEY": "k" if url else "", "OPENAI_BASE_URL": url}
    limits: dict[str, Any] = {"first_token_s": 60.0, "patience_s": 60.0, "connect_s": 60.0}
    return Settings.load(
        environment, chain=("openai",), data_dir=folder, config_dir=folder / "config"
    ).with_changes(**limits, **changes)


def threads_of_requests() -> list[str]:
    names = ("edgewise-async", "edgewise-openai", "edgewise-coroutine")
    return [each.name for each in threading.enumerate() if each.name.startswith(names)]


def wait_until(so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 90
    while not so():
        assert time.monotonic() < deadline, "it did not come to be so"
        time.sleep(0.005)


async def no_thread_is_left() -> None:
    await asyncio.to_thread(wait_until, lambda: not threads_of_requests())


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def cloud() -> Iterator[LoopbackCloud]:
    with LoopbackCloud() as server:
        yield server


# -- the same methods ------------------------------------------------------------------------------


def awaited_type(method: Callable[..., Any]) -> str:
    """What a method gives whoever awaits it, or reads it with `async for`, in synchronous words."""
    words = str(inspect.signature(method).return_annotation)
    words = re.sub(r"^AsyncGenerator\[(.*)\]$", r"Generator[\1, None, None]", words)
    return words.removeprefix("Async")


@pytest.mark.parametrize(
    ("core", "awaited"),
    [
        (Engine, AsyncEngine),
        (Conversation, AsyncConversation),
        (LiveTranscriber, AsyncLiveTranscriber),
    ],
)
def test_every_method_is_there_with_the_same_signature(core: type, awaited: type) -> None:
    names = [name for name in dir(core) if not name.startswith("_")]
    assert names, core
    for name in names:
        ours, theirs = getattr(awaited, name, None), getattr(core, name)
        assert ours is not None, f"{awaited.__name__} lacks {name}"
        if isinstance(theirs, property):
            assert isinstance(ours, property), name
            continue
        expected = inspect.signature(theirs)
        assert inspect.signature(ours).parameters == expected.parameters, name
        assert awaited_type(ours) == str(expected.return_annotation), name
        streams = "Generator" in awaited_type(ours) or name == "listen"
        assert streams or inspect.iscoroutinefunction(ours), f"{name} is not awaited"


def test_it_is_made_of_the_same_parts() -> None:
    assert inspect.signature(AsyncEngine).parameters == inspect.signature(Engine).parameters


# -- answers ---------------------------------------------------------------------------------------


async def test_an_answer_is_awaited(tmp_path: Path) -> None:
    backend = ScriptedBackend.confident("It is Canberra.")
    async with AsyncEngine(settings_for(tmp_path), backend=backend) as engine:
        reply = await engine.complete("What is the capital of Australia?")
        assert (reply.text, reply.source) == ("It is Canberra.", "local")
        row = engine.engine.ledger.get(reply.id)
        assert row is not None
        assert [attempt["outcome"] for attempt in row["attempts"]] == ["answered"]


async def test_a_stream_is_read_with_async_for(tmp_path: Path) -> None:
    backend = ScriptedBackend.confident(WORDS)
    async with AsyncEngine(settings_for(tmp_path), backend=backend) as engine:
        shown, reply = "", None
        async for event in engine.stream("Count."):
            if isinstance(event, TextDelta):
                shown += event.text
            elif isinstance(event, Finished):
                reply = event.reply
        assert reply is not None and reply.text == shown == WORDS


async def test_texts_become_vectors_and_sound_becomes_words(tmp_path: Path) -> None:
    transcriber = ScriptedTranscriber([[heard("the first part", 0.2, 1.0, 0.97)]])
    async with AsyncEngine(
        settings_for(tmp_path), embedder=ScriptedEmbedder(), transcriber=transcriber
    ) as engine:
        assert len((await engine.embed(["one", "two"])).vectors) == 2
        assert (await engine.transcribe(TALK)).text == "the first part"


async def test_live_captions_are_awaited(tmp_path: Path) -> None:
    transcriber = ScriptedTranscriber([[heard("the first part", 0.2, 1.0, 0.97)]])
    async with (
        AsyncEngine(settings_for(tmp_path), transcriber=transcriber) as engine,
        engine.listen() as live,
    ):
        await asyncio.gather(*(live.process(piece) for piece in (silence(0.3), voice(1.0))))
        transcript = await live.stop()
        assert transcript.text == "the first part"
        assert live.last_update.confirmed == "the first part"


async def test_live_captions_can_be_left(tmp_path: Path) -> None:
    async with AsyncEngine(settings_for(tmp_path), transcriber=ScriptedTranscriber([[]])) as engine:
        live = await engine.listen(request_id="one").start()
        await live.close()
        assert engine.engine.ledger.get("one") is not None


async def test_an_error_reaches_whoever_waits(tmp_path: Path) -> None:
    backend = ScriptedBackend.confident("x")
    async with AsyncEngine(settings_for(tmp_path), backend=backend) as engine:
        with pytest.raises(InvalidRequest):
            await engine.complete("x", max_tokens=-1)
        with pytest.raises(InvalidRequest):
            async for _ in engine.stream("x", max_tokens=-1):
                pass


# -- leaving ---------------------------------------------------------------------------------------


async def test_cancelling_a_task_cancels_the_cloud_and_settles_the_ledger(
    tmp_path: Path, cloud: LoopbackCloud
) -> None:
    cloud.always(Silence())
    chosen = settings_for(tmp_path, cloud.openai_url, budgets=("$1/day",))
    async with AsyncEngine(chosen, backend=ScriptedBackend.doubtful("hm")) as engine:
        task = asyncio.create_task(engine.complete("x", request_id="one", policy="cloud_only"))
        await asyncio.to_thread(cloud.wait_for, lambda seen: len(seen.requests) == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        row = engine.engine.ledger.get("one")
        assert row is not None
        assert [attempt["outcome"] for attempt in row["attempts"]] == ["cancelled"]
        assert [attempt["state"] for attempt in row["attempts"]] == ["settled"]
        await asyncio.to_thread(cloud.wait_for, lambda seen: seen.disconnects == 1)
    await no_thread_is_left()


async def test_cancelling_a_task_stops_the_device_and_is_recorded(tmp_path: Path) -> None:
    backend = ScriptedBackend.confident(ENDLESS, delay_s=0.01)
    async with AsyncEngine(settings_for(tmp_path), backend=backend) as engine:
        task = asyncio.create_task(engine.complete("x", request_id="one", max_tokens=5_000))
        await asyncio.to_thread(wait_until, lambda: backend.generated > 3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        row = engine.engine.ledger.get("one")
        assert row is not None
        assert [attempt["outcome"] for attempt in row["attempts"]] == ["cancelled"]
        assert backend.closed_early == 1
    await no_thread_is_left()


async def test_a_task_that_waits_in_the_queue_can_be_cancelled(tmp_path: Path) -> None:
    backend = ScriptedBackend.confident(ENDLESS, delay_s=0.01)
    async with AsyncEngine(settings_for(tmp_path), backend=backend) as engine:
        first = asyncio.create_task(engine.complete("x", max_tokens=5_000))
        await asyncio.to_thread(wait_until, lambda: backend.generated > 0)
        second = asyncio.create_task(engine.complete("y", request_id="second"))
        (queue,) = cast(SharedEngine, engine.engine).parts.fair_queues.values()
        await asyncio.to_thread(wait_until, lambda: queue.waiting == 1)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        assert engine.engine.ledger.get("second") is not None
        assert backend.started == 1
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first


async def test_leaving_a_stream_early_stops_the_device(tmp_path: Path) -> None:
    backend = ScriptedBackend.confident(ENDLESS, delay_s=0.01)
    async with AsyncEngine(settings_for(tmp_path), backend=backend) as engine:
        events = engine.stream("Count.", request_id="one", max_tokens=5_000)
        async with contextlib.aclosing(events):
            async for _ in events:
                break
        assert engine.engine.ledger.get("one") is not None
        assert backend.closed_early == 1
    await no_thread_is_left()


async def test_closing_the_engine_ends_what_runs(tmp_path: Path) -> None:
    backend = ScriptedBackend.confident(ENDLESS, delay_s=0.01)
    async with AsyncEngine(settings_for(tmp_path), backend=backend) as engine:
        running = asyncio.create_task(engine.complete("x", max_tokens=5_000))
        waiting = asyncio.create_task(engine.complete("y"))
        await asyncio.to_thread(wait_until, lambda: backend.generated > 3)
    for task in (running, waiting):
        with pytest.raises(Cancelled):
            await task
    assert backend.closed
    await no_thread_is_left()


# -- tools -----------------------------------------------------------------------------------------

TIMER_CALL = 'set_timer {"minutes":5}'


async def set_timer(minutes: int) -> str:
    """Set a timer."""
    await asyncio.sleep(0)
    return f"{minutes} minutes"


async def test_coroutine_tools_run_on_the_callers_loop(tmp_path: Path) -> None:
    loop = asyncio.get_running_loop()
    seen: list[asyncio.AbstractEventLoop] = []

    async def set_timer(minutes: int) -> str:
        """Set a timer."""
        await asyncio.sleep(0)
        seen.append(asyncio.get_running_loop())
        return f"{minutes} minutes"

    model = ScriptedFunctionModel([TIMER_CALL])
    async with AsyncEngine(settings_for(tmp_path), function_model=model) as engine:
        reply = await engine.call("Set a timer for 5 minutes", [set_timer], execute=True)
    assert [result.value for result in reply.results] == ["5 minutes"]
    assert seen == [loop]


async def test_cancelling_a_task_cancels_the_tool_that_it_waits_for(tmp_path: Path) -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def set_timer(minutes: int) -> None:
        """Set a timer."""
        started.set()
        try:
            await asyncio.sleep(3600)
        finally:
            ended.set()

    model = ScriptedFunctionModel([TIMER_CALL])
    async with AsyncEngine(settings_for(tmp_path), function_model=model) as engine:
        asked = engine.call("Set a timer for 5 minutes", [set_timer], execute=True)
        task = asyncio.create_task(asked)
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(ended.wait(), 60)
    await no_thread_is_left()


async def test_a_tool_that_is_cancelled_by_itself_is_a_failed_call(tmp_path: Path) -> None:
    async def set_timer(minutes: int) -> None:
        """Set a timer."""
        raise asyncio.CancelledError

    model = ScriptedFunctionModel([TIMER_CALL])
    async with AsyncEngine(settings_for(tmp_path), function_model=model) as engine:
        reply = await engine.call("Set a timer for 5 minutes", [set_timer], execute=True)
    (result,) = reply.results
    assert "cancelled" in result.error


def test_coroutine_tools_are_awaited_without_a_loop_too(tmp_path: Path) -> None:
    model = ScriptedFunctionModel([TIMER_CALL])
    with Engine(settings_for(tmp_path), function_model=model) as engine:
        reply = engine.call("Set a timer for 5 minutes", [set_timer], execute=True)
    assert [result.value for result in reply.results] == ["5 minutes"]


async def test_the_synchronous_engine_awaits_tools_even_inside_a_running_loop(
    tmp_path: Path,
) -> None:
    model = ScriptedFunctionModel([TIMER_CALL])
    with Engine(settings_for(tmp_path), function_model=model) as engine:
        reply = engine.call("Set a timer for 5 minutes", [set_timer], execute=True)
    assert [result.value for result in reply.results] == ["5 minutes"]


async def test_a_tool_may_use_the_synchronous_engine_with_a_tool_of_its_own(
    tmp_path: Path,
) -> None:
    """It runs on the loop that the outer call waits for: waiting for it here would never end."""
    inner = Engine(
        settings_for(tmp_path / "inner"), function_model=ScriptedFunctionModel([TIMER_CALL])
    )

    async def plan_tea(minutes: int) -> str:
        """Plan tea."""
        reply = inner.call("Set a timer for 5 minutes", [set_timer], execute=True)
        return f"tea in {reply.results[0].value}"

    model = ScriptedFunctionModel(['plan_tea {"minutes":5}'])
    async with AsyncEngine(settings_for(tmp_path), function_model=model) as engine:
        reply = await engine.call("Plan tea in 5 minutes", [plan_tea], execute=True)
    inner.close()
    assert [result.value for result in reply.results] == ["tea in 5 minutes"]


async def test_a_coroutine_approves_on_the_callers_loop(tmp_path: Path) -> None:
    loop, ran = asyncio.get_running_loop(), []
    seen: list[asyncio.AbstractEventLoop] = []
    answers = [False, True]

    def set_timer(minutes: int) -> str:
        """Set a timer."""
        ran.append(minutes)
        return "set"

    async def approve(call: ToolCall) -> bool:
        await asyncio.sleep(0)
        seen.append(asyncio.get_running_loop())
        return answers.pop(0)

    asked = "Set a timer for 5 minutes"
    parts: dict[str, Any] = {
        "backend": ScriptedBackend.confident("Well."),
        "function_model": ScriptedFunctionModel([TIMER_CALL]),
    }
    async with AsyncEngine(settings_for(tmp_path), **parts) as engine:
        talk = AsyncConversation(engine, tools=[set_timer], approve=approve)
        await talk.ask(asked)
        assert ran == [], "a coroutine object is no consent, and neither is False"
        assert [one.content for one in talk.messages if one.role == "tool"] == [
            "failed: not run: the user did not allow it"
        ]
        talk.messages.clear()
        async for _ in talk.stream(asked):
            pass
        assert ran == [5]
        answers[:] = [False, True]
        for result in ("not run: the user did not allow it", ""):
            reply = await engine.call(asked, [set_timer], execute=True, approve=approve)
            assert [one.error for one in reply.results] == [result]
    assert ran == [5, 5]
    assert seen == [loop] * 4


async def test_an_approval_that_fails_reaches_who_awaits(tmp_path: Path) -> None:
    ran: list[int] = []

    def set_timer(minutes: int) -> None:
        """Set a timer."""
        ran.append(minutes)

    async def approve(_: ToolCall) -> bool:
        raise LookupError("nobody is there")

    model = ScriptedFunctionModel([TIMER_CALL])
    async with AsyncEngine(settings_for(tmp_path), function_model=model) as engine:
        talk = AsyncConversation(engine, tools=[set_timer], approve=approve)
        with pytest.raises(LookupError, match="nobody is there"):
            await talk.ask("Set a timer for 5 minutes")
        with pytest.raises(LookupError, match="nobody is there"):
            async for _ in talk.stream("Set a timer for 5 minutes"):
                pass
    assert ran == []


def test_a_conversation_awaits_its_coroutine_tools(tmp_path: Path) -> None:
    parts: dict[str, Any] = {
        "backend": ScriptedBackend.confident("It is set."),
        "function_model": ScriptedFunctionModel([TIMER_CALL]),
    }
    with Engine(settings_for(tmp_path), **parts) as engine:
        talk = Conversation(engine, tools=[set_timer])
        assert talk.ask("Set a timer for 5 minutes").text == "It is set."
    assert [message.content for message in talk.messages if message.role == "tool"] == ["5 minutes"]


# -- conversations ---------------------------------------------------------------------------------


async def test_a_conversation_is_awaited(tmp_path: Path) -> None:
    parts: dict[str, Any] = {
        "backend": ScriptedBackend.confident("It is set."),
        "function_model": ScriptedFunctionModel([TIMER_CALL]),
    }
    async with AsyncEngine(settings_for(tmp_path), **parts) as engine:
        talk = AsyncConversation(engine, system="Be short.", tools=[set_timer])
        reply = await talk.ask("Set a timer for 5 minutes", private=True)
        assert reply.text == "It is set."
        roles = [message.role for message in talk.messages]
        assert roles == ["system", "user", "assistant", "tool", "assistant"]
        assert len(talk.steps) == 2 and talk.private


async def test_turns_of_a_conversation_wait_for_each_other(tmp_path: Path) -> None:
    backend = ScriptedBackend.confident("First.", "Second.", "Third.", delay_s=0.01)
    async with AsyncEngine(settings_for(tmp_path), backend=backend) as engine:
        talk = AsyncConversation(engine)

        async def read() -> str:
            shown = [each async for each in talk.stream("Two?")]
            return "".join(each.text for each in shown if isinstance(each, TextDelta))

        first, second, third = await asyncio.gather(talk.ask("One?"), read(), talk.ask("Three?"))
        assert (first.text, second, third.text) == ("First.", "Second.", "Third.")
        assert [message.content for message in talk.messages] == [
            *("One?", "First."),
            *("Two?", "Second."),
            *("Three?", "Third."),
        ]


# -- in a web application --------------------------------------------------------------------------

STREAMS = 64


class ByNumber(ScriptedBackend):
    """Answers by the number in the request: doubts some, and never ends where the client leaves."""

    @override
    def _answer_to(self, request: Request, already: str) -> tuple[Token, ...]:
        super()._answer_to(request, already)
        number = number_in(request.messages[-1].content)
        if hands_off(number):
            return word_tokens("Perhaps.", logprob=-2.5, margin=0.1, entropy=2.5)
        text = ENDLESS if leaves(number) else f"Kept {number}: {WORDS}"
        return word_tokens(text, logprob=-0.01, margin=6.0, entropy=0.05)


def number_in(text: str) -> int:
    found = re.search(r"\d+", text)
    assert found is not None
    return int(found.group())


def hands_off(number: int) -> bool:
    return number % 4 == 1


def leaves(number: int) -> bool:
    return number % 8 == 3 or number % 16 == 5  # at the device, or at a cloud that says nothing


def from_the_cloud(seen: Any) -> Answer | Silence:
    number = number_in(seen.body["messages"][-1]["content"])
    return Silence() if leaves(number) else Answer(text=f"Handed off {number}.")


def web_application(engine: AsyncEngine) -> FastAPI:
    app = FastAPI()

    @app.get("/ask/{number}")
    async def ask(number: int) -> StreamingResponse:
        async def text() -> AsyncIterator[str]:
            yield "> "
            events = engine.stream(
                f"Number {number}?", request_id=f"number-{number}", max_tokens=5_000
            )
            async for event in events:
                if isinstance(event, TextDelta):
                    yield event.text

        return StreamingResponse(text(), media_type="text/plain")

    return app


@contextlib.contextmanager
def serving(app: FastAPI) -> Iterator[str]:
    """The address of a real server on loopback."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        wait_until(lambda: server.started)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(60)
        listener.close()


async def test_a_web_application_streams_to_many_at_once_and_some_leave(
    tmp_path: Path, cloud: LoopbackCloud
) -> None:
    cloud.always(from_the_cloud)
    facts = replace(SCRIPTED_FACTS, slots=STREAMS)
    backend = ByNumber([WORDS], facts=facts, delay_s=0.002)
    chosen = settings_for(tmp_path, cloud.openai_url, budgets=("$1/day",))
    engine = AsyncEngine(chosen, backend=backend)
    numbers = range(STREAMS)

    async def read(client: httpx2.AsyncClient, number: int) -> str:
        shown = ""
        async with client.stream("GET", f"/ask/{number}") as answer:
            async for piece in answer.aiter_text():
                shown += piece
                if leaves(number) and (hands_off(number) or "word3" in shown):
                    if hands_off(number):  # it leaves while the cloud is silent
                        await asyncio.to_thread(wait_until, lambda: asked(cloud, number))
                    break
        return shown.removeprefix("> ")

    with serving(web_application(engine)) as url:
        limits = httpx2.Limits(max_connections=STREAMS)
        async with httpx2.AsyncClient(base_url=url, timeout=120, limits=limits) as client:
            texts = await asyncio.gather(*(read(client, number) for number in numbers))
        # Everybody who left is in the ledger, and nothing runs for them.
        await asyncio.to_thread(
            wait_until,
            lambda: all(engine.engine.ledger.get(f"number-{number}") for number in numbers),
        )
        await no_thread_is_left()
        assert not engine.workers.running

    for number, text in zip(numbers, texts, strict=True):
        if not leaves(number):
            wanted = f"Handed off {number}." if hands_off(number) else f"Kept {number}: {WORDS}"
            assert text == wanted
        row = engine.engine.ledger.get(f"number-{number}")
        assert row is not None
        outcomes = {attempt["outcome"] for attempt in row["attempts"]}
        last = "cancelled" if leaves(number) else "answered"
        assert outcomes == ({"handed_off", last} if hands_off(number) else {last}), number
        assert {attempt["state"] for attempt in row["attempts"]} == {"settled"}, number
    await engine.close()
    assert cloud.disconnects == sum(leaves(number) and hands_off(number) for number in numbers) > 0


def asked(cloud: LoopbackCloud, number: int) -> bool:
    return any(number_in(str(seen.body["messages"][-1])) == number for seen in cloud.requests)


async def test_a_system_without_a_thread_to_spare_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exhausted(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async with AsyncEngine(settings_for(tmp_path), backend=ScriptedBackend(["Yes."])) as engine:
        with monkeypatch.context() as patched:
            patched.setattr(bridge, "_threads", bridge._Threads())
            patched.setattr(threading.Thread, "start", exhausted)
            with pytest.raises(RuntimeError, match="can't start new thread"):
                await engine.complete("Is it?", policy="local_only")
        assert engine.workers.running == set()
        assert (await engine.complete("Is it?", policy="local_only")).text == "Yes."


async def test_parts_that_were_given_outlive_a_close(tmp_path: Path) -> None:
    with LoopbackCloud() as given, LoopbackCloud() as configured:
        given.always("From the given cloud.")
        other = Engine(settings_for(tmp_path / "other", given.openai_url))
        door = other.parts.cloud("chat")
        engine = AsyncEngine(
            settings_for(tmp_path, configured.openai_url),
            backend=ScriptedBackend.confident("From the given model."),
            cloud=door,
        )
        for _ in range(2):
            reply = await engine.complete("Is it?", policy="local_only")
            assert reply.text == "From the given model."
            reply = await engine.complete("Is it?", policy="cloud_only")
            assert reply.text == "From the given cloud."
            await engine.close()
        other.close()
        assert configured.requests == []


async def test_live_captions_may_be_given_up(tmp_path: Path) -> None:
    transcriber = ScriptedTranscriber([[]])
    async with AsyncEngine(settings_for(tmp_path), transcriber=transcriber) as engine:
        live = await engine.listen().start()
        await live.process(bytes(3_200))
        await live.close()
        with pytest.raises(InvalidRequest):
            await live.process(bytes(3_200))
