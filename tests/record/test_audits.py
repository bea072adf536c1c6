"""Audits are written once, read back whole, and summed with an interval."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.errors import LedgerUnavailable
from edgewise.record.ledger import Ledger
from edgewise.record.report import AUDIT_KEY, Audit, wilson
from tests.record.ledger_cases import (
    DAY,
    NOON,
    PROVIDER,
    Books,
    TurnedClock,
    asking,
    cloud_attempt,
    replying,
)

AUDIT = Audit(
    id="r",
    request_id="r",
    task="chat",
    model="gpt-5-nano",
    calibration="smollm2",
    confidence=0.8,
    threshold=0.5,
    share=0.05,
    agree=1.0,
    judged_by="exact",
    cost_microdollars=12,
    features={"mean_logprob": -0.1},
)


@pytest.fixture
def clock() -> TurnedClock:
    return TurnedClock()


@pytest.fixture
def ledger(books: Books, clock: TurnedClock) -> Ledger:
    return books.open(clock=clock)


def test_an_audit_is_read_as_it_was_written(ledger: Ledger) -> None:
    ledger.record_audit(AUDIT)
    assert ledger.audits() == [replace(AUDIT, created_at=NOON)]


def test_an_answer_is_audited_once(ledger: Ledger) -> None:
    ledger.record_audit(AUDIT)
    ledger.record_audit(replace(AUDIT, agree=0.0))
    assert [audit.agree for audit in ledger.audits()] == [1.0]


def test_audits_are_read_by_time_and_task_newest_first(ledger: Ledger, clock: TurnedClock) -> None:
    ledger.record_audit(AUDIT)
    clock.now += DAY
    ledger.record_audit(replace(AUDIT, id="s"))
    ledger.record_audit(replace(AUDIT, id="t", task="call"))
    assert [audit.id for audit in ledger.audits()] == ["s", "t", "r"]
    assert [audit.id for audit in ledger.audits(NOON + 1)] == ["s", "t"]
    assert [audit.id for audit in ledger.audits(task="call")] == ["t"]


def test_a_stored_text_is_masked_and_no_text_is_stored_unasked(ledger: Ledger) -> None:
    ledger.record_audit(AUDIT)
    ledger.record_audit(replace(AUDIT, id="s", cloud_text="key sk-abcdefgh12345678"))
    texts = {audit.id: audit.cloud_text for audit in ledger.audits()}
    assert texts == {"r": None, "s": "key sk-[masked]"}


def test_a_few_wrong_words_of_speech_are_right(ledger: Ledger) -> None:
    assert replace(AUDIT, task="transcribe", agree=0.85).right
    assert not replace(AUDIT, task="transcribe", agree=0.84).right
    assert replace(AUDIT, agree=0.5).right


def test_the_report_counts_disagreement_and_what_it_cost(ledger: Ledger) -> None:
    for number in range(10):
        audit = replace(AUDIT, id=f"r{number}", agree=float(number > 1))
        ledger.record_audit(audit)
        ledger.record(asking(f"r{number}"), replying(f"r{number}"))
    ledger.record_audit(replace(AUDIT, id="c", task="call", judged_by="calls"))
    ledger.reserve("r0/audit.0", asking("r0", budget_key=AUDIT_KEY), PROVIDER, 50)
    ledger.settle("r0/audit.0", cloud_attempt(12))
    found = ledger.report().audits
    assert (found.all.count, found.all.wrong) == (11, 2)
    assert found.all.low < 2 / 11 < found.all.high
    assert found.tasks["chat"].share == 0.2
    assert found.tasks["call"].share == 0.0
    assert found.judged_by == {"calls": 1, "exact": 10}
    assert found.spent_microdollars == 12
    assert found.kept == 10
    assert found.accepted == pytest.approx(10 * 2 / 11)
    assert found.accepted_low < 10 * 2 / 11 < found.accepted_high <= 10


def test_a_report_without_audits_promises_nothing(ledger: Ledger) -> None:
    found = ledger.report().audits
    assert (found.all.count, found.all.share, found.accepted) == (0, None, None)
    assert (found.all.low, found.all.high) == (0.0, 1.0)


@given(st.integers(0, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_an_interval_holds_the_share_and_narrows_with_more(counts: tuple[int, int]) -> None:
    wrong, count = counts
    low, high = wilson(wrong, count)
    assert 0.0 <= low <= (wrong / count if count else 0.5) <= high <= 1.0
    if count:
        wider = wilson(10 * wrong, 10 * count)
        assert wider[1] - wider[0] < high - low


def test_a_known_interval() -> None:
    assert wilson(1, 10) == pytest.approx((0.0179, 0.4042), abs=1e-4)


def test_an_agreement_outside_of_0_and_1_cannot_be_written(ledger: Ledger) -> None:
    ledger.record_audit(replace(AUDIT, agree=1.7))
    assert ledger.audits()[0].agree == 1.0
    with pytest.raises(LedgerUnavailable), ledger._store.writing() as connection:
        connection.execute("UPDATE audits SET agree = 2")
