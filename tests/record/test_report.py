"""Reading the ledger: reports, history, and the monitors' queries."""

from __future__ import annotations

import contextlib
import json
import math
import sqlite3
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.errors import DoesNotFit, SettingsError
from edgewise.record.ledger import Ledger
from edgewise.record.report import (
    MOST_TIMED,
    Percentiles,
    ProviderSpend,
    TokenCount,
    make_report,
    parse_since,
    percentile,
)
from edgewise.record.rows import Budget, BudgetState, insert_once, reply_row
from edgewise.record.store import migrate
from edgewise.types.messages import Message, Request
from edgewise.types.replies import Decision, Reply, Usage
from tests.record.ledger_cases import (
    DAY,
    NOON,
    PROVIDER,
    Books,
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
def ledger(books: Books, clock: TurnedClock) -> Iterator[Ledger]:
    opened = books.open(budgets=[Budget(1_000, "day")], clock=clock)
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
        "of": "",
        "name": "",
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


Latencies = list[tuple[str, float | None]]


def percentiles_of(rows: Latencies) -> dict[str, Percentiles]:
    """The plain way: sorted lists."""
    answered = [(source, value) for source, value in rows if source != "none"]
    lists: dict[str, list[float]] = {}
    for source, value in answered:
        if value is not None:
            lists.setdefault(source, []).append(value)
            lists.setdefault("all", []).append(value)
    return {
        source: Percentiles(len(each), *(percentile(sorted(each), p) for p in (50, 90, 99)))
        for source, each in lists.items()
    }


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["local", "cloud", "corrected", "none"]),
            st.none() | st.sampled_from([1.0, 2.0, 3.0]) | st.floats(0, 1e6),
        ),
        max_size=250,
    )
)
def test_the_database_ranks_latencies_as_sorted_lists_do(rows: Latencies) -> None:
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate(connection, NOON)
        for number, (source, value) in enumerate(rows):
            reply = replying(f"{number}", source=source, total_ms=value, first_token_ms=None)
            insert_once(connection, "requests", reply_row(asking(f"{number}"), reply, NOON, 0))
        report = make_report(connection, [], None, NOON)
    assert report.total_ms == percentiles_of(rows)
    assert report.first_token_ms == {}
    assert report.by_source == Counter(source for source, _ in rows)


def test_both_databases_rank_many_latencies_alike(ledger: Ledger) -> None:
    random = Random(4)
    rows: Latencies = [
        (random.choice(("local", "cloud")), round(random.lognormvariate(5, 2), 1))
        for _ in range(300)
    ]
    for number, (source, value) in enumerate(rows):
        record(ledger, f"{number}", "confident", source=source, total_ms=value)
    assert ledger.report().total_ms == percentiles_of(rows)


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


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def record_judged(
    ledger: Ledger, source: str, confidence: float | None, threshold: float = 0.5
) -> None:
    request = Request(messages=(Message("user", "a question"),))
    decision = Decision(
        policy="prefer_local",
        handoff="automatic",
        code="kept_confident",
        reason="",
        threshold=threshold,
    )
    reply = Reply(
        id=request.id,
        text="an answer",
        source="cloud" if source == "cloud" else "local",
        decision=decision,
        confidence=confidence,
    )
    ledger.record(request, reply, cost_avoided_microdollars=7)


def test_judged_requests_are_the_latest_first_and_only_measured_ones(tmp_path: Path) -> None:
    clock = Clock()
    ledger = Ledger(tmp_path / "ledger.sqlite3", clock=clock)
    for confidence in (0.2, None, 0.9):
        clock.now += 1
        record_judged(ledger, "local", confidence)
    judged = ledger.judged(since=0)
    assert [each.confidence for each in judged] == [0.9, 0.2]
    assert (judged[0].task, judged[0].threshold, judged[0].source) == ("chat", 0.5, "local")
    assert (judged[0].cost_microdollars, judged[0].avoided_microdollars) == (0, 7)
    assert [each.confidence for each in ledger.judged(since=clock.now)] == [0.9]
    ledger.close()


def test_a_timeline_has_empty_stretches_too_and_takes_a_clock_that_ran_ahead(
    tmp_path: Path,
) -> None:
    clock = Clock()
    ledger = Ledger(tmp_path / "ledger.sqlite3", clock=clock)
    begun = clock.now
    record_judged(ledger, "local", 0.9)
    record_judged(ledger, "cloud", 0.1)
    clock.now = begun + 99
    record_judged(ledger, "local", 0.9)
    clock.now = begun + 500
    record_judged(ledger, "local", 0.9)
    clock.now = begun + 100
    stretches = ledger.timeline(begun, 4)
    assert [each.start - begun for each in stretches] == [0, 25, 50, 75]
    assert [each.counts for each in stretches] == [{"local": 1, "cloud": 1}, {}, {}, {"local": 2}]
    ledger.close()


HOUR = 3_600.0
DAILY, MONTHLY = Budget(3_000_000, "day"), Budget(3_000_000, "month")


@pytest.fixture
def watched_ledger(tmp_path: Path, clock: TurnedClock) -> Iterator[Ledger]:
    book = Ledger(tmp_path / "l.db", budgets=(DAILY, MONTHLY), clock=clock)
    yield book
    book.close()


def ask(
    watched_ledger: Ledger, clock: TurnedClock, at: float, count: int = 1, key: str = ""
) -> None:
    clock.now = at
    for number in range(count):
        name = f"{at}-{number}-{key}"
        watched_ledger.record(asking(name, budget_key=key), replying(name))


def test_confidences_of_one_calibration_newest_first(watched_ledger: Ledger) -> None:
    for number, (name, tokens) in enumerate((("a", None), ("b", 3), ("a", 16))):
        decision = Decision(
            policy="", handoff="automatic", code="", reason="", calibration=name,
            confidence=number / 10, threshold=0.5, decided_after_tokens=tokens,
        )  # fmt: skip
        watched_ledger.record(
            asking(str(number)), replying(str(number), decision=decision, confidence=number / 10)
        )
    found = watched_ledger.confidences("chat", "a", 10)
    assert [(row.confidence, row.gated) for row in found] == [(0.2, True), (0.0, False)]
    assert len(watched_ledger.confidences("chat", "a", 1)) == 1
    assert watched_ledger.confidences("call", "a", 10) == []
    assert watched_ledger.calibrations() == [("chat", "a"), ("chat", "b")]


def test_a_note_is_written_when_something_begins_and_when_it_ends(
    watched_ledger: Ledger, clock: TurnedClock
) -> None:
    assert not watched_ledger.note("drift", "a", "")
    assert watched_ledger.noted("drift", "a") is None, "nothing began, so nothing ended"
    assert watched_ledger.note("drift", "a", "far, with sk-live-0123456789abcdefghij")
    clock.now += 5
    assert not watched_ledger.note("drift", "a", "farther")
    began = watched_ledger.noted("drift", "a")
    assert began is not None
    assert (began.created_at, began.words) == (NOON, "far, with sk-[masked]")
    watched_ledger.note("drift", "a", "")
    ended = watched_ledger.noted("drift", "a")
    assert ended is not None
    assert (ended.created_at, ended.words) == (NOON + 5, "")
    assert watched_ledger.noted("drift", "b") is None


def test_the_rest_of_a_day_is_like_the_same_hours_of_the_days_before(
    watched_ledger: Ledger, clock: TurnedClock
) -> None:
    """Mornings are busy, evenings quiet: at noon the morning of the next day does not count."""
    for back in (3, 2, 1):
        ask(watched_ledger, clock, NOON - back * DAY - HOUR, count=9)  # the mornings before
        ask(watched_ledger, clock, NOON - back * DAY + 6 * HOUR, count=2)  # the evenings
    ask(watched_ledger, clock, NOON - 2 * HOUR, count=9)
    clock.now = NOON
    day, month = watched_ledger.remaining()
    assert watched_ledger.traffic(day).requests_left == pytest.approx(2.0)
    # 27 more days and a half, at eleven a day.
    left = (month.resets_at - NOON) / DAY
    assert watched_ledger.traffic(month).requests_left == pytest.approx(
        (9 * 3 + 2 * 3) / 3 * left, rel=0.1
    )


def test_a_first_day_is_expected_to_go_on_as_it_began(
    watched_ledger: Ledger, clock: TurnedClock
) -> None:
    ask(watched_ledger, clock, NOON - 4 * HOUR, count=4)
    clock.now = NOON
    day, _ = watched_ledger.remaining()
    assert watched_ledger.traffic(day).requests_left == pytest.approx(4 * 12 / 4)
    ask(watched_ledger, clock, NOON, count=1, key="another")
    clock.now = NOON
    assert watched_ledger.traffic(day).requests_left == pytest.approx(4 * 12 / 4)


def test_an_empty_ledger_expects_nothing(watched_ledger: Ledger) -> None:
    day, _ = watched_ledger.remaining()
    assert watched_ledger.traffic(day).requests_left == 0.0
    assert watched_ledger.traffic(day).handoff_microdollars == 0.0


def test_a_handoff_costs_what_handoffs_have_cost(watched_ledger: Ledger) -> None:
    watched_ledger.settle("a/0", cloud_attempt(100))
    watched_ledger.settle("b/0", cloud_attempt(300))
    watched_ledger.settle("c/0", cloud_attempt(0, outcome="cloud_timeout"))
    day, _ = watched_ledger.remaining()
    assert watched_ledger.traffic(day).handoff_microdollars == pytest.approx(200.0)


def test_a_report_reads_each_hour_of_the_past_once(tmp_path: Path) -> None:
    clock = TurnedClock()
    ledger = Ledger(tmp_path / "ledger.sqlite3", clock=clock)
    for hours in range(30 * 24):
        clock.now = NOON + hours * HOUR
        record(ledger, f"kept{hours}", "confident", avoided=1)
        ledger.settle(f"kept{hours}/0", cloud_attempt(2))
    begun = clock.now - 29 * DAY
    read: list[str] = []
    with ledger._store.reporting() as connection:
        connection.set_progress_handler(lambda: read.append(""), 1_000)
    first = ledger.report(begun)
    assert (first.requests, first.spent_microdollars) == (29 * 24 + 1, 2 * (29 * 24 + 1))
    cost_of_first = len(read)
    read.clear()
    assert replace(ledger.report(begun), until=first.until) == first
    assert len(read) < cost_of_first / 2
    clock.now += 2 * DAY
    record(ledger, "later", "unsure")
    assert ledger.report(begun).reasons == {"confident": 29 * 24 + 1, "unsure": 1}
    assert ledger.report(clock.now).reasons == {"unsure": 1}
    ledger.close()


def test_rows_that_go_or_come_late_are_counted_as_they_are(tmp_path: Path) -> None:
    clock = TurnedClock()
    ledger = Ledger(tmp_path / "ledger.sqlite3", clock=clock)
    for hours in range(48):
        clock.now = NOON + hours * HOUR
        record(ledger, f"kept{hours}", "confident")
    assert ledger.report(NOON).requests == 48
    clock.now = NOON + 7 * HOUR  # a clock that was wrong
    record(ledger, "late", "confident")
    clock.now = NOON + 48 * HOUR
    assert ledger.report(NOON).requests == 49
    with ledger._store.writing() as connection:
        connection.execute("DELETE FROM requests WHERE created_at < ?", (NOON + 24 * HOUR,))
    assert ledger.report(NOON).requests == 24
    ledger.close()


def test_a_month_is_shown_in_whole_days_and_a_week_in_parts_of_a_day(tmp_path: Path) -> None:
    clock = TurnedClock()
    ledger = Ledger(tmp_path / "ledger.sqlite3", clock=clock)
    for hours in range(30 * 24):
        clock.now = NOON + hours * HOUR
        source, confidence = ("cloud", 0.1) if hours % 24 == 3 else ("local", 0.9)
        record_judged(ledger, source, confidence)
    month = ledger.timeline(NOON, 48)
    assert [(each.start - DAY / 2 - NOON) % DAY for each in month[1:]] == [0.0] * (len(month) - 1)
    assert month[0].start == NOON and month[5].counts == {"local": 23, "cloud": 1}
    week = ledger.timeline(clock.now - 7 * DAY, 48)
    lengths = {later.start - each.start for each, later in pairwise(week[1:])}
    assert lengths == {4 * HOUR}
    assert sum(sum(each.counts.values()) for each in week) == 7 * 24 + 1
    ledger.close()


def test_latencies_are_those_of_the_latest_answers(tmp_path: Path) -> None:
    clock = TurnedClock()
    ledger = Ledger(tmp_path / "ledger.sqlite3", clock=clock)
    for number in range(MOST_TIMED + 20):
        clock.now += 1
        record(ledger, f"{number}", "confident", total_ms=9e9 if number < 20 else 100.0)
    assert ledger.report().total_ms["local"] == Percentiles(MOST_TIMED, 100.0, 100.0, 100.0)
    ledger.close()
