"""The ledger: requests, reservations and settlements; several processes; its page."""

from __future__ import annotations

import contextlib
import multiprocessing
import queue
import random
import re
import sqlite3
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from edgewise.cloud.provider import BudgetGuard
from edgewise.errors import BudgetExceeded, CloudAuthFailed, LedgerUnavailable
from edgewise.record.ledger import Counts, Ledger, ToolKey
from edgewise.record.rows import Budget, BudgetState
from edgewise.types.messages import Image, Message, ToolCall
from edgewise.types.replies import Usage
from tests.campaigns import rounds
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
from tests.record.test_audits import AUDIT

BUDGETS = (Budget(1_000, "day"), Budget(300, "day", "ann"), Budget(5_000, "month"))


@pytest.fixture
def clock() -> TurnedClock:
    return TurnedClock()


@pytest.fixture
def ledger(books: Books, clock: TurnedClock) -> Iterator[Ledger]:
    opened = books.open(budgets=BUDGETS, reservation_s=150.0, clock=clock)
    yield opened
    assert opened.verify() == []
    opened.close()


def everything_written(ledger: Ledger) -> str:
    with ledger._store.reading() as connection:
        tables = ("requests", "attempts", "audits", "notes", "spend", "tool_record")
        return "\n".join(str(list(connection.execute(f"SELECT * FROM {t}"))) for t in tables)


def test_a_request_is_recorded_with_its_decision(ledger: Ledger) -> None:
    request = asking("r", budget_key="ann", private=True)
    ledger.record(request, replying("r"), cost_avoided_microdollars=31)
    row = ledger.get("r")
    assert row is not None
    (attempt,) = row.pop("attempts")
    assert row == {
        "id": "r",
        "created_at": NOON,
        "task": "chat",
        "policy": "prefer_local",
        "handoff": "automatic",
        "private": True,
        "budget_key": "ann",
        "source": "local",
        "model": "qwen3",
        "decision_code": "confident",
        "reason": "confidence 0.91 is above 0.6",
        "degraded": False,
        "degraded_code": "",
        "needs_cloud_handoff": False,
        "cloud_handoff": False,
        "truncated": False,
        "confidence": 0.91,
        "threshold": 0.6,
        "kept_from": None,
        "user_name": "",
        "group_name": "",
        "price_guessed": False,
        "kept_at": None,
        "verdict": None,
        "decided_after_tokens": None,
        "features": {"mean_logprob": -0.1},
        "calibration": "qwen3-q4",
        "confidence_verified": True,
        "input_tokens": 12,
        "output_tokens": 5,
        "cost_microdollars": 0,
        "cost_avoided_microdollars": 31,
        "first_token_ms": 40.0,
        "total_ms": 210.0,
        "finish_reason": "stop",
        "error_code": "",
        "error": "",
        "prompt_text": None,
        "reply_text": None,
        "tool_calls_text": None,
        "audio_seconds": 0.0,
    }
    assert (attempt["id"], attempt["place"], attempt["state"]) == ("r/local-0", "local", "settled")
    assert (attempt["backend"], attempt["output_tokens"]) == ("llama_cpp", 5)
    assert attempt["estimated"] is False


def test_recording_a_request_twice_keeps_the_first(ledger: Ledger) -> None:
    ledger.record(asking("r"), replying("r"))
    both = (local_attempt(), local_attempt())
    ledger.record(asking("r"), replying("r", source="cloud", attempts=both))
    row = ledger.get("r")
    assert row is not None
    assert (row["source"], len(row["attempts"])) == ("local", 1)


def test_a_cloud_attempt_is_not_written_a_second_time_with_its_request(ledger: Ledger) -> None:
    ledger.reserve("r/0", asking("r"), PROVIDER, 50)
    ledger.settle("r/0", cloud_attempt(42))
    handed_off = local_attempt(outcome="handed_off")
    reply = replying("r", source="cloud", attempts=(handed_off, cloud_attempt(42)))
    ledger.record(asking("r"), replace(reply, usage=Usage(24, 12, 42)))
    row = ledger.get("r")
    assert row is not None
    assert [(each["id"], each["outcome"]) for each in row["attempts"]] == [
        ("r/0", "answered"),
        ("r/local-0", "handed_off"),
    ]
    assert ledger.remaining()[0].spent == 42


def test_a_failed_request_is_recorded_with_a_masked_error(ledger: Ledger) -> None:
    error = CloudAuthFailed("401: bad key sk-" + "Ab3dEf6hIj9l", provider="openai")
    ledger.settle("r/0", cloud_attempt(3, outcome="cloud_cut", error="Bearer abc123def"))
    tried = (local_attempt(outcome="handed_off"), cloud_attempt(3, outcome="cloud_cut"))
    ledger.record_failure(asking("r"), error, tried)
    ledger.record_failure(asking("r"), KeyboardInterrupt(), ())
    row = ledger.get("r")
    assert row is not None
    assert (row["source"], row["error_code"]) == ("none", "cloud_auth_failed")
    assert (row["error"], row["cost_microdollars"]) == ("401: bad key sk-[masked]", 3)
    assert (row["input_tokens"], row["output_tokens"]) == (24, 12)
    assert [each["error"] for each in row["attempts"]] == ["Bearer [masked]", ""]


def test_an_exception_that_is_not_ours_is_named_by_its_type(ledger: Ledger) -> None:
    ledger.record_failure(asking("r"), SystemExit(3), ())
    row = ledger.get("r")
    assert row is not None
    assert row["error_code"] == "SystemExit"


def test_prompts_and_replies_are_nowhere_in_the_file_unless_asked_for(ledger: Ledger) -> None:
    calls = (ToolCall("look_up", {"city": "a-word-of-the-call"}),)
    message = Message("user", "a-word-of-the-prompt", images=(Image(b"a-word-of-the-image"),))
    for name, asked in (("unset", None), ("no", False)):
        request = replace(asking(name, store_text=asked), messages=(message,))
        ledger.reserve(f"{name}/0", request, PROVIDER, 1)
        ledger.settle(f"{name}/0", cloud_attempt(1))
        ledger.record(request, replying(name, text="a-word-of-the-reply", tool_calls=calls))
        ledger.record_failure(replace(request, id=f"{name}-failed"), ValueError("x"), ())
    assert "a-word-of" not in everything_written(ledger)
    request = replace(asking("yes", store_text=True), messages=(message,))
    ledger.record(request, replying("yes", text="a-word-of-the-reply", tool_calls=calls))
    row = ledger.get("yes")
    assert row is not None
    assert row["prompt_text"] == (
        '[{"role": "user", "content": "a-word-of-the-prompt", "images": 1}]'
    )
    assert row["reply_text"] == "a-word-of-the-reply"
    assert row["tool_calls_text"] == (
        '[{"name": "look_up", "arguments": {"city": "a-word-of-the-call"}}]'
    )


def test_a_key_never_reaches_the_file(ledger: Ledger) -> None:
    secret = "Ab3dEf6hIj9lMn2pQr5tUv8x"
    config = replace(PROVIDER, key=f"sk-{secret}")
    request = replace(
        asking("r", store_text=True), messages=(Message("user", f"my key is sk-{secret}"),)
    )
    reply = replying("r", text=f"your key is sk-{secret}")
    decision = replace(reply.decision, reason=f"cloud said: bad key sk-{secret}")
    ledger.reserve("r/0", request, config, 1)
    ledger.settle("r/0", cloud_attempt(1, error=f"Authorization: Bearer {secret}"))
    ledger.record(request, replace(reply, decision=decision))
    assert secret not in everything_written(ledger)


def test_an_id_is_seen_once_it_was_recorded_or_paid_for(ledger: Ledger) -> None:
    assert not ledger.seen("r")
    ledger.record(asking("r"), replying("r"))
    ledger.reserve("s/0", asking("s"), PROVIDER, 1)
    assert ledger.seen("r")
    assert ledger.seen("s")
    assert not ledger.seen("s/0")
    assert ledger.get("s") is None


def test_an_id_is_given_to_one_of_many(books: Books) -> None:
    ledgers = [books.open(busy_s=60.0) if not books.url else books.open() for _ in range(2)]
    start, winners = threading.Barrier(20), list[int]()

    def claim(number: int) -> None:
        start.wait()
        if ledgers[number % 2].claim("r"):
            winners.append(number)

    threads = [threading.Thread(target=claim, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(winners) == 1
    assert ledgers[0].seen("r") and not ledgers[0].claim("r"), "also if its process has died"


def test_an_id_that_was_recorded_or_paid_for_is_given_to_nobody(ledger: Ledger) -> None:
    ledger.record(asking("r"), replying("r"))
    ledger.reserve("s/0", asking("s"), PROVIDER, 1)
    assert [ledger.claim(name) for name in ("r", "s", "t", "t")] == [False, False, True, False]


def test_an_attempt_is_reserved_once(ledger: Ledger) -> None:
    ledger.reserve("r/0", asking("r"), PROVIDER, 40)
    for _ in range(2):
        with pytest.raises(LedgerUnavailable, match="another request has this id"):
            ledger.reserve("r/0", asking("r"), PROVIDER, 40)
        ledger.settle("r/0", cloud_attempt(30))
    assert ledger.remaining()[0].spent == 30


def test_text_that_is_not_unicode_and_numbers_that_are_none_are_stored(ledger: Ledger) -> None:
    request = replace(
        asking("r\udcff", store_text=True), messages=(Message("user", "half a pair \ud800"),)
    )
    reply = replying("r\udcff", total_ms=float("nan"), confidence=float("inf"))
    decision = replace(reply.decision, features={"entropy": float("nan")})
    ledger.record(request, replace(reply, decision=decision))
    assert ledger.seen("r\udcff")
    row = ledger.get("r\udcff")
    assert row is not None
    assert (row["total_ms"], row["confidence"], row["features"]) == (None, None, {"entropy": None})
    assert "half a pair ?" in row["prompt_text"]


def test_verify_reports_a_total_that_was_tampered_with(books: Books) -> None:
    ledger = books.open(clock=TurnedClock())
    ledger.settle("r/0", cloud_attempt(5))
    with ledger._store.writing() as connection:
        connection.execute(
            "UPDATE spend SET settled_microdollars = 4 WHERE window_name = '2026-11'"
        )
        connection.execute("INSERT INTO spend VALUES ('2026-12', '', 1, 0)")
    assert ledger.verify() == [
        "the total of 2026-11 for key '' is wrong",
        "the total of 2026-12 for key '' is wrong",
    ]
    ledger.close()


def test_rows_edited_by_hand_keep_the_totals_exact(ledger: Ledger) -> None:
    ledger.settle("r/0", cloud_attempt(5))
    ledger.settle("s/0", cloud_attempt(7))
    ledger.settle("t/0", cloud_attempt(11))
    with ledger._store.writing() as connection:
        connection.execute("DELETE FROM attempts WHERE id = 'r/0'")
        connection.execute("UPDATE attempts SET budget_key = 'ann' WHERE id = 's/0'")
        connection.execute("UPDATE attempts SET cost_microdollars = 12 WHERE id = 't/0'")
    assert [state.spent for state in ledger.remaining()] == [19, 7, 19]


def attempts(ledger: Ledger) -> list[dict[str, Any]]:
    with ledger._store.reading() as connection:
        found = connection.execute("SELECT * FROM attempts ORDER BY rowid")
        names = [column[0] for column in found.description]
        rows = [dict(zip(names, row, strict=True)) for row in found]
    return [{name: row[name] for name in row if name != "rowid"} for row in rows]


def test_the_ledger_is_a_budget_guard(ledger: Ledger) -> None:
    budget_guard: BudgetGuard = ledger
    budget_guard.reserve("r/0", asking("r"), PROVIDER, 10)
    budget_guard.settle("r/0", cloud_attempt(7))
    assert [row["cost_microdollars"] for row in attempts(ledger)] == [7]


def test_a_reservation_is_on_disk_before_the_call(ledger: Ledger) -> None:
    ledger.reserve("r/0", asking("r", budget_key="ann"), PROVIDER, 250)
    (row,) = attempts(ledger)
    assert row["state"] == "reserved"
    assert (row["request_id"], row["backend"], row["model"]) == ("r", "openai", "gpt-5-nano")
    assert (row["budget_key"], row["reserved_microdollars"]) == ("ann", 250)
    assert (row["started_at"], row["expires_at"]) == (NOON, NOON + 150.0)
    assert [state.reserved for state in ledger.remaining()] == [250, 250, 250]


def test_settling_replaces_the_reservation_with_the_facts(
    ledger: Ledger, clock: TurnedClock
) -> None:
    ledger.reserve("r/0", asking("r"), PROVIDER, 250)
    clock.now += 2
    ledger.settle("r/0", cloud_attempt(42, cached_tokens=3, tries=2, shown_chars=5))
    (row,) = attempts(ledger)
    assert (row["state"], row["outcome"], row["settled_at"]) == ("settled", "answered", NOON + 2)
    assert (row["reserved_microdollars"], row["cost_microdollars"]) == (250, 42)
    assert (row["input_tokens"], row["output_tokens"], row["cached_tokens"]) == (12, 7, 3)
    assert (row["first_token_ms"], row["total_ms"], row["tries"]) == (310.0, 800.0, 2)
    assert (row["shown_chars"], row["estimated"]) == (5, 0)


def test_the_first_settlement_stands(ledger: Ledger) -> None:
    ledger.reserve("r/0", asking("r"), PROVIDER, 250)
    ledger.settle("r/0", cloud_attempt(42))
    ledger.settle("r/0", cloud_attempt(77, outcome="cloud_cut"))
    assert [(row["outcome"], row["cost_microdollars"]) for row in attempts(ledger)] == [
        ("answered", 42)
    ]


def test_settling_an_unknown_attempt_writes_it_once_under_its_requests_key(ledger: Ledger) -> None:
    ledger.reserve("r/0", asking("r", budget_key="ann"), PROVIDER, 10)
    ledger.settle("r/0", cloud_attempt(10))
    ledger.settle("r/1", cloud_attempt(20))
    ledger.settle("r/1", cloud_attempt(99))
    ledger.settle("stray", cloud_attempt(5))
    assert [
        (row["id"], row["request_id"], row["budget_key"], row["cost_microdollars"])
        for row in attempts(ledger)
    ] == [("r/0", "r", "ann", 10), ("r/1", "r", "ann", 20), ("stray", "stray", "", 5)]
    assert [state.spent for state in ledger.remaining()] == [35, 30, 35]


def test_an_expired_reservation_is_settled_at_its_full_amount(
    ledger: Ledger, clock: TurnedClock
) -> None:
    ledger.reserve("r/0", asking("r"), PROVIDER, 250)
    clock.now += 149.9
    assert ledger.sweep() == 0
    clock.now += 0.1
    assert ledger.sweep() == 1
    assert ledger.sweep() == 0
    (row,) = attempts(ledger)
    assert (row["state"], row["outcome"], row["estimated"]) == ("settled", "abandoned", 1)
    assert (row["cost_microdollars"], row["settled_at"]) == (250, clock.now)
    assert ledger.remaining()[0] == BudgetState(BUDGETS[0], 250, 0, 750, NOON + DAY / 2)


def test_a_sweep_can_be_told_the_time(ledger: Ledger) -> None:
    ledger.reserve("r/0", asking("r"), PROVIDER, 250)
    assert ledger.sweep(now=NOON + 1_000) == 1


def test_the_next_reservation_sweeps(ledger: Ledger, clock: TurnedClock) -> None:
    ledger.reserve("r/0", asking("r"), PROVIDER, 250)
    clock.now += 200
    ledger.reserve("s/0", asking("s"), PROVIDER, 10)
    assert [row["outcome"] for row in attempts(ledger)] == ["abandoned", ""]


def test_the_fact_replaces_the_guess_of_a_sweep_once(ledger: Ledger, clock: TurnedClock) -> None:
    ledger.reserve("r/0", asking("r"), PROVIDER, 250)
    clock.now += 3_600  # the laptop slept
    ledger.sweep()
    ledger.settle("r/0", cloud_attempt(42))
    ledger.settle("r/0", cloud_attempt(77))
    assert [(row["outcome"], row["cost_microdollars"]) for row in attempts(ledger)] == [
        ("answered", 42)
    ]
    assert ledger.remaining()[0].spent == 42


def test_a_refusal_names_the_budget_its_state_and_when_it_resets(ledger: Ledger) -> None:
    ledger.settle("r/0", cloud_attempt(600))
    ledger.reserve("s/0", asking("s"), PROVIDER, 300)
    with pytest.raises(BudgetExceeded) as refused:
        ledger.reserve("t/0", asking("t"), PROVIDER, 101)
    assert str(refused.value) == (
        "the budget of $0.001 per day does not cover this call: $0.0006 spent, $0.0003 reserved, "
        "this call may cost $0.000101; it resets at 2026-11-04 00:00 UTC"
    )
    assert refused.value.code == "budget_spent"
    assert [row["id"] for row in attempts(ledger)] == ["r/0", "s/0"]
    ledger.reserve("t/0", asking("t"), PROVIDER, 100)


def test_a_keys_budget_binds_only_its_own_requests(ledger: Ledger) -> None:
    ledger.reserve("r/0", asking("r", budget_key="ann"), PROVIDER, 300)
    with pytest.raises(BudgetExceeded, match=r"for key 'ann'"):
        ledger.reserve("s/0", asking("s", budget_key="ann"), PROVIDER, 1)
    ledger.reserve("t/0", asking("t", budget_key="bob"), PROVIDER, 300)
    ledger.reserve("u/0", asking("u"), PROVIDER, 300)


def test_of_several_spent_budgets_the_one_that_resets_last_is_named(
    ledger: Ledger, clock: TurnedClock
) -> None:
    for day in range(5):
        ledger.settle(f"r/{day}", cloud_attempt(1_000))
        clock.now += DAY
    ledger.settle("s/0", cloud_attempt(1_000))
    with pytest.raises(BudgetExceeded, match=r"per month .* resets at 2026-12-01 00:00 UTC"):
        ledger.reserve("t/0", asking("t"), PROVIDER, 1)


def test_a_call_counts_for_the_day_it_began(ledger: Ledger, clock: TurnedClock) -> None:
    clock.now = NOON + DAY / 2 - 0.0001
    ledger.reserve("r/0", asking("r"), PROVIDER, 900)
    clock.now += 60
    ledger.settle("r/0", cloud_attempt(800))
    assert [state.spent for state in ledger.remaining()] == [0, 0, 800]
    ledger.reserve("s/0", asking("s"), PROVIDER, 1_000)


def test_a_call_that_cost_more_than_reserved_is_booked_as_it_was(ledger: Ledger) -> None:
    ledger.reserve("r/0", asking("r"), PROVIDER, 1_000)
    ledger.settle("r/0", cloud_attempt(1_200))
    assert ledger.remaining()[0] == BudgetState(BUDGETS[0], 1_200, 0, 0, NOON + DAY / 2)
    with pytest.raises(BudgetExceeded):
        ledger.reserve("s/0", asking("s"), PROVIDER, 0)


@pytest.mark.parametrize("amount", [-1, 2**63])
def test_a_negative_amount_is_refused(ledger: Ledger, amount: int) -> None:
    with pytest.raises(ValueError, match="not an amount"):
        ledger.reserve("r/0", asking("r"), PROVIDER, amount)
    with pytest.raises(ValueError, match="not an amount"):
        ledger.settle("r/0", cloud_attempt(amount))
    assert ledger.remaining()[0].remaining == 1_000


def test_threads_share_one_ledger(books: Books) -> None:
    ledger = books.open(budgets=[Budget(400, "day")])
    refused = []

    def spend(thread: int) -> None:
        for index in range(25):
            request = asking(f"{thread}-{index}")
            try:
                ledger.reserve(f"{request.id}/0", request, PROVIDER, 10)
            except BudgetExceeded:
                refused.append(request.id)
            else:
                ledger.settle(f"{request.id}/0", cloud_attempt(5))

    threads = [threading.Thread(target=spend, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (state,) = ledger.remaining()
    assert (state.reserved, state.spent) == (0, 5 * (100 - len(refused)))
    assert 360 < state.spent <= 400  # a refusal counts what three others had reserved
    assert ledger.verify() == []
    ledger.close()


PROCESSES = 4
ROUNDS = rounds(150)
SHARED_BUDGETS = (Budget(15_000, "month"), Budget(1_500, "month", "ann"))
Results: TypeAlias = "Queue[tuple[int, int, int]]"  # spent by all, spent by ann, refusals


def open_ledger(path: Path) -> Ledger:
    # The clock stands still: midnight must not fall into the test.
    return Ledger(path, budgets=SHARED_BUDGETS, busy_s=60.0, clock=TurnedClock(NOON))


def spend(path: Path, number: int, start: Barrier, results: Results) -> None:
    """Reserve, settle for no more, record; return what was spent and how often it was refused."""
    chance = random.Random(number)
    ledger = open_ledger(path)
    spent = {"": 0, "ann": 0}
    refused = 0
    start.wait()
    for index in range(ROUNDS):
        key = chance.choice(["", "ann"])
        request = asking(f"{number}-{index}", budget_key=key)
        amount = chance.randint(1, 200)
        try:
            ledger.reserve(f"{request.id}/0", request, PROVIDER, amount)
        except BudgetExceeded:
            refused += 1
            continue
        cost = chance.randint(0, amount)
        ledger.settle(f"{request.id}/0", cloud_attempt(cost))
        ledger.record(request, replying(request.id))
        spent[key] += cost
    ledger.close()
    results.put((sum(spent.values()), spent["ann"], refused))


def spend_the_same(path: Path, number: int, start: Barrier, results: Results) -> None:
    """Every process makes the same attempts of the same requests, at its own price."""
    ledger = open_ledger(path)
    start.wait()
    refused = 0
    for index in range(ROUNDS):
        request = asking(f"same-{index}")
        try:
            ledger.reserve(f"{request.id}/0", request, PROVIDER, 10)
        except LedgerUnavailable:
            refused += 1
            continue
        ledger.settle(f"{request.id}/0", cloud_attempt(number + 1))
        ledger.record(request, replying(request.id))
    ledger.close()
    results.put((0, 0, refused))


def run(
    work: Callable[[Path, int, Barrier, Results], None], path: Path
) -> list[tuple[int, int, int]]:
    """Start all at once, watch the budgets until all are done, return their reports."""
    context = multiprocessing.get_context("spawn")
    start, results = context.Barrier(PROCESSES + 1), context.Queue()
    children = [
        context.Process(target=work, args=(path, number, start, results))
        for number in range(PROCESSES)
    ]
    for child in children:
        child.start()
    start.wait(timeout=60)
    watching = open_ledger(path)
    told: list[tuple[int, int, int]] = []
    while len(told) < PROCESSES:
        for state in watching.remaining():
            assert state.spent + state.reserved <= state.budget.limit_microdollars
        assert all(child.exitcode in (None, 0) for child in children)
        with contextlib.suppress(queue.Empty):
            told.append(results.get(timeout=0.002))
    for child in children:
        child.join()
    watching.close()
    return told


def test_four_processes_spend_exactly_and_never_above_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    told = run(spend, path)
    ledger = open_ledger(path)
    everyone, ann = ledger.remaining()
    assert everyone.spent == sum(spent for spent, _, _ in told)
    assert ann.spent == sum(anns for _, anns, _ in told)
    assert (everyone.reserved, ann.reserved) == (0, 0)
    report = ledger.report()
    assert report.spent_microdollars == everyone.spent
    assert report.requests == PROCESSES * ROUNDS - sum(refused for _, _, refused in told)
    # A budget did bind: all attempts together cost more than ann's. A process may have finished
    # before the others began, so not each of them was refused.
    assert sum(refused for _, _, refused in told) > 0
    assert ledger.verify() == []
    ledger.close()


def test_the_same_request_in_four_processes_is_paid_by_one(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    told = run(spend_the_same, path)
    assert sum(refused for _, _, refused in told) == (PROCESSES - 1) * ROUNDS
    ledger = open_ledger(path)
    assert ledger.report().requests == ROUNDS
    assert ledger.report().providers["openai"].attempts == ROUNDS
    assert ROUNDS <= ledger.report().spent_microdollars <= ROUNDS * PROCESSES
    assert ledger.report().reserved_microdollars == 0
    assert ledger.verify() == []
    ledger.close()


PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "ledger-tables.md").read_text(
    encoding="utf-8"
)
QUERIES = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.settle("r/0", cloud_attempt(5, outcome="abandoned"))
    ledger.record(asking("r"), replying("r"))
    ledger.record(asking("s"), replying("s", source="cloud"))
    ledger.count_calls({ToolKey("lamp", "0" * 16): Counts(1, 2)})
    ledger.record_audit(replace(AUDIT, agree=0.0))
    ledger.close()
    opened = sqlite3.connect(ledger.path)
    yield opened
    opened.close()


@pytest.mark.parametrize(
    "table", ["requests", "attempts", "claims", "spend", "tool_record", "audits", "notes"]
)
def test_the_page_lists_the_columns_of_a_table_in_order(
    connection: sqlite3.Connection, table: str
) -> None:
    section = PAGE.split(f"## {table}:")[1].split("\n#")[0]
    listed = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
    columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    assert listed == columns


def test_the_page_has_queries() -> None:
    assert len(QUERIES) > 3


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_of_the_page_finds_rows(connection: sqlite3.Connection, query: str) -> None:
    for statement in filter(str.strip, query.split(";")):
        found = connection.execute(statement).fetchall()
        assert bool(found) != statement.strip().startswith("DELETE")
