"""Fit a confidence head to the traces of a chat model: a linear score of a state and the meter.

    python -m training.fit_head --traces FOLDER --rows MODEL.rows.jsonl.gz --out MODEL.head.json

The score is logistic in the packed state of one layer (`training.trace_files`) and the features of
`edgewise.decide.calibration`. Layer and strength are chosen by the ranking of whole kinds that were
held out. Reported are rows, whole kinds and whole families held out. numpy is enough; with torch
and a GPU a fit takes a tenth of a second instead of ten.
"""

from __future__ import annotations

import argparse
import base64
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt

from edgewise.calibrate.fit import KIND_FOLDS, folds_of, kept_share
from edgewise.calibrate.rows import Question, is_right
from edgewise.decide.calibration import Meter, Reading
from edgewise.types.replies import Token
from training.trace_files import CLIP, EARLY, STEPS, read_rows

try:
    import torch
except ImportError:
    torch = None

Numbers = npt.NDArray[np.float64]
Floats = npt.NDArray[np.float32]

STRENGTHS = (300.0, 1000.0, 3000.0, 10000.0)
FEATURE_STRENGTH = 10.0  # of the meter's few weights, whatever the strength of the state's many
TARGETS = (0.8, 0.9, 0.95)
BINS = 15
NEWTON_STEPS = 12


@dataclass(frozen=True, slots=True)
class Traces:
    """What a model answered, whether it was right, and what there is to judge it by."""

    folder: Path
    kept: npt.NDArray[np.int64]  # rows with an answer
    kinds: list[str]
    families: list[str]
    right: Numbers
    features: dict[str, Numbers]  # by how many tokens were seen: "1", "2", "4" … "end"
    names: tuple[str, ...]
    rows: list[dict[str, Any]]
    texts: list[str]

    def state(self, name: str) -> Floats:
        """A packed state in deviations, such as `mean-19`."""
        with np.load(self.folder / f"{name}.npz") as file:
            states: Floats = file["z"][self.kept].astype(np.float32) / np.float32(STEPS)
        return states

    def layers(self, name: str) -> list[int]:
        return sorted(int(path.stem.split("-")[1]) for path in self.folder.glob(f"{name}-*.npz"))


def question_of(row: dict[str, Any]) -> Question:
    """The question of a row that `training.chat_prompts` wrote."""
    names = Question.__dataclass_fields__.keys() & row.keys()  # old rows lack what came later
    given: dict[str, Any] = {
        name: tuple(row[name]) if isinstance(row[name], list) else row[name] for name in names
    }
    return Question(**given)


def readings_of(tokens: Sequence[Token]) -> list[Reading]:
    meter, readings = Meter(), []
    for token in tokens:
        meter.add(token)
        readings.append(meter.reading())
    return readings


def read_traces(folder: Path, rows_path: Path) -> Traces:
    rows = read_rows(rows_path)
    with np.load(folder / "answers.npz") as file:
        data = {name: file[name] for name in file.files}
    texts, pieces = json.loads(str(data["texts"])), json.loads(str(data["pieces"]))
    kept = np.flatnonzero(data["lengths"] > 0)
    # When the state of a token is known, so is the next token.
    counts = sorted({seen for count in EARLY for seen in (count, count + 1)})
    features: dict[str, list[list[float]]] = {str(count): [] for count in (*counts, "end")}
    names: tuple[str, ...] = ()
    for row in kept:
        evidence = zip(
            data["logprobs"][row], data["margins"][row], data["entropies"][row], strict=True
        )
        # Of the end token, which comes next in the traces, the chat stream gives no evidence.
        tokens = [
            Token(text, float(logprob), float(margin), float(entropy))
            for text, (logprob, margin, entropy) in zip(pieces[row], evidence, strict=False)
        ]
        readings = readings_of(tokens)
        for count in counts:
            features[str(count)].append(
                list(readings[min(count, len(readings)) - 1].features().values())
            )
        features["end"].append(list(readings[-1].features().values()))
        names = tuple(readings[-1].features())
    return Traces(
        folder=folder,
        kept=kept,
        kinds=[rows[row]["kind"] for row in kept],
        families=[rows[row]["family"] for row in kept],
        right=np.array([is_right(question_of(rows[row]), texts[row]) for row in kept], np.float64),
        features={count: np.array(values) for count, values in features.items()},
        names=names,
        rows=[rows[row] for row in kept],
        texts=[texts[row] for row in kept],
    )


# -- the fit ---------------------------------------------------------------------------------------


def standardised(features: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    centre, spread = features.mean(axis=0), features.std(axis=0)
    spread = np.where(spread > 1e-9, spread, 1.0)
    return np.clip((features - centre) / spread, -CLIP, CLIP), centre, spread


def fit(design: Any, right: Numbers, penalty: Numbers) -> Numbers:
    """Weights of the most likely logistic model; the last column of the design is the bias."""
    if torch is not None and torch.cuda.is_available():
        return _fit_there(design, right, penalty)
    design = np.asarray(design, np.float32)  # products in 32 bits take a fifth of the time
    beta = np.zeros(design.shape[1])
    for _ in range(NEWTON_STEPS):
        logits = (design @ beta.astype(np.float32)).astype(np.float64)
        chances = 1.0 / (1.0 + np.exp(-np.clip(logits, -30, 30)))
        gradient = design.T @ (right - chances).astype(np.float32) - penalty * beta
        weighted = design * np.sqrt(chances * (1 - chances)).astype(np.float32)[:, None]
        curvature = (weighted.T @ weighted).astype(np.float64)
        curvature[np.diag_indices_from(curvature)] += penalty
        step = np.linalg.solve(curvature, gradient)
        beta += step
        if np.abs(step).max() < 1e-4:
            break
    return beta


def _fit_there(design: Any, right: Numbers, penalty: Numbers) -> Numbers:
    x = torch.as_tensor(np.asarray(design), device="cuda").double()
    y, strength = torch.as_tensor(right, device="cuda"), torch.as_tensor(penalty, device="cuda")
    beta = torch.zeros(x.shape[1], dtype=torch.float64, device="cuda")
    for _ in range(NEWTON_STEPS):
        chances = torch.sigmoid((x @ beta).clamp(-30, 30))
        gradient = x.T @ (y - chances) - strength * beta
        curvature = (x * (chances * (1 - chances))[:, None]).T @ x + torch.diag(strength)
        step = torch.linalg.solve(curvature, gradient)
        beta += step
        if float(step.abs().max()) < 1e-5:
            break
    found: Numbers = beta.cpu().numpy()
    return found


def design_of(
    state: Floats | None, features: Numbers | None
) -> tuple[Any, Callable[[float], Numbers]]:
    """Columns of state, features and bias, and their penalties at a strength."""
    parts, sizes = [], []
    for part in (state, features):
        sizes.append(0 if part is None else part.shape[1])
        if part is not None:
            parts.append(np.asarray(part, np.float32))
    count = len(parts[0])
    design = np.concatenate([*parts, np.ones((count, 1), np.float32)], axis=1)

    def penalty(strength: float) -> Numbers:
        return np.concatenate(
            [np.full(sizes[0], strength), np.full(sizes[1], FEATURE_STRENGTH), [1e-6]]
        )

    return design, penalty


def held_out(
    design: Any, right: Numbers, penalty: Numbers, folds: npt.NDArray[np.int64]
) -> Numbers:
    """The logit of each row by a fit that never saw its fold."""
    logits = np.zeros(len(right))
    for fold in range(KIND_FOLDS):
        test = folds == fold
        logits[test] = design[test] @ fit(design[~test], right[~test], penalty)
    return logits


# -- figures ---------------------------------------------------------------------------------------


def auroc(scores: Numbers, right: Numbers) -> float:
    _, inverse, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    good = right.sum()
    bad = len(right) - good
    if not good or not bad:
        return float("nan")
    return float((ranks[right == 1].sum() - good * (good + 1) / 2) / (good * bad))


def platt(logits: Numbers, right: Numbers) -> tuple[float, float]:
    design = np.column_stack([logits, np.ones(len(logits))]).astype(np.float32)
    slope, bias = fit(design, right, np.array([1e-3, 1e-6]))
    return float(slope), float(bias)


def calibration_error(logits: Numbers, right: Numbers, folds: npt.NDArray[np.int64]) -> float:
    """The expected error of the chances, in bins of equal size; other folds map each fold."""
    chances = np.zeros(len(logits))
    for fold in range(KIND_FOLDS):
        test = folds == fold
        slope, bias = platt(logits[~test], right[~test])
        chances[test] = 1 / (1 + np.exp(-(slope * logits[test] + bias)))
    parts = np.array_split(np.argsort(chances), BINS)
    return float(
        sum(len(p) * abs(chances[p].mean() - right[p].mean()) for p in parts) / len(logits)
    )


def figures(logits: Numbers, right: Numbers, folds: npt.NDArray[np.int64]) -> dict[str, float]:
    found = {"auroc": auroc(logits, right), "ece": calibration_error(logits, right, folds)}
    found |= {f"kept_at_{target:.2f}": kept_share(logits, right, target) for target in TARGETS}
    return {name: round(value, 4) for name, value in found.items()}


def choose(
    traces: Traces, name: str, features: Numbers | None, folds: npt.NDArray[np.int64]
) -> tuple[int, float, dict[str, float]]:
    """Layer and strength with the best ranking of kinds that were held out."""
    tried: dict[str, float] = {}
    best = (0.0, 0, 0.0)
    for layer in traces.layers(name):
        design, penalty = design_of(traces.state(f"{name}-{layer}"), features)
        for strength in STRENGTHS:
            score = auroc(held_out(design, traces.right, penalty(strength), folds), traces.right)
            tried[f"layer {layer}, strength {strength:g}"] = round(score, 4)
            best = max(best, (score, layer, strength))
    return best[1], best[2], tried


def learning_curve(design: Any, traces: Traces, penalty: Numbers) -> dict[str, float]:
    """Ranking of a fifth of the kinds, fitted on so many others; the mean of three draws."""
    kinds = sorted(set(traces.kinds))
    place = np.array([kinds.index(kind) for kind in traces.kinds])
    curve: dict[str, list[float]] = {}
    for seed in range(3):
        order = Random(seed).sample(range(len(kinds)), len(kinds))
        cut = max(1, len(kinds) // 5)
        test = np.isin(place, order[:cut])
        for count in (5, 10, 20, 40, 80, 160):
            if count > len(kinds) - cut:
                continue
            train = np.isin(place, order[cut : cut + count])
            if 0 < traces.right[train].mean() < 1:
                beta = fit(design[train], traces.right[train], penalty)
                score = auroc(design[test] @ beta, traces.right[test])
                curve.setdefault(str(count), []).append(score)
    return {count: round(float(np.mean(scores)), 4) for count, scores in curve.items()}


def by_group(groups: Sequence[str], logits: Numbers, right: Numbers) -> dict[str, Any]:
    names = np.array(groups)
    return {
        name: {
            "rows": int((names == name).sum()),
            "right": round(float(right[names == name].mean()), 3),
            "auroc": round(auroc(logits[names == name], right[names == name]), 3),
        }
        for name in sorted(set(groups))
    }


def packed(values: Any) -> str:
    return base64.b64encode(np.asarray(values, "<f4").tobytes()).decode("ascii")


def head_of(
    traces: Traces,
    name: str,
    features: Numbers | None,
    strength: float,
    folds: npt.NDArray[np.int64],
) -> dict[str, Any]:
    """Fitted on all rows; the map to a chance comes from kinds that were held out."""
    design, penalty = design_of(traces.state(name), None)
    if features is not None:
        scaled, centre, spread = standardised(features)
        design, penalty = design_of(traces.state(name), scaled)
    beta = fit(design, traces.right, penalty(strength))
    slope, bias = platt(held_out(design, traces.right, penalty(strength), folds), traces.right)
    with np.load(traces.folder / f"{name}.npz") as file:
        width = file["z"].shape[1]
        state = {
            "centre": packed(file["centre"]),
            "spread": packed(file["spread"]),
            "weights": packed(beta[:width]),
        }
    head: dict[str, Any] = {
        "state": name,
        "layer": int(name.split("-")[1]),
        "clip": CLIP,
        "width": width,
        **state,
        "bias": float(beta[-1]),
        "chance": {"slope": slope, "bias": bias},
        "strength": strength,
    }
    if features is not None:
        head["features"] = {
            each: {
                "weight": float(beta[width + at]),
                "centre": float(centre[at]),
                "spread": float(spread[at]),
            }
            for at, each in enumerate(traces.names)
        }
    return head


def report(traces: Traces) -> dict[str, Any]:
    """All figures and both heads of one model."""
    splits = {
        "rows": folds_of(list(range(len(traces.kinds)))),
        "kinds": folds_of(traces.kinds),
        "families": folds_of(traces.families),
    }
    features = {count: standardised(values)[0] for count, values in traces.features.items()}
    layer, strength, tried = choose(traces, "mean", features["end"], splits["kinds"])
    before, before_strength, tried_before = choose(traces, "before", None, splits["kinds"])
    early = traces.layers("early1")[0]
    evidence: dict[str, tuple[str | None, str | None, float]] = {
        "features": (None, "end", strength),
        "state": (f"mean-{layer}", None, strength),
        "state and features": (f"mean-{layer}", "end", strength),
        "before the answer": (f"before-{before}", None, before_strength),
    }
    for count in EARLY:
        evidence[f"features after {count}"] = (None, str(count), strength)
        evidence[f"state and features after {count}"] = (
            f"early{count}-{early}",
            str(count),
            strength,
        )
    table: dict[str, Any] = {}
    groups: dict[str, Any] = {}
    for label, (state, seen, force) in evidence.items():
        design, penalty = design_of(
            traces.state(state) if state else None, features[seen] if seen else None
        )
        logits = {
            split: held_out(design, traces.right, penalty(force), folds)
            for split, folds in splits.items()
        }
        table[label] = {
            split: figures(logits[split], traces.right, splits[split]) for split in splits
        }
        if label in ("state and features", "before the answer"):
            groups[label] = {
                "kinds": by_group(traces.kinds, logits["kinds"], traces.right),
                "families": by_group(traces.families, logits["families"], traces.right),
                "systems": by_group(
                    [row["system"] for row in traces.rows], logits["kinds"], traces.right
                ),
                "curve": learning_curve(design, traces, penalty(force)),
            }
    table["lowest log-probability"] = {
        "rows": figures(
            traces.features["end"][:, traces.names.index("min_logprob")],
            traces.right,
            splits["rows"],
        )
    }
    return {
        "rows": len(traces.kinds),
        "kinds": len(set(traces.kinds)),
        "families": len(set(traces.families)),
        "right": round(float(traces.right.mean()), 4),
        "figures": table,
        "tried": {"mean": tried, "before": tried_before},
        "groups": groups,
        "heads": {
            "answer": head_of(
                traces, f"mean-{layer}", traces.features["end"], strength, splits["kinds"]
            ),
            "before": head_of(traces, f"before-{before}", None, before_strength, splits["kinds"]),
        },
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--traces", type=Path, required=True)
    parser.add_argument("--rows", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(arguments)
    found = report(read_traces(options.traces, options.rows))
    options.out.write_text(json.dumps(found, indent=1))
    sys.stdout.write(f"{found['rows']} rows, {found['kinds']} kinds, right {found['right']:.3f}\n")
    for label, splits in found["figures"].items():
        shown = "  ".join(
            f"{split} {v['auroc']:.3f} ece {v['ece']:.3f} kept {v['kept_at_0.90']:.2f}"
            for split, v in splits.items()
        )
        sys.stdout.write(f"{label:34} {shown}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
