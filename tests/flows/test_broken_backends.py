"""A plug-in may raise anything: its request is handed off, or fails and is recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import pytest
from typing_extensions import override

from edgewise import AsyncEngine, Engine, GenerationFailed, Settings, TextDelta
from edgewise.decide.gate import HELD_TOKENS
from edgewise.errors import CloudAuthFailed, ContextExceeded, LocalError
from edgewise.flows.see import Seeing
from edgewise.local.backend import CallToWrite, TokenStream
from edgewise.local.running_server import open_backend
from edgewise.testing import (
    Answer,
    LoopbackCloud,
    ScriptedBackend,
    ScriptedEmbedder,
    ScriptedFunctionModel,
    ScriptedTranscriber,
    Status,
)
from edgewise.types.messages import Request, ToolCall
from edgewise.types.replies import Finish
from tests.local.fake_servers import fake_llama_server
from tests.speech.made_voice import silence, voice, wav

SECRET = "it is about Mrs Smith"
CITY = (
    "The capital of France is the beautiful city of Paris which lies on both banks of a river and "
    "on two islands in it and has been the seat of kings and of parliaments for most of the time "
    "since the Romans left and has more visitors now than any other"
)
SHOWN = HELD_TOKENS + 2  # so long an answer is shown before it ends
TALK = wav(silence(0.3), voice(1.0))


@pytest.fixture
def cloud() -> Iterator[LoopbackCloud]:
    with LoopbackCloud() as server:
        server.always(Answer(text="Paris is the capital of France."))
        yield server


@pytest.fixture
def settings(cloud: LoopbackCloud, tmp_path: Path) -> Settings:
    environment = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": cloud.openai_url}
    return Settings.load(
        environment, chain=("openai",), data_dir=tmp_path, config_dir=tmp_path / "config"
    )


class Breaking(ScriptedBackend):
    """Raises something, or just ends, after so many tokens."""

    @classmethod
    def after(cls, tokens: int, error: Exception | None) -> Self:
        made = cls.confident(CITY)
        made.after_tokens, made.error = tokens, error
        return made

    after_tokens: int
    error: Exception | None

    @override
    def generate(self, request: Request, *, already: str = "", **layers: int) -> TokenStream:
        for number, item in enumerate(super().generate(request, already=already)):
            if number == self.after_tokens or isinstance(item, Finish):
                if self.error is not None:
                    raise self.error
                return
            yield item


class BrokenCalls(ScriptedFunctionModel):
    @override
    def write_call(self, call: CallToWrite) -> TokenStream:
        raise RuntimeError(SECRET)


class UnfinishedCalls(ScriptedFunctionModel):
    @override
    def write_call(self, call: CallToWrite) -> TokenStream:
        yield from (item for item in super().write_call(call) if item.text)  # type: ignore[union-attr]


class BrokenTranscriber(ScriptedTranscriber):
    @override
    def hear(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError(SECRET)


class BrokenEmbedder(ScriptedEmbedder):
    @override
    def embed(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError(SECRET)


def weather(city: str) -> str:
    """The weather in a city."""
    return city


TASKS: dict[str, Callable[[Engine, str], Any]] = {
    "chat": lambda engine, policy: engine.complete("Where?", policy=policy),
    "call": lambda engine, policy: engine.call("Weather in Oslo?", [weather], policy=policy),
    "transcribe": lambda engine, policy: engine.transcribe(TALK, policy=policy),
    "embed": lambda engine, policy: engine.embed("a text", policy=policy),
}


def broken_engine(settings: Settings) -> Engine:
    return Engine(
        settings,
        backend=Breaking.after(0, RuntimeError(SECRET)),
        function_model=BrokenCalls(["none"]),
        transcriber=BrokenTranscriber([[]]),
        embedder=BrokenEmbedder(),
    )


@pytest.mark.parametrize("task", TASKS)
def test_what_may_not_leave_fails_as_ours_and_is_recorded(settings: Settings, task: str) -> None:
    with broken_engine(settings) as engine:
        with pytest.raises(LocalError) as raised:
            TASKS[task](engine, "local_only")
        assert SECRET not in str(raised.value) and "RuntimeError" in str(raised.value)
        assert isinstance(raised.value.__cause__, RuntimeError)
        (row,) = engine.ledger.recent()
        assert row["error_code"] == "generation_failed"
        entry = engine.ledger.get(row["id"]) or {}
        assert {each["outcome"] for each in entry["attempts"]} == {"generation_failed"}
        assert SECRET not in str(entry)


@pytest.mark.parametrize("task", ["chat", "call", "transcribe"])
def test_what_may_leave_is_handed_off(settings: Settings, cloud: LoopbackCloud, task: str) -> None:
    if task == "call":
        cloud.always(Answer(tool_calls=(ToolCall("weather", {"city": "Oslo"}),)))
    with broken_engine(settings) as engine:
        reply = TASKS[task](engine, "prefer_local")
        assert reply.source == "cloud" and reply.decision.code == "handoff_local_failed"
        entry = engine.ledger.get(reply.id) or {}
        assert {each["outcome"] for each in entry["attempts"]} == {"generation_failed", "answered"}


def test_a_picture_skill_that_breaks_is_a_local_failure() -> None:
    class Broken:
        def facts(self) -> Any:
            return ScriptedBackend(["x"]).facts()

        def look(self, _: Any) -> Any:
            raise RuntimeError(SECRET)

    with pytest.raises(GenerationFailed, match="RuntimeError"):
        Seeing._sight(Seeing.__new__(Seeing), Broken(), None)  # type: ignore[arg-type]


def shown_until_it_fails(engine: Engine, **options: Any) -> tuple[str, LocalError]:
    texts: list[str] = []
    with pytest.raises(LocalError) as raised:
        for event in engine.stream("Where?", **options):
            if isinstance(event, TextDelta):
                texts.append(event.text)
    return "".join(texts), raised.value


def test_a_stream_that_breaks_raises_where_it_is_read(settings: Settings) -> None:
    with Engine(settings, backend=Breaking.after(6, RuntimeError(SECRET))) as engine:
        shown, error = shown_until_it_fails(engine, policy="local_only")
        assert shown and CITY.startswith(shown) and isinstance(error, GenerationFailed)
        assert [row["error_code"] for row in engine.ledger.recent()] == ["generation_failed"]


def test_an_awaited_stream_that_breaks_raises_where_it_is_read(settings: Settings) -> None:
    async def read() -> None:
        backend = Breaking.after(6, RuntimeError(SECRET))
        async with AsyncEngine(settings, backend=backend) as engine:
            shown = ""
            with pytest.raises(GenerationFailed):
                async for event in engine.stream("Where?", policy="local_only"):
                    shown += event.text if isinstance(event, TextDelta) else ""
            assert shown and CITY.startswith(shown)
            rows = engine.engine.ledger.recent()
            assert [row["error_code"] for row in rows] == ["generation_failed"]

    asyncio.run(read())


@pytest.mark.parametrize("policy", ["local_only", "prefer_local"])
def test_a_stream_without_its_end_is_no_whole_answer(settings: Settings, policy: str) -> None:
    with Engine(settings, backend=Breaking.after(SHOWN, None)) as engine:
        shown, error = shown_until_it_fails(engine, policy=policy)
        assert CITY.startswith(shown) and "before the answer was finished" in str(error)


def test_a_call_without_its_end_is_no_call(settings: Settings) -> None:
    model = UnfinishedCalls(['weather {"city":"Oslo"}'])
    with Engine(settings, function_model=model) as engine, pytest.raises(GenerationFailed):
        engine.call("Weather in Oslo?", [weather], policy="local_only")


def test_what_somebody_elses_cloud_raises_is_recorded(settings: Settings) -> None:
    class BrokenCloud:
        def closed(self, _: Any) -> None:
            return None

        def stream(self, *_: Any, **__: Any) -> Any:
            raise RuntimeError(SECRET)

    with Engine(settings, cloud=BrokenCloud()) as engine:
        with pytest.raises(RuntimeError):
            engine.complete("Where?", policy="cloud_only")
        (row,) = engine.ledger.recent()
        assert row["error_code"] == "RuntimeError" and SECRET not in row["error"]


# -- what the runtime finds when it looks closer ---------------------------------------------------


@pytest.mark.parametrize("truncate", [False, True])
@pytest.mark.parametrize("policy", ["prefer_local", "local_only"])
def test_text_that_was_shown_is_not_begun_again(
    settings: Settings, cloud: LoopbackCloud, policy: str, truncate: bool
) -> None:
    """In mid-stream the context was full: neither side may answer over what is shown."""
    with Engine(settings, backend=Breaking.after(SHOWN, ContextExceeded(5000, 4096))) as engine:
        shown, error = shown_until_it_fails(engine, policy=policy, truncate=truncate)
        assert shown and CITY.startswith(shown) and isinstance(error, ContextExceeded)
        assert cloud.requests == []
        assert [row["error_code"] for row in engine.ledger.recent()] == ["context_exceeded"]


def test_a_running_server_whose_context_is_full_in_mid_stream(
    settings: Settings, cloud: LoopbackCloud
) -> None:
    words = tuple(f" {word}".replace(" The", "The") for word in CITY.split())
    with fake_llama_server(words) as server:
        backend = open_backend(server.url)
        with Engine(settings, backend=backend) as engine:
            shown, error = shown_until_it_fails(engine)
            assert shown == CITY and isinstance(error, ContextExceeded)
        assert [path for path, _ in server.asked].count("/v1/chat/completions") == 1
    assert cloud.requests == []


def test_where_nobody_watches_the_request_is_planned_again(
    settings: Settings, cloud: LoopbackCloud
) -> None:
    with Engine(settings, backend=Breaking.after(8, ContextExceeded(5000, 4096))) as engine:
        reply = engine.complete("Where?")
        assert (reply.text, reply.source) == ("Paris is the capital of France.", "cloud")
        assert reply.decision.code == "handoff_context_exceeded"


class TooLong(Breaking):
    """Its context is full: after three words, then at once, unless the prompt is short."""

    first = True
    meanwhile: Callable[[], object] = staticmethod(lambda: None)

    @override
    def generate(self, request: Request, *, already: str = "", **layers: int) -> TokenStream:
        if len(request.messages) == 1:
            yield from ScriptedBackend.generate(self, request, already=already)
            return
        self.after_tokens, self.first = 3 if self.first else 0, False
        try:
            yield from super().generate(request, already=already)
        except ContextExceeded:
            self.meanwhile()
            raise


TURNS = [
    {"role": "user", "content": "Hello"},
    {"role": "assistant", "content": "Hello!"},
    {"role": "user", "content": "Where?"},
]


def taken_back(engine: Engine) -> None:
    breaker = engine.parts.breakers["openai"]
    if (permit := breaker.allow()) is not None:
        breaker.failed(permit, CloudAuthFailed("the key was taken back"))
    assert breaker.state == "open"


@pytest.mark.parametrize("closes", [False, True])
def test_a_shorter_prompt_says_nothing_twice(
    settings: Settings, cloud: LoopbackCloud, closes: bool
) -> None:
    """The words of the first attempt were held back. The cloud fails, or has closed meanwhile."""
    cloud.always(Status(500))
    backend = TooLong.after(3, ContextExceeded(5000, 4096))
    with Engine(settings, backend=backend) as engine:
        if closes:
            backend.meanwhile = lambda: taken_back(engine)
        reply = engine.complete(TURNS, truncate=True, evidence=True)
        assert reply.text == CITY
        assert "".join(token.text for token in reply.decision.evidence) == CITY
