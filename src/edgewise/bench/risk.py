"""What a confidence is worth: risk against coverage, and calls rescued against calls sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from edgewise.bench.call_scores import f1_of

MOST_POINTS = 200  # of the hybrid curve: each one looks at every call


def coverage_at(scores: Sequence[float], right: Sequence[bool], precision: float) -> float:
    """The largest share of answers, most confident first, that keeps this precision."""
    best = 0
    for kept, wrong in _steps(scores, right):
        if (kept - wrong) / kept >= precision:
            best = kept
    return best / len(scores) if scores else 0.0


def risk_coverage(scores: Sequence[float], right: Sequence[bool]) -> list[tuple[float, float]]:
    """(share kept, share wrong among the kept), most confident first; ties are kept together."""
    return [(kept / len(scores), wrong / kept) for kept, wrong in _steps(scores, right)]


def aurc(scores: Sequence[float], right: Sequence[bool]) -> float:
    """Area under the risk-coverage curve: the mean risk over all coverages; 0 is perfect.

    Within a tie the wrong ones are spread evenly, as any order of them is as likely.
    """
    total, before, wrong_before = 0.0, 0, 0
    for kept, wrong in _steps(scores, right):
        rate = (wrong - wrong_before) / (kept - before)
        total += sum(
            (wrong_before + rate * (number - before)) / number
            for number in range(before + 1, kept + 1)
        )
        before, wrong_before = kept, wrong
    return total / len(scores) if scores else 0.0


def _steps(scores: Sequence[float], right: Sequence[bool]) -> list[tuple[int, int]]:
    """(how many kept, how many of them wrong) after each tie, most confident first."""
    ordered = sorted(zip(scores, right, strict=True), key=lambda pair: -pair[0])
    kept = wrong = 0
    steps = []
    for _, tied in groupby(ordered, key=lambda pair: pair[0]):
        flags = [is_right for _, is_right in tied]
        kept += len(flags)
        wrong += len(flags) - sum(flags)
        steps.append((kept, wrong))
    return steps


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
