"""A promise that grows from a workload's own verdicts, and holds at every moment."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import pytest

from edgewise.decide.families import CHOOSING, GRID, Evidence, Verdict, gather

PROBABILITY = 0.1
START = GRID[9]  # where testing of 10 % begins


def answers(draw: random.Random, chance: Callable[[float], float]) -> Iterator[Verdict]:
    """Answers whose chance of being right is a function of their confidence."""
    while True:
        confidence = draw.random()
        yield Verdict(confidence, draw.random() < chance(confidence))


def _below(confidence: float) -> float:
    return max(each for each in GRID if each <= confidence)


def first(count: int, verdicts: Iterator[Verdict]) -> list[Verdict]:
    return [next(verdicts) for _ in range(count)]


def test_nothing_is_promised_without_verdicts() -> None:
    evidence = Evidence(0.1)
    assert evidence.threshold(PROBABILITY) is None
    assert not evidence.refutes(0.5, PROBABILITY)


def test_as_many_right_verdicts_as_it_says_prove_something() -> None:
    missing, judged_from = Evidence(0.1).missing(PROBABILITY)
    assert 22 <= missing <= 30
    assert judged_from == START
    evidence = gather([Verdict(START, True)] * (missing - 1), 0.1)
    assert evidence.threshold(PROBABILITY) is None
    assert evidence.missing(PROBABILITY) == (1, START)
    evidence.add(Verdict(START, True))
    assert evidence.threshold(PROBABILITY) == START
    for _ in range(CHOOSING):
        evidence.add(Verdict(START, True))
    assert evidence.threshold(PROBABILITY) == START, "nobody judged an answer below it"
    evidence.add(Verdict(0.3, True))
    assert evidence.threshold(PROBABILITY) == _below(0.3)


@pytest.mark.parametrize("sure", [0.85, 0.6, 0.3])
def test_testing_begins_where_the_answers_are(sure: float) -> None:
    evidence = gather([Verdict(sure, True)] * CHOOSING, 0.1)
    missing, judged_from = evidence.missing(PROBABILITY)
    assert judged_from == _below(sure)
    assert missing == Evidence(0.1).missing(PROBABILITY)[0], "those that chose it prove nothing"
    for _ in range(missing):
        assert evidence.threshold(PROBABILITY) is None
        evidence.add(Verdict(sure, True))
    assert evidence.threshold(PROBABILITY) == _below(sure)


def test_one_mistake_where_testing_begins_does_not_stop_it() -> None:
    evidence = gather([Verdict(0.95, True)] * CHOOSING + [Verdict(0.95, False)], 0.1)
    for _ in range(120):
        evidence.add(Verdict(0.8, True))
    assert evidence.missing(PROBABILITY)[0] > 30, "nothing is proven of what is surer"
    assert evidence.threshold(PROBABILITY) == _below(0.8)


def test_verdicts_from_above_alone_prove_a_stricter_threshold() -> None:
    """While a cloud is open there are no others."""
    evidence = gather([Verdict(0.99, True, above=0.94)] * 60, 0.1)
    assert evidence.threshold(PROBABILITY) == min(each for each in GRID if each >= 0.94)


def test_a_chosen_beginning_breaks_no_more_promises() -> None:
    """No answer is surer than 0.9, and too many are wrong from any threshold on."""
    draw, broken, users = random.Random(13), 0, 150
    for _ in range(users):
        evidence = Evidence(0.1)
        for _ in range(150):
            evidence.add(Verdict(0.9 * draw.random(), draw.random() < 0.895))
            if evidence.threshold(PROBABILITY) is not None:
                broken += 1
                break
    assert 0 < broken / users <= PROBABILITY, "with no mistake at all the test could not fail"


def test_a_larger_error_or_probability_needs_fewer_verdicts() -> None:
    def missing(error: float, probability: float) -> int:
        return Evidence(error).missing(probability)[0]

    assert missing(0.2, 0.1) < missing(0.1, 0.1) < missing(0.05, 0.1)
    assert missing(0.1, 0.2) < missing(0.1, 0.1) < missing(0.1, 0.01)


@pytest.mark.parametrize("wrong", [0.1, 0.15, 0.4])
def test_an_error_above_the_stated_one_is_hardly_ever_promised_at_any_moment(wrong: float) -> None:
    draw, broken, users = random.Random(7), 0, 60
    for _ in range(users):
        evidence = Evidence(0.1)
        for verdict in first(120, answers(draw, lambda _: 1 - wrong)):
            evidence.add(verdict)
            if evidence.threshold(PROBABILITY) is not None:
                broken += 1
                break
    assert broken / users <= PROBABILITY


def test_the_threshold_is_near_the_lowest_that_holds() -> None:
    def chance(confidence: float) -> float:
        return 0.99 if confidence >= 0.4 else 0.3

    found = gather(first(600, answers(random.Random(3), chance)), 0.1).threshold(PROBABILITY)
    assert found is not None
    # All answers above 0.32 are wrong in 10 %.
    assert 0.32 < found < 0.5


def test_verdicts_drawn_from_above_say_nothing_of_lower_thresholds() -> None:
    evidence = gather([Verdict(0.95, True, above=START)] * 100, 0.1)
    assert evidence.threshold(PROBABILITY) == START


def test_a_promise_that_does_not_hold_here_is_refuted() -> None:
    draw = random.Random(5)
    wrong = gather(first(150, answers(draw, lambda _: 0.6)), 0.1)
    right = gather(first(150, answers(draw, lambda _: 0.97)), 0.1)
    assert wrong.refutes(0.5, PROBABILITY)
    assert wrong.threshold(PROBABILITY) is None
    assert not right.refutes(0.5, PROBABILITY)


def test_a_promise_between_two_of_the_grid_is_refuted_by_what_it_keeps() -> None:
    kept = gather([Verdict(0.95, False, above=0.8)] * 30, 0.1)
    assert kept.refutes(0.8, PROBABILITY)
    proven = gather([Verdict(0.95, True, above=0.8)] * 99, 0.1).threshold(PROBABILITY)
    assert proven == min(each for each in GRID if each >= 0.8)


def test_errors_that_begin_after_a_proof_refute_it() -> None:
    evidence = gather([Verdict(0.9, True)] * 200, 0.1)
    assert evidence.threshold(PROBABILITY) == _below(0.9)
    wrong = 0
    while evidence.threshold(PROBABILITY) is not None:
        evidence.add(Verdict(0.9, False))
        wrong += 1
    assert 2 < wrong < 20
    assert evidence.refutes(0.5, PROBABILITY)


def test_a_right_promise_is_hardly_ever_refuted_at_any_moment() -> None:
    draw, refuted, users = random.Random(11), 0, 60
    for _ in range(users):
        evidence = Evidence(0.1)
        for verdict in first(120, answers(draw, lambda _: 0.9)):
            evidence.add(verdict)
            if evidence.refutes(0.3, PROBABILITY):
                refuted += 1
                break
    assert refuted / users <= PROBABILITY


def test_answers_that_will_not_be_kept_need_no_verdict() -> None:
    def chance(confidence: float) -> float:
        return 0.98 if confidence >= 0.6 else 0.2

    def worth(count: int, chance: Callable[[float], float]) -> float:
        told = first(count, answers(random.Random(2), chance))
        return gather(told, 0.1).worth_judging(PROBABILITY)

    assert 0.8 < worth(0, chance) < 0.9, "where the calibration says that 15 % are wrong"
    assert worth(300, chance) > 0.6
    assert worth(300, lambda _: 1.0) < 0.4
    assert 0.7 < worth(80, lambda _: 0.1) <= START


def test_an_error_near_one_has_bets_too() -> None:
    assert gather([Verdict(0.9, True)] * 40, 0.9).threshold(PROBABILITY) is not None
