"""What a type checker knows of the public methods: mypy reads `assert_type`, pytest runs it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, assert_type

import pytest

from edgewise import (
    AsyncConversation,
    AsyncEngine,
    Conversation,
    Engine,
    EngineOptions,
    Message,
    MessageDict,
    Prompt,
    Reply,
    SeenReply,
    Settings,
)
from edgewise.testing import LoopbackCloud, ScriptedBackend
from tests.pictures import one_pixel


@pytest.fixture
def nowhere(tmp_path: Path) -> Settings:
    return Settings.load({}, policy="local_only", data_dir=tmp_path)


@dataclass
class City:
    name: str


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def says(*answers: Any) -> ScriptedBackend:
    return ScriptedBackend.confident(*answers)


def test_the_type_of_a_response_format_is_that_of_parsed(nowhere: Settings) -> None:
    with Engine(nowhere, backend=says(City("Oslo"))) as engine:
        reply = engine.complete("Where?", response_format=City)
        assert_type(reply, Reply[City])
        assert_type(reply.parsed, City | None)
        turn = Conversation(engine).ask("Where?", response_format=City)
        assert_type(turn.parsed, City | None)
        plain = engine.complete("Where?", response_format={"type": "object"})
        assert_type(plain, Reply[Any])
    assert reply.parsed == turn.parsed == City("Oslo")


@pytest.mark.anyio
async def test_it_is_the_same_when_awaited(nowhere: Settings) -> None:
    async with AsyncEngine(nowhere, backend=says(City("Oslo"))) as engine:
        reply = await engine.complete("Where?", response_format=City)
        assert_type(reply.parsed, City | None)
        turn = await AsyncConversation(engine).ask("Where?", response_format=City)
        assert_type(turn.parsed, City | None)
        assert_type(await AsyncConversation(engine).ask("Where?"), Reply[Any])
    assert reply.parsed == turn.parsed == City("Oslo")


@pytest.mark.anyio
async def test_with_pictures_a_reply_is_one_that_has_seen_them(tmp_path: Path) -> None:
    with LoopbackCloud() as cloud:
        settings = Settings.load(
            {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": cloud.openai_url},
            policy="cloud_only",
            data_dir=tmp_path,
        )
        with Engine(settings, backend=says("x")) as engine:
            seen = engine.complete("Who is this?", images=[one_pixel()])
            assert_type(seen, SeenReply[Any])
            typed = engine.complete("Where?", images=[one_pixel()], response_format=City)
            assert_type(typed, SeenReply[City])
        async with AsyncEngine(settings, backend=says("x")) as waiting:
            later = await waiting.complete("Who is this?", images=[one_pixel()])
            assert_type(later, SeenReply[Any])
    assert {type(seen), type(typed), type(later)} == {SeenReply}


def test_messages_may_be_dictionaries_of_a_type_of_their_own(nowhere: Settings) -> None:
    messages: list[MessageDict] = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Where?"}]},
    ]
    mixed: Prompt = [{"role": "system", "content": "Be brief."}, Message("user", "Where?")]
    backend = says("Oslo.")
    with Engine(nowhere, backend=backend) as engine:
        for prompt in (messages, mixed):
            engine.complete(prompt)
        engine.complete(messages[1])
        engine.complete([{"role": "user", "content": "Where?"}])
    assert {each.messages[-1].content for each in backend.requests} == {"Where?"}
    wrong: MessageDict = {"rolle": "user"}  # type: ignore[typeddict-unknown-key, typeddict-item]
    assert wrong


def test_settings_by_name_are_typed() -> None:
    options: EngineOptions = {"policy": "local_only", "budgets": ["$1/day"]}
    assert Engine(**options).settings.policy == "local_only"
    with pytest.raises(Exception, match="modell"):
        Engine(modell="tiny")  # type: ignore[call-arg]
    with pytest.raises(Exception, match="threads"):
        Engine(threads="two")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "method", [Engine.complete, Engine.call, AsyncEngine.stream, Conversation.ask, Engine.listen]
)
def test_help_shows_types_as_they_are_written(method: Callable[..., Any]) -> None:
    shown = str(inspect.signature(method))
    assert "'" not in shown.replace("Literal['always']", "")
    assert "policy: str | None = None" in shown
    assert "| None | None" not in shown
