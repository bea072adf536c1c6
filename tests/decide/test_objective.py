"""From a user's objective to a threshold, and the words for it."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgewise.decide.calibration import CHAT, QUANTILES, Measured, RiskRow, RiskTable
from edgewise.decide.drift import stricter
from edgewise.decide.policy import (
    ALL_LEAVE,
    GRID,
    STARTS,
    find_objective,
    find_threshold,
    handoff_curve,
    pace,
    promises,
    share_at,
    steer,
    tail,
)
from edgewise.types.messages import (
    Message,
    Money,
    Request,
    Steering,
)

# Proves 10 % at 0.8 for whole answers, more strictly for streams, and 1 % for neither.
MEASURED = Measured(
    risk={
        "whole": (RiskRow(0.9, 200, 4), RiskRow(0.8, 400, 20), RiskRow(0.5, 800, 300)),
        "stream": (RiskRow(0.9, 200, 4), RiskRow(0.8, 400, 60), RiskRow(0.5, 800, 300)),
    },
    risk_rows=1000,
    quantiles=tuple(number / (QUANTILES - 1) / 2 for number in range(QUANTILES)),
)
FITTED = replace(CHAT.uncalibrated, name="mine", threshold=0.6, measured=MEASURED)


def asks(**objectives: Any) -> Request:
    return Request(messages=(Message("user", "hi"),), **objectives)


def test_without_an_objective_the_threshold_is_the_requests_or_the_calibrations() -> None:
    assert find_objective(asks(), FITTED) == find_objective(asks(threshold=0.6), FITTED)
    assert find_objective(asks(threshold=0.0), FITTED).threshold == 0.0
    assert find_objective(asks(), FITTED).words == ""


def test_a_share_of_errors_becomes_the_proven_threshold_with_a_reason() -> None:
    found = find_objective(asks(max_error=0.1), FITTED)
    assert (found.threshold, found.misfit) == (0.8, None)
    assert (
        found.words
        == "an error of at most 10 % with probability 90 % on requests like those measured"
    )
    assert find_objective(asks(max_error=0.1), FITTED, "stream").threshold == 0.9


def test_more_certainty_means_a_stricter_threshold() -> None:
    found = find_objective(asks(max_error=0.1, error_probability=0.001), FITTED)
    assert found.threshold == 0.9
    assert (
        found.words
        == "an error of at most 10 % with probability 99.9 % on requests like those measured"
    )


def test_if_nothing_is_proven_everything_leaves_and_the_reason_is_given() -> None:
    found = find_objective(asks(max_error=0.01), FITTED)
    assert found.threshold == ALL_LEAVE
    assert found.misfit is not None
    assert (found.misfit.code, found.misfit.soft) == ("risk_unreachable", True)
    assert found.words == found.misfit.reason
    assert "at most 1 %" in found.words
    assert "1,000 rows of mine prove no threshold" in found.words


def test_a_calibration_without_a_table_for_it_promises_nothing() -> None:
    found = find_objective(asks(max_error=0.2), CHAT.uncalibrated)
    assert found.misfit is not None
    assert "uncalibrated has no risk table" in found.misfit.reason
    whole = replace(MEASURED, risk={"whole": MEASURED.risk["whole"]})
    only_whole = replace(FITTED, measured=whole)
    assert find_objective(asks(max_error=0.1), only_whole).misfit is None
    assert find_objective(asks(max_error=0.1), only_whole, "stream").misfit is not None


@pytest.mark.parametrize(
    ("share", "threshold"), [(0.0, 0.0), (0.2, 0.1), (0.22, 0.11), (0.99, 0.495), (1.0, ALL_LEAVE)]
)
def test_a_share_of_the_cloud_is_a_quantile_of_the_confidences(
    share: float, threshold: float
) -> None:
    found = find_objective(asks(cloud_share=share), FITTED)
    assert found.threshold == pytest.approx(threshold)
    assert found.misfit is None
    assert found.words == f"a cloud share of about {100 * share:g} %"


def test_without_quantiles_the_calibrations_threshold_applies_and_the_reason_is_given() -> None:
    found = find_objective(asks(cloud_share=0.2), CHAT.uncalibrated)
    assert found.threshold == CHAT.uncalibrated.threshold
    assert "no quantiles, so its own threshold applies" in found.words


@settings(deadline=None)
@given(st.floats(0.001, 0.5), st.floats(0.0, 0.4))
def test_more_allowed_errors_never_mean_a_higher_threshold(error: float, more: float) -> None:
    strict = find_objective(asks(max_error=error), FITTED).threshold
    assert find_objective(asks(max_error=error + more), FITTED).threshold <= strict


def test_what_a_calibration_can_promise_in_words() -> None:
    assert promises(FITTED, 0.1) == (
        "for requests like the 1,000 measured: with max_error 10 % it keeps 40 % of the answers, "
        "with max_error 20 % it keeps 40 % of the answers, "
        "with max_error 1 % or 5 % every answer goes to the cloud",
        True,
    )
    assert "10 % it keeps 20 %" in promises(FITTED, 0.1, "stream")[0]
    nothing = "with max_error every answer goes to the cloud: it has no risk table"
    assert promises(CHAT.uncalibrated, 0.1) == (nothing, False)


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
    """Rows with evenly spread confidences, right with that chance minus `flattery`."""
    scores = sorted((generator.random() for _ in range(rows)), reverse=True)
    table, kept, wrong = [], 0, 0
    for threshold in GRID:
        while kept < rows and scores[kept] >= threshold:
            wrong += generator.random() >= scores[kept] - flattery
            kept += 1
        table.append(RiskRow(threshold, kept, wrong))
    return tuple(table)


def true_error(threshold: float, flattery: float) -> float:
    """The mean chance of being wrong among the kept rows."""
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
def test_more_allowed_errors_never_keep_less(seed: int, error: float, more: float) -> None:
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
    """After it only a later start may continue: lower thresholds in between are skipped."""
    rows = [RiskRow(0.9, 130, 0), RiskRow(0.8, 140, 30), RiskRow(0.7, 240, 0)]
    assert find_threshold(tuple(rows), 1000, 0.05, 0.1) == 0.9, "starts at 125 and 250 kept rows"
    assert find_threshold((*rows, RiskRow(0.6, 260, 1)), 1000, 0.05, 0.1) == 0.6


def test_starts_are_few_and_the_last_keeps_everything() -> None:
    assert len(STARTS) == 8
    assert list(STARTS) == sorted(STARTS)
    assert STARTS[-1] == 1.0


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
def test_paced_requests_are_expected_to_cost_no_more_than_is_left(
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


MEASURED_STEER = Measured(quantiles=tuple(step / 20 for step in range(21)), risk_rows=100)
POOR = Money(10_000, 100.0, 1_000.0, "a budget of $3.00 per day")  # a tenth may leave
RICH = Money(10_000_000, 100.0, 1_000.0, "a budget of $3.00 per day")


class Fitted:
    name = "mine"
    threshold = 0.5
    measured = MEASURED_STEER


def request(steering: Steering | None, threshold: float | None = None) -> Request:
    return Request(messages=(Message("user", "?"),), steering=steering, threshold=threshold)


def test_a_drifted_calibration_is_widened_to_the_surer_half() -> None:
    steering = Steering(on_drift="widen", drifted={"mine": "far away"})
    found = find_objective(request(steering), Fitted())
    assert found.threshold == stricter(0.5, MEASURED_STEER) == pytest.approx(0.75)
    assert "no longer fits" in found.words
    assert find_objective(request(steering, 0.2), Fitted()).threshold == pytest.approx(0.6)


def test_a_drifted_calibration_is_handed_to_the_cloud() -> None:
    steering = Steering(on_drift="cloud", drifted={"mine": "far away"})
    found = find_objective(request(steering), Fitted())
    assert found.misfit is not None
    assert found.misfit.code == "drifted"
    assert found.misfit.soft, "the device still answers where the cloud is closed"
    assert "far away" in found.misfit.reason


@pytest.mark.parametrize("action", ["widen", "cloud"])
def test_a_calibration_without_drift_and_a_threshold_of_zero_are_left_alone(action: str) -> None:
    other = Steering(on_drift=action, drifted={"another": "x"})  # type: ignore[arg-type]
    assert find_objective(request(other), Fitted()).threshold == 0.5
    own = Steering(on_drift=action, drifted={"mine": "x"})  # type: ignore[arg-type]
    found = find_objective(request(own, 0.0), Fitted())
    assert (found.threshold, found.misfit) == (0.0, None), "0 was said to keep everything"


def test_a_poor_budget_lowers_the_threshold_and_remembers_the_usual_one() -> None:
    found = find_objective(request(Steering(money=POOR)), Fitted(), paced=True)
    assert (found.threshold, found.usual) == (0.1, 0.5)
    assert found.words == "pacing a budget of $3.00 per day"
    rich = find_objective(request(Steering(money=RICH)), Fitted(), paced=True)
    assert (rich.threshold, rich.usual, rich.words) == (0.5, None, "")


def test_a_flow_that_cannot_report_pacing_is_not_paced() -> None:
    assert find_objective(request(Steering(money=POOR)), Fitted()).threshold == 0.5


def test_drift_comes_before_the_pace() -> None:
    steering = Steering(money=POOR, on_drift="widen", drifted={"mine": "x"})
    found = steer(0.5, "", steering, "mine", MEASURED_STEER, "whole")
    assert found.usual == pytest.approx(0.75)
    assert found.threshold == 0.1
    gone = steer(0.5, "", Steering(POOR, "cloud", {"mine": "x"}), "mine", MEASURED_STEER, "whole")
    assert gone.misfit is not None
