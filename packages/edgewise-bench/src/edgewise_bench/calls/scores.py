"""How well calls come out: the hackathon's rules, sources, time, confidence, what is rescued."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from edgewise.calibrate.metrics import auroc, expected_calibration_error, share
from edgewise.calibrate.rows import Call, exact, value_matches
from edgewise_bench.calls.cases import CallCase
from edgewise_bench.risk import aurc, coverage_at

# The machine that trains scores answers too, and has nothing of what an engine needs.
if TYPE_CHECKING:
    from edgewise_bench.calls.systems import Answered

LEVELS = {"easy": 0.2, "medium": 0.3, "hard": 0.5}  # what each difficulty weighs in the total
FULL_TIME_MS = 500.0  # an average this long or longer earns nothing
Row = tuple[CallCase, "Answered"]
MOST_POINTS = 200  # of the hybrid curve: each one looks at every call
SHARES_SENT = (0.1, 0.2, 0.3, 0.5)
_SOURCES = ("local", "cloud", "mixed")


def call_matches(predicted: Call, expected: Call) -> bool:
    """The hackathon's rule: the name, and every expected argument; further ones are ignored."""
    if predicted[0] != expected[0]:
        return False
    return all(
        key in predicted[1] and value_matches(predicted[1][key], value)
        for key, value in expected[1].items()
    )


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


@dataclass(frozen=True, slots=True)
class Judged:
    """One case as the device answered it: per call its confidence and whether it is right.

    An answer without calls is one unit: `confidences` and `right` then hold that of "no call".
    """

    confidences: tuple[float, ...]
    right: tuple[bool, ...]
    predicted: int
    expected: int


def hybrid_curve(cases: Sequence[Judged]) -> list[tuple[float, float, float]]:
    """(threshold, share of calls sent, mean F1) if every call below the threshold were sent.

    No model runs for this: a cloud that is always right answers what is sent. It puts a right call
    in place of a wrong one, or takes it away where none is missing. Where all of an answer is sent,
    the whole request is, and nothing stays missing.
    """
    levels = sorted({value for case in cases for value in case.confidences})
    levels = levels[:: 1 + len(levels) // MOST_POINTS]
    above = 1.0 + max((value for case in cases for value in case.confidences), default=0.0)
    units = sum(len(case.confidences) for case in cases)
    curve = []
    for threshold in (*levels, above):
        sent = sum(value < threshold for case in cases for value in case.confidences)
        score = sum(_rescued_f1(case, threshold) for case in cases) / len(cases)
        curve.append((threshold, sent / units, score))
    return curve


def _rescued_f1(case: Judged, threshold: float) -> float:
    sent = [value < threshold for value in case.confidences]
    if all(sent):
        return 1.0
    matched = sum(case.right) if case.predicted else 0
    wrong_sent = sum(
        is_sent and not is_right for is_sent, is_right in zip(sent, case.right, strict=True)
    )
    replaced = min(wrong_sent, case.expected - matched)
    kept = case.predicted - (wrong_sent - replaced)
    return f1_of(matched + replaced, kept, case.expected)
