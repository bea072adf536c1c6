"""The calls in the making: who answered which intent, how sure, and what has been decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from edgewise.errors import CloudError
from edgewise.functions.check import Checked
from edgewise.functions.merge import merge, source_of
from edgewise.functions.repair import Repaired
from edgewise.functions.settle import same_call
from edgewise.types.aims import high_enough, needed
from edgewise.types.calls import Complaint, Intent
from edgewise.types.messages import Request, Source, ToolCall
from edgewise.types.replies import Attempt, CallReply, Decision, Usage
from edgewise.types.tokens import Token


@dataclass(frozen=True, slots=True)
class Written:
    """One answer of the local model to some text: its tokens, and the calls in it.

    `declined` is what it said in place of calls, unless that was `none`.
    """

    text: str
    tokens: tuple[Token, ...]
    calls: tuple[ToolCall, ...]
    declined: Complaint | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of a call that the device wrote: the cloud said the same, or something else."""

    tool: str
    confirmed: bool


def with_repairs(repaired: Repaired) -> tuple[ToolCall, ...]:
    """The calls of a repair, each with the codes of what was changed."""
    return tuple(
        replace(call, repairs=tuple(dict.fromkeys((*call.repairs, *made))))
        for call, made in zip(repaired.calls, repaired.by_call, strict=True)
    )


@dataclass(slots=True)
class CallDraft:
    """Mutable while the flow runs; `reply()` freezes it."""

    request: Request
    attempts: list[Attempt]
    started: float
    intents: tuple[Intent, ...]
    difficulty: float
    threshold: float = 0.0
    objective: str = ""
    calibration: str = ""
    code: str = ""
    reason: str = ""
    degraded_code: str = ""
    doubted: bool = False
    signalled: bool = False
    cloud_answered: bool = False
    confidence: float | None = None  # what the device said, also of calls the cloud replaced
    text: str = ""
    steps: dict[str, float] = field(default_factory=dict)
    complaints: tuple[Complaint, ...] = ()
    # Intents that were answered in words, and what is wrong with that.
    declined: dict[int, Complaint | None] = field(default_factory=dict)
    verdicts: list[Verdict] = field(default_factory=list)
    again: Set[int] = frozenset()  # intents that ask for what another has asked for
    evidence: dict[float, Mapping[str, float]] = field(default_factory=dict)  # by confidence
    _calls: dict[int, list[ToolCall]] = field(default_factory=dict)
    _nothing: dict[int, float] = field(default_factory=dict)  # sure that no tool serves it

    @property
    def local_calls(self) -> list[ToolCall]:
        return [call for calls in self._calls.values() for call in calls]

    @property
    def by_intent(self) -> Mapping[int, Sequence[ToolCall]]:
        return self._calls

    @property
    def answered(self) -> tuple[int, ...]:
        return tuple(number for number, calls in self._calls.items() if calls)

    @property
    def ungrounded(self) -> list[int]:
        """Intents with a call that holds something nobody said."""
        return [
            number
            for number, calls in self._calls.items()
            if any("ungrounded" in call.complaints for call in calls)
        ]

    def calls_of(self, number: int) -> Sequence[ToolCall]:
        return tuple(self._calls.get(number, ()))

    def took(self, step: str, milliseconds: float) -> None:
        self.steps[step] = self.steps.get(step, 0.0) + milliseconds

    def place(self, number: int, call: ToolCall) -> None:
        """A call for an intent, unless it was made for this intent already."""
        self._nothing.pop(number, None)
        self.declined.pop(number, None)
        calls = self._calls.setdefault(number, [])
        if not any(same_call(call, other) for other in calls):
            calls.append(call)

    def nothing(self, number: int, confidence: float, declined: Complaint | None = None) -> None:
        if number not in self._calls:
            self._nothing[number] = confidence
            if declined is not None:
                self.declined[number] = declined

    def forget(self, number: int) -> None:
        for held in (self._calls, self._nothing, self.declined):
            held.pop(number, None)

    def note(self, checked: Checked, again: Set[int]) -> None:
        """What the check found, in place of what an earlier one did."""
        for number, calls in checked.calls.items():
            if calls:
                self._calls[number] = list(calls)
        self.complaints, self.again = checked.complaints, again

    def compare(self, numbers: Sequence[int], others: Sequence[ToolCall]) -> None:
        """Note which of the device's calls for these intents the cloud makes as well."""
        self.verdicts += [
            Verdict(call.name, any(same_call(call, other) for other in others))
            for number in numbers
            for call in self._calls.get(number, ())
            if call.source == "local" and "unknown_tool" not in call.complaints
        ]

    def doubts(self, number: int) -> bool:
        """Whether an intent's answer is unlikely, whatever it says."""
        calls = self._calls.get(number, [])
        if not calls:
            return self._nothing.get(number, 0.0) < self.threshold
        return any((call.confidence or 0.0) < self.threshold for call in calls)

    def doubt(self, failed: Sequence[int], gate: Set[str]) -> str:
        """The first reason for doubt, in words."""
        calls, least = self._calls.get(failed[0], []), needed(self.threshold, self.objective)
        wrong = [one for one in self.complaints if one.intent == failed[0] and one.code in gate]
        if not calls:
            sure = self._nothing.get(failed[0])
            if wrong:
                return f"{wrong[0].code}: {wrong[0].message}"
            if sure is None:
                return f"nothing was called for {self.intents[failed[0]].text!r}"
            return f"confidence {sure:.2f} that no tool serves it is below {least}"
        worst = min(calls, key=lambda call: call.confidence or 0.0)
        if (worst.confidence or 0.0) < self.threshold:
            return f"{worst.name}: confidence {worst.confidence:.2f} is below {least}"
        faulty = next(call for call in calls if not gate.isdisjoint(call.complaints))
        return f"{faulty.name}: {', '.join(faulty.complaints)}"

    @property
    def enough(self) -> str:
        return high_enough(self.objective)

    def conclude(self, code: str, reason: str) -> None:
        self.code, self.reason = code, reason

    def signal(self, code: str, reason: str) -> None:
        self.signalled = True
        self.conclude(f"signalled_{code}", reason)

    def fall_back(self, error: CloudError) -> None:
        self.degraded_code = error.code
        self.conclude("fallback_local", f"{self.reason}; but the cloud did not answer: {error}")

    def reply(self, now: float) -> CallReply:
        calls = () if self.signalled else merge(self._calls, again=self.again)
        source = self._source(calls)
        return CallReply(
            id=self.request.id,
            text=self.text,
            source=source,
            decision=self._decision(),
            confidence=self.confidence,
            needs_cloud_handoff=self.doubted,
            cloud_handoff=self.signalled or source in ("cloud", "mixed"),
            degraded=bool(self.degraded_code),
            finish_reason="tool_calls" if calls else "stop",
            tool_calls=calls,
            attempts=tuple(self.attempts),
            usage=Usage(
                sum(attempt.input_tokens for attempt in self.attempts),
                sum(attempt.output_tokens for attempt in self.attempts),
                sum(attempt.cost_microdollars for attempt in self.attempts),
            ),
            total_ms=1000 * (now - self.started),
            intents=self.intents,
            complaints=() if self.signalled else self.complaints,
            difficulty=self.difficulty,
            steps_ms=dict(self.steps),
        )

    def measure(self) -> None:
        """Note the least sure thing the device said, before the cloud may replace it."""
        said = [call.confidence for call in self.local_calls if call.confidence is not None]
        self.confidence = min([*said, *self._nothing.values()], default=None)

    def _source(self, calls: Sequence[ToolCall]) -> Source:
        if self.signalled:
            return "none"
        source = source_of(calls, "cloud" if self.cloud_answered else "local")
        # Where the cloud said in words that no tool serves a part, that is its share.
        return "mixed" if self.text and source == "local" else source

    def _decision(self) -> Decision:
        return Decision(
            policy=self.request.policy,
            handoff=self.request.handoff,
            code=self.code,
            reason=self.reason,
            threshold=self.threshold,
            objective=self.objective,
            confidence=self.confidence,
            calibration=self.calibration,
            degraded_code=self.degraded_code,
            features=self.evidence.get(self.confidence or 0.0, {}),
        )
