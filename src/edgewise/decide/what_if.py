"""What would have changed a decision: another threshold, another stated risk, an open cloud."""

from __future__ import annotations

import math
from dataclasses import dataclass

from edgewise.decide.risk import find_threshold
from edgewise.types.aims import ERROR_PROBABILITY, percent
from edgewise.types.measured import Measured
from edgewise.types.replies import Decision

_ERRORS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5)  # of max_error, that are looked at
# What would have let the device begin, by why it did not.
_MISFITS = {
    "context_exceeded": "a prompt that fits the device's context window would have started there",
    "deadline": "without deadline_ms, or with more of it, the device would have answered first",
    "difficult": "with call_hard above its difficulty the device would have been asked first",
    "drifted": 'with on_drift = "report" the device would have answered first',
    "images_unsupported": "a local model that sees would have been asked first",
    "language_unsupported": "a local model that knows the language would have heard it first",
    "no_local_model": "with weights on the device it would have been asked first",
    "risk_unreachable": "a larger max_error would have let the device answer first",
    "schema_unsupported": "a runtime that holds answers to a schema would have been asked first",
    "tools_unsupported": "a local model that calls tools would have been asked first",
}
_POLICIES = {
    "policy_local_only": 'with policy="prefer_local" it could have left',
    "policy_prefer_cloud": 'with policy="prefer_local" the device would have answered first',
    "policy_cloud_only": 'with policy="prefer_local" the device would have answered first',
}
# Reasons for which the cloud is closed to one request, not shut for all.
_OWN_DOORS = {
    "private": "if it had not been private, the cloud could have answered",
    "budget_paced": "with pace_budget = false it would have left for the cloud",
    "budget_spent": "with money left in the budget it would have left for the cloud",
    "no_key": "with a key for a provider it would have left for the cloud",
}


@dataclass(frozen=True, slots=True)
class Asked:
    """What the question is about, besides the decision itself.

    early        it was decided by the score of a beginning, not of the whole answer
    hold_tokens  after how many tokens the gate must decide
    """

    stayed: bool
    early: bool
    in_doubt: bool = False
    hold_tokens: int | None = None


def what_if(decision: Decision, asked: Asked, measured: Measured) -> tuple[str, ...]:
    """A sentence for each thing that would have changed where it was answered."""
    misfit = decision.code.removeprefix("handoff_").removeprefix("signalled_")
    found = [
        *_other_threshold(decision, asked),
        _other_risk(decision, asked, measured),
        _POLICIES.get(decision.code, ""),
        _MISFITS.get(misfit, "") if not decision.degraded_code else "",
        _open_cloud(decision, asked),
    ]
    return tuple(f"{each[0].upper()}{each[1:]}." for each in found if each)


def _other_threshold(decision: Decision, asked: Asked) -> list[str]:
    confidence, threshold = decision.confidence, decision.threshold
    if confidence is None or threshold is None or decision.code.startswith("policy_"):
        return []
    if confidence >= threshold:
        above = _just_above(confidence)
        return [f"it would have left at a threshold of {above:.2f} or more"] if above <= 1 else []
    below = _at_most(confidence)
    if decision.code not in ("handoff_low_confidence", "signalled_low_confidence"):
        return [f"at a threshold of {below:.2f} or less it would not have been in doubt"]
    if not asked.early:
        return [f"it would have stayed at a threshold of {below:.2f} or less"]
    held = decision.decided_after_tokens
    if held and held < (asked.hold_tokens or 0):
        # Stopped before its time: how it would have gone on nobody knows.
        return [
            "at a low enough threshold the gate would have waited for more evidence than "
            f"{held} token{'' if held == 1 else 's'}"
        ]
    return [f"at a threshold of {below:.2f} or less the device could have gone on"]


def _other_risk(decision: Decision, asked: Asked, measured: Measured) -> str:
    """The stated risk from which on a whole answer would have been decided otherwise."""
    confidence, table = decision.confidence, measured.risk.get("whole", ())
    if confidence is None or decision.threshold is None or asked.early or not table:
        return ""
    proven = [
        (error, find_threshold(table, measured.risk_rows, error, ERROR_PROBABILITY))
        for error in _ERRORS
    ]
    if confidence >= decision.threshold and asked.stayed:
        strict = [error for error, at in proven if at is None or confidence < at]
        return f"with max_error={percent(max(strict))} it would have left" if strict else ""
    if decision.code not in ("handoff_low_confidence", "signalled_low_confidence"):
        return ""
    loose = [error for error, at in proven if at is not None and confidence >= at]
    return f"with max_error={percent(min(loose))} it would have stayed" if loose else ""


def _open_cloud(decision: Decision, asked: Asked) -> str:
    code = decision.degraded_code
    if code:
        other = f"if the cloud had answered ({code}), it would have left"
        return _OWN_DOORS.get(code, other)
    if asked.stayed and asked.in_doubt and decision.code == "kept_in_doubt":
        return "judged as a whole before it was shown (complete), it would have left"
    return ""


def _at_most(confidence: float) -> float:
    """Two digits, rounded so that the sentence stays true."""
    return math.floor(confidence * 100 + 1e-9) / 100


def _just_above(confidence: float) -> float:
    return math.floor(confidence * 100 + 1e-9) / 100 + 0.01
