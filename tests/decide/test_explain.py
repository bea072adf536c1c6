"""Why an answer stayed or left, from a decision and what its calibration holds."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.decide.explain import (
    Case,
    Explanation,
    Known,
    Weighing,
    explain,
)
from edgewise.types.measured import (
    Measured,
    ScoreMap,
)
from edgewise.types.replies import Decision

FINAL = Weighing("final", {"mean_logprob": 2.0, "number_share": -6.0}, 1.5)
EARLY = Weighing("early", {"mean_entropy": -1.0}, 2.0)
MEANS = {"mean_logprob": -0.5, "number_share": 0.1, "mean_entropy": 0.8}
FEATURES = {"tokens": 9.0, "mean_logprob": -0.4, "number_share": 0.5, "mean_entropy": 1.1}
KNOWN = Known(
    found=True,
    weighings=(EARLY, FINAL),
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
        "confidence": FINAL.confidence(FEATURES),
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
    score = Weighing("final", weights, bias)
    confidence = score.confidence(values)
    known = Known(found=True, weighings=(score,), measured=Measured(feature_means=means))
    found = told(known, confidence=confidence, features=values)
    ordinary = bias + sum(weight * means.get(name, 0.0) for name, weight in weights.items())
    total = ordinary + sum(pull.contribution for pull in found.pulls)
    clipped = max(-60.0, min(60.0, total))
    assert 1 / (1 + math.exp(-clipped)) == pytest.approx(confidence, abs=1e-6)


def test_the_score_is_told_by_the_confidence_it_gives() -> None:
    assert told(confidence=EARLY.confidence(FEATURES)).score == "early"


def test_a_map_after_the_score_is_taken_into_account() -> None:
    halved = Weighing("final", FINAL.weights, FINAL.bias, ScoreMap(((0.0, 0.0), (1.0, 0.5))))
    known = Known(found=True, weighings=(halved,), measured=KNOWN.measured)
    assert told(known, confidence=FINAL.confidence(FEATURES) / 2).score == "final"
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
    known = Known(found=True, weighings=(FINAL,))
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
