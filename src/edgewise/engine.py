"""The engine: one method per task, and `run` below them all. What it is made of is in `parts`."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, Unpack, overload

from typing_extensions import override

from edgewise import plugins, tasks
from edgewise.cloud.provider import Cloud
from edgewise.errors import InvalidRequest
from edgewise.flows import chat
from edgewise.flows.route import unwatched
from edgewise.local.backend import (
    CallBackend,
    ChatBackend,
    EmbedBackend,
    SpeechBackend,
    VoiceBackend,
)
from edgewise.parts import Parts, Turn
from edgewise.record.ledger import Book
from edgewise.requests import Prompt, asked_model, checked, takes
from edgewise.settings import EngineOptions, Settings
from edgewise.types.answers import Answers, DecideOptions
from edgewise.types.embeddings import (
    Embeddings,
    EmbedOptions,
)
from edgewise.types.messages import (
    CLOUD_TOOLS,
    Approve,
    AudioLike,
    CallOptions,
    ChatOptions,
    Execute,
    ImageLike,
    ListenOptions,
    QuestionLike,
    Request,
    RequestOptions,
    SpeakOptions,
    SpeechOptions,
    State,
    ToolLike,
)
from edgewise.types.replies import (
    Attempt,
    CallReply,
    Event,
    Finished,
    Parsed,
    Reply,
    SeenReply,
    Switched,
    TextDelta,
)
from edgewise.types.transcripts import SpokenReply, Transcript

if TYPE_CHECKING:
    from edgewise.flows.listen import LiveTranscriber


class Engine:
    """Answers on the device first, and hands off when it is in doubt.

        with Engine() as engine:
            reply = engine.complete("What is the capital of Australia?")
            print(reply.text, reply.source, reply.confidence)

        Engine(model="standard", policy="local_only", budgets=["$1/day"])

    Every setting is a keyword argument; what is not given comes from `settings`, or else from the
    file and the environment. Parts are made when they are first needed. Some can be given as
    objects, in place of those that the settings describe; `edgewise.testing` has scripted ones.
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
        self._use(
            Parts(
                settings,
                backend=backend,
                function_model=function_model,
                cloud=cloud,
                ledger=ledger,
                transcriber=transcriber,
                embedder=embedder,
                voice=voice,
                **changes,
            )
        )

    def _use(self, parts: Parts) -> None:
        """What all methods go through; also open to the server, the command line and the like."""
        self.parts, self.settings, self.ledger = parts, parts.settings, parts.ledger

    @takes(CallOptions)
    def call(
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

        Tools are JSON Schemas as in OpenAI's requests, `Tool`s, or plain Python functions. A call
        in doubt is not run, unless `execute` is "always". With `approve`, every call is asked
        about, and runs if the answer is True.

        Words that were heard come as a `Transcript`: a call is no surer than the words in it. With
        the `sound` of it, the cloud hears the pieces that a call in doubt hangs on.
        """
        from edgewise.calls.tools import as_toolbox  # noqa: PLC0415  # it compiles patterns

        tasks.check_consent(execute, approve)
        if approve is not None and not execute:
            raise InvalidRequest("approve: it is asked before a call is run: give execute=True too")
        if sound is not None and not isinstance(prompt, Transcript):
            raise InvalidRequest("sound: it goes with its transcript: give that as the prompt")
        box, given = as_toolbox(tools), checked(options, CallOptions)
        given |= asked_model(given.pop("model", ""))
        if writer := given.pop("model"):
            self.parts.function_model(writer)  # a wrong name is told, and no reason to leave
        parts = self.parts

        def _called(prompt: Prompt) -> tuple[Request, CallReply]:
            request = parts.request(prompt, tools=box.tools, **given)
            request = replace(request, task="call", model=writer)
            if request.tool_choice == "none":
                raise InvalidRequest("tool_choice = 'none': `call` makes calls; `complete` answers")
            given.pop("request_id", None)  # of the first request
            return request, parts.keep(
                request, lambda attempts: unwatched(tasks.call(parts, request, attempts))
            )

        request, reply = _called(prompt)
        if sound is not None and isinstance(prompt, Transcript):
            reply = tasks.settle_hearing(
                parts, prompt, sound, box, reply, lambda heard: _called(heard)[1], given
            )[1]
        if execute:
            return tasks.run_calls(
                reply,
                box,
                parts.tool_record,
                seal=parts.seal(request),
                execute=execute,
                approve=approve,
            )
        return reply

    @takes(SpeechOptions)
    def transcribe(self, audio: AudioLike, **options: Unpack[SpeechOptions]) -> Transcript:
        """What is said in a sound file, given as a path, bytes or `Audio`."""
        return tasks.transcribe(self.parts, audio, options)

    @takes(ListenOptions)
    def listen(self, **options: Unpack[ListenOptions]) -> LiveTranscriber:
        """Live captions: `start`, `process(chunk)` for each chunk of sound, `stop`."""
        live = tasks.listen(self.parts, options)
        self.parts.streams.add(live)
        return live

    @takes(SpeakOptions)
    def speak(self, text: str, **options: Unpack[SpeakOptions]) -> SpokenReply:
        """The text as sound: `reply.audio` has the bytes of a file."""
        return tasks.speak(self.parts, text, options)

    @takes(EmbedOptions)
    def embed(self, texts: str | Sequence[str], **options: Unpack[EmbedOptions]) -> Embeddings:
        """One vector per text, all in one `space`, which the result names."""
        return tasks.embed(self.parts, texts, options)

    @takes(DecideOptions)
    def decide(
        self,
        state: State,
        questions: Mapping[str, QuestionLike],
        **options: Unpack[DecideOptions],
    ) -> Answers:
        """Answers to typed questions about a text, an object or a list, by name.

            engine.decide(mail, {"refund": YesNo("Does the customer want money back?")})

        A question is a `YesNo`, a `Choice` or a `Score`, or a plain object as `/v1/systemone` takes
        it. Each answer has a chance for each option, and says by itself whether it stayed.
        """
        return tasks.decide(self.parts, state, questions, options)

    @overload
    def complete(
        self,
        prompt: Prompt,
        *,
        images: Sequence[ImageLike],
        response_format: type[Parsed],
        check: Callable[[SeenReply[Parsed]], bool] | None = None,
        **options: Unpack[CallOptions],
    ) -> SeenReply[Parsed]: ...
    @overload
    def complete(
        self,
        prompt: Prompt,
        *,
        images: Sequence[ImageLike],
        check: Callable[[SeenReply], bool] | None = None,
        **options: Unpack[CallOptions],
    ) -> SeenReply: ...
    @overload
    def complete(
        self,
        prompt: Prompt,
        *,
        response_format: type[Parsed],
        check: Callable[[Reply[Parsed]], bool] | None = None,
        **options: Unpack[ChatOptions],
    ) -> Reply[Parsed]: ...
    @overload
    def complete(
        self,
        prompt: Prompt,
        *,
        check: Callable[[Reply], bool] | None = None,
        **options: Unpack[RequestOptions],
    ) -> Reply: ...
    @takes(RequestOptions)
    def complete(
        self,
        prompt: Prompt,
        *,
        check: Callable[[Any], bool] | None = None,
        **options: Unpack[RequestOptions],
    ) -> Reply:
        """One whole answer. Raises only if no honest answer can be given.

        A prompt is a text, a message or a list of messages. A message is a `Message`, or a plain
        dictionary as in OpenAI's requests. `check` is a verdict on the reply by a program: see
        `feedback`.
        """
        request = self.parts.request(prompt, **options)
        for event in run(self.parts, request, live=False):
            if isinstance(event, Finished):
                if check is None:
                    return event.reply
                return self.parts.verdicts.check(request, event.reply, check)
        raise AssertionError("a flow ends with Finished")

    @takes(RequestOptions)
    def stream(
        self, prompt: Prompt, **options: Unpack[RequestOptions]
    ) -> Generator[Event, None, None]:
        """Yield events as they happen. Closing the generator cancels the work on both sides."""
        stream = run(self.parts, self.parts.request(prompt, **options), live=True)
        self.parts.streams.add(stream)
        return stream

    def feedback(self, request_id: str, *, right: bool, above: float = 0.0) -> None:
        """Say whether an answer was right: `reply.id` names it. The last verdict counts.

        What `max_error` promises grows from these. `above`: you judge only answers of at least
        this confidence, whether they look right or not. Raises InvalidRequest if there is no such
        answer, LedgerError if the verdict could not be recorded.
        """
        self.parts.verdicts.say(request_id, right, above=above)

    def close(self) -> None:
        """Cancel open streams, free models and connections. The next request opens them again.

        Parts that were given to the engine are closed too, and asked again by the next request.
        """
        self.parts.close()

    @override
    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.parts.about()}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def run(parts: Parts, request: Request, *, live: bool) -> Generator[Event, None, None]:
    """Run one request and record it, however it ends."""
    attempts: list[Attempt] = []
    parts.prepare(request, prices=not live)
    process = os.getpid()
    finished: Finished | None = None
    try:
        with Turn(parts.auditor) as turn:
            for event in _events(parts, request, attempts, live):
                if isinstance(event, Finished):
                    finished = event
                    continue
                if isinstance(event, Switched):
                    turn.take(event.to == "local")
                if live:  # after the first word, which would wait for it
                    parts.load_prices()
                yield event
    except Exception as error:  # somebody else's cloud or policy may raise anything
        parts.recorder.failed(request, error, attempts)
        raise
    except (GeneratorExit, KeyboardInterrupt, SystemExit):  # the last by a signal
        if process == os.getpid():  # else a fork leaves, and its parent goes on
            parts.recorder.left(request, attempts)
        raise
    assert finished is not None, "a flow ends with Finished"
    # Recorded before the event is sent, so that a crash does not lose it.
    yield Finished(parts.recorder.answered(request, finished.reply))


def _events(
    parts: Parts, request: Request, attempts: list[Attempt], live: bool
) -> Generator[Event, None, None]:
    """Chat. With tools: the calls first, then chat if no tool fits the request."""
    if request.has_images:
        request = tasks.settled(parts, request)
    must_call = request.tool_choice == "required"
    may_call = request.tools and (must_call or request.policy != "cloud_only")
    begun, lane = parts.sessions.find(request)
    request = replace(request, lane=lane)
    if begun is not None and parts.cloud("chat").closed(request) is not None:
        begun = None  # one that cannot leave is not told that it should
    if may_call and (must_call or begun is None) and _may_call(parts, request):
        reply = yield from _calls(parts, request, attempts)
        if reply is not None:
            yield Finished(reply)
            return
    if may_call and len(request.tools) > CLOUD_TOOLS:  # an original keeps all of its own
        from edgewise.calls.rank_tools import for_cloud  # noqa: PLC0415  # as in `call`

        words = " ".join(each.content for each in request.messages if each.role == "user")
        request = for_cloud(request, words)
    needed = chat.ChatNeeds(
        backend=lambda: parts.backend(request.model),
        cloud=parts.cloud("chat"),
        policy=plugins.load("policies", request.policy),
        calibration=lambda backend: parts.calibration(backend, other=request.model),
        patience_s=parts.settings.patience_s,
        clock=time.perf_counter,
        pace=parts.pace,
        wrote=None if parts.auditor is None else parts.auditor.wrote,
    )
    # An agent's pictures of before are not looked at again, once the cloud goes on with them.
    if request.has_images and (begun is None or request.original is None):
        yield from tasks.see(parts, request, needed, attempts, live)
        return
    yield from chat.answer(request, needed, attempts, live=live, begun=begun)


def _calls(
    parts: Parts, request: Request, attempts: list[Attempt]
) -> Generator[Event, None, CallReply | None]:
    """The calls; None where chat goes on. Before them the words beside them, or the cloud's answer
    as it comes."""
    switched: Switched | None = None
    passed_on = False
    with closing(tasks.call(parts, request, attempts)) as story:
        while True:
            try:
                event = next(story)
            except StopIteration as end:
                reply: CallReply = end.value
                break
            if isinstance(event, Switched):
                switched = event  # shown only before what is passed on
                continue
            if switched is not None and not passed_on:
                yield switched
            passed_on = True
            yield event
    asked = reply.needs or reply.signalled or reply.source == "cloud"
    if not (asked or reply.tool_calls or request.tool_choice == "required"):
        return None
    if reply.text and not passed_on:
        yield TextDelta(reply.text, "local" if reply.needs else "cloud")
    return reply


def _may_call(parts: Parts, request: Request) -> bool:
    """Whether the function model is asked: for the user's words, and after a tool's result if
    it reads results. Where the cloud comes first, chat reads them."""
    newest = reversed([message.role for message in request.messages])
    after = list(itertools.takewhile(lambda role: role != "user", newest))
    if request.tool_choice == "none" or len(after) == len(request.messages):
        return False
    if after and (after[0] != "tool" or "system" in after):
        return False  # these are not the user's words, nor what came of them
    if not after or request.tool_choice == "required":
        return True
    if request.policy == "prefer_cloud":
        return False
    return tasks.reads_results(parts.function_model)
