"""Fit the confidence of models that nobody has calibrated, and say how well it carries over.

    python -m training.transfer --traces RESULTS --rows ROWS [--calibrations FOLDER]

RESULTS has a folder of traces for each model (`training.chat_traces`), ROWS what each was asked
(`training.chat_prompts`). The score weighs a few features of the words. They are chosen by how well
a score of some models foretells another model. Each model is then judged by a score that was chosen
and fitted without it: these are the figures that are printed and kept in the file. No risk table
is: nothing can be promised of a model that was never asked.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgewise.calibrate.builtin import EARLY, Early, JudgedRows, fit_sound, part
from edgewise.calibrate.fit import FEATURES, SURETIES, Logistic, fit_logistic, folds_of, kept_share
from edgewise.calibrate.metrics import expected_calibration_error
from edgewise.decide.calibration import FORMAT, parse_calibration
from edgewise.types.replies import TRANSFER
from training.fit_head import Numbers, Traces, auroc, read_traces

MOST_FEATURES = 6
LEAST_GAIN = 0.0005  # nats per answer that a feature must save on models that were left out
COMMAND = "python -m training.transfer (training/README.md says how the traces were made)"
# What the gate must not learn from several models at once: how many answers are right differs.
_OF_ONE_MODEL = ("risk", "risk_rows", "quantiles", "feature_deviations")

Answers = tuple[Numbers, Numbers]  # of one model: features in the order of FEATURES, right or not


def choose_features(models: Sequence[Answers]) -> list[int]:
    """Columns, chosen one after the other, that foretell a model that was left out."""
    chosen: list[int] = []
    best = float("inf")
    while len(chosen) < MOST_FEATURES:
        others = [column for column in range(len(FEATURES)) if column not in chosen]
        found, column = min((carried_loss(models, [*chosen, other]), other) for other in others)
        if found > best - LEAST_GAIN:
            break
        chosen, best = [*chosen, column], found
    return chosen


def carried_loss(models: Sequence[Answers], columns: list[int]) -> float:
    """Nats per answer of models that the score was not fitted to; infinite if it is unsound."""
    losses = []
    for out, (features, right) in enumerate(models):
        fitted = fit_models([each for at, each in enumerate(models) if at != out], columns)
        if not _is_sound(fitted, columns):
            return float("inf")
        chances = np.clip(fitted.chances(features[:, columns]), 1e-6, 1 - 1e-6)
        losses.append(-np.mean(np.log(np.where(right > 0, chances, 1 - chances))))
    return float(np.mean(losses))


def fit_models(models: Sequence[Answers], columns: list[int]) -> Logistic:
    features = np.concatenate([features[:, columns] for features, _ in models])
    return fit_logistic(features, np.concatenate([right for _, right in models]))


def _is_sound(fitted: Logistic, columns: Sequence[int]) -> bool:
    """Whether no weight speaks for an answer that a model was less sure of."""
    for column, weight in zip(columns, fitted.weights, strict=True):
        name = FEATURES[column]
        sign = -1 if "entropy" in name else 1 if name.endswith(SURETIES) else 0
        if sign * weight < 0:
            return False
    return True


def left_out_figures(models: Sequence[Answers], out: int) -> dict[str, Any]:
    """How a score of the other models does on this one; its features are the others' choice."""
    others = [each for at, each in enumerate(models) if at != out]
    columns = choose_features(others)
    features, right = models[out]
    chances = fit_models(others, columns).chances(features[:, columns])
    flags = [bool(each) for each in right]
    found = {
        "accuracy": float(right.mean()),
        "mean_confidence": float(chances.mean()),
        "auroc": auroc(chances, right),
        "ece": expected_calibration_error(list(map(float, chances)), flags),
        "kept_share": float((chances >= 0.5).mean()),
        "kept_accuracy": float(right[chances >= 0.5].mean()) if (chances >= 0.5).any() else 0.0,
        "kept_share_at_0.90": kept_share(chances, right, 0.9),
    }
    told = {name: round(value, 4) for name, value in found.items()}
    return {"questions": len(flags), **told, "features": [FEATURES[at] for at in columns]}


def own_auroc(traces: Traces) -> float:
    """How a score of the model's own words orders kinds that were held out: what to hope for."""
    words, folds = words_of(traces, "end"), folds_of(traces.kinds)
    chances = fit_sound(list(FEATURES), words, traces.right, folds).chances(words, folds)
    return round(auroc(chances, traces.right), 4)


def words_of(traces: Traces, count: str) -> Numbers:
    return traces.features[count][:, [traces.names.index(name) for name in FEATURES]]


def rows_of(traces: Sequence[Traces], columns: list[int]) -> JudgedRows:
    """All models' answers; a model is a fold."""
    lengths = np.concatenate([t.features["end"][:, t.names.index("tokens")] for t in traces])
    early = {}
    for count in EARLY:
        there = np.flatnonzero(lengths > count)
        words = np.concatenate([words_of(each, str(count + 1)) for each in traces])
        early[count] = Early(there, None, words[there][:, columns])
    return JudgedRows(
        folds=np.repeat(np.arange(len(traces)), [len(each.right) for each in traces]),
        right=np.concatenate([each.right for each in traces]),
        words=np.concatenate([words_of(each, "end") for each in traces])[:, columns],
        state=None,
        before=None,
        early=early,
        names=tuple(FEATURES[column] for column in columns),
    )


def make_document(traces: Sequence[Traces]) -> dict[str, Any]:
    """The contents of the file."""
    models = [(words_of(each, "end"), each.right) for each in traces]
    names = [each.folder.name for each in traces]
    rows = rows_of(traces, choose_features(models))
    fitted = part(rows, with_state=False)
    for name in _OF_ONE_MODEL:
        del fitted[name]
    left_out = {
        name: {**left_out_figures(models, at), "own_words_auroc": own_auroc(traces[at])}
        for at, name in enumerate(names)
    }
    fitted["report"] = {"left_out": left_out}
    return {
        "format": FORMAT,
        "name": TRANSFER,
        "data": {
            "description": f"answers of {len(traces)} models to the same questions with checkable "
            "answers; each is judged by a score of the others",
            "command": COMMAND,
            "models": names,
            "questions": len(rows.right),
        },
        **fitted,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    for option in ("traces", "rows"):
        parser.add_argument(f"--{option}", type=Path, required=True)
    parser.add_argument("--calibrations", type=Path, help="write the file into this folder")
    options = parser.parse_args(arguments)
    folders = sorted(path.parent for path in options.traces.glob("*/answers.npz"))
    traces = [
        read_traces(folder, options.rows / f"{folder.name}.rows.jsonl.gz") for folder in folders
    ]
    document = make_document(traces)
    parse_calibration(document, TRANSFER)
    for name, figures in document["report"]["left_out"].items():
        sys.stdout.write(f"{name}: {json.dumps(figures)}\n")
    sys.stdout.write(f"final: {json.dumps(document['final'])}\n")
    if options.calibrations:
        path = options.calibrations / f"{TRANSFER}.json"
        path.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
        sys.stdout.write(f"{path.stat().st_size} bytes\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
