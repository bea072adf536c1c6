"""For whom a confidence holds: one family of questions left out at a time, as a stranger would be.

The rows are those of `held_out`: every answer judged without its kind. A model may have answers of
`life` as well, of families that its confidence has never seen.
`edgewise bench calibration --families` writes what they prove into a calibration
(`edgewise.decide.families`).
"""

from __future__ import annotations

import base64
import gzip
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from edgewise.calibrate.builtin import Chances, find_skips
from edgewise.calibrate.metrics import auroc
from edgewise.calibrate.rows import builtin_questions, family_of
from edgewise.decide.calibration import RiskRow, read_boundaries, write_boundaries
from edgewise.decide.drift import WATCHED, quantiles_of
from edgewise.decide.families import (
    Cell,
    Centres,
    centres_of,
    digest_of,
    read_centres,
    write_cells,
    write_centres,
)
from edgewise.decide.policy import GRID, find_threshold, tail
from edgewise_bench.chat import life
from edgewise_bench.chat.held_out import Judged, path_of, read_held_out
from edgewise_bench.chat.life import Lived, read_lived
from edgewise_bench.questions.kinds.builtin import SYSTEMS
from edgewise_bench.questions.public import FIRM, read_public_questions

THRESHOLDS = (0.995, 0.99, *(round(0.98 - 0.02 * step, 2) for step in range(35)))
TARGETS = {
    "auroc_families": (">=", 0.75),
    "ece_families": ("<=", 0.08),
    "stranger_auroc": (">=", 0.85),
    "families_broken_10": ("<=", 0.10),
    "families_broken_20": ("<=", 0.10),
    "kept_share_10": (">=", 0.25),
}
ERRORS = (0.05, 0.10, 0.15, 0.20, 0.30)
BROKEN = 0.10  # the share of families that may be wrong more often than stated
PROBABILITY = 0.10
LEAST = 0.30  # a text less near to every measured kind is a stranger's
TOP = 3  # the nearest families of a row: with two left out, one is there
FEWEST_ROWS = 8  # of a family that is left out
FEWEST = 0.02  # of all: what keeps less says nothing
RIGHT_ENOUGH = 0.85  # of what is kept of strangers' answers, by the default threshold
# The families of public questions; "public" alone would hold questions that are unlike each other.
PUBLIC = {
    "commonsense_qa": "public common sense",
    "openbook_qa": "public science",
    "arc_challenge": "public science",
    "mmlu": "public exams",
    "natural_qa": "public search queries",
}
Numbers = Any


@dataclass(frozen=True, slots=True)
class Asked:
    """A measured question."""

    family: str
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Strangers:
    """Rows, and the families that each is nearest to.

    families  their names; rows and tops name them by number
    tops      (rows, TOP): numbers of families; nearness: of the same
    plain     the chances before they were fitted anew (`refit`); the same where they were not
    before    the chances before the first token
    within    whether the answer is no longer than the promise goes; None: all are
    fit       bias, slope and weight of the length that were fitted anew; None: nothing was, or
              families that were left out are not judged better by more than chance
    """

    families: tuple[str, ...]
    own: Numbers
    tops: Numbers
    nearness: Numbers
    chances: Numbers
    right: Numbers
    least: float = LEAST
    plain: Numbers = None
    before: Numbers = None
    within: Numbers = None
    fit: Numbers = None

    @property
    def promised(self) -> Numbers:
        """The chances by which a promise is kept: what is too long is handed off."""
        return self.chances if self.within is None else np.where(self.within, self.chances, -1.0)

    @property
    def judges(self) -> list[int]:
        """The families that have rows enough to say anything."""
        counts = np.bincount(self.own, minlength=len(self.families))
        return [number for number, count in enumerate(counts) if count >= FEWEST_ROWS]

    def seen(self, rows: Numbers, without: Iterable[int] = ()) -> tuple[Numbers, Numbers]:
        """The nearest family of these rows, and how near it is, if some are not measured."""
        gone = np.isin(self.tops[rows], list(without))
        place = np.argmax(~gone, axis=1)  # the first that is there
        at = np.arange(len(rows))
        nearness = np.where(gone.all(axis=1), 0.0, self.nearness[rows][at, place])
        return self.tops[rows][at, place], nearness


def asked_in_traces(data: Path) -> list[Asked]:
    """The questions of the traces, in their order."""
    own = [Asked(family_of(each.kind), each.kind, each.prompt) for each in builtin_questions()]
    firm = [each for each in read_public_questions(data) if each.question.kind in FIRM]
    return own + [
        Asked(PUBLIC[each.question.kind], each.question.kind, each.question.prompt) for each in firm
    ]


def nearest_families(
    centres: Centres, families: Sequence[str], texts: Sequence[str]
) -> tuple[Numbers, Numbers]:
    """(tops, nearness) of texts."""
    numbers = {name: number for number, name in enumerate(families)}
    tops = np.zeros((len(texts), TOP), np.uint8)
    nearness = np.zeros((len(texts), TOP), np.float32)
    for row, text in enumerate(texts):
        gone: frozenset[str] = frozenset()
        for place in range(TOP):
            family, near = centres.nearest(text, gone)
            if not family:
                break
            tops[row, place], nearness[row, place] = numbers[family], near
            gone |= {family}
    return tops, nearness


def write_near(
    path: Path,
    families: Sequence[str],
    own: Numbers,
    tops: Numbers,
    near: Numbers,
    lived: Sequence[str],
) -> None:
    """Numbers only: which families a question's words are near to. `lived`: the references of the
    last rows, which are questions of `life`."""
    told = {
        "lived": list(lived),
        "families": list(families),
        "own": base64.b64encode(own.astype(np.uint8).tobytes()).decode(),
        "tops": base64.b64encode(tops.astype(np.uint8).tobytes()).decode(),
        "nearness": base64.b64encode(np.round(near * 255).astype(np.uint8).tobytes()).decode(),
    }
    path.write_bytes(gzip.compress(json.dumps(told).encode(), 9, mtime=0))


def read_near(path: Path, traces: Sequence[Judged], lived: Sequence[Lived]) -> Strangers:
    """The rows of the traces, and those of `life`."""
    told = json.loads(gzip.decompress(path.read_bytes()))

    def array(name: str) -> Numbers:
        return np.frombuffer(base64.b64decode(told[name]), np.uint8)

    place = {ref: len(traces) + number for number, ref in enumerate(told["lived"])}
    rows = np.array([*range(len(traces)), *(place[row.ref] for row in lived)], int)
    judged = np.array([*(row.kinds for row in traces), *(row.chance for row in lived)], float)
    before = [*(row.before for row in traces), *(row.before for row in lived)]
    found = Strangers(
        tuple(told["families"]),
        array("own").astype(int)[rows],
        array("tops").reshape(-1, TOP).astype(int)[rows],
        array("nearness").reshape(-1, TOP)[rows] / 255,
        judged,
        np.array([*(row.right for row in traces), *(row.right for row in lived)], bool),
        plain=judged,
        before=None if None in before else np.array(before, float),
    )
    if not lived:  # answers of one length say nothing about others
        return found
    lengths = [*(row.output_tokens for row in traces), *(row.tokens for row in lived)]
    whole = [*(row.output_tokens < LONGEST for row in traces), *(True for _ in lived)]
    found = replace(found, within=np.array(lengths) <= LONGEST)
    anew = refit(found, np.array(lengths, float), np.array(whole))
    told = refit_figures(anew)
    return anew if told["refit_gain"] > told["refit_gain_error"] else found


# -- a score for answers of any length ------------------------------------------------------------


def refit(found: Strangers, lengths: Numbers, whole: Numbers) -> Strangers:
    """The chances with a new bias, a slope and a weight for the length of the answer.

    Each family is judged by what all others say, each weighing the same. `whole`: answers that
    were not cut where the product would have gone on; the others are judged, and fit nothing.
    """
    chances = np.clip(found.plain, 1e-4, 1 - 1e-4)
    logits = np.log(chances / (1 - chances))
    columns = np.column_stack([np.ones(len(logits)), logits, np.log(np.maximum(lengths, 1))])
    right, weights = found.right.astype(float), family_weights(found.own) * whole
    anew = np.array(chances)
    for number in np.unique(found.own):
        there = found.own == number
        fit = _logistic(columns[~there], right[~there], weights[~there])
        anew[there] = 1 / (1 + np.exp(-columns[there] @ fit))
    return replace(found, chances=anew, fit=_logistic(columns, right, weights))


def _logistic(columns: Numbers, right: Numbers, weights: Numbers) -> Numbers:
    """By Newton's method; a trace of ridge, so that there is always an answer."""
    fit = np.zeros(columns.shape[1])
    for _ in range(20):
        chances = 1 / (1 + np.exp(-np.clip(columns @ fit, -30, 30)))
        slope = columns.T @ (weights * (chances - right))
        bend = (columns * (weights * chances * (1 - chances))[:, None]).T @ columns
        fit -= np.linalg.solve(bend + 1e-9 * np.eye(len(fit)), slope)
    return fit


def final_of(fitted: dict[str, Any], fit: Numbers) -> dict[str, Any]:
    """The score of a file, with what was fitted anew."""
    bias, slope, length = map(float, fit)
    weights = {name: slope * weight for name, weight in fitted["weights"].items()}
    return {
        "weights": {
            name: float(f"{each:.5g}") for name, each in (weights | {"length": length}).items()
        },
        "bias": float(f"{slope * fitted['bias'] + bias:.5g}"),
    }


# -- thresholds ------------------------------------------------------------------------------------


def cells_of(found: Strangers, without: int | None = None) -> dict[str, Cell]:
    """All rows that are near, by the family whose words they are nearest to; without those of one
    family, if it counts as not measured."""
    everyone = np.arange(len(found.own))
    nearest, near = found.seen(everyone)
    cells = {}
    for number, name in enumerate(found.families):
        rows = (nearest == number) & (near >= found.least) & (found.own != without)
        kept = found.promised[rows][None, :] >= np.array(THRESHOLDS)[:, None]
        wrong = (kept & ~found.right[rows][None, :]).sum(1)
        pairs = zip(kept.sum(1).tolist(), wrong.tolist(), strict=True)
        cells[name] = Cell(int(rows.sum()), tuple(pairs))
    return cells


def own_thresholds(cells: dict[str, Cell], error: float) -> Numbers:
    """What the rows near each family prove; above 1: nothing."""
    found = []
    for cell in cells.values():
        table = tuple(
            RiskRow(at, kept, wrong)
            for at, (kept, wrong) in zip(THRESHOLDS, cell.counts, strict=True)
        )
        proven = find_threshold(table, cell.rows, error, PROBABILITY)
        found.append(2.0 if proven is None else proven)
    return np.array(found)


def outcome(
    found: Strangers, number: int, proven: Numbers, without: Iterable[int] = ()
) -> tuple[Numbers, Numbers, float]:
    """Kept and wrong of a family as a stranger, at each threshold, and the share promised.

    `proven`: what each family's rows prove; `without`: other families that are not there either.
    """
    rows = np.flatnonzero(found.own == number)
    nearest, near = found.seen(rows, {number, *without})
    promised = (near >= found.least) & (proven[nearest] <= 1)
    at = np.maximum(np.array(THRESHOLDS)[:, None], proven[nearest][None, :])
    kept = promised & (found.promised[rows][None, :] >= at)
    return kept.sum(1), (kept & ~found.right[rows][None, :]).sum(1), float(promised.mean())


def floor_of(found: Strangers, proven: Numbers, error: float, without: int | None = None) -> float:
    """The lowest threshold from which on it is proven, with the families as units, that at most
    BROKEN of them are wrong more often than stated. 2: none."""
    gone = () if without is None else (without,)
    judges = [number for number in found.judges if number != without]
    broken = np.zeros(len(THRESHOLDS))
    for number in judges:
        kept, wrong, _ = outcome(found, number, proven, gone)
        broken += wrong > error * kept
    fine = [tail(int(each), len(judges), BROKEN) <= PROBABILITY for each in broken]
    lowest = 2.0
    for threshold, holds in zip(THRESHOLDS, fine, strict=True):
        if not holds:
            break
        lowest = threshold
    return lowest


@dataclass(frozen=True, slots=True)
class Promise:
    """What is kept under a stated error: `error` is what is proven, which may be less than what was
    stated. `proven`: the threshold of each family; `floor`: of all; 2: none."""

    error: float
    proven: Numbers
    floor: float


def promises(found: Strangers, most: float = 1.0, without: int | None = None) -> list[Promise]:
    """For each error up to `most`, smallest first; one that keeps less than a smaller one is of no
    use, and left out. `without`: a family that counts as not measured."""
    cells, told, best = cells_of(found, without), list[Promise](), 0.0
    for error in ERRORS:
        if error <= most + 1e-9:
            proven = own_thresholds(cells, error)
            each = Promise(error, proven, floor_of(found, proven, error, without))
            share = float(kept_rows(found, each, without).mean())
            if share > best:
                told.append(each)
                best = share
    return told


def promised_of(found: Strangers, error: float, without: int | None = None) -> Promise:
    """What an engine goes by under a stated error (`decide.families.Families.floor`)."""
    told = promises(found, error, without)
    return (
        told[-1] if told else Promise(error, own_thresholds(cells_of(found, without), error), 2.0)
    )


def families_key(found: Strangers, conditions: dict[str, Any], centres: str) -> dict[str, Any]:
    """What a calibration says of families."""
    return {
        "rows": len(found.own),
        "least": found.least,
        "conditions": conditions,
        "floors": [[each.error, each.floor] for each in promises(found)],
        "thresholds": list(THRESHOLDS),
        "cells": write_cells(cells_of(found)),
        "centres": centres,
        "curve": [[round(each, 4) for each in point] for point in curve(found)],
        "left_out": {name: round(value, 4) for name, value in figures(found).items()},
    }


def kept_rows(found: Strangers, promise: Promise, without: int | None = None) -> Numbers:
    """Whether each row is promised and kept."""
    gone = () if without is None else (without,)
    nearest, near = found.seen(np.arange(len(found.own)), gone)
    needed = promise.proven[nearest]
    promised = (near >= found.least) & (needed <= 1) & (promise.floor <= 1)
    return promised & (found.own != without) & (found.promised >= np.maximum(promise.floor, needed))


# -- figures ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What came of a stated error for a family that nobody had measured."""

    name: str
    questions: int
    promised: float
    kept: int
    wrong: int

    @property
    def error(self) -> float:
        return self.wrong / self.kept if self.kept else 0.0


def left_out(found: Strangers, error: float) -> list[LeftOut]:
    """Each family as a stranger, worst first: neither its centres nor its rows had any part."""
    told = []
    for number in found.judges:
        name = found.families[number]
        promise = promised_of(found, error, number)
        kept, wrong, promised = outcome(found, number, promise.proven)
        place = THRESHOLDS.index(promise.floor) if promise.floor <= 1 else None
        rows = int((found.own == number).sum())
        told.append(
            LeftOut(
                name,
                rows,
                promised,
                0 if place is None else int(kept[place]),
                0 if place is None else int(wrong[place]),
            )
        )
    return sorted(told, key=lambda each: (-each.error, each.name))


def figures(found: Strangers) -> dict[str, float]:
    """One family left out at a time; `promised_share` and `kept_share` are of measured families."""
    nearest, near = found.seen(np.arange(len(found.own)))
    told: dict[str, float] = {
        "families": float(len(found.judges)),
        "measured": float(len(found.own)),
        "auroc_families": auroc_families(found),
        "ece_families": ece_families(found),
        "stranger_auroc": stranger_auroc(found),
    }
    for error in (0.10, 0.20):
        risk = f"{100 * error:.0f}"
        promise = promised_of(found, error)
        outside = left_out(found, error)
        kept_there = sum(each.kept for each in outside)
        wrong_there = sum(each.wrong for each in outside)
        broken = sum(each.error > error for each in outside)
        promised = (near >= found.least) & (promise.proven[nearest] <= 1) & (promise.floor <= 1)
        kept = kept_rows(found, promise)
        told |= {
            f"families_broken_{risk}": broken / len(outside),
            f"promised_share_{risk}": float(promised.mean()),
            f"kept_share_{risk}": float(kept.mean()),
            f"kept_accuracy_{risk}": float(found.right[kept].mean()) if kept.any() else 0.0,
            f"strangers_promised_{risk}": sum(e.promised * e.questions for e in outside)
            / len(found.own),
            f"strangers_kept_{risk}": kept_there / len(found.own),
        }
        if kept_there:
            told[f"strangers_kept_accuracy_{risk}"] = 1 - wrong_there / kept_there
    return told


def auroc_families(found: Strangers) -> float:
    """Every family weighs the same: the mean over families of ranking its rows among all."""
    weights = family_weights(found.own)
    return weighted_auroc(found.chances, found.right, weights)


def family_weights(own: Numbers) -> Numbers:
    counts = np.bincount(own)
    return 1 / counts[own]


def weighted_auroc(chances: Numbers, right: Numbers, weights: Numbers) -> float:
    order = np.argsort(chances, kind="stable")
    values, groups = np.unique(chances[order], return_inverse=True)
    good = np.bincount(groups, weights[order] * right[order], len(values))
    bad = np.bincount(groups, weights[order] * ~right[order], len(values))
    below = np.concatenate([[0.0], np.cumsum(bad)[:-1]])
    return float((good * (below + bad / 2)).sum() / (good.sum() * bad.sum()))


def ece_families(found: Strangers) -> float:
    return weighted_ece(found.chances, found.right, family_weights(found.own))


def weighted_ece(chances: Numbers, right: Numbers, weights: Numbers, bins: int = 15) -> float:
    """Expected calibration error; bins of equal weight."""
    order = np.argsort(chances, kind="stable")
    share = np.cumsum(weights[order]) / weights.sum()
    place = np.minimum(bins - 1, (share * bins).astype(int))
    total = 0.0
    for each in range(bins):
        rows = order[place == each]
        if len(rows):
            w = weights[rows]
            gap = (w * (chances[rows] - right[rows])).sum() / w.sum()
            total += abs(gap) * w.sum() / weights.sum()
    return float(total)


def stranger_auroc(found: Strangers) -> float:
    """How well nearness tells rows of a family that was left out from all others: mean."""
    told = []
    everyone = np.arange(len(found.own))
    for number in found.judges:
        _, near = found.seen(everyone, {number})
        outside = found.own == number
        told.append(auroc((-near).tolist(), outside.tolist()))
    return float(np.mean(told))


def unseen(lived: Sequence[Lived], found: Strangers) -> dict[str, float]:
    """Answers of `life`, whose families the confidence has never seen: how well it ranks them, and
    how well the words alone and the mean log-probability do; each family weighs the same."""
    if not lived:
        return {}
    names = sorted({row.family for row in lived})
    own = np.array([names.index(row.family) for row in lived])
    right = np.array([row.right for row in lived], bool)
    weights = family_weights(own)

    def ranked(values: Iterable[float]) -> float:
        return weighted_auroc(np.fromiter(values, float), right, weights)

    chances = found.chances[-len(lived) :]
    told = {
        "unseen_families": float(len(names)),
        "unseen_questions": float(len(lived)),
        "unseen_accuracy": float((weights * right).sum() / weights.sum()),
        "unseen_confidence": float((weights * chances).sum() / weights.sum()),
        "unseen_cut": float(sum(not row.ended for row in lived)),
        "unseen_auroc": ranked(chances),
        "unseen_auroc_plain": ranked(row.chance for row in lived),
        "unseen_auroc_words": ranked(row.words for row in lived),
        "unseen_auroc_logprob": ranked(row.features["mean_logprob"] for row in lived),
        "unseen_ece": weighted_ece(chances, right, weights),
        "unseen_ece_plain": weighted_ece(np.array([row.chance for row in lived]), right, weights),
    }
    for number, name in enumerate(names):
        there, key = own == number, name.replace(" ", "_")
        told |= {
            f"unseen_questions_{key}": float(there.sum()),
            f"unseen_right_{key}": float(right[there].mean()),
            f"unseen_plain_{key}": float(found.plain[-len(lived) :][there].mean()),
            f"unseen_confidence_{key}": float(chances[there].mean()),
        }
    return told


def refit_figures(found: Strangers) -> dict[str, float]:
    """What the new fit is worth for families that had no part in it: the mean gain in log-loss over
    the families, its standard error, and the share of families that are judged better."""
    if found.fit is None:
        return {}
    gains = np.array(
        [
            _loss(found.plain[there], found.right[there])
            - _loss(found.chances[there], found.right[there])
            for there in (found.own == number for number in found.judges)
        ]
    )
    before = replace(found, chances=found.plain)
    return {
        "auroc_families_plain": auroc_families(before),
        "ece_families_plain": ece_families(before),
        "refit_gain": float(gains.mean()),
        "refit_gain_error": float(gains.std() / len(gains) ** 0.5),
        "refit_families_better": float((gains > 0).mean()),
    }


def _loss(chances: Numbers, right: Numbers) -> float:
    sure = np.clip(chances, 1e-4, 1 - 1e-4)
    return float(-np.where(right, np.log(sure), np.log(1 - sure)).mean())


def default_threshold(found: Strangers, enough: float = RIGHT_ENOUGH) -> float | None:
    """The smallest from which on so many of what is kept are right, every family weighing the same,
    of families that were left out; None: none is."""
    lowest = None
    for percent in range(99, 0, -1):
        _, kept, right = on_curve(found, percent / 100)
        if kept < FEWEST:
            continue
        if right < enough:
            break
        lowest = percent / 100
    return lowest


def on_curve(found: Strangers, threshold: float) -> tuple[float, float, float]:
    """Threshold, share kept, and share right of it, every family weighing the same."""
    weights, kept = family_weights(found.own), found.chances >= threshold
    total = weights[kept].sum()
    right = (weights * found.right)[kept].sum() / total if total else 0.0
    return threshold, float(total / weights.sum()), float(right)


def curve(found: Strangers) -> list[tuple[float, float, float]]:
    return [on_curve(found, tenth / 10) for tenth in range(3, 10)]


# -- the files -------------------------------------------------------------------------------------


CENTRES = "questions"  # the file of the words that the shipped calibrations share
ROOM, LONGEST = 64, 64  # tokens, of the traces


def near_path(folder: Path) -> Path:
    return folder / "questions.near.json.gz"


def strangers_of(name: str, traces: Sequence[Judged], folder: Path) -> Strangers:
    return read_near(near_path(folder), traces, lived_of(name, folder))


def lived_of(name: str, folder: Path) -> list[Lived]:
    """Answers of `life`, of families that have enough of them; nothing if the model has none."""
    known = set(json.loads(gzip.decompress(near_path(folder).read_bytes()))["lived"])
    rows = [row for row in read_lived(life.path_of(folder, name)) if row.ref in known]
    sizes = Counter(row.family for row in rows)
    return [row for row in rows if sizes[row.family] >= FEWEST_ROWS]


def by_family(found: Strangers) -> dict[str, float]:
    """Of each family as a stranger under a stated 10 %: kept and wrong of 100 questions, and the
    share that is promised."""
    told = {}
    for each in left_out(found, 0.10):
        name = each.name.replace(" ", "_")
        told[f"stranger_kept_10_{name}"] = each.kept / each.questions
        told[f"stranger_error_10_{name}"] = each.error
        told[f"stranger_promised_10_{name}"] = each.promised
    return told


def read_words(
    data: Path, folder: Path, centres: Path, problems: Path | None, programs: Path | None
) -> None:
    """Write which words measured questions have, and which families each of them is near to.

    Every second row of a kind makes its centre, so that the others show what nearness is worth.
    A kind of `life` with few answers proves little; it has a centre, so that a request like it is
    not taken for one of a family that proves much.
    """
    asked, counts = asked_in_traces(data), dict[tuple[str, str], int]()
    alive = {each.reference: each for each in life.everything(data, problems, programs)}
    lively = list(dict.fromkeys(map(_of_life, alive.values())))  # once under all system prompts
    chosen = []
    for each in (*asked, *lively):
        number = counts[each.family, each.kind] = counts.get((each.family, each.kind), -1) + 1
        if number % 2 == 0:
            chosen.append((each.family, each.kind, each.text))
    written = json.dumps(write_centres(centres_of(chosen)))
    centres.mkdir(exist_ok=True)
    (centres / f"{CENTRES}.json").write_text(written + "\n", "utf-8")
    read = read_centres(json.loads(written))  # as an engine reads it: rounded
    families = tuple(dict.fromkeys(family for family, _ in read.kinds))
    answered = {row.ref for path in folder.glob("*.life.jsonl.gz") for row in read_lived(path)}
    lived = [ref for ref in alive if ref in answered]
    asked += [_of_life(alive[ref]) for ref in lived]
    tops, near = nearest_families(read, families, [each.text for each in asked])
    own = np.array([families.index(each.family) for each in asked])
    write_near(near_path(folder), families, own, tops, near, lived)


def _of_life(asked: life.Asked) -> Asked:
    return Asked(asked.family, asked.question.kind, asked.question.prompt)


def add_families(document: dict[str, Any], folder: Path) -> dict[str, Any]:
    """To the part of a calibration that was measured on the traces; the part that reads words
    alone was not, and promises nothing."""
    heads = read_held_out(path_of(folder, document["name"]))
    conditions = {
        "temperature": 0,
        "tokens": ROOM,
        "longest": LONGEST,
        "turns": 1,
        "systems": sorted({digest_of(system) for system in SYSTEMS if system}),
    }
    found = strangers_of(document["name"], heads.traces, folder)
    told = families_key(found, conditions, CENTRES)
    document["families"] = {"rows": len(found.own), "conditions": conditions}
    both = document["with_state"]
    both["families"] = told
    if found.fit is not None:
        both.setdefault("plain_final", both["final"])
        both["final"] = final_of(both["plain_final"], found.fit)
        both |= counted(found)
    threshold = default_threshold(found)
    both["watched"] = watched(both, found)
    if threshold is not None:
        both |= {"threshold": threshold}
        both["report"] |= at_threshold(both, found, threshold)
    return told


def counted(found: Strangers) -> dict[str, Any]:
    """What the gate does with these chances."""
    course = Chances(found.right.astype(float), found.chances, found.before)
    boundaries, risk = find_skips(course), []
    for threshold in GRID:
        kept = course.kept(boundaries, threshold)
        risk.append([threshold, int(kept.sum()), int((~found.right[kept]).sum())])
    return {
        "boundaries": write_boundaries(boundaries),
        "risk": {"whole": risk, "stream": risk},
        "risk_rows": len(found.own),
        "quantiles": quantiles_of(found.chances.tolist()),
    }


def watched(part: dict[str, Any], found: Strangers) -> list[list[Any]]:
    """What a gate records at each threshold, by which drift is seen while a cloud is open: of an
    answer that is skipped, the chance before it; else the final one."""
    boundaries, told = read_boundaries(part["boundaries"]), []
    before = np.ones(len(found.own)) if found.before is None else found.before
    for threshold in WATCHED:
        stop = boundaries.at(threshold, 0)[0]
        noted = np.where(before >= stop, found.chances, before)
        told.append([threshold, quantiles_of(noted.tolist())])
    return told


def at_threshold(part: dict[str, Any], found: Strangers, threshold: float) -> dict[str, float]:
    """What a report says of the default threshold."""
    _, kept, wrong = next(row for row in part["risk"]["whole"] if row[0] == threshold)
    rows = part["risk_rows"]
    told = {
        "threshold": threshold,
        "gate_rows": rows,
        "kept_share": round(kept / rows, 4),
        "kept_accuracy": round(1 - wrong / kept, 4),
    }
    if found.before is not None:
        skipped = found.before < read_boundaries(part["boundaries"]).at(threshold, 0)[0]
        good = found.chances >= threshold
        told |= {
            "skipped_share": round(float(skipped.mean()), 4),
            "skipped_of_kept": round(float(skipped[good].mean()), 4),
        }
    return told
