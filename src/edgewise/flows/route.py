"""The one story of routing: plan, refuse, try the device, judge, hand off, fall back, conclude.

`route` tells it, as a generator of events; closing it cancels the work on both sides. A task is a
`Flow`: it says how to try its device, how to ask its cloud, and what to do if the cloud does not
answer. Everything that tasks share is in this file.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from edgewise.cloud.provider import Cloud
from edgewise.decide.policy import BETTER_THERE, Misfit, Plan, Policy, asked, estimate_tokens
from edgewise.errors import (
    CloudClosed,
    CloudError,
    ContextExceeded,
    DeadlinePassed,
    DeviceBusy,
    DoesNotFit,
    EdgewiseError,
    LocalError,
    ModelNotFound,
    SchemaUnsupported,
)
from edgewise.local.backend import DeviceFacts
from edgewise.types.messages import Request, Source, high_enough, is_below, needed
from edgewise.types.replies import (
    Attempt,
    Decision,
    Event,
    Finish,
    Place,
    Progress,
    Switched,
    Usage,
    doubt_of,
    is_verified,
    watched,
)

Result = TypeVar("Result")
# What the runtime found when it looked closer: the request is planned again.
LOOKED_CLOSER = (ContextExceeded, SchemaUnsupported, DeadlinePassed)


@dataclass(slots=True, kw_only=True)
class Draft:
    """An unfinished reply: what has been decided so far. Each task adds its own results."""

    request: Request
    attempts: list[Attempt]
    started: float
    threshold: float | None = None
    objective: str = ""
    calibration: str = ""
    code: str = ""
    reason: str = ""
    degraded_code: str = ""
    confidence: float | None = None
    kept_from: float | None = None
    doubted: bool = False
    signalled: bool = False
    progress: Progress | None = field(default_factory=watched.get)  # for whoever looks on

    def conclude(self, code: str, reason: str) -> None:
        self.code, self.reason = code, reason

    def signal(self, code: str, reason: str) -> None:
        """Leave this to the application: we give no answer."""
        self.signalled = True
        self.conclude(f"signalled_{code}", reason)

    @property
    def enough(self) -> str:
        """Describes a sufficient confidence."""
        return high_enough(self.objective)

    def too_low(self, confidence: float | None) -> str:
        return f"{self.sureness} {self.below_needed(confidence or 0.0)}"

    def below_needed(self, confidence: float) -> str:
        return is_below(confidence, self.threshold or 0.0, self.objective)

    @property
    def sureness(self) -> str:
        """What to call its confidence: of a model that nobody has calibrated, it is a guess."""
        return f"{doubt_of(self.calibration)} confidence".lstrip()

    def switched(self, to: Place, code: str, reason: str) -> Switched:
        sure = self.confidence
        known = sure is not None and is_verified(self.calibration)
        event = Switched(to, code, reason, sure, confidence_verified=known)
        if self.progress is not None:
            self.progress.switch(event)
        return event

    @property
    def needed(self) -> str:
        return needed(self.threshold or 0.0, self.objective)

    def decision(self, **own: Any) -> Decision:
        """The decision behind the reply, with what a task adds."""
        return Decision(
            policy=self.request.policy,
            handoff=self.request.handoff,
            code=self.code,
            reason=self.reason,
            threshold=self.threshold,
            objective=self.objective,
            confidence=self.confidence,
            kept_from=self.kept_from,
            calibration=self.calibration,
            degraded_code=self.degraded_code,
            **own,
        )

    def common(
        self, source: Source, now: float, attempts: tuple[Attempt, ...] | None = None
    ) -> dict[str, Any]:
        """The fields that all replies share: cost, time, and who answered."""
        attempts = tuple(self.attempts) if attempts is None else attempts
        return {
            "id": self.request.id,
            "source": source,
            "confidence": self.confidence,
            "needs_cloud_handoff": self.doubted,
            "cloud_handoff": self.signalled or source in ("cloud", "mixed"),
            "degraded": bool(self.degraded_code),
            "attempts": attempts,
            "usage": Usage(
                sum(attempt.input_tokens for attempt in attempts),
                sum(attempt.output_tokens for attempt in attempts),
                sum(attempt.cost_microdollars for attempt in attempts),
            ),
            "total_ms": 1000 * (now - self.started),
        }

    def reinstate(self) -> None:
        """Answer with the local text after all, although it was handed off."""
        for index in reversed(range(len(self.attempts))):
            if self.attempts[index].place == "local":
                self.attempts[index] = replace(self.attempts[index], outcome="answered")
                return


class Flow(ABC):
    """One request of one task. `misfit` says why the device should not answer."""

    draft: Draft
    cloud: Cloud
    policy: Policy
    clock: Callable[[], float]
    patience_s: float | None = None  # for the cloud's first token, if the device has an answer
    misfit: Misfit | None = None
    doubt_code: str = "low_confidence"  # what follows `handoff_` if the answer is in doubt

    @property
    def request(self) -> Request:
        return self.draft.request

    @abstractmethod
    def try_device(self, plan: Plan) -> Generator[Event, None, bool]:
        """Answer on the device. True: the answer is in doubt, and none of it was shown."""

    @abstractmethod
    def ask_cloud(self, patience_s: float | None) -> Iterator[Event]:
        """The cloud's answer. Raises CloudError if there is none."""

    @abstractmethod
    def fall_back(self) -> Iterator[Event]:
        """The cloud did not answer: the device answers as well as it can."""

    @abstractmethod
    def doubt(self) -> str:
        """Why the device's answer is in doubt, in words."""

    @abstractmethod
    def surety(self) -> str:
        """Why the device's answer is good enough, in words."""

    def adjust(self, plan: Plan) -> Plan:
        """Change the policy's plan, if the task needs to. A better choice is not hurried."""
        better = self.misfit is not None and self.misfit.code in BETTER_THERE
        return replace(plan, hurried=False) if better else plan

    def kept_from(self, plan: Plan) -> float | None:
        """The confidence from which on the device keeps such an answer; 0 if all of them stay.

        None: something else decides.
        """
        return self.draft.threshold if plan.may_hand_off else 0.0

    def refusal(self, plan: Plan) -> EdgewiseError:
        if (shut := self.opens_again()) is not None:
            return CloudClosed(plan.reason, code=shut.code, retry_after_s=shut.retry_after_s)
        return refusal(self.request, plan.code, plan.reason)

    def opens_again(self) -> CloudClosed | None:
        """Why the cloud is closed, where its client should come again in a moment: only a cloud can
        answer. That a request does not fit here would have an agent cut its conversation."""
        request = self.request
        theirs = request.original is not None and request.policy != "local_only"
        asked = theirs or request.policy == "cloud_only"
        shut = self.cloud.closed(request) if asked else None
        return shut if shut is not None and shut.retry_after_s is not None else None

    def signal(self, code: str, reason: str) -> None:
        self.draft.signal(code, reason)

    def may_start_over(self) -> bool:
        """Whether the request may begin again, there or here, after the device failed.

        Not if text was shown.
        """
        return True

    def may_fall_back(self) -> bool:
        """Whether the device may answer after the cloud failed."""
        return True

    def conclude_kept(self, plan: Plan) -> None:
        """The device's answer stands: it is sure enough, or nothing better is allowed."""
        draft = self.draft
        if not draft.doubted:
            draft.conclude("kept_confident", self.surety())
            return
        draft.conclude("kept_in_doubt", self.doubt())
        shut = self.cloud.closed(self.request)
        if shut is not None and not plan.may_hand_off:
            draft.degraded_code = shut.code
            draft.reason += f"; the cloud is closed: {shut}"


def refusal(request: Request, code: str, reason: str) -> EdgewiseError:
    """The error for a request that may be served nowhere."""
    if request.policy == "cloud_only":
        return CloudClosed(reason, code=code)
    if code == ModelNotFound.code:
        return ModelNotFound(reason)
    return DoesNotFit(reason)


def failure_code(error: LocalError) -> str:
    """What a request that leaves for it is told to have left for."""
    return "busy" if isinstance(error, DeviceBusy) else "local_failed"


def make_plan(request: Request, policy: Policy, cloud: Cloud, misfit: Misfit | None) -> Plan:
    """Where the policy lets a request start, as things are now."""
    return policy(asked(request, misfit, cloud.closed(request)))


def route(flow: Flow) -> Generator[Event, None, None]:
    """The whole story of one request. `flow.draft` holds the result."""
    try:
        yield from _follow(flow)
    except LOOKED_CLOSER as error:
        if not flow.may_start_over():
            raise
        if flow.misfit is not None and flow.misfit.code == error.code:
            if (shut := flow.opens_again()) is not None:
                raise shut from error
            raise
        shorter = flow.request.truncate and isinstance(error, ContextExceeded)
        late = isinstance(error, DeadlinePassed)
        flow.misfit = Misfit(error.code, str(error), soft=shorter or late)
        yield from _follow(flow)


def run(flow: Flow) -> None:
    """The same for a task whose events nobody watches."""
    unwatched(route(flow))


def unwatched(story: Generator[Any, None, Result]) -> Result:
    """What a story ends with, where nobody watches its events."""
    while True:
        try:
            next(story)
        except StopIteration as end:
            result: Result = end.value
            return result


def _follow(flow: Flow) -> Iterator[Event]:
    draft = flow.draft
    plan = flow.adjust(make_plan(flow.request, flow.policy, flow.cloud, flow.misfit))
    draft.conclude(plan.code, plan.reason)
    draft.degraded_code = plan.degraded_code
    if plan.first is None:
        raise flow.refusal(plan)
    if plan.first == "local":
        yield from _from_device(flow, plan)
    elif flow.request.handoff == "signal":
        flow.signal(plan.code.removeprefix("handoff_"), plan.reason)
    else:
        yield from _from_cloud(flow, plan)


def _from_device(flow: Flow, plan: Plan) -> Iterator[Event]:
    """The device first. A doubtful answer goes to the cloud before any of it was shown."""
    draft = flow.draft
    may_ask = plan.may_hand_off and flow.request.handoff == "automatic"
    draft.kept_from = flow.kept_from(plan)
    try:
        doubtful = yield from flow.try_device(plan)
    except LOOKED_CLOSER:
        raise
    except LocalError as error:
        if not may_ask or not flow.may_start_over():
            raise
        draft.conclude(f"handoff_{failure_code(error)}", str(error))
        yield from _from_cloud(flow, replace(plan, local_backup=False))
        return
    if doubtful and may_ask:
        draft.conclude(f"handoff_{flow.doubt_code}", flow.doubt())
        yield from _from_cloud(flow, replace(plan, local_backup=True, hurried=True))
    elif doubtful and plan.may_hand_off:
        flow.signal(flow.doubt_code, flow.doubt())
    elif plan.code == "started_local":  # otherwise the policy's own reason stands
        flow.conclude_kept(plan)
    elif doubtful:
        draft.reason += f"; it is in doubt: {flow.doubt()}"


def _from_cloud(flow: Flow, plan: Plan) -> Iterator[Event]:
    """The cloud's answer, or the device's if the plan has it as a backup."""
    draft = flow.draft
    draft.kept_from = None
    if draft.code.startswith("handoff_"):
        yield draft.switched("cloud", draft.code, draft.reason)
    try:
        yield from flow.ask_cloud(flow.patience_s if plan.hurried else None)
    except CloudError as error:
        if plan.local_backup and flow.may_fall_back():
            yield from _fall_back(flow, error)
            return
        asked_so = flow.request.policy == "cloud_only" or flow.request.original is not None
        if asked_so or flow.misfit is None:  # its client knows what the provider's error means
            raise
        raise DoesNotFit(f"{flow.misfit.reason}; and the cloud failed: {error}") from error


def _fall_back(flow: Flow, error: CloudError) -> Iterator[Event]:
    """The cloud did not answer: the device does, and the reply says so."""
    draft = flow.draft
    draft.degraded_code = error.code
    draft.conclude("fallback_local", f"{draft.reason}; but the cloud did not answer: {error}")
    yield draft.switched("local", error.code, str(error))
    try:
        yield from flow.fall_back()
    except LOOKED_CLOSER as closer:  # planning again would only ask the cloud again
        raise DoesNotFit(f"{closer}; and the cloud failed: {error}") from closer


@dataclass(slots=True)
class LocalAttempt:
    """Times one piece of work on the device and records it, however it ends."""

    request: Request
    attempts: list[Attempt]
    facts: DeviceFacts
    clock: Callable[[], float]
    started: float = 0.0
    first: float | None = None
    tokens: int = 0
    outcome: str = "cancelled"  # the default if the user leaves before the end
    finish: Finish | None = None
    progress: Progress | None = field(default_factory=watched.get)

    def __enter__(self) -> LocalAttempt:
        self.started = self.clock()
        if self.progress is not None:
            self.progress.start("local", self.facts.backend, self.facts.model)
        return self

    def count(self) -> None:
        if self.first is None:
            self.first = self.clock()
        self.tokens += 1
        if self.progress is not None:
            self.progress.count()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        finish = self.finish or Finish(
            input_tokens=estimate_tokens(self.request.messages),
            output_tokens=self.tokens,
            estimated=True,
        )
        failed = isinstance(error, LocalError)
        self.attempts.append(
            Attempt(
                place="local",
                backend=self.facts.backend,
                model=self.facts.model,
                outcome=error.code if isinstance(error, LocalError) else self.outcome,
                error=str(error) if failed else "",
                first_token_ms=None if self.first is None else 1000 * (self.first - self.started),
                total_ms=1000 * (self.clock() - self.started),
                input_tokens=finish.input_tokens,
                output_tokens=finish.output_tokens,
                cached_tokens=finish.cached_tokens,
                estimated=finish.estimated,
            )
        )
