"""`AsyncEngine`: the methods of `Engine`, awaited.

    async with AsyncEngine() as engine:
        reply = await engine.complete("What is the capital of Australia?")
        async for event in engine.stream("Name three colours."):
            ...

There is one synchronous core. Each request runs on a thread of its own. Cancelling the task that
waits for it calls the work off on both sides, as closing a stream does. Tools that are coroutine
functions run on the event loop of the caller.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import aclosing, suppress
from typing import Any, Self, TypeVar, Unpack

from edgewise.assembly.requests import Prompt
from edgewise.bridge import Cancellation, Worker
from edgewise.conversation import Conversation
from edgewise.engine import Engine
from edgewise.flows.listen import LiveTranscriber
from edgewise.settings import Settings
from edgewise.shared_engine import SharedEngine
from edgewise.types.embeddings import Embeddings, EmbedOptions
from edgewise.types.messages import (
    AudioLike,
    CallOptions,
    ListenOptions,
    RequestOptions,
    SpeechOptions,
    ToolLike,
)
from edgewise.types.replies import CallReply, Event, Reply, ToolResult
from edgewise.types.transcripts import LiveUpdate, Transcript

MOST_WAITING = 1024  # requests before a local model; more are refused with DeviceBusy

LEAVING_S = 5.0  # for work that was called off to end; a model may be in mid-pass

Result = TypeVar("Result")
Piece = TypeVar("Piece")


async def pieces_of(work: Callable[[], Generator[Piece, None, None]]) -> AsyncGenerator[Piece]:
    """What a generator yields on a thread of its own. Leaving early calls its work off."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    failures: list[Exception] = []

    def done(failure: Exception | None) -> None:
        failures.extend([failure] if failure is not None else [])
        with suppress(RuntimeError):  # the loop is closed: the program is going down
            loop.call_soon_threadsafe(ended.set)

    worker = Worker(Cancellation(), work, done, name="edgewise-async")
    worker.thread.start()
    try:
        async for piece in worker.pieces():
            yield piece
    finally:
        worker.leave()  # does nothing to work that has ended
        with suppress(TimeoutError):  # whoever left finds the request in the ledger
            await asyncio.shield(asyncio.wait_for(ended.wait(), LEAVING_S))
    if failures:
        raise failures[0]


async def result_of(work: Callable[[], Result]) -> Result:
    """What a function returns, on a thread of its own."""

    def once() -> Generator[tuple[Result], None, None]:
        yield (work(),)  # a bare None would read as the end

    async with aclosing(pieces_of(once)) as pieces:
        async for (result,) in pieces:
            return result
    raise AssertionError("work yields its result or fails")


class AsyncEngine:
    """`Engine` for programs with an event loop. Takes what `Engine` takes; `engine` is the core.

    Requests wait for a local model in a fair queue, and many may be under way at once.
    """

    def __init__(self, settings: Settings | None = None, **parts: Any) -> None:
        self.engine: Engine = SharedEngine(settings or Settings.load(), queue=MOST_WAITING, **parts)

    async def complete(self, prompt: Prompt, **options: Unpack[RequestOptions]) -> Reply:
        """One whole answer. Raises only if no honest answer can be given."""
        return await result_of(lambda: self.engine.complete(prompt, **options))

    def stream(self, prompt: Prompt, **options: Unpack[RequestOptions]) -> AsyncGenerator[Event]:
        """Events as they happen. Leaving the loop, or `aclose`, cancels the work on both sides."""
        return pieces_of(lambda: self.engine.stream(prompt, **options))

    async def call(
        self,
        prompt: Prompt,
        tools: Sequence[ToolLike],
        *,
        execute: bool = False,
        **options: Unpack[CallOptions],
    ) -> CallReply:
        """The function calls that the words ask for. `execute` runs them, coroutines too."""
        return await result_of(lambda: self.engine.call(prompt, tools, execute=execute, **options))

    async def transcribe(self, audio: AudioLike, **options: Unpack[SpeechOptions]) -> Transcript:
        """What is said in a sound file, given as a path, bytes or `Audio`."""
        return await result_of(lambda: self.engine.transcribe(audio, **options))

    async def embed(
        self, texts: str | Sequence[str], **options: Unpack[EmbedOptions]
    ) -> Embeddings:
        """One vector per text, all in one `space`, which the result names."""
        return await result_of(lambda: self.engine.embed(texts, **options))

    def listen(self, **options: Unpack[ListenOptions]) -> AsyncLiveTranscriber:
        """Live captions: `start`, `process(chunk)` for each chunk of sound, `stop`."""
        return AsyncLiveTranscriber(self.engine.listen(**options))

    def conversation(self, **options: Any) -> AsyncConversation:
        """A `Conversation` whose turns are awaited; takes its options."""
        return AsyncConversation(Conversation(self.engine, **options))

    async def close(self) -> None:
        """Cancel open streams, free models and connections."""
        await asyncio.to_thread(self.engine.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class AsyncConversation:
    """`Conversation`, awaited. One turn at a time."""

    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation

    async def ask(self, text: str, **options: Unpack[RequestOptions]) -> Reply:
        return await result_of(lambda: self.conversation.ask(text, **options))

    def stream(self, text: str, **options: Unpack[RequestOptions]) -> AsyncGenerator[Event]:
        return pieces_of(lambda: self.conversation.stream(text, **options))

    async def resume(
        self, results: Sequence[ToolResult], **options: Unpack[RequestOptions]
    ) -> Reply:
        return await result_of(lambda: self.conversation.resume(results, **options))


class AsyncLiveTranscriber:
    """`LiveTranscriber`, awaited: sound is heard on a thread, in the order it came."""

    def __init__(self, live: LiveTranscriber) -> None:
        self.live = live
        self._order = asyncio.Lock()

    async def start(self) -> Self:
        await self._in_order(self.live.start)
        return self

    async def process(self, chunk: Any, *, hurry: bool = False) -> LiveUpdate:
        return await self._in_order(lambda: self.live.process(chunk, hurry=hurry))

    async def stop(self, limit_s: float | None = None) -> Transcript:
        return await self._in_order(lambda: self.live.stop(limit_s))

    async def close(self) -> None:
        await self._in_order(self.live.close)

    async def _in_order(self, work: Callable[[], Result]) -> Result:
        async with self._order:
            return await result_of(work)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *raised: Any) -> None:
        await self._in_order(lambda: self.live.__exit__(*raised))
