"""A team's money, names and figures, in a small form of `edgewise bench team`."""

from __future__ import annotations

from pathlib import Path

from edgewise_bench.campaigns.team import FORGED, PATHS, overview, race, spoof


def test_racing_calls_pass_no_cap_and_are_refused_only_by_one(tmp_path: Path) -> None:
    found = race(tmp_path / "race", people=4, calls=120, seed=1)
    assert found["cap_off_microdollars"] == 0
    assert found["calls_paid"] + found["calls_refused"] == found["calls"] == 120
    assert found["calls_refused"] > 0, "the caps were reached"


def test_no_forged_name_is_counted(tmp_path: Path) -> None:
    found = spoof(tmp_path)
    assert found["spoofed_headers"] == 3 * len(PATHS) * len(FORGED)
    assert found["spoofed_headers_accepted"] == 0


def test_a_ledger_is_looked_at_while_streams_run(tmp_path: Path) -> None:
    found = overview(tmp_path, rows=500, looks=2, seed=1)
    assert found["streams"] > 0 and found["streams_broken"] == 0
    assert found["overview_ms_p95"] > 0
