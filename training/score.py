"""Score predicted calls against expected ones, and confidence against being right."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from edgewise.functions.tool_prompt import MalformedAnswer, parse_answer

Call = tuple[str, Mapping[str, Any]]


def read_calls(text: str) -> list[Call] | None:
    """The calls in an answer, None where it is malformed."""
    try:
        return [(call.name, call.arguments) for call in parse_answer(text)]
    except MalformedAnswer:
        return None


def call_matches(predicted: Call, expected: Call) -> bool:
    """The hackathon's rule: the name, and every expected argument; further ones are ignored."""
    if predicted[0] != expected[0]:
        return False
    return all(
        key in predicted[1] and value_matches(predicted[1][key], value)
        for key, value in expected[1].items()
    )


def value_matches(predicted: Any, expected: Any) -> bool:
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


def count_matches(predicted: Sequence[Call], expected: Sequence[Call]) -> int:
    """Greedy, one to one, in any order."""
    left = list(predicted)
    matched = 0
    for call in expected:
        for number, candidate in enumerate(left):
            if call_matches(candidate, call):
                del left[number]
                matched += 1
                break
    return matched


def f1(predicted: Sequence[Call] | None, expected: Sequence[Call]) -> float:
    """One case. Malformed answers hold no call."""
    predicted = predicted or []
    if not predicted and not expected:
        return 1.0
    matched = count_matches(predicted, expected)
    return 2 * matched / (len(predicted) + len(expected))


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


def auroc(scores: Sequence[float], right: Sequence[bool]) -> float:
    """Chance that a right answer scores above a wrong one; ties count half. NaN without both."""
    pairs = sorted(zip(scores, right, strict=True), key=lambda pair: pair[0])
    positives = sum(right)
    negatives = len(pairs) - positives
    if not positives or not negatives:
        return math.nan
    rank_sum, begin = 0.0, 0
    while begin < len(pairs):
        end = begin
        while end < len(pairs) and pairs[end][0] == pairs[begin][0]:
            end += 1
        mean_rank = (begin + 1 + end) / 2
        rank_sum += mean_rank * sum(is_right for _, is_right in pairs[begin:end])
        begin = end
    return (rank_sum - positives * (positives + 1) / 2) / (positives * negatives)


def coverage_at(scores: Sequence[float], right: Sequence[bool], precision: float) -> float:
    """The largest share of answers, most confident first, that keeps this precision."""
    ordered = sorted(zip(scores, right, strict=True), key=lambda pair: -pair[0])
    best = good = 0
    for number, (score, is_right) in enumerate(ordered, start=1):
        good += is_right
        last_of_tie = number == len(ordered) or ordered[number][0] != score
        if last_of_tie and good / number >= precision:
            best = number
    return best / len(ordered) if ordered else 0.0


def confidences(logprobs: Sequence[float]) -> dict[str, float]:
    """Ways to sum an answer up in one number."""
    if not logprobs:
        return {"mean": -math.inf, "min": -math.inf, "sum": -math.inf}
    total = sum(logprobs)
    return {"mean": total / len(logprobs), "min": min(logprobs), "sum": total}


def confidence_table(answers: Iterable[tuple[Sequence[float], bool]]) -> dict[str, Any]:
    """For each summary: AUROC and coverage at 95 and 90 percent precision."""
    rows = [(confidences(logprobs), right) for logprobs, right in answers]
    right = [is_right for _, is_right in rows]
    table: dict[str, Any] = {}
    for name in ("mean", "min", "sum"):
        scores = [summary[name] for summary, _ in rows]
        table[name] = {
            "auroc": round(auroc(scores, right), 4),
            "coverage_95": round(coverage_at(scores, right, 0.95), 4),
            "coverage_90": round(coverage_at(scores, right, 0.90), 4),
        }
    return table
