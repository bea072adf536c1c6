"""Numbered steps are applied once and in order; a newer or foreign file is left alone."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgewise.errors import LedgerUnavailable
from edgewise.record.ledger import Ledger
from edgewise.record.store import MIGRATIONS, Migration, check_known, migrate
from tests.record.ledger_cases import TurnedClock, cloud_attempt


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    opened = sqlite3.connect(tmp_path / "plain.db", isolation_level=None)
    yield opened
    opened.close()


def applied(connection: sqlite3.Connection) -> list[tuple[str, float]]:
    return connection.execute("SELECT name, applied_at FROM edgewise_migrations").fetchall()


def test_steps_are_numbered_without_gaps() -> None:
    numbers = [
        int(match[1])
        for migration in MIGRATIONS
        if (match := re.fullmatch(r"m([0-9]{3})_[a-z_]+", migration.name))
    ]
    assert numbers == list(range(1, len(MIGRATIONS) + 1))


def test_each_step_is_applied_once_and_noted(connection: sqlite3.Connection) -> None:
    assert not check_known(connection)
    migrate(connection, 5.0)
    migrate(connection, 6.0)
    assert check_known(connection)
    assert applied(connection) == [(migration.name, 5.0) for migration in MIGRATIONS]


def test_an_older_ledger_gets_only_what_it_lacks(connection: sqlite3.Connection) -> None:
    migrate(connection, 5.0)
    step = Migration("m999_note", ("ALTER TABLE requests ADD COLUMN note TEXT",))
    assert not check_known(connection, (*MIGRATIONS, step))
    migrate(connection, 6.0, (*MIGRATIONS, step))
    assert applied(connection)[-1] == ("m999_note", 6.0)
    assert connection.execute("SELECT note FROM requests").fetchall() == []


def test_rows_from_before_speech_have_heard_nothing(connection: sqlite3.Connection) -> None:
    before = tuple(step for step in MIGRATIONS if step.name < "m003")
    migrate(connection, 5.0, before)
    columns = [row[1:4] for row in connection.execute("PRAGMA table_info(requests)")]
    values = [0 if kind != "TEXT" else name for name, kind, _ in columns]
    places = ", ".join("?" for _ in columns)
    connection.execute(f"INSERT INTO requests VALUES ({places})", values)
    migrate(connection, 6.0)
    assert connection.execute("SELECT id, audio_seconds FROM requests").fetchall() == [("id", 0.0)]


def test_a_step_that_fails_leaves_no_half_of_it(connection: sqlite3.Connection) -> None:
    migrate(connection, 5.0)
    step = Migration("m999_broken", ("ALTER TABLE requests ADD COLUMN note TEXT", "NOT SQL"))
    connection.execute("BEGIN IMMEDIATE")
    with pytest.raises(sqlite3.OperationalError):
        migrate(connection, 6.0, (*MIGRATIONS, step))
    connection.execute("ROLLBACK")
    columns = [row[1] for row in connection.execute("PRAGMA table_info(requests)")]
    assert "note" not in columns
    assert check_known(connection)


def test_a_ledger_of_a_newer_edgewise_is_refused_and_unchanged(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db", clock=TurnedClock())
    ledger.settle("r/0", cloud_attempt(1))
    ledger.close()
    connection = sqlite3.connect(ledger.path)
    connection.execute("INSERT INTO edgewise_migrations VALUES ('m002_from_the_future', 1.0)")
    connection.commit()
    connection.close()
    before = ledger.path.read_bytes()
    with pytest.raises(LedgerUnavailable, match=r"newer edgewise .*'m002_from_the_future'"):
        ledger.settle("s/0", cloud_attempt(1))
    assert ledger.path.read_bytes() == before


def test_somebody_elses_database_is_refused_and_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE migrations (id INTEGER)")
    connection.commit()
    connection.close()
    before = path.read_bytes()
    with pytest.raises(LedgerUnavailable, match="not a ledger of edgewise"):
        Ledger(path).sweep()
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["ledger.db"]
