"""Where a request starts, and where it may go from there.

A policy is a function from a `Question` to a `Plan`. The four built-in ones are registered as entry
points, like anybody else's (docs/extending.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from edgewise.decide.fit import Misfit
from edgewise.errors import CloudClosed
from edgewise.types.messages import Request
from edgewise.types.replies import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is known before anything runs."""

    misfit: Misfit | None = None
    cloud_closed: str = ""  # the code of why the cloud is closed; empty if it is open
    cloud_closed_reason: str = ""

    @property
    def impossible_here(self) -> bool:
        return self.misfit is not None and not self.misfit.soft


def asked(request: Request, misfit: Misfit | None, shut: CloudClosed | None) -> Question:
    """What a policy is asked about a request. `shut` says why its cloud is closed, if it is."""
    kept = not request.may_leave or (shut is not None and shut.code == "private_kind")
    if request.handoff == "signal" and not kept:
        shut = None  # the application routes, so our cloud does not matter
    return Question(
        misfit=misfit,
        cloud_closed=shut.code if shut else "",
        cloud_closed_reason=str(shut) if shut else "",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Where to start. `first` is None if the request must be refused.

    may_hand_off   the gate may stop the device and let the cloud answer
    local_backup   the device answers if the cloud cannot
    hurried        the device could answer instead, so the wait for the cloud's first token is short
    degraded_code  set if the plan is second best: why the cloud is closed
    """

    first: Place | None
    code: str
    reason: str
    may_hand_off: bool = False
    local_backup: bool = False
    hurried: bool = False
    degraded_code: str = ""


Policy = Callable[[Question], Plan]


def local_only(question: Question) -> Plan:
    """Never the cloud."""
    if question.misfit is not None and question.impossible_here:
        return Plan(first=None, code=question.misfit.code, reason=question.misfit.reason)
    reason = "the policy keeps it on the device"
    if question.misfit is not None:
        reason += f", although {question.misfit.reason}"
    return Plan(first="local", code="policy_local_only", reason=reason)


def prefer_local(question: Question) -> Plan:
    """The device first; the cloud if the answer is in doubt or the request does not fit."""
    misfit, closed = question.misfit, question.cloud_closed
    if misfit is None:
        return Plan(
            first="local",
            code="started_local",
            reason="the device answers first",
            may_hand_off=not closed,
        )
    if not closed:
        return Plan(
            first="cloud",
            code=f"handoff_{misfit.code}",
            reason=misfit.reason,
            local_backup=misfit.soft,
            hurried=misfit.soft,
        )
    if misfit.soft:
        return Plan(first="local", code=misfit.code, reason=misfit.reason, degraded_code=closed)
    return _refuse(question, misfit)


def prefer_cloud(question: Question) -> Plan:
    """The cloud first; the device if the cloud cannot answer."""
    closed = question.cloud_closed
    if not closed:
        return Plan(
            first="cloud",
            code="policy_prefer_cloud",
            reason="the policy asks the cloud first",
            local_backup=not question.impossible_here,
        )
    if question.misfit is not None and question.impossible_here:
        return _refuse(question, question.misfit)
    return Plan(
        first="local",
        code="cloud_closed",
        reason=question.cloud_closed_reason,
        degraded_code=closed,
    )


def cloud_only(question: Question) -> Plan:
    """Never the device: no answer is better than a local one."""
    if question.cloud_closed:
        return Plan(first=None, code=question.cloud_closed, reason=question.cloud_closed_reason)
    return Plan(first="cloud", code="policy_cloud_only", reason="the policy asks only the cloud")


def _refuse(question: Question, misfit: Misfit) -> Plan:
    return Plan(
        first=None,
        code=misfit.code,
        reason=f"{misfit.reason}; and the cloud is closed: {question.cloud_closed_reason}",
        degraded_code=question.cloud_closed,
    )
