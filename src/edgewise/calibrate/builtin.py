"""Calibrates any chat model with our own questions: `edgewise calibrate --builtin`.

Questions of all kinds take turns, so what was asked when the time is up is a fair part. Every
answer is written down at once, and a later run goes on behind the last one. All figures, and the
risk tables, come from scores that were fitted without the kind of question that they judge.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgewise.calibrate.fit import (
    FEATURES,
    KIND_FOLDS,
    SURETIES,
    Logistic,
    Numbers,
    fit_logistic,
    folds_of,
)
from edgewise.calibrate.own import used_part
from edgewise.calibrate.report import (
    Comparison,
    compare_confidences,
    curve,
    measured_keys,
    promises,
    refuse_few,
)
from edgewise.calibrate.rows import Question, family_of
from edgewise.calibrate.traces import (
    Trace,
    key_of,
    pack_token,
    rating_of,
    read_answers,
    readings_of,
    request_of,
    write_answer,
)
from edgewise.calibrations import transfer_document
from edgewise.decide.calibration import (
    FORMAT,
    NO_BOUNDARIES,
    Boundaries,
    Calibration,
    Head,
    Reading,
    RiskRow,
    Stops,
    parse_calibration,
    read_measured,
    write_boundaries,
)
from edgewise.decide.gate import Gate
from edgewise.decide.policy import GRID
from edgewise.errors import InvalidRequest
from edgewise.local.backend import ChatBackend, DeviceFacts
from edgewise.types.replies import Finish, Token

MAX_TOKENS = 64
MINUTES = 15.0
LEAST_OF_EACH = 5  # right and wrong answers
HEAD_GAIN = 0.01  # nats per answer that it must save on kinds that it has not seen
LEAST_FOR_HEAD = 300  # answers; fewer fit no stable head
DEPTH = 2 / 3  # of the layers: where a head reads best in the models that we tried
STRENGTH = 1000.0  # of the prior on a head's weights, fixed so that no choice flatters the figures
CLIP = 8.0  # deviations
_STEPS = 15

States = NDArray[np.float32]
Progress = Callable[[int, int, float], None]  # answers, those to be expected, seconds left


@dataclass(frozen=True)
class AnsweredQuestion:
    """One question, its answer, and the mean state of its beginnings and of the whole."""

    trace: Trace
    states: Mapping[int, States]  # tokens: mean state; 0 is the whole answer

    @cached_property
    def readings(self) -> list[Reading]:
        found = readings_of(token for token in self.trace.tokens if token.has_evidence)
        rating = self.trace.engine
        return found if found or rating is None else [Reading(engine=rating)]


# -- asking ----------------------------------------------------------------------------------------


def layer_to_read(facts: DeviceFacts, in_force: Calibration) -> int:
    """That of the head in force, so that the two can be compared; 0: there are no states."""
    if not facts.states:
        return 0
    return in_force.layer_of("state") or round(DEPTH * facts.layers)


def ask_questions(
    backend: ChatBackend,
    questions: Sequence[Question],
    path: Path,
    *,
    seconds: float,
    layer: int = 0,
    progress: Progress = lambda done, total, left_s: None,
    clock: Callable[[], float] = time.perf_counter,
) -> list[AnsweredQuestion]:
    """Answers in the order of the questions, until their time is spent, earlier runs included."""
    path.parent.mkdir(parents=True, exist_ok=True)
    known = read_answers(path)
    spent = sum(float(entry["seconds"]) for entry in known.values())
    found: list[AnsweredQuestion] = []
    with path.open("a", encoding="utf-8") as file:
        for question in questions:
            key = key_of(question)
            if key not in known:
                if spent >= seconds:
                    break
                began = clock()
                entry = _generate(backend, question, layer)
                entry["seconds"] = round(clock() - began, 3)
                spent += entry["seconds"]
                known[key] = entry
                write_answer(file, key, entry)
            found.append(_answered(question, known[key]))
            each_s = max(spent / len(known), 1e-6)
            more = max(0, min(round((seconds - spent) / each_s), len(questions) - len(known)))
            progress(len(found), len(known) + more, more * each_s)
    return found


def _generate(backend: ChatBackend, question: Question, layer: int) -> dict[str, Any]:
    """As users are answered: greedily. A state comes with the token behind it."""
    request = request_of(question, MAX_TOKENS)
    items = list(backend.generate(request, layer=layer) if layer else backend.generate(request))
    tokens = [item for item in items if isinstance(item, Token)]
    seen = [token for token in tokens if token.has_evidence]
    states = [token.state for token in seen[1:]]
    states += [item.state for item in items if isinstance(item, Finish)]
    states = [state for state in states if state is not None]
    counts = [count for count in EARLY if count < len(seen)] if states else []
    kept = {str(count): _packed(np.mean(states[:count], axis=0)) for count in counts}
    if states:
        kept["0"] = _packed(np.mean(states, axis=0))
    return {
        "tokens": [pack_token(token) for token in tokens],
        "ended": any(isinstance(item, Finish) and item.reason == "stop" for item in items),
        "states": kept,
        **rating_of(items),
    }


def _packed(state: Any) -> str:
    return base64.b64encode(np.asarray(state, "<f2").tobytes()).decode("ascii")


def _answered(question: Question, entry: Mapping[str, Any]) -> AnsweredQuestion:
    tokens = tuple(Token(*packed) for packed in entry["tokens"])
    states = {
        int(count): np.frombuffer(base64.b64decode(packed), "<f2").astype(np.float32)
        for count, packed in entry["states"].items()
    }
    rating = entry.get("engine")
    return AnsweredQuestion(Trace(question, tokens, entry["ended"], engine=rating), states)


# -- heads -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FittedHead:
    """A linear reading of states that tells right answers from wrong ones."""

    centre: States
    spread: States
    weights: States

    def of(self, states: States) -> Numbers:
        distances = np.clip((states - self.centre) / self.spread, -CLIP, CLIP)
        read: Numbers = (distances @ self.weights).astype(np.float64)
        return read

    def document(self, layer: int) -> dict[str, Any]:
        arrays = {"centre": self.centre, "spread": self.spread, "weights": self.weights}
        packed = {
            name: base64.b64encode(np.asarray(values, "<f4").tobytes()).decode("ascii")
            for name, values in arrays.items()
        }
        return {"layer": layer, "clip": CLIP, **packed}


def fit_head(states: States, right: Numbers) -> FittedHead:
    """Logistic regression with a strong prior, solved in the space of the rows: they are few."""
    centre, spread = states.mean(axis=0), states.std(axis=0)
    spread = np.where(spread > 1e-6, spread, 1.0).astype(np.float32)
    distances = np.clip((states - centre) / spread, -CLIP, CLIP).astype(np.float64)
    likeness, count = distances @ distances.T, len(right)
    duals, bias = np.zeros(count), 0.0
    for _ in range(_STEPS):
        logits = likeness @ duals + bias
        chances = 1.0 / (1.0 + np.exp(-np.clip(logits, -30, 30)))
        certainty = np.maximum(chances * (1 - chances), 1e-4)
        system = np.ones((count + 1, count + 1))
        system[:count, :count] = likeness + np.diag(STRENGTH / certainty)
        system[count, count] = 0.0
        target = np.append(logits + (right - chances) / certainty, 0.0)
        solved = np.linalg.solve(system, target)
        moved = np.abs(solved[:count] - duals).max()
        duals, bias = solved[:count], solved[count]
        if moved < 1e-5:
            break
    return FittedHead(centre, spread, (distances.T @ duals).astype(np.float32))


# -- rows ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Material:
    """What the answers show: rows for the fit, and the head of all of them, if they have states."""

    answers: Sequence[AnsweredQuestion]
    rows: JudgedRows
    head: FittedHead | None


def make_material(answers: Sequence[AnsweredQuestion], names: Sequence[str]) -> Material:
    """`names` are the features of the words. An answer without evidence is left out."""
    told = [each for each in answers if each.readings]
    right = np.array([each.trace.right for each in told], np.float64)
    refuse_few(len(told))
    few = min(right.sum(), len(right) - right.sum())
    if few < LEAST_OF_EACH:
        raise InvalidRequest(
            f"of {len(told)} answers {int(right.sum())} are right: a confidence is learnt from "
            f"at least {LEAST_OF_EACH} right and {LEAST_OF_EACH} wrong ones"
        )
    folds = folds_of([each.trace.question.kind for each in told])
    heads: list[FittedHead] = []
    if len(told) >= LEAST_FOR_HEAD and all(0 in each.states for each in told):
        whole = np.array([each.states[0] for each in told])
        heads = [fit_head(whole[folds != fold], right[folds != fold]) for fold in range(KIND_FOLDS)]
        heads.append(fit_head(whole, right))
    early = {}
    for count in EARLY:
        there = [at for at, each in enumerate(told) if len(each.readings) > count]
        words = [_features(told[at].readings[count], names) for at in there]
        begun = [told[at].states[count] for at in there] if heads else []
        early[count] = Early(
            np.array(there, np.int64),
            _read(heads, begun, folds[there]) if heads else None,
            np.array(words).reshape(len(there), len(names)),
        )
    rows = JudgedRows(
        folds=folds,
        right=right,
        words=np.array([_features(each.readings[-1], names) for each in told]),
        state=_read(heads, [each.states[0] for each in told], folds) if heads else None,
        before=None,
        early=early,
        names=tuple(names),
    )
    return Material(told, rows, heads[-1] if heads else None)


def _read(heads: Sequence[FittedHead], states: Sequence[States], folds: Any) -> Numbers:
    """What the heads say of states whose kinds they have not seen."""
    found = np.zeros(len(states))
    for fold in range(KIND_FOLDS):
        held: list[int] = np.flatnonzero(folds == fold).tolist()
        if held:
            found[held] = heads[fold].of(np.array([states[at] for at in held]))
    return found


def _features(reading: Reading, names: Iterable[str]) -> list[float]:
    return [reading.get(name) for name in names]


# -- the file --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Source:
    """Whose answers they are, and how the file is called."""

    name: str
    fitted_at: str
    data: Mapping[str, Any]
    model: Mapping[str, Any]
    layer: int


@dataclass(frozen=True)
class Outcome:
    """A new file. `comparison` is about the part that will be used, `words` about words alone."""

    document: dict[str, Any]
    comparison: Comparison
    words: Comparison


def fit_builtin(
    answers: Sequence[AnsweredQuestion], in_force: Calibration, source: Source
) -> Outcome:
    """The contents of the file, what it is worth, and how it compares with what is in force."""
    rated = all(each.trace.engine is not None for each in answers)
    names = ("engine",) if rated else tuple((transfer_document("chat") or {})["final"]["weights"])
    material = make_material(answers, names)
    rows = material.rows
    right = [bool(each) for each in rows.right]
    words = _chances(rows, with_state=False)
    states = None if rows.state is None else _chances(rows, with_state=True)
    before = [_in_force(in_force, each) for each in material.answers]
    by_words = compare_confidences(before, list(map(float, words)), right)
    best, chances = by_words, words
    document = {
        "format": FORMAT,
        "name": source.name,
        **source.model,
        "fitted_at": source.fitted_at,
        "data": dict(source.data),
        **part(rows, with_state=False),
    }
    _say_worth(document, by_words, rows)
    if states is not None and material.head is not None:
        with_states = compare_confidences(before, list(map(float, states)), right)
        if with_states.after.beats(by_words.after, HEAD_GAIN):
            chances = states
            both = part(rows, with_state=True)
            both["heads"] = {"state": material.head.document(source.layer)}
            _say_worth(both, with_states, rows)
            document["with_state"], best = both, with_states
    used_part(document)["report"]["families"] = by_family(material.answers, chances)
    parse_calibration(document, source.name)
    return Outcome(document, best, by_words)


def by_family(answers: Sequence[AnsweredQuestion], chances: Numbers) -> list[dict[str, Any]]:
    """Of each family of questions: how often it was right, and how sure a score is that has not
    seen the kind. What the confidence is most too sure of comes first."""
    found: dict[str, list[tuple[bool, float]]] = {}
    for each, chance in zip(answers, map(float, chances), strict=True):
        kind = each.trace.question.kind
        found.setdefault(family_of(kind, kind), []).append((each.trace.right, chance))
    told = [
        {
            "family": family,
            "questions": len(rows),
            "right": round(sum(right for right, _ in rows) / len(rows), 4),
            "confidence": round(sum(chance for _, chance in rows) / len(rows), 4),
        }
        for family, rows in found.items()
    ]
    return sorted(told, key=lambda each: each["right"] - each["confidence"])


def _chances(rows: JudgedRows, *, with_state: bool) -> Numbers:
    """The final chance of each row, by a score that has not seen its kind."""
    names, columns = list(rows.names), rows.words
    if with_state and rows.state is not None:
        names, columns = ["state", *names], np.column_stack([rows.state, rows.words])
    return fit_sound(names, columns, rows.right, rows.folds).chances(columns, rows.folds)


def _in_force(calibration: Calibration, answered: AnsweredQuestion) -> float:
    """The confidence that a user would be shown today."""
    if not answered.readings[-1].tokens:
        return Gate(calibration, 0.0).confidence(answered.readings[-1])
    features = answered.readings[-1].features()
    head: Head | None = calibration.heads.get("state")
    if head is not None and 0 in answered.states:
        features["state"] = head.of(answered.states[0])
    return calibration.final.of(features)


def _say_worth(document: dict[str, Any], told: Comparison, rows: JudgedRows) -> None:
    """Into the report: figures with whole kinds held out, and what they promise."""
    count = len(rows.right)
    table = read_measured(document).risk["whole"]
    document["report"] |= {
        "rows": count,
        "questions": count,
        "accuracy": round(float(rows.right.mean()), 4),
        **told.after.to_dict(),
        "in_use": told.before.to_dict(),
        **promises(table, count),
    }
    document["curve"] = curve(table, count)


def summary(outcome: Outcome) -> dict[str, Any]:
    """What `--json` prints; all figures are of kinds that were held out."""
    report = used_part(outcome.document)["report"]
    return {
        "name": outcome.document["name"],
        "questions": report["questions"],
        "kinds": outcome.document["data"]["kinds"],
        "right_share": report["accuracy"],
        "score": _what_is_weighed(outcome.document),
        **outcome.comparison.after.to_dict(),
        "auroc_words": outcome.words.after.to_dict()["auroc"],
        "risk": [each for each in report["promises"] if each["max_error"] >= 0.05],
        "in_force": outcome.comparison.before.to_dict(),
        "families": report["families"],
    }


def _what_is_weighed(document: Mapping[str, Any]) -> str:
    if "engine" in document["final"]["weights"]:
        return "the runtime's own confidence"
    return "words and states" if "with_state" in document else "words"


# -- scores judged by kinds of questions that they have not seen -----------------------------------
#
# Every kind belongs to one fold. What is reported, and what a risk table counts, comes from scores
# that were fitted without the fold of the row. The training of our own heads uses this too.


EARLY = (1, 4, 8)  # tokens after which a beginning is judged
THRESHOLD = 0.5
HOLD_TOKENS = EARLY[-1] + 1
MOST_SKIPPED = 0.01  # share of the answers kept in the end that may be skipped before they begin
LEAST_SKIPPED = 20  # with fewer skipped at a threshold, nothing is
LEAST_LONG = 20  # answers of more than EARLY tokens that an early score is fitted to


@dataclass(frozen=True, slots=True)
class Early:
    """Answers after `count` tokens: which rows, what a head reads there, and the meter."""

    rows: Any
    state: Numbers | None  # None: no state of so early was kept
    words: Numbers


@dataclass(frozen=True, slots=True)
class JudgedRows:
    """All that is known of some answers, by heads that saw none of their kinds."""

    folds: Any
    right: Numbers
    words: Numbers  # the meter's features at the end
    state: Numbers | None
    before: Numbers | None
    early: dict[int, Early]
    names: tuple[str, ...] = FEATURES  # of the columns of `words`


# -- scores of a few features ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FoldedScore:
    """A score, and the same fitted without each fold."""

    names: tuple[str, ...]
    columns: list[int]
    whole: Logistic
    by_fold: list[Logistic]

    def chances(self, features: Numbers, folds: Any) -> Numbers:
        found = np.zeros(len(features))
        for fold, model in enumerate(self.by_fold):
            held = folds == fold
            found[held] = model.chances(features[held][:, self.columns])
        return found

    def document(self, fold: int | None = None) -> dict[str, Any]:
        """The whole score, or the one fitted without a fold."""
        model = self.whole if fold is None else self.by_fold[fold]
        weights = dict(zip(self.names, model.weights, strict=True))
        return {
            "weights": {name: float(f"{weight:.5g}") for name, weight in weights.items()},
            "bias": float(f"{model.bias:.5g}"),
        }


def fit_sound(names: Sequence[str], features: Numbers, targets: Numbers, folds: Any) -> FoldedScore:
    """A score in which no weight speaks for an answer that the model was less sure of."""
    columns = list(range(len(names)))
    while True:
        fitted = fit_logistic(features[:, columns], targets)
        spread = features[:, columns].std(axis=0)
        against = [
            (_sign(names[column]) * weight * wide, column)
            for column, weight, wide in zip(columns, fitted.weights, spread, strict=True)
        ]
        worst, column = min(against)
        if worst >= 0:
            break
        columns.remove(column)
    by_fold = [
        fit_logistic(features[folds != fold][:, columns], targets[folds != fold])
        for fold in range(KIND_FOLDS)
    ]
    return FoldedScore(tuple(names[column] for column in columns), columns, fitted, by_fold)


def _sign(name: str) -> int:
    if "entropy" in name:
        return -1
    return 1 if name.endswith(SURETIES) or name in ("state", "before", "engine") else 0


# -- the gate --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Chances:
    """The chances of each row at the end, and before the first token: what the gate sees.

    Where a long answer is stopped at a sentence's end is left out: these rows end at 64 tokens, and
    `edgewise bench calibration` finds the same kept, streamed or whole.
    """

    right: Numbers
    final: Numbers
    before: Numbers | None

    def kept(self, boundaries: Boundaries, threshold: float) -> Any:
        kept = self.final >= threshold
        if self.before is not None:
            kept &= self.before >= boundaries.at(threshold, 0)[0]
        return kept


def find_skips(course: Chances) -> Boundaries:
    """Stop 0: the highest chance before the answer that at most 1 % of the kept is below."""
    if course.before is None:
        return NO_BOUNDARIES
    tables: dict[float, Stops] = {}
    for threshold in (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9):
        kept = np.sort(course.before[course.final >= threshold])
        if len(kept) < 100:
            continue
        cut = float(np.floor(min(kept[int(MOST_SKIPPED * len(kept))], threshold) * 1e4) / 1e4)
        if (course.before < cut).sum() >= LEAST_SKIPPED:
            tables[threshold] = {0: (cut, 1.0)}
    return Boundaries(tuple(tables), tuple(tables.values()))


# -- a calibration ---------------------------------------------------------------------------------


def part(rows: JudgedRows, *, with_state: bool) -> dict[str, Any]:
    """One of the two calibrations of a file: by words, or by hidden states and words."""

    def columns(words: Numbers, state: Numbers | None) -> Numbers:
        if not with_state or state is None:
            return words
        return np.column_stack([state, words])

    words = list(rows.names)
    names = ["state", *words] if with_state else words
    final = fit_sound(names, columns(rows.words, rows.state), rows.right, rows.folds)
    ended = final.chances(columns(rows.words, rows.state), rows.folds)
    last = rows.early[EARLY[-1]]
    if len(last.rows) < LEAST_LONG:  # a model of few words: its whole answers are beginnings
        last = Early(np.arange(len(rows.right)), rows.state, rows.words)
    if last.state is None:
        names = words
    design, there = columns(last.words, last.state), rows.folds[last.rows]
    early = fit_sound(names, design, ended[last.rows], there)
    document: dict[str, Any] = {"early": early.document(), "final": final.document()}
    before = None
    if with_state and rows.before is not None:
        told = fit_sound(["before"], rows.before[:, None], rows.right, rows.folds)
        document["before"] = told.document()
        before = told.chances(rows.before[:, None], rows.folds)
    course = Chances(rows.right, ended, before)
    boundaries = find_skips(course)
    risk: list[RiskRow] = []
    for threshold in GRID:
        kept = course.kept(boundaries, threshold)
        risk.append(RiskRow(threshold, int(kept.sum()), int((1 - rows.right[kept]).sum())))
    tables = dict.fromkeys(("whole", "stream"), tuple(risk))
    features: dict[str, Any] = {name: rows.words[:, at] for at, name in enumerate(rows.names)}
    if with_state:
        features["state"] = rows.state
        if rows.before is not None:
            features["before"] = rows.before
    return document | {
        "hold_tokens": HOLD_TOKENS,
        "threshold": THRESHOLD,
        "keep_above": 1.0,
        "drop_below": 0.0,
        "boundaries": write_boundaries(boundaries),
        **measured_keys(list(map(float, ended)), tables, features),
        "report": gate_report(course, boundaries),
    }


def gate_report(course: Chances, boundaries: Boundaries) -> dict[str, Any]:
    """What the gate does at the threshold, with whole kinds held out."""
    kept = course.kept(boundaries, THRESHOLD)
    found = {
        "threshold": THRESHOLD,
        "gate_rows": len(course.final),
        "kept_share": round(float(kept.mean()), 4),
        "kept_accuracy": round(float(course.right[kept].mean()) if kept.any() else 0.0, 4),
    }
    if course.before is not None:
        skipped = course.before < boundaries.at(THRESHOLD, 0)[0]
        good = course.final >= THRESHOLD
        found["skipped_share"] = round(float(skipped.mean()), 4)
        found["skipped_of_kept"] = round(float(skipped[good].mean()) if good.any() else 0.0, 4)
    return found
