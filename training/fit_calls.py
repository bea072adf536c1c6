"""Fit the calibration of `edgewise.calls.check` to what the caller got right.

    python -m training.call_flow --cases CASES --out answers.jsonl.gz
    python -m training.fit_calls --cases fit.jsonl other_valid.jsonl --kept answers.jsonl.gz \\
        --fresh fresh.jsonl \\
        --traces packages/edgewise-bench/results/traces/edgewise-caller.jsonl.gz \\
        --name edgewise-caller-q8_0 --out src/edgewise/calibrations/edgewise-caller-q8_0.calls.json
    python scripts/measure_calibrations.py

Cases are `training.generate`'s lines, ours and those of another manner of asking (`source` other).
With `--kept` they go through the flow as users' requests do. `--predictions` fits to what the model
wrote before the flow touched it: the folder of `training.cpu_eval`, which has the runner-up of each
token, or the file of `training.evaluate`, which has none and needs `--base` for the tokenizer. All
figures on validation are out of fold: a fold holds whole tools, and features are chosen and weights
fitted without any case that offers one of them as an answer; a source is judged by a fit to the
others. `--fresh` cases fit nothing; `--traces` writes what measures the file. `--answers` are
folders that `training.cpu_eval` wrote; they are judged with the finished calibration only.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from edgewise.calls.check import CALLS, RISING, WORDED
from edgewise.decide.calibration import Calibration, Score, parse_calibration
from edgewise_bench.routing.rows import AnsweredCalls, write_calls
from training.call_flow import flow_samples, read_kept
from training.call_report import set_report, validation_report
from training.call_samples import (
    Answered,
    Sample,
    answered_samples,
    lines,
    read_answered,
    read_samples,
)
from training.call_table import Flags, Table, source_folds, tool_folds

FOLDS = 7
LEAST_GAIN = 0.001  # nats per call that a feature must save on held-out tools and sources
MOST_FEATURES = 10
LEAST_ANSWERS = 20  # sets of fewer are not reported
PRECISION = 0.95  # the threshold is set for it
SHIPPED = (
    Path(__file__)
    .parents[1]
    .joinpath("src", "edgewise", "calibrations", "edgewise-caller-q8_0.calls.json")
)
# Two alternatives of each token are kept at most, so nothing can be fitted to entropies.
_MARGINS = {"margin", "name_margin"}
# What the score of a call is made of: how sure the model was of each part, and what the words say
# against it. It is not chosen from our cases: a choice made on ours does worse on others' requests.
CALL = (
    "name_margin", "value_surety", "shape_surety", "end_surety", "answer_surety", "absent",
    "ungrounded", "weak", "left", "twice", "shared", "cues",
)  # fmt: skip


def choose(table: Table, plans: Sequence[Sequence[tuple[Flags, Flags]]]) -> Score:
    """Forward selection by the mean log-loss over the plans of folds."""
    chosen: list[str] = []
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


def fit(samples: Sequence[Sample], name: str) -> Calibration:
    """The four scores; all but that of a call choose their features. The threshold stays at 0.5."""
    plans = [tool_folds(samples, FOLDS, "choose"), source_folds(samples)]
    everything = tuple(sorted((RISING | WORDED) - (set() if _has_margins(samples) else _MARGINS)))
    worded = tuple(sorted(WORDED))
    calls = Table.of(samples, none=False, names=everything)
    return Calibration(
        name=name,
        scores={
            "call": calls.fit([one for one in CALL if calls.varies(one)]),
            "none": choose(Table.of(samples, none=True, names=everything), plans),
            "worded_call": choose(Table.of(samples, none=False, names=worded), plans),
            "worded_none": choose(Table.of(samples, none=True, names=worded), plans),
        },
    )


def _has_margins(samples: Sequence[Sample]) -> bool:
    """Without runners-up no token has a lead."""
    return any(one.get("name_margin", 0.0) > 0 for sample in samples for one in sample.features)


def judged(samples: Sequence[Sample], name: str) -> list[Calibration]:
    """For each sample a calibration that has seen none of its tools."""
    found: list[Calibration | None] = [None] * len(samples)
    for fitted, rows in tool_folds(samples, FOLDS, "judge"):
        seen = [sample for sample, use in zip(samples, fitted, strict=True) if use]
        calibration = fit(seen, name)
        for number in np.flatnonzero(rows):
            found[number] = calibration
    return [one for one in found if one is not None]


def source_reports(
    samples: Sequence[Sample], calibration: Calibration, sum_threshold: float
) -> dict[str, Any]:
    """How each source does under a fit to the others: what to expect of other people's words."""
    found = {}
    for fitted, rows in source_folds(samples):
        seen = [sample for sample, use in zip(samples, fitted, strict=True) if use]
        strange = [sample for sample, use in zip(samples, rows, strict=True) if use]
        if seen and len(strange) >= LEAST_ANSWERS:
            without = replace(fit(seen, calibration.name), threshold=calibration.threshold)
            answered = Answered(strange, len(strange))
            found[strange[0].group] = set_report(answered, without, sum_threshold)
    return found


def make_calibration(
    samples: Sequence[Sample],
    name: str,
    tests: Mapping[str, Answered],
    fresh: Sequence[Sample] = (),
) -> Calibration:
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
                for set_name, answered in {
                    **tests,
                    "bfcl": whole,
                    "fresh": Answered(list(fresh), len(fresh)),
                }.items()
                if len(answered.samples) >= LEAST_ANSWERS
            },
        },
    )


def write_calibration(calibration: Calibration, path: Path) -> None:
    scores = {
        name: {"weights": _rounded(score.weights), "bias": round(score.bias, 4)}
        for name, score in calibration.scores.items()
    }
    data = {
        "format": CALLS.formats[-1],
        "name": calibration.name,
        "threshold": calibration.threshold,
        **scores,
        "report": calibration.report,
    }
    path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


def _rounded(weights: Mapping[str, float]) -> dict[str, float]:
    return {name: round(weight, 4) for name, weight in weights.items()}


def write_traces(samples: Sequence[Sample], fresh: Sequence[Sample], path: Path) -> None:
    """What `edgewise bench routing` and `scripts/measure_calibrations.py` judge the file by.

    An answer whose calls the flow withheld is left out: no score of the calibration judges it.
    """
    rows = [
        AnsweredCalls(
            f"{'fit' if fitted else 'fresh'}:{number}",
            sample.group,
            fitted,
            sample.exact,
            sample.logprob,
            sample.features,
        )
        for fitted, chosen in ((True, samples), (False, fresh))
        for number, sample in enumerate(chosen)
        if sample.features and sample.withheld is None
    ]
    write_calls(rows, path)


def read_all(options: argparse.Namespace, cases: Sequence[Path]) -> list[Sample]:
    """The samples of these files, by whichever way their answers were kept."""
    if options.kept is not None:
        told = json.loads(options.flow.read_text("utf-8"))
        flow = parse_calibration(told, options.flow.name, CALLS)
        kept = read_kept(options.kept)
        return [one for path in cases for one in flow_samples(lines(path), kept, flow)]
    if options.predictions.is_dir():
        return [one for path in cases for one in read_answered(path, options.predictions)]
    return [one for path in cases for one in read_samples(options.base, path, options.predictions)]


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--base", type=Path, help="for its tokenizer, with a file of predictions")
    parser.add_argument("--cases", type=Path, nargs="+", required=True)
    parser.add_argument("--kept", type=Path, help="file of `training.call_flow`")
    parser.add_argument(
        "--flow", type=Path, default=SHIPPED, help="calibration that the flow itself uses"
    )
    parser.add_argument("--predictions", type=Path)
    parser.add_argument("--fresh", type=Path, nargs="*", default=[], help="cases that fit nothing")
    parser.add_argument("--traces", type=Path, help="write the outcomes here")
    parser.add_argument("--name", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--answers", type=Path, nargs="*", default=[])
    parser.add_argument(
        "--calls", type=Path, help="folder of hackathon_30.json, assistant_dev.json"
    )
    parser.add_argument("--bfcl", type=Path, help="folder that holds the unpacked bfcl_eval")
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    parser = make_parser()
    options = parser.parse_args(arguments)
    if (options.kept is None) == (options.predictions is None):
        parser.error("either --kept or --predictions is needed")
    if options.kept is None and not options.predictions.is_dir() and options.base is None:
        parser.error("--base is needed with a file of predictions")
    samples, fresh = read_all(options, options.cases), read_all(options, options.fresh)
    tests = answered_samples(options.answers, options.calls, options.bfcl)
    calibration = make_calibration(samples, options.name, tests, fresh)
    calibration = replace(calibration, report={"command": _command(options), **calibration.report})
    write_calibration(calibration, options.out)
    if options.traces is not None:
        write_traces(samples, fresh, options.traces)
    sys.stdout.write(json.dumps(calibration.report, indent=1) + "\n")


def _command(options: argparse.Namespace) -> str:
    """With the names of files, not their folders."""
    told = ["python -m training.fit_calls"]
    for name in ("base", "cases", "kept", "predictions", "fresh"):
        given = getattr(options, name)
        paths = given if isinstance(given, list) else [given] if given else []
        if paths:
            told.append(f"--{name} {' '.join(path.name for path in paths)}")
    return " ".join([*told, f"--name {options.name} --out FILE"])


if __name__ == "__main__":
    main()
