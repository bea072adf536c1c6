"""How calls of each tool have turned out."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.record.ledger import Ledger
from edgewise.record.tool_counts import Counts, ToolRecord, key_of, share_of
from edgewise.types.messages import Tool

LAMP = Tool("lamp", "", {"type": "object", "properties": {"on": {"type": "boolean"}}})
OTHER_LAMP = Tool("lamp", "", {"type": "object", "properties": {"level": {"type": "integer"}}})
FAN = Tool("fan")


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger.db")


def test_a_tool_without_a_record_is_not_told_of(ledger: Ledger) -> None:
    record = ToolRecord(ledger)
    assert record.shares([LAMP, FAN]) == {}
    record.note([(LAMP, True)])
    assert record.shares([LAMP, FAN]) == {"lamp": 0.6}
    ledger.close()


def test_what_was_noted_is_there_for_the_next_engine(ledger: Ledger) -> None:
    ToolRecord(ledger).note([(LAMP, True), (LAMP, False), (FAN, False)])
    ToolRecord(ledger).note([(LAMP, True)])
    ledger.close()
    again = Ledger(ledger.path)
    same = Tool(LAMP.name, "described otherwise", dict(LAMP.parameters))
    shares = ToolRecord(again).shares([same, FAN])
    assert shares == {"lamp": pytest.approx(4 / 7), "fan": pytest.approx(2 / 5)}
    assert again.tool_counts()[key_of(LAMP)] == Counts(2, 1)
    again.close()


def test_a_tool_that_takes_other_arguments_starts_afresh(ledger: Ledger) -> None:
    record = ToolRecord(ledger)
    record.note([(LAMP, False)] * 5)
    assert record.shares([OTHER_LAMP]) == {}
    assert record.shares([LAMP])["lamp"] < 0.3
    ledger.close()


def test_a_schema_that_is_no_json_has_a_key_all_the_same() -> None:
    knot: dict[str, object] = {}
    knot["knot"] = knot
    strange: list[dict[Any, Any]] = [{1: 2, "a": 3}, {(1, 2): 3}, knot, {"\ud800": 1}]
    keys = {key_of(Tool("strange", "", schema)) for schema in strange}
    assert len(keys) == len(strange)


def test_a_ledger_that_fails_is_only_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "ledger.db"
    path.write_text("not a database, whatever its name")
    record = ToolRecord(Ledger(path))
    assert record.shares([LAMP]) == {}
    record.note([(LAMP, True)])
    assert record.shares([LAMP]) == {"lamp": 0.6}, "it is known until the program ends"
    assert "cannot be read" in caplog.text and "not in the ledger" in caplog.text


def test_nothing_to_note_opens_nothing(ledger: Ledger) -> None:
    ToolRecord(ledger).note([])
    assert not ledger.path.exists()


def test_threads_lose_nothing(ledger: Ledger) -> None:
    record = ToolRecord(ledger)

    def count() -> None:
        for _ in range(20):
            record.note([(LAMP, True)])

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ledger.tool_counts() == {key_of(LAMP): Counts(80, 0)}
    assert record.shares([LAMP])["lamp"] == pytest.approx(82 / 84)
    ledger.close()


@given(st.integers(0, 10_000), st.integers(0, 10_000))
def test_shares_lie_between_and_follow_the_counts(right: int, wrong: int) -> None:
    share = share_of(Counts(right, wrong))
    assert 0 < share < 1
    assert share_of(Counts(right + 1, wrong)) > share > share_of(Counts(right, wrong + 1))
    assert share_of(Counts(right, right)) == 0.5
