"""Early decisions beside those in the end, on made-up answers whose course is known."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy

from edgewise.bench.boundaries import choose_boundaries
from edgewise.bench.early_decision import (
    SHARES,
    STUDY_STEPS,
    Decided,
    by_gate,
    compare,
    deal,
    in_the_end,
    measure_early,
    measure_shipped,
    study_early,
)
from edgewise.bench.fit import FOLDS, Judged, Sample
from edgewise.decide.calibration import Calibration, Score
from edgewise.decide.meter import Reading
from tests.bench.test_boundaries import HOLD, wandering


def course(*scores: float, right: bool = True) -> Judged:
    """An answer whose score takes these values, token by token; held for at most two."""
    readings = tuple(
        Reading(tokens=count, mean_logprob=math.log(score / (1 - score)))
        for count, score in enumerate(scores, start=1)
    )
    score = Score({"mean_logprob": 1.0}, 0.0)
    calibration = Calibration(
        name="", early=score, final=score, hold_tokens=2, keep_above=1.0, drop_below=0.0
    )
    return Judged(Sample("kind", right, readings), calibration)


def test_the_gate_stops_at_the_bound_where_the_end_reads_on() -> None:
    judged = [course(0.9, 0.9, 0.2), course(0.1, 0.1, 0.1), course(0.1, 0.4, 0.8)]
    end, gate = in_the_end(judged, 0.5), by_gate(judged, 0.5)
    assert end.kept.tolist() == [False, False, True]
    assert end.tokens.tolist() == [3, 3, 3]
    assert gate.kept.tolist() == [True, False, False]
    assert gate.tokens.tolist() == [2, 2, 2]


def test_a_rule_is_told_by_what_it_changes_and_what_it_saves() -> None:
    end = Decided(numpy.array([True, True, False, False]), numpy.array([8.0, 8, 8, 8]))
    rule = Decided(numpy.array([True, False, True, False]), numpy.array([1.0, 2, 3, 4]))
    confidence = numpy.array([0.9, 0.8, 0.3, 0.2])
    right = numpy.array([True, True, False, False])
    found = compare(rule, end, confidence, right)
    assert (found.agreement, found.lost, found.slipped) == (0.5, 0.5, 0.5)
    assert (found.tokens, found.wasted, found.kept) == (2.5, 3.0, 0.5)
    assert (found.error, found.end_error) == (0.5, 0.0)


def test_a_rule_that_keeps_nothing_has_no_error_and_does_not_divide_by_it() -> None:
    nothing = Decided(numpy.array([False, False]), numpy.array([1.0, 1.0]))
    found = compare(nothing, nothing, numpy.array([0.1, 0.2]), numpy.array([True, False]))
    assert (found.lost, found.slipped, found.error, found.wasted) == (0.0, 0.0, 0.0, 1.0)


def test_deciding_early_wastes_fewer_tokens_and_says_what_it_changed() -> None:
    judged = wandering(800, noise=1.0)
    metrics = measure_early(judged, rounds=50)
    assert metrics["tokens_wasted_early"] < 0.7 * metrics["tokens_wasted_end"]
    assert metrics["early_agreement"] > 0.9
    for name in ("early_agreement", "tokens_wasted_early", "tokens_wasted_end"):
        assert metrics[f"{name}_low"] <= metrics[name] <= metrics[f"{name}_high"]


def test_the_study_goes_from_the_end_to_ever_bolder_boundaries() -> None:
    steps: list[None] = []
    found = study_early(wandering(800, noise=1.0), step=lambda: steps.append(None))
    assert len(steps) == STUDY_STEPS == len(found)
    assert found["in the end"]["agreement"] == 1.0
    assert found["at the bound"]["tokens"] == HOLD
    tokens = [found[f"boundaries {share:g}"]["tokens"] for share in SHARES]
    assert tokens == sorted(tokens, reverse=True)


def test_a_shipped_calibration_is_judged_with_the_boundaries_it_came_with() -> None:
    judged = wandering(800, noise=1.0)
    samples = [each.sample for each in judged]
    plain = judged[0].calibration
    bounded = replace(plain, boundaries=choose_boundaries(judged))
    without, found = (measure_shipped(each, samples, rounds=10) for each in (plain, bounded))
    assert without["tokens_before_decision_early"] == HOLD
    assert found["tokens_before_decision_early"] < 0.7 * HOLD
    assert found["tokens_wasted_end"] == without["tokens_wasted_end"]
    assert found["early_tokens_at_50"] == found["tokens_before_decision_early"]
    assert found["early_tokens_at_50"] < found["cut_tokens_at_50"] <= found["bound_tokens_at_50"]
    assert found["bound_tokens_at_50"] == HOLD


def test_answers_are_dealt_by_kind_and_without_what_was_clear() -> None:
    judged = wandering(60, noise=1.0)
    samples = [
        replace(each.sample, kind=f"kind {number % 9}") for number, each in enumerate(judged)
    ]
    calibration = replace(judged[0].calibration, keep_above=0.6)
    dealt = deal(calibration, samples)
    assert [each.sample for each in dealt] == samples
    assert len({id(each.calibration) for each in dealt}) == FOLDS
    assert all(each.calibration.keep_above == 1.0 for each in dealt)
    by_kind = {(each.sample.kind, id(each.calibration)) for each in dealt}
    assert len(by_kind) == 9  # no kind in two folds
