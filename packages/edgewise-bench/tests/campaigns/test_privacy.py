"""`edgewise bench privacy` in its short form, and that it would see a leak, however written."""

from __future__ import annotations

import base64
import json
import random
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.campaigns import rounds

from edgewise.cloud.redact import Redactor
from edgewise_bench.campaigns.privacy import (
    LIBRARY,
    OPTIONS,
    SENT,
    TARGETS,
    WAYS,
    Canary,
    cases,
    measure_privacy,
)
from edgewise_bench.commands import bench
from edgewise_bench.scorecard import reached


def test_nothing_private_leaves_and_the_control_does() -> None:
    count = rounds(150)
    arguments = ["privacy", "--requests", str(count), "--seed", "4", "--json"]
    result = CliRunner().invoke(bench, arguments, catch_exceptions=False)
    card = json.loads(result.stdout)
    assert card["command"].startswith(f"edgewise bench privacy --requests {count} --seed 4")
    metrics = card["metrics"]
    missed = {name: metrics[name] for name in TARGETS if not reached(name, metrics[name], TARGETS)}
    assert missed == {}, result.stderr
    assert metrics["requests"] == count and metrics["control_leaks"] > count / 2


def test_a_leak_is_counted_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Redactor, "closed", lambda self, request: None)
    told: list[str] = []
    metrics = measure_privacy(tmp_path, 60, 2, tell=told.append)
    assert metrics["private_bytes_out"] > 0
    assert any("left" in words for words in told)


def test_every_door_is_asked_in_every_way_with_canaries_of_their_own() -> None:
    pairs = len(LIBRARY) * len(OPTIONS) - 1 + len(SENT) * len(WAYS)
    drawn = list(cases(3 * pairs, seed=1))
    assert len({(case.door, case.way) for case in drawn}) == pairs
    assert len({case.canary for case in drawn}) == len(drawn)
    assert drawn[:9] == list(cases(9, seed=1)) != list(cases(9, seed=2))
    seen = {(case.door, case.thing) for case in drawn}
    assert seen == {
        (door, thing) for door, (_, things) in {**LIBRARY, **SENT}.items() for thing in things
    }


@pytest.mark.parametrize("before", ["", "a", "ab", "abc"])
def test_a_canary_is_found_however_it_is_written(before: str) -> None:
    canary = Canary.drawn(random.Random(0))
    text = f"{before}{canary}."
    coded = base64.b64encode(text.encode())
    for written in (text.encode(), json.dumps({"a": text}).encode(), coded):
        assert canary.bytes_in(b"..." + written + b"...") > 0
        assert canary.bytes_in(written, card_only=True) > 0
    assert canary.bytes_in(str(Canary.drawn(random.Random(1))).encode()) == 0
