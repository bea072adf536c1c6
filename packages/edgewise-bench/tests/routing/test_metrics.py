from __future__ import annotations

import math
import random
from statistics import fmean

import numpy
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from edgewise.calibrate import metrics
from edgewise_bench import risk
from edgewise_bench.routing.metrics import (
    apgr,
    aurc,
    auroc,
    bootstrap,
    coverage_at_risk,
    cpt,
    deferral_curve,
)

Rows = list[tuple[int, bool, bool]]
rows_of = st.lists(st.tuples(st.integers(0, 9), st.booleans(), st.booleans()), min_size=2)


def columns(rows: Rows) -> tuple[list[float], list[float], list[float]]:
    score, weak, strong = zip(*rows, strict=True)
    return [*map(float, score)], [*map(float, weak)], [*map(float, strong)]


def strong_is_better(rows: Rows) -> None:
    assume(sum(strong for _, _, strong in rows) > sum(weak for _, weak, _ in rows))


def test_the_curve_begins_with_the_weak_model_and_ends_with_the_strong() -> None:
    share, quality = deferral_curve([3, 2, 1, 0], [0, 1, 0, 1], [1, 1, 1, 0])
    assert share.tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert quality.tolist() == [0.5, 0.75, 0.75, 1.0, 0.75]


def test_the_area_is_known_where_it_can_be_counted_by_hand() -> None:
    # The gap is one row of two: recovered by the first row sent, or by the second.
    assert apgr([2, 1], [0, 1], [1, 1]) == pytest.approx(0.75)
    assert apgr([1, 2], [0, 1], [1, 1]) == pytest.approx(0.25)
    assert apgr([1, 1], [0, 1], [1, 1]) == pytest.approx(0.5)


def test_a_share_is_read_off_the_curve_between_its_points() -> None:
    weak, strong = [0, 0, 1, 1], [1, 1, 1, 1]
    assert cpt([4, 3, 2, 1], weak, strong, 0.5) == pytest.approx(0.25)
    assert cpt([4, 3, 2, 1], weak, strong, 1.0) == pytest.approx(0.5)
    assert cpt([1, 1, 1, 1], weak, strong, 0.8) == pytest.approx(0.8)
    assert cpt([1, 2, 3, 4], weak, strong, 0.5) == pytest.approx(0.75)


def test_a_model_that_is_no_better_has_no_gap_to_recover() -> None:
    assert math.isnan(apgr([2, 1], [1, 1], [1, 1]))
    assert math.isnan(cpt([2, 1], [1, 0], [0, 0], 0.5))


def test_scores_without_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="1 scores for 2 rows"):
        apgr([1], [0, 1], [1, 1])


@given(rows_of, st.randoms(use_true_random=False))
def test_ties_do_not_profit_from_the_order_of_rows(rows: Rows, shuffler: random.Random) -> None:
    strong_is_better(rows)
    other = shuffler.sample(rows, len(rows))
    assert apgr(*columns(other)) == pytest.approx(apgr(*columns(rows)))
    assert cpt(*columns(other), 0.5) == pytest.approx(cpt(*columns(rows), 0.5))


@given(rows_of)
def test_only_the_order_of_scores_counts(rows: Rows) -> None:
    strong_is_better(rows)
    score, weak, strong = columns(rows)
    bent = [math.exp(value) - 7 for value in score]
    assert apgr(bent, weak, strong) == pytest.approx(apgr(score, weak, strong))
    assert cpt(bent, weak, strong, 0.8) == pytest.approx(cpt(score, weak, strong, 0.8))
    assert auroc(bent, weak) == pytest.approx(auroc(score, weak))


@given(rows_of)
def test_nothing_beats_sending_by_the_gain_itself(rows: Rows) -> None:
    strong_is_better(rows)
    score, weak, strong = columns(rows)
    gain = [strong[index] - weak[index] for index in range(len(rows))]
    best = apgr(gain, weak, strong)
    assert best >= apgr(score, weak, strong) - 1e-9
    assert best >= 0.5 - 1e-9


@given(rows_of)
def test_the_opposite_order_loses_what_this_one_wins(rows: Rows) -> None:
    strong_is_better(rows)
    score, weak, strong = columns(rows)
    turned = [-value for value in score]
    assert apgr(turned, weak, strong) == pytest.approx(1 - apgr(score, weak, strong))


def test_a_random_order_recovers_half() -> None:
    generator = numpy.random.default_rng(0)
    weak = generator.random(2000) < 0.6
    strong = generator.random(2000) < 0.85
    found = [apgr(generator.random(2000), weak, strong) for _ in range(50)]
    assert fmean(found) == pytest.approx(0.5, abs=0.02)


@given(rows_of)
def test_over_arrays_it_is_what_the_plain_functions_say(rows: Rows) -> None:
    score, weak, _ = columns(rows)
    right = [bool(value) for value in weak]
    assert auroc(score, right) == pytest.approx(metrics.auroc(score, right))
    assert aurc(score, right) == pytest.approx(risk.aurc(score, right))
    assert coverage_at_risk(score, right, 0.25) == risk.coverage_at(score, right, 0.75)


def test_coverage_keeps_ties_whole_and_may_be_nothing() -> None:
    right = [True, True, False, True]
    assert coverage_at_risk([4, 3, 2, 1], right, 0.25) == 1.0
    assert coverage_at_risk([4, 4, 4, 1], right, 0.05) == 0.0


def test_an_interval_holds_the_figure_narrows_with_rows_and_repeats_itself() -> None:
    generator = numpy.random.default_rng(1)
    score = generator.random(4000)
    right = generator.random(4000) < score
    low, high = bootstrap(score, right, statistic=auroc, rounds=200)
    assert low < auroc(score, right) < high
    assert (low, high) == bootstrap(score, right, statistic=auroc, rounds=200)
    assert (low, high) != bootstrap(score, right, statistic=auroc, rounds=200, seed=1)
    fewer_low, fewer_high = bootstrap(score[:400], right[:400], statistic=auroc, rounds=200)
    assert high - low < fewer_high - fewer_low


def test_an_interval_leaves_out_draws_that_have_no_meaning() -> None:
    # Of two rows only one is better answered by the strong model: draws without it have no gap.
    low, high = bootstrap([2, 1], [0, 1], [1, 1], statistic=apgr, rounds=50)
    assert 0.5 <= low <= high <= 0.75
    assert all(map(math.isnan, bootstrap([2, 1], [1, 1], [1, 1], statistic=apgr, rounds=5)))
