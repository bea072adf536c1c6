"""Least times between two handoffs: read from the attempts that the ledger has, so they survive a
restart, and hold for all processes that share the file."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from edgewise.errors import SettingsError, TooSoon
from edgewise.record.rows import bindable
from edgewise.types.messages import Request, Task

# A handoff that failed and that nobody charges for does not count. One that still runs does.
_LATEST = """
SELECT started_at FROM attempts
WHERE place = 'cloud' AND handoff <> :own AND started_at > :since AND started_at < :until
    AND (:key = '' OR budget_key = :key) AND (:task = '' OR task = :task)
    AND (state = 'reserved' OR outcome IN ('answered', 'abandoned')
        OR cost_microdollars > 0 OR input_tokens > 0 OR output_tokens > 0)
ORDER BY started_at DESC LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class Interval:
    """At least this long between the starts of two handoffs, of those that have the key and task.

    Empty: of all.
    """

    seconds: float
    key: str = ""
    task: str = ""

    def applies_to(self, request: Request) -> bool:
        return self.key in ("", request.budget_key) and self.task in ("", request.task)

    def in_words(self) -> str:
        whose = f" for key {self.key!r}" if self.key else f" for {self.task}" if self.task else ""
        return f"one handoff every {self.seconds:g} s{whose}"


def parse_interval(text: str) -> Interval:
    """Read "30", "app: 60" for a budget key, or "task transcribe: 5". Raises SettingsError."""
    whose, colon, amount = text.rpartition(":")
    try:
        seconds = float(amount)
    except ValueError:
        seconds = math.nan
    word, _, task = whose.strip().partition(" ")
    is_task = word == "task"
    known = not is_task or task.strip() in get_args(Task)
    if not seconds >= 0 or math.isinf(seconds) or not known or (colon and not whose.strip()):
        tasks = ", ".join(get_args(Task))
        raise SettingsError(
            f"cloud_every_s = {text!r}: write seconds, as '30', 'app: 60' for the budget key app, "
            f"or 'task chat: 10' (tasks: {tasks})"
        )
    if is_task:
        return Interval(seconds, task=task.strip())
    return Interval(seconds, key=whose.strip())


def handoff_of(request: Request) -> str:
    """What counts as one handoff: a request, whatever it takes; of speech, each piece of sound.

    Live captions are one request that may last for hours.
    """
    return f"{request.id}/{request.part}" if request.task == "transcribe" else request.id


def wait_s(
    connection: sqlite3.Connection, intervals: Sequence[Interval], request: Request, now: float
) -> tuple[float, str]:
    """Seconds until a request may leave, and the interval that says so in words; 0 if it may."""
    longest, words = 0.0, ""
    for interval in intervals:
        if not interval.applies_to(request):
            continue
        latest = connection.execute(
            _LATEST,
            {
                "own": bindable(handoff_of(request)),
                "since": now - interval.seconds,
                # A clock that was set back must not close the cloud for longer than that.
                "until": now + interval.seconds,
                "key": bindable(interval.key),
                "task": interval.task,
            },
        ).fetchone()
        wait = latest[0] + interval.seconds - now if latest else 0.0
        if wait > longest:
            longest, words = wait, interval.in_words()
    return longest, words


def refuse_if_too_soon(wait: float, words: str) -> None:
    if wait > 0:
        raise TooSoon(f"{words}: the next may leave in {wait:.1f} s")
