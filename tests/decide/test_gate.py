"""The gate: holds for a limited time, then decides; a request's threshold counts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.decide.calibration import CHAT
from edgewise.decide.gate import Gate, Verdict
from edgewise.decide.meter import Reading
from edgewise.decide.score import Score
from edgewise.types.measured import Boundaries

# Its score is the first margin itself (as a logit), which makes chances easy to write down.
PLAIN = CHAT.uncalibrated.with_scores(
    early=Score({"first_margin": 1.0}, 0.0), final=Score({"first_margin": 1.0}, 0.0)
).with_numbers(hold_tokens=8)
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
    st.booleans(),
)
def test_hold_is_bounded_whatever_the_scores(
    logit: float, threshold: float, held: int, bound: int, bounded: bool
) -> None:
    gate = Gate((BOUNDED if bounded else PLAIN).with_numbers(hold_tokens=bound), threshold)
    verdict = gate.judge(reading(logit, held), held)
    if held >= bound:
        assert verdict is not Verdict.HOLD
    if verdict is Verdict.KEEP:
        assert gate.early_confidence(reading(logit, held)) >= threshold
    if verdict is Verdict.HAND_OFF:
        assert gate.early_confidence(reading(logit, held)) < threshold


STOPS = {2: (0.2, 0.8), 4: (0.4, 0.6)}
BOUNDED = replace(PLAIN, boundaries=Boundaries((0.5,), (STOPS,)))


@pytest.mark.parametrize(
    ("logit", "held", "verdict"),
    [
        (HOPELESS, 1, Verdict.HOLD),  # no stop here, however clear
        (HOPELESS, 2, Verdict.HAND_OFF),
        (SURE, 2, Verdict.KEEP),
        (1.0, 2, Verdict.HOLD),  # 0.73 is not clear yet
        (1.0, 4, Verdict.KEEP),
        (-1.0, 2, Verdict.HOLD),
        (-1.0, 4, Verdict.HAND_OFF),
        (-UNSURE, 4, Verdict.HOLD),
    ],
)
def test_boundaries_say_what_is_clear_after_so_many_tokens(
    logit: float, held: int, verdict: Verdict
) -> None:
    assert Gate(BOUNDED, 0.5).judge(reading(logit, held), held) is verdict


def test_a_boundary_holds_on_the_far_side_of_its_threshold_only() -> None:
    assert Gate(BOUNDED, 0.7).judge(reading(-1.0, 4), 4) is Verdict.HAND_OFF
    assert Gate(BOUNDED, 0.7).judge(reading(SURE, 4), 4) is Verdict.HOLD
    assert Gate(BOUNDED, 0.3).judge(reading(1.0, 4), 4) is Verdict.KEEP
    assert Gate(BOUNDED, 0.3).judge(reading(HOPELESS, 4), 4) is Verdict.HOLD


def test_a_model_without_evidence_is_not_dropped_at_a_boundary() -> None:
    assert Gate(BOUNDED, 0.5).judge(Reading(), 2) is Verdict.HOLD


def test_stop_zero_says_which_states_behind_a_prompt_are_hopeless() -> None:
    both = replace(
        PLAIN.with_scores(before=Score({"before": 1.0}, 0.0)),
        boundaries=Boundaries((0.5,), ({0: (0.2, 1.0)},)),
    )
    hopeless, unsure = Reading(tokens=1, before=-2.0), Reading(tokens=1, before=-1.0)
    assert Gate(both, 0.5).skips(hopeless) and not Gate(both, 0.5).skips(unsure)
    assert Gate(both, 0.9).skips(hopeless), "what is hopeless at 0.5 is so at 0.9"
    assert not Gate(both, 0.4).skips(hopeless)
    assert not Gate(both, 0.0).skips(hopeless)
    assert not Gate(both, 0.5).skips(Reading(tokens=1)), "a runtime without states"
    assert not Gate(replace(both, boundaries=Boundaries()), 0.5).skips(hopeless)
