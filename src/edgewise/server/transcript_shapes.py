"""A transcript in OpenAI's shapes. What nobody measured is null, never a made-up number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgewise.server import report
from edgewise.speech.subtitles import as_srt, as_vtt
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
