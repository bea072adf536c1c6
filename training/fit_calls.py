"""Fit the calibration of `edgewise.functions.call_confidence` to what the caller got right.

    python -m training.fit_calls --cases valid-00000.jsonl --predictions DIR \\
        --name edgewise-caller-q8_0 --calls FOLDER --bfcl PACKAGE --answers DIR [DIR ...] \\
        --out src/edgewise/calibrations/edgewise-caller-q8_0.calls.json

Cases are `training.generate`'s lines. Predictions are the folder that `training.cpu_eval` wrote for
them, which has the runner-up of each token; or the file that `training.evaluate` wrote, in the same
order, which has none and needs `--base` for the tokenizer: no margin is fitted then. All figures on
validation are out of fold: a fold holds whole tools, and features are chosen and weights fitted
without any case that offers one of them as an answer. `--answers` are folders that
`training.cpu_eval` wrote; they are judged with the finished calibration and never fitted to.
"""

from __future__ import annotations

import argparse
import json
import sys
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from edgewise.bench.logistic import fit_logistic
from edgewise.functions.call_confidence import (
    FALLING,
    FORMAT,
    RISING,
    WORDED,
    CallCalibration,
    CallScore,
)
from training.call_report import set_report, validation_report
from training.call_samples import Answered, Sample, answered_samples, read_answered, read_samples

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

FOLDS = 7
RIDGE = 3.0
LEAST_GAIN = 0.001  # nats per call that a feature must save on held-out tools and sources
MOST_FEATURES = 10
LEAST_ANSWERS = 20  # sets of fewer are not reported
PRECISION = 0.95  # the threshold is set for it
# Two alternatives of each token are kept at most, so nothing can be fitted to entropies.
_MARGINS = {"margin", "name_margin"}
# The lead on the runner-up tool belongs to a call's confidence, unless it counts the wrong way.
_ALWAYS = ("name_margin",)
# The words may count only the way that makes sense; the others may count either way.
_UP = RISING | {"fit_margin", "ground_min", "ground_mean"}
_DOWN = FALLING | {"ungrounded", "absent", "missing", "extra"}


def tool_folds(samples: Sequence[Sample], count: int, seed: str) -> list[tuple[Flags, Flags]]:
    """Pairs (fit on, judge): no case that is fitted on is about a tool of those judged.

    A case belongs to the fold of its alphabetically first tool.
    """
    owner = [min(sample.tools, default="") for sample in samples]
    fold = np.array([zlib.crc32((seed + name).encode()) % count for name in owner])
    pairs = []
    for number in range(count):
        held = {name for name, own in zip(owner, fold, strict=True) if own == number}
        touched = np.array([bool(sample.tools & held) for sample in samples])
        pairs.append((~touched, fold == number))
    return pairs


def source_folds(samples: Sequence[Sample]) -> list[tuple[Flags, Flags]]:
    """Each source of sentences in turn; cases mixed from several are one more."""
    sources = np.array([sample.group for sample in samples])
    return [(sources != source, sources == source) for source in sorted(set(sources))]


@dataclass(frozen=True, slots=True)
class Table:
    """The calls (or the `none`s) of samples as numbers; `case` says which sample each is of."""

    names: tuple[str, ...]
    values: Floats
    right: Floats
    case: npt.NDArray[np.int64]

    @classmethod
    def of(cls, samples: Sequence[Sample], *, none: bool, names: Sequence[str]) -> Table:
        rows = [
            ([features.get(name, 0.0) for name in names], right, number)
            for number, sample in enumerate(samples)
            for features, right in zip(sample.features, sample.right, strict=True)
            if bool(features.get("none")) == none
        ]
        values, right, case = zip(*rows, strict=True)
        return cls(tuple(names), np.array(values), np.array(right, float), np.array(case))

    def fit(self, names: Sequence[str], chosen: Flags | None = None) -> CallScore:
        """Features whose weight would have the wrong sign are left out, the worst first."""
        rows = slice(None) if chosen is None else chosen[self.case]
        live = list(names)
        while True:
            columns = [self.names.index(name) for name in live]
            values = self.values[rows][:, columns]
            model = fit_logistic(values, self.right[rows], ridge=RIDGE)
            wrong = {
                name: abs(weight) * float(spread)
                for name, weight, spread in zip(live, model.weights, values.std(0), strict=True)
                if (name in _UP and weight < 0) or (name in _DOWN and weight > 0)
            }
            if not wrong:
                return CallScore(dict(zip(live, model.weights, strict=True)), model.bias)
            live.remove(max(wrong, key=wrong.__getitem__))

    def chances(self, score: CallScore) -> Floats:
        weights = np.array([score.weights.get(name, 0.0) for name in self.names])
        total = np.clip(self.values @ weights + score.bias, -60.0, 60.0)
        return np.asarray(1.0 / (1.0 + np.exp(-total)))

    def loss(self, names: Sequence[str], folds: Sequence[tuple[Flags, Flags]]) -> float:
        """Log-loss per row, each row judged by a score that was fitted without it."""
        chances = np.full(len(self.right), 0.5)
        for fitted, judged in folds:
            rows = judged[self.case]
            seen = self.right[fitted[self.case]]
            if rows.any() and 0 < seen.sum() < len(seen):
                chances[rows] = self.chances(self.fit(names, fitted))[rows]
        chances = np.clip(chances, 1e-9, 1 - 1e-9)
        return -float(np.mean(np.log(np.where(self.right > 0, chances, 1 - chances))))


def choose(
    table: Table,
    plans: Sequence[Sequence[tuple[Flags, Flags]]],
    always: Sequence[str] = (),
) -> CallScore:
    """Forward selection by the mean log-loss over the plans of folds; it begins with `always`."""
    chosen = [name for name in always if name in table.names]
    best = float("inf")
    while len(chosen) < MOST_FEATURES:
        tried = [
            (sum(table.loss([*chosen, name], folds) for folds in plans) / len(plans), name)
            for name in table.names
            if name not in chosen
        ]
        found, name = min(tried, default=(best, ""))
        if found > best - LEAST_GAIN:
            break
        best = found
        chosen.append(name)
    return table.fit(chosen)


def fit(samples: Sequence[Sample], name: str) -> CallCalibration:
    """The four scores, each with the features that serve it; the threshold is left at 0.5."""
    plans = [tool_folds(samples, FOLDS, "choose"), source_folds(samples)]
    everything = tuple(sorted((RISING | WORDED) - (set() if _has_margins(samples) else _MARGINS)))
    worded = tuple(sorted(WORDED))
    return CallCalibration(
        name=name,
        call=choose(Table.of(samples, none=False, names=everything), plans, _ALWAYS),
        none=choose(Table.of(samples, none=True, names=everything), plans),
        worded_call=choose(Table.of(samples, none=False, names=worded), plans),
        worded_none=choose(Table.of(samples, none=True, names=worded), plans),
    )


def _has_margins(samples: Sequence[Sample]) -> bool:
    """Without runners-up no token has a lead."""
    return any(one.get("name_margin", 0.0) > 0 for sample in samples for one in sample.features)


def judged(samples: Sequence[Sample], name: str) -> list[CallCalibration]:
    """For each sample a calibration that has seen none of its tools."""
    found: list[CallCalibration | None] = [None] * len(samples)
    for fitted, rows in tool_folds(samples, FOLDS, "judge"):
        seen = [sample for sample, use in zip(samples, fitted, strict=True) if use]
        calibration = fit(seen, name)
        for number in np.flatnonzero(rows):
            found[number] = calibration
    return [one for one in found if one is not None]


def source_reports(
    samples: Sequence[Sample], calibration: CallCalibration, sum_threshold: float
) -> dict[str, Any]:
    """How each source does under a fit to the others: what to expect of other people's words."""
    found = {}
    for fitted, rows in source_folds(samples):
        seen = [sample for sample, use in zip(samples, fitted, strict=True) if use]
        strange = [sample for sample, use in zip(samples, rows, strict=True) if use]
        if len(strange) >= LEAST_ANSWERS:
            without = replace(fit(seen, calibration.name), threshold=calibration.threshold)
            answered = Answered(strange, len(strange))
            found[strange[0].group] = set_report(answered, without, sum_threshold)
    return found


def make_calibration(
    samples: Sequence[Sample], name: str, tests: Mapping[str, Answered]
) -> CallCalibration:
    """Fitted to all samples, with a report of how fits without a tool do on that tool."""
    calibrations = judged(samples, name)
    report, threshold, sum_threshold = validation_report(samples, calibrations, PRECISION)
    calibration = replace(fit(samples, name), threshold=round(threshold, 4))
    leaderboard = [one for set_name, one in tests.items() if set_name.startswith("bfcl")]
    whole = Answered(
        [sample for one in leaderboard for sample in one.samples],
        sum(one.cases for one in leaderboard),
    )
    return replace(
        calibration,
        report={
            "threshold_for": f"{PRECISION:.0%} of answers right, out of fold on held-out tools",
            "held_out_tools": report,
            "held_out_sources": source_reports(samples, calibration, sum_threshold),
            "never_fitted": {
                set_name: set_report(answered, calibration, sum_threshold)
                for set_name, answered in {**tests, "bfcl": whole}.items()
                if len(answered.samples) >= LEAST_ANSWERS
            },
        },
    )


def write_calibration(calibration: CallCalibration, path: Path) -> None:
    scores = {
        name: {"weights": _rounded(score.weights), "bias": round(score.bias, 4)}
        for name, score in (
            ("call", calibration.call),
            ("none", calibration.none),
            ("worded_call", calibration.worded_call),
            ("worded_none", calibration.worded_none),
        )
    }
    data = {
        "format": FORMAT,
        "name": calibration.name,
        "threshold": calibration.threshold,
        **scores,
        "report": calibration.report,
    }
    path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


def _rounded(weights: Mapping[str, float]) -> dict[str, float]:
    return {name: round(weight, 4) for name, weight in weights.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--base", type=Path, help="for its tokenizer, with a file of predictions")
    parser.add_argument("--cases", type=Path, required=True)
    parser.add_argument("--predictions", type=Path, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--answers", type=Path, nargs="*", default=[])
    parser.add_argument(
        "--calls", type=Path, help="folder of hackathon_30.json, assistant_dev.json"
    )
    parser.add_argument("--bfcl", type=Path, help="folder that holds the unpacked bfcl_eval")
    options = parser.parse_args(arguments)
    if options.predictions.is_dir():
        samples = list(read_answered(options.cases, options.predictions))
    elif options.base is None:
        parser.error("--base is needed with a file of predictions")
    else:
        samples = list(read_samples(options.base, options.cases, options.predictions))
    tests = answered_samples(options.answers, options.calls, options.bfcl)
    calibration = make_calibration(samples, options.name, tests)
    base = f" --base {options.base.name}" if options.base else ""
    command = (
        f"python -m training.fit_calls{base} --cases {options.cases.name}"
        f" --predictions {options.predictions.name} --name {options.name}"
        " --calls FOLDER --bfcl PACKAGE --answers DIR --out FILE"
    )
    calibration = replace(calibration, report={"command": command, **calibration.report})
    write_calibration(calibration, options.out)
    sys.stdout.write(json.dumps(calibration.report, indent=1) + "\n")


if __name__ == "__main__":
    main()
