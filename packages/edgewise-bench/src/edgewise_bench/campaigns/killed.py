"""`python -m edgewise_bench.campaigns.killed FOLDER CLOUD SEED`: forks processes and kills them.

It imports everything once and forks, so that a round costs milliseconds. Every line on standard
input, `HOW NUMBER`, is one round; `over NUMBER` answers it. The children announce each step on
standard output before and after they take it; the lines survive them. HOW is one of

  timer   spends on one ledger; SIGKILL from outside, a random moment after a random announcement
  crowd   the same, three of them at once
  step    SIGKILL from inside SQLite, after a random number of its virtual machine's steps, so that
          half-done transactions are common
  fresh   as timer, but sooner and two at once on a new file (fresh-NUMBER), so that the making of
          the file and its tables is hit
  engine  a whole engine that hands off to the loopback cloud; SIGKILL at a random moment

Counting announcements, not only time, keeps the kills spread out on a slow machine too.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from edgewise import Engine, Settings
from edgewise.cloud.provider import ProviderConfig
from edgewise.record.ledger import Ledger
from edgewise.testing import ScriptedBackend
from edgewise.types.messages import Message, Request
from edgewise.types.replies import Attempt, Decision, Reply

LEDGER = "spent.sqlite3"
PAYEE = ProviderConfig(name="openai", protocol="openai", model="gpt-5-nano", key="none")
CHILDREN: Mapping[str, int] = {"timer": 1, "crowd": 3, "step": 1, "fresh": 2, "engine": 1}


def announce(*words: object) -> None:
    # One write each: shorter than a pipe's atomic size, so lines of children do not mix.
    os.write(1, (" ".join(str(word) for word in words) + "\n").encode())


def spend_for_ever(ledger: Ledger, name: str, chance: random.Random, ticks: int) -> None:
    """Reserve, ask, settle, record; again and again."""

    def announce_and_tick(*words: object) -> None:
        announce(*words)
        os.write(ticks, b".")

    for index in itertools.count():
        request = Request(id=f"{name}-{index}", messages=(Message("user", "What is it?"),))
        reserved = chance.randint(1, 1_000)
        cost = chance.randint(0, reserved)
        attempt_id = f"{request.id}/0"
        announce_and_tick("reserving", attempt_id, reserved, cost)
        ledger.reserve(attempt_id, request, PAYEE, reserved)
        announce_and_tick("reserved", attempt_id)
        time.sleep(chance.choice([0.0, 0.0, 0.001]))  # the call itself
        ledger.settle(attempt_id, _paid(cost))
        announce_and_tick("settled", attempt_id)
        ledger.record(request, _reply(request.id))
        announce_and_tick("recorded", request.id)


def ask_for_ever(url: str, folder: Path, requests: int | None = None) -> None:
    """An engine whose device is in doubt, so that every request is handed off."""
    settings = Settings.load(
        {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": url},
        data_dir=folder,
        config_dir=folder / "config",
        budgets=("$100/day",),
    )
    backend = ScriptedBackend.doubtful("I have no idea what that could possibly be, none at all")
    with Engine(settings, backend=backend) as engine:
        for _ in itertools.count() if requests is None else range(requests):
            announce("replied", engine.complete("Where is it?").id)


def _paid(cost: int) -> Attempt:
    return Attempt(
        place="cloud",
        backend=PAYEE.name,
        model=PAYEE.model,
        outcome="answered",
        total_ms=800.0,
        input_tokens=12,
        output_tokens=7,
        cost_microdollars=cost,
    )


def _reply(request_id: str) -> Reply:
    decision = Decision(
        policy="prefer_local", handoff="automatic", code="handoff_low_confidence", reason="doubt"
    )
    return Reply(id=request_id, text="Paris", source="cloud", decision=decision)


class Mortal(Ledger):
    """A ledger that can be told to kill its process in the middle of a transaction."""

    def die_inside(self, steps: int) -> None:
        countdown = itertools.count(steps, -1)

        def tick() -> int:
            if next(countdown) <= 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return 0

        with self._store.reading() as connection:
            connection.set_progress_handler(tick, 10)


class Nursery:
    """Forks children for a round, and kills each when its time has come."""

    def __init__(self, folder: Path, cloud: str, seed: str) -> None:
        self._folder, self._cloud, self._seed = folder, cloud, seed

    def run_round(self, how: str, number: int) -> None:
        chance = random.Random(f"{self._seed}-{number}")
        running = [self._fork(how, f"{number}-{which}") for which in range(CHILDREN[how])]
        for pid, heard in running:
            if how != "step":  # that one kills itself
                self._wait(how, chance, heard)
                os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(heard)

    def _wait(self, how: str, chance: random.Random, heard: int) -> None:
        if how == "engine":
            time.sleep(chance.uniform(0.0, 0.2))
            return
        for _ in range(chance.choice([0, 0, 2]) if how == "fresh" else chance.randint(1, 24)):
            os.read(heard, 1)
        time.sleep(chance.choice([0.0, chance.uniform(0.0, 0.006)]))

    def _fork(self, how: str, name: str) -> tuple[int, int]:
        heard, ticks = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                self._work(how, name, ticks)
            finally:
                # Reached only when something raised: a child never ends by itself.
                announce("failed", name, repr(sys.exc_info()[1]).replace("\n", " ")[:300])
                os._exit(1)
        os.close(ticks)
        return pid, heard

    def _work(self, how: str, name: str, ticks: int) -> None:
        if how == "engine":
            ask_for_ever(self._cloud, self._folder)
        chance = random.Random(f"{self._seed}-{name}")
        file = f"fresh-{name.partition('-')[0]}" if how == "fresh" else LEDGER
        ledger = Mortal(self._folder / file, busy_s=60.0)
        if how == "step":
            ledger.die_inside(chance.randint(0, 700))
        spend_for_ever(ledger, name, chance, ticks)


def main() -> None:
    folder, cloud, seed = Path(sys.argv[1]), *sys.argv[2:4]
    ask_for_ever(cloud, folder, requests=1)  # loads every module, so that a fork starts at once
    announce("over", "start")
    run: Callable[[str, int], None] = Nursery(folder, cloud, seed).run_round
    for line in sys.stdin:
        how, number = line.split()
        run(how, int(number))
        announce("over", number)


if __name__ == "__main__":
    main()
