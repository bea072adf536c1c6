"""Calibrations: a logistic score with named features, refused when it cannot be read."""

from __future__ import annotations

import base64
import math
import sys
from typing import Any

import numpy as np
import pytest

from edgewise.decide.calibration import CHAT, Head, Reading, Score, parse_calibration
from edgewise.errors import SettingsError
from edgewise.types.replies import floats_in

GOOD: dict[str, Any] = {
    "format": 1,
    "name": "m-q8_0/chat",
    "early": {"weights": {"mean_logprob": 2.0}, "bias": 1.0},
    "final": {"weights": {"mean_logprob": 2.0, "first_margin": 0.5}, "bias": 1.0},
    "hold_tokens": 12,
    "threshold": 0.6,
    "keep_above": 0.9,
    "drop_below": 0.2,
    "report": {"auroc": 0.8},
}


def test_the_score_is_the_documented_formula() -> None:
    score = Score({"mean_logprob": 2.0, "first_margin": 0.5}, 1.0)
    reading = Reading(tokens=3, mean_logprob=-0.5, first_margin=3.0)
    assert math.isclose(score.of(reading.features()), 1 / (1 + math.exp(-1.5)))


def test_a_hopeless_reading_does_not_overflow() -> None:
    assert 0 <= Score({"mean_logprob": 1e9}, 0).of(Reading(mean_logprob=-1e9).features()) < 1e-20


def test_a_file_becomes_a_calibration() -> None:
    calibration = parse_calibration(GOOD, "file")
    assert (calibration.name, calibration.hold_tokens, calibration.fitted) == (
        "m-q8_0/chat",
        12,
        True,
    )
    assert not CHAT.uncalibrated.fitted


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"format": 2}, "format 2"),
        ({"early": {"weights": {"moon_phase": 1}, "bias": 0}}, "moon_phase"),
        ({"threshold": "high"}, "not a calibration"),
        ({"final": None}, "not a calibration"),
        ({"hold_tokens": 0}, "hold_tokens"),
        ({"hold_tokens": 100_000}, "hold_tokens"),
        ({"boundaries": [{"threshold": 0.5, "stops": [[1, 0.7, 0.9]]}]}, "below its threshold"),
        ({"boundaries": {"0.5": []}}, "not a calibration"),
    ],
)
def test_a_file_that_cannot_be_right_is_refused(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint):
        parse_calibration(GOOD | change, "file")


def test_the_maps_of_a_file_come_after_its_scores() -> None:
    maps = {"early": [[0.0, 0.0], [1.0, 0.5]], "final": [[0.0, 0.25], [1.0, 0.25]]}
    plain, mapped = parse_calibration(GOOD, "file"), parse_calibration(GOOD | {"map": maps}, "file")
    reading = Reading(tokens=3, mean_logprob=-0.5, first_margin=3.0)
    assert math.isclose(
        mapped.early.of(reading.features()), plain.early.of(reading.features()) / 2, rel_tol=1e-9
    )
    assert mapped.final.of(reading.features()) == 0.25


def test_what_was_measured_is_kept_and_what_cannot_be_is_refused() -> None:
    calibration = parse_calibration(GOOD | {"risk": {"whole": [[0.9, 10, 0]]}}, "file")
    assert calibration.measured.risk["whole"][0].kept == 10
    assert parse_calibration(GOOD, "file").measured.risk == {}
    with pytest.raises(SettingsError, match="strictest"):
        parse_calibration(GOOD | {"risk": {"whole": [[0.5, 9, 0], [0.9, 1, 0]]}}, "file")
    with pytest.raises(SettingsError, match="file: not a calibration"):
        parse_calibration(GOOD | {"risk": [1, 2]}, "file")


def test_boundaries_are_read_where_a_file_has_them() -> None:
    assert not parse_calibration(GOOD, "file").boundaries
    rows = [{"threshold": 0.5, "stops": [[1, 0.1, 1.0], [4, 0.3, 0.8]]}]
    boundaries = parse_calibration(GOOD | {"boundaries": rows}, "file").boundaries
    assert boundaries.at(0.5, 4) == (0.3, 0.8)


ONE = "AACAPw=="  # the 32-bit float 1
HEAD = {"layer": 3, "centre": ONE, "spread": ONE, "weights": ONE, "clip": 8}
WITH_STATE: dict[str, Any] = {
    **{name: GOOD[name] for name in ("early", "hold_tokens", "keep_above", "drop_below")},
    "heads": {"state": HEAD, "before": HEAD | {"layer": 5}},
    "final": {"weights": {"mean_logprob": 2.0, "state": 1.0}, "bias": 1.0},
    "before": {"weights": {"before": 1.0}, "bias": -1.0},
    "threshold": 0.4,
    "risk": {"whole": [[0.9, 10, 0]]},
}


def test_a_file_may_hold_a_second_calibration_for_replies_with_hidden_states() -> None:
    words = parse_calibration(GOOD | {"with_state": WITH_STATE}, "file")
    both = words.seen(states=True)
    assert words.seen(states=False) is words
    assert (words.name, both.name) == ("m-q8_0/chat", "m-q8_0/chat:state")
    assert (words.threshold, both.threshold) == (0.6, 0.4)
    assert (both.layer_of("state"), both.layer_of("before"), words.layer_of("state")) == (3, 5, 0)
    reading = Reading(tokens=3, mean_logprob=-0.5, state=2.0, before=1.0)
    assert math.isclose(both.final.of(reading), 1 / (1 + math.exp(-2.0)))
    assert both.chance("before", reading.features()) == 0.5
    assert parse_calibration(GOOD, "file").seen(states=True).name == "m-q8_0/chat"


def test_the_first_state_is_read_without_numpy_and_says_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A command waits for its first word, and loading numpy takes longer than reading a state."""
    drawn = np.random.default_rng(7).normal(size=(4, 64)).astype("<f4")
    centre, spread, weights = (
        base64.b64encode(each.tobytes()).decode() for each in (drawn[0], abs(drawn[1]), drawn[2])
    )
    head = Head(3, centre, spread, weights, clip=2.0)
    with monkeypatch.context() as patched:
        patched.delitem(sys.modules, "numpy")
        plain = head.of(floats_in(drawn[3].tobytes()))
        assert "numpy" not in sys.modules
    assert math.isclose(plain, head.of(drawn[3]), rel_tol=1e-4)
    assert math.isclose(head.of(floats_in(drawn[3].tobytes())), head.of(drawn[3]), rel_tol=1e-6)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"heads": {"state": HEAD | {"weights": "AAAA"}}}, "as many centres"),
        ({"heads": {"state": HEAD | {"layer": 0}}}, "needs a layer"),
        ({"heads": {"state": {"layer": 3}}}, "not a calibration"),
        ({"before": {"weights": {"mean_logprob": 1.0}, "bias": 0.0}}, "mean_logprob"),
    ],
)
def test_a_head_that_cannot_be_right_is_refused(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint):
        parse_calibration(GOOD | {"with_state": WITH_STATE | change}, "file")


def test_the_words_alone_cannot_weigh_a_state() -> None:
    with pytest.raises(SettingsError, match="state"):
        parse_calibration(GOOD | {"final": WITH_STATE["final"]}, "file")
