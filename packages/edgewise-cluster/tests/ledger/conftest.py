"""The database and its fixtures are those of the ledger's own tests."""

from tests.record.conftest import _database, postgres, postgres_url

__all__ = ["_database", "postgres", "postgres_url"]
