"""`edgewise bench calibration`: fits a calibration for a model, and says how good it is."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from edgewise.bench import fit
from edgewise.bench.boundaries import choose_boundaries, give_boundaries
from edgewise.bench.fit import Judged, Sample
from edgewise.bench.metrics import auroc, expected_calibration_error, reliability, share
from edgewise.bench.trace_runs import make_origin
from edgewise.bench.trace_set import Origin
from edgewise.bench.traces import MAX_TOKENS
from edgewise.decide.calibration import FORMAT, Calibration, Score
from edgewise.decide.gate import Verdict
from edgewise.local.store.store import InstalledModel
from edgewise.settings import Settings
from edgewise.types.measured import write_boundaries

CURVE = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
FIT_STEPS = fit.FOLDS * (len(fit.HOLD_CHOICES) + 2)  # at most so many calls of `progress`


@dataclass(frozen=True, slots=True)
class Fitted:
    """A calibration and its report: one number per name, and two tables.

    bins    reliability: promised and found accuracy of answers with similar confidence
    curve   what other thresholds would keep
    """

    calibration: Calibration
    metrics: dict[str, float]
    bins: list[dict[str, float]]
    curve: list[dict[str, float]]


def calibration_name(model: InstalledModel) -> str:
    """The engine looks for this name among the shipped files."""
    return f"{model.name}-{model.quantisation}".lower()


def traces_path(settings: Settings, model: InstalledModel) -> Path:
    """Traces belong to exact weights, a runtime and a system prompt: each has its own file."""
    unique = f"{model.sha256} {version('xllamacpp')} {MAX_TOKENS} {own_system(model)}"
    digest = hashlib.sha256(unique.encode()).hexdigest()[:12]
    return settings.cache_dir / "bench" / f"answers-{calibration_name(model)}-{digest}.jsonl"


def fit_calibration(
    samples: Sequence[Sample],
    name: str,
    seed: int,
    progress: Callable[[], None] = lambda: None,
    measuring: Sequence[Sample] = (),
) -> Fitted:
    """Choose how long to hold, then where scores are clear, then fit on all samples.

    Rows for `measuring` take no part in that. The report is about both, each row judged by a fit
    without it; the same figures for fits without its kind are called `kinds_…`.
    """
    judged: list[Judged] = []
    for hold_tokens in fit.HOLD_CHOICES:
        judged = fit.judge_out_of_fold(samples, hold_tokens, seed, progress)
        if fit.same_kept(judged) >= fit.SAME_KEPT:
            break
    calibration = replace(
        fit.fit_scores(samples, judged[0].calibration.hold_tokens, seed),
        name=name,
        boundaries=choose_boundaries(judged),
    )
    if not calibration.boundaries:  # too few are kept, or dropped: one cut for all tokens
        calibration = replace(
            calibration,
            keep_above=_rounded(fit.choose_keep_above(judged)),
            drop_below=_rounded(fit.choose_drop_below(judged)),
        )
    calibration = replace(
        calibration, early=_short(calibration.early), final=_short(calibration.final)
    )
    everything, hold_tokens = [*samples, *measuring], calibration.hold_tokens
    rows = fit.judge_out_of_fold(everything, hold_tokens, seed, progress, by="row")
    kinds = fit.judge_out_of_fold(everything, hold_tokens, seed, progress) if measuring else judged
    bounded = give_boundaries(rows)
    bins = [asdict(each) for each in reliability(*confidences_of(rows))]
    curve = [_outcome(bounded, calibration, threshold) for threshold in CURVE]
    metrics = _measure(bounded, calibration)
    metrics |= {"agreement": fit.agreement(rows), "same_kept": fit.same_kept(rows)}
    return Fitted(calibration, metrics | _kinds(kinds), bins, curve)


def confidences_of(judged: Sequence[Judged]) -> tuple[list[float], list[bool]]:
    return [each.confidence for each in judged], [each.sample.right for each in judged]


def _kinds(judged: Sequence[Judged]) -> dict[str, float]:
    """The harder question: kinds of question the fit has never seen."""
    confidences, right = confidences_of(judged)
    return {
        "kinds_auroc": auroc(confidences, right),
        "kinds_auroc_within_kind": _auroc_within_kind(judged),
        "kinds_ece": expected_calibration_error(confidences, right),
    }


def _measure(judged: Sequence[Judged], calibration: Calibration) -> dict[str, float]:
    """The report, out of fold, with the gate as it will run."""
    right = [each.sample.right for each in judged]
    confidences = [each.confidence for each in judged]
    plain = [each.sample.at(None).mean_logprob for each in judged]
    return {
        "questions": len(judged),
        "kinds": len({each.sample.kind for each in judged}),
        "accuracy": share(right),
        "auroc": auroc(confidences, right),
        "auroc_early": auroc([each.early(calibration.hold_tokens) for each in judged], right),
        "auroc_within_kind": _auroc_within_kind(judged),
        "auroc_mean_logprob": auroc(plain, right),
        "ece": expected_calibration_error(confidences, right),
        "agreement": 0.0,  # at hold_tokens, without boundaries: the caller knows
        "early_agreement": fit.agreement(judged),
        **_outcome(judged, calibration, calibration.threshold),
        "hold_tokens": calibration.hold_tokens,
        "keep_above": calibration.keep_above,
        "drop_below": calibration.drop_below,
    }


def _outcome(
    judged: Sequence[Judged], calibration: Calibration, threshold: float
) -> dict[str, float]:
    """What the gate does at a threshold, and what that is worth."""
    clear = calibration.keep_above, calibration.drop_below
    decided = [(each.sample.right, *each.decide(*clear, threshold)) for each in judged]
    kept = [right for right, verdict, _ in decided if verdict is Verdict.KEEP]
    dropped = [(right, count) for right, verdict, count in decided if verdict is Verdict.HAND_OFF]
    return {
        "threshold": threshold,
        "kept_share": len(kept) / len(decided),
        "kept_accuracy": share(kept),
        "handed_off_accuracy": share([right for right, _ in dropped]),
        "tokens_before_decision": sum(count for _, _, count in decided) / len(decided),
        "tokens_wasted_per_handoff": sum(count for _, count in dropped) / max(1, len(dropped)),
    }


def _auroc_within_kind(judged: Sequence[Judged]) -> float:
    """Pairs of the same kind only: how well answers are told apart when all else is equal."""
    total = pairs = 0.0
    for kind in {each.sample.kind for each in judged}:
        members = [each for each in judged if each.sample.kind == kind]
        right = [each.sample.right for each in members]
        weight = sum(right) * (len(right) - sum(right))
        total += weight * auroc([each.confidence for each in members], right)
        pairs += weight
    return total / pairs if pairs else 0.5


def make_document(
    fitted: Fitted, model: InstalledModel, seed: int, questions: int
) -> dict[str, Any]:
    """The calibration file: what `parse_calibration` reads, and where it comes from."""
    origin = make_origin(model, system=own_system(model))
    return document_of(fitted, origin, f"edgewise bench calibration --seed {seed}", seed, questions)


def own_system(model: InstalledModel) -> str:
    return model.row.default_system if model.row else ""


def document_of(
    fitted: Fitted, origin: Origin, command: str, seed: int, questions: int
) -> dict[str, Any]:
    calibration = fitted.calibration
    return {
        "format": FORMAT,
        "name": calibration.name,
        "model": origin.model,
        "quantisation": origin.quantisation,
        "sha256": origin.sha256,
        "runtime": dict(origin.runtime),
        "data": {
            "description": "questions with checkable answers: ours (src/edgewise/bench/"
            "questions.py) and, where so many, public ones by reference (benchmarks/traces); "
            "greedy answers of the model itself",
            "command": command,
            "seed": seed,
            "questions": questions,
            "max_tokens": origin.max_tokens,
            "system": origin.system,
        },
        "early": {"weights": dict(calibration.early.weights), "bias": calibration.early.bias},
        "final": {"weights": dict(calibration.final.weights), "bias": calibration.final.bias},
        "hold_tokens": calibration.hold_tokens,
        "threshold": calibration.threshold,
        "keep_above": calibration.keep_above,
        "drop_below": calibration.drop_below,
        "boundaries": write_boundaries(calibration.boundaries),
        "report": _row(fitted.metrics),
        "bins": [_row(each) for each in fitted.bins],
        "curve": [_row(each) for each in fitted.curve],
    }


def _short(score: Score) -> Score:
    """Four digits: more would only pretend."""
    weights = {name: float(f"{weight:.4g}") for name, weight in score.weights.items()}
    return Score(weights, float(f"{score.bias:.4g}"))


def _row(numbers: Mapping[str, float]) -> dict[str, float]:
    return {name: _rounded(value) for name, value in numbers.items()}


def _rounded(value: float) -> float:
    """Counts stay whole numbers."""
    return value if isinstance(value, int) else round(float(value), 4)
