"""Dollars and quality: all on the device, all in the cloud, and both, on the published traces.

A larger local model stands in for the cloud: its answers and token counts are real, its price is
that of a cloud model that is named. What the device spends is time, which is not in dollars.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy
from numpy.typing import NDArray

from edgewise.cloud.provider import ProviderConfig
from edgewise.cloud.providers import LibraryPrices
from edgewise.decide.calibration import Calibration
from edgewise_bench.chat.calibration import measures
from edgewise_bench.chat.traces import TraceSet
from edgewise_bench.routing.metrics import Numbers
from edgewise_bench.routing.rows import Rows

Flags = NDArray[numpy.bool_]

THRESHOLDS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
# A cheap and a dear model of the price list.
PRICED = {
    "gemini": ProviderConfig(name="gemini", protocol="gemini", model="gemini-2.5-flash-lite"),
    "openai": ProviderConfig(name="openai", protocol="openai", model="gpt-5"),
}
MISSION = 5.0  # times cheaper than the cloud alone


@dataclass(frozen=True, slots=True)
class Pairs:
    """The same questions, answered by both; the device's confidence, the cloud's tokens."""

    confidence: Numbers
    device: Numbers
    cloud: Numbers
    input_tokens: Numbers
    output_tokens: Numbers

    def __len__(self) -> int:
        return len(self.device)


def make_pairs(device: TraceSet, cloud: TraceSet, calibration: Calibration) -> Pairs:
    """Only rows that the calibration was not fitted on."""
    answers = cloud.by_reference()
    rows = [
        (
            calibration.final.of(row.readings()[-1].features()),
            row.right,
            answers[row.reference].right,
            answers[row.reference].input_tokens or 0,
            len(answers[row.reference].tokens),
        )
        for row in device.rows
        if row.tokens and row.reference in answers and measures(row.reference)
    ]
    columns = numpy.array(rows, dtype=numpy.float64).reshape(-1, 5).T
    return Pairs(*columns)


def study(pairs: Pairs) -> dict[str, float]:
    """Per thousand requests: quality, share sent, dollars, and how many times cheaper."""
    if not len(pairs):
        return {}
    everything = numpy.ones(len(pairs), dtype=bool)
    found = {
        "cost_rows": float(len(pairs)),
        "cost_local_quality": float(pairs.device.mean()),
        "cost_cloud_quality": float(pairs.cloud.mean()),
        **{f"cost_cloud_usd_{name}": usd for name, usd in dollars(pairs, everything).items()},
    }
    for threshold in THRESHOLDS:
        sent = pairs.confidence < threshold
        label = f"cost_hybrid_{100 * threshold:.0f}"
        found |= {
            f"{label}_quality": quality(pairs, sent),
            f"{label}_sent": float(sent.mean()),
            f"{label}_times_cheaper": times_cheaper(pairs, sent),
            **{f"{label}_usd_{name}": usd for name, usd in dollars(pairs, sent).items()},
        }
    return found | at_mission(pairs)


def at_mission(pairs: Pairs) -> dict[str, float]:
    """The mission's five times, at the quality it costs; and how cheap nearly all quality is."""
    order = numpy.argsort(pairs.confidence, kind="stable")  # least sure first: those are sent
    curve: list[tuple[float, float]] = []
    sent = numpy.zeros(len(pairs), dtype=bool)
    for place in order:
        sent[place] = True
        curve.append((times_cheaper(pairs, sent), quality(pairs, sent)))
    top = float(pairs.cloud.mean())
    five = max((good for times, good in curve if times >= MISSION), default=0.0)
    return {
        "cost_5x_quality": five,
        "cost_5x_quality_of_cloud": five / top if top else 0.0,
        **{
            f"cost_times_cheaper_at_{share:.0f}": max(
                (times for times, good in curve if good >= share / 100 * top), default=1.0
            )
            for share in (100, 95, 90, 80)
        },
    }


def quality(pairs: Pairs, sent: Flags) -> float:
    return float(numpy.where(sent, pairs.cloud, pairs.device).mean())


def times_cheaper(pairs: Pairs, sent: Flags) -> float:
    """By tokens, whatever they cost; 1 where all is sent."""
    tokens = pairs.input_tokens + pairs.output_tokens
    paid = float(tokens[sent].sum())
    return float(tokens.sum()) / paid if paid else float("inf")


def dollars(pairs: Pairs, sent: Flags) -> Mapping[str, float]:
    """Per thousand requests of all, for each price list entry."""
    used = int(pairs.input_tokens[sent].sum()), int(pairs.output_tokens[sent].sum())
    prices = LibraryPrices()
    return {
        name: prices.cost(config, *used) / 1e6 / len(pairs) * 1000
        for name, config in PRICED.items()
    }


def with_perfect_cloud(rows: Rows) -> dict[str, float]:
    """Calls and segments, if all that is sent came back right and cost the same: an upper bound."""
    right = rows.right[numpy.argsort(-rows.confidence, kind="stable")]
    wrong = numpy.cumsum(1 - right)
    kept = numpy.arange(1, len(right) + 1)
    quality_at = 1 - wrong / len(right)
    five = int(len(right) * (1 - 1 / MISSION))
    found = {"perfect_cloud_5x_quality": float(quality_at[five - 1])}
    for goal in (99, 95, 90):
        most = int(kept[quality_at >= goal / 100].max(initial=0))
        found[f"perfect_cloud_times_cheaper_at_{goal}"] = len(right) / max(1, len(right) - most)
    return {f"{rows.task}_{name}": value for name, value in found.items()}
