"""Drift is noticed, and false alarms are rarer than one in a hundred."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

import pytest

from edgewise.decide.calibration import Measured, Reading, RiskRow, Score, chat_calibration
from edgewise.decide.drift import (
    ALARM,
    LEAST_AUDITS,
    LEAST_ROWS,
    Audited,
    Reference,
    SeenConfidence,
    binomial_tail,
    distance_bound,
    distance_of,
    find_drift,
    fisher_tail,
    noted,
    quantiles_of,
    read_reference,
    stricter,
    watched_quantiles,
)
from edgewise.decide.gate import Gate

Draw = Callable[[random.Random], float]


def smooth(source: random.Random) -> float:
    return source.random() ** 2


def stepped(source: random.Random) -> float:
    """As an isotonic map leaves them: few values, many equal."""
    return round(source.random() ** 2 * 6) / 6


def reference_of(values: Sequence[float]) -> Reference:
    return Reference(len(values), quantiles_of(values), (), Measured())


@pytest.mark.parametrize("draw", [smooth, stepped])
@pytest.mark.parametrize(("rows", "reference_rows"), [(50, 200), (500, 500), (500, 1500)])
def test_a_false_alarm_is_at_most_as_likely_as_stated(
    draw: Draw, rows: int, reference_rows: int
) -> None:
    source = random.Random(f"{rows} {reference_rows}")
    trials, alarms = 150, 0
    for _ in range(trials):
        reference = reference_of([draw(source) for _ in range(reference_rows)])
        seen = [SeenConfidence(draw(source)) for _ in range(rows)]
        alarms += find_drift("x", reference, seen, ()).drifted
    # At a true rate of ALARM more than this comes up once in ten thousand such tests.
    assert binomial_tail(alarms, trials, ALARM) > 1e-4, alarms


@pytest.mark.parametrize("draw", [smooth, stepped])
def test_confidences_that_moved_are_noticed(draw: Draw) -> None:
    source = random.Random(7)
    reference = reference_of([draw(source) for _ in range(1000)])
    for moved in (-0.15, 0.15):
        seen = [SeenConfidence(min(1.0, max(0.0, draw(source) + moved))) for _ in range(500)]
        found = find_drift("x", reference, seen, ())
        assert found.drifted
        assert found.distance is not None
        assert found.bound is not None
        assert found.distance > found.bound
        assert "confidences" in found.words


def test_the_distance_is_the_largest_gap_at_a_quantile() -> None:
    quantiles = [step / 20 for step in range(21)]
    every = [(0.05 * step + 0.025, quantiles) for step in range(20)]
    assert distance_of(every) == pytest.approx(0.0)
    low = [(0.01, quantiles)] * 10
    assert distance_of(low) == pytest.approx(0.95)
    half = [(0.01, quantiles), (0.99, quantiles)]
    assert distance_of(half) == pytest.approx(0.45)


def test_the_distance_is_never_more_than_that_of_the_whole_samples() -> None:
    """So the bound for whole samples holds too; a quantile between two rows costs a row."""
    source = random.Random(5)
    for draw in (smooth, stepped):
        for rows in (3, 30, 60):
            values = [draw(source) ** source.choice((0.5, 1, 2)) for _ in range(rows)]
            others = [draw(source) for _ in range(200)]
            whole = max(
                abs(sum(v <= x for v in values) / rows - sum(o <= x for o in others) / 200)
                for x in values + others
            )
            quantiles = quantiles_of(others)
            assert distance_of([(value, quantiles) for value in values]) <= whole + 2 / 200


def test_too_few_rows_say_nothing() -> None:
    reference = reference_of([0.5] * 100)
    found = find_drift("x", reference, [SeenConfidence(0.01)] * (LEAST_ROWS - 1), ())
    assert found.distance is None
    assert not found.drifted
    assert find_drift("x", reference, [SeenConfidence(0.01)] * LEAST_ROWS, ()).drifted
    assert find_drift("x", Reference(), [SeenConfidence(0.01)] * 500, ()).rows == 0


def test_only_the_latest_rows_count() -> None:
    reference = reference_of([step / 100 for step in range(100)])
    usual = [SeenConfidence(step / 500) for step in range(500)]
    assert not find_drift("x", reference, [*usual, *[SeenConfidence(0.0)] * 900], ()).drifted


# -- the gate's part -------------------------------------------------------------------------------

FALLING = chat_calibration(
    name="x",
    early=Score({"mean_logprob": 3.0}, 1.0),
    final=Score({"mean_logprob": 2.0}, 1.5),
    hold_tokens=4,
    threshold=0.5,
    drop_below=0.2,
    keep_above=1.0,
)


def answers(seed: int, count: int) -> list[list[Reading]]:
    source = random.Random(seed)
    found = []
    for _ in range(count):
        level = source.uniform(-1.5, 0.0)
        length = source.randint(1, 9)
        found.append(
            [
                Reading(tokens=1 + place, mean_logprob=level + source.uniform(-0.3, 0.3))
                for place in range(length)
            ]
        )
    return found


def test_rows_of_a_gate_are_compared_with_what_a_gate_records() -> None:
    """Stopped or whole: one score, so that their confidences can be compared."""
    held_out, live = answers(1, 800), answers(2, 500)
    reference = Reference(
        800,
        quantiles_of([Gate(FALLING, 0.5).confidence(each[-1]) for each in held_out]),
        [(t, q) for t, q in watched_quantiles(FALLING, held_out, [0.5, 0.7])],
    )
    seen = [SeenConfidence(noted(Gate(FALLING, 0.5), each), 0.5) for each in live]
    assert not find_drift("x", reference, seen, ()).drifted
    as_if_whole = [SeenConfidence(each.confidence) for each in seen]
    assert not find_drift("x", reference, as_if_whole, ()).drifted, "early and late are one scale"


def test_rows_at_a_threshold_without_a_reference_are_left_out() -> None:
    reference = Reference(100, [step / 20 for step in range(21)], [(0.5, [0.5] * 21)])
    seen = [SeenConfidence(0.5, 0.53)] * 300 + [SeenConfidence(0.5, 0.51)] * 10
    found = find_drift("x", reference, seen, ())
    assert (found.rows, found.left_out) == (10, 300)
    assert found.distance is None


def test_rows_between_two_thresholds_are_compared_with_both_and_the_smaller_distance_counts() -> (
    None
):
    plain = [step / 20 for step in range(21)]
    halved = [step / 40 for step in range(21)]
    reference = Reference(1000, (), [(0.5, halved), (0.525, plain)])
    source = random.Random(4)
    for scale in (1, 0.5):
        seen = [SeenConfidence(source.random() * scale, 0.51) for _ in range(200)]
        assert not find_drift("x", reference, seen, ()).drifted
    seen = [SeenConfidence(source.random() * 0.2, 0.51) for _ in range(200)]
    assert find_drift("x", reference, seen, ()).drifted
    assert find_drift(
        "x", reference, [SeenConfidence(each.confidence, 0.52) for each in seen], ()
    ).drifted


def test_one_distance_compares_each_row_with_its_own_reference() -> None:
    plain = [step / 20 for step in range(21)]
    halved = [step / 40 for step in range(21)]
    source = random.Random(3)
    seen = [SeenConfidence(source.random()) for _ in range(200)]
    seen += [SeenConfidence(source.random() / 2, 0.5) for _ in range(200)]
    assert not find_drift("x", Reference(1000, plain, [(0.5, halved)]), seen, ()).drifted
    assert find_drift("x", Reference(1000, plain, [(0.5, plain)]), seen, ()).drifted


# -- audits ----------------------------------------------------------------------------------------


def audits(wrong: int, count: int, confidence: float = 0.9) -> list[Audited]:
    return [Audited(confidence, 0.5, right=place >= wrong) for place in range(count)]


def test_more_audited_errors_than_promised_are_noticed() -> None:
    table = (RiskRow(0.9, 50, 1), RiskRow(0.5, 200, 20), RiskRow(0.2, 400, 160))
    reference = Reference(500, (), (), Measured(risk={"whole": table}, risk_rows=500))
    assert not find_drift("x", reference, (), audits(12, 100)).drifted
    found = find_drift("x", reference, (), audits(30, 100))
    assert found.drifted
    assert found.promised_error == 0.1
    assert found.audited_error == 0.3
    assert find_drift("x", reference, (), audits(9, LEAST_AUDITS - 1)).chance is None


def test_without_a_table_the_confidences_are_the_promise() -> None:
    found = find_drift("x", Reference(), (), audits(12, 100, confidence=0.9))
    assert found.promised_error == pytest.approx(0.1)
    assert not found.drifted
    assert find_drift("x", Reference(), (), audits(25, 100, confidence=0.9)).drifted


def test_false_alarms_of_audits_are_at_most_as_likely_as_stated() -> None:
    source = random.Random(11)
    trials, alarms = 150, 0
    for _ in range(trials):
        kept = sum(source.random() < 0.1 for _ in range(200))
        table = (RiskRow(0.5, 200, kept),)
        reference = Reference(300, (), (), Measured(risk={"whole": table}, risk_rows=300))
        wrong = sum(source.random() < 0.1 for _ in range(60))
        alarms += find_drift("x", reference, (), audits(wrong, 60)).drifted
    assert binomial_tail(alarms, trials, ALARM) > 1e-4, alarms


def test_the_tails_are_exact() -> None:
    assert binomial_tail(2, 3, 0.5) == pytest.approx(0.5)
    assert binomial_tail(0, 10, 0.3) == pytest.approx(1.0)
    assert binomial_tail(1, 10, 0.0) == 0.0
    exact = sum(math.comb(5, each) * math.comb(7, 6 - each) for each in range(4, 6)) / math.comb(
        12, 6
    )
    assert fisher_tail(4, 6, 1, 6) == pytest.approx(exact)


# -- what is done about it -------------------------------------------------------------------------


@pytest.mark.parametrize("draw", [smooth, stepped])
def test_a_stricter_threshold_is_never_looser_and_keeps_about_half(draw: Draw) -> None:
    source = random.Random(9)
    values = [draw(source) for _ in range(400)]
    measured = Measured(quantiles=tuple(quantiles_of(values)))
    for threshold in (0.0, 0.1, 0.33, 0.5, 0.77, 0.95, 1.0):
        wider = stricter(threshold, measured)
        assert threshold <= wider <= 1.0
        kept = sum(value >= threshold for value in values)
        still = sum(value > wider for value in values)
        assert still <= kept / 2 + 0.06 * len(values)
    assert stricter(0.6, Measured()) == pytest.approx(0.8)


def test_a_reference_is_read_from_a_calibration_file() -> None:
    watched = watched_quantiles(FALLING, answers(1, 60), [0.7, 0.7])
    data = {"quantiles": [0.5] * 21, "risk": {"whole": [[0.5, 10, 1]]}, "risk_rows": 60,
            "watched": watched}  # fmt: skip
    reference = read_reference(data)
    assert reference.rows == 60
    assert [threshold for threshold, _ in reference.gated] == [0.5, 0.7]
    assert reference.references(SeenConfidence(0.1, 0.7)) == (tuple(watched[1][1]),) * 2
    assert reference.references(SeenConfidence(0.1)) == ((0.5,) * 21,) * 2
    assert reference.references(SeenConfidence(0.1, 0.6)) is None
    with pytest.raises(ValueError, match="quantiles"):
        read_reference({"watched": [[0.5, [0.1, 0.2]]]})


def test_the_bound_falls_with_the_rows_on_either_side() -> None:
    assert distance_bound(500, 500) < distance_bound(50, 500)
    assert distance_bound(500, 5000) < distance_bound(500, 500)
    assert distance_bound(500, 1_000_000) == pytest.approx(1.628 / math.sqrt(500), rel=1e-3)
