"""What a model emits, and what a user gets: the reply, its decision, attempts, events, sights."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from array import array
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Generic, Literal, NamedTuple

from typing_extensions import TypeVar, override

from edgewise.types.messages import Handoff, Source, ToolCall

# -- what a model emits ----------------------------------------------------------------------------


FinishReason = Literal["stop", "length", "tool_calls", "filtered"]


@dataclass(frozen=True, slots=True)
class Token:
    """One generated token with the model's own evidence about it.

    logprob  natural log of the probability the model gave this token
    margin   logprob of the best token minus logprob of the second best (0 = a coin toss)
    entropy  Shannon entropy in nats over the best few alternatives and one for the rest
    alternatives  the best few tokens with their logprobs; only if evidence was requested
    state    the hidden state that the token was predicted from, as numpy floats or an `array`; only
             if a layer was named. That of the first token is the state behind the prompt.

    Some text comes without evidence (a runtime that reports none, a flushed buffer). It has
    `has_evidence=False`, and the meter skips it.
    """

    text: str
    logprob: float = 0.0
    margin: float = 0.0
    entropy: float = 0.0
    has_evidence: bool = True
    alternatives: tuple[tuple[str, float], ...] = ()
    state: Any = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Vectors:
    """Embeddings, one per text, in the order of the texts."""

    values: tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class Judged:
    """A cloud's answers to typed questions: the chance of each option, by name of the question.

    A question that is missing was not answered: the provider refused it.
    guessed  a chat model named the options; its chances say nothing about how sure it was
    """

    chances: Mapping[str, Mapping[str, float]]
    guessed: bool = False


@dataclass(frozen=True, slots=True)
class Voiced:
    """A cloud's spoken words: the bytes of a file, and what kind of file (`SoundFormat`)."""

    data: bytes = field(repr=False)
    kind: str
    voice: str


@dataclass(frozen=True, slots=True)
class Raw:
    """A piece of a cloud's answer as the provider wrote it, for a client of the same protocol.

    written   its bytes: one event of a stream, or the whole body
    value     the JSON in it; None if there is none
    text      the words of the answer in it
    size      bytes of the answer in it that are no words: of calls, and of thoughts
    closing   it says how the answer ended, or comes after that
    headers   of the response that are the client's; of the first piece only
    """

    written: bytes = field(repr=False)
    value: Any = field(default=None, repr=False, compare=False)
    text: str = ""
    size: int = 0
    closing: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Finish:
    """The last item of every stream, local or cloud.

    audio_tokens   how many of `input_tokens` were sound
    audio_seconds  of sound that was charged for; if unknown, that was sent
    stored_tokens  how many of `input_tokens` the provider put into its cache, which costs more
    stored_long_tokens  of those, for an hour, which costs more still
    spoken_tokens  how many of `output_tokens` are sound
    searches       of the web, each of which is charged for
    characters     of text that was spoken, where that is what is charged for
    passes         of the model, for prompt and answer; 0 if unknown
    state          the hidden state behind the last token of the answer, as in `Token`
    confidence     the runtime's own, of the whole answer, if it has one; what it is worth only a
                   calibration can say
    """

    reason: FinishReason = "stop"
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    estimated: bool = False
    audio_tokens: int = 0
    audio_seconds: float = 0.0
    stored_tokens: int = 0
    stored_long_tokens: int = 0
    spoken_tokens: int = 0
    searches: int = 0
    characters: int = 0
    passes: int = field(default=0, compare=False)
    confidence: float | None = None
    state: Any = field(default=None, compare=False, repr=False)


# -- of a call -------------------------------------------------------------------------------------


FoundKind = Literal[
    "time", "date", "datetime", "duration", "number", "percent", "money",
    "name", "place", "quoted", "email", "url", "code",
]  # fmt: skip


ComplaintCode = Literal[
    "not_json", "unknown_tool", "unknown_argument", "missing_argument", "wrong_type",
    "not_in_enum", "out_of_range", "empty_value", "ungrounded", "weak_fit", "duplicate_call",
    "uncovered_intent", "withheld", "refusal", "question", "in_words", "held_back",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Intent:
    """One thing that is asked for.

    `text` is the request's own words from `start` to `end`. `resolved` is the same text with
    pronouns replaced, and with the words that it shares with its neighbours put back.
    """

    text: str
    start: int
    end: int
    resolved: str


@dataclass(frozen=True, slots=True)
class Found:
    """A typed value in the words, and where it stands.

    `value` is canonical: "19:30" for a time, "2026-03-01" for a date with a year, seconds for a
    duration, a number for a number.
    """

    kind: FoundKind
    value: Any
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Complaint:
    """One thing that is wrong with a call, or with the answer to an intent.

    `call` and `intent` are their numbers; None if the complaint is not about one.
    """

    code: ComplaintCode
    message: str
    call: int | None = None
    argument: str = ""
    intent: int | None = None


# -- replies ---------------------------------------------------------------------------------------


SHOWN = 80  # characters of a reply's text on its one line

Place = Literal["local", "cloud"]
Parsed = TypeVar("Parsed", default=Any)  # what `response_format` makes of an answer


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and money over all attempts of a request, rejected ones included."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_microdollars: int = 0
    audio_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One backend that ran, or was asked to: what it did, how long it took, what it cost.

    `outcome` is "answered", "handed_off" (stopped by the gate), "cancelled", or an error code.
    `shown_chars` says how much of the reply's text came from this attempt; `audio_seconds` how
    much sound the cloud charged for; `redacted` how many values of each kind left as placeholders;
    `price_guessed` that nobody told us the price of this model, so that the cost is a guess.
    """

    place: Place
    backend: str
    model: str
    outcome: str
    error: str = ""
    tries: int = 1
    first_token_ms: float | None = None
    total_ms: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost_microdollars: int = 0
    estimated: bool = False
    shown_chars: int = 0
    audio_seconds: float = 0.0
    redacted: Mapping[str, int] = field(default_factory=dict)
    price_guessed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Why the answer came from the device or the cloud.

    `code` is stable and documented (docs/reference/codes.md); `reason` says it in words.
    `degraded_code` says what kept the cloud from answering, if it should have answered.
    `objective` says what the threshold was computed for, if it was.
    `kept_at` is the confidence at which a stream began to show a long answer; `confidence` is that
    of the whole one.
    `kept_from`: the device keeps such answers from this confidence on, 0 if all of them stay; None
    if something else decided.
    """

    policy: str
    handoff: Handoff
    code: str
    reason: str
    threshold: float | None = None
    confidence: float | None = None
    kept_from: float | None = None
    calibration: str = ""
    decided_after_tokens: int | None = None
    kept_at: float | None = None
    degraded_code: str = ""
    truncated: bool = False
    objective: str = ""
    features: Mapping[str, float] = field(default_factory=dict)
    evidence: tuple[Token, ...] = ()

    @property
    def verified(self) -> bool:
        """Whether the confidence comes from a calibration of the very model that answered."""
        return is_verified(self.calibration)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Reply(Generic[Parsed]):
    """One answer. `source` says what actually ran, never what was planned.

    `parsed` is the answer as `response_format` asks for it: an instance of the class that was
    given, or a plain value for a JSON Schema. None if the answer is not that; the decision's reason
    says why.
    """

    id: str
    text: str
    source: Source
    decision: Decision
    confidence: float | None = None
    needs_cloud_handoff: bool = False
    cloud_handoff: bool = False
    degraded: bool = False
    finish_reason: FinishReason = "stop"
    tool_calls: tuple[ToolCall, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    usage: Usage = field(default_factory=Usage)
    total_ms: float = 0.0
    first_token_ms: float | None = None
    parsed: Parsed | None = None
    unrecorded: str = ""  # why this is not in the ledger; empty: it is

    @property
    def confidence_verified(self) -> bool:
        """False: nobody has measured what this model's confidence is worth, or there is none.

        Such a number comes from other models' answers, or only orders answers
        (docs/guide/calibrate.md).
        If it comes from the same bits in another runtime, `decision.calibration` ends with
        `:borrowed`.
        """
        return self.confidence is not None and self.decision.verified

    @property
    def price_guessed(self) -> bool:
        """Whether the cost is a guess: no list and no setting has the price of a model."""
        return any(each.price_guessed for each in self.attempts)

    @property
    def signalled(self) -> bool:
        """True if the device only said "hand this off" and nobody has answered yet."""
        return self.cloud_handoff and self.source == "none"

    @property
    def model(self) -> str:
        """The model that wrote this text; empty if the handoff was only signalled."""
        shown = [attempt.model for attempt in self.attempts if attempt.outcome == "answered"]
        return shown[-1] if shown else ""

    @override
    def __repr__(self) -> str:
        """One line: where it came from, how sure it is, and how it begins."""
        facts: list[str] = [self.source]
        if self.confidence is not None:
            doubt = doubt_of(self.decision.calibration)
            facts.append(f"confidence {self.confidence:.2f}" + (f" ({doubt})" if doubt else ""))
        if self.needs_cloud_handoff and self.source == "local":
            facts.append("in doubt")
        if self.degraded:
            facts.append(f"degraded: {self.decision.degraded_code}")
        return f"<{type(self).__name__} {', '.join(facts)}: {self._begins()}>"

    def _begins(self) -> str:
        """What it says, for one line: the calls, else the first words."""
        if self.signalled:
            return f"to be handed off ({self.decision.code})"
        if self.tool_calls:
            return _short(", ".join(map(_written, self.tool_calls)))
        return repr(_short(self.text))

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: the one place that says how a reply is written.

        The first four keys are the original handoff signal. The server, the ledger and MCP choose
        from `Reply.to_dict(reply)`, which leaves out what a task adds, such as vectors.
        """
        decision = _fields(self.decision) | {
            "features": dict(self.decision.features),
            "evidence": tuple(asdict(token) for token in self.decision.evidence),
        }
        found = {
            "success": True,
            "cloud_handoff": self.cloud_handoff,
            "response": None if self.signalled else self.text,
            "confidence": self.confidence,
            "confidence_verified": self.confidence_verified,
            "needs_cloud_handoff": self.needs_cloud_handoff,
            "source": self.source,
            "model": self.model,
            "degraded": self.degraded,
            "finish_reason": self.finish_reason,
            "tool_calls": [
                {"id": call.id}
                | _fields(call)
                | {
                    "arguments": dict(call.arguments),
                    "repairs": list(call.repairs),
                    "complaints": list(call.complaints),
                }
                for call in self.tool_calls
            ],
            "decision": decision,
            "attempts": [
                _fields(each) | {"redacted": dict(each.redacted)} for each in self.attempts
            ],
            "usage": _fields(self.usage),
            "first_token_ms": self.first_token_ms,
            "total_ms": self.total_ms,
            "id": self.id,
            "recorded": not self.unrecorded,
        }
        if self.parsed is not None:
            # The text is the JSON of it, whatever class it was made into; unless the user's own
            # `parse` reads another form.
            with contextlib.suppress(ValueError):
                found["parsed"] = json.loads(self.text)
        return found


def _fields(value: Any) -> dict[str, Any]:
    """Of a dataclass, by name. `asdict` would copy all that is in them, too."""
    return {each.name: getattr(value, each.name) for each in fields(value) if each.repr}


def _written(call: ToolCall) -> str:
    arguments = ", ".join(f"{name}={value!r}" for name, value in call.arguments.items())
    return f"{call.name}({arguments})"


def _short(text: str) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= SHOWN else f"{plain[: SHOWN - 1]}…"


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of running a call: its value, or why there is none."""

    call: ToolCall
    value: Any = None
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CallReply(Reply):
    """The calls a request asks for, each with its own source and confidence; maybe none.

    `complaints` are about intents: what was not called, or cannot be said in calls. A call carries
    its own complaints. `steps_ms` is the time of each step: split, draft, grammar, model, judge,
    cloud; `not_retried` is what tries would have taken that the deadline did not allow. If a value
    that a tool requires was not said, `needs` names it, `needs_of` by the tool that lacks it, and
    `text` asks for it.
    """

    needs: tuple[str, ...] = ()
    needs_of: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    intents: tuple[Intent, ...] = ()
    complaints: tuple[Complaint, ...] = ()
    results: tuple[ToolResult, ...] = ()
    steps_ms: Mapping[str, float] = field(default_factory=dict)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return self.tool_calls

    @override
    def to_dict(self) -> dict[str, Any]:
        # dataclass(slots=True) makes a new class, so a bare super() does not work.
        return super(CallReply, self).to_dict() | {
            "needs": list(self.needs),
            "needs_of": {tool: list(names) for tool, names in self.needs_of.items()},
            "intents": [intent.text for intent in self.intents],
            "complaints": [
                {"code": one.code, "intent": one.intent, "message": one.message}
                for one in self.complaints
            ],
            "results": [
                {"name": result.call.name, "value": result.value, "error": result.error}
                for result in self.results
            ],
            "steps_ms": dict(self.steps_ms),
        }


@dataclass(frozen=True, slots=True)
class TextDelta:
    """Text to show now. It will never be taken back.

    `tokens` are the device's tokens of this text, if evidence was requested. `raw` is the piece of
    the cloud's answer that the text is from, for a client who asked in the provider's protocol; it
    may hold no text.
    """

    text: str
    source: Place
    tokens: tuple[Token, ...] = ()
    raw: Raw | None = None


@dataclass(frozen=True, slots=True)
class Switched:
    """The rest of the answer comes from somewhere else."""

    to: Place
    code: str
    reason: str
    confidence: float | None = None
    confidence_verified: bool = False


@dataclass(frozen=True, slots=True)
class Finished:
    """The last event of every stream."""

    reply: Reply


Event = TextDelta | Switched | Finished


# -- what is seen while one is made ----------------------------------------------------------------


class Turn(NamedTuple):
    """The other side took over: to where, why, how sure the device was, and when."""

    to: Place
    code: str
    confidence: float | None
    at: float  # by `time.perf_counter`, as all times here


@dataclass(slots=True)
class Progress:
    """Written by what runs for the request, read by whoever looks on.

    A token costs a count. Whoever looks on sets `asked`; at the next token the confidence is
    written. So it costs nothing while nobody looks, and no more often than somebody looks.

    tokens      written so far at this place; in the cloud, pieces of text that arrived
    confidence  the chance that an answer with this beginning will be right
    """

    place: Place | None = None
    backend: str = ""
    model: str = ""
    waiting: bool = False  # in the queue of the local model
    tokens: int = 0
    first: float | None = None
    last: float = 0.0
    confidence: float | None = None
    threshold: float | None = None
    verified: bool = False
    asked: bool = False
    turns: list[Turn] = field(default_factory=list)

    def start(self, place: Place, backend: str, model: str) -> None:
        """Somebody begins to work on an answer."""
        self.place, self.backend, self.model = place, backend, model
        self.tokens, self.first, self.last = 0, None, 0.0

    def count(self) -> None:
        self.last = time.perf_counter()
        if self.first is None:
            self.first = self.last
        self.tokens += 1

    def judge(self, confidence: float, threshold: float, *, verified: bool) -> None:
        self.asked = False
        self.confidence, self.threshold, self.verified = confidence, threshold, verified

    def switch(self, event: Switched) -> None:
        self.confidence = self.confidence if event.confidence is None else event.confidence
        self.turns.append(Turn(event.to, event.code, event.confidence, time.perf_counter()))

    @property
    def tokens_per_second(self) -> float | None:
        """Since the first token; None until there are two."""
        if self.first is None or self.last <= self.first:
            return None
        return (self.tokens - 1) / (self.last - self.first)


# Of the request that this thread works on; None where nobody could look on.
watched: ContextVar[Progress | None] = ContextVar("edgewise_progress", default=None)


# -- what was measured -----------------------------------------------------------------------------


# Calibrations that were not measured on the model that answers: a plain order of answers, and what
# other models showed. Their numbers are called unverified wherever they are shown.
UNCALIBRATED, TRANSFER = "uncalibrated", "transfer"
BORROWED = ":borrowed"  # behind the name of one that was measured on the same bits, run elsewhere
# Behind the name of what judges typed answers: fitted to such answers, or to others only.
TYPED, UNTYPED = ":typed", ":untyped"


def is_verified(calibration: str) -> bool:
    """Whether the confidences of a calibration were measured on answers of the same model."""
    name = calibration.removesuffix(TYPED)
    told = bool(name) and name not in (UNCALIBRATED, TRANSFER) and not name.endswith(UNTYPED)
    return told and not is_borrowed(name)


def is_borrowed(calibration: str) -> bool:
    """Whether it was measured on the same bits in another runtime. Nothing is promised then."""
    return calibration.removesuffix(TYPED).endswith(BORROWED)


def doubt_of(calibration: str) -> str:
    """The word before a confidence that is not verified; empty: it is."""
    if is_verified(calibration):
        return ""
    return "borrowed" if is_borrowed(calibration) else "unverified"


def floats_in(data: bytes) -> array[float]:
    """A state as it came from another process: 32-bit floats, little-endian."""
    found = array("f", data)
    if sys.byteorder == "big":
        found.byteswap()
    return found


def floats_out(numbers: array[float]) -> bytes:
    """The inverse of `floats_in`."""
    sent = array("f", numbers)
    if sys.byteorder == "big":
        sent.byteswap()
    return sent.tobytes()


# -- what the device saw in pictures ---------------------------------------------------------------


# Corners in pixels, clockwise from where the text (or the object) begins.
Box = tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Line:
    """A line of text with the reader's own score."""

    text: str
    score: float
    box: Box = ()


@dataclass(frozen=True, slots=True)
class Thing:
    """An object with the detector's own score."""

    name: str
    score: float
    box: Box = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """One picture as a device skill saw it.

    upright  whether it is clear which way up the text stands; the text of a picture that lies on
             its side, or on its head, is read turned, and its places are those in the picture
    quality  measurements of the picture
    """

    lines: tuple[Line, ...] = ()
    things: tuple[Thing, ...] = ()
    width: int = 0
    height: int = 0
    upright: bool = True
    quality: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SeenReply(Reply[Parsed]):
    """A reply to a request with pictures.

    skill   the device skill that answered ("reads text", "names objects"), or what the device can
            do if no skill answers the question; empty if none took part
    sights  what the skill saw in each picture
    notes   what was changed before a skill looked, as "only the first frame"
    """

    skill: str = ""
    sights: tuple[Sight, ...] = ()
    notes: tuple[str, ...] = ()

    @override
    def to_dict(self) -> dict[str, Any]:
        # dataclass(slots=True) makes a new class, so a bare super() does not work.
        return super(SeenReply, self).to_dict() | {
            "skill": self.skill,
            "sights": [asdict(sight) | {"quality": dict(sight.quality)} for sight in self.sights],
            "notes": list(self.notes),
        }
