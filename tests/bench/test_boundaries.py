"""Boundaries: few answers change sides, and the tables know when they know nothing."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random

from edgewise.bench.boundaries import STOPS, choose_boundaries, give_boundaries
from edgewise.bench.fit import Judged, Sample
from edgewise.decide.calibration import Calibration, Score
from edgewise.decide.gate import Verdict
from edgewise.decide.meter import Reading

HOLD = 24
SCORE = Score({"mean_logprob": 1.0}, 0.0)  # the feature is the score, in log-odds


def calibration() -> Calibration:
    return Calibration(
        name="", early=SCORE, final=SCORE, hold_tokens=HOLD, keep_above=1.0, drop_below=0.0
    )


def wandering(count: int, *, noise: float, seed: int = 0) -> list[Judged]:
    """Answers whose score is where it ends plus a noise that dies away; in two folds."""
    random, folds = Random(seed), (calibration(), calibration())
    judged = []
    for number in range(count):
        end, off = random.gauss(-1.0, 2.0), random.gauss(0, 1)
        readings = tuple(
            Reading(tokens=token, mean_logprob=end + noise * off * (30 - token) / 30)
            for token in range(1, 31)
        )
        sample = Sample("kind", random.random() < 1 / (1 + math.exp(-end)), readings)
        judged.append(Judged(sample, folds[number % 2]))
    return judged


def end_verdict(judged: Judged, threshold: float) -> Verdict:
    return Verdict.KEEP if judged.confidence >= threshold else Verdict.HAND_OFF


def test_few_answers_change_sides_although_waiting_ends_early() -> None:
    bounded = give_boundaries(wandering(2000, noise=1.5))
    for threshold in (0.3, 0.5, 0.7):
        decided = [(each.decide(threshold=threshold), each) for each in bounded]
        kept = [each for _, each in decided if end_verdict(each, threshold) is Verdict.KEEP]
        lost = [
            each
            for (verdict, tokens), each in decided
            if verdict is Verdict.HAND_OFF and tokens < HOLD and each in kept
        ]
        slipped = [
            each
            for (verdict, tokens), each in decided
            if verdict is Verdict.KEEP and tokens < HOLD and each not in kept
        ]
        assert len(lost) <= 0.08 * len(kept)  # 0.05 where they were chosen: these are others
        assert len(slipped) <= 0.08 * len(kept)
        assert sum(tokens for (_, tokens), _ in decided) < 0.6 * HOLD * len(decided)


def test_a_score_that_never_changes_needs_no_waiting() -> None:
    boundaries = choose_boundaries(wandering(600, noise=0.0))
    drop_below, keep_above = boundaries.at(0.5, 1)
    assert 0.4 < drop_below <= 0.5 <= keep_above < 0.6


def test_a_score_that_says_nothing_early_is_waited_for() -> None:
    random = Random(1)
    judged = []
    for each in wandering(600, noise=0.0):
        early = tuple(
            replace(reading, mean_logprob=random.gauss(0, 1)) for reading in each.sample.readings
        )
        sample = replace(each.sample, readings=(*early[:-1], each.sample.readings[-1]))
        judged.append(Judged(sample, each.calibration))
    decided = [each.decide() for each in give_boundaries(judged)]
    waited = sum(tokens == HOLD for _, tokens in decided)
    assert waited > 0.5 * len(decided)


def test_a_threshold_with_few_answers_on_one_side_gets_no_table() -> None:
    judged = [each for each in wandering(900, noise=1.0) if each.confidence < 0.55]
    thresholds = choose_boundaries(judged).thresholds
    assert 0.5 not in thresholds or sum(each.confidence >= 0.5 for each in judged) >= 60
    assert 0.6 not in thresholds
    assert 0.2 in thresholds
    assert not choose_boundaries(judged[:40])


def test_stops_come_before_the_bound() -> None:
    judged = [
        Judged(each.sample, replace(each.calibration, hold_tokens=6))
        for each in wandering(600, noise=1.0)
    ]
    table = choose_boundaries(judged).tables[0]
    assert list(table) == [stop for stop in STOPS if stop < 6]
