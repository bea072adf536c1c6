"""The gate: holds for a bounded time, then decides; per-request thresholds count."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.decide.calibration import UNCALIBRATED, Score
from edgewise.decide.confidence import Reading
from edgewise.decide.gate import Gate, Verdict

# Its score is the first margin itself (as a logit), which makes chances easy to write down.
PLAIN = replace(
    UNCALIBRATED,
    early=Score({"first_margin": 1.0}, 0.0),
    final=Score({"first_margin": 1.0}, 0.0),
    hold_tokens=8,
)
SURE, UNSURE, HOPELESS = 5.0, 0.3, -5.0


def reading(logit: float, tokens: int = 1) -> Reading:
    return Reading(tokens=tokens, first_margin=logit)


@pytest.mark.parametrize(
    ("logit", "held", "verdict"),
    [
        (SURE, 1, Verdict.KEEP),
        (HOPELESS, 1, Verdict.HAND_OFF),
        (UNSURE, 1, Verdict.HOLD),
        (UNSURE, 7, Verdict.HOLD),
        (UNSURE, 8, Verdict.KEEP),  # 0.57 is above the threshold
        (-UNSURE, 8, Verdict.HAND_OFF),
    ],
)
def test_clear_scores_decide_at_once_and_unclear_ones_at_the_bound(
    logit: float, held: int, verdict: Verdict
) -> None:
    assert Gate(PLAIN, 0.5).judge(reading(logit, held), held) is verdict


def test_a_higher_threshold_hands_off_what_a_lower_one_keeps() -> None:
    assert Gate(PLAIN, 0.5).judge(reading(2.0, 8), 8) is Verdict.KEEP
    assert Gate(PLAIN, 0.95).judge(reading(2.0, 8), 8) is Verdict.HAND_OFF


def test_what_is_clear_at_the_calibrated_threshold_says_nothing_beyond_it() -> None:
    sure, hopeless = reading(SURE), reading(HOPELESS)
    assert Gate(PLAIN, 0.95).judge(sure, 1) is Verdict.HOLD, "a stricter caller waits"
    assert Gate(PLAIN, 0.2).judge(hopeless, 1) is Verdict.HOLD, "a laxer one too"
    assert Gate(PLAIN, 0.2).judge(sure, 1) is Verdict.KEEP
    assert Gate(PLAIN, 0.95).judge(hopeless, 1) is Verdict.HAND_OFF


def test_threshold_zero_never_holds_anything_back() -> None:
    assert Gate(PLAIN, 0.0).judge(reading(HOPELESS), 1) is Verdict.KEEP
    assert Gate(PLAIN, 0.0).judge(Reading(), 0) is Verdict.KEEP


def test_a_model_without_evidence_is_held_to_the_bound_then_handed_off() -> None:
    gate = Gate(PLAIN, 0.5)
    assert gate.judge(Reading(), 3) is Verdict.HOLD
    assert gate.judge(Reading(), 8) is Verdict.HAND_OFF
    assert gate.confidence(Reading()) == 0.0


@given(
    st.floats(-10, 10),
    st.floats(0, 1),
    st.integers(1, 300),
    st.integers(1, 64),
)
def test_hold_is_bounded_whatever_the_scores(
    logit: float, threshold: float, held: int, bound: int
) -> None:
    gate = Gate(replace(PLAIN, hold_tokens=bound), threshold)
    verdict = gate.judge(reading(logit, held), held)
    if held >= bound:
        assert verdict is not Verdict.HOLD
    if verdict is Verdict.KEEP:
        assert gate.early_confidence(reading(logit, held)) >= threshold
    if verdict is Verdict.HAND_OFF:
        assert gate.early_confidence(reading(logit, held)) < threshold
