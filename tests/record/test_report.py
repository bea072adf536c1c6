"""The report: every figure against a ledger small enough to count by hand."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.errors import DoesNotFit, SettingsError
from edgewise.record.budget import Budget, BudgetState
from edgewise.record.ledger import Ledger
from edgewise.record.report import Percentiles, ProviderSpend, TokenCount, parse_since, percentile
from edgewise.types.replies import Usage
from tests.record.ledger_cases import (
    DAY,
    NOON,
    PROVIDER,
    TurnedClock,
    asking,
    cloud_attempt,
    local_attempt,
    replying,
)


@pytest.fixture
def clock() -> TurnedClock:
    return TurnedClock()


@pytest.fixture
def ledger(tmp_path: Path, clock: TurnedClock) -> Iterator[Ledger]:
    opened = Ledger(tmp_path / "ledger.db", budgets=[Budget(1_000, "day")], clock=clock)
    yield opened
    opened.close()


def record(ledger: Ledger, name: str, code: str, *, avoided: int = 0, **options: Any) -> None:
    reply = replying(name, **options)
    degraded_code = "budget_spent" if reply.degraded else ""
    decision = replace(reply.decision, code=code, degraded_code=degraded_code)
    ledger.record(
        asking(name), replace(reply, decision=decision), cost_avoided_microdollars=avoided
    )


def test_an_empty_ledger_has_an_empty_report(ledger: Ledger) -> None:
    report = ledger.report()
    assert (report.requests, report.spent_microdollars, report.avoided_microdollars) == (0, 0, 0)
    assert report.share_on_device is None
    assert report.total_ms == {}
    assert report.until == NOON
    assert ledger.recent() == []


def test_a_report_counts_every_figure(ledger: Ledger, clock: TurnedClock) -> None:
    for index, total_ms in enumerate((100.0, 200.0, 300.0)):
        record(ledger, f"kept{index}", "confident", avoided=10, total_ms=total_ms)
    record(ledger, "weak", "no_cloud", degraded=True, first_token_ms=None)
    handed_off = (local_attempt(outcome="handed_off"), cloud_attempt(40, cached_tokens=2))
    ledger.settle("cloud/0", handed_off[1])
    record(ledger, "cloud", "unsure", source="cloud", attempts=handed_off, total_ms=900.0)
    ledger.settle("cut/0", cloud_attempt(7, outcome="cloud_cut", estimated=True, backend="gemini"))
    ledger.record_failure(asking("cut"), DoesNotFit("too long"), ())
    record(ledger, "signalled", "unsure", source="none", cloud_handoff=True, attempts=())
    ledger.reserve("died/0", asking("died"), PROVIDER, 100)
    clock.now += 151
    ledger.settle("later/0", cloud_attempt(1, outcome="cancelled"))
    ledger.reserve("running/0", asking("running"), replace(PROVIDER, name="gemini"), 30)
    report = ledger.report()
    assert report.requests == 7
    assert report.failed == 1
    assert report.by_source == {"local": 4, "none": 2, "cloud": 1}
    assert report.share_on_device == 4 / 5
    assert report.degraded == 1
    assert report.spent_microdollars == 40 + 7 + 100 + 1
    assert report.estimated_microdollars == 7 + 100
    assert report.reserved_microdollars == 30
    assert report.avoided_microdollars == 30
    assert report.abandoned == 1
    assert report.tokens == {
        "cloud": TokenCount(input=36, output=21, cached=2),
        "local": TokenCount(input=60, output=25, cached=0),
    }
    assert report.total_ms == {
        "all": Percentiles(5, 210.0, 900.0, 900.0),
        "cloud": Percentiles(1, 900.0, 900.0, 900.0),
        "local": Percentiles(4, 200.0, 300.0, 300.0),
    }
    assert report.first_token_ms["local"] == Percentiles(3, 40.0, 40.0, 40.0)
    assert report.reasons == {"confident": 3, "unsure": 2, "no_cloud": 1}
    assert report.degraded_reasons == {"budget_spent": 1}
    assert report.failures == {"does_not_fit": 1}
    assert report.providers == {
        "gemini": ProviderSpend(attempts=1, failures=1, spent_microdollars=7),
        "openai": ProviderSpend(attempts=3, failures=1, spent_microdollars=141),
    }
    assert report.budgets == (BudgetState(Budget(1_000, "day"), 148, 30, 822, NOON + DAY / 2),)


def test_seconds_of_sound_are_added_up_per_provider_request_and_attempt(ledger: Ledger) -> None:
    heard = cloud_attempt(45, audio_seconds=12.5)
    for name in ("one", "two"):
        ledger.settle(f"{name}/0", heard)
        record(ledger, name, "unsure", attempts=(heard,), usage=Usage(audio_seconds=12.5))
    assert ledger.report().providers["openai"].audio_seconds == 25.0
    entry = ledger.get("two")
    assert entry is not None
    assert entry["audio_seconds"] == 12.5
    assert [attempt["audio_seconds"] for attempt in entry["attempts"]] == [12.5]


def test_a_request_that_failed_keeps_the_seconds_it_was_charged_for(ledger: Ledger) -> None:
    tried = (cloud_attempt(9, audio_seconds=3.0), cloud_attempt(0, outcome="cloud_cut"))
    ledger.record_failure(asking("cut"), DoesNotFit("too long"), tried)
    entry = ledger.get("cut")
    assert entry is not None and entry["audio_seconds"] == 3.0


def test_a_dead_calls_money_counts_as_spent_before_any_sweep(
    ledger: Ledger, clock: TurnedClock
) -> None:
    ledger.reserve("died/0", asking("died"), PROVIDER, 100)
    before = ledger.report()
    assert (before.spent_microdollars, before.reserved_microdollars) == (0, 100)
    assert (before.abandoned, before.providers) == (0, {})
    clock.now += 150
    unswept = ledger.report()
    ledger.sweep()
    swept = ledger.report()
    for report in (unswept, swept):
        assert (report.spent_microdollars, report.reserved_microdollars) == (100, 0)
        assert (report.estimated_microdollars, report.abandoned) == (100, 1)
        assert report.providers == {"openai": ProviderSpend(1, 1, 100)}


def test_a_report_leaves_out_what_came_before_its_time(ledger: Ledger, clock: TurnedClock) -> None:
    record(ledger, "old", "confident", avoided=10)
    ledger.settle("old/0", cloud_attempt(40))
    clock.now += 10
    record(ledger, "new", "fits_not", avoided=3)
    ledger.settle("new/0", cloud_attempt(5))
    report = ledger.report(since=NOON + 10)
    assert (report.since, report.until) == (NOON + 10, NOON + 10)
    assert (report.requests, report.reasons) == (1, {"fits_not": 1})
    assert (report.spent_microdollars, report.avoided_microdollars) == (5, 3)
    assert report.total_ms["all"].count == 1
    assert report.tokens["cloud"].input == 12
    assert report.budgets[0].spent == 45  # a budget's window is its own
    assert ledger.report(since=NOON + 10.001).requests == 0


def test_a_report_becomes_json(ledger: Ledger) -> None:
    record(ledger, "kept", "confident")
    ledger.settle("cloud/0", cloud_attempt(40))
    plain = json.loads(json.dumps(ledger.report().to_dict()))
    assert plain["by_source"] == {"local": 1}
    assert plain["total_ms"]["local"] == {"count": 1, "p50": 210.0, "p90": 210.0, "p99": 210.0}
    assert plain["providers"]["openai"]["spent_microdollars"] == 40
    assert plain["budgets"][0]["budget"] == {
        "limit_microdollars": 1_000,
        "window": "day",
        "key": "",
    }


def test_recent_requests_come_newest_first_and_without_texts(
    ledger: Ledger, clock: TurnedClock
) -> None:
    for name in ("a", "b", "c"):
        ledger.record(asking(name, store_text=True), replying(name))
    clock.now -= 5
    ledger.record(asking("early"), replying("early"))
    assert [row["id"] for row in ledger.recent()] == ["c", "b", "a", "early"]
    assert [row["id"] for row in ledger.recent(2)] == ["c", "b"]
    assert ledger.recent(-1) == []
    row = ledger.recent(1)[0]
    assert "prompt_text" not in row
    assert "reply_text" not in row
    assert row["features"] == {"mean_logprob": -0.1}
    assert row["private"] is False


@given(st.lists(st.floats(0, 1e6), min_size=1), st.sampled_from([50, 90, 99]))
def test_a_percentile_is_a_value_that_occurred_and_splits_the_list(
    values: list[float], percent: int
) -> None:
    found = percentile(sorted(values), percent)
    assert found in values
    at_most = sum(value <= found for value in values)
    below = sum(value < found for value in values)
    assert at_most >= math.ceil(len(values) * percent / 100) > below


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("90s", NOON - 90),
        ("30m", NOON - 1_800),
        ("24h", NOON - DAY),
        (" 7d ", NOON - 7 * DAY),
        ("2w", NOON - 14 * DAY),
        ("2026-11-01", datetime(2026, 11, 1, tzinfo=UTC).timestamp()),
        ("2026-11-01T06:30", datetime(2026, 11, 1, 6, 30, tzinfo=UTC).timestamp()),
        ("2026-11-01T06:30:00+02:00", datetime(2026, 11, 1, 4, 30, tzinfo=UTC).timestamp()),
    ],
)
def test_since_is_a_span_or_a_date_in_utc(text: str, moment: float) -> None:
    assert parse_since(text, now=NOON) == moment


def test_since_counts_from_now_unless_told() -> None:
    assert parse_since("1h") > NOON - 20 * 366 * DAY


@pytest.mark.parametrize(
    "text", ["", "yesterday", "7", "-7d", "7 days", "2026-13-01", "1.5h", "9999999d", "٣d"]
)
def test_a_since_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="cannot read the time"):
        parse_since(text, now=NOON)
