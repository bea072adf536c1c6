"""Score predicted calls against expected ones, and confidence against being right."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from edgewise.calibrate.rows import Call, exact, value_matches
from edgewise.calls.prompt import MalformedAnswer, read_reply
from edgewise.grammar.tools import ASK
from edgewise_bench.calls.scores import call_matches, f1
from edgewise_bench.risk import coverage_at

__all__ = [
    "Call",
    "auroc",
    "call_matches",
    "confidence_table",
    "confidences",
    "coverage_at",
    "exact",
    "f1",
    "read_calls",
    "value_matches",
]


def read_calls(text: str) -> list[Call] | None:
    """The calls in an answer, None where it is malformed. A question counts as a call of `ask`."""
    try:
        reply = read_reply(text)
    except MalformedAnswer:
        return None
    asked = [
        (ASK, {"tool": question.tool, "needs": sorted(question.needs)})
        for question in reply.questions
    ]
    return [*((call.name, call.arguments) for call in reply.calls), *asked]


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
