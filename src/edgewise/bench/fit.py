"""From traces to a calibration: which features, what weights, how long to hold, where to cut.

Everything that is reported is out of fold: rows, or whole kinds of question, are held out, the
features are chosen and the weights fitted without them, and only then are they judged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from random import Random
from typing import TYPE_CHECKING, Literal

from edgewise.bench.logistic import fit_logistic
from edgewise.bench.traces import Trace
from edgewise.decide.calibration import Calibration, Score
from edgewise.decide.gate import Gate, Verdict
from edgewise.decide.meter import Reading

if TYPE_CHECKING:
    from edgewise.bench.logistic import Numbers

# `tokens` is left out: long answers would score by extrapolation.
FEATURES = tuple(field.name for field in fields(Reading) if field.name != "tokens")
MOST_FEATURES = 7
LEAST_GAIN = 0.0005  # nats per answer that the last features must save on held-out rows
SURETIES = ("logprob", "margin")  # features that rise with the model's own sureness end so
FOLDS = 7
PREFIXES = (1, 2, 4, 6, 8, 12, 16, 24)
HOLD_CHOICES = (4, 6, 8, 12, 16, 24)
SAME_KEPT = 0.8  # of the answers kept at hold_tokens or in the end, that must be kept at both
CLEAR = 0.95  # decisions before hold_tokens that must be those at hold_tokens
LEAST_CLEAR = 20  # cases without which "so clear" is not claimed
THRESHOLD = 0.5  # an answer that is more likely wrong than right is handed off


@dataclass(frozen=True, slots=True)
class Sample:
    """A trace as the fit sees it."""

    kind: str
    right: bool
    readings: tuple[Reading, ...]

    def at(self, count: int | None) -> Reading:
        """After `count` tokens, or at the end when the answer is shorter (or None is asked)."""
        end = len(self.readings) if count is None else min(count, len(self.readings))
        return self.readings[end - 1]


def make_samples(traces: Sequence[Trace]) -> list[Sample]:
    """An answer without evidence cannot be judged by it and is left out."""
    samples = [
        Sample(trace.question.kind, trace.right, tuple(trace.readings())) for trace in traces
    ]
    return [sample for sample in samples if sample.readings]


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
    """Fitted to being right, or to other `targets` between 0 and 1."""
    wanted = _labels(samples) if targets is None else targets
    fitted = fit_logistic(_matrix(samples, count, names), wanted)
    return Score(dict(zip(names, fitted.weights, strict=True)), fitted.bias)


def choose_features(
    samples: Sequence[Sample], count: int | None, seed: int, targets: Numbers | None = None
) -> list[str]:
    """Forward selection by the log-loss on held-out rows; the shortest list that is as good.

    It goes on past one feature that saves nothing: two may be worth something only together.
    """
    import numpy as np  # noqa: PLC0415 - benches alone need it

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
    """Whether no weight lets an answer that the model was less sure of score higher.

    Features that say nearly the same would else be played against each other.
    """
    fitted = fit_logistic(everything[:, columns], labels)
    names = [FEATURES[column] for column in columns]
    signs = [-1 if "entropy" in name else 1 if name.endswith(SURETIES) else 0 for name in names]
    return all(sign * weight >= 0 for sign, weight in zip(signs, fitted.weights, strict=True))


def fit_scores(samples: Sequence[Sample], hold_tokens: int, seed: int) -> Calibration:
    """Both scores; thresholds that say nothing yet about clear cases.

    The final score is fitted to being right, the early one to the final one: what an early
    decision has to foretell is the decision in the end.
    """
    names = choose_features(samples, None, seed)
    final = fit_score(samples, None, names)
    foretold = _chances(final, samples)
    early = choose_features(samples, hold_tokens, seed, foretold)
    return Calibration(
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
        return self.calibration.final.probability(self.sample.at(None))

    def early(self, count: int) -> float:
        return self.calibration.early.probability(self.sample.at(count))

    def decide(
        self, keep_above: float = 1.0, drop_below: float = 0.0, threshold: float = THRESHOLD
    ) -> tuple[Verdict, int]:
        """What the real gate says to this stream, and after how many tokens."""
        gate = Gate(
            replace(self.calibration, keep_above=keep_above, drop_below=drop_below), threshold
        )
        for count, reading in enumerate(self.sample.readings, start=1):
            verdict = gate.judge(reading, count)
            if verdict is not Verdict.HOLD:
                return verdict, count
        return gate.judge_whole(self.sample.at(None)), len(self.sample.readings)


def judge_out_of_fold(
    samples: Sequence[Sample],
    hold_tokens: int,
    seed: int,
    progress: Callable[[], None] = lambda: None,
    *,
    by: Literal["kind", "row"] = "kind",
) -> list[Judged]:
    """Every answer under a calibration that has not seen its kind, or only not its row."""
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
    """How many decisions at hold_tokens are those the whole answer would have got."""
    same = [_kept(each) == _kept_in_the_end(each) for each in judged]
    return sum(same) / len(same)


def same_kept(judged: Sequence[Judged]) -> float:
    """Of the answers that are kept at hold_tokens or in the end, how many are kept at both.

    Where few are kept, agreement says little: to keep none would agree with nearly all decisions.
    """
    pairs = [(_kept(each), _kept_in_the_end(each)) for each in judged]
    either = sum(early or late for early, late in pairs)
    return sum(early and late for early, late in pairs) / either if either else 1.0


def _kept_in_the_end(judged: Judged) -> bool:
    return judged.confidence >= judged.calibration.threshold


def choose_keep_above(judged: Sequence[Judged]) -> float:
    """The lowest early score that, once reached, is followed by KEEP in 95 % of the cases."""
    peaks = [(max(_held_scores(each), default=0.0), _kept(each)) for each in judged]
    return max(THRESHOLD, _clear_cut(sorted(peaks, reverse=True), nothing=1.0))


def choose_drop_below(judged: Sequence[Judged]) -> float:
    """The highest early score below which HAND_OFF follows in 95 % of the cases."""
    pits = [(min(_held_scores(each), default=1.0), not _kept(each)) for each in judged]
    return min(THRESHOLD, _clear_cut(sorted(pits), nothing=0.0))


def _clear_cut(ordered: Sequence[tuple[float, bool]], nothing: float) -> float:
    """The last score of the longest clear beginning of the list; `nothing` where none is clear."""
    cut, agreed = nothing, 0
    for count, (score, same) in enumerate(ordered, start=1):
        agreed += same
        tied = count < len(ordered) and ordered[count][0] == score  # a cut takes all or none
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
    import numpy as np  # noqa: PLC0415

    rows = [[getattr(sample.at(count), name) for name in names] for sample in samples]
    return np.array(rows, dtype=np.float64)


def _labels(samples: Sequence[Sample]) -> Numbers:
    import numpy as np  # noqa: PLC0415

    return np.array([sample.right for sample in samples], dtype=np.float64)


def _chances(score: Score, samples: Sequence[Sample]) -> Numbers:
    import numpy as np  # noqa: PLC0415

    return np.array([score.probability(sample.at(None)) for sample in samples])
