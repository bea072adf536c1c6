"""The ledger's tables as numbered steps; each is applied once, in order, in one transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from edgewise.errors import LedgerUnavailable


@dataclass(frozen=True, slots=True)
class Migration:
    """One step. The number in its name gives the order; a published step is never edited."""

    name: str
    statements: tuple[str, ...]


_REQUESTS = """
CREATE TABLE requests (
    id TEXT NOT NULL PRIMARY KEY,
    created_at REAL NOT NULL,
    task TEXT NOT NULL,
    policy TEXT NOT NULL,
    handoff TEXT NOT NULL,
    private INTEGER NOT NULL,
    budget_key TEXT NOT NULL,
    source TEXT NOT NULL,
    model TEXT NOT NULL,
    decision_code TEXT NOT NULL,
    reason TEXT NOT NULL,
    degraded INTEGER NOT NULL,
    degraded_code TEXT NOT NULL,
    needs_cloud_handoff INTEGER NOT NULL,
    cloud_handoff INTEGER NOT NULL,
    truncated INTEGER NOT NULL,
    confidence REAL,
    threshold REAL,
    decided_after_tokens INTEGER,
    features TEXT NOT NULL,
    calibration TEXT NOT NULL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cost_microdollars INTEGER NOT NULL,
    cost_avoided_microdollars INTEGER NOT NULL,
    first_token_ms REAL,
    total_ms REAL,
    finish_reason TEXT NOT NULL,
    error_code TEXT NOT NULL,
    error TEXT NOT NULL,
    prompt_text TEXT,
    reply_text TEXT,
    tool_calls_text TEXT
)
"""

_ATTEMPTS = """
CREATE TABLE attempts (
    id TEXT NOT NULL PRIMARY KEY,
    request_id TEXT NOT NULL,
    place TEXT NOT NULL,
    backend TEXT NOT NULL,
    model TEXT NOT NULL,
    budget_key TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('reserved', 'settled')),
    started_at REAL NOT NULL,
    day TEXT NOT NULL,
    month TEXT NOT NULL,
    expires_at REAL,
    settled_at REAL,
    outcome TEXT NOT NULL,
    error TEXT NOT NULL,
    tries INTEGER NOT NULL,
    first_token_ms REAL,
    total_ms REAL,
    input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL,
    shown_chars INTEGER NOT NULL,
    reserved_microdollars INTEGER NOT NULL CHECK (reserved_microdollars >= 0),
    cost_microdollars INTEGER NOT NULL CHECK (cost_microdollars >= 0),
    estimated INTEGER NOT NULL
)
"""

# What budgets read: one row per window and key, so that a check costs the same at any size.
# Key '' is the sum over all keys.
_SPEND = """
CREATE TABLE spend (
    window_name TEXT NOT NULL,
    budget_key TEXT NOT NULL,
    settled_microdollars INTEGER NOT NULL,
    reserved_microdollars INTEGER NOT NULL,
    PRIMARY KEY (window_name, budget_key)
) WITHOUT ROWID
"""


# How the device's calls of each tool turned out, without their content.
_TOOL_RECORD = """
CREATE TABLE tool_record (
    name TEXT NOT NULL,
    schema_hash TEXT NOT NULL,
    confirmed INTEGER NOT NULL,
    changed INTEGER NOT NULL,
    PRIMARY KEY (name, schema_hash)
) WITHOUT ROWID
"""


# Seconds of sound that a provider charged for.
_AUDIO_SECONDS = tuple(
    f"ALTER TABLE {table} ADD COLUMN audio_seconds REAL NOT NULL DEFAULT 0"
    for table in ("requests", "attempts")
)


# What left as placeholders, by kind: counts and nothing else.
_REDACTED = ("ALTER TABLE attempts ADD COLUMN redacted TEXT NOT NULL DEFAULT '{}'",)

# Which attempts are one handoff, and of which task: least times between handoffs read them.
_HANDOFFS = (
    "ALTER TABLE attempts ADD COLUMN task TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE attempts ADD COLUMN handoff TEXT NOT NULL DEFAULT ''",
    "CREATE INDEX handoffs_by_time ON attempts (started_at) WHERE place = 'cloud'",
)


# Answers kept on the device that were also asked of the cloud. Texts only on request.
_AUDITS = """
CREATE TABLE audits (
    id TEXT NOT NULL PRIMARY KEY,
    request_id TEXT NOT NULL,
    created_at REAL NOT NULL,
    task TEXT NOT NULL,
    model TEXT NOT NULL,
    calibration TEXT NOT NULL,
    confidence REAL,
    threshold REAL,
    share REAL NOT NULL,
    agree REAL NOT NULL CHECK (agree BETWEEN 0 AND 1),
    judged_by TEXT NOT NULL,
    cost_microdollars INTEGER NOT NULL CHECK (cost_microdollars >= 0),
    features TEXT NOT NULL,
    cloud_text TEXT
)
"""


# What began or ended: a calibration that no longer fits, or fits again.
_NOTES = """
CREATE TABLE notes (
    created_at REAL NOT NULL,
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    words TEXT NOT NULL
)
"""


# What goes on to a shared ledger, in the order of writing: rows by their id, the rest as JSON.
# `stuck`: why it cannot go on.
_OUTBOX = """
CREATE TABLE outbox (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    body TEXT NOT NULL,
    stuck TEXT NOT NULL DEFAULT ''
)
"""


def _charge(row: str, sign: str) -> str:
    """Add an attempt to (or take it from) its day and month, for its key and for all keys."""
    return f"""
    INSERT INTO spend
    SELECT windows.name, keys.name,
        {sign}{row}.cost_microdollars * ({row}.state = 'settled'),
        {sign}{row}.cost_microdollars * ({row}.state = 'reserved')
    FROM (SELECT {row}.day AS name UNION SELECT {row}.month) AS windows,
        (SELECT '' AS name UNION SELECT {row}.budget_key) AS keys
    WHERE {row}.cost_microdollars <> 0
    ON CONFLICT (window_name, budget_key) DO UPDATE SET
        settled_microdollars = settled_microdollars + excluded.settled_microdollars,
        reserved_microdollars = reserved_microdollars + excluded.reserved_microdollars;
    """


# Triggers, so that no writer can forget them: no second program, no shell.
_TRIGGERS = (
    f"CREATE TRIGGER spend_on_insert AFTER INSERT ON attempts BEGIN {_charge('NEW', '')} END",
    "CREATE TRIGGER spend_on_update AFTER UPDATE OF"
    " state, cost_microdollars, budget_key, day, month ON attempts"
    f" BEGIN {_charge('OLD', '-')} {_charge('NEW', '')} END",
    f"CREATE TRIGGER spend_on_delete AFTER DELETE ON attempts BEGIN {_charge('OLD', '-')} END",
)

_INDEXES = (
    "CREATE INDEX requests_by_time ON requests (created_at)",
    "CREATE INDEX attempts_by_request ON attempts (request_id)",
    "CREATE INDEX attempts_by_time ON attempts (started_at)",
    "CREATE INDEX attempts_open ON attempts (expires_at) WHERE state = 'reserved'",
)

MIGRATIONS = (
    Migration(
        "m001_requests_attempts_spend", (_REQUESTS, _ATTEMPTS, _SPEND, *_TRIGGERS, *_INDEXES)
    ),
    Migration("m002_tool_record", (_TOOL_RECORD,)),
    Migration("m003_audio_seconds", _AUDIO_SECONDS),
    Migration("m004_audits", (_AUDITS, "CREATE INDEX audits_by_time ON audits (created_at)")),
    Migration("m005_notes", (_NOTES,)),
    Migration("m006_redacted", _REDACTED),
    Migration("m007_handoffs", _HANDOFFS),
    Migration("m008_outbox", (_OUTBOX,)),
)


def check_known(
    connection: sqlite3.Connection, migrations: Sequence[Migration] = MIGRATIONS
) -> bool:
    """True if nothing is left to apply. Raises if the file is newer, or not a ledger."""
    tables = _tables(connection)
    if not tables:
        return False
    path = connection.execute("PRAGMA database_list").fetchone()[2]
    if "edgewise_migrations" not in tables:
        raise LedgerUnavailable(f"{path!r} is an SQLite database, but not a ledger of edgewise")
    known = {migration.name for migration in migrations}
    newer = _applied(connection) - known
    if newer:
        raise LedgerUnavailable(
            f"the ledger {path!r} was written by a newer edgewise (it has {max(newer)!r}); "
            "upgrade edgewise, or use another ledger file"
        )
    return _applied(connection) == known


def has_tables(connection: sqlite3.Connection) -> bool:
    return bool(_tables(connection))


def _tables(connection: sqlite3.Connection) -> set[str]:
    found = connection.execute("SELECT name FROM sqlite_master WHERE type='table'")
    return {name for (name,) in found}


def migrate(
    connection: sqlite3.Connection, now: float, migrations: Sequence[Migration] = MIGRATIONS
) -> None:
    """Apply what is missing, in an open write transaction: all of it, or nothing."""
    # Another process may have migrated it before we got the lock.
    if check_known(connection, migrations):
        return
    connection.execute(
        "CREATE TABLE IF NOT EXISTS edgewise_migrations"
        " (name TEXT NOT NULL PRIMARY KEY, applied_at REAL NOT NULL)"
    )
    applied = _applied(connection)
    for migration in migrations:
        if migration.name in applied:
            continue
        for statement in migration.statements:
            connection.execute(statement)
        connection.execute("INSERT INTO edgewise_migrations VALUES (?, ?)", (migration.name, now))


def _applied(connection: sqlite3.Connection) -> set[str]:
    return {name for (name,) in connection.execute("SELECT name FROM edgewise_migrations")}
