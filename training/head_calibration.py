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
from pathlib import Path
from typing import Any

import numpy as np

from edgewise.calibrate.builtin import Early, JudgedRows, fit_sound, part
from edgewise.calibrate.fit import FEATURES, KIND_FOLDS, folds_of, kept_share
from edgewise.calibrate.metrics import expected_calibration_error
from edgewise.calibrate.rows import builtin_questions
from edgewise.calibrations import as_text
from edgewise.decide.calibration import FORMAT, parse_calibration
from edgewise_bench.chat.held_out import FORMAT as HELD_OUT_FORMAT
from edgewise_bench.chat.held_out import SPLITS, packed_chances
from training.fit_head import (
    Numbers,
    Traces,
    auroc,
    design_of,
    fit,
    packed,
    read_traces,
    standardised,
)
from training.trace_files import CLIP, EARLY, STEPS

COMMAND = "python -m training.head_calibration (training/README.md says how the traces were made)"


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


def read_rows_of(traces: Traces, heads: Mapping[str, Any]) -> JudgedRows:
    folds, head = folds_of(traces.kinds), heads["answer"]
    read, chosen = held_out_state(traces, head, folds)
    before, _ = held_out_before(traces, heads["before"], folds)
    rows = JudgedRows(folds, traces.right, words_of(traces, "end"), read, before, {})

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
    for fold in range(KIND_FOLDS):
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
    for fold in range(KIND_FOLDS):
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
        final = fit_sound(["state", *FEATURES], columns, traces.right, folds)
        told = [
            {
                "state": packed(chosen[np.flatnonzero(folds == fold)[0]]),
                "final_score": final.document(fold),
            }
            for fold in range(KIND_FOLDS)
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
            own = len(builtin_questions())
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
    final = fit_sound(["state", *FEATURES], there, traces.right, folds)
    right = np.array([float(each["right"]) for each in used])
    here = final.chances(np.column_stack([state, words]), folds[at])
    return {
        "rows": len(used),
        "kinds_auroc": round(auroc(here, right), 4),
        "kinds_auroc_traces": round(auroc(final.chances(there, folds)[at], traces.right[at]), 4),
    }


# -- the file --------------------------------------------------------------------------------------


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
        folds, features, names = folds_of(members), words, list(FEATURES)
        if with_state:
            names = ["state", *FEATURES]
            features = np.column_stack([held_out_state(traces, heads["answer"], folds)[0], words])
            before, _ = held_out_before(traces, heads["before"], folds)
            if before is not None:
                found[f"{split}auroc_before"] = auroc(before, traces.right)
        final = fit_sound(names, features, traces.right, folds)
        chances = final.chances(features, folds)
        found[f"{split}auroc"] = auroc(chances, traces.right)
        found[f"{split}ece"] = expected_calibration_error(list(map(float, chances)), right)
        for target in (0.9, 0.95):
            share = kept_share(chances, traces.right, target)
            found[f"{split}kept_share_at_{target:.2f}"] = share
    return {
        name: value if isinstance(value, int) else round(value, 4) for name, value in found.items()
    }


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
    path.write_text(as_text(document), "utf-8")
    for name, each in ((document["name"], document), ("with states", document["with_state"])):
        sys.stdout.write(f"{name}: {json.dumps(each['report'])}\n")
    sys.stdout.write(f"{path.stat().st_size} bytes\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
