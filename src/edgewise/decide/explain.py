"""Explains why an answer stayed or left, what each feature added, and what would change it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from edgewise.decide.calibration import Measured, Score
from edgewise.decide.policy import find_threshold
from edgewise.types.messages import (
    ERROR_PROBABILITY,
    percent,
)
from edgewise.types.replies import TRANSFER, UNCALIBRATED, Decision, doubt_of, is_borrowed

_ERRORS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5)  # the values of max_error that are tried
# Why the device did not start, and what would have let it.
_MISFITS = {
    "busy": "with a free turn on the device, or a larger busy_after_s, it would have started there",
    "context_exceeded": "a prompt that fits the device's context window would have started there",
    "deadline": "with more time (deadline_ms) the device would have answered first",
    "drifted": 'with on_drift = "report" the device would have answered first',
    "no_progress": "with a call that gets on the device would have answered first",
    "parts_unsupported": "without the parts that no local model takes it would have started there",
    "images_unsupported": "a local model that sees would have been asked first",
    "language_unsupported": "a local model that knows the language would have heard it first",
    "no_local_model": "with weights on the device it would have been asked first",
    "risk_unproven": "a larger max_error would have let the device answer first",
    "risk_unreachable": "a larger max_error would have let the device answer first",
    "schema_broken": "an answer that follows its schema would have been kept",
    "schema_unsupported": "a runtime that can enforce a schema would have been asked first",
    "session": "in a conversation of its own the device would have answered first",
    "slow_device": "with slow_after_s = 0 or above that time, the device would have answered first",
    "tools_unsupported": "a local model that calls tools would have been asked first",
}
_POLICIES = {
    "policy_local_only": 'with policy="prefer_local" it could have left',
    "policy_prefer_cloud": 'with policy="prefer_local" the device would have answered first',
    "policy_cloud_only": 'with policy="prefer_local" the device would have answered first',
}
# Reasons that close the cloud to one request, not to all.
_OWN_DOORS = {
    "private": "if it had not been private, the cloud could have answered",
    "private_kind": "without what private_kinds names, it would have left for the cloud",
    "not_redactable": "without redaction, or without what it cannot see, it would have left",
    "redaction_failed": "if the redaction had not failed, it would have left for the cloud",
    "cooldown": "later (cloud_every_s) it would have left for the cloud",
    "budget_paced": "with pace_budget = false it would have left for the cloud",
    "budget_spent": "with money left in the budget it would have left for the cloud",
    "deadline": "if the cloud might have been asked, it would have left when the time was up",
    "schema_broken": "an answer that follows its schema would not have been degraded",
    "no_key": "with a key for a provider it would have left for the cloud",
}


Outcome = Literal["stayed", "left", "signalled", "failed"]
# Why a confidence is unverified, by the calibration that gave it.
_UNVERIFIED = {
    UNCALIBRATED: "nobody has calibrated this model: its numbers order answers, no more",
    TRANSFER: "the confidence is unverified: learnt from other models, it promises no risk; "
    "`edgewise calibrate --builtin` measures this one",
}
_BORROWED = (
    "the confidence is borrowed: measured on the same bits in another runtime, it promises no "
    "risk here; `edgewise calibrate --builtin` measures this one"
)
_UNTYPED = (
    "the confidence is unverified: it was measured on answers in words, not on typed ones; it "
    "promises no risk"
)
# If a row records the least sure part of an answer, this is that part's own confidence.
LEAST = "least_confidence"
_STATES = ("state", "before")  # features that a head reads from hidden states
SAME = 1e-6  # the ledger keeps every digit, so a recomputed score agrees to this
_WIDEST = 60.0


@dataclass(frozen=True, slots=True)
class Asked:
    """What the explanation needs besides the decision.

    early        the score of the beginning decided, not that of the whole answer
    hold_tokens  after how many tokens the gate must decide
    """

    stayed: bool
    early: bool
    in_doubt: bool = False
    hold_tokens: int | None = None


def what_if(decision: Decision, asked: Asked, measured: Measured) -> tuple[str, ...]:
    """One sentence for each change that would have changed where it was answered."""
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
    below = math.floor(confidence * 100 + 1e-9) / 100  # rounded so that the sentence stays true
    if confidence >= threshold:
        above = below + 0.01
        return [f"it would have left at a threshold of {above:.2f} or more"] if above <= 1 else []
    if decision.code not in ("handoff_low_confidence", "signalled_low_confidence"):
        return [f"at a threshold of {below:.2f} or less it would not have been in doubt"]
    if not asked.early:
        return [f"it would have stayed at a threshold of {below:.2f} or less"]
    held = decision.decided_after_tokens
    if held == 0:
        return ["at a low enough threshold the device would have begun to answer"]
    if held and held < (asked.hold_tokens or 0):
        # It was stopped early: nobody knows how it would have continued.
        return [
            "at a low enough threshold the gate would have waited for more evidence than "
            f"{held} token{'' if held == 1 else 's'}"
        ]
    return [f"at a threshold of {below:.2f} or less the device could have gone on"]


def _other_risk(decision: Decision, asked: Asked, measured: Measured) -> str:
    """The max_error from which on a whole answer would have been decided otherwise."""
    confidence, table = decision.confidence, measured.risk.get("whole", ())
    if confidence is None or decision.threshold is None or asked.early or not table:
        return ""
    if measured.families is not None:
        return ""  # it depends on the words of the request, which nobody kept
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


@dataclass(frozen=True, slots=True)
class Pull:
    """What one feature added to the log-odds of being right, compared with its usual value."""

    feature: str
    value: float
    mean: float | None  # None: the calibration does not know the usual value
    weight: float
    contribution: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One finished request: the decision, and what the reply or the error adds to it."""

    decision: Decision
    source: str = "local"
    task: str = "chat"
    in_doubt: bool = False  # the reply's needs_cloud_handoff
    error_code: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why, in words and in numbers.

    score    the score that gave the confidence; empty: no score of today's calibration does
    pulls    what each feature added, strongest first
    changes  what would have changed where it was answered, one sentence each
    notes    caveats
    verified  whether the confidence was measured on answers of this model
    """

    outcome: Outcome
    sentence: str
    code: str
    confidence: float | None
    threshold: float | None
    calibration: str
    score: str = ""
    evidence: str = ""
    pulls: tuple[Pull, ...] = ()
    changes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    verified: bool = True

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What today's calibration of that name holds; `found`: whether there is one."""

    found: bool = False
    scores: Mapping[str, Score] = field(default_factory=dict)
    measured: Measured = field(default_factory=Measured)
    hold_tokens: int | None = None


def explain(case: Case, known: Known) -> Explanation:
    decision = case.decision
    outcome = _outcome(case)
    name, note = _matching(case, known)
    means = known.measured.feature_means
    pulls = _pulls(known.scores[name], decision.features, means) if name else ()
    notes = [note] if note else []
    if decision.confidence is not None and decision.calibration and not decision.verified:
        borrowed = is_borrowed(decision.calibration)
        notes.append(_BORROWED if borrowed else _UNVERIFIED.get(decision.calibration, _UNTYPED))
    if pulls and not means:
        notes.append("the calibration holds no means, so contributions are weight x value")
    asked = Asked(
        stayed=outcome == "stayed",
        early=name in ("early", "before"),
        in_doubt=case.in_doubt,
        hold_tokens=known.hold_tokens,
    )
    return Explanation(
        outcome=outcome,
        sentence=_sentence(case, outcome),
        code=case.error_code or decision.code,
        confidence=decision.confidence,
        threshold=decision.threshold,
        calibration=decision.calibration,
        score=name,
        evidence=_evidence(pulls, against=_doubtful(decision)) if pulls else "",
        pulls=pulls,
        changes=() if outcome == "failed" else what_if(decision, asked, known.measured),
        notes=tuple(notes),
        verified=decision.confidence is not None and decision.verified,
    )


def _outcome(case: Case) -> Outcome:
    if case.error_code:
        return "failed"
    if case.decision.code.startswith("signalled_"):
        return "signalled"
    return "stayed" if case.source in ("local", "none") else "left"


def _matching(case: Case, known: Known) -> tuple[str, str]:
    """The score that gives the recorded confidence for the recorded features, or why none does."""
    decision = case.decision
    confidence = decision.features.get(LEAST, decision.confidence)
    if confidence is None or not decision.calibration:
        return "", ""
    if decision.calibration == UNCALIBRATED:
        return "", ""
    if not known.found:
        return "", f"the calibration {decision.calibration!r} is no longer here"
    usable = {
        name: score.of(decision.features)
        for name, score in known.scores.items()
        if set(score.weights) & set(decision.features)
    }
    if not usable:
        return "", "the ledger holds no evidence for this request"
    nearest = min(usable, key=lambda name: abs(usable[name] - confidence))
    if abs(usable[nearest] - confidence) <= SAME:
        return nearest, ""
    # Several scores may judge pictures and calls; chat has one.
    alone = "final" in known.scores
    return "", (
        f"today's calibration gives {usable[nearest]:.2f} for this evidence, "
        "the decision was made with "
        f"{confidence:.2f}: it was fitted again since"
        + ("" if alone else ", or more than one score decided")
    )


def _pulls(
    score: Score, features: Mapping[str, float], means: Mapping[str, float]
) -> tuple[Pull, ...]:
    found = []
    for name, weight in score.weights.items():
        value, mean = features.get(name, 0.0), means.get(name)
        # Adding 0 turns -0 into 0; -0 would print as a pull against the answer.
        contribution = weight * (value - (mean or 0.0)) + 0.0
        found.append(Pull(name, value, mean, weight, contribution))
    return tuple(sorted(found, key=lambda pull: -abs(pull.contribution)))


def _doubtful(decision: Decision) -> bool:
    limit = 0.5 if decision.threshold is None else decision.threshold
    return decision.confidence is not None and decision.confidence < limit


def _evidence(pulls: Sequence[Pull], *, against: bool) -> str:
    """What decided: the strongest feature in the direction of the outcome; states come first."""
    if any(pull.feature in _STATES for pull in pulls):
        return _state_and_words(pulls)
    same_way = [pull for pull in pulls if (pull.contribution < 0) == against]
    strongest = (same_way or list(pulls))[0]
    way = "against" if strongest.contribution < 0 else "for"
    told = f"{strongest.feature} spoke most {way} it: {strongest.value:.3g}"
    if strongest.mean is None:
        return told
    side = "below" if strongest.value < strongest.mean else "above"
    return f"{told}, {side} the usual {strongest.mean:.3g}"


def _state_and_words(pulls: Sequence[Pull]) -> str:
    """What the hidden state and the words of the answer say, each as one sum of log-odds."""
    told = []
    before = any(pull.feature == "before" for pull in pulls)
    state = "the hidden state behind the prompt" if before else "the hidden state of the model"
    for name, states in ((state, True), ("the words of the answer", False)):
        parts = [pull.contribution for pull in pulls if (pull.feature in _STATES) == states]
        if parts:
            way = "against" if sum(parts) < 0 else "for"
            told.append(f"{name} spoke {way} it ({sum(parts):+.2f})")
    return ", ".join(told)


def _sentence(case: Case, outcome: Outcome) -> str:
    decision = case.decision
    if outcome == "failed":
        return f"It failed with {case.error_code}: {_ended(case.error or 'no words were given')}"
    if outcome == "signalled":
        return f"The device left it to the application: {_ended(decision.reason)}"
    if outcome == "left":
        return _left(case)
    return _stayed(case)


def _left(case: Case) -> str:
    decision = case.decision
    if case.source == "mixed":
        return f"Part of it left for the cloud: {_ended(decision.reason)}"
    if decision.code == "handoff_low_confidence" and _measured(decision):
        return f"It left for the cloud: {_comparison(decision)}{_after(decision)}."
    if decision.code.startswith("handoff_"):
        return f"It left for the cloud before the device began: {_ended(decision.reason)}"
    return f"It went to the cloud: {_ended(decision.reason)}"


def _stayed(case: Case) -> str:
    decision = case.decision
    if decision.code == "kept_confident" and _measured(decision):
        return f"It stayed on the device: {_comparison(decision)}."
    if decision.code == "kept_in_doubt" and not decision.degraded_code and _measured(decision):
        return (
            f"It stayed on the device in doubt: {_comparison(decision)}, "
            "but its text had been shown before the doubt came."
        )
    if decision.code == "kept_in_doubt":
        return f"It stayed on the device in doubt: {_ended(decision.reason)}"
    if decision.code == "fallback_local":
        return f"It was to leave, and the device answered after all: {_ended(decision.reason)}"
    return f"It stayed on the device: {_ended(decision.reason)}"


def _measured(decision: Decision) -> bool:
    return decision.confidence is not None and decision.threshold is not None


def _comparison(decision: Decision) -> str:
    assert decision.confidence is not None
    assert decision.threshold is not None
    low = decision.confidence < decision.threshold
    verb = "is below" if low else "reaches"
    digits = 2 if f"{decision.confidence:.2f}" != f"{decision.threshold:.2f}" or not low else 4
    sure = f"{doubt_of(decision.calibration)} confidence".lstrip()
    return (
        f"its {sure} of {decision.confidence:.{digits}f} {verb} "
        f"the threshold of {decision.threshold:.{digits}f}"
    )


def _after(decision: Decision) -> str:
    tokens = decision.decided_after_tokens
    if tokens == 0:
        return ", decided before the first token"
    return f", decided after {tokens} token{'' if tokens == 1 else 's'}" if tokens else ""


def _ended(text: str) -> str:
    text = text.strip()
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."
