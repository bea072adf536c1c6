"""Kills of replicas, of the database and of clients: what is overspent, lost, or cut in silence."""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg

from edgewise.children import python_child
from edgewise.parts import open_ledger
from edgewise.settings import Settings
from edgewise.testing import Answer, LoopbackCloud, SeenRequest
from edgewise_bench.scale.cluster import Cluster, cluster_in, kill
from edgewise_bench.scale.driver import SILENT, WHOLE
from edgewise_bench.scale.postgres_server import PostgresServer

TARGETS: dict[str, tuple[str, float]] = {
    "overspend_microdollars": ("<=", 0),
    "rows_lost": ("<=", 0),
    "streams_lost_without_error": ("<=", 0),
    "rolling_upgrade_failed_requests": ("<=", 0),
}
# How many of twenty kills.
SHARES = {"front": 7, "chat": 7, "store": 3, "driver": 3}
DRIVERS, STREAMS = 2, 3
BUDGET_CALLS = 2  # cloud calls per kill: less than the campaign would like to make
CLOUD = Answer(text="The cloud knows it.", input_tokens=12, output_tokens=40)
BACK_S = 120.0  # for a replica to be back
SPENT_S = 90.0  # at most, until the budget is spent after the last kill
QUIET_S = 6.0  # without a call of the cloud: it is spent
FILE = """
[fronts]
replicas = 3
cpus = 0.1
[models.chat]
replicas = 2
cpus = 0.1
[settings]
data_dir = "{data}"
budgets = ["${dollars:.6f}/month"]
chain = ["openai/gpt-5-nano"]
context_tokens = {context}
[settings.server]
total_s = 30.0
"""


class SeenCalls:
    """The cloud of the campaign: counts what reaches it."""

    def __init__(self) -> None:
        self.count = 0
        self.last = time.monotonic()

    def __call__(self, seen: SeenRequest) -> Answer:
        self.count += 1
        self.last = time.monotonic()
        return CLOUD


class Driver:
    """A client in a process of its own, started anew when it was killed."""

    def __init__(self, url: str, number: int, heard: Callable[[str, str], None]) -> None:
        self._url, self._number, self._heard = url, number, heard
        self._life = 0
        self.start()

    def start(self) -> None:
        self._life += 1
        words = ("-m", "edgewise_bench.scale.driver", self._url, str(STREAMS))
        self._process = subprocess.Popen(
            python_child(*words, f"{self._number}.{self._life}"),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, args=(self._process,), daemon=True)
        self._reader.start()

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            with contextlib.suppress(ValueError, KeyError):  # half a line of a killed process
                told = json.loads(line)
                self._heard(told["id"], told["end"])

    def kill(self) -> None:
        kill(self._process.pid)
        self._process.wait()
        self._reader.join()
        if self._process.stdout is not None:
            self._process.stdout.close()


class Heard:
    """How the streams of all drivers ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.ends: Counter[str] = Counter()
        self.whole: set[str] = set()

    def __call__(self, request_id: str, end: str) -> None:
        with self._lock:
            self.ends[end] += 1
            if end == WHOLE:
                self.whole.add(request_id)


@contextlib.contextmanager
def _drivers(url: str, heard: Heard) -> Iterator[list[Driver]]:
    made = [Driver(url, number, heard) for number in range(DRIVERS)]
    try:
        yield made
    finally:
        for each in made:
            each.kill()


def measure_survival(
    folder: Path, kills: int, seed: int, progress: Callable[[], None] = lambda: None
) -> dict[str, float]:
    """A rolling upgrade under load, then so many kills, then what the ledger says of it all."""
    chance, calls = random.Random(seed), SeenCalls()
    with contextlib.ExitStack() as stack:
        cloud = stack.enter_context(LoopbackCloud())
        cloud.always(calls)
        store = PostgresServer()
        stack.callback(store.close)
        store.start()
        url = store.fresh()
        secrets = {
            "EDGEWISE_LEDGER": url,
            "OPENAI_API_KEY": "loopback",
            "OPENAI_BASE_URL": cloud.openai_url,
        }
        price = 17  # micro-dollars of CLOUD at gpt-5-nano's rates; checked below
        budget = price * BUDGET_CALLS * max(kills, 10)
        cluster = stack.enter_context(cluster_in(folder, secrets))
        upgraded = _upgrade(cluster, folder, budget)
        heard = Heard()
        with _drivers(cluster.url, heard) as drivers:
            killed = _kill(cluster, store, drivers, chance, kills, progress)
            _spend_the_rest(calls)
        found = _judge(url, folder / "data", heard, budget, calls)
    return {
        "kills": killed.total(),
        **{f"kills_of_{name}": killed[name] for name in SHARES},
        **found,
        "rolling_upgrade_failed_requests": upgraded.ends.total() - upgraded.ends[WHOLE],
        "rolling_upgrade_requests": upgraded.ends.total(),
        **{f"streams_{end}": count for end, count in sorted(heard.ends.items())},
    }


def _file(folder: Path, budget: int, context: int) -> str:
    return FILE.format(data=folder / "data", dollars=budget / 1e6, context=context)


def _upgrade(cluster: Cluster, folder: Path, budget: int) -> Heard:
    """Every replica is replaced while streams run; another context size is the new version."""
    cluster.deploy("paced", _file(folder, budget, 2048))
    old = {*cluster.processes("front"), *cluster.processes("chat")}
    heard = Heard()
    with _drivers(cluster.url, heard):
        time.sleep(2)
        cluster.deploy("paced", _file(folder, budget, 2049))
        until = time.monotonic() + BACK_S
        while old & {*cluster.processes("front"), *cluster.processes("chat")}:
            if time.monotonic() > until:
                raise OSError("the upgrade does not end")
            time.sleep(0.2)
        time.sleep(1)
    return heard


def _kill(
    cluster: Cluster,
    store: PostgresServer,
    drivers: list[Driver],
    chance: random.Random,
    kills: int,
    progress: Callable[[], None],
) -> Counter[str]:
    names, shares = zip(*SHARES.items(), strict=True)
    done: Counter[str] = Counter()
    while done.total() < kills:
        target = chance.choices(names, shares)[0]
        time.sleep(chance.uniform(0.05, 1.0))
        if target == "store":
            store.kill()
            time.sleep(chance.uniform(0.0, 3.0))
            store.start()
        elif target == "driver":
            driver = chance.choice(drivers)
            driver.kill()
            driver.start()
        elif not kill(chance.choice(_running(cluster, target))):
            continue
        done[target] += 1
        progress()
    return done


def _running(cluster: Cluster, deployment: str) -> list[int]:
    """The replicas of a deployment, as soon as there is one."""
    until = time.monotonic() + BACK_S
    while not (found := cluster.processes(deployment)):
        if time.monotonic() > until:
            raise OSError(f"no replica of {deployment} is back")
        time.sleep(0.1)
    return found


def _spend_the_rest(calls: SeenCalls) -> None:
    """Until the cloud is closed because the budget is spent."""
    until = time.monotonic() + SPENT_S
    while time.monotonic() < until and time.monotonic() - calls.last < QUIET_S:
        time.sleep(0.2)


def _judge(url: str, data: Path, heard: Heard, budget: int, calls: SeenCalls) -> dict[str, float]:
    """What the ledger has, once everything that waited in files was sent."""
    ledger = open_ledger(Settings(ledger=url, data_dir=data))
    try:
        ledger.report()  # wakes what sends
    finally:
        ledger.close()
    with psycopg.connect(url) as connection:
        recorded = {row[0] for row in connection.execute("SELECT id FROM edgewise.requests")}
        attempts = connection.execute(
            "SELECT id, cost_microdollars, outcome, state FROM edgewise.attempts"
            " WHERE place = 'cloud'"
        ).fetchall()
    prices = Counter(row[1] for row in attempts if row[2] == "answered")
    price = prices.most_common(1)[0][0] if prices else 0
    booked = sum(row[1] for row in attempts)
    return {
        "requests": heard.ends.total(),
        "cloud_calls": calls.count,
        "budget_microdollars": budget,
        "spent_microdollars": calls.count * price,
        "budget_share_spent": calls.count * price / budget,
        "booked_microdollars": booked,
        "overspend_microdollars": max(0, calls.count * price - budget),
        "unbooked_microdollars": max(0, calls.count * price - booked),
        "rows": len(recorded),
        "rows_lost": len(heard.whole - recorded),
        "streams_lost_without_error": heard.ends[SILENT],
    }
