"""`/v1/audio/transcriptions`: what is said in a sound file, in each of OpenAI's shapes."""

from __future__ import annotations

import contextvars
import math
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgewise.errors import EdgewiseError
from edgewise.server import report
from edgewise.server.access_log import Served
from edgewise.server.answer import (
    EVENTS,
    JSON,
    Incoming,
    fault_to_tell,
    noted,
    only,
    routed_options,
)
from edgewise.server.fields import BadField, Fields
from edgewise.server.multipart import Form, Upload, parse_form
from edgewise.server.openai.chat import openai_error
from edgewise.server.state import ServerState
from edgewise.server.wire import Head, Work, sse, to_json
from edgewise.speech.subtitles import as_srt, as_vtt
from edgewise.types.messages import Audio, SpeechOptions
from edgewise.types.transcripts import Segment, Transcript, Word

LEAST = -100.0  # the log of a chance of nothing, in OpenAI's spelling


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which details a client asked for."""

    words: bool = False
    segments: bool = True
    logprobs: bool = False


def json_body(heard: Transcript, wanted: Wanted) -> dict[str, Any]:
    body: dict[str, Any] = {"text": heard.text}
    if wanted.logprobs:
        body["logprobs"] = _logprobs(heard.words)
    return body | {"usage": usage(heard), "edgewise": full_report(heard)}


def verbose_body(heard: Transcript, wanted: Wanted) -> dict[str, Any]:
    body: dict[str, Any] = {
        "task": "transcribe",
        "language": heard.language,
        "duration": heard.seconds,
        "text": heard.text,
    }
    if wanted.segments:
        body["segments"] = [_segment(each) for each in heard.segments]
    if wanted.words:
        body["words"] = [
            {"word": word.text, "start": word.start, "end": word.end} for word in heard.words
        ]
    return body | {"usage": usage(heard), "edgewise": full_report(heard)}


def plain_body(heard: Transcript, style: str) -> str:
    if style == "srt":
        return as_srt(heard.segments)
    return as_vtt(heard.segments) if style == "vtt" else f"{heard.text}\n"


def delta_event(segment: Segment, wanted: Wanted, *, first: bool) -> dict[str, Any]:
    """The text of one segment; texts put together are the transcript's."""
    event: dict[str, Any] = {
        "type": "transcript.text.delta",
        "delta": segment.text if first else f" {segment.text}",
        "segment_id": str(segment.id),
    }
    if wanted.logprobs:
        event["logprobs"] = _logprobs(segment.words)
    return event | {"edgewise": segment_report(segment)}


def done_event(heard: Transcript, wanted: Wanted) -> dict[str, Any]:
    return {"type": "transcript.text.done"} | json_body(heard, wanted)


def full_report(heard: Transcript) -> dict[str, Any]:
    """The `edgewise` object: as of every answer, and where each segment comes from."""
    return report.report(heard) | {
        "language": heard.language,
        "seconds": heard.seconds,
        "speech_seconds": heard.speech_seconds,
        "codes": list(heard.codes),
        "segments": [segment_report(each) for each in heard.segments],
        "dropped": len(heard.dropped),
    }


def segment_report(segment: Segment) -> dict[str, Any]:
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
    }


def usage(heard: Transcript) -> dict[str, Any]:
    return {"type": "duration", "seconds": math.ceil(heard.seconds)}


def _segment(segment: Segment) -> dict[str, Any]:
    """Evidence is the device's; where the cloud's words stand there is none about them."""
    evidence = segment.features if segment.source == "local" else {}
    return {
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


def _logprobs(words: Sequence[Word]) -> list[dict[str, Any]]:
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


TEXT = {"content-type": "text/plain; charset=utf-8"}
FORMATS = ("json", "text", "srt", "verbose_json", "vtt")
MOST_TEMPERATURE = 1.0  # as OpenAI's
_TRUTHS = {"true": True, "1": True, "false": False, "0": False, "": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request as read from its form."""

    audio: Upload
    model: str
    style: str
    wanted: Wanted
    stream: bool
    options: Mapping[str, Any]


def transcriptions(state: ServerState, incoming: Incoming) -> Work:
    """The whole of one request, on its own thread."""
    served = Served(endpoint="audio.transcriptions", client=incoming.client.name)

    def work() -> Work:
        asked = _read(state, incoming)
        served.model, served.stream = asked.model[:80], asked.stream
        answered = _streamed if asked.stream else _whole
        yield from answered(state, incoming, asked, served)

    yield from noted(state, served, incoming.cancellation, work, openai_error)


def _read(state: ServerState, incoming: Incoming) -> Asked:
    form = parse_form(incoming.headers.get("content-type", ""), incoming.body)
    if "file" not in form.files:
        raise BadField("file", "is required")
    style = _one_of("response_format", form.text("response_format") or "json", FORMATS)
    times = form.listed("timestamp_granularities")
    for name in times:
        _one_of("timestamp_granularities", name, ("word", "segment"))
    for name in form.listed("include"):
        _one_of("include", name, ("logprobs",))
    if form.text("stream").lower() not in _TRUTHS:
        raise BadField("stream", "expected true or false")
    model = form.text("model", "auto")
    metadata = Fields(form.inner("metadata"), "metadata")
    options = routed_options(state, incoming, model, metadata, state.engine._open_transcriber)
    return Asked(
        audio=form.files["file"],
        model=model,
        style=style,
        wanted=Wanted(
            words="word" in times,
            segments="segment" in times or not times,
            logprobs="logprobs" in form.listed("include"),
        ),
        stream=_TRUTHS[form.text("stream").lower()],
        options=only(options, without=("deadline_ms",)) | _guide(form),
    )


def _guide(form: Form) -> dict[str, Any]:
    """What is asked of whoever hears it."""
    given: dict[str, Any] = {"language": form.text("language"), "hint": form.text("prompt")}
    if text := form.text("temperature").strip():
        try:
            given["temperature"] = float(text)
        except ValueError:
            given["temperature"] = math.nan
        if not 0 <= given["temperature"] <= MOST_TEMPERATURE:
            raise BadField("temperature", f"expected 0 to {MOST_TEMPERATURE:g}")
    return given


def _one_of(name: str, value: str, known: tuple[str, ...]) -> str:
    if value not in known:
        raise BadField(name, f"expected one of {', '.join(known)}, got {value[:40]!r}")
    return value


def _hear(
    state: ServerState, incoming: Incoming, asked: Asked, settled: Callable[[Segment], None]
) -> Transcript:
    """Between two pieces of sound it is asked whether the client is still there."""
    from edgewise.assembly import speech  # noqa: PLC0415  # as in the engine: with the first sound

    given: Any = {**asked.options, "progress": lambda *_: incoming.cancellation.check()}
    options: SpeechOptions = given
    audio = Audio(asked.audio.data, asked.audio.media_type)
    heard = speech.transcribe(state.engine, audio, options, settled)
    incoming.cancellation.check()
    return heard


def _whole(state: ServerState, incoming: Incoming, asked: Asked, served: Served) -> Work:
    heard = _hear(state, incoming, asked, lambda _: None)
    _note(served, heard)
    if asked.style in ("json", "verbose_json"):
        write = verbose_body if asked.style == "verbose_json" else json_body
        kind, body = JSON, to_json(write(heard, asked.wanted))
    else:
        kind, body = TEXT, plain_body(heard, asked.style).encode()
    yield Head(200, kind | report.headers(heard) | {"content-length": str(len(body))})
    yield body


def _streamed(state: ServerState, incoming: Incoming, asked: Asked, served: Served) -> Work:
    """Each segment is sent when it is final, so that nothing shown is ever taken back.

    The head is sent with the first of them: until then a fault can still have its own status.
    """
    told: queue.SimpleQueue[Segment | Transcript | EdgewiseError | None] = queue.SimpleQueue()

    def hear() -> None:
        try:
            told.put(_hear(state, incoming, asked, told.put))
        except EdgewiseError as error:
            told.put(error)
        finally:
            told.put(None)  # in case of what nobody foresaw

    context = contextvars.copy_context()
    worker = threading.Thread(target=context.run, args=(hear,), name="edgewise-request-ears")
    worker.start()
    try:
        shown = False
        while (piece := told.get()) is not None:
            if isinstance(piece, EdgewiseError):
                fault = fault_to_tell(piece, incoming.cancellation)
                if served.status and fault is not None:
                    yield sse({"type": "error", **openai_error(fault)})
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
        raise RuntimeError("the transcription ended without an end")
    finally:
        worker.join()


def _note(served: Served, heard: Transcript) -> None:
    served.reply, served.status, served.code = heard, 200, heard.decision.code
    served.id = heard.id
