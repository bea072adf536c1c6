"""How long reserving and settling take when several processes share one ledger.

`python -m edgewise_bench.scale.ledgers LEDGER [PROCESSES] [PAIRS]` measures one; LEDGER is a path
or a PostgreSQL URL.
"""

from __future__ import annotations

import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from multiprocessing.queues import Queue
from pathlib import Path

from edgewise import Settings
from edgewise.children import spawning
from edgewise.cloud.provider import ProviderConfig
from edgewise.errors import LedgerError
from edgewise.parts import open_ledger
from edgewise.record.ledger import Book
from edgewise.record.report import percentile
from edgewise.types.messages import Message, Request, new_request_id
from edgewise.types.replies import Attempt

PAYEE = ProviderConfig(name="openai", protocol="openai", model="gpt-5-nano", key="none")
PAID = Attempt(
    place="cloud", backend=PAYEE.name, model=PAYEE.model, outcome="answered", cost_microdollars=1
)
LedgerFactory = Callable[[], Book]  # called in each process; it must be picklable


def open_at(where: str, folder: Path) -> Book:
    """The ledger at a path or URL, with a budget, so that every reservation is checked."""
    settings = Settings(ledger=where, budgets=("$1000/day",), data_dir=folder)
    return open_ledger(settings)


def reserve_settle(
    ledger_factory: LedgerFactory, processes: int, pairs: int
) -> Mapping[str, float]:
    """Milliseconds of `pairs` in each process at once: p50, p99, worst; `failed` that raised."""
    context = multiprocessing.get_context("spawn")
    results: Queue[tuple[list[float], int]] = context.Queue()
    start = context.Barrier(processes + 1)
    workers = [
        context.Process(target=_spend, args=(ledger_factory, pairs, start, results))
        for _ in range(processes)
    ]
    with spawning():
        for worker in workers:
            worker.start()
    start.wait()
    began = time.perf_counter()
    found = [results.get() for _ in workers]
    took = time.perf_counter() - began
    for worker in workers:
        worker.join()
    times = sorted(1000 * seconds for each, _ in found for seconds in each)
    return {
        "processes": processes,
        "pairs": len(times),
        "reserve_settle_ms_p50": percentile(times, 50),
        "reserve_settle_ms_p99": percentile(times, 99),
        "reserve_settle_ms_worst": times[-1],
        "pairs_per_second": len(times) / took,
        "failed": sum(failed for _, failed in found),
    }


def _spend(
    ledger_factory: LedgerFactory,
    pairs: int,
    start: multiprocessing.synchronize.Barrier,
    results: Queue[tuple[list[float], int]],
) -> None:
    ledger, run, times, failed = ledger_factory(), new_request_id(), [], 0
    ledger.remaining()  # opens it
    start.wait()
    for index in range(pairs):
        request = Request(id=f"{run}-{index}", messages=(Message("user", "What is it?"),))
        began = time.perf_counter()
        try:
            ledger.reserve(f"{request.id}/0", request, PAYEE, 2)
            ledger.settle(f"{request.id}/0", PAID)
        except LedgerError:
            failed += 1
        times.append(time.perf_counter() - began)
    ledger.close()
    results.put((times, failed))


def main() -> None:
    where = sys.argv[1]
    processes, pairs = (int(text) for text in (*sys.argv[2:], "4", "100")[:2])
    with tempfile.TemporaryDirectory() as folder:
        found = reserve_settle(partial(open_at, where, Path(folder)), processes, pairs)
    for name, value in found.items():
        sys.stdout.write(f"{name:26} {value:10.2f}\n")


if __name__ == "__main__":
    main()
