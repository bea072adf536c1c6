"""Figures of a system's answers to function-calling cases: quality, sources, time, confidence."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from edgewise.bench.call_cases import CallCase
from edgewise.bench.call_scores import (
    exact,
    f1,
    hackathon_score,
    level_score,
    matched_flags,
    right_arguments,
)
from edgewise.bench.call_systems import Answered
from edgewise.bench.metrics import auroc, expected_calibration_error, share
from edgewise.bench.risk import Judged, aurc, coverage_at, hybrid_curve

Row = tuple[CallCase, Answered]
SHARES_SENT = (0.1, 0.2, 0.3, 0.5)


@dataclass(slots=True)
class Results:
    """One system's answers: to the cases, and to requests that no tool serves."""

    rows: list[Row] = field(default_factory=list)
    irrelevant: list[Row] = field(default_factory=list)

    def of(self, name: str) -> Results:
        """Those of one file."""
        return Results(
            [row for row in self.rows if row[0].set == name],
            [row for row in self.irrelevant if row[0].set == name],
        )


def quality(results: Results) -> dict[str, float]:
    """What every system is asked for; flagged cases are in, and out for `unflagged_…`."""
    rows, sources = results.rows, list(_sources(results.rows))
    unflagged = [row for row in rows if not row[0].flags]
    times = [answered.ms for _, answered in rows]
    false = [bool(answered.calls) for _, answered in results.irrelevant]
    found = {"cases": float(len(rows)), **_scores(rows)}
    if false:
        found["false_call_rate"] = share(false)
        found["irrelevant_requests"] = float(len(false))
    found |= {f"{name}_share": share([s == name for s in sources]) for name in _SOURCES}
    found |= {
        "latency_ms_p50": percentile(times, 0.50),
        "latency_ms_p95": percentile(times, 0.95),
        "errors": float(sum(bool(answered.error) for _, answered in rows)),
        "unflagged_cases": float(len(unflagged)),
    }
    if unflagged:
        found |= {f"unflagged_{name}": value for name, value in _scores(unflagged).items()}
    return found


_SOURCES = ("local", "cloud", "mixed")


def _scores(rows: Sequence[Row]) -> dict[str, float]:
    pairs = [right_arguments(answered.calls, case.expected) for case, answered in rows]
    found = {
        "f1": statistics.fmean(f1(answered.calls, case.expected) for case, answered in rows),
        "exact": share([exact(answered.calls, case.expected) for case, answered in rows]),
        "argument_accuracy": sum(right for right, _ in pairs) / max(1, sum(n for _, n in pairs)),
    }
    total = hackathon_score({level: _level(rows, level) for level in _levels(rows)})
    return found if total is None else found | {"hackathon_score": total}


def _levels(rows: Iterable[Row]) -> list[str]:
    return sorted({case.difficulty for case, _ in rows})


def _level(rows: Iterable[Row], level: str) -> float:
    members = [row for row in rows if row[0].difficulty == level]
    return level_score(
        statistics.fmean(f1(answered.calls, case.expected) for case, answered in members),
        statistics.fmean(answered.ms for _, answered in members),
        share([not answered.cloud_asked for _, answered in members]),
    )


def _sources(rows: Iterable[Row]) -> Iterable[str]:
    """Per call; an answer without calls counts once, for whoever gave it."""
    for _, answered in rows:
        yield from answered.sources or ("cloud" if answered.cloud_asked else "local",)


def confidence(results: Results) -> dict[str, float]:
    """What the confidences of the device are worth, what splitting broke, what each step cost.

    Per call: an answer without calls counts as one, right where no call is expected.
    """
    scores, right = call_units(results.rows)
    curve = hybrid_curve([judged(*row) for row in results.rows])
    found = {
        "auroc": auroc(scores, right),
        "aurc": aurc(scores, right),
        "coverage_95": coverage_at(scores, right, 0.95),
        "ece": expected_calibration_error(scores, right),
    }
    for limit in SHARES_SENT:
        reached = max(score for _, sent, score in curve if sent <= limit)
        found[f"rescued_f1_sent_{100 * limit:.0f}"] = reached
    single = [answered.intents > 1 for case, answered in results.rows if len(case.expected) == 1]
    if single:
        found["split_broken_rate"] = share(single)
    own = [answered.own_ms for _, answered in results.rows if answered.own_ms is not None]
    found["overhead_ms_p50"], found["overhead_ms_p95"] = percentile(own, 0.5), percentile(own, 0.95)
    for step in dict.fromkeys(name for _, answered in results.rows for name in answered.steps_ms):
        taken = [answered.steps_ms.get(step, 0.0) for _, answered in results.rows]
        found[f"step_{step}_ms_p50"] = percentile(taken, 0.5)
    found["impossible_sources"] = float(sum(a.impossible for _, a in results.rows))
    return found


def call_units(rows: Iterable[Row]) -> tuple[list[float], list[bool]]:
    """The confidence of every call of every answer, and whether the call is right."""
    scores: list[float] = []
    right: list[bool] = []
    for row in rows:
        unit = judged(*row)
        scores += unit.confidences
        right += unit.right
    return scores, right


def judged(case: CallCase, answered: Answered) -> Judged:
    flags = matched_flags(answered.calls, case.expected) or [not case.expected]
    return Judged(
        answered.confidences or (0.0,) * len(flags),
        tuple(flags),
        len(answered.calls),
        len(case.expected),
    )


def percentile(values: Sequence[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else 0.0


def per_file(
    results: Results, measure: Callable[[Results], dict[str, float]]
) -> dict[str, dict[str, float]]:
    """The same figures for each file; empty where there is one file only."""
    names = list(dict.fromkeys(case.set for case, _ in results.rows))
    return {name: measure(results.of(name)) for name in names} if len(names) > 1 else {}
