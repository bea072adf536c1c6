"""What a user gets: the reply, the decision behind it, every attempt, and stream events."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Generic, Literal

from typing_extensions import TypeVar, override

from edgewise.types.calls import Complaint, Intent
from edgewise.types.measured import doubt_of, is_verified
from edgewise.types.messages import Handoff, Source, ToolCall
from edgewise.types.tokens import FinishReason, Token

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
    much sound the cloud charged for; `redacted` how many values of each kind left as placeholders.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Why the answer came from the device or the cloud.

    `code` is stable and documented (docs/decision-codes.md); `reason` says it in words.
    `degraded_code` says what kept the cloud from answering, if it should have answered.
    `objective` says what the threshold was computed for, if it was.
    """

    policy: str
    handoff: Handoff
    code: str
    reason: str
    threshold: float | None = None
    confidence: float | None = None
    calibration: str = ""
    decided_after_tokens: int | None = None
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

        Such a number comes from other models' answers, or only orders answers (docs/calibrate.md).
        If it comes from the same bits in another runtime, `decision.calibration` ends with
        `:borrowed`.
        """
        return self.confidence is not None and self.decision.verified

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
        """Plain values for JSON. The first four keys are the original handoff signal."""
        decision = asdict(self.decision)
        decision["features"] = dict(self.decision.features)
        return {
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
                {
                    "id": call.id,
                    "name": call.name,
                    "arguments": dict(call.arguments),
                    "source": call.source,
                    "confidence": call.confidence,
                    "repairs": list(call.repairs),
                    "complaints": list(call.complaints),
                }
                for call in self.tool_calls
            ],
            "decision": decision,
            "attempts": [asdict(attempt) for attempt in self.attempts],
            "usage": asdict(self.usage),
            "first_token_ms": self.first_token_ms,
            "total_ms": self.total_ms,
            "id": self.id,
            "recorded": not self.unrecorded,
            # The text is the JSON of it, whatever class it was made into.
            **({} if self.parsed is None else {"parsed": json.loads(self.text)}),
        }


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
    that a tool requires was not said, `needs` names it and `text` asks for it.
    """

    needs: tuple[str, ...] = ()
    intents: tuple[Intent, ...] = ()
    complaints: tuple[Complaint, ...] = ()
    difficulty: float = 0.0
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
            "intents": [intent.text for intent in self.intents],
            "complaints": [
                {"code": one.code, "intent": one.intent, "message": one.message}
                for one in self.complaints
            ],
            "difficulty": self.difficulty,
            "results": [
                {"name": result.call.name, "value": result.value, "error": result.error}
                for result in self.results
            ],
            "steps_ms": dict(self.steps_ms),
        }


@dataclass(frozen=True, slots=True)
class TextDelta:
    """Text to show now. It will never be taken back.

    `tokens` are the device's tokens of this text, if evidence was requested.
    """

    text: str
    source: Place
    tokens: tuple[Token, ...] = ()


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
