"""How calls of each tool have turned out."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from edgewise.record.ledger import Counts, Ledger, ToolRecord, key_of
from edgewise.types.messages import Tool

LAMP = Tool("lamp", "", {"type": "object", "properties": {"on": {"type": "boolean"}}})
OTHER_LAMP = Tool("lamp", "", {"type": "object", "properties": {"level": {"type": "integer"}}})
FAN = Tool("fan")


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger.db")


def test_what_was_noted_is_there_for_the_next_engine(ledger: Ledger) -> None:
    ToolRecord(ledger).note([(LAMP, True), (LAMP, False), (FAN, False)])
    ToolRecord(ledger).note([(LAMP, True)])
    ledger.close()
    again = Ledger(ledger.path)
    same = Tool(LAMP.name, "described otherwise", dict(LAMP.parameters))
    assert again.tool_counts() == {key_of(same): Counts(2, 1), key_of(FAN): Counts(0, 1)}
    again.close()


def test_a_tool_that_takes_other_arguments_starts_afresh(ledger: Ledger) -> None:
    ToolRecord(ledger).note([(LAMP, False)] * 5 + [(OTHER_LAMP, True)])
    assert ledger.tool_counts() == {key_of(LAMP): Counts(0, 5), key_of(OTHER_LAMP): Counts(1, 0)}
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
    ToolRecord(Ledger(path)).note([(LAMP, True)])
    assert "not in the ledger" in caplog.text


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
    ledger.close()
