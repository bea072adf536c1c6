"""Fits a calibration to a user's own rows: half of them fit it, the other half measure it.

It starts from the one in use. That one stays, gets a map, or is replaced by new weights,
whichever does best on rows that did not fit it. A part for hidden states stays or gets a map.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from edgewise.calibrate import fit
from edgewise.calibrate.fit import (
    FIT_STEPS,
    LEAST_MAP_GAIN,
    Judged,
    choose_boundaries,
    choose_map,
    compose,
    document_of,
    fit_calibration,
    held_out_loss,
    log_loss,
)
from edgewise.calibrate.report import (
    Document,
    bins,
    count_risks,
    curve,
    figures,
    map_keys,
    measure,
    measured_keys,
    promises,
    refuse_few,
    risk_table,
)
from edgewise.calibrate.traces import Sample, Scored
from edgewise.calibrations import KindName, find_document, transfer_document
from edgewise.calls.check import CALLS
from edgewise.decide.calibration import (
    CHAT,
    CHAT_STATE,
    FORMAT,
    UNMAPPED,
    Calibration,
    Kind,
    ScoreMap,
    parse_calibration,
    state_document,
    write_boundaries,
)
from edgewise.local.store import InstalledModel, ran_by, split_runtime
from edgewise.record.report import Audit
from edgewise.settings import Settings
from edgewise.speech.words import SPEECH

LEAST_FRESH, LEAST_OF_EACH = 200, 30  # fitting rows, right and wrong ones, for new weights
FRESH_GAIN = 0.02  # nats per row that new weights must save: they are many, the rows few
STEPS = 2 * FIT_STEPS  # at most this many calls of `progress`
# What a file says about the rows it was measured on, or about a score that a map changes.
_MEASURED = (
    "map", "risk", "risk_rows", "quantiles", "feature_means", "feature_deviations", "agreement",
    "boundaries", "bins", "curve", "report", "watched", "families",
)  # fmt: skip

Progress = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Fresh:
    """The name of a new file, and where its rows come from."""

    name: str
    fitted_at: str
    data: Mapping[str, Any]
    seed: int = 0


def halves(count: int, seed: int) -> tuple[list[int], list[int]]:
    """The rows that fit, and those that measure."""
    order = list(range(count))
    Random(seed).shuffle(order)
    return sorted(order[: count // 2]), sorted(order[count // 2 :])


# -- chat ------------------------------------------------------------------------------------------


def fit_chat(
    samples: Sequence[Sample],
    base: Mapping[str, Any],
    model: InstalledModel,
    fresh: Fresh,
    progress: Progress = lambda: None,
) -> Document:
    """The contents of a calibration file for chat. `base` is the file in use."""
    refuse_few(len(samples))
    of_words = {name: value for name, value in base.items() if name != "with_state"}
    document = _fit_part(samples, of_words, CHAT, model, fresh, progress)
    if "with_state" in base and all(each.at(None).state is not None for each in samples):
        part = _fit_part(samples, state_document(base), CHAT_STATE, model, fresh, progress)
        document = replace_used(document, part, states=True)
    return document


def _fit_part(
    samples: Sequence[Sample],
    base: Mapping[str, Any],
    kind: Kind,
    model: InstalledModel,
    fresh: Fresh,
    progress: Progress,
) -> Document:
    """A file for words, or one for hidden states."""
    fitting, measuring = ([samples[at] for at in part] for part in halves(len(samples), fresh.seed))
    before = parse_calibration(base, "the calibration in use", kind)
    document, how = _choose_chat(fitting, base, before, kind, model, fresh, progress)
    document |= {"name": fresh.name, "fitted_at": fresh.fitted_at, "data": dict(fresh.data)}
    after = parse_calibration(document, "the new calibration", kind)
    confidences, right = _confidences(after, measuring), [each.right for each in measuring]
    tables = count_risks(after, measuring)
    return document | {
        **measure(after, measuring, tables),
        "report": {
            **figures(len(samples), confidences, _confidences(before, measuring), right),
            **promises(tables["whole"], len(measuring)),
            **how,
        },
        "bins": bins(confidences, right),
        "curve": curve(tables["whole"], len(measuring)),
    }


def _choose_chat(
    fitting: Sequence[Sample],
    base: Mapping[str, Any],
    before: Calibration,
    kind: Kind,
    model: InstalledModel,
    fresh: Fresh,
    progress: Progress,
) -> tuple[Document, dict[str, Any]]:
    """The file without the measured part, and how it came about."""
    right = [each.right for each in fitting]
    losses = {"shipped": log_loss(_confidences(before, fitting), right)}
    raw = replace(before.final, map=UNMAPPED)
    found, form = choose_map([raw.of(each.at(None).features()) for each in fitting], right)
    scores = [raw.of(each.at(None).features()) for each in fitting]
    losses["mapped"] = held_out_loss(scores, right, lambda s, r: choose_map(s, r)[0], fresh.seed)
    enough = min(sum(right), len(right) - sum(right)) >= LEAST_OF_EACH
    judged: list[Judged] = []
    if kind is CHAT and len(fitting) >= LEAST_FRESH and enough:
        judged = fit.judge_out_of_fold(fitting, before.hold_tokens, fresh.seed, progress)
        losses["refitted"] = log_loss(
            [each.confidence for each in judged], [each.sample.right for each in judged]
        )
    how = {"held_out_log_loss": {name: round(loss, 4) for name, loss in losses.items()}}
    if losses.get("refitted", math.inf) < min(losses["shipped"], losses["mapped"]) - FRESH_GAIN:
        source = {
            "model": model.name,
            "quantisation": model.quantisation,
            "sha256": model.sha256,
            "runtime": ran_by(model.runtime),
        }
        fitted = fit_calibration(fitting, fresh.name, fresh.seed, progress)
        document = document_of(fitted, source, fresh.data)
        final, form = choose_map(
            [each.confidence for each in judged], [each.sample.right for each in judged]
        )
        early, _ = choose_map(
            [each.early(before.hold_tokens) for each in judged],
            [each.sample.right for each in judged],
        )
        document |= map_keys({"early": early, "final": final})
        document |= _clear_cases([_mapped(each, early, final) for each in judged])
        return document, how | {"score": "refitted", "map": form}
    if losses["mapped"] > losses["shipped"] - LEAST_MAP_GAIN:
        return dict(base), how | {"score": "shipped", "map": "as shipped"}
    bare = replace(before.early, map=UNMAPPED)
    early, _ = choose_map(
        [bare.of(each.at(before.hold_tokens).features()) for each in fitting], right
    )
    document = {name: value for name, value in base.items() if name not in _MEASURED}
    document |= map_keys({"early": early, "final": found}) | {"keep_above": 1.0, "drop_below": 0.0}
    mapped = parse_calibration(document, "the new calibration", kind)
    told = [Judged(each, mapped) for each in fitting]
    return document | _clear_cases(told), how | {"score": "shipped", "map": form}


def _mapped(judged: Judged, early: ScoreMap, final: ScoreMap) -> Judged:
    known = judged.calibration
    return Judged(
        judged.sample,
        known.with_scores(
            early=replace(known.early, map=early), final=replace(known.final, map=final)
        ),
    )


def _clear_cases(told: Sequence[Judged]) -> Document:
    """Early scores that decide at once, after the maps."""
    return {
        "boundaries": write_boundaries(choose_boundaries(told)),
        "keep_above": round(fit.choose_keep_above(told), 4),
        "drop_below": round(fit.choose_drop_below(told), 4),
    }


def _confidences(calibration: Calibration, samples: Sequence[Sample]) -> list[float]:
    return [calibration.final.of(each.at(None).features()) for each in samples]


# -- calls, speech, and what audits say ------------------------------------------------------------


def fit_scored(
    rows: Sequence[Scored],
    base: Mapping[str, Any],
    maps: Mapping[str, ScoreMap],
    fresh: Fresh,
    floor: float = 0.0,
) -> Document:
    """The file in use, with a new map if one helps.

    `rows` have the confidences that it gives by its `maps`. Nothing is known below
    `floor`: confidences there stay as they were, and no threshold there is measured.
    """
    numbers = sorted({row.row for row in rows})
    refuse_few(len(numbers))
    first, second = halves(len(numbers), fresh.seed)
    fitting = [row for row in rows if row.row in {numbers[at] for at in first}]
    measuring = [row for row in rows if row.row in {numbers[at] for at in second}]
    told = [row for row in fitting if not row.gated]
    found, form = choose_map([row.confidence for row in told], [row.right for row in told])
    found = _known_from(floor, found)
    after = [replace(row, confidence=found.of(row.confidence)) for row in measuring]
    confidences, right = [row.confidence for row in after], [row.right for row in after]
    lowest = found.of(floor)
    table = tuple(
        each
        for each in risk_table(
            after, lambda at: [row.confidence >= at and not row.gated for row in after]
        )
        if each.threshold >= lowest
    )
    names = sorted({name for row in after for name in row.features})
    features = {name: [row.features.get(name, 0.0) for row in after] for name in names}
    document = {name: value for name, value in base.items() if name != "watched"}
    if found.points:
        document = {name: value for name, value in base.items() if name not in _MEASURED}
        document |= map_keys({name: compose(each, found) for name, each in maps.items()})
        if "keep_above" in document:  # early cuts, found with other numbers
            document |= {"keep_above": 1.0, "drop_below": 0.0}
    measured = measured_keys(confidences, {"whole": table}, features)
    if floor > 0:
        del measured["quantiles"]  # of kept answers only: not those of all answers
    return document | {
        "name": fresh.name,
        "fitted_at": fresh.fitted_at,
        "data": dict(fresh.data),
        **measured,
        "report": {
            **figures(len(numbers), confidences, [row.confidence for row in measuring], right),
            **promises(table, len(measuring)),
            "score": "shipped",
            "map": form,
        },
        "bins": bins(confidences, right),
        "curve": curve(table, len(measuring)),
    }


def _known_from(floor: float, found: ScoreMap) -> ScoreMap:
    """The map above the floor; below it the score itself, but never above the start of the map."""
    if floor <= 0.0 or not found.points:
        return found
    start = found.of(floor)
    below = [(0.0, 0.0), (round(floor - 1e-4, 4), min(round(floor - 1e-4, 4), start))]
    above = [(floor, start), *((x, y) for x, y in found.points if x > floor)]
    return ScoreMap(tuple(below + above))


def rows_of_audits(audits: Sequence[Audit], calibration: str) -> tuple[list[Scored], float]:
    """Audited answers with confidences of this calibration, and the lowest that counts.

    Only kept answers are audited: below the highest threshold in use nothing is known.
    """
    own = [each for each in audits if each.calibration == calibration]
    floor = max((each.threshold or 0.0 for each in own), default=0.0)
    numbers = {
        request: number for number, request in enumerate(sorted({a.request_id for a in own}))
    }
    rows = [
        Scored(numbers[each.request_id], each.confidence, each.right, dict(each.features))
        for each in own
        if each.confidence is not None and each.confidence >= floor
    ]
    return rows, floor


def replace_used(base: Mapping[str, Any], seen: Document, *, states: bool) -> Document:
    """The file with a new part for hidden states; without states, that is all of it."""
    if not states:
        return {name: value for name, value in seen.items() if name != "with_state"}
    told = {name: seen[name] for name in ("name", "fitted_at", "data")}
    part = {name: value for name, value in seen.items() if name not in ("format", *told)}
    return {**base, **told, "with_state": part}


def used_part(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part of a new file that will judge: by hidden states, where there are any."""
    part: Mapping[str, Any] = document.get("with_state", document)
    return part


def calibration_name(model: InstalledModel) -> str:
    """The engine looks for a calibration file of this name."""
    base, runtime = split_runtime(model.name)
    return f"{base}-{model.quantisation}{runtime and f'@{runtime}'}".lower()


def base_in_use(settings: Settings, name: str, kind: KindName) -> Mapping[str, Any]:
    """The file that gives today's confidences."""
    found = find_document(settings, name, kind) or transfer_document(kind)
    return found or plain_document(kind)


def plain_document(kind: KindName) -> dict[str, Any]:
    """For an uncalibrated model: its numbers only order answers."""
    plain = {"calls": CALLS, "speech": SPEECH}.get(kind, CHAT).uncalibrated
    document: dict[str, Any] = {"format": FORMAT, "name": plain.name, "threshold": plain.threshold}
    for name, score in plain.scores.items():
        document[name] = {"weights": dict(score.weights), "bias": score.bias}
    document |= plain.numbers
    return document
