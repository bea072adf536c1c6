"""What would have changed a decision: held against the gate itself, where that can be asked."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.decide.calibration import Calibration, Score
from edgewise.decide.explain import (
    Asked,
    what_if,
)
from edgewise.decide.gate import Gate, Verdict
from edgewise.decide.meter import Reading
from edgewise.types.measured import (
    UNMEASURED,
    Measured,
    RiskRow,
)
from edgewise.types.replies import Decision


def changes(asked: Asked, **facts: Any) -> tuple[str, ...]:
    given: dict[str, Any] = {
        "policy": "prefer_local",
        "handoff": "automatic",
        "code": "handoff_low_confidence",
        "reason": "",
        "threshold": 0.5,
        "confidence": 0.4178,
    }
    return what_if(Decision(**(given | facts)), asked, UNMEASURED)


LEFT = Asked(stayed=False, early=False, hold_tokens=16)
STAYED = Asked(stayed=True, early=False, hold_tokens=16)


def test_a_lower_threshold_would_have_kept_it() -> None:
    assert changes(LEFT) == ("It would have stayed at a threshold of 0.41 or less.",)


def test_a_higher_threshold_would_have_sent_it() -> None:
    found = changes(STAYED, code="kept_confident", confidence=0.6312)
    assert found == ("It would have left at a threshold of 0.64 or more.",)
    assert changes(STAYED, code="kept_confident", confidence=1.0) == ()


@given(st.floats(0, 1), st.floats(0, 1))
def test_the_gate_agrees_with_the_sentence(confidence: float, threshold: float) -> None:
    """On an answer that was judged as a whole, which is where the sentence promises something."""
    plain = Score({"mean_logprob": 1.0}, 0.0)
    calibration = Calibration(name="x", early=plain, final=plain)
    reading = Reading(tokens=1, mean_logprob=8 * confidence - 4)
    measured = Gate(calibration, threshold).confidence(reading)
    kept = Gate(calibration, threshold).judge_whole(reading) is Verdict.KEEP
    code = "kept_confident" if kept else "handoff_low_confidence"
    asked = STAYED if kept else LEFT
    for sentence in changes(asked, code=code, confidence=measured, threshold=threshold):
        (other,) = map(float, re.findall(r"threshold of ([0-9.]+) or", sentence))
        verdict = Gate(calibration, other).judge_whole(reading)
        assert (verdict is Verdict.KEEP) is (not kept), sentence


def test_what_was_stopped_before_its_time_says_what_the_gate_would_have_waited_for() -> None:
    early = Asked(stayed=False, early=True, hold_tokens=16)
    assert changes(early, decided_after_tokens=3) == (
        "At a low enough threshold the gate would have waited for more evidence than 3 tokens.",
    )
    assert changes(early, decided_after_tokens=16) == (
        "At a threshold of 0.41 or less the device could have gone on.",
    )


def test_a_stated_risk_that_would_have_changed_it_is_named() -> None:
    # With 1,000 rows behind it, what is kept from 0.4 on is wrong in one of ten, from 0.8 on never.
    table = (RiskRow(0.8, 500, 0), RiskRow(0.6, 600, 30), RiskRow(0.4, 800, 80))
    measured = Measured(risk={"whole": table}, risk_rows=1000)
    facts: dict[str, Any] = {"policy": "", "handoff": "automatic", "reason": "", "threshold": 0.9}
    left = Decision(code="handoff_low_confidence", confidence=0.45, **facts)
    assert what_if(left, LEFT, measured)[1] == "With max_error=20 % it would have stayed."
    assert len(what_if(left, replace(LEFT, early=True), measured)) == 1, (
        "a beginning proves nothing"
    )
    kept = Decision(code="kept_confident", confidence=0.95, **facts)
    assert len(what_if(kept, STAYED, measured)) == 1, "it would have stayed at every risk"
    facts["threshold"] = 0.4
    doubtful = Decision(code="kept_confident", confidence=0.45, **facts)
    assert what_if(doubtful, STAYED, measured)[1] == "With max_error=10 % it would have left."


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("no_key", "With a key for a provider it would have left for the cloud."),
        ("private", "If it had not been private, the cloud could have answered."),
        ("budget_spent", "With money left in the budget it would have left for the cloud."),
        ("breaker_open", "If the cloud had answered (breaker_open), it would have left."),
    ],
)
def test_a_closed_cloud_is_what_would_have_to_open(code: str, sentence: str) -> None:
    assert changes(STAYED, code="kept_in_doubt", degraded_code=code)[-1] == sentence


def test_text_that_was_shown_too_early_would_have_been_judged_as_a_whole() -> None:
    asked = Asked(stayed=True, early=False, in_doubt=True)
    assert "(complete)" in changes(asked, code="kept_in_doubt")[-1]


def test_a_policy_and_a_misfit_name_what_would_have_to_change() -> None:
    nothing = {"confidence": None, "threshold": None}
    (policy,) = changes(LEFT, code="policy_cloud_only", **nothing)
    assert 'policy="prefer_local"' in policy
    (late,) = changes(LEFT, code="handoff_deadline", **nothing)
    assert "deadline_ms" in late
    (signalled,) = changes(LEFT, code="signalled_deadline", **nothing)
    assert signalled == late
