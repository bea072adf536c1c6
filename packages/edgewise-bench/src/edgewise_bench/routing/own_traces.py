"""What our own scores are worth on our own traces: ordering, calibration, risk, routing, time."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy
from numpy.typing import NDArray

from edgewise.calibrate.metrics import expected_calibration_error
from edgewise.decide.calibration import Calibration, Meter
from edgewise.decide.gate import Gate
from edgewise_bench.chat.calibration import measures
from edgewise_bench.chat.traces import Recorded, TraceSet, public_reference, read_trace_set
from edgewise_bench.questions.public import read_public_questions
from edgewise_bench.risk import TARGETS as RISKS
from edgewise_bench.risk import ece_floor, violations
from edgewise_bench.routing.cost_study import make_pairs, study, with_perfect_cloud
from edgewise_bench.routing.metrics import (
    Numbers,
    apgr,
    aurc,
    auroc,
    bootstrap,
    coverage_at_risk,
    cpt,
)
from edgewise_bench.routing.rows import Rows, all_rows, chat_calibration, chat_path, cloud_path

TARGETS = {
    "chat_auroc_gain_low": (">", 0.0),
    "chat_ece": ("<=", 0.03),
    "risk_violations": ("<=", 0.10),
    "decision_ms_p99": ("<=", 1.0),
}
FROZEN_STRONG = "llama-3.1-nemotron-51b-instruct"  # the best of LLMRouter's nine on these questions
STEPS = 5
_ROUNDS = 500  # of the bootstrap
_TIMED = 400  # answers whose decision is timed


def measure_own(
    folder: Path, data: Path | None, step: Callable[[], None] = lambda: None
) -> dict[str, float]:
    """All figures, flat; `data` is LLMRouter's folder, for outcomes of larger models."""
    found: dict[str, float] = {}
    for rows in all_rows(folder):
        found |= measure_task(rows) | with_perfect_cloud(rows)
        step()
    broken = [value for name, value in found.items() if "_risk_violations_" in name]
    if broken:
        found["risk_violations"] = max(broken)
    if chat_path(folder).exists():
        device = read_trace_set(chat_path(folder))
        found |= measure_routing(device, _strong(folder, data))
        step()
        found |= measure_time(device)
        if cloud_path(folder).exists():
            found |= study(
                make_pairs(device, read_trace_set(cloud_path(folder)), chat_calibration())
            )
        step()
    return found


def measure_task(rows: Rows) -> dict[str, float]:
    confidence, right, plain = rows.confidence, rows.right, rows.plain
    low, high = bootstrap(confidence, right, statistic=auroc, rounds=_ROUNDS)
    plain_low, plain_high = bootstrap(plain, right, statistic=auroc, rounds=_ROUNDS)
    gain_low, gain_high = bootstrap(confidence, plain, right, statistic=_lead, rounds=_ROUNDS)
    chances, truth = rows.crossed or (confidence, right)
    told = {
        "rows": float(len(right)),
        "accuracy": float(right.mean()),
        "auroc": auroc(confidence, right),
        "auroc_low": low,
        "auroc_high": high,
        "auroc_mean_logprob": auroc(plain, right),
        "auroc_mean_logprob_low": plain_low,
        "auroc_mean_logprob_high": plain_high,
        "auroc_gain": _lead(confidence, plain, right),
        "auroc_gain_low": gain_low,
        "auroc_gain_high": gain_high,
        "ece": _ece(chances, truth),
        "ece_floor": ece_floor(chances),
        "aurc": aurc(confidence, right),
        **{f"coverage_at_{100 * r:.0f}": coverage_at_risk(confidence, right, r) for r in RISKS[1:]},
        "handoff_share": float((confidence < rows.threshold).mean()),
        "kept_accuracy": _mean(right[confidence >= rows.threshold]),
    }
    if rows.crossed is not None:
        told |= {
            "ece_rows": float(len(truth)),
            "ece_shipped": _ece(confidence, right),
            "ece_shipped_floor": ece_floor(confidence),
        }
    for target, kept in violations(confidence, right).items():
        told[f"risk_violations_{100 * target:.0f}"] = kept.violations
        told[f"risk_kept_{100 * target:.0f}"] = kept.kept
    return {f"{rows.task}_{name}": value for name, value in told.items()}


def measure_routing(
    device: TraceSet, strong: Mapping[str, Mapping[str, float]]
) -> dict[str, float]:
    """What handing off by this confidence buys, for each model that stands in for the cloud."""
    final = chat_calibration().final
    found: dict[str, float] = {}
    for name, outcomes in strong.items():
        rows = [
            (final.of(row.readings()[-1].features()), float(row.right), outcomes[row.reference])
            for row in device.rows
            if row.tokens and row.reference in outcomes and measures(row.reference)
        ]
        if len(rows) < 50:  # too few to say anything
            continue
        confidence, weak, best = numpy.array(rows).T
        doubt = 1 - confidence
        low, high = bootstrap(doubt, weak, best, statistic=apgr, rounds=_ROUNDS)
        found |= {
            f"chat_{name}_rows": float(len(rows)),
            f"chat_{name}_weak": float(weak.mean()),
            f"chat_{name}_strong": float(best.mean()),
            f"chat_{name}_apgr": apgr(doubt, weak, best),
            f"chat_{name}_apgr_low": low,
            f"chat_{name}_apgr_high": high,
            f"chat_{name}_cpt50": cpt(doubt, weak, best, 0.5),
            f"chat_{name}_cpt80": cpt(doubt, weak, best, 0.8),
            f"chat_{name}_auroc_of_gain": auroc(doubt, best > weak),
        }
    return found


def _strong(folder: Path, data: Path | None) -> dict[str, dict[str, float]]:
    """Outcomes of larger models by reference: our own stand-in, and a frozen one of LLMRouter."""
    found = {}
    if cloud_path(folder).exists():
        rows = read_trace_set(cloud_path(folder)).rows
        found["stand_in"] = {row.reference: float(row.right) for row in rows}
    if data is not None:
        found["frozen"] = frozen_scores(data, FROZEN_STRONG)
    return found


def frozen_scores(data: Path, model: str) -> dict[str, float]:
    """By reference, the scores that LLMRouter published; questions are joined by their text."""
    scores: dict[str, float] = {}
    for part in ("train", "test"):
        rows = json.loads((data / f"dcrouter_{part}.json").read_text("utf-8"))
        scores |= {row["question"].strip(): float(row["scores"][model]) for row in rows}
    return {
        public_reference(each.reference): scores[each.source.strip()]
        for each in read_public_questions(data)
        if each.source.strip() in scores
    }


def measure_time(device: TraceSet) -> dict[str, float]:
    """Milliseconds of processor per request for all that decides: meter, scores, gate.

    Processor time, the least of three: a neighbour on the machine must not count.
    """
    calibration = chat_calibration()
    taken = [min(_decide(row, calibration) for _ in range(3)) for row in device.rows[:_TIMED]]
    return {
        "decision_ms_p50": float(numpy.percentile(taken, 50)),
        "decision_ms_p99": float(numpy.percentile(taken, 99)),
    }


def _decide(row: Recorded, calibration: Calibration) -> float:
    started = time.thread_time()
    meter, gate = Meter(), Gate(calibration, calibration.threshold)
    for count, token in enumerate(row.tokens, start=1):
        meter.add(token)
        gate.judge(meter.reading(), count)
    gate.judge_whole(meter.reading())
    return 1000 * (time.thread_time() - started)


def _lead(confidence: Numbers, plain: Numbers, right: Numbers) -> float:
    return auroc(confidence, right) - auroc(plain, right)


def _ece(chances: Numbers, right: Numbers | NDArray[numpy.bool_]) -> float:
    return expected_calibration_error(chances.tolist(), right.tolist())


def _mean(values: Numbers) -> float:
    return float(values.mean()) if len(values) else 0.0
