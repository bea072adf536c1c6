"""A second answer: when two agree, and whether a measure of its worth can tell use from noise."""

from __future__ import annotations

from random import Random

import pytest

from edgewise.bench.fit import Sample
from edgewise.bench.second_sample import SEEDS, Pair, agreement, measure_second, pair_up
from edgewise.bench.trace_set import Origin, Recorded, TraceSet
from edgewise.decide.meter import Reading
from edgewise.types.tokens import Token


def test_the_same_words_agree_whatever_their_case_and_punctuation() -> None:
    found = agreement("Capital of Peru?", "The capital is Lima.", "the capital is LIMA")
    assert (found["exact"], found["word_overlap"], found["new_word_overlap"]) == (1.0, 1.0, 1.0)
    assert (found["numbers_same"], found["numbers_differ"]) == (0.0, 0.0)


def test_repeating_the_question_is_no_agreement() -> None:
    found = agreement("What is the capital of Peru?", "Peru's capital is Lima.", "Peru: Cusco.")
    assert found["word_overlap"] > 0
    assert found["new_word_overlap"] == 0.0


@pytest.mark.parametrize(
    ("first", "second", "same", "differ"),
    [("12", "It is twelve.", 1.0, 0.0), ("12", "13", 0.0, 1.0), ("12", "many", 0.0, 1.0)],
)
def test_numbers_agree_by_value(first: str, second: str, same: float, differ: float) -> None:
    found = agreement("How many?", first, second)
    assert (found["numbers_same"], found["numbers_differ"]) == (same, differ)


def made_up_pairs(count: int, *, telling: bool) -> list[Pair]:
    """The score says little; the second answer repeats the first one where it is right, or not."""
    random = Random(3)
    pairs = []
    for number in range(count):
        right = random.random() < 0.5
        score = random.gauss(0.3 if right else -0.3, 1.0)
        sample = Sample(f"kind {number % 10}", right, (Reading(tokens=1, mean_logprob=score),))
        agrees = random.random() < ((0.8 if right else 0.2) if telling else 0.5)
        second = "red paint" if agrees else "blue ink"
        pairs.append(Pair("Which?", sample, "red paint", second, 10, right))
    return pairs


def test_an_agreement_that_tells_is_found_to_pay_and_one_that_does_not_is_not() -> None:
    telling = measure_second(made_up_pairs(600, telling=True), ["mean_logprob"], rounds=50)
    assert telling["second_auroc_gain_low"] > 0.05
    assert telling["second_kept_accuracy_gain_low"] > 0
    steps: list[None] = []
    idle = measure_second(
        made_up_pairs(600, telling=False),
        ["mean_logprob"],
        rounds=50,
        step=lambda: steps.append(None),
    )
    assert idle["second_auroc_gain_low"] < 0.01
    assert idle["second_auroc_gain"] < 0.02
    assert len(steps) == SEEDS


def test_only_the_doubtful_cost_anything() -> None:
    found = measure_second(made_up_pairs(300, telling=True), ["mean_logprob"], rounds=10)
    assert 0 < found["second_band_share"] < 1
    assert found["second_extra_tokens"] == pytest.approx(10 * found["second_band_share"])


def test_answers_are_paired_by_the_question_they_answer() -> None:
    def row(reference: str, text: str, *, right: bool) -> Recorded:
        return Recorded(reference, "kind", right, True, (Token(text, -0.1, 1.0, 0.1),))

    origin = Origin("m", "Q8_0", "0", {}, "", 48)
    first = TraceSet(origin, (row("own:1", "a", right=True), row("own:2", "b", right=False)))
    second = TraceSet(origin, (row("own:2", "c", right=True), row("own:3", "d", right=True)))
    (pair,) = pair_up(first, second, {"own:1": "One?", "own:2": "Two?", "own:3": "Three?"})
    assert (pair.prompt, pair.first, pair.second) == ("Two?", "b", "c")
    assert (pair.sample.right, pair.second_right, pair.second_tokens) == (False, True, 1)
