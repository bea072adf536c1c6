"""Weights rounded to sixteen uneven levels, read back by the reader that others wrote."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest
from gguf import GGMLQuantizationType, quants

from edgewise.local.convert import LEVELS, round_to_levels


def draw(*shape: int) -> Any:
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


def left_of(weights: Any) -> Any:
    return quants.dequantize(round_to_levels(weights), GGMLQuantizationType.IQ4_NL)


def lost(weights: Any, kept: Any) -> float:
    return float(np.square(weights - kept).sum() / np.square(weights).sum())


def test_a_quarter_less_is_lost_than_with_even_levels() -> None:
    weights = draw(40, 576)
    kept = left_of(weights)
    even = GGMLQuantizationType.Q4_0
    in_even_steps = quants.dequantize(quants.quantize(weights, even), even)

    assert kept.shape == weights.shape
    assert lost(weights, kept) < 0.8 * lost(weights, in_even_steps)


def test_values_that_lie_on_the_levels_stay_what_they_are() -> None:
    on_levels = np.array([*LEVELS, *reversed(LEVELS)], np.float32).reshape(1, 32) / 64
    assert np.array_equal(left_of(on_levels), on_levels)


@pytest.mark.parametrize("sign", [1, -1])
def test_no_value_is_off_by_more_than_its_neighbouring_levels_are_apart(sign: int) -> None:
    weights = sign * np.abs(draw(200, 32))  # all on one side: half of the levels are of no use
    largest = np.abs(weights).max(axis=1, keepdims=True)
    assert (np.abs(left_of(weights) - weights) <= 0.2 * largest).all()


def test_nothing_but_zeros_stays_zero_and_nothing_warns() -> None:
    assert not left_of(np.zeros((2, 64), np.float32)).any()


def test_the_bytes_are_the_same_on_every_machine() -> None:
    # Every machine that runs this test has computed these.
    whole: Any = np.arange(-2048, 2048, dtype=np.float32).reshape(16, 256)
    made = round_to_levels(whole * whole * np.sign(whole) / 7)
    assert hashlib.sha256(made.tobytes()).hexdigest()[:16] == "872b92573bdcea88"
