"""What watchers read of the ledger (confidences, what the cloud was needed for) and note in it."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from edgewise.record.budget import Budget
from edgewise.record.rows import bindable, masked_start

MOST_LOOKED_AT = 5_000  # of the latest requests: a check must cost the same at any size
MOST_HANDOFFS = 200  # that say what one costs
DAY_S = 86_400.0
DAYS = 7  # looked back on for how many requests are still to come
LEAST_S = 3_600.0  # of history, so that a first minute is not taken for a day


@dataclass(frozen=True, slots=True)
class Confidence:
    """One request's, newest first; `gated`: an answer could have been stopped half way."""

    confidence: float
    threshold: float | None
    gated: bool


@dataclass(frozen=True, slots=True)
class Note:
    """Something that began or ended: what (`drift`), whose (a calibration's), and in words."""

    created_at: float
    kind: str
    subject: str
    words: str


@dataclass(frozen=True, slots=True)
class Traffic:
    """What is to be expected of the rest of a budget's window."""

    requests_left: float
    handoff_microdollars: float  # what a handoff costs on average; 0: none was seen yet


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
    """Requests still to come in this window, and what a handoff costs, from those of the past.

    Those to come are as many as came in the same hours of the days before, on average; before
    there is a whole day to look back on, as many as came in this time so far.
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
