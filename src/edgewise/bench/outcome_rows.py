"""Published outcomes of function calls and of speech: features, and whether the device was right.

No request, transcript or sound is in these files: only numbers, and names to hold rows out by.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from edgewise.bench.speech_traces import Trace, TracedSegment

DIGITS = 6


@dataclass(frozen=True, slots=True)
class AnsweredCalls:
    """The caller's answer to one request: what was known of each call, and whether all is right.

    reference  the validation case
    source     where its sentence comes from, as in training/DATA.md
    fitted     whether the shipped calibration was fitted on it
    logprob    sum over the answer's tokens
    """

    reference: str
    source: str
    fitted: bool
    right: bool
    logprob: float
    features: tuple[Mapping[str, float], ...]


def write_calls(rows: Iterable[AnsweredCalls], path: Path) -> None:
    _write((_short(asdict(row)) for row in rows), path)


def read_calls(path: Path) -> list[AnsweredCalls]:
    return [AnsweredCalls(**(row | {"features": tuple(row["features"])})) for row in _read(path)]


def write_speech(traces: Iterable[Trace], path: Path) -> None:
    """Without what was said: neither the text nor its transcript is published."""
    _write((_short(_silent(trace.to_dict())) for trace in traces), path)


def read_speech(path: Path) -> list[Trace]:
    return [
        Trace(**(row | {"text": "", "segments": tuple(_segment(each) for each in row["segments"])}))
        for row in _read(path)
    ]


def _segment(told: Mapping[str, Any]) -> TracedSegment:
    return TracedSegment(**{"text": "", **told})


def _silent(trace: dict[str, Any]) -> dict[str, Any]:
    segments = [
        {name: value for name, value in segment.items() if name != "text"}
        for segment in trace["segments"]
    ]
    return {name: value for name, value in trace.items() if name != "text"} | {"segments": segments}


def _short(value: Any) -> Any:
    """Numbers to a few digits, all the way down."""
    if isinstance(value, float):
        return round(value, DIGITS)
    if isinstance(value, Mapping):
        return {name: _short(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_short(each) for each in value]
    return value


def _write(rows: Iterable[Mapping[str, Any]], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def _read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
