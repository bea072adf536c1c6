"""Verdicts in the ledger, in a file and in PostgreSQL."""

from __future__ import annotations

from dataclasses import replace

from edgewise.record.report import MOST_VERDICTS, Judge, Said, Workload
from tests.record.ledger_cases import Books, asking, replying

SAID = Said(
    id="one",
    workload="ann",
    task="chat",
    calibration="mine",
    confidence=0.9,
    above=0.5,
    right=True,
    judged_by="person",
    created_at=1.0,
)


def test_a_verdict_is_read_as_it_was_written(books: Books) -> None:
    ledger = books.open()
    cloud = replace(SAID, id="two", confidence=None, above=None, right=False, created_at=2.0)
    for said in (SAID, cloud, replace(SAID, id="three", workload="")):
        ledger.record_verdict(said)
    assert ledger.verdicts("ann") == [SAID, cloud]
    assert [each.id for each in ledger.verdicts("")] == ["three"]
    assert ledger.verdicts("nobody") == []


def test_the_second_verdict_counts_in_the_place_of_the_first(books: Books) -> None:
    ledger = books.open()
    for name, at in (("one", 1.0), ("two", 2.0)):
        ledger.record_verdict(replace(SAID, id=name, created_at=at))
    ledger.record_verdict(replace(SAID, right=False, created_at=3.0))
    assert [(each.id, each.right) for each in ledger.verdicts("ann")] == [
        ("one", False),
        ("two", True),
    ]


def test_only_a_person_overrules_a_person(books: Books) -> None:
    ledger = books.open()

    def after(judged_by: Judge, right: bool) -> tuple[str, bool]:
        ledger.record_verdict(replace(SAID, judged_by=judged_by, right=right))
        (said,) = ledger.verdicts("ann")
        return said.judged_by, said.right

    assert after("audit", True) == ("audit", True)
    assert after("check", False) == ("check", False)
    assert after("person", True) == ("person", True)
    assert after("check", False) == after("audit", False) == ("person", True)
    assert after("person", False) == ("person", False)


def test_the_latest_are_read_and_no_more(books: Books) -> None:
    ledger = books.open()
    for number in range(MOST_VERDICTS + 2):
        ledger.record_verdict(replace(SAID, id=f"{number:05}", created_at=1.0 + number))
    found = ledger.verdicts("ann")
    assert len(found) == MOST_VERDICTS
    assert (found[0].id, found[-1].id) == ("00002", f"{MOST_VERDICTS + 1:05}")


def test_workloads_are_keys_and_calibrations_with_how_many_stayed(books: Books) -> None:
    ledger = books.open()
    for number, (key, source) in enumerate((("ann", "local"), ("ann", "cloud"), ("", "local"))):
        reply = replying(f"r{number}", source=source)
        decision = replace(reply.decision, calibration="mine")
        ledger.record(asking(f"r{number}", budget_key=key), replace(reply, decision=decision))
    assert ledger.workloads() == [
        Workload("ann", "chat", "mine", 2, 1),
        Workload("", "chat", "mine", 1, 1),
    ]


def test_a_row_says_from_where_on_answers_stay_and_whether_it_was_right(books: Books) -> None:
    ledger = books.open()
    for name in ("one", "two"):
        reply = replying(name)
        decision = replace(reply.decision, kept_from=0.25)
        ledger.record(asking(name), replace(reply, decision=decision))
    ledger.record_verdict(replace(SAID, right=False))
    one, two = ledger.get("one"), ledger.get("two")
    assert one is not None and two is not None
    assert (one["kept_from"], one["verdict"], two["verdict"]) == (0.25, False, None)
    assert {row["id"]: row["verdict"] for row in ledger.recent()} == {"one": False, "two": None}
