from __future__ import annotations

import math
import subprocess
import sys

import pytest
from training.score import Call, auroc, coverage_at, exact, f1, read_calls

RING: Call = ("set_alarm", {"hour": 7, "minute": 0})
SONG: Call = ("play", {"song": "Blue in Green"})


def test_f1_ignores_order_case_and_further_arguments() -> None:
    predicted: list[Call] = [("play", {"song": " blue in green", "loud": True}), RING]
    assert f1(predicted, [RING, SONG]) == 1.0
    assert not exact(predicted, [RING, SONG])
    assert exact([SONG, RING], [RING, SONG])


def test_a_call_too_many_or_too_few_costs_half() -> None:
    assert f1([RING], [RING, SONG]) == pytest.approx(2 / 3)
    assert f1([RING, RING], [RING]) == pytest.approx(2 / 3)
    assert f1([], [RING]) == 0.0 and f1([RING], []) == 0.0
    assert f1([], []) == 1.0


def test_numbers_are_equal_by_value_but_text_and_truth_are_no_numbers() -> None:
    assert exact([("a", {"n": 10.0})], [("a", {"n": 10})])
    assert not exact([("a", {"n": "10"})], [("a", {"n": 10})])
    assert not exact([("a", {"n": True})], [("a", {"n": 1})])
    assert not exact([("a", {"n": [1, 2]})], [("a", {"n": [1]})])


def test_a_malformed_answer_is_never_exact() -> None:
    assert read_calls('play {"song":') is None
    assert not exact(None, [])
    assert read_calls("none") == []


def test_auroc_is_one_for_perfect_order_and_half_for_ties() -> None:
    assert auroc([0.1, 0.2, 0.8, 0.9], [False, False, True, True]) == 1.0
    assert auroc([0.9, 0.1], [False, True]) == 0.0
    assert auroc([0.5, 0.5, 0.5], [True, False, True]) == 0.5
    assert math.isnan(auroc([0.5], [True]))


def test_coverage_counts_the_longest_confident_prefix_and_no_half_tie() -> None:
    right = [True, True, False, True]
    assert coverage_at([4, 3, 2, 1], right, 0.75) == 1.0
    assert coverage_at([4, 3, 2, 1], right, 0.95) == 0.5
    assert coverage_at([4, 4, 4, 1], right, 0.95) == 0.0


def test_scoring_needs_nothing_that_only_an_engine_needs() -> None:
    """The lent machine scores answers and has torch, tokenizers and numpy, no more."""
    look = "import sys, training.score; print({'platformdirs', 'gguf', 'httpx'} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "set()"
