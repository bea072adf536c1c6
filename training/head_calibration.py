"""Write the calibration file of a chat model from its traces and its heads.

    python -m training.head_calibration --traces FOLDER --rows MODEL.rows.jsonl.gz \
        --head MODEL.head.json --calibrations src/edgewise/calibrations

The head is that of `training.fit_head`, fitted on all rows. Everything else comes from heads that
were fitted without the kind of question that they judge: scores, boundaries, risk tables, figures.
If the traces kept no early states of the head's layer, the early score weighs words only. A
calibration that is there already keeps its part for words alone.

With `--held-out FILE` it writes those heads, and what they say of the traces, in place of a
calibration: `edgewise bench calibration` judges by them (`edgewise_bench.chat.held_out`).

With `--check MODEL.seen.json` (from `training.check_head`) nothing is written: it prints how well
heads that have not seen a kind rank the answers that llama.cpp gave, and those of the traces.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from edgewise.calibrate.fit import FEATURES, SURETIES, boundaries_of
from edgewise.calibrate.kinds.builtin import make_builtin_questions
from edgewise.calibrate.logistic import Logistic, fit_logistic
from edgewise.calibrate.metrics import expected_calibration_error
from edgewise.calibrate.report import measured_keys
from edgewise.decide.calibration import FORMAT, parse_calibration
from edgewise.decide.objective import GRID
from edgewise.types.measured import Boundaries, RiskRow, write_boundaries
from edgewise_bench.chat.held_out import FORMAT as HELD_OUT_FORMAT
from edgewise_bench.chat.held_out import SPLITS, packed_chances
from training.fit_head import (
    FOLDS,
    Numbers,
    Traces,
    auroc,
    design_of,
    fit,
    folds_of,
    kept_share,
    packed,
    read_traces,
    standardised,
)
from training.trace_files import CLIP, EARLY, STEPS

THRESHOLD = 0.5
HOLD_TOKENS = EARLY[-1] + 1
MOST_SKIPPED = 0.01  # share of the answers kept in the end that may be skipped before they begin
LEAST_SKIPPED = 20  # with fewer skipped at a threshold, nothing is
COMMAND = "python -m training.head_calibration (training/README.md says how the traces were made)"


@dataclass(frozen=True, slots=True)
class Early:
    """Answers after `count` tokens: which rows, what a head reads there, and the meter."""

    rows: Any
    state: Numbers | None  # None: no state of so early was kept
    words: Numbers


@dataclass(frozen=True, slots=True)
class Rows:
    """All that is known of some answers, by heads that saw none of their kinds."""

    folds: Any
    right: Numbers
    words: Numbers  # the meter's features at the end
    state: Numbers
    before: Numbers | None
    early: dict[int, Early]


# -- heads that never saw a kind -------------------------------------------------------------------


def words_of(traces: Traces, count: str) -> Numbers:
    return traces.features[count][:, [traces.names.index(name) for name in FEATURES]]


def unpacked(traces: Traces, name: str) -> Any:
    with np.load(traces.folder / f"{name}.npz") as file:
        return file["z"][traces.kept].astype(np.float32) / STEPS * file["spread"] + file["centre"]


def distances(traces: Traces, layer: int, states: Any) -> Any:
    """States in deviations from the mean states of that layer."""
    with np.load(traces.folder / f"mean-{layer}.npz") as file:
        return np.clip((states - file["centre"]) / file["spread"], -CLIP, CLIP)


def read_rows_of(traces: Traces, heads: Mapping[str, Any]) -> Rows:
    folds, head = folds_of(traces.kinds), heads["answer"]
    read, chosen = held_out_state(traces, head, folds)
    before, _ = held_out_before(traces, heads["before"], folds)
    rows = Rows(folds, traces.right, words_of(traces, "end"), read, before, {})

    lengths = traces.features["end"][:, traces.names.index("tokens")]
    for count in EARLY:
        path = f"early{count}-{head['layer']}"
        there, begun = np.flatnonzero(lengths > count), None
        if (traces.folder / f"{path}.npz").exists():
            states = distances(traces, head["layer"], unpacked(traces, path)[there])
            begun = np.einsum("ij,ij->i", states, chosen[there])
        rows.early[count] = Early(there, begun, words_of(traces, str(count + 1))[there])
    return rows


def held_out_state(traces: Traces, head: Mapping[str, Any], folds: Any) -> tuple[Numbers, Any]:
    """What the head says of each row, fitted without its fold, and its weights for each row."""
    state = traces.state(f"mean-{head['layer']}")
    design, penalty = design_of(state, standardised(traces.features["end"])[0])
    weights = []
    for fold in range(FOLDS):
        train = folds != fold
        beta = fit(design[train], traces.right[train], penalty(head["strength"]))
        weights.append(beta[: state.shape[1]])
    chosen = np.array(weights)[folds]
    return np.einsum("ij,ij->i", state, chosen), chosen


def held_out_before(
    traces: Traces, head: Mapping[str, Any], folds: Any
) -> tuple[Numbers | None, list[Numbers]]:
    """The same for the state behind the prompt; the last weight of each fold is its bias."""
    name = f"before-{head['layer']}"
    if not (traces.folder / f"{name}.npz").exists():
        return None, []
    state = traces.state(name)
    design, penalty = design_of(state, None)
    found, weights = np.zeros(len(folds)), []
    for fold in range(FOLDS):
        test = folds == fold
        weights.append(fit(design[~test], traces.right[~test], penalty(head["strength"])))
        found[test] = state[test] @ weights[-1][:-1] + weights[-1][-1]
    return found, weights


def described(traces: Traces) -> dict[str, Any]:
    """What each row is: its family, whether it was right, and how many tokens it took."""
    tokens = traces.features["end"][:, traces.names.index("tokens")]
    return {
        "right": "".join(str(int(each)) for each in traces.right),
        "families": traces.families,
        "input_tokens": [len(row["tokens"]) for row in traces.rows],
        "output_tokens": [int(each) for each in tokens],
    }


def held_out_document(traces: Traces, heads: Mapping[str, Any], model: str) -> dict[str, Any]:
    """Heads that have not seen a row, and that have not seen a kind, and what they say."""
    name, _, quantisation = model.rpartition(".")
    shared = ("layer", "clip", "centre", "spread")
    document: dict[str, Any] = {
        "format": HELD_OUT_FORMAT,
        "model": name,
        "quantisation": quantisation,
        "answer": {each: heads["answer"][each] for each in shared},
        "folds": {},
        "traces": described(traces),
    }
    for split in SPLITS:
        folds = folds_of(traces.kinds if split == "kinds" else list(range(len(traces.kinds))))
        read, chosen = held_out_state(traces, heads["answer"], folds)
        columns = np.column_stack([read, words_of(traces, "end")])
        final = fit_sound(_names(with_state=True), columns, traces.right, folds)
        told = [
            {
                "state": packed(chosen[np.flatnonzero(folds == fold)[0]]),
                "final_score": final.document(fold),
            }
            for fold in range(FOLDS)
        ]
        document["traces"][split] = packed_chances(final.chances(columns, folds))
        before, weights = held_out_before(traces, heads["before"], folds)
        if before is not None:
            score = fit_sound(["before"], before[:, None], traces.right, folds)
            document["before"] = {each: heads["before"][each] for each in shared}
            for fold, each in enumerate(told):
                early = score.document(fold)
                early["bias"] += early["weights"]["before"] * float(weights[fold][-1])
                each |= {"before": packed(weights[fold][:-1]), "before_score": early}
            if split == "kinds":
                chances = score.chances(before[:, None], folds)
                document["traces"]["before"] = packed_chances(chances)
        document["folds"][split] = told
        if split == "kinds":
            document["kind_folds"] = dict(zip(traces.kinds, map(int, folds), strict=True))
        else:
            place = np.zeros(max(traces.kept) + 1, int)  # who gave no answer was fitted nowhere
            place[traces.kept] = folds
            own = len(make_builtin_questions(0))
            document["row_folds"] = "".join(map(str, place[:own]))
    return document


def carried_over(
    traces: Traces, heads: Mapping[str, Any], seen: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Ranking by heads that have not seen a kind: of answers given here, and of the traces."""
    folds, head = folds_of(traces.kinds), heads["answer"]
    place = {int(row): at for at, row in enumerate(traces.kept)}
    used = [each for each in seen if each["row"] in place and "end" in each["means"]]
    at = np.array([place[each["row"]] for each in used])
    read, chosen = held_out_state(traces, head, folds)
    there = np.column_stack([read, words_of(traces, "end")])
    means = np.array([each["means"]["end"] for each in used], np.float32)
    state = np.einsum("ij,ij->i", distances(traces, head["layer"], means), chosen[at])
    words = np.array([[each["seen"]["end"][name] for name in FEATURES] for each in used])
    final = fit_sound(_names(with_state=True), there, traces.right, folds)
    right = np.array([float(each["right"]) for each in used])
    here = final.chances(np.column_stack([state, words]), folds[at])
    return {
        "rows": len(used),
        "kinds_auroc": round(auroc(here, right), 4),
        "kinds_auroc_traces": round(auroc(final.chances(there, folds)[at], traces.right[at]), 4),
    }


# -- scores of a few features ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fitted:
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


def fit_sound(names: Sequence[str], features: Numbers, targets: Numbers, folds: Any) -> Fitted:
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
        for fold in range(FOLDS)
    ]
    return Fitted(tuple(names[column] for column in columns), columns, fitted, by_fold)


def _sign(name: str) -> int:
    if "entropy" in name:
        return -1
    return 1 if name.endswith(SURETIES) or name in ("state", "before") else 0


# -- the gate --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Course:
    """The chances of each row at the end, at the beginnings, and before: what the gate sees."""

    right: Numbers
    final: Numbers
    early: dict[int, tuple[Any, Numbers]]  # tokens seen: the rows that got so far, their chances
    before: Numbers | None

    def stops(self) -> list[tuple[dict[int, float], float]]:
        found: list[dict[int, float]] = [{} for _ in self.final]
        for tokens, (rows, chances) in self.early.items():
            if tokens < HOLD_TOKENS:
                for row, chance in zip(rows, chances, strict=True):
                    found[row][tokens] = float(chance)
        return list(zip(found, map(float, self.final), strict=True))

    def kept(self, boundaries: Boundaries, threshold: float) -> tuple[Any, Any]:
        """Who is kept while it is streamed, and who as a whole."""
        waiting = np.ones(len(self.final), bool)
        if self.before is not None:
            waiting &= self.before >= boundaries.at(threshold, 0)[0]
        stream = np.zeros(len(self.final), bool)
        for tokens, (rows, chances) in sorted(self.early.items()):
            drop, keep = boundaries.at(threshold, tokens)
            if tokens >= HOLD_TOKENS:
                drop = keep = threshold
            here = waiting[rows]
            stream[rows[here & (chances >= max(keep, threshold))]] = True
            waiting[rows[here & ((chances >= max(keep, threshold)) | (chances < drop))]] = False
        stream |= waiting & (self.final >= threshold)
        return stream, stream & (self.final >= threshold)


def add_skips(boundaries: Boundaries, course: Course) -> Boundaries:
    """Stop 0: the highest chance before the answer that at most a hundredth of the kept is below.

    Beyond the last table, what it drops is dropped as well.
    """
    if course.before is None:
        return boundaries
    tables = dict(zip(boundaries.thresholds, boundaries.tables, strict=True))
    last = boundaries.tables[-1] if boundaries else {}
    beyond = {stop: (drop, 1.0) for stop, (drop, _) in last.items()}
    for threshold in (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9):
        kept = np.sort(course.before[course.final >= threshold])
        if len(kept) < 100:
            continue
        cut = float(np.floor(min(kept[int(MOST_SKIPPED * len(kept))], threshold) * 1e4) / 1e4)
        if (course.before < cut).sum() >= LEAST_SKIPPED:
            above = not boundaries or threshold > boundaries.thresholds[-1]
            tables[threshold] = {0: (cut, 1.0), **tables.get(threshold, beyond if above else {})}
    ordered = sorted(tables)
    return Boundaries(tuple(ordered), tuple(tables[at] for at in ordered))


# -- the file --------------------------------------------------------------------------------------


def part(rows: Rows, *, with_state: bool) -> dict[str, Any]:
    """One of the two calibrations of a file: by words, or by hidden states and words."""

    def columns(words: Numbers, state: Numbers | None) -> Numbers:
        if not with_state or state is None:
            return words
        return np.column_stack([state, words])

    names = _names(with_state=with_state)
    final = fit_sound(names, columns(rows.words, rows.state), rows.right, rows.folds)
    ended = final.chances(columns(rows.words, rows.state), rows.folds)
    last = rows.early[EARLY[-1]]
    if last.state is None:
        names = _names(with_state=False)
    design, there = columns(last.words, last.state), rows.folds[last.rows]
    early = fit_sound(names, design, ended[last.rows], there)
    course_early = {
        count + 1: (
            each.rows,
            early.chances(columns(each.words, each.state), rows.folds[each.rows]),
        )
        for count, each in rows.early.items()
    }
    document: dict[str, Any] = {"early": early.document(), "final": final.document()}
    before = None
    if with_state and rows.before is not None:
        told = fit_sound(["before"], rows.before[:, None], rows.right, rows.folds)
        document["before"] = told.document()
        before = told.chances(rows.before[:, None], rows.folds)
    course = Course(rows.right, ended, course_early, before)
    boundaries = add_skips(boundaries_of(course.stops()), course)
    risk: dict[str, list[RiskRow]] = {"whole": [], "stream": []}
    for threshold in GRID:
        stream, whole = course.kept(boundaries, threshold)
        for name, kept in (("stream", stream), ("whole", whole)):
            wrong = int((1 - rows.right[kept]).sum())
            risk[name].append(RiskRow(threshold, int(kept.sum()), wrong))
    tables = {name: tuple(table) for name, table in risk.items()}
    features: dict[str, Any] = {name: rows.words[:, at] for at, name in enumerate(FEATURES)}
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


def _names(*, with_state: bool) -> list[str]:
    return ["state", *FEATURES] if with_state else list(FEATURES)


def report(traces: Traces, heads: Mapping[str, Any], *, with_state: bool) -> dict[str, Any]:
    """How well the final score ranks and tells chances: rows, kinds and families held out."""
    right = [bool(each) for each in traces.right]
    found: dict[str, float] = {
        "questions": len(right),
        "kinds": len(set(traces.kinds)),
        "accuracy": float(traces.right.mean()),
    }
    groups: dict[str, Sequence[Any]] = {
        "": list(range(len(right))),
        "kinds_": traces.kinds,
        "families_": traces.families,
    }
    words = words_of(traces, "end")
    for split, members in groups.items():
        folds, features = folds_of(members), words
        if with_state:
            features = np.column_stack([held_out_state(traces, heads["answer"], folds)[0], words])
            before, _ = held_out_before(traces, heads["before"], folds)
            if before is not None:
                found[f"{split}auroc_before"] = auroc(before, traces.right)
        final = fit_sound(_names(with_state=with_state), features, traces.right, folds)
        chances = final.chances(features, folds)
        found[f"{split}auroc"] = auroc(chances, traces.right)
        found[f"{split}ece"] = expected_calibration_error(list(map(float, chances)), right)
        for target in (0.9, 0.95):
            share = kept_share(chances, traces.right, target)
            found[f"{split}kept_share_at_{target:.2f}"] = share
    return {
        name: value if isinstance(value, int) else round(value, 4) for name, value in found.items()
    }


def gate_report(course: Course, boundaries: Boundaries) -> dict[str, Any]:
    """What the gate does at the threshold, with whole kinds held out."""
    stream, whole = course.kept(boundaries, THRESHOLD)
    found = {"threshold": THRESHOLD, "gate_rows": len(course.final), "hold_tokens": HOLD_TOKENS}
    for name, kept in (("kept", whole), ("streamed", stream)):
        found[f"{name}_share"] = round(float(kept.mean()), 4)
        found[f"{name}_accuracy"] = round(float(course.right[kept].mean()) if kept.any() else 0, 4)
    if course.before is not None:
        skipped = course.before < boundaries.at(THRESHOLD, 0)[0]
        good = course.final >= THRESHOLD
        found["skipped_share"] = round(float(skipped.mean()), 4)
        found["skipped_of_kept"] = round(float(skipped[good].mean()) if good.any() else 0.0, 4)
    return found


def head_document(head: Mapping[str, Any]) -> dict[str, Any]:
    return {name: head[name] for name in ("layer", "clip", "centre", "spread", "weights")}


def calibrate(traces: Traces, found: Mapping[str, Any], model: str) -> dict[str, Any]:
    """The contents of the file, whose words part may be replaced by an older one."""
    heads = found["heads"]
    rows = read_rows_of(traces, heads)
    words, both = (part(rows, with_state=each) for each in (False, True))
    both["heads"] = {"state": head_document(heads["answer"])}
    if "before" in both:
        both["heads"]["before"] = head_document(heads["before"])
        # The score was fitted to head plus bias; a head of the file has none.
        shift = both["before"]["weights"]["before"] * heads["before"]["bias"]
        both["before"]["bias"] = float(f"{both['before']['bias'] + shift:.5g}")
        both["feature_means"]["before"] -= heads["before"]["bias"]
    for document, with_state in ((words, False), (both, True)):
        document["report"] |= report(traces, heads, with_state=with_state)
    name, _, quantisation = model.rpartition(".")
    return {
        "format": FORMAT,
        "name": f"{name}-{quantisation}".lower(),
        "model": name,
        "quantisation": quantisation,
        "data": {
            "description": "questions of 180 kinds with checkable answers, under several system "
            "prompts; greedy answers of the same weights in torch",
            "command": COMMAND,
            "questions": found["rows"],
            "max_tokens": 64,
        },
        **words,
        "with_state": both,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    for option in ("traces", "rows", "head", "calibrations"):
        parser.add_argument(f"--{option}", type=Path, required=True)
    parser.add_argument("--check", type=Path)
    parser.add_argument("--held-out", type=Path)
    options = parser.parse_args(arguments)
    traces, found = read_traces(options.traces, options.rows), json.loads(options.head.read_text())
    if options.check:
        told = carried_over(traces, found["heads"], json.loads(options.check.read_text()))
        sys.stdout.write(json.dumps(told) + "\n")
        return 0
    if options.held_out:
        told = held_out_document(traces, found["heads"], options.traces.name)
        options.held_out.write_bytes(gzip.compress(json.dumps(told).encode(), 9, mtime=0))
        return 0
    document = calibrate(traces, found, options.traces.name)
    path = options.calibrations / f"{document['name']}.json"
    if path.exists():
        older = json.loads(path.read_text("utf-8"))
        if older["data"].get("command") != COMMAND:
            document = older | {"with_state": document["with_state"]}
    parse_calibration(document, path.name)
    path.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    for name, each in ((document["name"], document), ("with states", document["with_state"])):
        sys.stdout.write(f"{name}: {json.dumps(each['report'])}\n")
    sys.stdout.write(f"{path.stat().st_size} bytes\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
