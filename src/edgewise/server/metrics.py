"""Counts what happens, for Prometheus. Every server has a registry of its own."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from typing_extensions import override

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
CONFIDENCES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
GAUGES = {
    "edgewise_requests_in_flight": "Requests being served.",
    "edgewise_resident_bytes": "Memory of the process; where the system says.",
    "edgewise_model_resident_bytes": "Memory of a local model's own process, by model.",
    "edgewise_model_up": "0 while a local model's own process keeps crashing, by model.",
    "edgewise_model_restarts_total": "New processes of a local model after crashes, by model.",
    "edgewise_device_joules_total": "Of the processor while the device worked; where it tells.",
    "edgewise_device_answers_total": "Answers of the device meanwhile.",
    "edgewise_threads": "Threads of the process.",
    "edgewise_slots_busy": "Local requests handed to the model, by model.",
    "edgewise_slots": "Local requests that can be worked on at once, by model.",
    "edgewise_queue_waiting": "Local requests waiting for a slot, by model.",
    "edgewise_breaker_open": "1 while a provider's circuit is open.",
    "edgewise_drift": "1 while a calibration no longer fits what is asked, by calibration.",
    "edgewise_drift_distance": "Of the latest confidences from the calibration's own.",
    "edgewise_drift_bound": "The distance above which it is called drift.",
    "edgewise_budget_remaining_microdollars": "Left in a budget's current window.",
    "edgewise_budget_limit_microdollars": "Of a budget in one window.",
    "edgewise_key_requests_total": "Requests of a key, as the ledger has them: of all servers.",
    "edgewise_key_kept_total": "Of those, answered by the device alone.",
    "edgewise_key_doubtful_total": "Of the kept ones, those where a better answer was wanted.",
    "edgewise_key_cloud_total": "Requests of a key that the cloud answered.",
    "edgewise_key_failed_total": "Requests of a key that ended with an error.",
    "edgewise_key_spent_microdollars_total": "Spent on cloud calls of a key.",
    "edgewise_key_avoided_microdollars_total": "What a key's kept answers would have cost.",
}

Gauge = tuple[str, Mapping[str, str], float]  # name, labels, value


class Metrics(Collector):
    """Thread-safe. Labels are words of ours (endpoints, codes, models), never a client's.

    `gauges` says what is so at the moment; it is asked when the counts are written. Of several
    servers that are one to their clients, `replica` is the label of this one's series, and
    `others` brings the series of the rest.
    """

    def __init__(self, gauges: Callable[[], list[Gauge]], replica: str = "") -> None:
        self._gauges = gauges
        self.replica = replica
        self.others: Callable[[], Iterable[Metric]] = tuple
        self._registry = CollectorRegistry()

        def counter(name: str, words: str, *labels: str) -> Counter:
            return Counter(name, words, labels, registry=self._registry)

        def histogram(
            name: str, words: str, *labels: str, buckets: tuple[float, ...] = SECONDS
        ) -> Histogram:
            return Histogram(name, words, labels, registry=self._registry, buckets=buckets)

        self.requests = counter(
            "edgewise_requests_total",
            "Requests by endpoint, source, decision or error code, and status.",
            *("endpoint", "source", "code", "status"),
        )
        self.refused = counter(
            "edgewise_refused_total",
            "Requests turned away before they were read, by status and code.",
            *("status", "code"),
        )
        self.seconds = histogram(
            "edgewise_request_seconds",
            "From the last byte of a request to the last byte of its answer.",
            *("endpoint", "source"),
        )
        self.first_token_seconds = histogram(
            "edgewise_first_token_seconds",
            "Until the first text of an answer.",
            *("endpoint", "source"),
        )
        self.confidence = histogram(
            "edgewise_confidence",
            "Confidence of the device's answers; verified: by a calibration of the same model.",
            "verified",
            buckets=CONFIDENCES,
        )
        self.tokens = counter(
            "edgewise_tokens_total",
            "Tokens by place and direction, those of rejected attempts included.",
            *("place", "kind"),
        )
        self.attempts = counter(
            "edgewise_attempts_total",
            "Attempts by place, backend and outcome.",
            *("place", "backend", "outcome"),
        )
        self.cost = counter("edgewise_cost_microdollars_total", "Spent on cloud calls.")
        self.degraded = counter(
            "edgewise_degraded_total",
            "Answers the cloud should have given, by what kept it.",
            "code",
        )
        self.disconnects = counter(
            "edgewise_disconnects_total",
            "Clients that left before their answer was whole.",
            "endpoint",
        )

    def written(self, key: str = "") -> bytes:
        """All of it in Prometheus's text form, that of the others included. A `key` of its own sees
        its own series and the budgets of all, and nothing of the others."""
        found = [*self.collect(), *self.others()]
        if key:
            for metric in found:
                metric.samples = [
                    each for each in metric.samples if each.labels.get("key") in ("", key)
                ]
        return generate_latest(_Together(each for each in found if each.samples or not key))

    def own(self) -> bytes:
        """The same without the others."""
        return generate_latest(self)

    @override
    def collect(self) -> Iterator[Metric]:
        for metric in self._collect():
            if self.replica:
                own = {"replica": self.replica}
                metric.samples = [
                    each._replace(labels=each.labels | own) for each in metric.samples
                ]
            yield metric

    def _collect(self) -> Iterator[Metric]:
        for metric in self._registry.collect():
            # When each series was made is for OpenMetrics. Here it would be series of its own.
            kept = [each for each in metric.samples if not each.name.endswith("_created")]
            metric.samples = kept
            yield metric
        families: dict[str, GaugeMetricFamily | CounterMetricFamily] = {}
        for name, labels, value in self._gauges():
            if name not in families:
                kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
                families[name] = kind(name, GAUGES[name], labels=tuple(labels))
            families[name].add_metric(tuple(labels.values()), value)
        yield from families.values()


RAPL = Path("/sys/class/powercap")
LOOK_AT_ENERGY_S = 1.0


class Energy:
    """Joules of the processor's packages while the device works, and the answers it gave meanwhile.

    Of the whole package, idle power included: what else runs there is counted, too. Only machines
    whose counters this process may read tell it (RAPL, on Linux mostly by root alone).
    """

    def __init__(self, working: Callable[[], bool], folder: Path = RAPL) -> None:
        self._working = working
        self._packages = [
            each
            for each in sorted(folder.glob("intel-rapl:*"))
            if each.name.count(":") == 1 and _microjoules(each) is not None
        ]
        self._lock = threading.Lock()
        self._before: list[int | None] = []
        self.joules = 0.0
        self.answers = 0

    @property
    def told(self) -> bool:
        """Whether this machine tells it."""
        return bool(self._packages)

    @property
    def joules_per_answer(self) -> float | None:
        return self.joules / self.answers if self.joules and self.answers else None

    def answered(self) -> None:
        """The device gave an answer."""
        with self._lock:
            self.answers += 1
        self.look(worked=True)  # it may rest by now, and worked since it began

    def look(self, *, worked: bool = False) -> None:
        """Count what was used since the last look, if the device was at work."""
        with self._lock:
            now = [_microjoules(each) for each in self._packages]
            before, self._before = self._before, now
            if not before or not (worked or self._working()):
                return
            for each, old, new in zip(self._packages, before, now, strict=True):
                if old is not None and new is not None:
                    used = new - old if new >= old else new - old + _range(each)  # it starts anew
                    self.joules += max(0, used) / 1e6

    def watch(self, closed: threading.Event) -> None:
        """Look again and again, on a thread of its own."""
        while not closed.wait(LOOK_AT_ENERGY_S):
            self.look()


def _microjoules(package: Path) -> int | None:
    with contextlib.suppress(OSError, ValueError):
        return int((package / "energy_uj").read_text("ascii"))
    return None


def _range(package: Path) -> int:
    with contextlib.suppress(OSError, ValueError):
        return int((package / "max_energy_range_uj").read_text("ascii"))
    return 0


class _Together(Collector):
    """Families of several servers, each family once, as the text form wants it."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._families: dict[str, Metric] = {}
        for metric in metrics:
            family = self._families.setdefault(metric.name, metric)
            if family is not metric:
                family.samples += metric.samples

    @override
    def collect(self) -> Iterator[Metric]:
        yield from self._families.values()


def series_of(written: bytes, *, but: str) -> Iterator[Metric]:
    """What another server wrote; `but` is the replica whose series are here already."""
    for metric in text_string_to_metric_families(written.decode()):
        metric.samples = [each for each in metric.samples if each.labels.get("replica") != but]
        if metric.samples:
            yield metric
