"""Learn then Test: a stated risk is kept in all but the stated share of draws."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgewise.decide.objective import (
    GRID,
    STARTS,
    find_threshold,
    tail,
)
from edgewise.types.measured import (
    RiskRow,
    RiskTable,
)


def exact_tail(wrong: int, kept: int, error: Fraction) -> float:
    return float(
        sum(math.comb(kept, k) * error**k * (1 - error) ** (kept - k) for k in range(wrong + 1))
    )


@settings(deadline=None)
@given(st.integers(1, 60), st.data())
def test_the_tail_is_the_binomials(kept: int, data: st.DataObject) -> None:
    wrong = data.draw(st.integers(0, kept))
    percent = data.draw(st.integers(1, 99))
    expected = exact_tail(wrong, kept, Fraction(percent, 100))
    assert tail(wrong, kept, percent / 100) == pytest.approx(expected, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("error", [1e-6, 0.01, 0.5, 0.99])
@pytest.mark.parametrize("deviations", [-6, -1, 0, 1, 6])
def test_the_tail_of_a_million_rows_is_near_the_normal_one(error: float, deviations: float) -> None:
    kept = 1_000_000
    spread = math.sqrt(kept * error * (1 - error))
    wrong = math.floor(kept * error + deviations * spread)
    if wrong < 0:
        return
    found = tail(wrong, kept, error)
    assert 0.0 <= found <= 1.0
    if spread > 50:
        normal = 0.5 * math.erfc(-(wrong + 0.5 - kept * error) / spread / math.sqrt(2))
        assert found == pytest.approx(normal, rel=0.1, abs=1e-3)


def test_what_was_never_kept_or_always_wrong_proves_nothing() -> None:
    assert tail(0, 0, 0.1) == tail(5, 5, 0.1) == tail(0, 10, 0.0) == 1.0
    assert tail(3, 10, 1.0) == 0.0


def drawn(generator: random.Random, rows: int, *, flattery: float) -> RiskTable:
    """Rows with even confidences, right with that chance less `flattery`."""
    scores = sorted((generator.random() for _ in range(rows)), reverse=True)
    table, kept, wrong = [], 0, 0
    for threshold in GRID:
        while kept < rows and scores[kept] >= threshold:
            wrong += generator.random() >= scores[kept] - flattery
            kept += 1
        table.append(RiskRow(threshold, kept, wrong))
    return tuple(table)


def true_error(threshold: float, flattery: float) -> float:
    """Of all that such confidences keep: the mean chance of being wrong from there up to 1."""
    return 1 - (1 + threshold) / 2 + flattery


@pytest.mark.parametrize("error", [0.05, 0.1, 0.2])
@pytest.mark.parametrize("flattery", [0.0, 0.04])
def test_the_true_error_is_larger_in_at_most_the_stated_share_of_draws(
    error: float, flattery: float
) -> None:
    generator, draws, delta, broken = random.Random(7), 400, 0.10, 0
    for _ in range(draws):
        table = drawn(generator, 800, flattery=flattery)
        threshold = find_threshold(table, 800, error, delta)
        broken += threshold is not None and true_error(threshold, flattery) > error
    assert broken <= delta * draws


def test_data_prove_much_of_what_is_true() -> None:
    """At a true error of 10 % the best threshold is 0.8: some hundred rows come near it."""
    table = drawn(random.Random(3), 4000, flattery=0.0)
    found = find_threshold(table, 4000, 0.1, 0.1)
    assert found is not None
    assert 0.8 <= found <= 0.87


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10_000), st.floats(0.01, 0.4), st.floats(0.0, 0.4))
def test_who_allows_more_errors_keeps_no_less(seed: int, error: float, more: float) -> None:
    table = drawn(random.Random(seed), 400, flattery=0.0)
    strict = find_threshold(table, 400, error, 0.1)
    loose = find_threshold(table, 400, min(0.99, error + more), 0.1)
    assert strict is None or (loose is not None and loose <= strict)


def test_nothing_is_promised_that_cannot_be_proven() -> None:
    assert find_threshold((), 0, 0.2, 0.1) is None
    few = tuple(RiskRow(t, 5, 0) for t in (0.9, 0.5))
    assert find_threshold(few, 5, 0.2, 0.1) is None, "five right ones prove nothing"
    wrong = tuple(RiskRow(t, 500, 200) for t in (0.9, 0.5))
    assert find_threshold(wrong, 500, 0.2, 0.1) is None
    many = (RiskRow(0.9, 500, 1), RiskRow(0.5, 900, 300))
    assert find_threshold(many, 1000, 0.05, 0.1) == 0.9
    assert find_threshold(many, 1000, 0.001, 0.1) is None


def test_a_confident_mistake_at_the_top_does_not_end_it() -> None:
    table = (RiskRow(0.99, 20, 6), RiskRow(0.9, 300, 6), RiskRow(0.8, 500, 9))
    assert find_threshold(table, 1000, 0.05, 0.1) == 0.8


def test_a_bad_stretch_ends_what_began_before_it() -> None:
    """Beyond it only a later start may go on: looser thresholds in between are not looked at."""
    rows = [RiskRow(0.9, 130, 0), RiskRow(0.8, 140, 30), RiskRow(0.7, 240, 0)]
    assert find_threshold(tuple(rows), 1000, 0.05, 0.1) == 0.9, "starts at 125 and 250 kept rows"
    assert find_threshold((*rows, RiskRow(0.6, 260, 1)), 1000, 0.05, 0.1) == 0.6


def test_starts_are_few_and_the_last_keeps_everything() -> None:
    assert len(STARTS) == 8
    assert list(STARTS) == sorted(STARTS)
    assert STARTS[-1] == 1.0
