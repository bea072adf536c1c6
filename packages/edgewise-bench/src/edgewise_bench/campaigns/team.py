"""A team behind one server: people race for money, strangers name themselves, a lead looks on.

- `race`: people behind one key reserve and settle at once, from several processes, against caps of
  the key, of each group and of each user; the ledger is one file. What the caps let through is
  compared with what they say.
- `spoof`: a server with a trusted client, and headers that others send to be somebody else.
- `overview`: the figures of a large ledger while streams run.
"""

from __future__ import annotations

import multiprocessing
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx2

from edgewise import Settings
from edgewise.children import spawning
from edgewise.cloud.provider import ProviderConfig
from edgewise.errors import BudgetExceeded
from edgewise.record.ledger import Ledger
from edgewise.record.report import percentile
from edgewise.record.rows import Budget
from edgewise.server import serve
from edgewise.server.keys import KeyFile
from edgewise.testing import ScriptedBackend
from edgewise.types.messages import Message, Request
from edgewise.types.replies import Attempt

TARGETS: Mapping[str, tuple[str, float]] = {
    "cap_off_microdollars": ("<=", 0),
    "spoofed_headers_accepted": ("<=", 0),
    "overview_ms_p95": ("<=", 300),
    "streams_broken": ("<=", 0),
}
PAYEE = ProviderConfig(name="openai", protocol="openai", model="gpt-5-nano", key="none")
PROCESSES = 4
GROUPS = 10
USER_CAP, GROUP_CAP, KEY_CAP = 500, 4_000, 30_000
MOST_COST = 60
DAY_S = 86_400.0
WINDOW_S = 30 * DAY_S  # of the large ledger
STREAMS = 16
TOKEN_S = 0.05  # between two tokens of a stream: a device that writes 20 a second
Step = Callable[[], object]


def measure_team(
    folder: Path, people: int, calls: int, rows: int, looks: int, seed: int, step: Step
) -> dict[str, float]:
    found = race(folder / "race", people, calls, seed)
    step()
    found |= spoof(folder / "spoof")
    step()
    found |= overview(folder / "overview", rows, looks, seed)
    step()
    return found


# -- racing calls ----------------------------------------------------------------------------------


def rules() -> list[Budget]:
    return [
        Budget(KEY_CAP, "day", "webui"),
        Budget(USER_CAP, "day", "webui", of="user"),
        Budget(GROUP_CAP, "day", "webui", of="group"),
    ]


def race(folder: Path, people: int, calls: int, seed: int) -> dict[str, float]:
    """Every call reserves and settles; how much the caps are off, over all people and windows."""
    folder.mkdir(parents=True)
    path = folder / "ledger.sqlite3"
    Ledger(path).usage()  # makes it
    context = multiprocessing.get_context("spawn")
    results: Any = context.Queue()
    start = context.Barrier(PROCESSES)
    workers = [
        context.Process(
            target=_spend, args=(path, people, calls // PROCESSES, seed + n, start, results)
        )
        for n in range(PROCESSES)
    ]
    with spawning():
        for worker in workers:
            worker.start()
    ended = [results.get() for _ in workers]
    for worker in workers:
        worker.join()
    refused = [each for _, many in ended for each in many]
    ledger = Ledger(path, budgets=rules())
    off = _over(ledger) + _refused_too_early(ledger, refused) + _not_the_sum(path)
    ledger.close()
    return {
        "people": people,
        "calls": calls // PROCESSES * PROCESSES,
        "calls_paid": sum(paid for paid, _ in ended),
        "calls_refused": len(refused),
        "cap_off_microdollars": off,
    }


def _spend(path: Path, people: int, calls: int, seed: int, start: Any, results: Any) -> None:
    chance, ledger = random.Random(seed), Ledger(path, budgets=rules(), busy_s=120.0)
    lock, paid = threading.Lock(), 0
    refused: list[tuple[str, str, int]] = []
    start.wait()

    def ask(number: int, person: int, cost: int) -> None:
        nonlocal paid
        user, group = f"user-{person}", f"group-{person % GROUPS}"
        request = Request(
            id=f"{seed}-{number}",
            messages=(Message("user", "?"),),
            budget_key="webui",
            user=user,
            group=group,
        )
        try:
            ledger.reserve(f"{request.id}/0", request, PAYEE, cost)
        except BudgetExceeded:
            with lock:
                refused.append((user, group, cost))
            return
        # What it cost in the end is what was set aside: so what was refused can be judged.
        attempt = Attempt(
            place="cloud",
            backend="openai",
            model=PAYEE.model,
            outcome="answered",
            cost_microdollars=cost,
        )
        ledger.settle(f"{request.id}/0", attempt)
        with lock:
            paid += 1

    asked = [
        (number, chance.randrange(people), chance.randint(1, MOST_COST)) for number in range(calls)
    ]

    def ask_all(part: Sequence[tuple[int, int, int]]) -> None:
        for each in part:
            ask(*each)

    threads = [threading.Thread(target=ask_all, args=(asked[n::4],)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ledger.close()
    results.put((paid, refused))


def _over(ledger: Ledger) -> int:
    """By how much anybody passed a cap, and what is still set aside though nothing runs."""
    return sum(
        max(0, each.spent - each.budget.limit_microdollars) + each.reserved
        for each in ledger.remaining()
    )


def _refused_too_early(ledger: Ledger, refused: list[tuple[str, str, int]]) -> int:
    """What was refused although every cap had room for it to the end: totals only grow."""
    left = {(each.budget.of, each.budget.name): each.remaining for each in ledger.remaining()}
    whole = left["", ""]
    return sum(
        cost
        for user, group, cost in refused
        if cost
        <= min(whole, left.get(("user", user), USER_CAP), left.get(("group", group), GROUP_CAP))
    )


def _not_the_sum(path: Path) -> int:
    """How far the totals of keys and people are from the sums of their attempts."""
    with sqlite3.connect(path) as connection:
        (people,) = connection.execute(
            """SELECT COALESCE(SUM(ABS(off)), 0) FROM (
                SELECT SUM(settled_microdollars) - (SELECT SUM(cost_microdollars) FROM attempts
                    WHERE day = window_name AND user_name = people.user_name) AS off
                FROM spend_of_people AS people WHERE LENGTH(window_name) = 10
                GROUP BY window_name, user_name)"""
        ).fetchone()
        (whole,) = connection.execute(
            """SELECT COALESCE(SUM(ABS(settled_microdollars - (SELECT SUM(cost_microdollars)
                FROM attempts WHERE day = window_name))), 0) FROM spend
            WHERE LENGTH(window_name) = 10"""
        ).fetchone()
    return int(people) + int(whole)


# -- strangers -------------------------------------------------------------------------------------

ASKED = {"model": "auto", "messages": [{"role": "user", "content": "Hello"}]}
# What whoever has another key, or no right to, may send to be somebody else.
FORGED: tuple[list[tuple[str, str]], ...] = (
    [("x-openwebui-user-email", "boss@team.example")],
    [("X-OpenWebUI-User-Id", "1")],
    [("X-OPENWEBUI-USER-EMAIL", "boss@team.example")],
    [("x-openwebui-user-role", "admin")],
    [("x-edgewise-user", "boss")],
    [("x-edgewise-group", "admin")],
    [("x-edgewise-user", "me"), ("x-edgewise-user", "boss")],
    [("x-forwarded-for", "10.0.0.9"), ("x-openwebui-user-email", "boss@team.example")],
    [("x-edgewise-budget-key", "webui"), ("x-openwebui-user-email", "boss@team.example")],
)
PATHS = ("/v1/chat/completions", "/v1/responses", "/v1/messages", "/api/chat", "/v1/embeddings")


def spoof(folder: Path) -> dict[str, float]:
    """How many forged names were counted for somebody, by whatever key and path."""
    sent = 0
    with running(folder, user_proxies=["10.0.0.9"]) as (url, ledger, keys):
        bot = keys.add("bot", {})
        keys.add("webui", {"forwards_users": True, "user_budgets": ("$1/day",)})
        metrics = keys.add("prometheus", {"role": "metrics"})
        time.sleep(1.1)  # the server looks at the file
        with httpx2.Client(base_url=url, timeout=60) as http:
            for key in (bot, metrics, "ew-wrong"):
                for path in PATHS:
                    for forged in FORGED:
                        headers = [("authorization", f"Bearer {key}"), *forged]
                        http.post(path, json=ASKED | {"input": "Hello"}, headers=headers)
                        sent += 1
        named = [row for row in ledger().usage(by="user") if row.user or row.key == "webui"]
        named += [row for row in ledger().usage(by="group") if row.group]
    return {"spoofed_headers": sent, "spoofed_headers_accepted": sum(row.requests for row in named)}


@contextmanager
def running(folder: Path, **server: Any) -> Iterator[tuple[str, Callable[[], Any], KeyFile]]:
    states: list[Any] = []
    settings = Settings.load(
        {},
        data_dir=folder / "data",
        config_dir=folder / "config",
        server={"port": 0, "drain_s": 5.0, "slots": STREAMS, **server},
    )
    backend = ScriptedBackend.confident(" ".join(["Paris."] * 200), delay_s=TOKEN_S)
    with serve.running(settings, states.append, backend=backend) as url:
        yield url, lambda: states[0].engine.ledger, KeyFile(settings.config_dir)


# -- the lead looks on -----------------------------------------------------------------------------


def fill(path: Path, rows: int, seed: int) -> None:
    """A ledger of so many requests in a month: 40 keys, 200 users."""
    ledger = Ledger(path)
    ledger.usage()  # makes it
    ledger.close()
    chance, now = random.Random(seed), time.time()
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA synchronous = OFF")
    asked = {row[1]: row[2] for row in connection.execute("PRAGMA table_info(requests)")}
    names = [name for name, kind in asked.items() if kind != "TEXT" or not name.endswith("_text")]
    insert = f"INSERT INTO requests ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"
    plain: dict[str, Any] = {name: "" if asked[name] == "TEXT" else 0 for name in names}

    def row(number: int) -> list[Any]:
        person, here = chance.randrange(200), chance.random() < 0.7
        facts = {
            "id": f"row-{number}",
            "created_at": now - WINDOW_S * (rows - number) / rows,
            "task": "chat",
            "policy": "prefer_local",
            "handoff": "automatic",
            "budget_key": f"key-{person % 40}",
            "user_name": f"user-{person}",
            "source": "local" if here else "cloud",
            "decision_code": "confident" if here else "handoff_unsure",
            "features": "{}",
            "confidence": chance.random(),
            "threshold": 0.6,
            "calibration": "bench",
            "first_token_ms": 500 * chance.random(),
            "total_ms": 3_000 * chance.random(),
            "cost_avoided_microdollars": 40 if here else 0,
        }
        return [*{**plain, **facts}.values()]

    connection.execute("BEGIN")
    connection.executemany(insert, (row(number) for number in range(rows)))
    connection.execute("COMMIT")
    connection.close()


def overview(folder: Path, rows: int, looks: int, seed: int) -> dict[str, float]:
    """Milliseconds of `/edgewise/overview/30d` and of the table by key, while streams run."""
    (folder / "data").mkdir(parents=True)
    fill(folder / "data" / "ledger.sqlite3", rows, seed)
    times: list[float] = []
    tables: list[float] = []
    with ExitStack() as stack:
        url, _, _ = stack.enter_context(running(folder))
        http = stack.enter_context(httpx2.Client(base_url=url, timeout=120))
        began = time.perf_counter()
        http.get("/edgewise/overview/30d").raise_for_status()
        first = 1000 * (time.perf_counter() - began)
        done = threading.Event()
        streams, broken = [0], [0]

        def stream() -> None:
            with httpx2.Client(base_url=url, timeout=120) as own:
                while not done.is_set():
                    body = {**ASKED, "stream": True}
                    with own.stream("POST", "/v1/chat/completions", json=body) as answer:
                        lines = list(answer.iter_lines())
                    streams[0] += 1
                    broken[0] += "data: [DONE]" not in lines

        threads = [threading.Thread(target=stream) for _ in range(STREAMS)]
        for thread in threads:
            thread.start()
        for _ in range(looks):
            for path, found in (
                ("/edgewise/overview/30d", times),
                ("/edgewise/usage/key/day/30d", tables),
            ):
                began = time.perf_counter()
                http.get(path).raise_for_status()
                found.append(1000 * (time.perf_counter() - began))
            time.sleep(0.2)
        done.set()
        for thread in threads:
            thread.join()
    return {
        "rows": rows,
        "looks": looks,
        "overview_ms_first": first,
        "overview_ms_p50": percentile(sorted(times), 50),
        "overview_ms_p95": percentile(sorted(times), 95),
        "usage_ms_p95": percentile(sorted(tables), 95),
        "streams": streams[0],
        "streams_broken": broken[0],
    }
