"""`edgewise feedback`, and where the command line says what verdicts prove."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from edgewise import Engine, Settings
from edgewise.testing import ScriptedBackend
from tests.cli.conftest import Run
from tests.test_stated_risk import CHAT


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Forty requests that a calibrated model has answered."""
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(CHAT))
    monkeypatch.setenv("EDGEWISE_CALIBRATION", str(path))
    backend = ScriptedBackend.confident("It is in Paris I think so")
    with Engine(Settings.load(), backend=backend) as engine:
        return [engine.complete("Where?", policy="local_only").id for _ in range(40)]


def test_verdicts_one_by_one_until_something_is_proven(run: Run, asked: list[str]) -> None:
    first = run("feedback", asked[0], "right")
    assert first.code == 0
    assert first.out.startswith(f"{asked[0]}: right; with ")
    assert (
        "more right verdicts 10 % can be promised here (on answers from 0.90 on; others do not "
        "count yet); today 100 % of these requests stay on the device" in first.out
    )
    for name in asked[1:-1]:
        assert run("feedback", name, "right", "--json").code == 0
    told = run("feedback", asked[-1], "right", "--json").json
    assert (told["id"], told["right"], told["workload"]) == (asked[-1], True, "")
    assert told["outlook"]["verdicts"] == 40 and told["outlook"]["missing"] == 0
    proven = "10 % can be promised here: 40 verdicts prove it from 0.90 on; "
    proven += "today 100 % of these requests stay on the device"
    assert told["outlook"]["words"] == proven
    assert run("ledger", "--verdicts").out == f"requests without a key, chat: {proven}\n"
    assert run("ledger", "--verdicts", "--json").json == [told["outlook"]]
    assert f"your own verdicts: {proven}" in run("why", "--last").out
    assert run("why", "--last", "--json").json["outlook"] == told["outlook"]
    findings = run("doctor", "--quick", "--json").json
    assert [each["detail"] for each in findings if each["what"] == "your own"] == [
        f"requests without a key, chat: {proven}"
    ]


def test_two_models_of_one_workload_are_told_apart(
    run: Run, asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "other.json"
    path.write_text(json.dumps(CHAT | {"name": "other"}))
    monkeypatch.setenv("EDGEWISE_CALIBRATION", str(path))
    with Engine(Settings.load(), backend=ScriptedBackend.confident("In Paris.")) as engine:
        engine.complete("Where?", policy="local_only")
    one, other = run("ledger", "--verdicts").out.splitlines()
    assert {each.rpartition(" (answers of ")[2] for each in (one, other)} == {
        "other)",
        f"{CHAT['name']})",
    }


def test_the_beginning_of_an_id_is_enough_and_what_cannot_be_meant_is_refused(
    run: Run, asked: list[str]
) -> None:
    assert run("feedback", asked[0][:10], "wrong", "--json").json["id"] == asked[0]
    assert run("feedback", asked[0], "perhaps").code == 2
    assert run("feedback", asked[0], "right", "--above", "0.8").code == 0
    refused = run("feedback", asked[0], "right", "--above", "1")
    assert refused.code == 2 and "above" in refused.err
    unknown = run("feedback", "nobody", "right")
    assert unknown.code == 1 and "no request 'nobody'" in unknown.err


def test_a_verdict_that_cannot_be_written_is_an_error(run: Run, asked: list[str]) -> None:
    with sqlite3.connect(Settings.load().ledger_path, isolation_level=None) as other:
        other.execute("DROP TABLE verdicts")
    other.close()
    failed = run("feedback", asked[0], "right")
    assert failed.code == 7 and "verdicts" in failed.err


def test_nothing_asked_says_so(run: Run) -> None:
    assert run("ledger", "--verdicts").out == "Nothing asked yet.\n"
    assert run("ledger", "--verdicts", "--json").json == []
