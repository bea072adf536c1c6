"""`/v1/audio`: what a sound file says, as it is or in English, and text that is spoken."""

from __future__ import annotations

import base64
import contextvars
import math
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NotRequired

from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema
from typing_extensions import TypedDict

from edgewise import tasks
from edgewise.server.access import Served
from edgewise.server.answer import Incoming, logged, only, routed_options, telling
from edgewise.server.body import (
    BadField,
    Between,
    DescribedBy,
    Many,
    Model,
    Text,
    Upload,
    parse_form,
    read_body,
    read_model,
)
from edgewise.server.chat import ModelName, NamedLogprob
from edgewise.server.errors import Fault, openai_error
from edgewise.server.state import ServerState
from edgewise.server.wire import (
    EVENTS,
    JSON,
    Amount,
    Chance,
    Count,
    Head,
    Report,
    Routing,
    Work,
    report,
    report_headers,
    sse,
    to_json,
    whole,
)
from edgewise.speech.words import as_srt, as_vtt, named
from edgewise.types.messages import (
    OBJECTIVES,
    Audio,
    Channels,
    SoundFormat,
    SpeechOptions,
    Word,
)
from edgewise.types.replies import Place
from edgewise.types.transcripts import Segment, Transcript

LEAST = -100.0  # the log of a chance of nothing, in OpenAI's spelling
MOST_TEMPERATURE = 1.0  # as OpenAI's
LISTS = ("timestamp_granularities", "include")  # fields that may come more than once
TEXT = {"content-type": "text/plain; charset=utf-8"}
_TRUTHS = {"true": True, "1": True, "false": False, "0": False, "": False}


def _truth(value: str) -> bool:
    if value.lower() not in _TRUTHS:
        raise ValueError("expected true or false")
    return _TRUTHS[value.lower()]


def _temperature(value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not 0 <= number <= MOST_TEMPERATURE:
        raise ValueError(f"expected 0 to {MOST_TEMPERATURE:g}")
    return number


class TranscriptionForm(Model):
    """All fields of a form are text. A list may be called `name` or `name[]`."""

    model_config = ConfigDict(loc_by_alias=False)

    file: Annotated[
        Any,
        WithJsonSchema({"type": "string", "format": "binary", "description": "a sound file"}),
    ]
    model: ModelName = "auto"
    language: Annotated[
        Text,
        Field(
            description="a code like en; empty: found out",
            json_schema_extra={"pattern": "^([A-Za-z]{2,3}([-_].*)?|[Aa]uto)?$"},
        ),
    ] = ""
    prompt: Annotated[Text, Field(description="words that show how it is spelt")] = ""
    temperature: Annotated[
        float | None,
        BeforeValidator(lambda value: _temperature(value) if value.strip() else None),
        WithJsonSchema({"type": "number", "minimum": 0, "maximum": MOST_TEMPERATURE}),
    ] = None
    response_format: Annotated[
        Literal["json", "text", "srt", "verbose_json", "vtt"],
        BeforeValidator(lambda value: value or "json"),
    ] = "json"
    timestamp_granularities: Annotated[
        Many[Literal["word", "segment"]], Field(alias="timestamp_granularities[]")
    ] = Field(default_factory=list)
    include: Annotated[Many[Literal["logprobs"]], Field(alias="include[]")] = Field(
        default_factory=list
    )
    channels: Annotated[
        Channels,
        BeforeValidator(lambda value: value or "mixed"),
        Field(description="split: each channel is a speaker of its own"),
    ] = "mixed"
    stream: Annotated[
        bool,
        BeforeValidator(_truth),
        WithJsonSchema({"enum": ["true", "false", "1", "0", ""]}),
    ] = False


class WordTimes(TypedDict):
    word: str
    start: Amount
    end: Amount


class VerboseSegment(TypedDict):
    """Evidence that nobody measured is null."""

    id: Count
    seek: Count
    start: Amount
    end: Amount
    text: str
    tokens: list[int]
    temperature: float | None
    avg_logprob: float | None
    compression_ratio: float | None
    no_speech_prob: float | None
    speaker: NotRequired[str]


class Duration(TypedDict):
    type: Literal["duration"]
    seconds: Count


class SegmentReport(TypedDict):
    id: Count
    start: Amount
    end: Amount
    source: Place
    confidence: Chance | None
    expected_error: float | None
    corrected: bool
    codes: list[str]
    error: str
    speaker: str


class SpeechReport(Report):
    language: str
    seconds: Amount
    speech_seconds: Amount
    codes: list[str]
    segments: list[SegmentReport]
    dropped: Count


class Transcription(TypedDict):
    text: str
    logprobs: NotRequired[list[NamedLogprob]]
    usage: Duration
    edgewise: SpeechReport


class VerboseTranscription(TypedDict):
    task: Literal["transcribe", "translate"]
    language: str
    duration: Amount
    text: str
    segments: NotRequired[list[VerboseSegment]]
    words: NotRequired[list[WordTimes]]
    usage: Duration
    edgewise: SpeechReport


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedDetails:
    """Which details a client asked for."""

    words: bool = False
    segments: bool = True
    logprobs: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioRequest:
    """One request as read from its form."""

    audio: Upload
    model: str
    style: str
    wanted: WantedDetails
    stream: bool
    options: Mapping[str, Any]


def transcriptions(state: ServerState, incoming: Incoming) -> Work:
    return _served(state, incoming, translate=False)


def translations(state: ServerState, incoming: Incoming) -> Work:
    return _served(state, incoming, translate=True)


def _served(state: ServerState, incoming: Incoming, *, translate: bool) -> Work:
    """The whole of one request, on its own thread."""
    name = "audio.translations" if translate else "audio.transcriptions"
    served = Served(endpoint=name, client=incoming.client.name)

    def work() -> Work:
        asked = _read(state, incoming, translate)
        served.model, served.stream = asked.model[:80], asked.stream
        if asked.stream:
            streamed = _streamed(state, incoming, asked, served)
            yield from telling(served, incoming.cancellation, streamed, _error_event)
        else:
            yield from _whole(state, incoming, asked, served)

    yield from logged(state, served, incoming.cancellation, work, openai_error)


def _error_event(fault: Fault) -> Iterator[bytes]:
    yield sse({"type": "error", **openai_error(fault)})


def _read(state: ServerState, incoming: Incoming, translate: bool) -> AudioRequest:
    form = parse_form(incoming.headers.get("content-type", ""), incoming.body)
    audio = form.files.get("file")
    if audio is None:
        raise BadField("file", "is required")
    values: dict[str, Any] = {
        name: form.text(name) for name in form.texts if name.removesuffix("[]") not in LISTS
    }
    values |= {f"{name}[]": list(form.listed(name)) for name in LISTS}
    given = read_model(TranscriptionForm, values | {"file": audio})
    metadata = form.inner("metadata")
    parts = state.engine.parts
    device = parts.translator if translate else parts.transcriber
    options = routed_options(state, incoming, given.model, metadata, device)
    guide: dict[str, Any] = {"language": given.language, "hint": given.prompt}
    guide |= {"translate": translate, "channels": given.channels}
    if given.temperature is not None:
        guide["temperature"] = given.temperature
    times = given.timestamp_granularities
    return AudioRequest(
        audio=audio,
        model=given.model,
        style=given.response_format,
        wanted=WantedDetails(
            words="word" in times,
            segments="segment" in times or not times,
            logprobs="logprobs" in given.include,
        ),
        stream=given.stream,
        options=options | guide,
    )


def _hear(
    state: ServerState, incoming: Incoming, asked: AudioRequest, settled: Callable[[Segment], None]
) -> Transcript:
    """Between two pieces of sound it is asked whether the client is still there.

    A file says how long it is, or does not, or lies: what is decoded counts too.
    """
    most = state.server.sound_s

    def look(done_s: float, total_s: float) -> None:
        incoming.cancellation.check()
        if max(done_s, total_s) > most:
            raise BadField("file", f"more than {most:g} s of sound ([server] sound_s)")

    given: Any = {**asked.options, "progress": look}
    options: SpeechOptions = given
    audio = Audio(asked.audio.data, asked.audio.media_type)
    heard = tasks.transcribe(state.engine.parts, audio, options, settled)
    incoming.cancellation.check()
    return heard


def _whole(state: ServerState, incoming: Incoming, asked: AudioRequest, served: Served) -> Work:
    heard = _hear(state, incoming, asked, lambda _: None)
    _note(served, heard)
    if asked.style in ("json", "verbose_json"):
        if asked.style == "verbose_json":
            written: Any = verbose_body(heard, asked.wanted, translate=asked.options["translate"])
        else:
            written = json_body(heard, asked.wanted)
        kind, body = JSON, to_json(written)
    else:
        kind, body = TEXT, plain_body(heard, asked.style).encode()
    yield whole(200, kind | report_headers(heard), body)


def _streamed(state: ServerState, incoming: Incoming, asked: AudioRequest, served: Served) -> Work:
    """Each segment is sent when it is final, so that nothing shown is ever taken back."""
    told: queue.SimpleQueue[Segment | Transcript | BaseException] = queue.SimpleQueue()

    def hear() -> None:
        try:
            told.put(_hear(state, incoming, asked, told.put))
        except BaseException as error:  # noqa: BLE001 - the reader raises it
            told.put(error)

    context = contextvars.copy_context()
    worker = threading.Thread(target=context.run, args=(hear,), name="edgewise-request-hearing")
    worker.start()
    try:
        shown = False
        while True:
            piece = told.get()
            if isinstance(piece, BaseException):
                raise piece
            if served.status == 0:
                served.status, served.first_s = 200, time.perf_counter() - served.started
                yield Head(200, EVENTS)
            if isinstance(piece, Segment):
                yield sse(delta_event(piece, asked.wanted, first=not shown))
                shown = True
            else:
                _note(served, piece)
                yield sse(done_event(piece, asked.wanted))
                return
    finally:
        worker.join()


def _note(served: Served, heard: Transcript) -> None:
    served.reply, served.status, served.code = heard, 200, heard.decision.code
    served.id = heard.id


def json_body(heard: Transcript, wanted: WantedDetails) -> Transcription:
    body: Transcription = {
        "text": heard.text,
        "usage": usage(heard),
        "edgewise": full_report(heard),
    }
    if wanted.logprobs:
        body["logprobs"] = _logprobs(heard.words)
    return body


def verbose_body(
    heard: Transcript, wanted: WantedDetails, *, translate: bool = False
) -> VerboseTranscription:
    """The language is that of the text; the `edgewise` object has the one that was spoken."""
    body: VerboseTranscription = {
        "task": "translate" if translate else "transcribe",
        "language": "english" if translate else heard.language,
        "duration": heard.seconds,
        "text": heard.text,
        "usage": usage(heard),
        "edgewise": full_report(heard),
    }
    if wanted.segments:
        body["segments"] = [_segment(each) for each in heard.segments]
    if wanted.words:
        body["words"] = [
            {"word": word.text, "start": word.start, "end": word.end} for word in heard.words
        ]
    return body


def plain_body(heard: Transcript, style: str) -> str:
    if style == "srt":
        return as_srt(heard.segments)
    if style == "vtt":
        return as_vtt(heard.segments)
    if any(segment.speaker for segment in heard.segments):
        return "".join(f"{named(segment)}\n" for segment in heard.segments)
    return f"{heard.text}\n"


def delta_event(segment: Segment, wanted: WantedDetails, *, first: bool) -> dict[str, Any]:
    """The text of one segment; texts put together are the transcript's."""
    event: dict[str, Any] = {
        "type": "transcript.text.delta",
        "delta": segment.text if first else f" {segment.text}",
        "segment_id": str(segment.id),
    }
    if wanted.logprobs:
        event["logprobs"] = _logprobs(segment.words)
    return event | {"edgewise": segment_report(segment)}


def done_event(heard: Transcript, wanted: WantedDetails) -> dict[str, Any]:
    return {"type": "transcript.text.done", **json_body(heard, wanted)}


def full_report(heard: Transcript) -> SpeechReport:
    """The `edgewise` object: as of every answer, and where each segment comes from."""
    return {
        **report(heard),
        "language": heard.language,
        "seconds": heard.seconds,
        "speech_seconds": heard.speech_seconds,
        "codes": list(heard.codes),
        "segments": [segment_report(each) for each in heard.segments],
        "dropped": len(heard.dropped),
    }


def segment_report(segment: Segment) -> SegmentReport:
    return {
        "id": segment.id,
        "start": segment.start,
        "end": segment.end,
        "source": segment.source,
        "confidence": segment.confidence,
        "expected_error": segment.expected_error,
        "corrected": segment.replaced is not None,
        "codes": list(segment.codes),
        "error": segment.error,
        "speaker": segment.speaker,
    }


def usage(heard: Transcript) -> Duration:
    return {"type": "duration", "seconds": math.ceil(heard.seconds)}


def _segment(segment: Segment) -> VerboseSegment:
    """Evidence is the device's; where the cloud's words stand there is none about them."""
    evidence = segment.features if segment.source == "local" else {}
    written: VerboseSegment = {
        "id": segment.id,
        "seek": round(100 * segment.start),
        "start": segment.start,
        "end": segment.end,
        "text": segment.text,
        "tokens": [],
        "temperature": evidence.get("temperature"),
        "avg_logprob": evidence.get("mean_logprob"),
        "compression_ratio": evidence.get("compression"),
        "no_speech_prob": evidence.get("no_speech"),
    }
    if segment.speaker:
        written["speaker"] = segment.speaker
    return written


def _logprobs(words: Sequence[Word]) -> list[NamedLogprob]:
    """One entry a word: words are what the device has evidence for."""
    return [
        {
            "token": word.text,
            "bytes": list(word.text.encode()),
            "logprob": math.log(word.probability) if word.probability else LEAST,
        }
        for word in words
        if word.probability is not None
    ]


# -- a text, spoken --------------------------------------------------------------------------------


class VoiceId(Model):
    id: Text


class SpeechRequest(Model):
    """`instructions` are for models that take some: no voice here does."""

    input: Annotated[Text, Field(min_length=1)]
    model: ModelName = "auto"
    voice: Text | VoiceId = ""
    response_format: SoundFormat | None = None
    speed: Annotated[float, Between(tasks.SLOWEST_VOICE, tasks.QUICKEST_VOICE)] | None = None
    language: Annotated[Text, Field(description="of the device's voice, as en-gb")] = ""
    instructions: Text | None = None
    stream_format: Literal["audio", "sse"] | None = None
    metadata: Annotated[dict[str, Any], DescribedBy(Routing)] | None = None


def speech(state: ServerState, incoming: Incoming) -> Work:
    """The whole of one request, on its own thread."""
    served = Served(endpoint="audio.speech", client=incoming.client.name)

    def work() -> Work:
        asked = read_body(SpeechRequest, incoming.body)
        served.model = asked.model[:80]
        device = state.engine.parts.voice
        options = routed_options(state, incoming, asked.model, asked.metadata or {}, device)
        # A voice has no confidence.
        options = only(options, without=(*OBJECTIVES, "error_probability", "deadline_ms"))
        given: Any = options | {
            "voice": asked.voice if isinstance(asked.voice, str) else asked.voice.id,
            "language": asked.language,
            "speed": asked.speed,
            "format": asked.response_format or "mp3",  # as OpenAI's
        }
        incoming.cancellation.check()
        spoken = state.engine.speak(asked.input, **given)
        served.reply, served.status, served.code = spoken, 200, spoken.decision.code
        served.id = spoken.id
        head = report_headers(spoken)
        if asked.stream_format == "sse":
            sound = base64.b64encode(spoken.audio.data).decode("ascii")
            said = sse({"type": "speech.audio.delta", "audio": sound})
            said += sse({"type": "speech.audio.done", "edgewise": report(spoken)})
            yield whole(200, {**EVENTS, **head}, said)
        else:
            kind = {"content-type": spoken.audio.media_type}
            yield whole(200, {**kind, **head}, spoken.audio.data)

    yield from logged(state, served, incoming.cancellation, work, openai_error)
