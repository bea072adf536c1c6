"""Requests per second at 64 streams: one `edgewise serve`, and replicas behind HAProxy."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from edgewise_bench.processes import cpu_s, highest_mb
from edgewise_bench.scale.cluster import Cluster, cluster_in
from edgewise_bench.scale.request_cost import Kind, load, scripted_server

TARGETS: dict[str, tuple[str, float]] = {"overhead_ratio": (">=", 0.8)}
REPLICAS = (1, 2, 4)
WORKERS = 2  # of `edgewise serve --workers`, on the cores that as many replicas have
STREAMS = Kind("", 64, stream=True)
FILE = """
[fronts]
replicas = {replicas}
cpus = 0.1
[settings]
data_dir = "{data}"
[settings.server]
total_s = 30.0
"""


def measure_throughput(
    folder: Path, rounds: int, requests: int, progress: Callable[[], None] = lambda: None
) -> dict[str, float]:
    """In turns with one server process, and with several workers of it.

    `overhead_ratio` is that of two replicas to the one process.
    """
    found: dict[str, float] = {}
    costs: dict[str, list[float]] = {"front": [], "proxy": [], "client": []}
    with (
        scripted_server() as alone,
        scripted_server(workers=WORKERS) as workers,
        cluster_in(folder, {}) as cluster,
    ):
        _rate(alone.url, requests)
        _rate(workers.url, requests)
        together: list[float] = []
        alone_mb = alone.highest_mb()
        for replicas in REPLICAS:
            cluster.deploy("instant", FILE.format(replicas=replicas, data=folder / "data"))
            _rate(cluster.url, requests)  # all connections and imports
            pairs = []
            for _ in range(rounds):
                here = _rate(alone.url, requests)
                together.append(_rate(workers.url, requests))
                before = _cpu_ms(cluster)
                pairs.append((here, _rate(cluster.url, requests)))
                for name, spent in _cpu_ms(cluster).items():
                    costs[name].append((spent - before[name]) / requests)
                progress()
            found["replica_mb"] = max(map(highest_mb, cluster.processes("front")))
            name = f"{replicas}_replicas" if replicas > 1 else "1_replica"
            found[f"serve_per_second_beside_{name}"] = statistics.median(one for one, _ in pairs)
            found[f"requests_per_second_{name}"] = statistics.median(one for _, one in pairs)
            found[f"ratio_{name}"] = statistics.median(there / here for here, there in pairs)
    found["serve_mb"] = alone_mb
    for name, each in costs.items():
        found[f"{name}_cpu_ms"] = statistics.median(each)
    found[f"serve_per_second_{WORKERS}_workers"] = rate = statistics.median(together)
    found[f"ratio_{WORKERS}_replicas_to_{WORKERS}_workers"] = (
        found[f"requests_per_second_{WORKERS}_replicas"] / rate
    )
    found["overhead_ratio"] = found["ratio_2_replicas"]
    return found


def _cpu_ms(cluster: Cluster) -> dict[str, float]:
    """Of the fronts, of what a cluster has around them, and of this process, which asks."""
    return {
        "front": 1000 * sum(map(cpu_s, cluster.processes("front"))),
        "proxy": 1000 * sum(map(cpu_s, cluster.around())),
        "client": 1000 * time.process_time(),
    }


def _rate(url: str, requests: int) -> float:
    started = time.perf_counter()
    asyncio.run(load(url, STREAMS, requests))
    return requests / (time.perf_counter() - started)
