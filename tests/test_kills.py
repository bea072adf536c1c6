"""Killed at random points, an engine leaves exactly one settled row for every cloud attempt."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from edgewise.record.ledger import Ledger
from edgewise.testing import Answer, LoopbackCloud
from tests.campaigns import rounds

KILLS = rounds(200)
SEED = 20261115


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the killed processes are forked")
def test_every_cloud_attempt_has_one_settled_row_whenever_the_process_dies(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    with LoopbackCloud() as cloud:
        cloud.always(Answer(text="The cloud knows it very well.", delay_between_s=0.002))
        script = Path(__file__).with_name("killed_engine.py")
        with subprocess.Popen(
            [sys.executable, "-P", str(script), cloud.openai_url, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as nursery:
            assert nursery.stdin is not None and nursery.stdout is not None
            for _ in range(KILLS):
                nursery.stdin.write("go\n")
                nursery.stdin.flush()
                child = int(nursery.stdout.readline())
                time.sleep(chance.uniform(0.0, 0.25))
                os.kill(child, signal.SIGKILL)
                assert nursery.stdout.readline() == "gone\n"
            nursery.stdin.close()
        seen = {
            request.headers["x-client-request-id"].rpartition(".")[0] for request in cloud.requests
        }
    assert len(seen) > KILLS / 4, "the kills came after calls had begun"
    ledger = Ledger(tmp_path / "ledger.sqlite3")
    ledger.sweep(now=time.time() + 3600)
    assert ledger.verify() == []
    ledger.close()
    with sqlite3.connect(tmp_path / "ledger.sqlite3") as connection:
        rows = connection.execute(
            "SELECT id, state, outcome FROM attempts WHERE place = 'cloud'"
        ).fetchall()
        broken = connection.execute("PRAGMA integrity_check").fetchone()[0]
    connection.close()
    states = {row[0]: (row[1], row[2]) for row in rows}
    assert broken == "ok"
    assert len(rows) == len(states), "one row an attempt"
    assert seen <= set(states), "what was sent was reserved before"
    assert {state for state, _ in states.values()} == {"settled"}, "no reservation leaks"
    outcomes = {outcome for _, outcome in states.values()}
    assert "answered" in outcomes and "abandoned" in outcomes, "kills hit before and after the end"
