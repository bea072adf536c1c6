"""Reads the ledger: totals, shares, percentiles, history, and what the monitors need.

The SQL is what SQLite and PostgreSQL both have; `postgres.py` names the few exceptions.
"""

from __future__ import annotations

import json
import math
import re
import sqlite3
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from edgewise.errors import SettingsError
from edgewise.record.audits import AuditReport, audit_report
from edgewise.record.budget import Budget, BudgetState, budget_states
from edgewise.record.rows import bindable, masked_start
from edgewise.types.measured import is_verified

_AGO = re.compile(r"([0-9]{1,6})\s*([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_TEXT_COLUMNS = ("prompt_text", "reply_text", "tool_calls_text")
_FLAGS = ("private", "degraded", "needs_cloud_handoff", "cloud_handoff", "truncated", "estimated")
# An expired reservation is spent money, whether or not it was swept.
_OVER = "(state = 'settled' OR expires_at <= :now)"
MOST_CONFIDENCES = 5_000
MOST_LOOKED_AT = 5_000  # of the latest requests: a check must cost the same at any size
MOST_HANDOFFS = 200  # that the average cost is taken from
DAY_S = 86_400.0
DAYS = 7  # of history, to predict how many requests are still to come
LEAST_S = 3_600.0  # of history at least, so that a first minute is not taken for a day


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Nearest-rank percentiles in milliseconds: each is a latency that really occurred."""

    count: int
    p50: float
    p90: float
    p99: float


@dataclass(frozen=True, slots=True)
class TokenCount:
    """Tokens into and out of one place, rejected answers included."""

    input: int
    output: int
    cached: int


@dataclass(frozen=True, slots=True)
class ProviderSpend:
    """One cloud provider: attempts, failures, cost, and seconds of sound."""

    attempts: int
    failures: int
    spent_microdollars: int
    audio_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What happened between `since` (None: ever) and `until`, in Unix seconds.

    `share_on_device` is local answers among all answers; None if nobody answered.
    `spent` covers finished calls; `estimated` is the part of it that no provider reported;
    `reserved` is set aside for calls still running.
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
    redacted: Mapping[str, int]
    budgets: tuple[BudgetState, ...]
    audits: AuditReport

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; amounts in micro-dollars, times in Unix seconds."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class JudgedRequest:
    """One request with a measured confidence: what was decided, and what it cost or saved."""

    task: str
    confidence: float
    threshold: float | None
    source: str
    cost_microdollars: int
    avoided_microdollars: int
    verified: bool


@dataclass(frozen=True, slots=True)
class Stretch:
    """How many requests each source answered from `start` (Unix seconds) on; "none": failed."""

    start: float
    counts: dict[str, int]


@dataclass(frozen=True, slots=True)
class Confidence:
    """One request's confidence. `gated`: the answer could have been stopped early."""

    confidence: float
    threshold: float | None
    gated: bool


@dataclass(frozen=True, slots=True)
class Note:
    """Something that began or ended: what (`drift`), of which calibration, and in words.

    Or of the ledger itself: LOST.
    """

    created_at: float
    kind: str
    subject: str
    words: str


LOST = ("ledger", "lost")  # the note of a ledger that was found empty; open until it is accepted


@dataclass(frozen=True, slots=True)
class Traffic:
    """What to expect until a budget resets."""

    requests_left: float
    handoff_microdollars: float  # the average cost of a handoff; 0: none was seen yet


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
        "SELECT COUNT(*), COUNT(*) FILTER (WHERE error_code <> ''),"
        " COUNT(*) FILTER (WHERE degraded <> 0),"
        " COALESCE(SUM(cost_avoided_microdollars), 0) FROM requests WHERE created_at >= :since"
    )
    spent, estimated, reserved, abandoned = read.row(
        f"""SELECT COALESCE(SUM(cost_microdollars) FILTER (WHERE {_OVER}), 0),
            COALESCE(SUM(cost_microdollars) FILTER (WHERE {_OVER} AND estimated <> 0), 0),
            COALESCE(SUM(cost_microdollars) FILTER (WHERE NOT {_OVER}), 0),
            COUNT(*) FILTER (WHERE {_OVER} AND (state = 'reserved' OR outcome = 'abandoned'))
        FROM attempts WHERE started_at >= :since"""
    )
    return Report(
        since=since,
        until=now,
        requests=requests,
        failed=failed,
        by_source=by_source,
        share_on_device=by_source.get("local", 0) / answered if answered else None,
        degraded=degraded,
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
        redacted=read.redacted(),
        budgets=tuple(budget_states(connection, budgets, now)),
        audits=audit_report(connection, since),
    )


def recent_requests(connection: sqlite3.Connection, limit: int) -> list[dict[str, Any]]:
    found = connection.execute(
        "SELECT * FROM requests ORDER BY created_at DESC, rowid DESC LIMIT ?", (max(0, limit),)
    )
    rows = [_with_verified(row) for row in _as_dicts(found)]
    return [{k: v for k, v in row.items() if k not in _TEXT_COLUMNS} for row in rows]


def one_request(connection: sqlite3.Connection, request_id: str) -> dict[str, Any] | None:
    key = (bindable(request_id),)
    found = _as_dicts(connection.execute("SELECT * FROM requests WHERE id = ?", key))
    if not found:
        return None
    attempts = connection.execute("SELECT * FROM attempts WHERE request_id = ? ORDER BY rowid", key)
    return _with_verified(found[0]) | {"attempts": _as_dicts(attempts)}


def _with_verified(row: dict[str, Any]) -> dict[str, Any]:
    """The name of the calibration tells it, also for rows that are older than the word."""
    verified = row["confidence"] is not None and is_verified(row["calibration"])
    return row | {"confidence_verified": verified}


def judged_requests(
    connection: sqlite3.Connection, since: float, limit: int = MOST_CONFIDENCES
) -> list[JudgedRequest]:
    """The latest, newest first."""
    found = connection.execute(
        """SELECT task, confidence, threshold, source, cost_microdollars,
            cost_avoided_microdollars, calibration
        FROM requests WHERE created_at >= ? AND confidence IS NOT NULL
        ORDER BY created_at DESC LIMIT ?""",
        (since, limit),
    )
    return [
        JudgedRequest(task, sure, threshold, source, cost, avoided, is_verified(name))
        for task, sure, threshold, source, cost, avoided, name in found
    ]


def timeline(
    connection: sqlite3.Connection, since: float, now: float, stretches: int
) -> list[Stretch]:
    """Equal stretches from `since` to `now`, empty ones included."""
    width = max(1e-6, (now - since) / stretches)
    found = [Stretch(since + index * width, {}) for index in range(stretches)]
    for index, source, count in connection.execute(
        """SELECT CAST((created_at - :since) / :width AS INTEGER), source, COUNT(*)
        FROM requests WHERE created_at >= :since GROUP BY 1, 2""",
        {"since": since, "width": width},
    ):
        counts = found[min(int(index), stretches - 1)].counts  # a clock may run ahead
        counts[source] = counts.get(source, 0) + count
    return found


def calibrations_in_use(connection: sqlite3.Connection) -> list[tuple[str, str]]:
    """Task and calibration of the latest requests."""
    return list(
        connection.execute(
            "SELECT DISTINCT task, calibration FROM requests"
            " WHERE rowid > (SELECT MAX(rowid) FROM requests) - ? AND calibration <> ''"
            " AND confidence IS NOT NULL ORDER BY 1, 2",
            (MOST_LOOKED_AT,),
        )
    )


def recent_confidences(
    connection: sqlite3.Connection, task: str, calibration: str, limit: int
) -> list[Confidence]:
    found = connection.execute(
        """SELECT confidence, threshold, decided_after_tokens IS NOT NULL FROM requests
        WHERE rowid > (SELECT MAX(rowid) FROM requests) - ? AND task = ? AND calibration = ?
            AND confidence IS NOT NULL
        ORDER BY rowid DESC LIMIT ?""",
        (MOST_LOOKED_AT, task, bindable(calibration), limit),
    )
    return [Confidence(confidence, at, bool(gated)) for confidence, at, gated in found]


def write_note(connection: sqlite3.Connection, note: Note) -> None:
    connection.execute(
        "INSERT INTO notes VALUES (?, ?, ?, ?)",
        (note.created_at, note.kind, bindable(note.subject), bindable(masked_start(note.words)[0])),
    )


def latest_note(connection: sqlite3.Connection, kind: str, subject: str) -> Note | None:
    row = connection.execute(
        "SELECT created_at, kind, subject, words FROM notes WHERE kind = ? AND subject = ?"
        " ORDER BY rowid DESC LIMIT 1",
        (kind, bindable(subject)),
    ).fetchone()
    return None if row is None else Note(*row)


def traffic(
    connection: sqlite3.Connection, budget: Budget, now: float, resets_at: float
) -> Traffic:
    """How many requests are still to come in this window, and what a handoff costs.

    The expected number is the average of the same hours on the days before. Without a whole day of
    history, it is as many as came so far in the same time.
    """
    mine = "(:key = '' OR budget_key = :key)"
    facts = {"key": bindable(budget.key), "now": now, "limit": MOST_HANDOFFS}
    (first,) = connection.execute(
        "SELECT MIN(created_at) FROM requests"
        f" WHERE created_at >= :now - {DAYS * DAY_S} AND {mine}",
        facts,
    ).fetchone()
    expected = 0.0
    if first is not None:
        left = resets_at - now
        days = int((now - first) // DAY_S)
        begin = now - days * DAY_S if days else first
        (count,) = connection.execute(
            f"""SELECT COUNT(*) FROM requests WHERE created_at >= :begin AND created_at < :now
                AND {mine} AND (:days = 0 OR :left >= {DAY_S}
                    OR (created_at - :now + {DAYS + 1} * {DAY_S})
                        - CAST((created_at - :now) / {DAY_S} + {DAYS + 1} AS INTEGER) * {DAY_S}
                        < :left)""",
            facts | {"begin": begin, "days": days, "left": left},
        ).fetchone()
        if not days:
            expected = count * left / max(LEAST_S, now - first)
        elif left >= DAY_S:
            expected = count / days * left / DAY_S
        else:
            expected = count / days
    (cost,) = connection.execute(
        f"""SELECT AVG(cost_microdollars) FROM (SELECT cost_microdollars FROM attempts
            WHERE place = 'cloud' AND state = 'settled' AND cost_microdollars > 0 AND {mine}
            ORDER BY started_at DESC LIMIT :limit)""",
        facts,
    ).fetchone()
    return Traffic(expected, float(cost or 0.0))


class _Reader:
    """The queries of a report, all over the same stretch of time."""

    def __init__(self, connection: sqlite3.Connection, since: float | None, now: float) -> None:
        self._connection = connection
        self._times = {"since": -math.inf if since is None else since, "now": now}

    def rows(self, query: str) -> Iterable[tuple[Any, ...]]:
        return self._connection.execute(query, self._times)

    def row(self, query: str) -> tuple[Any, ...]:
        return next(iter(self.rows(query)))

    def counts(self, column: str) -> dict[str, int]:
        """How many requests have each value of a column, most frequent first; '' is left out."""
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

    def redacted(self) -> dict[str, int]:
        """Values that left as placeholders, by kind."""
        found: Counter[str] = Counter()
        for redacted, count in self.rows(
            "SELECT redacted, COUNT(*) FROM attempts"
            " WHERE started_at >= :since AND place = 'cloud' AND redacted <> '{}' GROUP BY 1"
        ):
            found.update({kind: value * count for kind, value in json.loads(redacted).items()})
        return dict(sorted(found.items()))

    def percentiles(self, column: str) -> dict[str, Percentiles]:
        """Per source, and for all answers together. Requests without an answer have no latency."""
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


def _as_dicts(cursor: sqlite3.Cursor) -> list[dict[str, Any]]:
    names = [column[0] for column in cursor.description]
    return [_plain(dict(zip(names, row, strict=True))) for row in cursor]


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """As booleans and mappings, which SQLite does not have."""
    row.pop("rowid", None)  # PostgreSQL has it as a column
    for name in _FLAGS:
        if name in row:
            row[name] = bool(row[name])
    if "features" in row:
        row["features"] = json.loads(row["features"])
    if "redacted" in row:
        row["redacted"] = json.loads(row["redacted"])
    return row
