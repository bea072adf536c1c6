"""Lets the device answer labelled requests as users run it, and keeps each answer's evidence.

Answers are kept in the cache, so that an interrupted run continues where it stopped. The user's
ledger plays no part.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TextIO

from edgewise.calibrate.rows import Call, LabelledCall, LabelledSound, Question, exact, is_right
from edgewise.decide.calibration import Head, Meter, Reading
from edgewise.decide.gate import decided_after
from edgewise.engine import Engine
from edgewise.local.backend import ChatBackend
from edgewise.settings import Settings
from edgewise.speech.words import LOW_ERROR, errors_by_segment
from edgewise.types.messages import Message, Request
from edgewise.types.replies import Finish, Token

MAX_TOKENS = 48
Progress = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Trace:
    """One question, the model's answer, and the evidence of each token."""

    question: Question
    tokens: tuple[Token, ...]
    ended: bool  # False: cut at MAX_TOKENS
    states: tuple[float | None, ...] = ()  # what a head read after each token
    before: float | None = None
    engine: float | None = None  # the runtime's own confidence

    @property
    def text(self) -> str:
        return "".join(token.text for token in self.tokens)

    @property
    def right(self) -> bool:
        return is_right(self.question, self.text)

    def readings(self) -> list[Reading]:
        """The meter's reading after each token, as the gate would have seen it."""
        readings = readings_of(self.tokens)
        if self.engine is not None and readings:  # it comes with the end
            readings[-1] = replace(readings[-1], engine=self.engine)
        if not self.states:
            return readings
        pairs = zip(readings, self.states, strict=True)
        return [replace(each, state=state, before=self.before) for each, state in pairs]


def rating_of(items: Iterable[Token | Finish]) -> dict[str, float]:
    """The runtime's own confidence, to be kept with an answer; empty if it gives none."""
    found = [item.confidence for item in items if isinstance(item, Finish)]
    return {} if not found or found[0] is None else {"engine": found[0]}


def readings_of(tokens: Iterable[Token]) -> list[Reading]:
    meter = Meter()
    readings = []
    for token in tokens:
        meter.add(token)
        readings.append(meter.reading())
    return readings


@dataclass(frozen=True, slots=True)
class Sample:
    """A trace as the fit sees it.

    decided_after  tokens after which the gate decides on it; None: at its end
    """

    kind: str
    right: bool
    readings: tuple[Reading, ...]
    decided_after: int | None = None

    def at(self, count: int | None) -> Reading:
        """After `count` tokens; at the end if the answer is shorter or `count` is None."""
        end = len(self.readings) if count is None else min(count, len(self.readings))
        return self.readings[end - 1]


def make_samples(traces: Sequence[Trace]) -> list[Sample]:
    """An answer without evidence cannot be judged, and is left out."""
    samples = [
        Sample(
            trace.question.kind,
            trace.right,
            tuple(trace.readings()),
            decided_after([token.text for token in trace.tokens]),
        )
        for trace in traces
    ]
    return [sample for sample in samples if sample.readings]


@dataclass(frozen=True, slots=True)
class Scored:
    """One answer or segment: its confidence, and whether it is right.

    `row` is the row it belongs to: rows are split whole.
    """

    row: int
    confidence: float
    right: bool
    features: dict[str, float]
    gated: bool = False  # held back for what it says, whatever its confidence


def answers_path(settings: Settings, name: str, *unique: object) -> Path:
    """Answers belong to exact weights, a runtime and everything in `unique`."""
    digest = hashlib.sha256(repr(unique).encode()).hexdigest()[:12]
    return settings.cache_dir / "calibrate" / f"{name}-{digest}.jsonl"


def answer_chat(
    backend: ChatBackend,
    questions: Sequence[Question],
    path: Path,
    max_tokens: int,
    progress: Progress = lambda: None,
    heads: Mapping[str, Head] | None = None,
) -> list[Sample]:
    """An answer without evidence cannot be judged, and is left out."""
    return make_samples(collect_traces(backend, questions, path, progress, max_tokens, heads))


def answer_calls(
    settings: Settings, rows: Sequence[LabelledCall], path: Path, progress: Progress = lambda: None
) -> list[Scored]:
    """Right means the same calls in any order, with the same arguments and no others."""

    def answer(engine: Engine, row: LabelledCall) -> list[dict[str, Any]]:
        reply = engine.call(row.prompt, row.tools, policy="local_only")
        calls: list[Call] = [(call.name, dict(call.arguments)) for call in reply.calls]
        sure, threshold = reply.confidence or 0.0, reply.decision.threshold or 0.0
        return [
            {
                "confidence": sure,
                "gated": reply.needs_cloud_handoff and sure >= threshold,
                "right": exact(calls, row.calls),
                "features": dict(reply.decision.features),
            }
        ]

    return _answered(settings, rows, path, answer, progress, _call_key)


def answer_speech(
    settings: Settings, rows: Sequence[LabelledSound], path: Path, progress: Progress = lambda: None
) -> list[Scored]:
    """Segments. Those with few wrong words are right."""

    def answer(engine: Engine, row: LabelledSound) -> list[dict[str, Any]]:
        segments = engine.transcribe(row.path, policy="local_only").segments
        errors = errors_by_segment(row.text, [segment.text for segment in segments])
        return [
            {
                "confidence": segment.confidence or 0.0,
                "right": found.rate <= LOW_ERROR,
                "features": dict(segment.features),
            }
            for segment, found in zip(segments, errors, strict=True)
        ]

    return _answered(settings, rows, path, answer, progress, _sound_key)


def collect_traces(
    backend: ChatBackend,
    questions: Sequence[Question],
    path: Path,
    progress: Progress = lambda: None,
    max_tokens: int = MAX_TOKENS,
    heads: Mapping[str, Head] | None = None,
) -> list[Trace]:
    """A trace for each question, generated or read from `path`; new ones are appended.

    `heads` read the hidden states, if the model gives any.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)  # the questions are somebody's own
    known = read_answers(path)
    traces = []
    with path.open("a", encoding="utf-8") as file:
        for question in questions:
            key = key_of(question)
            if key not in known:
                known[key] = _generate(backend, question, max_tokens, heads or {})
                write_answer(file, key, known[key])
            traces.append(_parse_trace(question, known[key]))
            progress()
    return traces


def key_of(question: Question) -> str:
    """What an answer is kept under."""
    said = "\n\n".join((*question.earlier, question.prompt))
    return f"{question.system}\n\n{said}" if question.system else said


def read_answers(path: Path) -> dict[str, dict[str, Any]]:
    """The answers that are known already, by their keys."""
    return _kept(path, "prompt")


def write_answer(file: TextIO, key: str, entry: Mapping[str, Any]) -> None:
    """At once: an interrupted run goes on from here."""
    file.write("\n" + json.dumps({"prompt": key, **entry}))  # the line before may be incomplete
    file.flush()


def request_of(question: Question, max_tokens: int) -> Request:
    """Exactly what a user asks: greedy, the model's own system prompt, the same request body."""
    system = (Message("system", question.system),) if question.system else ()
    turns = tuple(
        Message("assistant" if place % 2 else "user", text)
        for place, text in enumerate((*question.earlier, question.prompt))
    )
    return Request(messages=(*system, *turns), max_tokens=max_tokens)


def _generate(
    backend: ChatBackend, question: Question, max_tokens: int, heads: Mapping[str, Head]
) -> dict[str, Any]:
    request, meter = request_of(question, max_tokens), Meter(heads)
    items = list(
        backend.generate(request)
        if not heads
        else backend.generate(
            request,
            layer=heads["state"].layer if "state" in heads else 0,
            prompt_layer=heads["before"].layer if "before" in heads else 0,
        )
    )
    states: list[float | None] = []
    for item in items:
        if isinstance(item, Token):
            meter.add(item)
            states.append(meter.reading().state)
        else:
            meter.end(item.state)
    if states:
        states[-1] = meter.reading().state  # the state of the last token comes with the end
    entry = {
        "tokens": [pack_token(item) for item in items if isinstance(item, Token)],
        "ended": any(isinstance(item, Finish) and item.reason == "stop" for item in items),
    }
    entry |= rating_of(items)
    return entry | ({"states": states, "before": meter.reading().before} if heads else {})


def pack_token(token: Token) -> list[Any]:
    numbers = (round(value, 5) for value in (token.logprob, token.margin, token.entropy))
    return [token.text, *numbers, token.has_evidence]


def _parse_trace(question: Question, data: dict[str, Any]) -> Trace:
    tokens = tuple(Token(*packed) for packed in data["tokens"])
    states = tuple(data.get("states", ()))
    return Trace(question, tokens, data["ended"], states, data.get("before"), data.get("engine"))


def _answered(
    settings: Settings,
    rows: Sequence[Any],
    path: Path,
    answer: Callable[[Engine, Any], list[dict[str, Any]]],
    progress: Progress,
    key_of: Callable[[Any], str],
) -> list[Scored]:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)  # the questions are somebody's own
    known = {key: entry["answers"] for key, entry in _kept(path, "key").items()}
    found: list[Scored] = []
    with (
        TemporaryDirectory(prefix="edgewise-calibrate-") as folder,
        _engine_in(Path(folder), settings) as engine,
        path.open("a", encoding="utf-8") as file,
    ):
        for number, row in enumerate(rows):
            key = key_of(row)
            if key not in known:
                known[key] = answer(engine, row)
                # The newline first: the line before may be incomplete.
                file.write("\n" + json.dumps({"key": key, "answers": known[key]}))
                file.flush()
            found += [Scored(number, **each) for each in known[key]]
            progress()
    return found


def _engine_in(folder: Path, settings: Settings) -> Engine:
    """An engine that leaves no trace, with the calibrations in use."""
    own = settings.with_changes(data_dir=str(folder), audit_share=0.0)
    if settings.calibrations_dir.is_dir():
        shutil.copytree(settings.calibrations_dir, own.calibrations_dir)
    return Engine(own)


def _call_key(row: LabelledCall) -> str:
    parts = (row.prompt, [asdict(tool) for tool in row.tools], row.calls)
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()


def _sound_key(row: LabelledSound) -> str:
    content = hashlib.sha256(row.path.read_bytes()).hexdigest()
    return hashlib.sha256(f"{content} {row.text}".encode()).hexdigest()


def _kept(path: Path, key: str) -> dict[str, dict[str, Any]]:
    """The existing lines by their value of `key`."""
    known = {}
    for line in path.read_text("utf-8").split("\n") if path.exists() else ():
        try:
            entry = json.loads(line)
            known[entry[key]] = entry
        except ValueError:  # empty, or incomplete after an interruption
            continue
    return known
