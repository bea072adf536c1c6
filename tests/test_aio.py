"""`AsyncEngine`: the same answers, awaited; a task that is cancelled calls both sides off."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgewise import AsyncEngine, Engine, Finished, InvalidRequest, Settings, TextDelta
from edgewise.testing import (
    Answer,
    LoopbackCloud,
    ScriptedBackend,
    ScriptedFunctionModel,
    ScriptedTranscriber,
    Silence,
)

pytestmark = pytest.mark.anyio
WORDS = " ".join(f"word{number}" for number in range(40))


def settings_for(folder: Path, url: str = "", **changes: Any) -> Settings:
    environment = {"OPENAI_API_KEY": "k" if url else "", "OPENAI_BASE_URL": url}
    limits = {"first_token_s": 60.0, "patience_s": 60.0, "connect_s": 60.0}
    return Settings.load(
        environment, chain=("openai",), data_dir=folder, config_dir=folder / "config"
    ).with_changes(**limits, **changes)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def cloud() -> Iterator[LoopbackCloud]:
    with LoopbackCloud() as server:
        yield server


def test_every_method_of_the_engine_is_there() -> None:
    names = {name for name, _ in inspect.getmembers(Engine) if not name.startswith("_")}
    assert names <= {name for name, _ in inspect.getmembers(AsyncEngine)}


async def test_an_answer_is_awaited(tmp_path: Path) -> None:
    backend = ScriptedBackend.confident("It is Canberra.")
    async with AsyncEngine(settings_for(tmp_path), backend=backend) as engine:
        reply = await engine.complete("What is the capital of Australia?")
        assert (reply.text, reply.source) == ("It is Canberra.", "local")
        row = engine.engine.ledger.get(reply.id)
        assert row is not None


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


async def test_an_error_reaches_whoever_waits(tmp_path: Path) -> None:
    backend = ScriptedBackend.confident("x")
    async with AsyncEngine(settings_for(tmp_path), backend=backend) as engine:
        with pytest.raises(InvalidRequest):
            await engine.complete("x", max_tokens=-1)
        with pytest.raises(InvalidRequest):
            async for _ in engine.stream("x", max_tokens=-1):
                pass


async def test_cancelling_a_task_calls_the_cloud_off_and_is_recorded(
    tmp_path: Path, cloud: LoopbackCloud
) -> None:
    cloud.always(Silence())
    chosen = settings_for(tmp_path, cloud.openai_url)
    async with AsyncEngine(chosen, backend=ScriptedBackend.doubtful("hm")) as engine:
        task = asyncio.create_task(engine.complete("x", request_id="one", policy="cloud_only"))
        await asyncio.to_thread(cloud.wait_for, lambda seen: len(seen.requests) == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.to_thread(cloud.wait_for, lambda seen: seen.disconnects == 1)
        row = engine.engine.ledger.get("one")
        assert row is not None
        assert [attempt["outcome"] for attempt in row["attempts"]] == ["cancelled"]
    names = [thread.name for thread in threading.enumerate()]
    assert "edgewise-async" not in names


async def test_leaving_a_stream_early_stops_the_device(tmp_path: Path) -> None:
    backend = ScriptedBackend.confident(WORDS)
    async with AsyncEngine(settings_for(tmp_path), backend=backend) as engine:
        async with contextlib.aclosing(engine.stream("Count.")) as events:
            async for _ in events:
                break
        assert "edgewise-async" not in [thread.name for thread in threading.enumerate()]


async def test_coroutine_tools_are_awaited_on_the_callers_loop(tmp_path: Path) -> None:
    loop = asyncio.get_running_loop()

    async def set_timer(minutes: int) -> str:
        """Set a timer."""
        await asyncio.sleep(0)
        assert asyncio.get_running_loop() is loop
        return f"{minutes} minutes"

    model = ScriptedFunctionModel(['set_timer {"minutes":5}'])
    async with AsyncEngine(settings_for(tmp_path), function_model=model) as engine:
        reply = await engine.call("Set a timer for 5 minutes", [set_timer], execute=True)
    assert [result.value for result in reply.results] == ["5 minutes"]


def test_coroutine_tools_are_awaited_without_a_loop_too(tmp_path: Path) -> None:
    async def set_timer(minutes: int) -> str:
        """Set a timer."""
        await asyncio.sleep(0)
        return f"{minutes} minutes"

    model = ScriptedFunctionModel(['set_timer {"minutes":5}'])
    with Engine(settings_for(tmp_path), function_model=model) as engine:
        reply = engine.call("Set a timer for 5 minutes", [set_timer], execute=True)
    assert [result.value for result in reply.results] == ["5 minutes"]


async def test_many_requests_at_once_are_all_answered(tmp_path: Path, cloud: LoopbackCloud) -> None:
    cloud.always(Answer(text="From the cloud."))
    chosen = settings_for(tmp_path, cloud.openai_url)
    async with AsyncEngine(chosen, backend=ScriptedBackend.doubtful("hm")) as engine:
        replies = await asyncio.gather(*(engine.complete("x") for _ in range(64)))
    assert {reply.text for reply in replies} == {"From the cloud."}
    assert len({reply.id for reply in replies}) == 64


async def test_a_conversation_is_awaited(tmp_path: Path) -> None:
    backend = ScriptedBackend.confident("Goethe.")
    async with AsyncEngine(settings_for(tmp_path), backend=backend) as engine:
        talk = engine.conversation(system="Answer in one word.")
        assert (await talk.ask("Who wrote Faust?")).text == "Goethe."
        assert [message.role for message in talk.conversation.messages] == [
            "system",
            "user",
            "assistant",
        ]


async def test_live_captions_may_be_given_up(tmp_path: Path) -> None:
    transcriber = ScriptedTranscriber([[]])
    async with AsyncEngine(settings_for(tmp_path), transcriber=transcriber) as engine:
        live = await engine.listen().start()
        await live.process(bytes(3_200))
        await live.close()
        with pytest.raises(InvalidRequest):
            await live.process(bytes(3_200))
