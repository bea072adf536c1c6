"""A paced budget lasts, changes nothing where there is plenty, and never makes a gate stricter."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from edgewise.decide.objective import (
    handoff_curve,
    pace,
    share_at,
)
from edgewise.types.measured import (
    Measured,
    RiskRow,
)
from edgewise.types.objectives import Money

SHARES = st.floats(0, 1)
CURVES = st.lists(st.tuples(SHARES, SHARES), max_size=8).map(
    lambda pairs: list(zip(sorted(p[0] for p in pairs), sorted(p[1] for p in pairs), strict=True))
)
MONEY = st.builds(
    Money,
    st.integers(0, 10_000_000),
    st.floats(1, 10_000),
    st.one_of(st.just(0.0), st.floats(1, 100_000)),
    st.just("a budget"),
)


@settings(deadline=None)
@given(SHARES, MONEY, CURVES)
def test_what_is_paced_is_expected_to_cost_no_more_than_is_left(
    usual: float, money: Money, curve: list[tuple[float, float]]
) -> None:
    threshold = pace(usual, money, curve)
    assert 0 <= threshold <= usual, "never stricter"
    if curve:
        expected = share_at(threshold, curve) * money.requests_left * money.handoff_microdollars
        assert expected <= money.left_microdollars * (1 + 1e-9)


@settings(deadline=None)
@given(SHARES, CURVES)
def test_with_plenty_of_money_nothing_changes(
    usual: float, curve: list[tuple[float, float]]
) -> None:
    assert pace(usual, Money(2_000_000, 100.0, 10_000.0, ""), curve) == usual
    assert pace(usual, Money(0, 100.0, 0.0, ""), curve) == usual, "nobody knows what it costs"


def test_without_a_curve_the_usual_threshold_stands() -> None:
    assert pace(0.5, Money(0, 100.0, 1_000.0, ""), []) == 0.5


def test_with_nothing_left_everything_is_kept() -> None:
    assert pace(0.5, Money(0, 100.0, 1_000.0, ""), [(0.1, 0.2), (0.5, 0.6)]) == 0.0


def test_the_loosest_threshold_that_the_money_allows_is_the_highest_one() -> None:
    curve = [(0.1, 0.05), (0.3, 0.2), (0.5, 0.6), (0.7, 0.9)]
    half = Money(25_000, 100.0, 1_000.0, "")  # a quarter of the requests
    assert pace(0.5, half, curve) == 0.3
    assert pace(0.2, half, curve) == 0.2, "that hands off less than it may"


def test_the_curve_is_that_of_the_gate_or_else_of_the_confidences() -> None:
    table = (RiskRow(0.9, 10, 0), RiskRow(0.5, 60, 5), RiskRow(0.1, 100, 30))
    quantiles = tuple(step / 20 for step in range(21))
    measured = Measured(risk={"whole": table}, risk_rows=100, quantiles=quantiles)
    assert handoff_curve(measured) == [(0.1, 0.0), (0.5, 0.4), (0.9, 0.9)]
    assert handoff_curve(measured, "stream")[10] == (0.5, 0.5)
    assert list(handoff_curve(Measured())) == []


# -- a day -----------------------------------------------------------------------------------------

REQUESTS, PRICE, USUAL = 2_400, 1_000, 0.5


def day(budget: int, *, paced: bool, seed: int) -> list[int]:
    """What was spent in each hour; confidences are spread evenly, prices vary."""
    source = random.Random(seed)
    curve = [(step / 50, step / 50) for step in range(51)]
    left, hours = budget, [0] * 24
    for number in range(REQUESTS):
        money = Money(left, float(REQUESTS - number), PRICE, "")
        threshold = pace(USUAL, money, curve) if paced else USUAL
        price = source.randint(PRICE // 2, PRICE * 3 // 2)
        if source.random() < threshold and price <= left:
            left -= price
            hours[number * 24 // REQUESTS] += price
    return hours


def test_a_paced_day_spends_its_money_evenly_and_to_the_end() -> None:
    budget = 300_000  # a quarter of what the usual threshold would spend
    for seed in range(3):
        first_come, paced = day(budget, paced=False, seed=seed), day(budget, paced=True, seed=seed)
        assert sum(first_come[12:]) == 0, "without pacing the afternoon has nothing"
        assert sum(paced[18:]) > 0.2 * budget * 0.9, "with it the last quarter has its quarter"
        assert 0.9 * budget <= sum(paced) <= budget
        assert max(paced) < 0.5 * max(first_come)


def test_a_day_with_plenty_is_the_same_paced_or_not() -> None:
    plenty = 10 * REQUESTS * PRICE
    assert day(plenty, paced=True, seed=1) == day(plenty, paced=False, seed=1)
