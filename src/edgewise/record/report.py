"""Reads the ledger: totals, shares, percentiles and reasons over a stretch of time."""

from __future__ import annotations

import json
import math
import re
import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from edgewise.errors import SettingsError
from edgewise.record.audits import AuditReport, audit_report
from edgewise.record.budget import Budget, BudgetState, budget_states
from edgewise.record.rows import bindable

_AGO = re.compile(r"([0-9]{1,6})\s*([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_TEXT_COLUMNS = ("prompt_text", "reply_text", "tool_calls_text")
_FLAGS = ("private", "degraded", "needs_cloud_handoff", "cloud_handoff", "truncated", "estimated")

# A reservation past its time is spent money, whether or not a sweep has come by since.
_OVER = "(state = 'settled' OR expires_at <= :now)"


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Nearest-rank percentiles in milliseconds: each is a latency that really occurred."""

    count: int
    p50: float
    p90: float
    p99: float


@dataclass(frozen=True, slots=True)
class TokenCount:
    """Tokens that went into and came out of one place, rejected answers included."""

    input: int
    output: int
    cached: int


@dataclass(frozen=True, slots=True)
class ProviderSpend:
    """What one cloud provider was asked, how often it failed, what it cost, what it heard."""

    attempts: int
    failures: int
    spent_microdollars: int
    audio_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What happened between `since` (None: ever) and `until`, in Unix seconds.

    `share_on_device` is local answers among all answers; None when nobody answered.
    `spent` holds calls that are over; `estimated` is the part of it that was not reported by a
    provider; `reserved` is set aside for calls still running.
    """

    since: float | None
    until: float
    requests: int
    failed: int
    by_source: Mapping[str, int]
    share_on_device: float | None
    degraded: int
    spent_microdollars: int
    estimated_microdollars: int
    reserved_microdollars: int
    avoided_microdollars: int
    abandoned: int
    tokens: Mapping[str, TokenCount]
    total_ms: Mapping[str, Percentiles]
    first_token_ms: Mapping[str, Percentiles]
    reasons: Mapping[str, int]
    degraded_reasons: Mapping[str, int]
    failures: Mapping[str, int]
    providers: Mapping[str, ProviderSpend]
    budgets: tuple[BudgetState, ...]
    audits: AuditReport

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; amounts in micro-dollars, times in Unix seconds."""
        return asdict(self)


def parse_since(text: str, *, now: float | None = None) -> float:
    """Read "30m", "24h", "7d", or a date or time in UTC like "2026-11-01"; Unix seconds."""
    cleaned = text.strip()
    ago = _AGO.fullmatch(cleaned)
    if ago:
        return (time.time() if now is None else now) - int(ago[1]) * _SECONDS[ago[2]]
    try:
        moment = datetime.fromisoformat(cleaned)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise SettingsError(
            f"cannot read the time {text!r}: write '30m', '24h', '7d' or a date like '2026-11-01'"
        ) from None


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The smallest value that at least `percent` of the values do not exceed."""
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def make_report(
    connection: sqlite3.Connection, budgets: Sequence[Budget], since: float | None, now: float
) -> Report:
    read = _Reader(connection, since, now)
    by_source = read.counts("source")
    answered = sum(count for source, count in by_source.items() if source != "none")
    requests, failed, degraded, avoided = read.row(
        "SELECT COUNT(*), TOTAL(error_code <> ''), TOTAL(degraded),"
        " COALESCE(SUM(cost_avoided_microdollars), 0) FROM requests WHERE created_at >= :since"
    )
    spent, estimated, reserved, abandoned = read.row(
        f"""SELECT COALESCE(SUM(cost_microdollars) FILTER (WHERE {_OVER}), 0),
            COALESCE(SUM(cost_microdollars) FILTER (WHERE {_OVER} AND estimated), 0),
            COALESCE(SUM(cost_microdollars) FILTER (WHERE NOT {_OVER}), 0),
            COUNT(*) FILTER (WHERE {_OVER} AND (state = 'reserved' OR outcome = 'abandoned'))
        FROM attempts WHERE started_at >= :since"""
    )
    return Report(
        since=since,
        until=now,
        requests=requests,
        failed=int(failed),
        by_source=by_source,
        share_on_device=by_source.get("local", 0) / answered if answered else None,
        degraded=int(degraded),
        spent_microdollars=spent,
        estimated_microdollars=estimated,
        reserved_microdollars=reserved,
        avoided_microdollars=avoided,
        abandoned=abandoned,
        tokens=read.tokens(),
        total_ms=read.percentiles("total_ms"),
        first_token_ms=read.percentiles("first_token_ms"),
        reasons=read.counts("decision_code"),
        degraded_reasons=read.counts("degraded_code"),
        failures=read.counts("error_code"),
        providers=read.providers(),
        budgets=tuple(budget_states(connection, budgets, now)),
        audits=audit_report(connection, since),
    )


class _Reader:
    """The questions a report asks, all over the same stretch of time."""

    def __init__(self, connection: sqlite3.Connection, since: float | None, now: float) -> None:
        self._connection = connection
        self._times = {"since": -math.inf if since is None else since, "now": now}

    def rows(self, query: str) -> Iterable[tuple[Any, ...]]:
        return self._connection.execute(query, self._times)

    def row(self, query: str) -> tuple[Any, ...]:
        return next(iter(self.rows(query)))

    def counts(self, column: str) -> dict[str, int]:
        """How many requests have each value of a column, commonest first; '' is left out."""
        return dict(
            self.rows(
                f"SELECT {column}, COUNT(*) FROM requests WHERE created_at >= :since"
                f" AND {column} <> '' GROUP BY 1 ORDER BY 2 DESC, 1"
            )
        )

    def tokens(self) -> dict[str, TokenCount]:
        return {
            place: TokenCount(*counts)
            for place, *counts in self.rows(
                "SELECT place, SUM(input_tokens), SUM(output_tokens), SUM(cached_tokens)"
                " FROM attempts WHERE started_at >= :since GROUP BY 1 ORDER BY 1"
            )
        }

    def providers(self) -> dict[str, ProviderSpend]:
        return {
            name: ProviderSpend(*figures)
            for name, *figures in self.rows(
                f"""SELECT backend, COUNT(*),
                    COUNT(*) FILTER
                        (WHERE outcome NOT IN ('answered', 'handed_off', 'cancelled')),
                    SUM(cost_microdollars), SUM(audio_seconds)
                FROM attempts WHERE started_at >= :since AND place = 'cloud' AND {_OVER}
                GROUP BY 1 ORDER BY 1"""
            )
        }

    def percentiles(self, column: str) -> dict[str, Percentiles]:
        """Per source, and for all answers together; requests nobody answered have no latency."""
        by_source: dict[str, list[float]] = {}
        for source, value in self.rows(
            f"SELECT source, {column} FROM requests WHERE created_at >= :since"
            f" AND {column} IS NOT NULL AND source <> 'none' ORDER BY 2"
        ):
            by_source.setdefault(source, []).append(value)
            by_source.setdefault("all", []).append(value)
        return {
            source: Percentiles(len(values), *(percentile(values, p) for p in (50, 90, 99)))
            for source, values in sorted(by_source.items())
        }


def recent_requests(connection: sqlite3.Connection, limit: int) -> list[dict[str, Any]]:
    found = connection.execute(
        "SELECT * FROM requests ORDER BY created_at DESC, rowid DESC LIMIT ?", (max(0, limit),)
    )
    rows = _as_dicts(found)
    return [{k: v for k, v in row.items() if k not in _TEXT_COLUMNS} for row in rows]


def one_request(connection: sqlite3.Connection, request_id: str) -> dict[str, Any] | None:
    key = (bindable(request_id),)
    found = _as_dicts(connection.execute("SELECT * FROM requests WHERE id = ?", key))
    if not found:
        return None
    attempts = connection.execute("SELECT * FROM attempts WHERE request_id = ? ORDER BY rowid", key)
    return found[0] | {"attempts": _as_dicts(attempts)}


def _as_dicts(cursor: sqlite3.Cursor) -> list[dict[str, Any]]:
    names = [column[0] for column in cursor.description]
    return [_plain(dict(zip(names, row, strict=True))) for row in cursor]


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """SQLite has no booleans and no mappings; the reader should not notice."""
    for name in _FLAGS:
        if name in row:
            row[name] = bool(row[name])
    if "features" in row:
        row["features"] = json.loads(row["features"])
    return row
