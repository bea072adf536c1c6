"""The table of audits: answers kept on the device that were also asked of the cloud."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from edgewise.record.rows import bindable, bounded_text, checked_amount, insert_once

AUDIT_KEY = "audit"  # the budget key of every cloud call that an audit makes
MOST_AUDITS = 20_000  # the latest, read at once
# From this agreement on an answer counts as right; in speech, a few words may differ.
RIGHT_FROM: Mapping[str, float] = {"transcribe": 0.85}
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
        return self.agree >= RIGHT_FROM.get(self.task, 0.5)


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


def audit_report(connection: sqlite3.Connection, since: float | None) -> AuditReport:
    begin = -math.inf if since is None else since
    audits = read_audits(connection, begin)
    (spent,) = connection.execute(
        "SELECT COALESCE(SUM(cost_microdollars), 0) FROM attempts"
        " WHERE started_at >= ? AND budget_key = ?",
        (begin, AUDIT_KEY),
    ).fetchone()
    (kept,) = connection.execute(
        "SELECT COUNT(*) FROM requests WHERE created_at >= ? AND source = 'local'"
        " AND task <> 'embed'",
        (begin,),
    ).fetchone()
    total = share_wrong(audits)
    judges = sorted({audit.judged_by for audit in audits})
    return AuditReport(
        all=total,
        tasks={
            task: share_wrong([audit for audit in audits if audit.task == task])
            for task in sorted({audit.task for audit in audits})
        },
        judged_by={name: sum(audit.judged_by == name for audit in audits) for name in judges},
        spent_microdollars=spent,
        kept=kept,
        accepted=None if total.share is None else total.share * kept,
        accepted_low=total.low * kept,
        accepted_high=total.high * kept,
    )


def share_wrong(audits: Sequence[Audit]) -> Share:
    wrong = sum(not audit.right for audit in audits)
    low, high = wilson(wrong, len(audits))
    return Share(len(audits), wrong, wrong / len(audits) if audits else None, low, high)


def wilson(wrong: int, count: int) -> tuple[float, float]:
    """The 95 % interval of a share; 0 to 1 if nothing was counted."""
    if not count:
        return 0.0, 1.0
    z, share = ALMOST_SURE, wrong / count
    spread = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    middle, scale = share + z * z / (2 * count), 1 + z * z / count
    low, high = (middle - spread) / scale, (middle + spread) / scale
    return max(0.0, min(low, share)), min(1.0, max(high, share))  # against rounding errors
