"""Counts what happens and writes it down in Prometheus's text form."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterator, Mapping

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
CONFIDENCES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

HELP = {
    "edgewise_requests_total": "Requests by endpoint, source, decision or error code, and status.",
    "edgewise_refused_total": "Requests turned away before they were read, by status and code.",
    "edgewise_request_seconds": "From the last byte of a request to the last byte of its answer.",
    "edgewise_first_token_seconds": "Until the first text of an answer.",
    "edgewise_confidence": "Calibrated confidence of the device's answers.",
    "edgewise_tokens_total": "Tokens by place and direction, those of rejected attempts included.",
    "edgewise_attempts_total": "Attempts by place, backend and outcome.",
    "edgewise_cost_microdollars_total": "Spent on cloud calls.",
    "edgewise_degraded_total": "Answers the cloud should have given, by what kept it.",
    "edgewise_disconnects_total": "Clients that left before their answer was whole.",
    "edgewise_requests_in_flight": "Requests being served.",
    "edgewise_resident_bytes": "Memory of the process; where the system says.",
    "edgewise_threads": "Threads of the process.",
    "edgewise_slots_busy": "Local requests handed to the model, by model.",
    "edgewise_slots": "Local requests that can be worked on at once, by model.",
    "edgewise_queue_waiting": "Local requests waiting for a slot, by model.",
    "edgewise_breaker_open": "1 while a provider's circuit is open.",
    "edgewise_drift": "1 while a calibration no longer fits what is asked, by calibration.",
    "edgewise_drift_distance": "Of the latest confidences from the calibration's own.",
    "edgewise_drift_bound": "The distance above which it is called drift.",
    "edgewise_budget_remaining_microdollars": "Left in a budget's current window.",
}

Labels = tuple[tuple[str, str], ...]


class Metrics:
    """Thread-safe. Labels are words of ours (endpoints, codes, models), never a client's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, Labels], float] = {}
        self._series: dict[
            tuple[str, Labels], tuple[tuple[float, ...], list[int], list[float]]
        ] = {}

    def add(self, name: str, amount: float = 1, **labels: str) -> None:
        key = (name, tuple(sorted(labels.items())))
        with self._lock:
            self._counts[key] = self._counts.get(key, 0) + amount

    def observe(
        self, name: str, value: float, limits: tuple[float, ...] = SECONDS, **labels: str
    ) -> None:
        key = (name, tuple(sorted(labels.items())))
        with self._lock:
            _, counts, total = self._series.setdefault(
                key, (limits, [0] * (len(limits) + 1), [0.0])
            )
            counts[bisect_left(limits, value)] += 1
            total[0] += value

    def written(self, gauges: Mapping[tuple[str, Labels], float]) -> str:
        with self._lock:
            counts = dict(self._counts)
            series = {
                key: (limits, list(found), total[0])
                for key, (limits, found, total) in self._series.items()
            }
        lines: list[str] = []
        lines += _plain("counter", counts)
        lines += _plain("gauge", gauges)
        seen = ""
        for (name, labels), (limits, found, total) in sorted(series.items()):
            if name != seen:
                lines += _head(name, "histogram")
                seen = name
            lines += _histogram(name, labels, limits, found, total)
        return "\n".join(lines) + "\n"


def _plain(kind: str, values: Mapping[tuple[str, Labels], float]) -> Iterator[str]:
    seen = ""
    for (name, labels), value in sorted(values.items()):
        if name != seen:
            yield from _head(name, kind)
            seen = name
        yield (
            f"{name}{_labels(labels)} {value:g}"
            if value < 1e6
            else (f"{name}{_labels(labels)} {value:.0f}")
        )


def _histogram(
    name: str, labels: Labels, limits: tuple[float, ...], found: list[int], total: float
) -> Iterator[str]:
    running = 0
    for limit, count in zip((*limits, float("inf")), found, strict=True):
        running += count
        edge = "+Inf" if limit == float("inf") else f"{limit:g}"
        yield f"{name}_bucket{_labels((*labels, ('le', edge)))} {running}"
    yield f"{name}_sum{_labels(labels)} {total:.6f}"
    yield f"{name}_count{_labels(labels)} {running}"


def _head(name: str, kind: str) -> list[str]:
    return [f"# HELP {name} {HELP[name]}", f"# TYPE {name} {kind}"]


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
