"""Reads the ledger for pictures: requests over time, and confidences beside what they led to."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

MOST_CONFIDENCES = 5_000


@dataclass(frozen=True, slots=True)
class JudgedRequest:
    """One request whose confidence was measured: what was decided, and what it cost or saved."""

    task: str
    confidence: float
    threshold: float | None
    source: str
    cost_microdollars: int
    avoided_microdollars: int


@dataclass(frozen=True, slots=True)
class Stretch:
    """How many requests each source answered from `start` (Unix seconds) on; "none" failed."""

    start: float
    counts: dict[str, int]


def judged_requests(
    connection: sqlite3.Connection, since: float, limit: int = MOST_CONFIDENCES
) -> list[JudgedRequest]:
    """The latest, newest first."""
    found = connection.execute(
        """SELECT task, confidence, threshold, source, cost_microdollars,
            cost_avoided_microdollars
        FROM requests WHERE created_at >= ? AND confidence IS NOT NULL
        ORDER BY created_at DESC LIMIT ?""",
        (since, limit),
    )
    return [JudgedRequest(*row) for row in found]


def timeline(
    connection: sqlite3.Connection, since: float, now: float, stretches: int
) -> list[Stretch]:
    """Equal stretches from `since` to `now`, also those in which nothing happened."""
    width = max(1e-6, (now - since) / stretches)
    found = [Stretch(since + index * width, {}) for index in range(stretches)]
    for index, source, count in connection.execute(
        """SELECT CAST((created_at - :since) / :width AS INTEGER), source, COUNT(*)
        FROM requests WHERE created_at >= :since GROUP BY 1, 2""",
        {"since": since, "width": width},
    ):
        counts = found[min(index, stretches - 1)].counts  # a clock may run ahead
        counts[source] = counts.get(source, 0) + count
    return found
