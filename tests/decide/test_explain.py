"""Why an answer stayed or left, from a decision and what its calibration holds."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.decide.calibration import (
    UNMEASURED,
    Measured,
    Reading,
    RiskRow,
    Score,
    ScoreMap,
    chat_calibration,
)
from edgewise.decide.explain import Asked, Case, Explanation, Known, explain, what_if
from edgewise.decide.gate import Gate, Verdict
from edgewise.types.replies import Decision

FINAL = Score({"mean_logprob": 2.0, "number_share": -6.0}, 1.5)
EARLY = Score({"mean_entropy": -1.0}, 2.0)
MEANS = {"mean_logprob": -0.5, "number_share": 0.1, "mean_entropy": 0.8}
FEATURES = {"tokens": 9.0, "mean_logprob": -0.4, "number_share": 0.5, "mean_entropy": 1.1}
KNOWN = Known(
    found=True,
    scores={"early": EARLY, "final": FINAL},
    measured=Measured(feature_means=MEANS),
    hold_tokens=16,
)


def decision(**changes: Any) -> Decision:
    facts: dict[str, Any] = {
        "policy": "prefer_local",
        "handoff": "automatic",
        "code": "handoff_low_confidence",
        "reason": "confidence 0.09 is below 0.50",
        "threshold": 0.5,
        "confidence": FINAL.of(FEATURES),
        "calibration": "a-model-q8_0",
        "features": FEATURES,
    }
    return Decision(**(facts | changes))


def told(known: Known = KNOWN, source: str = "cloud", **changes: Any) -> Explanation:
    return explain(Case(decision=decision(**changes), source=source), known)


def test_each_feature_adds_its_weight_times_its_distance_from_the_mean() -> None:
    found = told()
    assert found.score == "final"
    assert [pull.feature for pull in found.pulls] == ["number_share", "mean_logprob"]
    assert found.pulls[0].contribution == pytest.approx(-6.0 * (0.5 - 0.1))
    assert found.pulls[1].contribution == pytest.approx(2.0 * (-0.4 + 0.5))
    assert found.evidence == "number_share spoke most against it: 0.5, above the usual 0.1"
    assert not found.notes


@given(
    st.dictionaries(
        st.sampled_from(["a", "b", "c"]), st.tuples(st.floats(-5, 5), st.floats(-9, 9)), min_size=1
    ),
    st.dictionaries(st.sampled_from(["a", "b", "c"]), st.floats(-9, 9)),
    st.floats(-3, 3),
)
def test_the_pulls_and_an_ordinary_answer_add_up_to_the_confidence(
    weighed: dict[str, tuple[float, float]], means: dict[str, float], bias: float
) -> None:
    weights = {name: weight for name, (weight, _) in weighed.items()}
    values = {name: value for name, (_, value) in weighed.items()}
    score = Score(weights, bias)
    confidence = score.of(values)
    known = Known(found=True, scores={"final": score}, measured=Measured(feature_means=means))
    found = told(known, confidence=confidence, features=values)
    ordinary = bias + sum(weight * means.get(name, 0.0) for name, weight in weights.items())
    total = ordinary + sum(pull.contribution for pull in found.pulls)
    clipped = max(-60.0, min(60.0, total))
    assert 1 / (1 + math.exp(-clipped)) == pytest.approx(confidence, abs=1e-6)


def test_the_score_is_told_by_the_confidence_it_gives() -> None:
    assert told(confidence=EARLY.of(FEATURES)).score == "early"


def test_a_map_after_the_score_is_taken_into_account() -> None:
    halved = Score(FINAL.weights, FINAL.bias, ScoreMap(((0.0, 0.0), (1.0, 0.5))))
    known = Known(found=True, scores={"final": halved}, measured=KNOWN.measured)
    assert told(known, confidence=FINAL.of(FEATURES) / 2).score == "final"
    assert told(known).score == "", "the confidence before the map is not what it gives"


def test_a_calibration_that_was_fitted_again_is_said_and_not_used() -> None:
    found = told(confidence=0.42)
    assert not found.pulls
    (note,) = found.notes
    assert "the decision was made with 0.42" in note
    assert "fitted again" in note


def test_a_calibration_that_is_gone_is_said() -> None:
    assert told(Known()).notes == ("the calibration 'a-model-q8_0' is no longer here",)


def test_without_means_the_contributions_say_what_they_are() -> None:
    known = Known(found=True, scores={"final": FINAL})
    found = told(known)
    assert found.notes == ("the calibration holds no means, so contributions are weight x value",)
    assert found.pulls[0].mean is None
    assert "usual" not in found.evidence


@pytest.mark.parametrize(
    ("source", "changes", "sentence"),
    [
        (
            "local",
            {"code": "kept_confident", "confidence": 0.8},
            "It stayed on the device: its confidence of 0.80 reaches the threshold of 0.50.",
        ),
        (
            "cloud",
            {"confidence": 0.31, "decided_after_tokens": 16},
            "It left for the cloud: its confidence of 0.31 is below the threshold of 0.50, "
            "decided after 16 tokens.",
        ),
        (
            "cloud",
            {"confidence": 0.4999},
            "It left for the cloud: its confidence of 0.4999 is below the threshold of 0.5000.",
        ),
        (
            "local",
            {"code": "kept_in_doubt", "confidence": 0.4},
            "It stayed on the device in doubt: its confidence of 0.40 is below the threshold of "
            "0.50, but its text had been shown before the doubt came.",
        ),
        (
            "cloud",
            {"code": "handoff_deadline", "reason": "too slow", "confidence": None},
            "It left for the cloud before the device began: too slow.",
        ),
        (
            "local",
            {"code": "fallback_local", "reason": "in doubt; but the cloud did not answer: 503"},
            "It was to leave, and the device answered after all: in doubt; "
            "but the cloud did not answer: 503.",
        ),
        (
            "none",
            {"code": "signalled_low_confidence", "reason": "confidence 0.31 is below 0.50"},
            "The device left it to the application: confidence 0.31 is below 0.50.",
        ),
        ("mixed", {"reason": "1 of 3 in doubt"}, "Part of it left for the cloud: 1 of 3 in doubt."),
        (
            "cloud",
            {"code": "policy_cloud_only", "reason": "the policy asks only the cloud"},
            "It went to the cloud: the policy asks only the cloud.",
        ),
    ],
)
def test_one_sentence_says_why(source: str, changes: dict[str, Any], sentence: str) -> None:
    assert told(source=source, **changes).sentence == sentence


def test_a_failure_has_its_code_and_words_and_no_what_if() -> None:
    case = Case(
        decision=decision(code="", reason="", confidence=None, features={}),
        source="none",
        error_code="cloud_timeout",
        error="no first token in 15 s",
    )
    found = explain(case, KNOWN)
    assert found.outcome == "failed"
    assert found.sentence == "It failed with cloud_timeout: no first token in 15 s."
    assert found.changes == ()


def test_it_becomes_plain_values() -> None:
    plain = told().to_dict()
    assert plain["pulls"][0]["feature"] == "number_share"
    assert set(plain) >= {"sentence", "outcome", "confidence", "threshold", "changes", "notes"}


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
    """Only for an answer that was judged as a whole does the sentence promise something."""
    plain = Score({"mean_logprob": 1.0}, 0.0)
    calibration = chat_calibration(name="x", early=plain, final=plain)
    reading = Reading(tokens=1, mean_logprob=8 * confidence - 4)
    measured = Gate(calibration, threshold).confidence(reading)
    kept = Gate(calibration, threshold).judge_whole(reading) is Verdict.KEEP
    code = "kept_confident" if kept else "handoff_low_confidence"
    asked = STAYED if kept else LEFT
    for sentence in changes(asked, code=code, confidence=measured, threshold=threshold):
        (other,) = map(float, re.findall(r"threshold of ([0-9.]+) or", sentence))
        verdict = Gate(calibration, other).judge_whole(reading)
        assert (verdict is Verdict.KEEP) is (not kept), sentence


def test_an_answer_stopped_early_says_what_the_gate_would_have_waited_for() -> None:
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
    (slow,) = changes(LEFT, code="handoff_slow_device", **nothing)
    assert "slow_after_s = 0" in slow
    (signalled,) = changes(LEFT, code="signalled_deadline", **nothing)
    assert signalled == late


BY_STATE = Known(
    found=True,
    scores={
        "final": Score({"state": 1.0, "mean_logprob": 2.0}, 0.0),
        "before": Score({"before": 1.0}, 0.0),
    },
    measured=Measured(feature_means={"state": 0.5, "mean_logprob": -0.5, "before": 1.0}),
    hold_tokens=9,
)


def test_what_the_state_says_and_what_the_words_say_are_told_apart() -> None:
    seen = {"tokens": 9.0, "state": -2.0, "mean_logprob": -0.25, "before": 3.0}
    found = told(BY_STATE, confidence=BY_STATE.scores["final"].of(seen), features=seen)
    assert found.score == "final"
    assert found.evidence == (
        "the hidden state of the model spoke against it (-2.50), "
        "the words of the answer spoke for it (+0.50)"
    )


def test_an_answer_that_was_not_begun_says_so() -> None:
    seen = {"tokens": 1.0, "before": -3.0, "mean_logprob": -0.25}
    chance = BY_STATE.scores["before"].of(seen)
    found = told(BY_STATE, confidence=chance, features=seen, decided_after_tokens=0)
    assert found.score == "before"
    assert found.sentence.endswith(
        "is below the threshold of 0.50, decided before the first token."
    )
    assert found.evidence == "the hidden state behind the prompt spoke against it (-4.00)"
    assert found.changes == ("At a low enough threshold the device would have begun to answer.",)
