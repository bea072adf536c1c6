"""Turns requests, replies and attempts into rows. Texts only on request, and masked."""

from __future__ import annotations

import json
import math
import re
import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from edgewise.errors import EdgewiseError
from edgewise.types.messages import Message, Request, ToolCall
from edgewise.types.replies import Attempt, Reply

Row = dict[str, Any]
Window = Literal["day", "month"]
LARGEST_AMOUNT = 2**62  # micro-dollars; the sum of two still fits SQLite's integers
# Anything that looks like a secret is masked before a text is written to disk.
MASK = "[masked]"
ERROR_CHARS = 300
SEARCHED_CHARS = 8_000  # of an error or a reason: it may be a whole HTML page
WORD_CHARS = 4_000  # of a cut-off last word: half of a longer key still looks like a key
# Each pattern keeps its group `keep` and drops the rest. All are linear on every text, even a
# hostile one: where a run can fail, only its beginning may be a start.
_SECRETS = tuple(
    re.compile(pattern, re.IGNORECASE if ignore_case else 0)
    for pattern, ignore_case in (
        # An Authorization header, in whatever quoting a client library printed it.
        (
            r"""(?P<keep>\bauthorization["']?\s{0,3}[:=]\s{0,3}["']?)"""
            r"""(?:(?:bearer|basic|token|digest)\s+)?(?!bearer\s|\[masked\])[^\s"',;}\]]+""",
            True,
        ),
        (r"(?P<keep>\bbearer\s{1,3})(?!bearer\s|token\b|\[masked\])[^\s\"',;}\]]+", True),
        # api_key=…, "x-goog-api-key": "…", API key provided: …, ?key=…, password=…
        (
            r"""(?P<keep>(?:api[\s_-]?key|access[\s_-]?key|access[\s_-]?token|auth[\s_-]?token"""
            r"""|client[\s_-]?secret|secret|password|passwd|[?&](?:key|token|sig|signature))"""
            r"""(?:\s(?:provided|given|is|was))?["']?\s{0,3}[:=]\s{0,3}["']?)"""
            r"""(?!\[masked\])[^\s"',;&}\]]{4,}""",
            True,
        ),
        # user:password@host in a URL.
        (r"(?P<keep>://)[^\s/@:]+:[^\s/@]+(?=@)", False),
        # The prefixes vendors give their keys.
        (
            r"(?<![A-Za-z0-9])(?P<keep>sk-|sk_|pk_|rk_|sess-|gsk_|xai-|hf_|r8_|nvapi-|pplx-|csk-"
            r"|fw_|tgp_v1_|gh[opsur]_|github_pat_|glpat-|xox[abposr]-|ya29\.|AIza|AKIA|ASIA|AQ\.)"
            r"[A-Za-z0-9_*.\-]{8,}",
            False,
        ),
        # A JSON web token: two or three long base64 parts. Only the beginning of a run is searched:
        # if its first "eyJ" begins no token, no later one does.
        (
            r"(?<![A-Za-z0-9_-])(?P<keep>(?>[A-Za-z0-9_-]*?(?<![A-Za-z0-9])eyJ))"
            r"[A-Za-z0-9_-]{8,}+(?:\.[A-Za-z0-9_-]*+){1,2}",
            False,
        ),
        # A long run of letters and digits is probably a key; hashes are masked too.
        (
            r"(?<![A-Za-z0-9])(?P<keep>)(?=[A-Za-z]*[0-9])(?=[0-9]*[A-Za-z])[A-Za-z0-9]{32,}",
            False,
        ),
    )
)
# Limits for a prompt, a reply, and a reply's tool calls. Masking blocks every other thread, and
# nobody reads more by hand.
STORED_CHARS = 200_000


def reply_row(request: Request, reply: Reply, now: float, avoided: int) -> Row:
    """All but the texts, which `stored_texts` adds if a request asks for it."""
    decision = reply.decision
    confidence = reply.confidence if reply.confidence is not None else decision.confidence
    return _asked(request, now) | {
        "source": reply.source,
        "model": reply.model,
        "decision_code": decision.code,
        "reason": masked_start(decision.reason)[0],
        "degraded": reply.degraded,
        "degraded_code": decision.degraded_code,
        "needs_cloud_handoff": reply.needs_cloud_handoff,
        "cloud_handoff": reply.cloud_handoff,
        "truncated": decision.truncated,
        "confidence": confidence,
        "threshold": decision.threshold,
        "decided_after_tokens": decision.decided_after_tokens,
        "features": json.dumps(
            {name: bindable(value) for name, value in decision.features.items()},
            ensure_ascii=False,
            default=str,
        ),
        "calibration": decision.calibration,
        "input_tokens": reply.usage.input_tokens,
        "output_tokens": reply.usage.output_tokens,
        "cost_microdollars": reply.usage.cost_microdollars,
        "cost_avoided_microdollars": avoided,
        "first_token_ms": reply.first_token_ms,
        "total_ms": reply.total_ms,
        "finish_reason": reply.finish_reason,
        "error_code": "",
        "error": "",
        "audio_seconds": reply.usage.audio_seconds,
    }


def failure_row(
    request: Request, error: BaseException, attempts: Sequence[Attempt], now: float
) -> Row:
    return _asked(request, now) | {
        "source": "none",
        "model": "",
        "decision_code": "",
        "reason": "",
        "degraded": False,
        "degraded_code": "",
        "needs_cloud_handoff": False,
        "cloud_handoff": False,
        "truncated": False,
        "threshold": request.threshold,
        "features": "{}",
        "calibration": "",
        "input_tokens": sum(attempt.input_tokens for attempt in attempts),
        "output_tokens": sum(attempt.output_tokens for attempt in attempts),
        "cost_microdollars": sum(attempt.cost_microdollars for attempt in attempts),
        "cost_avoided_microdollars": 0,
        "finish_reason": "",
        "error_code": error.code if isinstance(error, EdgewiseError) else type(error).__name__,
        "error": short_error(str(error)),
        "audio_seconds": sum(attempt.audio_seconds for attempt in attempts),
    }


def opened_attempt(
    attempt_id: str, request_id: str, budget_key: str, now: float, microdollars: int
) -> Row:
    """What every attempt has from the start, before anything came back."""
    return {
        "id": attempt_id,
        "request_id": request_id,
        "budget_key": budget_key,
        "started_at": now,
        # The window is recorded once, here: the check, the charge and a late settlement can then
        # never disagree about the day.
        "day": window_name(now, "day"),
        "month": window_name(now, "month"),
        "outcome": "",
        "error": "",
        "tries": 0,
        "input_tokens": 0,
        "output_tokens": 0,
        "cached_tokens": 0,
        "shown_chars": 0,
        "reserved_microdollars": microdollars,
        "cost_microdollars": microdollars,
        "estimated": True,
    }


def settled_columns(attempt: Attempt, now: float) -> Row:
    """What an attempt adds to its row when it is over."""
    return {
        "place": attempt.place,
        "backend": attempt.backend,
        "model": attempt.model,
        "state": "settled",
        "settled_at": now,
        "outcome": attempt.outcome,
        "error": short_error(attempt.error),
        "tries": attempt.tries,
        "first_token_ms": attempt.first_token_ms,
        "total_ms": attempt.total_ms,
        "input_tokens": attempt.input_tokens,
        "output_tokens": attempt.output_tokens,
        "cached_tokens": attempt.cached_tokens,
        "shown_chars": attempt.shown_chars,
        "cost_microdollars": checked_amount(attempt.cost_microdollars),
        "estimated": attempt.estimated,
        "audio_seconds": attempt.audio_seconds,
        "redacted": json.dumps(dict(attempt.redacted)),
    }


def stored_texts(request: Request, reply: Reply | None) -> Row:
    """The columns with texts; a failed request has no reply."""
    row: Row = {"prompt_text": _prompt(request.messages)}
    if reply is not None:
        row["reply_text"] = bounded_text(reply.text)
        row["tool_calls_text"] = _tool_calls(reply.tool_calls)
    return row


def avoided_microdollars(reply: Reply, rates: tuple[int, int]) -> int:
    """What the cloud would have charged for a local answer. Rates are per million tokens."""
    if reply.source != "local":
        return 0
    answered = [attempt for attempt in reply.attempts if attempt.place == "local"]
    tokens_in = max((attempt.input_tokens for attempt in answered), default=0)
    tokens_out = sum(attempt.output_tokens for attempt in answered)
    return math.ceil((tokens_in * rates[0] + tokens_out * rates[1]) / 1_000_000)


def window_name(now: float, window: Window) -> str:
    """The UTC day or month of a moment: "2026-11-03" or "2026-11"."""
    moment = datetime.fromtimestamp(now, UTC)
    return moment.strftime("%Y-%m-%d" if window == "day" else "%Y-%m")


def bindable(value: object) -> object:
    """A value SQLite can store: no lone surrogates, no NaN (it would silently become NULL)."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def checked_amount(microdollars: int) -> int:
    """A negative amount would create money."""
    if not 0 <= microdollars <= LARGEST_AMOUNT:
        raise ValueError(f"not an amount in micro-dollars: {microdollars!r}")
    return microdollars


def insert_once(connection: sqlite3.Connection, table: str, row: Row) -> bool:
    """Insert unless the id exists already; return whether it was inserted."""
    columns = ", ".join(row)
    places = ", ".join(f":{column}" for column in row)
    cursor = connection.execute(
        f"INSERT INTO {table} ({columns}) VALUES ({places}) ON CONFLICT (id) DO NOTHING",
        {column: bindable(value) for column, value in row.items()},
    )
    return cursor.rowcount == 1


def mask_secrets(text: str) -> str:
    """The text with everything that looks like a key or a token masked."""
    for pattern in _SECRETS:
        text = pattern.sub(lambda match: match["keep"] + MASK, text)
    return text


def masked_start(text: str, most: int = SEARCHED_CHARS) -> tuple[str, int]:
    """The first `most` characters of a text, masked; and how many are left out.

    The last word of a longer text is dropped too: half a key would not look like a key.
    """
    masked = mask_secrets(text[:most])
    if len(text) <= most:
        return masked, 0
    words = masked[-WORD_CHARS:].rsplit(maxsplit=1)
    kept = masked[:-WORD_CHARS] + (words[0] if len(words) == 2 else "")
    return kept, len(text) - most + len(masked) - len(kept)


def short_error(text: str) -> str:
    """An error as stored: masked, on one line, at most 300 characters."""
    start, left_out = masked_start(text)
    # Mask first: half a key would no longer look like a key.
    line = " ".join(start.split())
    return line if len(line) <= ERROR_CHARS and not left_out else line[: ERROR_CHARS - 1] + "…"


def bounded_text(text: str, most: int = STORED_CHARS) -> str:
    """A text as stored: masked, and cut with a remark on how much was left out."""
    kept, left_out = masked_start(text, most)
    if not left_out:
        return kept
    return f"{kept} [{left_out:,} more characters are not stored]".lstrip()


def _asked(request: Request, now: float) -> Row:
    return {
        "id": request.id,
        "created_at": now,
        "task": request.task,
        "policy": request.policy,
        "handoff": request.handoff,
        "private": request.private,
        "budget_key": request.budget_key,
    }


def _prompt(messages: Sequence[Message]) -> str:
    """All messages share the room of one text; the latest come first."""
    room = STORED_CHARS
    found: list[dict[str, object]] = []
    for message in reversed(messages):
        found.append(
            {
                "role": message.role,
                "content": bounded_text(message.content, room),
                # Pictures and sounds are counted, never stored.
                "images": len(message.images),
                **({"sounds": len(message.audio)} if message.audio else {}),
            }
        )
        room = max(0, room - len(message.content))
    return _json(found[::-1])


def _tool_calls(calls: Sequence[ToolCall]) -> str:
    """If cut, they are not JSON any more; only people read them."""
    return bounded_text(
        _json([{"name": call.name, "arguments": dict(call.arguments)} for call in calls])
    )


def _json(value: Sequence[object]) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
