"""From traces to a calibration: which features, which weights, how long to hold, where to cut.

All reported figures are out of fold: rows, or whole kinds of question, are held out; features are
chosen and weights fitted without them; only then are they judged.

The boundaries of the gate say which early scores are clear after how many tokens. They are a
sequential test with a bound on both of its errors. Of the answers that would be kept in the end, at
most `MOST_CHANGED` may be dropped early, over all stops; and at most as many others may be kept
early. Agreement with the final decision would be no good bound: if one answer in ten is kept,
dropping all at the first token agrees with nine decisions in ten.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from random import Random
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from edgewise.calibrate.metrics import auroc, expected_calibration_error, reliability, share
from edgewise.decide.calibration import (
    FORMAT,
    NOTHING_CLEAR,
    UNMAPPED,
    Boundaries,
    Calibration,
    Reading,
    Score,
    ScoreMap,
    Stops,
    chat_calibration,
    write_boundaries,
)
from edgewise.decide.gate import Gate, Verdict

if TYPE_CHECKING:  # heads are trained where little is installed
    from edgewise.calibrate.traces import Sample

# `tokens` and `length` are left out: these traces cut long answers, so length would count against
# all of them, and scores of longer ones would be extrapolated. Traces hold no states.
_LEFT_OUT = ("tokens", "length", "state", "before", "engine")
FEATURES = tuple(field.name for field in fields(Reading) if field.name not in _LEFT_OUT)
MOST_FEATURES = 7
LEAST_GAIN = 0.0005  # nats per answer that a feature must save on held-out rows
SURETIES = ("logprob", "margin")  # endings of features that rise with the model's confidence
FOLDS = 7
HOLD_CHOICES = (4, 6, 8, 12, 16, 24)
SAME_KEPT = 0.8  # share of answers kept at hold_tokens or in the end that must be kept at both
CLEAR = 0.95  # share of decisions before hold_tokens that must equal those at hold_tokens
LEAST_CLEAR = 20  # with fewer cases no score is called clear
THRESHOLD = 0.5  # an answer that is probably wrong is handed off
STOPS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 20)
THRESHOLDS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
MOST_CHANGED = 0.05  # share of the answers kept in the end, on either side
ENOUGH = 60  # answers needed on both sides of a threshold for a table
_DIGITS = 4
# An answer's early scores at the stops it reached, and its final confidence.
Course = tuple[dict[int, float], float]
CURVE = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
FIT_STEPS = FOLDS * (len(HOLD_CHOICES) + 2)  # at most this many calls of `progress`


def split_kinds(samples: Sequence[Sample], count: int, seed: int) -> list[set[str]]:
    """Folds of whole kinds."""
    kinds = sorted({sample.kind for sample in samples})
    Random(seed).shuffle(kinds)
    return [set(kinds[start::count]) for start in range(min(count, len(kinds)))]


def fit_score(
    samples: Sequence[Sample],
    count: int | None,
    names: Sequence[str],
    targets: Numbers | None = None,
) -> Score:
    """Fitted to being right, or to other `targets` from 0 to 1."""
    wanted = _labels(samples) if targets is None else targets
    fitted = fit_logistic(_matrix(samples, count, names), wanted)
    return Score(dict(zip(names, fitted.weights, strict=True)), fitted.bias)


def choose_features(
    samples: Sequence[Sample], count: int | None, seed: int, targets: Numbers | None = None
) -> list[str]:
    """Forward selection by the log-loss on held-out rows; the shortest list that is as good.

    It continues past one feature that saves nothing: two may help only together.
    """
    everything = _matrix(samples, count, FEATURES)
    labels = _labels(samples) if targets is None else targets
    fold = np.random.default_rng(seed).permutation(len(samples)) % FOLDS
    folds = [fold == number for number in range(FOLDS)]

    def loss(columns: list[int]) -> float:
        chances = np.zeros(len(labels))
        for held_out in folds:
            kept = everything[:, columns]
            model = fit_logistic(kept[~held_out], labels[~held_out])
            chances[held_out] = model.chances(kept[held_out])
        chances = np.clip(chances, 1e-9, 1 - 1e-9)
        return -float(np.mean(labels * np.log(chances) + (1 - labels) * np.log(1 - chances)))

    chosen: list[int] = []
    losses: list[float] = []
    while len(chosen) < MOST_FEATURES:
        others = [column for column in range(len(FEATURES)) if column not in chosen]
        sound = [other for other in others if _is_sound(everything, labels, [*chosen, other])]
        if not sound:
            break
        found, column = min((loss([*chosen, other]), other) for other in sound)
        chosen, losses = [*chosen, column], [*losses, found]
        if len(losses) > 2 and min(losses[-2:]) >= min(losses[:-2]):
            break
    enough = next(at for at, found in enumerate(losses) if found <= min(losses) + LEAST_GAIN)
    return [FEATURES[column] for column in chosen[: enough + 1]]


def _is_sound(everything: Numbers, labels: Numbers, columns: list[int]) -> bool:
    """Whether no weight gives a higher score to an answer that the model was less sure of.

    Otherwise nearly equal features would be weighed against each other.
    """
    fitted = fit_logistic(everything[:, columns], labels)
    names = [FEATURES[column] for column in columns]
    signs = [-1 if "entropy" in name else 1 if name.endswith(SURETIES) else 0 for name in names]
    return all(sign * weight >= 0 for sign, weight in zip(signs, fitted.weights, strict=True))


def fit_scores(samples: Sequence[Sample], hold_tokens: int, seed: int) -> Calibration:
    """Both scores, with thresholds that call nothing clear yet.

    The final score is fitted to being right, the early one to the final one: an early decision
    must predict the final decision.
    """
    names = choose_features(samples, None, seed)
    final = fit_score(samples, None, names)
    foretold = np.array([final.of(sample.at(None).features()) for sample in samples])
    early = choose_features(samples, hold_tokens, seed, foretold)
    return chat_calibration(
        name="",
        early=fit_score(samples, hold_tokens, early, foretold),
        final=final,
        hold_tokens=hold_tokens,
        threshold=THRESHOLD,
        keep_above=1.0,
        drop_below=0.0,
    )


@dataclass(frozen=True, slots=True)
class Judged:
    """One answer under a calibration that has never seen its kind."""

    sample: Sample
    calibration: Calibration

    @property
    def confidence(self) -> float:
        return self.calibration.final.of(self.sample.at(None).features())

    def early(self, count: int) -> float:
        return self.calibration.early.of(self.sample.at(count).features())

    def decide(
        self, keep_above: float = 1.0, drop_below: float = 0.0, threshold: float = THRESHOLD
    ) -> tuple[Verdict, int]:
        """What a gate that decides as soon as it can says, and after how many tokens."""
        known = self.calibration
        last = len(self.sample.readings)
        for count in range(1, min(last, known.hold_tokens) + 1):
            chance = self.early(count)
            if count >= known.hold_tokens:
                return (Verdict.KEEP if chance >= threshold else Verdict.HAND_OFF), count
            drop, keep = drop_below, max(keep_above, threshold)
            if known.boundaries:
                drop, keep = known.boundaries.at(threshold, count)
            else:  # they were found at the calibrated threshold, and hold on its far side
                drop = drop if threshold >= known.threshold else 0.0
                keep = keep if threshold <= known.threshold else 1.0
            if chance >= max(keep, threshold):
                return Verdict.KEEP, count
            if chance < drop:
                return Verdict.HAND_OFF, count
        return Gate(known, threshold).judge_whole(self.sample.at(None)), last


def judge_out_of_fold(
    samples: Sequence[Sample],
    hold_tokens: int,
    seed: int,
    progress: Callable[[], None] = lambda: None,
    *,
    by: Literal["kind", "row"] = "kind",
) -> list[Judged]:
    """Every answer under a calibration that has not seen its kind, or at least not its row."""
    kinds = split_kinds(samples, FOLDS, seed + 1)
    order = list(range(len(samples)))
    Random(seed + 1).shuffle(order)
    judged = []
    for number in range(len(kinds) if by == "kind" else FOLDS):
        rows = set(order[number::FOLDS])
        held = [
            sample.kind in kinds[number] if by == "kind" else place in rows
            for place, sample in enumerate(samples)
        ]
        pairs = list(zip(samples, held, strict=True))
        calibration = fit_scores([each for each, out in pairs if not out], hold_tokens, seed)
        judged += [Judged(each, calibration) for each, out in pairs if out]
        progress()
    return judged


def agreement(judged: Sequence[Judged]) -> float:
    """The share of decisions at hold_tokens that equal those on the whole answer."""
    same = [_kept(each) == _kept_in_the_end(each) for each in judged]
    return sum(same) / len(same)


def same_kept(judged: Sequence[Judged]) -> float:
    """The share of answers kept at hold_tokens or in the end that are kept at both.

    If few are kept, agreement says little: keeping none would agree with nearly all decisions.
    """
    pairs = [(_kept(each), _kept_in_the_end(each)) for each in judged]
    either = sum(early or late for early, late in pairs)
    return sum(early and late for early, late in pairs) / either if either else 1.0


def _kept_in_the_end(judged: Judged) -> bool:
    return judged.confidence >= judged.calibration.threshold


def choose_keep_above(judged: Sequence[Judged]) -> float:
    """The lowest early score that is followed by KEEP in 95 % of the cases."""
    peaks = [(max(_held_scores(each), default=0.0), _kept(each)) for each in judged]
    return max(THRESHOLD, _clear_cut(sorted(peaks, reverse=True), nothing=1.0))


def choose_drop_below(judged: Sequence[Judged]) -> float:
    """The highest early score below which HAND_OFF follows in 95 % of the cases."""
    pits = [(min(_held_scores(each), default=1.0), not _kept(each)) for each in judged]
    return min(THRESHOLD, _clear_cut(sorted(pits), nothing=0.0))


def _clear_cut(ordered: Sequence[tuple[float, bool]], nothing: float) -> float:
    """The last score of the longest clear beginning of the list; `nothing` if none is clear."""
    cut, agreed = nothing, 0
    for count, (score, same) in enumerate(ordered, start=1):
        agreed += same
        tied = count < len(ordered) and ordered[count][0] == score  # a cut takes all ties or none
        if count >= LEAST_CLEAR and agreed >= CLEAR * count and not tied:
            cut = score
    return cut


def _held_scores(judged: Judged) -> list[float]:
    """The early scores before hold_tokens is reached."""
    last = min(judged.calibration.hold_tokens - 1, len(judged.sample.readings))
    return [judged.early(count) for count in range(1, last + 1)]


def _kept(judged: Judged) -> bool:
    return judged.decide()[0] is Verdict.KEEP


def _matrix(samples: Sequence[Sample], count: int | None, names: Sequence[str]) -> Numbers:
    rows = [[getattr(sample.at(count), name) for name in names] for sample in samples]
    return np.array(rows, dtype=np.float64)


def _labels(samples: Sequence[Sample]) -> Numbers:
    return np.array([sample.right for sample in samples], dtype=np.float64)


def choose_boundaries(judged: Sequence[Judged], most_changed: float = MOST_CHANGED) -> Boundaries:
    """Tables for the thresholds with enough answers on both sides; maybe none."""
    return boundaries_of([_course(each) for each in judged], most_changed)


def give_boundaries(judged: Sequence[Judged], most_changed: float = MOST_CHANGED) -> list[Judged]:
    """The same answers under calibrations with boundaries, found without the fold they judge."""
    folds = {id(each.calibration): each.calibration for each in judged}
    courses = [(id(each.calibration), _course(each)) for each in judged]
    bounded = {
        fold: replace(
            calibration,
            boundaries=boundaries_of([each for at, each in courses if at != fold], most_changed),
        )
        for fold, calibration in folds.items()
    }
    return [Judged(each.sample, bounded[id(each.calibration)]) for each in judged]


def boundaries_of(courses: Sequence[Course], most_changed: float = MOST_CHANGED) -> Boundaries:
    """The same for answers that are known by their scores alone."""
    stops = sorted({stop for scores, _ in courses for stop in scores})
    found = {at: _table(courses, stops, at, most_changed) for at in THRESHOLDS}
    told = {at: table for at, table in found.items() if table}
    return Boundaries(tuple(told), tuple(told.values()))


def _course(judged: Judged) -> Course:
    last = min(judged.calibration.hold_tokens - 1, len(judged.sample.readings))
    return {stop: judged.early(stop) for stop in STOPS if stop <= last}, judged.confidence


def _table(
    courses: Sequence[Course], stops: Sequence[int], threshold: float, most_changed: float
) -> Stops:
    kept = sum(confidence >= threshold for _, confidence in courses)
    if min(kept, len(courses) - kept) < ENOUGH:
        return {}
    table: dict[int, tuple[float, float]] = {}
    held = list(courses)
    drop_below, keep_above = NOTHING_CLEAR
    lost = slipped = 0
    for stop in stops:
        spent = int(most_changed * kept * stop / stops[-1])  # mostly late, when more is known
        here = [(scores[stop], end >= threshold) for scores, end in held if stop in scores]
        drop_below = _drop_below(here, threshold, spent - lost, drop_below)
        keep_above = _keep_above(here, threshold, spent - slipped, keep_above)
        table[stop] = drop_below, keep_above
        lost += sum(score < drop_below and keeps for score, keeps in here)
        slipped += sum(score >= keep_above and not keeps for score, keeps in here)
        held = [
            (scores, end)
            for scores, end in held
            if stop not in scores or drop_below <= scores[stop] < keep_above
        ]
    return table


def _drop_below(
    here: Sequence[tuple[float, bool]], threshold: float, may_lose: int, before: float
) -> float:
    """The highest score that at most this many answers to be kept are below.

    If no higher score is clear here, the cut of the previous stop applies here too.
    """
    would_keep = sorted(score for score, keeps in here if keeps)
    highest = would_keep[may_lose] if 0 <= may_lose < len(would_keep) else 0.0
    cut = math.floor(min(highest, threshold) * 10**_DIGITS) / 10**_DIGITS
    clear = sum(score < cut for score, _ in here)
    return max(cut, before) if clear >= LEAST_CLEAR else before


def _keep_above(
    here: Sequence[tuple[float, bool]], threshold: float, may_slip: int, before: float
) -> float:
    """The lowest score that at most this many answers to be dropped reach."""
    would_drop = sorted((score for score, keeps in here if not keeps), reverse=True)
    lowest = would_drop[may_slip] if 0 <= may_slip < len(would_drop) else 1.0
    cut = (math.floor(max(lowest, threshold) * 10**_DIGITS) + 1) / 10**_DIGITS
    clear = sum(score >= cut for score, _ in here)
    return min(cut, before) if clear >= LEAST_CLEAR else before


@dataclass(frozen=True, slots=True)
class FittedCalibration:
    """A calibration and its report: one number per name, and two tables.

    bins    reliability: promised and found accuracy of answers with similar confidence
    curve   what other thresholds would keep
    """

    calibration: Calibration
    metrics: dict[str, float]
    bins: list[dict[str, float]]
    curve: list[dict[str, float]]


def fit_calibration(
    samples: Sequence[Sample],
    name: str,
    seed: int,
    progress: Callable[[], None] = lambda: None,
    measuring: Sequence[Sample] = (),
) -> FittedCalibration:
    """Choose how long to hold, then which scores are clear, then fit on all samples.

    Rows for `measuring` take no part in that. The report covers both; each row is judged by a fit
    without it. The same figures for fits without its kind are called `kinds_…`.
    """
    judged: list[Judged] = []
    for hold_tokens in HOLD_CHOICES:
        judged = judge_out_of_fold(samples, hold_tokens, seed, progress)
        if same_kept(judged) >= SAME_KEPT:
            break
    calibration = replace(
        fit_scores(samples, judged[0].calibration.hold_tokens, seed),
        name=name,
        boundaries=choose_boundaries(judged),
    )
    if not calibration.boundaries:  # too few are kept or dropped: one cut for all tokens
        calibration = calibration.with_numbers(
            keep_above=_rounded(choose_keep_above(judged)),
            drop_below=_rounded(choose_drop_below(judged)),
        )
    calibration = calibration.with_scores(
        early=_short(calibration.early), final=_short(calibration.final)
    )
    everything, hold_tokens = [*samples, *measuring], calibration.hold_tokens
    rows = judge_out_of_fold(everything, hold_tokens, seed, progress, by="row")
    kinds = judge_out_of_fold(everything, hold_tokens, seed, progress) if measuring else judged
    bounded = give_boundaries(rows)
    bins = [asdict(each) for each in reliability(*confidences_of(rows))]
    curve = [_outcome(bounded, calibration, threshold) for threshold in CURVE]
    metrics = _measure(bounded, calibration)
    metrics |= {"agreement": agreement(rows), "same_kept": same_kept(rows)}
    return FittedCalibration(calibration, metrics | _kinds(kinds), bins, curve)


def confidences_of(judged: Sequence[Judged]) -> tuple[list[float], list[bool]]:
    return [each.confidence for each in judged], [each.sample.right for each in judged]


def _kinds(judged: Sequence[Judged]) -> dict[str, float]:
    """The harder question: kinds of question that the fit has never seen."""
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
        "agreement": 0.0,  # at hold_tokens, without boundaries: `fit_calibration` fills it in
        "early_agreement": agreement(judged),
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
    """Pairs of the same kind only: how well right answers are told from wrong ones."""
    total = pairs = 0.0
    for kind in {each.sample.kind for each in judged}:
        members = [each for each in judged if each.sample.kind == kind]
        right = [each.sample.right for each in members]
        weight = sum(right) * (len(right) - sum(right))
        total += weight * auroc([each.confidence for each in members], right)
        pairs += weight
    return total / pairs if pairs else 0.5


def document_of(
    fitted: FittedCalibration, source: Mapping[str, Any], data: Mapping[str, Any]
) -> dict[str, Any]:
    """The contents of a calibration file.

    source  the model and the runtime that answered
    data    the rows that it was fitted to
    """
    calibration = fitted.calibration
    return {
        "format": FORMAT,
        "name": calibration.name,
        **source,
        "data": dict(data),
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
    """Four digits: more would suggest a false precision."""
    weights = {name: float(f"{weight:.4g}") for name, weight in score.weights.items()}
    return Score(weights, float(f"{score.bias:.4g}"))


def _row(numbers: Mapping[str, float]) -> dict[str, float]:
    return {name: _rounded(value) for name, value in numbers.items()}


def _rounded(value: float) -> float:
    """Counts stay integers."""
    return value if isinstance(value, int) else round(float(value), 4)


# -- logistic regression ---------------------------------------------------------------------------


Numbers = NDArray[np.float64]

NEWTON_STEPS = 50


@dataclass(frozen=True, slots=True)
class Logistic:
    """chance = 1 / (1 + exp(-(bias + weights · features))), in the features' own units."""

    weights: tuple[float, ...]
    bias: float

    def chances(self, features: Numbers) -> Numbers:
        return sigmoid(features @ np.array(self.weights) + self.bias)


def sigmoid(values: Numbers) -> Numbers:
    chances: Numbers = 1.0 / (1.0 + np.exp(-np.clip(values, -60.0, 60.0)))
    return chances


def fit_logistic(
    features: Numbers, right: Numbers, *, ridge: float = 1.0, weights: Numbers | None = None
) -> Logistic:
    """The most likely model under a normal prior on the standardised weights, but not the bias.

    `ridge` is the prior's precision; 0 is maximum likelihood. `weights` counts rows.
    """
    count = np.ones(len(right)) if weights is None else weights
    centre = features.mean(axis=0)
    spread = np.where(features.std(axis=0) > 1e-12, features.std(axis=0), 1.0)
    design = np.column_stack([(features - centre) / spread, np.ones(len(right))])
    penalty = ridge * np.eye(design.shape[1])
    penalty[-1, -1] = 1e-9  # the bias is free, but the Hessian must not be singular
    beta = np.zeros(design.shape[1])
    for _ in range(NEWTON_STEPS):
        chances = sigmoid(design @ beta)
        gradient = design.T @ (count * (right - chances)) - penalty @ beta
        curvature = (design * (count * chances * (1 - chances))[:, None]).T @ design + penalty
        step = np.linalg.solve(curvature, gradient)
        beta += step
        if np.abs(step).max() < 1e-9:
            break
    scaled = beta[:-1] / spread
    return Logistic(tuple(map(float, scaled)), float(beta[-1] - scaled @ centre))


# -- folds of whole groups, such as kinds of questions ---------------------------------------------


KIND_FOLDS = 5


def folds_of(groups: Sequence[Any], seed: int = 0) -> NDArray[np.int64]:
    """A fold for each row; rows of one group share it, and folds are about as large."""
    members: dict[Any, list[int]] = {}
    for row, group in enumerate(groups):
        members.setdefault(group, []).append(row)
    order = sorted(members, key=str)
    Random(seed).shuffle(order)
    order.sort(key=lambda group: -len(members[group]))
    sizes, folds = [0] * KIND_FOLDS, np.zeros(len(groups), np.int64)
    for group in order:
        fold = int(np.argmin(sizes))
        folds[members[group]] = fold
        sizes[fold] += len(members[group])
    return folds


def kept_share(scores: Numbers, right: Numbers, target: float) -> float:
    """The largest share of best-scored rows of which `target` are right."""
    share = np.cumsum(right[np.argsort(-scores, kind="stable")]) / np.arange(1, len(right) + 1)
    enough = np.flatnonzero(share >= target)
    return float((enough[-1] + 1) / len(right)) if len(enough) else 0.0


# -- the map from a score to a chance --------------------------------------------------------------
#
# None, a logistic one, or an isotonic one: the log-loss on rows that did not fit it decides. A map
# never falls, so it changes what the numbers promise but never their order.


Form = Literal["none", "logistic", "isotonic"]
MAP_FOLDS = 5
LEAST_MAP_GAIN = 0.002  # nats per row that a map must save on rows it was not fitted on
LEAST_OF_EACH = 5  # right and wrong rows needed to fit a map
LEAST_BLOCK, MOST_BLOCKS = 15, 15  # of the isotonic map: rows per block, and number of blocks
_EDGE = 0.001  # nothing is certain
_GRID, _WIDEST = 29, 7.0  # points of a logistic map, and the log-odds they span


def choose_map(
    scores: Sequence[float], right: Sequence[bool], seed: int = 0
) -> tuple[ScoreMap, Form]:
    """The map that does best on held-out rows, fitted to all of them, and its name."""
    if min(sum(right), len(right) - sum(right)) < LEAST_OF_EACH:
        return UNMAPPED, "none"
    losses: dict[Form, float] = {
        form: held_out_loss(scores, right, fit, seed) for form, fit in _FORMS.items()
    }
    best = min(_FORMS, key=lambda form: losses[form])
    if losses[best] > losses["none"] - LEAST_MAP_GAIN:
        return UNMAPPED, "none"
    return _FORMS[best](scores, right), best


def held_out_loss(
    scores: Sequence[float],
    right: Sequence[bool],
    fit: Callable[[Sequence[float], Sequence[bool]], ScoreMap],
    seed: int = 0,
) -> float:
    """Log-loss per row, each judged by a map fitted without it."""
    fold = np.random.default_rng(seed).permutation(len(scores)) % MAP_FOLDS
    chances = np.zeros(len(scores))
    for number in range(MAP_FOLDS):
        others = np.flatnonzero(fold != number).tolist()
        fitted = fit([scores[at] for at in others], [right[at] for at in others])
        for at in np.flatnonzero(fold == number).tolist():
            chances[at] = fitted.of(scores[at])
    return log_loss(chances.tolist(), right)


def log_loss(chances: Sequence[float], right: Sequence[bool]) -> float:
    kept = np.clip(np.array(chances), 1e-6, 1 - 1e-6)
    return -float(np.mean(np.log(np.where(np.array(right, dtype=bool), kept, 1 - kept))))


def logistic_map(scores: Sequence[float], right: Sequence[bool]) -> ScoreMap:
    """A slope and a shift of the score's log-odds, as a few points."""
    fitted = fit_logistic(_log_odds(scores), np.array(right, dtype=np.float64))
    if fitted.weights[0] <= 0:  # the score says nothing here, or the opposite: one chance for all
        level = round(float(np.clip(np.mean(right), _EDGE, 1 - _EDGE)), _DIGITS)
        return ScoreMap(((0.0, level), (1.0, level)))
    # Even steps of log-odds: near 0 and 1, where strict thresholds are, a chance moves fastest.
    grid = sigmoid(np.linspace(-_WIDEST, _WIDEST, _GRID))
    return _points(grid, fitted.chances(_log_odds(grid.tolist())))


def isotonic_map(scores: Sequence[float], right: Sequence[bool]) -> ScoreMap:
    """Blocks of neighbouring rows, pooled until their shares of right ones never fall."""
    order = np.argsort(scores, kind="stable")
    count = max(1, min(MOST_BLOCKS, len(order) // LEAST_BLOCK))
    pooled: list[tuple[float, float, int]] = []  # sum of scores, number right, rows
    for rows in np.array_split(order, count):
        block = (
            float(sum(scores[at] for at in rows)),
            float(sum(right[at] for at in rows)),
            len(rows),
        )
        while pooled and pooled[-1][1] / pooled[-1][2] >= block[1] / block[2]:
            last = pooled.pop()
            block = (last[0] + block[0], last[1] + block[1], last[2] + block[2])
        pooled.append(block)
    # One right and one wrong row more per block: ten right rows are no certainty.
    return _points(
        np.array([total / rows for total, _, rows in pooled]),
        np.array([(good + 1) / (rows + 2) for _, good, rows in pooled]),
    )


def compose(first: ScoreMap, second: ScoreMap) -> ScoreMap:
    """One map for both, applied one after the other, accurate to a hundredth."""
    if not first.points or not second.points:
        return second if second.points else first
    grid = {at / 100 for at in range(101)} | {x for x, _ in first.points}
    return ScoreMap(tuple((x, second.of(first.of(x))) for x in sorted(grid)))


def _points(scores: Numbers, chances: Numbers) -> ScoreMap:
    found: list[tuple[float, float]] = []
    for score, chance in zip(scores.tolist(), chances.tolist(), strict=True):
        x, y = round(score, _DIGITS), round(min(1 - _EDGE, max(_EDGE, chance)), _DIGITS)
        if found and x <= found[-1][0]:
            continue
        found.append((x, max(y, found[-1][1] if found else 0.0)))
    return ScoreMap(tuple(found))


def _log_odds(scores: Sequence[float]) -> Numbers:
    kept = np.clip(np.array(scores, dtype=np.float64), _EDGE, 1 - _EDGE)
    odds: Numbers = np.log(kept / (1 - kept))[:, None]
    return odds


_FORMS: dict[Form, Callable[[Sequence[float], Sequence[bool]], ScoreMap]] = {
    "none": lambda _, __: UNMAPPED,
    "logistic": logistic_map,
    "isotonic": isotonic_map,
}
