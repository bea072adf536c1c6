"""Scores predicted calls against expected ones, by the rules of the function-calling hackathon."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Call = tuple[str, Mapping[str, Any]]

LEVELS = {"easy": 0.2, "medium": 0.3, "hard": 0.5}  # what each difficulty weighs in the total
FULL_TIME_MS = 500.0  # an average this long or longer earns nothing


@dataclass(frozen=True, slots=True)
class OneOf:
    """An expected value that may be written in several ways."""

    values: tuple[Any, ...]


def call_matches(predicted: Call, expected: Call) -> bool:
    """The hackathon's rule: the name, and every expected argument; further ones are ignored."""
    if predicted[0] != expected[0]:
        return False
    return all(
        key in predicted[1] and value_matches(predicted[1][key], value)
        for key, value in expected[1].items()
    )


def value_matches(predicted: Any, expected: Any) -> bool:
    if isinstance(expected, OneOf):
        return any(value_matches(predicted, value) for value in expected.values)
    if isinstance(predicted, str) and isinstance(expected, str):
        return predicted.strip().lower() == expected.strip().lower()
    if isinstance(predicted, bool) != isinstance(expected, bool):
        return False
    if isinstance(predicted, list) and isinstance(expected, list):
        pairs = zip(predicted, expected, strict=False)
        return len(predicted) == len(expected) and all(value_matches(p, e) for p, e in pairs)
    if isinstance(predicted, Mapping) and isinstance(expected, Mapping):
        return set(predicted) == set(expected) and all(
            value_matches(predicted[key], expected[key]) for key in expected
        )
    return bool(predicted == expected)


def matched_flags(predicted: Sequence[Call], expected: Sequence[Call]) -> list[bool]:
    """Which predicted calls are right: greedy, one to one, in any order."""
    flags = [False] * len(predicted)
    for call in expected:
        for number, candidate in enumerate(predicted):
            if not flags[number] and call_matches(candidate, call):
                flags[number] = True
                break
    return flags


def f1(predicted: Sequence[Call] | None, expected: Sequence[Call]) -> float:
    """One case. Malformed answers (None) hold no call."""
    predicted = predicted or []
    if not predicted and not expected:
        return 1.0
    return f1_of(sum(matched_flags(predicted, expected)), len(predicted), len(expected))


def f1_of(matched: int, predicted: int, expected: int) -> float:
    """From the counts of one case; right where both sides hold nothing."""
    return 2 * matched / (predicted + expected) if predicted + expected else 1.0


def exact(predicted: Sequence[Call] | None, expected: Sequence[Call]) -> bool:
    """The same calls in any order, with the same arguments and no others."""
    if predicted is None or len(predicted) != len(expected):
        return False
    left = list(expected)
    for name, arguments in predicted:
        for number, (other, wanted) in enumerate(left):
            if name == other and value_matches(arguments, wanted):
                del left[number]
                break
        else:
            return False
    return True


def right_arguments(predicted: Sequence[Call], expected: Sequence[Call]) -> tuple[int, int]:
    """How many expected arguments came out right, and how many there are.

    Each expected call is held against the predicted call of its name that gets most of it right;
    one that was not made has no argument right.
    """
    left, right, total = list(predicted), 0, 0
    for name, wanted in expected:
        total += len(wanted)
        scored = [
            (sum(_holds(arguments, key, value) for key, value in wanted.items()), -number)
            for number, (other, arguments) in enumerate(left)
            if other == name
        ]
        if scored:
            best, number = max(scored)
            right += best
            del left[-number]
    return right, total


def _holds(arguments: Mapping[str, Any], key: str, value: Any) -> bool:
    return key in arguments and value_matches(arguments[key], value)


def level_score(f1_mean: float, mean_ms: float, on_device: float) -> float:
    """The hackathon's score of one difficulty, 0 to 1."""
    time = max(0.0, 1 - mean_ms / FULL_TIME_MS)
    return 0.60 * f1_mean + 0.15 * time + 0.25 * on_device


def hackathon_score(levels: Mapping[str, float]) -> float | None:
    """The weighted total in percent; None where no case tells its difficulty.

    Levels that are absent (few cases were asked) leave their weight to the others.
    """
    known = {name: score for name, score in levels.items() if name in LEVELS}
    weight = sum(LEVELS[name] for name in known)
    if not weight:
        return None
    return 100 * sum(LEVELS[name] * score for name, score in known.items()) / weight
