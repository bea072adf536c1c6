"""Reads the ledger: totals, shares, percentiles, history, and what the monitors need.

The SQL is what SQLite and PostgreSQL both have; `postgres.py` names the few exceptions.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
import sqlite3
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, date, datetime
from typing import Any, Literal

from edgewise.errors import SettingsError
from edgewise.record.rows import (
    Budget,
    BudgetState,
    Row,
    bindable,
    bounded_text,
    budget_states,
    checked_amount,
    insert_once,
    masked_start,
    window_name,
)
from edgewise.types.replies import is_verified

AUDIT_KEY = "audit"  # the budget key of every cloud call that an audit makes
MOST_AUDITS = 20_000  # the latest, read at once
MOST_VERDICTS = 1_000  # the latest of a workload: a server reads them every few seconds
# From this agreement on an answer counts as right; in speech, a few words may differ.
RIGHT_FROM: Mapping[str, float] = {"transcribe": 0.85}
RIGHT = 0.5  # in every other task
ALMOST_SURE = 1.959964  # standard deviations that hold 95 %


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """One kept answer (for speech: one segment) beside the cloud's.

    id          of the request; for speech, with the segment's number
    confidence  of the device, from these features, by this calibration
    share       of answers that were audited when this one was chosen
    agree       0 to 1; disagreement does not prove an error: the cloud may be wrong
    judged_by   `exact`, `calls`, `word_error`, `embedding` or `judge`
    cloud_text  only if the request asks for texts to be stored
    """

    id: str
    request_id: str
    task: str
    model: str
    calibration: str
    confidence: float | None
    threshold: float | None
    share: float
    agree: float
    judged_by: str
    cost_microdollars: int
    features: Mapping[str, float] = field(default_factory=dict)
    cloud_text: str | None = None
    created_at: float = 0.0

    @property
    def right(self) -> bool:
        return self.agree >= RIGHT_FROM.get(self.task, RIGHT)


@dataclass(frozen=True, slots=True)
class Share:
    """`wrong` of `count`, and the 95 % interval (Wilson's) of the true share."""

    count: int
    wrong: int
    share: float | None
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What audits say about the kept answers: disagreement by task and in all, and its price.

    kept, accepted...  answers kept on the device in this time, and how many of them would be wrong
                       if all were like the audited ones
    """

    all: Share
    tasks: Mapping[str, Share]
    judged_by: Mapping[str, int]
    spent_microdollars: int
    kept: int
    accepted: float | None
    accepted_low: float
    accepted_high: float


def write_audit(connection: sqlite3.Connection, audit: Audit, now: float) -> bool:
    """Whether it is new: an answer is audited once."""
    row = {
        "id": audit.id,
        "request_id": audit.request_id,
        "created_at": audit.created_at or now,
        "task": audit.task,
        "model": audit.model,
        "calibration": audit.calibration,
        "confidence": audit.confidence,
        "threshold": audit.threshold,
        "share": audit.share,
        "agree": min(1.0, max(0.0, audit.agree)),
        "judged_by": audit.judged_by,
        "cost_microdollars": checked_amount(audit.cost_microdollars),
        "features": json.dumps({name: bindable(v) for name, v in audit.features.items()}),
        "cloud_text": None if audit.cloud_text is None else bounded_text(audit.cloud_text),
    }
    return insert_once(connection, "audits", row)


def read_audits(
    connection: sqlite3.Connection, since: float = 0.0, task: str = "", most: int = MOST_AUDITS
) -> list[Audit]:
    """The latest, newest first."""
    found = connection.execute(
        """SELECT id, request_id, task, model, calibration, confidence, threshold, share, agree,
            judged_by, cost_microdollars, features, cloud_text, created_at
        FROM audits WHERE created_at >= ? AND (? = '' OR task = ?)
        ORDER BY created_at DESC, id LIMIT ?""",
        (since, task, task, most),
    )
    names = [column[0] for column in found.description]
    rows = [dict(zip(names, row, strict=True)) for row in found]
    return [Audit(**(row | {"features": json.loads(row["features"])})) for row in rows]


# -- verdicts --------------------------------------------------------------------------------------


Judge = Literal["person", "check", "audit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A verdict on one answer.

    id          of the request; with "/device", on what the device wrote after it had left
    workload    its budget key
    confidence  of the device, if the answer was the device's
    above       answers from this confidence on stayed on the device, or were drawn by chance
                whether they stayed or not; None: something else decided
    judged_by   a person, a program of the application, or the cloud's answer in an audit
    """

    id: str
    workload: str
    task: str
    calibration: str
    confidence: float | None
    above: float | None
    right: bool
    judged_by: Judge
    created_at: float = 0.0


@dataclass(frozen=True, slots=True)
class Workload:
    """The requests of one budget key that one calibration judged, and how many stayed."""

    name: str
    task: str
    calibration: str
    requests: int
    kept: int


def verdict_row(said: Said, now: float) -> Row:
    return {
        "id": said.id,
        "created_at": said.created_at or now,
        "workload": said.workload,
        "task": said.task,
        "calibration": said.calibration,
        "confidence": said.confidence,
        "above": said.above,
        "correct": int(said.right),
        "judged_by": said.judged_by,
    }


def write_verdict(connection: sqlite3.Connection, row: Row) -> bool:
    """Whether it counts: it replaces an earlier one, but only a person's that of a person."""
    if insert_once(connection, "verdicts", row):
        return True
    replaced = connection.execute(
        "UPDATE verdicts SET correct = :correct, judged_by = :judged_by WHERE id = :id"
        " AND (:judged_by = 'person' OR judged_by <> 'person')",
        {name: bindable(row[name]) for name in ("id", "correct", "judged_by")},
    )
    return replaced.rowcount == 1


def read_verdicts(
    connection: sqlite3.Connection, workload: str, most: int = MOST_VERDICTS
) -> list[Said]:
    """The latest, in the order in which the answers were first judged."""
    found = connection.execute(
        "SELECT id, workload, task, calibration, confidence, above, correct, judged_by, created_at"
        " FROM verdicts WHERE workload = ? ORDER BY created_at DESC, id DESC LIMIT ?",
        (bindable(workload), most),
    )
    rows = [
        Said(
            id=name,
            workload=of,
            task=task,
            calibration=calibration,
            confidence=confidence,
            above=above,
            right=bool(correct),
            judged_by=judged_by,
            created_at=at,
        )
        for name, of, task, calibration, confidence, above, correct, judged_by, at in found
    ]
    return rows[::-1]


def judged_right(connection: sqlite3.Connection, since: float) -> Share:
    """Of the device's answers that people or programs judged in this time."""
    count, wrong = connection.execute(
        "SELECT COUNT(*), COUNT(*) FILTER (WHERE correct = 0) FROM verdicts"
        " WHERE created_at >= ? AND confidence IS NOT NULL AND judged_by <> 'audit'",
        (since,),
    ).fetchone()
    return share_wrong({"count": count, "wrong": wrong})


def read_workloads(connection: sqlite3.Connection) -> list[Workload]:
    """Those of the latest requests, the largest first."""
    found = connection.execute(
        """SELECT budget_key, task, calibration, COUNT(*),
            COUNT(*) FILTER (WHERE source = 'local')
        FROM (SELECT budget_key, task, calibration, source FROM requests
            ORDER BY created_at DESC LIMIT ?) AS latest
        WHERE calibration <> '' AND task IN ('chat', 'call')
        GROUP BY 1, 2, 3 ORDER BY 4 DESC, 1, 2, 3""",
        (MOST_LOOKED_AT,),
    )
    return [Workload(*row) for row in found]


def audit_report(
    connection: sqlite3.Connection, begin: float, *, spent: int, kept: int
) -> AuditReport:
    bars = " ".join(f"WHEN '{task}' THEN {bar}" for task, bar in RIGHT_FROM.items())
    found = connection.execute(
        f"""SELECT task, judged_by, COUNT(*),
            COUNT(*) FILTER (WHERE agree < CASE task {bars} ELSE {RIGHT} END)
        FROM (SELECT task, judged_by, agree FROM audits WHERE created_at >= ?
            ORDER BY created_at DESC, id LIMIT ?) AS latest
        GROUP BY 1, 2 ORDER BY 1, 2""",
        (begin, MOST_AUDITS),
    )
    tasks: dict[str, Counter[str]] = {}
    judges: Counter[str] = Counter()
    for task, judge, count, wrong in found:
        tasks.setdefault(task, Counter()).update(count=count, wrong=wrong)
        judges[judge] += count
    total = share_wrong(sum(tasks.values(), Counter()))
    return AuditReport(
        all=total,
        tasks={task: share_wrong(counted) for task, counted in tasks.items()},
        judged_by=dict(sorted(judges.items())),
        spent_microdollars=spent,
        kept=kept,
        accepted=None if total.share is None else total.share * kept,
        accepted_low=total.low * kept,
        accepted_high=total.high * kept,
    )


def share_wrong(counted: Mapping[str, int]) -> Share:
    count, wrong = counted.get("count", 0), counted.get("wrong", 0)
    low, high = wilson(wrong, count)
    return Share(count, wrong, wrong / count if count else None, low, high)


def wilson(wrong: int, count: int) -> tuple[float, float]:
    """The 95 % interval of a share; 0 to 1 if nothing was counted."""
    if not count:
        return 0.0, 1.0
    z, share = ALMOST_SURE, wrong / count
    spread = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    middle, scale = share + z * z / (2 * count), 1 + z * z / count
    low, high = (middle - spread) / scale, (middle + spread) / scale
    return max(0.0, min(low, share)), min(1.0, max(high, share))  # against rounding errors


# -- the report ------------------------------------------------------------------------------------


_AGO = re.compile(r"([0-9]{1,6})\s*([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_TEXT_COLUMNS = ("prompt_text", "reply_text", "tool_calls_text")
_FLAGS = (
    "private",
    "degraded",
    "needs_cloud_handoff",
    "cloud_handoff",
    "truncated",
    "estimated",
    "price_guessed",
)
_TOKENS = ("input_tokens", "output_tokens", "cached_tokens")
_PERCENTS = (50, 90, 99)
MOST_CONFIDENCES = 5_000
MOST_LOOKED_AT = 5_000  # of the latest requests: a check must cost the same at any size
MOST_TIMED = 5_000  # of the latest answers, whose latencies are ranked
MOST_HANDOFFS = 200  # that the average cost is taken from
DAY_S = 86_400.0
HOUR_S = 3_600.0
OPEN_S = 3_600.0  # after its end, what an hour holds may still change: money is settled later
MOST_REMEMBERED_S = 32 * DAY_S
DIVIDE_A_DAY = (1, 2, 3, 4, 6, 8, 12, 24)
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
    verdicts: Share

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; amounts in micro-dollars, times in Unix seconds."""
        return asdict(self)


By = Literal["key", "user", "group"]
Every = Literal["", "day", "week"]


@dataclass(frozen=True, slots=True)
class Usage:
    """What one key, or one of the people behind it, has asked, spent and saved.

    Whole days of UTC are counted. `period` is a day ("2026-11-03"), a week ("2026-W45"), or empty:
    all of the time. `kept`: the device alone answered; `doubtful`: of those, where a better answer
    was wanted (`degraded`, or the confidence fell after text had been shown). These figures stay
    when old requests are deleted.
    """

    period: str
    key: str
    user: str
    group: str
    requests: int
    kept: int
    doubtful: int
    cloud: int
    failed: int
    spent_microdollars: int
    avoided_microdollars: int


@dataclass(frozen=True, slots=True)
class JudgedRequest:
    """One request with a measured confidence: what was decided, and what it cost or saved.

    `confidence` is the one that decided: of a stream, that at which it began to show its answer.
    """

    task: str
    confidence: float
    threshold: float | None
    source: str
    cost_microdollars: int
    avoided_microdollars: int
    verified: bool
    calibration: str
    code: str
    degraded_code: str
    streamed: bool


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


def percentile(ordered: Sequence[float], percent: int) -> float:
    """The smallest value that at least `percent` of the values do not exceed."""
    return ordered[rank(len(ordered), percent) - 1]


def rank(count: int, percent: int) -> int:
    """Which value in order, from 1, is that percentile of so many."""
    return max(1, math.ceil(count * percent / 100))


def make_report(
    connection: sqlite3.Connection,
    budgets: Sequence[Budget],
    since: float | None,
    now: float,
    hours: Hours | None = None,
) -> Report:
    """`hours` has what earlier reports summed up of the same file."""
    hours = hours or Hours()
    begin = -math.inf if since is None else since
    asked, tried = (
        _Groups(sums, (row for _, row in hours.rows(connection, sums, begin, now)))
        for sums in (ASKED, TRIED)
    )
    by_source = asked.counts("source")
    answered = sum(count for source, count in by_source.items() if source != "none")
    return Report(
        since=since,
        until=now,
        requests=asked.sum("requests"),
        failed=sum(asked.counts("error_code").values()),
        by_source=by_source,
        share_on_device=by_source.get("local", 0) / answered if answered else None,
        degraded=asked.sum("degraded"),
        spent_microdollars=tried.sum("spent"),
        estimated_microdollars=tried.sum("estimated"),
        reserved_microdollars=tried.sum("reserved"),
        avoided_microdollars=asked.sum("avoided"),
        abandoned=tried.sum("abandoned"),
        tokens={
            place: TokenCount(*(tried.sum(name, place=place) for name in _TOKENS))
            for place in sorted({row["place"] for row in tried.rows})
        },
        total_ms=percentiles(connection, "total_ms", begin),
        first_token_ms=percentiles(connection, "first_token_ms", begin),
        reasons=asked.counts("decision_code"),
        degraded_reasons=asked.counts("degraded_code"),
        failures=asked.counts("error_code"),
        providers=_providers(tried),
        redacted=_redacted(tried),
        budgets=tuple(budget_states(connection, budgets, now)),
        audits=audit_report(
            connection,
            begin,
            spent=tried.sum("spent", audit="yes"),
            kept=asked.sum("requests", source="local")
            - asked.sum("requests", source="local", task="embed")
            - asked.sum("requests", source="local", task="decide")
            - asked.sum("requests", source="local", task="speak"),
        ),
        verdicts=judged_right(connection, begin),
    )


# `verdict`: whether somebody found the answer right; empty: nobody has said.
_WITH_VERDICT = (
    "SELECT requests.*, verdicts.correct AS verdict"
    " FROM requests LEFT JOIN verdicts ON verdicts.id = requests.id"
)


def recent_requests(connection: sqlite3.Connection, limit: int) -> list[dict[str, Any]]:
    found = connection.execute(
        f"{_WITH_VERDICT} ORDER BY requests.created_at DESC, requests.rowid DESC LIMIT ?",
        (max(0, limit),),
    )
    rows = [_with_verified(row) for row in _as_dicts(found)]
    return [{k: v for k, v in row.items() if k not in _TEXT_COLUMNS} for row in rows]


def one_request(connection: sqlite3.Connection, request_id: str) -> dict[str, Any] | None:
    key = (bindable(request_id),)
    found = _as_dicts(connection.execute(f"{_WITH_VERDICT} WHERE requests.id = ?", key))
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
        """SELECT task, COALESCE(kept_at, confidence), threshold, source, cost_microdollars,
            cost_avoided_microdollars, calibration, decision_code, degraded_code,
            kept_at IS NOT NULL
        FROM requests WHERE created_at >= ? AND confidence IS NOT NULL
        ORDER BY created_at DESC LIMIT ?""",
        (since, limit),
    )
    judged: list[JudgedRequest] = []
    for task, sure, at, source, cost, avoided, name, code, degraded, streamed in found:
        codes = (is_verified(name), name, code, degraded, bool(streamed))
        judged.append(JudgedRequest(task, sure, at, source, cost, avoided, *codes))
    return judged


def timeline(
    connection: sqlite3.Connection,
    since: float,
    now: float,
    stretches: int,
    hours: Hours | None = None,
) -> list[Stretch]:
    """At most so many stretches from the first request to now, of equal length, empty ones too.

    Longer than an hour, they are whole hours that divide a day, and the first one may be cut.
    """
    (first,) = connection.execute(
        "SELECT MIN(created_at) FROM requests WHERE created_at >= ?", (since,)
    ).fetchone()
    if first is not None:  # an hour at least: what is empty before it says nothing
        since = max(since, min(first, now - HOUR_S))
    width = max(1e-6, (now - since) / stretches)
    if width <= HOUR_S:
        found = [Stretch(since + index * width, {}) for index in range(stretches)]
        for index, source, count in connection.execute(
            """SELECT CAST((created_at - :since) / :width AS INTEGER), source, COUNT(*)
            FROM requests WHERE created_at >= :since GROUP BY 1, 2""",
            {"since": since, "width": width},
        ):
            _count(found[min(int(index), stretches - 1)], source, count)  # a clock may run ahead
        return found
    width = HOUR_S * next(
        (each for each in DIVIDE_A_DAY if each * HOUR_S >= width), math.ceil(width / DAY_S) * 24
    )
    begin = math.floor(since / width)
    found = [
        Stretch(max(since, at * width), {}) for at in range(begin, math.floor(now / width) + 1)
    ]
    for at, row in (hours or Hours()).rows(connection, ASKED, since, now):
        place = math.floor(at / width) - begin
        _count(found[min(max(0, place), len(found) - 1)], row[0], row[len(ASKED.keys)])
    return found


def _count(stretch: Stretch, source: str, count: int) -> None:
    stretch.counts[source] = stretch.counts.get(source, 0) + count


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


def read_usage(
    connection: sqlite3.Connection,
    since: float | None = None,
    by: By = "key",
    every: Every = "",
    key: str = "",
) -> list[Usage]:
    """The latest period first; in it, who spent and asked most first. `key`: of one key alone."""
    first = "" if since is None else window_name(since, "day")
    who = "''" if by == "key" else f"{by}_name"
    facts = {"first": first, "key": bindable(key)}
    mine = "(:key = '' OR budget_key = :key)"
    found: dict[tuple[str, str, str], Counter[str]] = {}

    def add(day: str, of: str, name: str, **amounts: int) -> None:
        counted = found.setdefault((_period(day, every), of, name), Counter())
        counted.update(amounts)

    counts = ("requests", "kept", "doubtful", "cloud", "failed", "avoided_microdollars")
    for day, of, name, *amounts in connection.execute(
        f"SELECT day, budget_key, {who}, {', '.join(f'SUM({each})' for each in counts)}"
        f" FROM days WHERE day >= :first AND {mine} GROUP BY 1, 2, 3",
        facts,
    ):
        add(day, of, name, **dict(zip(counts, amounts, strict=True)))
    whole: dict[str, int] = {}  # of a day: what no key spent is what is left
    for day, of, spent in connection.execute(
        "SELECT window_name, budget_key, settled_microdollars FROM spend"
        " WHERE LENGTH(window_name) = 10 AND window_name >= :first"
        f" AND (budget_key = '' OR {mine})",
        facts,
    ):
        if of:
            add(day, of, "", spent=spent)
        whole[day] = whole.get(day, 0) + (-spent if of else spent)
    if not key:
        for day, spent in whole.items():
            if spent:
                add(day, "", "", spent=spent)
    if by != "key":  # what a person spent is part of what the key did
        for day, of, name, spent in connection.execute(
            f"SELECT window_name, budget_key, {who}, SUM(settled_microdollars)"
            " FROM spend_of_people WHERE LENGTH(window_name) = 10 AND window_name >= :first"
            f" AND {who} <> '' AND {mine} GROUP BY 1, 2, 3",
            facts,
        ):
            add(day, of, name, spent=spent)
            add(day, of, "", spent=-spent)
    rows = [
        Usage(
            period=period,
            key=of,
            user=name if by == "user" else "",
            group=name if by == "group" else "",
            requests=counted["requests"],
            kept=counted["kept"],
            doubtful=counted["doubtful"],
            cloud=counted["cloud"],
            failed=counted["failed"],
            spent_microdollars=counted["spent"],
            avoided_microdollars=counted["avoided_microdollars"],
        )
        for (period, of, name), counted in found.items()
        if any(counted.values())
    ]
    rows.sort(
        key=lambda row: (-row.spent_microdollars, -row.requests, row.key, row.user or row.group)
    )
    rows.sort(key=lambda row: row.period, reverse=True)
    return rows


def usage_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """With a head; amounts in micro-dollars."""
    text = io.StringIO()
    names = [each.name for each in fields(Usage)]
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        # A spreadsheet would run a name that begins like a formula.
        writer.writerow({name: _plain_cell(row[name]) for name in names})
    return text.getvalue()


def _plain_cell(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    shown = "".join(each for each in value if each.isprintable())
    return f"'{shown}" if shown.startswith(("=", "+", "-", "@")) else shown


def _period(day: str, every: Every) -> str:
    if every != "week":
        return day if every else ""
    year, week, _ = date.fromisoformat(day).isocalendar()
    return f"{year}-W{week:02d}"


@dataclass(frozen=True, slots=True)
class Sums:
    """What a report adds up of a table: sums of the rows that are alike in some columns."""

    table: str
    time: str
    keys: Mapping[str, str]
    sums: Mapping[str, str]

    def query(self) -> str:
        """By hour."""
        sums = ", ".join(f"COALESCE({each}, 0)" for each in self.sums.values())
        places = ", ".join(str(each + 1) for each in range(1 + len(self.keys)))
        return (
            f"SELECT CAST({self.time} / {HOUR_S} AS INTEGER),"
            f" {', '.join(self.keys.values())}, {sums} FROM {self.table}"
            f" WHERE {self.time} >= :since AND {self.time} < :until"
            f" GROUP BY {places} ORDER BY {places}"
        )


# An expired reservation is spent money, whether or not it was swept.
_OVER = "(state = 'settled' OR expires_at <= :now)"
ASKED = Sums(
    "requests",
    "created_at",
    {name: name for name in ("source", "task", "decision_code", "degraded_code", "error_code")},
    {
        "requests": "COUNT(*)",
        "degraded": "COUNT(*) FILTER (WHERE degraded <> 0)",
        "doubtful": "COUNT(*) FILTER (WHERE needs_cloud_handoff <> 0 AND source = 'local')",
        "avoided": "SUM(cost_avoided_microdollars)",
    },
)
TRIED = Sums(
    "attempts",
    "started_at",
    {
        "place": "place",
        "backend": "backend",
        "audit": f"CASE budget_key WHEN '{AUDIT_KEY}' THEN 'yes' ELSE '' END",
        "redacted": "redacted",
    },
    {
        "attempts": "COUNT(*)",
        "ended": f"COUNT(*) FILTER (WHERE {_OVER})",
        "spent": f"SUM(cost_microdollars) FILTER (WHERE {_OVER})",
        "estimated": f"SUM(cost_microdollars) FILTER (WHERE {_OVER} AND estimated <> 0)",
        "reserved": f"SUM(cost_microdollars) FILTER (WHERE NOT {_OVER})",
        "abandoned": f"COUNT(*) FILTER (WHERE {_OVER}"
        " AND (state = 'reserved' OR outcome = 'abandoned'))",
        "failures": f"COUNT(*) FILTER (WHERE {_OVER}"
        " AND outcome NOT IN ('answered', 'handed_off', 'cancelled'))",
        "audio_seconds": f"SUM(audio_seconds) FILTER (WHERE {_OVER})",
        **{name: f"SUM({name})" for name in _TOKENS},
    },
)


class Hours:
    """Sums of hours that are over, so that a server reads each row of the past once.

    For one file, which gets its rows in the order of their time; what does not keep to that makes
    it begin anew. Not thread-safe.
    """

    def __init__(self, *, kept: bool = False) -> None:
        """Without `kept` nothing is remembered: rows of other machines may come late."""
        self._kept = kept
        self._sums: dict[str, dict[int, list[tuple[Any, ...]]]] = {}
        self._seen: dict[str, tuple[float | None, int]] = {}

    def rows(
        self, connection: sqlite3.Connection, of: Sums, since: float, now: float
    ) -> Iterator[tuple[float, tuple[Any, ...]]]:
        """Each with when it begins, from `since` on."""
        first, last = 0, 0  # hours that may be remembered
        if self._kept and now - since <= MOST_REMEMBERED_S:
            first, last = math.ceil(since / HOUR_S), math.floor((now - OPEN_S) / HOUR_S)
        if first >= last:
            yield from self._read(connection, of, since, math.inf, now)
            return
        kept = self._checked(connection, of, last)
        missing = [hour for hour in range(first, last) if hour not in kept]
        if missing:
            begin, end = missing[0], missing[-1] + 1
            kept.update({hour: [] for hour in range(begin, end)})
            for at, row in self._read(connection, of, begin * HOUR_S, end * HOUR_S, now):
                kept[int(at // HOUR_S)].append(row)
        yield from self._read(connection, of, since, first * HOUR_S, now)
        for hour in range(first, last):
            for row in kept[hour]:
                yield hour * HOUR_S, row
        yield from self._read(connection, of, last * HOUR_S, math.inf, now)

    def _checked(
        self, connection: sqlite3.Connection, of: Sums, last: int
    ) -> dict[int, list[tuple[Any, ...]]]:
        """What is remembered of a table, unless rows went, or came to hours that were over."""
        kept = self._sums.setdefault(of.table, {})
        (first,) = connection.execute(f"SELECT MIN({of.time}) FROM {of.table}").fetchone()
        (newest,) = connection.execute(f"SELECT MAX(rowid) FROM {of.table}").fetchone()
        before, highest = self._seen.get(of.table, (first, newest or 0))
        late = connection.execute(
            # "+": by number and not by time, which would read all that is over.
            f"SELECT 1 FROM {of.table} WHERE rowid > ? AND +{of.time} < ? LIMIT 1",
            (highest, (max(kept, default=-1) + 1) * HOUR_S),
        ).fetchone()
        if first != before or (newest or 0) < highest or late is not None:
            kept.clear()
        for hour in [each for each in kept if each < last - MOST_REMEMBERED_S / HOUR_S]:
            del kept[hour]
        self._seen[of.table] = first, newest or 0
        return kept

    def _read(
        self, connection: sqlite3.Connection, of: Sums, since: float, until: float, now: float
    ) -> Iterator[tuple[float, tuple[Any, ...]]]:
        times = {"since": since, "until": until, "now": now}
        for hour, *row in connection.execute(of.query(), times):
            yield max(since, hour * HOUR_S), tuple(row)


class _Groups:
    """Sums of rows that are alike in some columns: few, whatever the number of rows."""

    def __init__(self, of: Sums, rows: Iterable[tuple[Any, ...]]) -> None:
        width = len(of.keys)
        found: dict[tuple[Any, ...], list[Any]] = {}
        for row in rows:
            have = found.get(row[:width])
            if have is None:
                found[row[:width]] = list(row[width:])
                continue
            for place, value in enumerate(row[width:]):
                have[place] += value
        names = (*of.keys, *of.sums)
        self.rows = [dict(zip(names, (*key, *sums), strict=True)) for key, sums in found.items()]

    def sum(self, name: str, **same: str) -> int:
        return sum(row[name] for row in self.rows if same.items() <= row.items())

    def counts(self, column: str) -> dict[str, int]:
        """How many requests have each value of a column, most frequent first; '' is left out."""
        found: Counter[str] = Counter()
        for row in self.rows:
            found[row[column]] += row["requests"]
        found.pop("", None)
        return dict(sorted(found.items(), key=lambda each: (-each[1], each[0])))


def _providers(tried: _Groups) -> dict[str, ProviderSpend]:
    names = sorted(
        {row["backend"] for row in tried.rows if row["place"] == "cloud" and row["ended"]}
    )
    sums = ("ended", "failures", "spent", "audio_seconds")
    return {
        name: ProviderSpend(*(tried.sum(each, place="cloud", backend=name) for each in sums))
        for name in names
    }


def _redacted(tried: _Groups) -> dict[str, int]:
    """Values that left as placeholders, by kind."""
    found: Counter[str] = Counter()
    for row in tried.rows:
        if row["place"] == "cloud":
            kinds = json.loads(row["redacted"])
            found.update({kind: value * row["attempts"] for kind, value in kinds.items()})
    return dict(sorted(found.items()))


def percentiles(
    connection: sqlite3.Connection, column: str, begin: float
) -> dict[str, Percentiles]:
    """Of the latest answers, per source and for all together.

    The database ranks: rows that come here one by one would stop all other threads of a server.
    """
    latest = (
        f"(SELECT source, {column} AS value FROM requests WHERE created_at >= ?"
        f" AND source <> 'none' AND {column} IS NOT NULL ORDER BY created_at DESC LIMIT ?)"
        " AS latest"
    )
    facts = (begin, MOST_TIMED)
    counts = dict(
        connection.execute(f"SELECT source, COUNT(*) FROM {latest} GROUP BY 1 ORDER BY 1", facts)
    )
    if not counts:
        return {}
    whole = {"all": sum(counts.values())}
    found: dict[str, Percentiles] = {}
    for order, groups in (("value", whole), ("source, value", counts)):
        places: dict[str, list[int]] = {}
        before = 0
        for name, count in groups.items():  # one after the other, of so many each
            places[name] = [before + rank(count, percent) for percent in _PERCENTS]
            before += count
        wanted = [place for each in places.values() for place in each]
        values = dict(
            connection.execute(
                f"""SELECT place, value FROM (
                    SELECT ROW_NUMBER() OVER (ORDER BY {order}) AS place, value FROM {latest}
                ) AS ranked WHERE place IN ({", ".join("?" * len(wanted))})""",
                (*facts, *wanted),
            )
        )
        for name, each in places.items():
            found[name] = Percentiles(groups[name], *(values[place] for place in each))
    return dict(sorted(found.items()))


def _as_dicts(cursor: sqlite3.Cursor) -> list[dict[str, Any]]:
    names = [column[0] for column in cursor.description]
    return [_plain(dict(zip(names, row, strict=True))) for row in cursor]


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """As booleans and mappings, which SQLite does not have."""
    row.pop("rowid", None)  # PostgreSQL has it as a column
    for name in _FLAGS:
        if name in row:
            row[name] = bool(row[name])
    if row.get("verdict") is not None:
        row["verdict"] = bool(row["verdict"])
    if "features" in row:
        row["features"] = json.loads(row["features"])
    if "redacted" in row:
        row["redacted"] = json.loads(row["redacted"])
    return row
