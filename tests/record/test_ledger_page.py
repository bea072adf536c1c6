"""docs/ledger.md names every column, and its queries run."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from edgewise.record.ledger import Ledger
from edgewise.record.tool_counts import Counts, ToolKey
from tests.record.ledger_cases import asking, cloud_attempt, replying
from tests.record.test_audits import AUDIT

PAGE = (Path(__file__).parents[2] / "docs" / "ledger.md").read_text(encoding="utf-8")
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
    "table", ["requests", "attempts", "spend", "tool_record", "audits", "notes"]
)
def test_the_page_lists_the_columns_of_a_table_in_order(
    connection: sqlite3.Connection, table: str
) -> None:
    section = PAGE.split(f"### {table}:")[1].split("\n#")[0]
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
