"""One PostgreSQL for all tests of the ledger; each test finds it empty."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from edgewise_bench.scale.postgres_server import PostgresServer
from edgewise_cluster.postgres import PostgresLedger
from tests.record.ledger_cases import Books


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    server = PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.close()


@pytest.fixture(scope="session")
def _database(postgres: PostgresServer) -> str:
    url = postgres.fresh()
    ledger = PostgresLedger(url)
    ledger.sweep()
    ledger.close()
    return url


@pytest.fixture
def postgres_url(_database: str) -> str:
    """An empty ledger in a database."""
    with psycopg.connect(_database, autocommit=True) as connection:
        tables = (
            "requests, attempts, audits, notes, spend, tool_record, rates, breakers, claims,"
            " verdicts, spend_of_people, pruned, days"
        )
        connection.execute("SET search_path TO edgewise")
        connection.execute(f"TRUNCATE {tables} RESTART IDENTITY")
    return _database


@pytest.fixture(params=["file", "postgres"])
def books(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Books]:
    """Opens the same empty ledger again and again: in a file, and in PostgreSQL."""
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else ""
    found = Books(tmp_path / "ledger.db", url)
    yield found
    found.close()
