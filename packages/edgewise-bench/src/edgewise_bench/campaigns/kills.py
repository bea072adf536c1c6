"""`edgewise bench kills`: processes die at random points; the ledger must not lose a thing.

Each round starts processes that reserve money, ask, settle and record, and kills them with SIGKILL
(`killed.py` says how). They announce every step on a pipe, so that afterwards each row and each
micro-dollar can be compared with what was announced.
"""

from __future__ import annotations

import contextlib
import random
import sqlite3
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from edgewise.children import python_child
from edgewise.errors import EdgewiseError
from edgewise.record.ledger import Ledger
from edgewise.testing import Answer, LoopbackCloud, SeenRequest
from edgewise_bench.campaigns.killed import CHILDREN, LEDGER

# How many of ten rounds.
SHARES = {"engine": 3, "timer": 3, "step": 2, "crowd": 1, "fresh": 1}
TARGETS: dict[str, tuple[str, float]] = {
    "rows_lost": ("<=", 0),
    "rows_doubled": ("<=", 0),
    "budget_off_microdollars": ("<=", 0),
    "reservations_left": ("<=", 0),
    "integrity_faults": ("<=", 0),
    "failures": ("<=", 0),
}
NEXT_YEAR_S = 366 * 86_400.0
START_S = 120.0


@dataclass(slots=True)
class Announced:
    """What the processes said before they died."""

    amounts: dict[str, tuple[int, int]] = field(default_factory=dict)  # id → reserved, cost
    reserved: set[str] = field(default_factory=set)
    settled: set[str] = field(default_factory=set)
    recorded: set[str] = field(default_factory=set)
    replied: set[str] = field(default_factory=set)  # by an engine
    failed: list[str] = field(default_factory=list)

    def hear(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        if word == "failed":
            self.failed.append(rest)
        elif word == "reserving":
            name, reserved, cost = rest.split(" ")
            self.amounts[name] = (int(reserved), int(cost))
        else:
            found: set[str] = getattr(self, word)
            found.add(rest)


@dataclass(slots=True)
class Tally:
    """What was wrong, and how the attempts ended."""

    count: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)

    def add_ledger(self, path: Path, announced: Announced) -> None:
        """Compare a ledger that nobody uses any more with what was announced of it."""
        rows, recorded = self._swept(path)
        self.count["rows_lost"] += len(announced.reserved - rows.keys())
        self.count["rows_lost"] += len(announced.recorded - recorded)
        self.count["rows_doubled"] += len(rows.keys() - announced.amounts.keys())
        for name in rows.keys() & announced.amounts.keys():
            reserved, actual = announced.amounts[name]
            _, outcome, cost, _ = rows[name]
            due = {"answered": actual, "abandoned": reserved}[outcome]
            if name in announced.settled:
                due = actual
                self.count["rows_lost"] += outcome != "answered"
            self.count["budget_off_microdollars"] += abs(cost - due)

    def add_engine(self, path: Path, asked: set[str], replied: set[str]) -> None:
        """Compare an engine's ledger with what its cloud saw: `asked` are the attempts' ids."""
        rows, recorded = self._swept(path)
        self.count["rows_lost"] += len(asked - rows.keys()) + len(replied - recorded)
        # Every answer of the loopback cloud has the same tokens, so the same price.
        prices = Counter(cost for _, outcome, cost, _ in rows.values() if outcome == "answered")
        price = prices.most_common(1)[0][0] if prices else 0
        for _, outcome, cost, reserved in rows.values():
            due = price if outcome == "answered" else reserved
            self.count["budget_off_microdollars"] += abs(cost - due)

    def _swept(self, path: Path) -> tuple[dict[str, tuple[str, str, int, int]], set[str]]:
        """Cloud attempts by id, and recorded requests, after what was left open was settled."""
        ledger = Ledger(path)
        try:
            before = ledger.verify()
            self.count["left_open"] += ledger.sweep(now=time.time() + NEXT_YEAR_S)
            self.count["integrity_faults"] += len(before) + len(ledger.verify())
            # A file that a killed process left empty is new, not lost.
            self.count["integrity_faults"] += bool(ledger.lost())
            self.count["reservations_left"] += ledger.report().reserved_microdollars
        finally:
            ledger.close()
        with contextlib.closing(sqlite3.connect(path)) as connection:
            found = connection.execute(
                "SELECT id, state, outcome, cost_microdollars, reserved_microdollars"
                " FROM attempts WHERE place = 'cloud'"
            ).fetchall()
            recorded = {name for (name,) in connection.execute("SELECT id FROM requests")}
            (spent,) = connection.execute(
                "SELECT COALESCE(SUM(settled_microdollars), 0) FROM spend"
                " WHERE budget_key = '' AND LENGTH(window_name) = 7"  # months
            ).fetchone()
        rows = {row[0]: (row[1], row[2], row[3], row[4]) for row in found}
        self.count["rows_doubled"] += len(found) - len(rows)
        self.count["budget_off_microdollars"] += abs(spent - sum(row[3] for row in found))
        self.outcomes.update(row[1] for row in rows.values())
        self.count["rows"] += len(found) + len(recorded)
        return rows, recorded


class SeenAttempts:
    """The ids of the attempts that reached the cloud."""

    def __init__(self) -> None:
        self.ids: set[str] = set()

    def __call__(self, seen: SeenRequest) -> Answer:
        self.ids.add(seen.headers["x-client-request-id"].rpartition(".")[0])
        return Answer(text="The cloud knows it very well.", delay_between_s=0.002)


def plan(rounds: int, seed: int) -> list[str]:
    """How the processes of each round die, in an order of the seed's."""
    cycle = [how for how, share in SHARES.items() for _ in range(share)]
    hows = (cycle * (rounds // len(cycle) + 1))[:rounds]
    random.Random(seed).shuffle(hows)
    return hows


def measure_kills(
    folder: Path, rounds: int, seed: int, progress: Callable[[], None] = lambda: None
) -> dict[str, float]:
    """All metrics; `folder` gets ledgers. Ctrl-C ends it early: what was done is judged."""
    hows = plan(rounds, seed)
    asked, announced, tally = SeenAttempts(), Announced(), Tally()
    done = Counter[str]()
    started = time.perf_counter()
    with LoopbackCloud() as cloud, contextlib.suppress(KeyboardInterrupt):
        cloud.always(asked)
        with _nursery(folder, cloud.openai_url, seed) as (say, lines):
            _hear(lines, "start", announced)
            for number, how in enumerate(hows):
                say.write(f"{how} {number}\n")
                say.flush()
                heard = Announced() if how == "fresh" else announced
                _hear(lines, str(number), heard)
                if how == "fresh":
                    _judge_fresh(folder / f"fresh-{number}", heard, tally)
                    announced.failed += heard.failed
                done[how] += 1
                progress()
    seconds = time.perf_counter() - started
    if (folder / LEDGER).exists():
        tally.add_ledger(folder / LEDGER, announced)
    tally.add_engine(folder / "ledger.sqlite3", asked.ids, announced.replied)
    wrong = {name: float(tally.count[name]) for name in TARGETS}
    return {
        "rounds": done.total(),
        "kills": sum(CHILDREN[how] * count for how, count in done.items()),
        **wrong,
        "failures": len(announced.failed),
        "rows": tally.count["rows"],
        "answered": tally.outcomes["answered"],
        "abandoned": tally.outcomes["abandoned"],
        "left_open": tally.count["left_open"],
        "unfinished_files": tally.count["unfinished"],
        "cloud_calls": len(asked.ids),
        **{f"rounds_{how}": done[how] for how in SHARES},
        "seconds": seconds,
    }


def _judge_fresh(path: Path, announced: Announced, tally: Tally) -> None:
    """A file that its first users may not have finished making."""
    tally.count["unfinished"] += not path.exists() or path.stat().st_size == 0
    try:
        tally.add_ledger(path, announced)
    except EdgewiseError as error:
        announced.failed.append(f"{path.name}: {error}")
    for each in path.parent.glob(f"{path.name}*"):
        each.unlink()


@contextlib.contextmanager
def _nursery(folder: Path, url: str, seed: int) -> Iterator[tuple[IO[str], IO[str]]]:
    words = ("-m", "edgewise_bench.campaigns.killed", str(folder), url, str(seed))
    process = subprocess.Popen(
        python_child(*words),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C at a terminal is for us, and not for it
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        yield process.stdin, process.stdout
    finally:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(START_S)
        process.kill()
        process.wait()
        process.stdout.close()


def _hear(lines: IO[str], round_name: str, announced: Announced) -> None:
    """Everything that is announced until the round is over."""
    end = f"over {round_name}\n"
    for line in lines:
        if line == end:
            return
        announced.hear(line.rstrip("\n"))
    raise OSError("the process that forks the others ended")
