"""`edgewise ledger`: what was asked, as a page and as JSON."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from edgewise import Settings, parts
from edgewise.monitor.drift import DriftWatch
from edgewise.testing import Answer, LoopbackCloud, Status
from edgewise.types.replies import Attempt
from tests.cli.conftest import Run, Terminal
from tests.monitor.test_drift import EVENLY, LOW, NAME, record, write_calibration
from tests.record.ledger_cases import asking, replying
from tests.record.test_audits import AUDIT


@pytest.fixture
def some_requests(run: Run, cloud: LoopbackCloud) -> list[str]:
    """Two answers and a failure, newest last; their ids."""
    cloud.script(
        Answer(text="One.", input_tokens=1000, output_tokens=500), "Two.", Status(400, message="no")
    )
    ids = [run("ask", "--cloud", "--json", word).json["id"] for word in ("one", "two")]
    assert run("ask", "--cloud", "three").code == 4
    return ids


def test_an_empty_ledger_says_so(run: Run) -> None:
    assert run("ledger").out == "Nothing asked yet.\n"
    assert run("ledger", "--last", "3").out == "Nothing asked yet.\n"
    assert run("ledger", "--since", "1h").out == "Nothing asked since then.\n"
    assert run("ledger", "--json").json["requests"] == 0
    assert run("ledger", "--last", "3", "--json").json == []


def test_the_page_adds_up(run: Run, some_requests: list[str]) -> None:
    lines = run("ledger").out.splitlines()
    assert lines[0] == "3 requests · 0% kept on the device · 0 degraded · 1 failed"
    assert lines[1].startswith("spent $0.00")
    assert "avoided against cloud-only $0" in lines[1]
    assert lines[2].split() == [
        "source",
        "answers",
        "first",
        "text",
        "p50",
        "p99",
        "whole",
        "p50",
        "p90",
        "p99",
    ]
    assert lines[3].split()[:2] == ["cloud", "2"]
    assert "reasons: policy_cloud_only 2" in lines
    assert "failed because: cloud_rejected 1" in lines
    assert any(line.startswith("openai: 3 calls, 1 failed, $0.00") for line in lines)


def test_sound_is_shown_only_where_there_is_some(run: Run, some_requests: list[str]) -> None:
    first, _ = some_requests
    assert "sound" not in run("ledger").out
    assert "audio_seconds" not in run("ledger", "--request", first).out
    heard = Attempt(
        place="cloud",
        backend="openai",
        model="gpt-transcribe",
        outcome="answered",
        audio_seconds=12.25,
        cost_microdollars=919,
    )
    book = parts.open_ledger(Settings.load())
    book.settle(f"{first}/1", heard)
    book.close()
    assert any(line.endswith(", 12.2 s of sound") for line in run("ledger").out.splitlines())
    assert "  audio_seconds          12.250\n" in run("ledger", "--request", first).out
    assert run("ledger", "--json").json["providers"]["openai"]["audio_seconds"] == 12.25


def test_json_is_the_whole_report(run: Run, some_requests: list[str]) -> None:
    report = run("ledger", "--json").json
    assert (report["requests"], report["failed"]) == (3, 1)
    assert report["by_source"] == {"cloud": 2, "none": 1}
    assert report["spent_microdollars"] > 0
    assert report["total_ms"]["cloud"]["count"] == 2
    assert report["providers"]["openai"]["attempts"] == 3


def test_the_last_requests_come_newest_first(run: Run, some_requests: list[str]) -> None:
    rows = run("ledger", "--last", "2", "--json").json
    assert [row["error_code"] for row in rows] == ["cloud_rejected", ""]
    assert rows[1]["id"] == some_requests[1]
    header, failed, answered = run("ledger", "--last", "2").out.splitlines()
    assert header.split() == ["when", "id", "source", "conf.", "time", "cost", "why"]
    assert failed.rstrip().endswith("cloud_rejected")
    assert some_requests[1][:8] in answered
    assert "policy_cloud_only" in answered


def test_a_narrow_terminal_shows_the_whole_reason(some_requests: list[str]) -> None:
    terminal = Terminal("ledger", "--last", "2", columns=60)
    assert terminal.finish() == 0
    header, failed, answered = terminal.text.splitlines()
    assert header.split() == ["id", "source", "conf.", "cost", "why"]
    assert failed.rstrip().endswith("cloud_rejected")
    assert answered.rstrip().endswith("policy_cloud_only")


def test_one_request_is_found_by_the_beginning_of_its_id(
    run: Run, some_requests: list[str]
) -> None:
    first, _ = some_requests
    entry = run("ledger", "--request", first, "--json").json
    assert entry["id"] == first
    assert [attempt["backend"] for attempt in entry["attempts"]] == ["openai"]
    words = run("ledger", "--request", first[:8]).out
    assert f"id                     {first}\n" in words
    assert "decision_code          policy_cloud_only\n" in words
    assert "attempt 1: cloud openai\n" in words
    assert "  output_tokens          500\n" in words


def test_an_id_that_is_nobodys_or_many_peoples_is_an_error(
    run: Run, some_requests: list[str]
) -> None:
    missing = run("ledger", "--request", "zzz", "--json")
    assert (missing.code, missing.json["code"]) == (1, "failed")
    assert "no request 'zzz'" in missing.json["error"]
    assert run("ledger", "--request", "").code == 1
    for letter in "0123456789abcdef":  # of three ids, two may begin alike
        ran = run("ledger", "--request", letter)
        assert ran.code == 0 or "no request" in ran.err or "requests begin with" in ran.err


def test_a_budget_is_shown_in_words(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGEWISE_BUDGETS", "$3/day, app: $1/month")
    out = run("ledger").out
    assert "per day: $3.00 left\n" in out
    assert "per month for key 'app': $1.00 left\n" in out


@pytest.mark.parametrize(
    "words",
    [("--since", "yesterday"), ("--last", "0"), ("--since", "1d", "--last", "2")],
    ids=" ".join,
)
def test_wrong_usage_is_refused(run: Run, words: tuple[str, ...]) -> None:
    assert run("ledger", *words).code == 2
    assert run("ledger", *words, "--json").json["success"] is False


def test_audits_are_told_beside_what_was_saved(run: Run) -> None:
    book = parts.open_ledger(Settings.load())
    for number in range(20):
        book.record(asking(f"r{number}"), replying(f"r{number}"))
        book.record_audit(replace(AUDIT, id=f"r{number}", agree=float(number > 1)))
    book.close()
    shown = run("ledger")
    assert "20 answers audited for $0" in shown.out
    assert "otherwise in 10% (3% to 30%)" in shown.out
    assert "of 20 kept answers about 2 (1 to 6) may be wrong" in shown.out
    audits = run("ledger", "--json").json["audits"]
    assert (audits["all"]["count"], audits["all"]["wrong"], audits["kept"]) == (20, 2, 20)


def test_nothing_is_said_of_audits_that_nobody_asked_for(run: Run) -> None:
    assert "audit" not in run("ledger").out


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("EDGEWISE_CALIBRATION", str(write_calibration(tmp_path)))
    return Settings.load()


def used(settings: Settings, confidences: list[float]) -> None:
    book = parts.open_ledger(settings)
    record(book, confidences)
    DriftWatch(settings, book).check("chat", NAME)
    book.close()


def test_the_doctor_says_that_there_is_none(run: Run, settings: Settings) -> None:
    used(settings, EVENLY)
    (found,) = [each for each in run("doctor", "--quick", "--json").json if each["what"] == "drift"]
    assert found["state"] == "ok"
    assert NAME in found["detail"]
    assert "drift" not in run("ledger").out
    assert run("ledger", "--json").json["drift"] == []


def test_drift_is_in_the_doctors_findings_and_on_the_ledgers_page(
    run: Run, settings: Settings
) -> None:
    used(settings, LOW)
    (found,) = [each for each in run("doctor", "--quick", "--json").json if each["what"] == "drift"]
    assert found["state"] == "note"
    assert "calibrate" in found["fix"]
    (line,) = [line for line in run("ledger").out.splitlines() if line.startswith("drift")]
    assert line.startswith("drift (since ")
    assert "confidences lie 0.70 from the calibration's" in line
    (told,) = run("ledger", "--json").json["drift"]
    assert (told["calibration"], told["rows"]) == (NAME, 120)


def test_what_was_never_used_enough_is_not_mentioned(run: Run, settings: Settings) -> None:
    used(settings, EVENLY[:10])
    findings = run("doctor", "--quick", "--json").json
    assert not [each for each in findings if each["what"] == "drift"]


def test_a_lost_ledger_is_said_everywhere_and_accepted_once(run: Run) -> None:
    path = Settings.load().ledger_path
    assert run("ledger", "--accept").out == "No ledger was lost.\n"
    path.write_bytes(b"")
    found = next(
        each for each in run("doctor", "--quick", "--json").json if each["what"] == "ledger"
    )
    assert (found["state"], found["fix"]) == ("broken", "edgewise ledger --accept")
    assert "--accept" in run("ledger").out
    lost = run("ledger", "--json").json["lost"]
    assert "was found empty" in lost
    assert run("ledger", "--accept", "--json").json == {"accepted": True, "lost": lost}
    assert run("ledger", "--accept", "--json").json == {"accepted": False, "lost": ""}
    assert run("ledger", "--accept", "--last", "3").code == 2


def test_an_answer_that_is_not_recorded_says_so(
    run: Run, cloud: LoopbackCloud, default_model: object
) -> None:
    path = Settings.load().ledger_path
    path.parent.mkdir(parents=True)
    path.write_bytes(b"no ledger at all " * 99)
    ran = run("ask", "--local", "--max-tokens", "2", "Hello?")
    assert (ran.code, "not recorded (edgewise doctor)" in ran.err) == (0, True), ran
    assert run("ask", "--local", "--max-tokens", "2", "--json", "Hello?").json["recorded"] is False


AWAY = "postgresql://somebody:hidden-word@127.0.0.1:1/none"


def test_a_database_that_is_away_is_said_and_its_password_is_not(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGEWISE_LEDGER", AWAY)
    told = run("ledger")
    assert (
        "this machine alone: " in told.out and "postgresql://somebody@127.0.0.1:1/none" in told.out
    )
    assert "127.0.0.1:1" in run("ledger", "--json").json["away"]
    found = run("doctor", "--json")
    assert "wait in" in found.out and "hidden-word" not in told.out + found.out


def test_a_lead_sees_which_app_spends_what(run: Run, cloud: LoopbackCloud) -> None:
    cloud.script(Answer(text="One.", input_tokens=1000, output_tokens=500))
    book = parts.open_ledger(Settings.load())
    for number in range(3):
        book.record(asking(f"w{number}", budget_key="wiki"), replying(f"w{number}"))
    book.record(asking("b", budget_key="bot", user="=ann"), replying("b", degraded=True))
    book.record_failure(asking("f", budget_key="bot", user="=ann"), TimeoutError("late"), [])
    book.close()
    assert run("ask", "--cloud", "--json", "one").code == 0
    rows = {row["key"]: row for row in run("ledger", "--by", "key", "--json").json}
    assert (rows["wiki"]["requests"], rows["wiki"]["kept"], rows["wiki"]["doubtful"]) == (3, 3, 0)
    assert (rows["bot"]["requests"], rows["bot"]["doubtful"]) == (2, 1)
    assert rows[""]["spent_microdollars"] > 0
    lines = run("ledger", "--by", "key", "--every", "week").out.splitlines()
    assert lines[0].split()[:4] == ["when", "key", "requests", "kept"]
    assert any("wiki" in line and "3 (100%)" in line for line in lines)
    assert any("bot" in line and "1 (100%)" in line for line in lines), "of what was answered"
    written = run("ledger", "--by", "user", "--csv").out.splitlines()
    assert written[0].startswith("period,key,user,group,requests,kept,doubtful,cloud,failed,spent")
    assert any(line.startswith(",bot,'=ann,,2,1,1,0,1,0,") for line in written), "no formula"


def test_a_table_by_key_goes_with_a_time_and_nothing_else(run: Run) -> None:
    assert run("ledger", "--by", "key", "--since", "7d").out == "Nothing asked yet.\n"
    assert run("ledger", "--by", "key", "--last", "3").code == 2
    assert run("ledger", "--csv").code == 2


def test_old_requests_are_deleted_on_demand(run: Run) -> None:
    book = parts.open_ledger(Settings.load())
    book.record(asking("r"), replying("r"))
    book.close()
    assert run("ledger", "prune", "--keep", "1h").code == 2
    assert run("ledger", "prune", "--keep", "90d", "--json").json["deleted"] == 0
    assert run("ledger", "prune", "--keep", "2020-01-01").out.startswith("Deleted 0 requests")
    assert len(run("ledger", "--last", "3", "--json").json) == 1
