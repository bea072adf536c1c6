"""Forks children that spend on one ledger and die at a moment nobody chose; run by test_kills.

Usage: killed_child.py LEDGER SEED ROUNDS CHILDREN HOW

The script imports the ledger once and forks, so that a round costs milliseconds. Each child
announces every step on standard output before and after it takes it; the lines survive it.
HOW is one of
  timer  SIGKILL from outside, a random moment after a random number of announcements
  step   SIGKILL from inside SQLite, after a random number of its virtual machine's steps, so that
         half-done transactions are common
  fresh  as timer, but sooner and on a new file (LEDGER-0, LEDGER-1, …) each round, so that the
         making of the file and its tables is hit

Counting announcements, not only time, keeps the kills spread out on a slow machine too.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import sys
import time
from pathlib import Path

from edgewise.record.ledger import Ledger
from tests.record.ledger_cases import PROVIDER, asking, cloud_attempt, replying


def announce(*words: object) -> None:
    # One write each: shorter than a pipe's atomic size, so lines of children do not mix.
    os.write(1, (" ".join(str(word) for word in words) + "\n").encode())


def spend_for_ever(ledger: Ledger, name: str, chance: random.Random, ticks: int) -> None:
    def announce_and_tick(*words: object) -> None:
        announce(*words)
        os.write(ticks, b".")

    for index in itertools.count():
        request = asking(f"{name}-{index}")
        reserved = chance.randint(1, 1_000)
        cost = chance.randint(0, reserved)
        attempt_id = f"{request.id}/0"
        announce_and_tick("reserving", attempt_id, reserved, cost)
        ledger.reserve(attempt_id, request, PROVIDER, reserved)
        announce_and_tick("reserved", attempt_id)
        time.sleep(chance.choice([0.0, 0.0, 0.001]))  # the call itself
        ledger.settle(attempt_id, cloud_attempt(cost))
        announce_and_tick("settled", attempt_id)
        ledger.record(request, replying(request.id))
        announce_and_tick("recorded", request.id)


def die_inside(ledger: Ledger, steps: int) -> None:
    countdown = itertools.count(steps, -1)

    def tick() -> int:
        if next(countdown) <= 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return 0

    with ledger._store.reading() as connection:
        connection.set_progress_handler(tick, 10)


def child(path: Path, name: str, seed: str, how: str, ticks: int) -> None:
    chance = random.Random(seed)
    ledger = Ledger(path, busy_s=30.0)
    if how == "step":
        die_inside(ledger, chance.randint(0, 700))
    spend_for_ever(ledger, name, chance, ticks)


def run_round(path: Path, number: int, seed: str, children: int, how: str) -> None:
    chance = random.Random(f"{seed}-{number}")
    running = []
    for which in range(children):
        heard, ticks = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                child(path, f"{number}-{which}", f"{seed}-{number}-{which}", how, ticks)
            finally:
                # Reached only when the ledger raised: a child never ends by itself.
                announce("failed", number, which, repr(sys.exc_info()[1]).replace("\n", " "))
                os._exit(1)
        os.close(ticks)
        running.append((pid, heard))
    for pid, heard in running:
        if how != "step":
            for _ in range(chance.choice([0, 0, 2]) if how == "fresh" else chance.randint(1, 24)):
                os.read(heard, 1)
            time.sleep(chance.choice([0.0, chance.uniform(0.0, 0.006)]))
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(heard)


def main() -> None:
    path, seed, rounds, children, how = sys.argv[1:]
    for number in range(int(rounds)):
        file = f"{path}-{number}" if how == "fresh" else path
        run_round(Path(file), number, seed, int(children), how)


if __name__ == "__main__":
    main()
