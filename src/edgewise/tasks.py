"""What an engine does for each of its methods: `Parts` are put together for a flow, which runs.

A flow is loaded with the first request that needs it: calls compile patterns, speech and pictures
bring numpy.
"""

from __future__ import annotations

import datetime
import inspect
import itertools
import re
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from edgewise import plugins
from edgewise.calibrations import find_calibration, find_learnt
from edgewise.cloud.door import Door
from edgewise.cloud.provider import Cloud
from edgewise.decide.calibration import Calibration
from edgewise.errors import (
    Cancelled,
    CloudClosed,
    ExtraMissing,
    InvalidRequest,
    ModelNotFound,
    ToolServerFailed,
)
from edgewise.local.backend import CallBackend, ChatBackend, QuestionReader
from edgewise.local.catalogue import PROJECTOR, row_named
from edgewise.parts import Parts
from edgewise.record.ledger import ToolRecord
from edgewise.requests import as_questions, as_state, as_texts, check_text, checked, shown
from edgewise.settings import Settings
from edgewise.types.answers import Answers, DecideOptions
from edgewise.types.embeddings import Embeddings, EmbedOptions
from edgewise.types.messages import (
    OBJECTIVES,
    Approve,
    AudioLike,
    Execute,
    HearingOptions,
    ListenOptions,
    Message,
    Question,
    QuestionLike,
    Request,
    SpeakOptions,
    SpeechOptions,
    State,
    ToolCall,
    Word,
)
from edgewise.types.replies import Attempt, CallReply, Event, Finished, Reply, SeenReply, ToolResult
from edgewise.types.transcripts import SpokenReply, Transcript

if TYPE_CHECKING:
    from edgewise.calls.tools import Toolbox
    from edgewise.flows import chat
    from edgewise.flows import transcribe as hearing
    from edgewise.flows.call import CallRules
    from edgewise.flows.listen import LiveTranscriber
    from edgewise.local.backend import PictureArray
    from edgewise.vision.pictures import Picture


# -- function calls --------------------------------------------------------------------------------


NOT_RUN = "not run:"
REFUSED = f"{NOT_RUN} the user did not allow it"
Seal = Callable[[ToolCall], ToolCall]


def keep_in(_: ToolCall) -> ToolCall:
    """Where nobody knows the request that led to a call."""
    raise CloudClosed("nobody knows whether its arguments may leave", code="private")


def call(
    parts: Parts, request: Request, attempts: list[Attempt]
) -> Generator[Event, None, CallReply]:
    """The calls a request asks for. Events are what a cloud says that is passed on as it is."""
    from edgewise.calls.check import CALLS
    from edgewise.flows import call as flow
    from edgewise.local.chat_prompt import render_calls

    settings = parts.settings
    writer = request.model if request.task == "call" else ""  # of a chat: who chats
    needed = flow.CallNeeds(
        function_model=partial(parts.function_model, writer) if writer else parts.function_model,
        cloud=parts.cloud("chat"),
        policy=plugins.load("policies", request.policy),
        calibration=lambda model: parts.calibration(model, CALLS),
        rules=call_rules(settings),
        patience_s=settings.patience_s,
        clock=time.perf_counter,
        today=datetime.date.today,
        record=parts.tool_record,
        render=render_calls,
    )
    return (yield from flow.answer(request, needed, attempts))


def reads_results(function_model: Callable[[], CallBackend]) -> bool:
    """Whether there is a function model that can go on after a tool's result."""
    from edgewise.calls.formats import format_named
    from edgewise.local.chat_prompt import render_calls

    try:
        facts = function_model().facts()
        return format_named(facts.call_format, facts.chat_template, render_calls).reads_turns
    except ModelNotFound:
        return False


def call_rules(settings: Settings) -> CallRules:
    from edgewise.flows.call import CallRules

    return CallRules(tools_limit=settings.call_tools)


def check_consent(execute: object, approve: object) -> None:
    """Raises InvalidRequest for an answer to "may it run?" that is none."""
    if not (isinstance(execute, bool) or (isinstance(execute, str) and execute == "always")):
        raise InvalidRequest(f'execute: expected True, False or "always", got {shown(execute)}')
    if approve is not None and not callable(approve):
        raise InvalidRequest(f"approve: expected a function, got {shown(approve)}")


def run_calls(
    reply: CallReply,
    box: Toolbox,
    record: ToolRecord,
    *,
    seal: Seal = keep_in,
    execute: Execute = True,
    approve: Approve | None = None,
) -> CallReply:
    """The reply with a result for each call, in order. A failed call does not stop the rest."""
    refused = refusals(reply.calls, box.functions, execute, approve)
    results = run_allowed(reply.calls, box, refused, seal)
    tools = {tool.name: tool for tool in box.tools if tool.name in box.functions}
    record.note(
        [
            (tools[result.call.name], not result.error)
            for result, why in zip(results, refused, strict=True)
            if result.call.source == "local"
            and result.call.name in tools
            and not why  # what was not allowed says nothing about the arguments
            # Nor does an error inside the tool.
            and (not result.error or result.error.startswith(NOT_RUN))
        ]
    )
    return replace(reply, results=results)


def refusals(
    calls: Sequence[ToolCall],
    functions: Mapping[str, Callable[..., Any]],
    execute: Execute,
    approve: Approve | None,
) -> list[str]:
    """Why each call may not run; empty where it may.

    All are asked about before the first one runs: if `approve` raises, nothing was done.
    """
    return [
        _refusal(call, execute, approve) if call.name in functions and not _unfit(call) else ""
        for call in calls
    ]


def _refusal(call: ToolCall, execute: Execute, approve: Approve | None) -> str:
    if approve is not None:
        said = approve(call)
        if inspect.isawaitable(said):
            from edgewise.bridge import awaited  # brings asyncio

            said = awaited(said)
        return "" if said is True else REFUSED  # a Mock, "no" and 1 are no consent
    if call.doubt and execute != "always":
        return f"{NOT_RUN} in doubt ({call.doubt})"
    return ""


def run_allowed(
    calls: Sequence[ToolCall],
    box: Toolbox,
    refused: Sequence[str],
    seal: Seal = keep_in,
) -> tuple[ToolResult, ...]:
    """The result of each call; that of a refused one says why it was not run."""
    return tuple(
        ToolResult(call, error=why) if why else run_call(call, box, seal)
        for call, why in zip(calls, refused, strict=True)
    )


def _unfit(call: ToolCall) -> frozenset[str]:
    """What makes it impossible to run, whoever allows it."""
    from edgewise.calls.check import FATAL

    return FATAL.intersection(call.complaints)


def run_call(call: ToolCall, box: Toolbox, seal: Seal = keep_in) -> ToolResult:
    """Run one call. If it cannot run, or fails, its result is an error.

    `seal` makes of a call of a tool that leaves what may leave; its result says what did.
    """
    function = box.functions.get(call.name)
    if function is None:
        return ToolResult(call, error="no Python function of this name was given")
    if wrong := _unfit(call):
        return ToolResult(call, error=f"{NOT_RUN} {', '.join(sorted(wrong))}")
    from edgewise.calls.python_tools import call_function

    try:
        if box.leaves(call.name):
            call = seal(call)
        value = call_function(function, call.arguments)
        if inspect.isawaitable(value):
            from edgewise.bridge import awaited  # brings asyncio

            value = awaited(value)
        return ToolResult(call, value)
    except Cancelled:
        raise
    except (InvalidRequest, CloudClosed) as error:
        return ToolResult(call, error=f"{NOT_RUN} {error}")
    except ToolServerFailed as error:
        return ToolResult(call, error=str(error))
    except Exception as error:  # noqa: BLE001  # the user's code may raise anything
        return ToolResult(call, error=f"{type(error).__name__}: {error}")


# -- speech ----------------------------------------------------------------------------------------


STEP_S, LEAST_STEP_S, MOST_STEP_S = 1.0, 0.2, 10.0  # seconds of live speech between two hypotheses


def transcribe(
    parts: Parts,
    audio: AudioLike,
    options: SpeechOptions,
    settled: hearing.Settled = lambda _: None,
) -> Transcript:
    """What is said in a sound file. `settled` is called with each final segment, in order."""
    from edgewise.flows import transcribe as flow
    from edgewise.speech.audio import name_of
    from edgewise.speech.words import SPEECH

    request = speech_request(parts, name_of(audio), options)
    split = options.get("channels") == "split"
    needed = flow.TranscribeNeeds(
        transcriber=parts.translator if request.translate else parts.transcriber,
        cloud=parts.cloud(request.service),
        policy=plugins.load("policies", request.policy),
        # No calibration was fitted to translations: theirs is unverified.
        calibration=lambda model: parts.calibration(None if request.translate else model, SPEECH),
        clock=time.perf_counter,
        progress=options.get("progress", silent),
        settled=settled,
    )
    transcript = parts.keep(
        request, lambda attempts: flow.transcribe(request, audio, needed, attempts, split=split)
    )
    if parts.auditor is not None and not request.translate:
        parts.auditor.heard(request, transcript, audio)
    return transcript


def listen(parts: Parts, options: ListenOptions) -> LiveTranscriber:
    """Live captions, not yet started."""
    from edgewise.flows import transcribe as flow
    from edgewise.flows.listen import LiveTranscriber
    from edgewise.speech.audio import RATE
    from edgewise.speech.words import SPEECH

    request = speech_request(parts, "live sound", options, ListenOptions)
    given = checked(options, ListenOptions)
    step_s = given.get("step_s", STEP_S)
    if not LEAST_STEP_S <= step_s <= MOST_STEP_S:
        raise InvalidRequest(f"step_s = {step_s!r}: {LEAST_STEP_S:g} to {MOST_STEP_S:g} seconds")
    needed = flow.TranscribeNeeds(
        transcriber=parts.transcriber,
        cloud=parts.cloud("transcribe"),
        policy=plugins.load("policies", request.policy),
        calibration=lambda model: parts.calibration(model, SPEECH),
        clock=time.perf_counter,
        progress=silent,
    )
    return LiveTranscriber(
        request,
        needed,
        parts.keep,
        rate=given.get("rate", RATE),
        step_s=step_s,
        drain_s=parts.settings.speech_drain_s,
    )


def silent(done_s: float, total_s: float) -> None:
    """The default progress callback."""


def speech_request(
    parts: Parts, name: str, options: HearingOptions, kind: type = SpeechOptions
) -> Request:
    """A validated request. The ledger records the name of the sound, not the sound."""
    given = checked(options, kind)
    for option in ("channels", "progress", "rate", "step_s"):  # about the work, not the request
        given.pop(option, None)
    language = checked_language(given.pop("language", ""))
    hint, translate = given.pop("hint", "").strip(), given.pop("translate", False)
    if not any(aim in given for aim in OBJECTIVES):
        given["threshold"] = parts.settings.speech_threshold
    request = parts.request(name, **given)
    return replace(request, task="transcribe", language=language, hint=hint, translate=translate)


def checked_language(language: str) -> str:
    """As models and providers spell it: `en` for `en-GB`; empty if it is to be detected."""
    plain = language.strip().lower().replace("_", "-").partition("-")[0]
    if plain in ("", "auto"):
        return ""
    if not (plain.isascii() and plain.isalpha() and 2 <= len(plain) <= 3):
        raise InvalidRequest(f"language {language!r}: a code like 'en'")
    return plain


MOST_SPOKEN = 16_000  # characters of one request: twenty minutes
LONGEST_VOICE = 64  # characters of its name
SLOWEST_VOICE, QUICKEST_VOICE = 0.25, 4.0  # as OpenAI's


def speak(parts: Parts, text: str, options: SpeakOptions) -> SpokenReply:
    """The text as sound."""
    from edgewise.flows import speak as flow
    from edgewise.speech.audio import require_writer

    given = checked(options, SpeakOptions)
    said = check_text(text, "text")
    if not said.strip():
        raise InvalidRequest("text: there is nothing to say")
    if len(said) > MOST_SPOKEN:
        raise InvalidRequest(f"text: {len(said):,} characters; at most {MOST_SPOKEN:,} at once")
    speed = given.pop("speed", 1.0)
    if not SLOWEST_VOICE <= speed <= QUICKEST_VOICE:
        raise InvalidRequest(f"speed = {speed}: {SLOWEST_VOICE:g} to {QUICKEST_VOICE:g}")
    kind, voice = given.pop("format", "wav"), given.pop("voice", "")
    if not (voice.isprintable() and len(voice) <= LONGEST_VOICE):
        raise InvalidRequest(f"voice: expected a name, got {shown(voice)}")
    require_writer(kind)
    language = given.pop("language", "")
    checked_language(language)  # a voice may be of a region, as en-gb
    request = replace(
        parts.request(said, **given),
        task="speak",
        voice=voice,
        language=language,
        speed=speed,
        sound=kind,
    )
    needed = flow.SpeakNeeds(
        voice=parts.voice,
        cloud=parts.cloud("speak"),
        policy=plugins.load("policies", request.policy),
        clock=time.perf_counter,
        pause=parts.check_wanted,
    )
    return parts.keep(request, lambda attempts: flow.speak(request, needed, attempts))


MOST_REHEARD = 3  # pieces of one spoken request that the cloud hears


def settle_hearing(
    parts: Parts,
    heard: Transcript,
    sound: AudioLike,
    box: Toolbox,
    reply: CallReply,
    ask: Callable[[Transcript], CallReply],
    options: Mapping[str, Any],
) -> tuple[Transcript, CallReply]:
    """Where a call hangs on a word that the device was unsure of, let the cloud hear that segment,
    and ask for the calls of what it heard. Nothing changes where it may not, or does not answer.
    """
    from edgewise.calls.hearing import least_heard

    tools = {tool.name: tool for tool in box.tools}
    for _ in range(MOST_REHEARD):
        doubts = [
            least_heard(call, tools[call.name], heard.words)
            for call in reply.calls
            if call.doubt and call.name in tools
        ]
        unsure = min(filter(None, doubts), key=lambda one: one.chance, default=None)
        again = unsure and hear_again(parts, heard, unsure.word, sound, options)
        if not again:
            break
        heard = again
        reply = ask(heard)
    return heard, reply


def hear_again(
    parts: Parts, heard: Transcript, word: Word, sound: AudioLike, options: Mapping[str, Any]
) -> Transcript | None:
    """The transcript with the cloud's text of the segment that has this word; None without one."""
    from edgewise.flows import transcribe as flow
    from edgewise.flows.route import make_plan
    from edgewise.types.transcripts import text_of

    known = {*HearingOptions.__annotations__} - {"request_id", "hint", "temperature"}
    given: Any = {name: value for name, value in options.items() if name in known}
    given = {"language": heard.language, **given}
    request = speech_request(parts, heard.text, given)  # its words may say that it must stay
    policy = plugins.load("policies", request.policy)
    plan = make_plan(request, policy, parts.cloud("transcribe"), None)
    segment = next((one for one in heard.segments if word in one.words), None)
    if segment is None or request.handoff == "signal":
        return None
    if not plan.may_hand_off and plan.first != "cloud":
        return None
    span = flow.span_between(segment, heard.segments, last=heard.seconds)
    (piece,) = flow.cut_pieces(sound, [span])
    answer = transcribe(parts, piece, given | {"policy": "prefer_cloud"})
    if answer.source != "cloud":
        return None
    instead = flow.corrected(segment, answer.text)
    segments = tuple(instead if one.id == segment.id else one for one in heard.segments)
    return replace(heard, segments=segments, text=text_of(segments), source="mixed")


# -- embeddings ------------------------------------------------------------------------------------


def embed(parts: Parts, texts: str | Sequence[str], options: EmbedOptions) -> Embeddings:
    """One vector per text, in order. A single text may be given alone."""
    from edgewise.flows import embed as flow

    given = checked(options, EmbedOptions)
    space, int8 = given.pop("space", ""), given.pop("int8", False)
    dimensions = given.pop("dimensions", None)
    if dimensions is not None and dimensions < 1:
        raise InvalidRequest(f"dimensions = {dimensions}: at least 1")
    messages = _as_turns([texts] if isinstance(texts, str) else texts)
    request = replace(parts.request(messages, **given), task="embed", dimensions=dimensions)
    needed = flow.EmbedNeeds(
        embedder=parts.embedder,
        cloud=lambda pinned: pinned_to(parts.cloud("embed"), pinned),
        policy=plugins.load("policies", request.policy),
        clock=time.perf_counter,
    )
    return parts.keep(
        request, lambda attempts: flow.embed(request, needed, attempts, space=space, int8=int8)
    )


def _as_turns(texts: Sequence[str]) -> tuple[Message, ...]:
    if isinstance(texts, Sequence) and not texts:
        raise InvalidRequest("there is no text to embed")
    for number, text in enumerate(as_texts(texts, "texts"), start=1):
        if not text.strip():
            raise InvalidRequest(f"text {number} is empty")
    return tuple(Message("user", text) for text in texts)


def pinned_to(cloud: Cloud, space: str) -> Cloud:
    """The same door with only those providers that make vectors of the space."""
    if space and hasattr(cloud, "door"):  # a server's door, wrapped so that it can be cancelled
        wrapped: Any = cloud
        pinned: Cloud = replace(wrapped, door=pinned_to(wrapped.door, space))
        return pinned
    if not space or not isinstance(cloud, Door):
        return cloud
    name = re.sub(r"-\d+$", "", space)
    lanes = [lane for lane in cloud.lanes if f"{lane.config.name}/{lane.config.model}" == name]
    return replace(cloud, lanes=lanes) if lanes else NoSuchSpace()


class NoSuchSpace:
    """The cloud if no provider of the chain makes vectors of the requested space."""

    def closed(self, request: Request) -> CloudClosed | None:
        return CloudClosed(
            "no provider of the chain makes vectors of that space", code="other_space"
        )

    def stream(self, request: Request, journal: list[Attempt], **_: object) -> Any:
        raise self.closed(request) or AssertionError("it is always closed")


# -- decisions -------------------------------------------------------------------------------------


def decide(
    parts: Parts, state: State, questions: Mapping[str, QuestionLike], options: DecideOptions
) -> Answers:
    """The answers to typed questions about a state."""
    from edgewise.decide.decisions import DECIDE
    from edgewise.flows import judge as flow
    from edgewise.flows.judge import LabelReader

    given = checked(options, DecideOptions)
    asked = as_questions(questions)
    request = parts.request(as_state(state), **given)
    request = replace(request, task="decide", questions=asked)
    vectors: list[Sequence[float]] = []  # of the state, made once for all questions

    def vector_of(text: str) -> Sequence[float]:
        if not vectors:
            vectors.append(parts.embedder().embed([text], pause=parts.check_wanted).vectors[0])
        return vectors[0]

    def reader(question: Question) -> QuestionReader:
        learnt = None if request.model else find_learnt(parts.settings, question)
        if learnt is not None and (learnt.reads == "words" or learnt.space == space_of(parts)):
            return flow.LearntReader(learnt, vector_of)
        return LabelReader(parts.backend(request.model))

    def calibration(read_by: QuestionReader | None, _: Question) -> Calibration:
        if isinstance(read_by, flow.LearntReader):
            return read_by.learnt.calibration
        return parts.calibration(read_by, DECIDE, other=request.model)

    needed = flow.JudgeNeeds(
        reader=reader,
        cloud=parts.cloud("decide"),
        policy=plugins.load("policies", request.policy),
        calibration=calibration,
        patience_s=parts.settings.patience_s,
        clock=time.perf_counter,
        pause=parts.check_wanted,
    )
    return parts.keep(request, lambda attempts: flow.decide(request, needed, attempts))


def space_of(parts: Parts) -> str:
    """The space of the device's vectors; empty if it makes none."""
    try:
        return parts.embedder().facts().space
    except (ModelNotFound, ExtraMissing):
        return ""


# -- pictures --------------------------------------------------------------------------------------


LONGEST_SIDE = 2000  # pixels; more detail does not help the skills, and costs seconds
MODEL_SIDE = 1024  # pixels, for a local model that sees


def see(
    parts: Parts,
    request: Request,
    needed: chat.ChatNeeds,
    attempts: list[Attempt],
    live: bool,
) -> Generator[Event, None, None]:
    """Events of a request with images, which `settled` has seen."""
    from edgewise.flows import chat
    from edgewise.flows import see as flow
    from edgewise.vision.answers import SIGHT

    backend = parts.backend(request.model) if request.model else parts.own_backend
    if sees(parts.settings, backend):
        for event in chat.answer(_for_model(request), needed, attempts, live=live):
            if isinstance(event, Finished):
                given = {each.name: getattr(event.reply, each.name) for each in fields(Reply)}
                event = Finished(SeenReply(**given))
            yield event
        return
    seen = flow.SeeNeeds(
        skill=parts.vision_skill,
        cloud=needed.cloud,
        policy=needed.policy,
        calibration=lambda skill: find_calibration(
            parts.settings, skill.facts().model.lower(), SIGHT
        ),
        patience_s=needed.patience_s,
        clock=time.perf_counter,
        chat=needed,
    )
    yield from flow.answer(request, OpenedPictures(parts, request), seen, attempts, live=live)


def settled(parts: Parts, request: Request) -> Request:
    """The request with its images fetched, counted, measured, and each unpacked once to see that it
    can be: whoever answers, a picture that cannot be opened is refused before anything is done.

    Raises InvalidRequest, or ExtraMissing without Pillow.
    """
    from edgewise.vision.fetch import fetch_pictures
    from edgewise.vision.pictures import MOST_PICTURES, check_together, open_picture

    images = [image for message in request.messages for image in message.images]
    if len(images) > MOST_PICTURES:
        raise InvalidRequest(f"{len(images)} images in one request; {MOST_PICTURES} are the most")
    images = fetch_pictures(images, private=parts.settings.private_image_urls)
    check_together(images)
    for position, image in enumerate(images, 1):
        parts.check_wanted()
        open_picture(image, position)
    left = iter(images)
    return replace(
        request,
        messages=tuple(
            replace(message, images=tuple(itertools.islice(left, len(message.images))))
            for message in request.messages
        ),
    )


class OpenedPictures:
    """The pictures that a question is about, as a skill sees them. Each is unpacked when its turn
    comes and freed before the next; only the first stays, because most questions have one.
    `notes` say what is left out.
    """

    def __init__(self, parts: Parts, request: Request) -> None:
        from edgewise.vision.pictures import note_of

        asked = max(i for i, message in enumerate(request.messages) if message.images)
        before = sum(len(message.images) for message in request.messages[:asked])
        # A question without pictures is about the newest ones.
        self._images = tuple(enumerate(request.messages[asked].images, before + 1))
        self._check_wanted = parts.check_wanted
        self._first: Picture | None = None
        notes = (note_of(image, position) for position, image in self._images)
        self.notes = tuple(filter(None, notes))

    def __len__(self) -> int:
        return len(self._images)

    def __iter__(self) -> Iterator[PictureArray]:
        import numpy as np

        from edgewise.vision.pictures import open_picture

        for position, image in self._images:
            self._check_wanted()
            picture = self._first
            if picture is None or position != self._images[0][0]:
                picture = open_picture(image, position, side=LONGEST_SIDE)
            self._first = self._first or picture
            yield np.asarray(picture.pixels, dtype=np.uint8)


def sees(settings: Settings, backend: ChatBackend | None) -> bool:
    """Whether the chat model sees pictures. Does not open or fetch it."""
    if backend is not None:
        return backend.facts().images
    if settings.projector:
        return True
    row = row_named(settings.model)
    return row is not None and any(file.name == PROJECTOR for file in row.beside)


def _for_model(request: Request) -> Request:
    """The pictures in formats that llama.cpp reads, no larger than such models use."""
    from edgewise.vision.pictures import encode, open_picture

    messages = [
        replace(
            message,
            images=tuple(encode(open_picture(image, side=MODEL_SIDE)) for image in message.images),
        )
        for message in request.messages
    ]
    return replace(request, messages=tuple(messages))
