"""A process killed at any instant loses no settled row, and no reservation leaks."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from edgewise.record.ledger import Ledger

REPOSITORY = Path(__file__).parents[2]
NEXT_YEAR = 4e9


@dataclass
class Announced:
    """What the children said before they died."""

    amounts: dict[str, tuple[int, int]] = field(default_factory=dict)  # id → reserved, cost
    reserved: set[str] = field(default_factory=set)
    settled: set[str] = field(default_factory=set)
    recorded: set[str] = field(default_factory=set)

    def of_round(self, number: int) -> Announced:
        mine = f"{number}-"
        return Announced(
            {name: both for name, both in self.amounts.items() if name.startswith(mine)},
            {name for name in self.reserved if name.startswith(mine)},
            {name for name in self.settled if name.startswith(mine)},
            {name for name in self.recorded if name.startswith(mine)},
        )


def read_announcements(text: str) -> Announced:
    announced = Announced()
    for line in text.splitlines():
        word, name, *rest = line.split(" ")
        assert word != "failed", line
        if word == "reserving":
            announced.amounts[name] = (int(rest[0]), int(rest[1]))
        else:
            {
                "reserved": announced.reserved,
                "settled": announced.settled,
                "recorded": announced.recorded,
            }[word].add(name)
    return announced


def kill_many(path: Path, *, rounds: int, children: int, how: str) -> Announced:
    script = [sys.executable, str(Path(__file__).with_name("killed_child.py")), str(path)]
    nursery = subprocess.run(
        [*script, "2026", str(rounds), str(children), how],
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert nursery.returncode == 0, nursery.stderr
    return read_announcements(nursery.stdout)


def check_attempts(path: Path, announced: Announced) -> Counter[str]:
    """Hold every row against what was announced; says how the attempts ended."""
    connection = sqlite3.connect(path)
    found = connection.execute("SELECT id, state, outcome, cost_microdollars FROM attempts")
    rows = {row[0]: row[1:] for row in found if "/local-" not in row[0]}
    recorded = {name for (name,) in connection.execute("SELECT id FROM requests")}
    connection.close()
    assert announced.reserved <= rows.keys() <= announced.amounts.keys()
    for name, (state, outcome, cost) in rows.items():
        reserved, actual = announced.amounts[name]
        assert state == "settled"
        if name in announced.settled:
            assert (outcome, cost) == ("answered", actual), name
        else:
            # Killed between the commit and its announcement, or before the commit.
            assert (outcome, cost) in (("answered", actual), ("abandoned", reserved)), name
    assert announced.recorded <= recorded
    return Counter(outcome for _, outcome, _ in rows.values())


@pytest.mark.parametrize(
    ("how", "rounds", "children"), [("timer", 200, 1), ("timer", 30, 3), ("step", 200, 1)]
)
def test_every_attempt_of_a_killed_process_has_exactly_one_settled_row(
    tmp_path: Path, how: str, rounds: int, children: int
) -> None:
    path = tmp_path / "ledger.db"
    announced = kill_many(path, rounds=rounds, children=children, how=how)
    ledger = Ledger(path)
    assert ledger.verify() == []
    left_open = ledger.report().reserved_microdollars
    swept = ledger.sweep(now=NEXT_YEAR)
    outcomes = check_attempts(path, announced)
    report = ledger.report()
    assert report.reserved_microdollars == 0
    assert outcomes["abandoned"] == swept == report.abandoned
    assert ledger.verify() == []
    ledger.close()
    # The kills did hit: some calls were paid for, some were cut off with money set aside.
    assert outcomes["answered"] > rounds
    assert swept > rounds // 20
    assert left_open > 0


def test_a_ledger_whose_first_user_was_killed_while_making_it_is_sound(tmp_path: Path) -> None:
    rounds = 50
    announced = kill_many(tmp_path / "ledger", rounds=rounds, children=2, how="fresh")
    unfinished = 0
    for number in range(rounds):
        path = tmp_path / f"ledger-{number}"
        unfinished += not path.exists() or path.stat().st_size == 0
        ledger = Ledger(path)
        ledger.sweep(now=NEXT_YEAR)
        assert ledger.verify() == []
        ledger.close()
        check_attempts(path, announced.of_round(number))
    # Some died before there was a table, some after.
    assert 0 < unfinished < rounds
