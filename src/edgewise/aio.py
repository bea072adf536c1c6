"""The engine for programs with an event loop: `AsyncEngine`, and what belongs to it.

    async with AsyncEngine() as engine:
        reply = await engine.complete("What is the capital of Australia?")
        async for event in engine.stream("Name three colours."):
            ...

The core is synchronous. Each request runs on a thread of its own, and the event loop waits for it.
Cancelling the waiting task cancels the work on the device and in the cloud. Tools that are
coroutine functions run on the caller's event loop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Any, Self, TypeVar, Unpack, overload

from typing_extensions import override

from edgewise.bridge import Cancellation, Worker
from edgewise.cloud.provider import Cloud
from edgewise.conversation import MCP_TIMEOUT_S, Conversation
from edgewise.engine import Engine
from edgewise.errors import Cancelled
from edgewise.flows.listen import LiveTranscriber
from edgewise.local.backend import (
    CallBackend,
    ChatBackend,
    EmbedBackend,
    SpeechBackend,
    VoiceBackend,
)
from edgewise.record.ledger import Book
from edgewise.requests import Prompt, takes
from edgewise.settings import EngineOptions, Settings
from edgewise.shared_engine import SharedEngine
from edgewise.types.answers import Answers, DecideOptions
from edgewise.types.embeddings import Embeddings, EmbedOptions
from edgewise.types.messages import (
    Approve,
    AudioLike,
    CallOptions,
    ChatOptions,
    Execute,
    ImageLike,
    ListenOptions,
    Message,
    QuestionLike,
    RequestOptions,
    SpeakOptions,
    SpeechOptions,
    State,
    ToolLike,
)
from edgewise.types.replies import CallReply, Event, Parsed, Reply, SeenReply, ToolResult
from edgewise.types.transcripts import LiveUpdate, SpokenReply, Transcript

MOST_WAITING = 1024  # requests before a local model; more are refused with DeviceBusy
LEAVING_S = 5.0  # to wait for cancelled work to end: a model may be in the middle of a pass

Result = TypeVar("Result")
Piece = TypeVar("Piece")


class Workers:
    """The work of an async engine: each piece on a thread of its own, and cancelled by `close`."""

    def __init__(self) -> None:
        self.running: set[Worker[Any]] = set()

    async def pieces(
        self, work: Callable[[], Generator[Piece, None, None]]
    ) -> AsyncGenerator[Piece]:
        """What a generator yields on a thread of its own. Leaving early cancels its work."""
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        failures: list[Exception] = []

        def done(failure: Exception | None) -> None:
            self.running.discard(worker)
            failures.extend([failure] if failure is not None else [])
            with suppress(RuntimeError):  # the loop is closed: the program is ending
                loop.call_soon_threadsafe(ended.set)

        worker = Worker(Cancellation(), work, done, name="edgewise-async")
        self.running.add(worker)
        worker.start()
        try:
            async for piece in worker.pieces():
                yield piece
            closed = worker.cancellation.left
        finally:
            worker.leave()  # does nothing to work that has ended
            # After this the request is in the ledger, unless the work does not stop in time.
            with suppress(TimeoutError):
                await asyncio.shield(asyncio.wait_for(ended.wait(), LEAVING_S))
        if failures:
            raise failures[0]
        if closed:
            raise Cancelled("the engine was closed")

    async def result(self, work: Callable[[], Result]) -> Result:
        """What a function returns on a thread of its own. Cancelling the task cancels its work."""

        def once() -> Generator[Result, None, None]:
            yield work()

        async with aclosing(self.pieces(once)) as pieces:
            async for result in pieces:
                return result
        raise AssertionError("work yields its result or fails")

    async def close(self) -> None:
        """Cancel what runs, and wait a little for it to end."""
        running = list(self.running)
        for worker in running:
            worker.leave()
        await asyncio.to_thread(_join, running)


def _join(workers: Sequence[Worker[Any]]) -> None:
    until = time.monotonic() + LEAVING_S
    for worker in workers:
        worker.join(max(0.0, until - time.monotonic()))


class AsyncEngine:
    """The methods of `Engine`, awaited; it takes the same arguments. `engine` is the core.

    Many requests may run at once. They wait for a local model in a queue.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        backend: ChatBackend | str | None = None,
        function_model: CallBackend | str | None = None,
        cloud: Cloud | None = None,
        ledger: Book | str | None = None,
        transcriber: SpeechBackend | None = None,
        embedder: EmbedBackend | None = None,
        voice: VoiceBackend | None = None,
        **changes: Unpack[EngineOptions],
    ) -> None:
        self.engine: Engine = SharedEngine(
            settings,
            queue=MOST_WAITING,
            backend=backend,
            function_model=function_model,
            cloud=cloud,
            ledger=ledger,
            transcriber=transcriber,
            embedder=embedder,
            voice=voice,
            **changes,
        )
        self.workers = Workers()

    @overload
    async def complete(
        self,
        prompt: Prompt,
        *,
        images: Sequence[ImageLike],
        response_format: type[Parsed],
        check: Callable[[SeenReply[Parsed]], bool] | None = None,
        **options: Unpack[CallOptions],
    ) -> SeenReply[Parsed]: ...
    @overload
    async def complete(
        self,
        prompt: Prompt,
        *,
        images: Sequence[ImageLike],
        check: Callable[[SeenReply], bool] | None = None,
        **options: Unpack[CallOptions],
    ) -> SeenReply: ...
    @overload
    async def complete(
        self,
        prompt: Prompt,
        *,
        response_format: type[Parsed],
        check: Callable[[Reply[Parsed]], bool] | None = None,
        **options: Unpack[ChatOptions],
    ) -> Reply[Parsed]: ...
    @overload
    async def complete(
        self,
        prompt: Prompt,
        *,
        check: Callable[[Reply], bool] | None = None,
        **options: Unpack[RequestOptions],
    ) -> Reply: ...
    @takes(RequestOptions)
    async def complete(
        self,
        prompt: Prompt,
        *,
        check: Callable[[Any], bool] | None = None,
        **options: Unpack[RequestOptions],
    ) -> Reply:
        """One whole answer. Raises only if no honest answer can be given."""
        return await self.workers.result(
            lambda: self.engine.complete(prompt, check=check, **options)
        )

    async def feedback(self, request_id: str, *, right: bool, above: float = 0.0) -> None:
        """Say whether an answer was right: `reply.id` names it. The last verdict counts."""
        await self.workers.result(
            lambda: self.engine.feedback(request_id, right=right, above=above)
        )

    @takes(RequestOptions)
    def stream(self, prompt: Prompt, **options: Unpack[RequestOptions]) -> AsyncGenerator[Event]:
        """Yield events as they happen. Closing the generator cancels the work on both sides."""
        return self.workers.pieces(lambda: self.engine.stream(prompt, **options))

    @takes(CallOptions)
    async def call(
        self,
        prompt: Prompt,
        tools: Sequence[ToolLike],
        *,
        execute: Execute = False,
        approve: Approve | None = None,
        sound: AudioLike | None = None,
        **options: Unpack[CallOptions],
    ) -> CallReply:
        """The function calls that the words ask for. `execute` runs those of Python functions.

        A coroutine function runs on this event loop, any other function on a thread. The same
        holds for `approve`.
        """
        return await self.workers.result(
            lambda: self.engine.call(
                prompt, tools, execute=execute, approve=approve, sound=sound, **options
            )
        )

    @takes(SpeechOptions)
    async def transcribe(self, audio: AudioLike, **options: Unpack[SpeechOptions]) -> Transcript:
        """What is said in a sound file, given as a path, bytes or `Audio`."""
        return await self.workers.result(lambda: self.engine.transcribe(audio, **options))

    @takes(ListenOptions)
    def listen(self, **options: Unpack[ListenOptions]) -> AsyncLiveTranscriber:
        """Live captions: `start`, `process(chunk)` for each chunk of sound, `stop`."""
        return AsyncLiveTranscriber(self, self.engine.listen(**options))

    @takes(SpeakOptions)
    async def speak(self, text: str, **options: Unpack[SpeakOptions]) -> SpokenReply:
        """The text as sound: `reply.audio` has the bytes of a file."""
        return await self.workers.result(lambda: self.engine.speak(text, **options))

    @takes(EmbedOptions)
    async def embed(
        self, texts: str | Sequence[str], **options: Unpack[EmbedOptions]
    ) -> Embeddings:
        """One vector per text, all in one `space`, which the result names."""
        return await self.workers.result(lambda: self.engine.embed(texts, **options))

    @takes(DecideOptions)
    async def decide(
        self,
        state: State,
        questions: Mapping[str, QuestionLike],
        **options: Unpack[DecideOptions],
    ) -> Answers:
        """Answers to typed questions about a text, an object or a list, by name."""
        return await self.workers.result(lambda: self.engine.decide(state, questions, **options))

    async def close(self) -> None:
        """Cancel what runs, free models and connections. The next request opens them again.

        Whoever waits for a request that was running gets `Cancelled`.
        """
        await self.workers.close()
        await asyncio.to_thread(self.engine.close)

    @override
    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.engine.parts.about()}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class AsyncConversation:
    """`Conversation`, awaited: turns wait for each other. `conversation` is the core.

    conversation = AsyncConversation(engine, system="Answer in one sentence.")
    await conversation.ask("Who wrote Faust?")
    """

    @takes(RequestOptions)
    def __init__(
        self,
        engine: AsyncEngine,
        *,
        max_steps: int = 4,
        mcp: Sequence[str] = (),
        mcp_timeout_s: float = MCP_TIMEOUT_S,
        execute: Execute = True,
        approve: Approve | None = None,
        **options: Unpack[RequestOptions],
    ) -> None:
        """The options apply to every turn. An `async def approve` runs on this event loop."""
        self.conversation = Conversation(
            engine.engine,
            max_steps=max_steps,
            mcp=mcp,
            mcp_timeout_s=mcp_timeout_s,
            execute=execute,
            approve=approve,
            **options,
        )
        self._engine = engine
        self._order = asyncio.Lock()

    @property
    def messages(self) -> list[Message]:
        """The history. It may be changed between turns."""
        return self.conversation.messages

    @property
    def steps(self) -> list[Reply]:
        """The reply of each request of the last turn."""
        return self.conversation.steps

    @property
    def private(self) -> bool:
        """Whether a turn of this history was private. If so, nothing of it may leave the device."""
        return self.conversation.private

    @overload
    async def ask(
        self,
        text: str | Transcript,
        *,
        response_format: type[Parsed],
        **options: Unpack[ChatOptions],
    ) -> Reply[Parsed]: ...
    @overload
    async def ask(self, text: str | Transcript, **options: Unpack[RequestOptions]) -> Reply: ...
    @takes(RequestOptions)
    async def ask(self, text: str | Transcript, **options: Unpack[RequestOptions]) -> Reply:
        """The user's next turn, and the answer to it."""
        async with self._order:
            return await self._engine.workers.result(lambda: self.conversation.ask(text, **options))

    @takes(RequestOptions)
    async def stream(
        self, text: str | Transcript, **options: Unpack[RequestOptions]
    ) -> AsyncGenerator[Event]:
        """Like `AsyncEngine.stream`. A turn that is left half way stays in the history."""
        work = self._engine.workers.pieces(lambda: self.conversation.stream(text, **options))
        async with self._order, aclosing(work) as events:
            async for event in events:
                yield event

    @takes(RequestOptions)
    async def resume(
        self, results: Sequence[ToolResult], **options: Unpack[RequestOptions]
    ) -> Reply:
        """Continue with the results of the calls that the application made."""
        async with self._order:
            return await self._engine.workers.result(
                lambda: self.conversation.resume(results, **options)
            )

    async def close(self) -> None:
        """End the MCP servers."""
        await asyncio.to_thread(self.conversation.close)

    async def __aenter__(self) -> Self:
        await self._engine.workers.result(self.conversation.__enter__)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class AsyncLiveTranscriber:
    """`LiveTranscriber`, awaited: chunks are heard in the order they came. `live` is the core."""

    def __init__(self, engine: AsyncEngine, live: LiveTranscriber) -> None:
        self.live = live
        self._engine = engine
        self._order = asyncio.Lock()

    @property
    def last_update(self) -> LiveUpdate:
        """The update of `stop`."""
        return self.live.last_update

    async def start(self) -> Self:
        """Get ready. Raises if the device cannot transcribe: the cloud alone is too slow."""
        await self._in_order(self.live.start)
        return self

    async def process(self, chunk: Any, *, hurry: bool = False) -> LiveUpdate:
        """Take in a chunk: float32 or int16 samples of one channel, or bytes of 16-bit samples."""
        return await self._in_order(lambda: self.live.process(chunk, hurry=hurry))

    async def stop(self, limit_s: float | None = None) -> Transcript:
        """End the captions. Waits up to `limit_s` for corrections, and reports missing ones."""
        return await self._in_order(lambda: self.live.stop(limit_s))

    async def close(self) -> None:
        """Leave without waiting for the cloud. What was transcribed so far is recorded."""
        await self._in_order(self.live.close)

    async def _in_order(self, work: Callable[[], Result]) -> Result:
        async with self._order:
            return await self._engine.workers.result(work)

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *raised: Any) -> None:
        await self._in_order(lambda: self.live.__exit__(*raised))
