"""Turns requests, replies and attempts into rows, and reads what budgets have left.

Texts only on request, and masked.
"""

from __future__ import annotations

import json
import math
import re
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, NamedTuple, NoReturn, get_args

from edgewise.errors import (
    BudgetExceeded,
    EdgewiseError,
    LedgerUnavailable,
    SettingsError,
    TooSoon,
    place_of,
)
from edgewise.types.messages import Message, Request, Task, ToolCall
from edgewise.types.replies import Attempt, Reply

Row = dict[str, Any]
Window = Literal["day", "month"]
People = Literal["", "user", "group"]
MOST_PEOPLE = 200  # of one rule that are listed
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


# The columns of a row that are the reply's own words for it.
_OF_REPLY = (
    *("source", "model", "degraded", "needs_cloud_handoff", "cloud_handoff"),
    *("first_token_ms", "total_ms", "finish_reason"),
)
_OF_DECISION = (
    *("degraded_code", "truncated", "threshold", "kept_from", "decided_after_tokens"),
    *("calibration", "kept_at"),
)
_OF_USAGE = ("input_tokens", "output_tokens", "cost_microdollars", "audio_seconds")


def reply_row(request: Request, reply: Reply, now: float, avoided: int) -> Row:
    """All but the texts, which `stored_texts` adds if a request asks for it."""
    told = Reply.to_dict(reply)
    decision, usage = told["decision"], told["usage"]
    confidence = decision["confidence"] if reply.confidence is None else reply.confidence
    return _asked(request, now) | {
        **{name: told[name] for name in _OF_REPLY},
        **{name: decision[name] for name in _OF_DECISION},
        **{name: usage[name] for name in _OF_USAGE},
        "decision_code": decision["code"],
        "reason": masked_start(decision["reason"])[0],
        "confidence": confidence,
        "features": json.dumps(
            {name: bindable(value) for name, value in decision["features"].items()},
            ensure_ascii=False,
            default=str,
        ),
        "cost_avoided_microdollars": avoided,
        "price_guessed": reply.price_guessed,
        "error_code": "",
        "error": "",
    }


def failure_row(
    request: Request, error: BaseException, attempts: Sequence[Attempt], now: float
) -> Row:
    code, words = type(error).__name__, place_of(error)
    if isinstance(error, EdgewiseError):
        code, words = error.code, short_error(str(error))
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
        "error_code": code,
        "error": words,
        "audio_seconds": sum(attempt.audio_seconds for attempt in attempts),
    }


class Payer(NamedTuple):
    """Whose money it is: a key, and the person behind it with a group, where they are known."""

    key: str = ""
    user: str = ""
    group: str = ""

    @classmethod
    def of(cls, request: Request) -> Payer:
        return cls(request.budget_key, request.user, request.group)

    @property
    def columns(self) -> Row:
        return {"budget_key": self.key, "user_name": self.user, "group_name": self.group}


def opened_attempt(
    attempt_id: str, request_id: str, payer: Payer, now: float, microdollars: int
) -> Row:
    """What every attempt has from the start, before anything came back."""
    return {
        "id": attempt_id,
        "request_id": request_id,
        **payer.columns,
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
        "claim": "",
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
        "price_guessed": attempt.price_guessed,
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


def refuse_known(attempt_id: str) -> NoReturn:
    """One reservation for one attempt, or several calls would be paid once."""
    raise LedgerUnavailable(f"{attempt_id!r} was paid for before: another request has this id")


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
        **Payer.of(request).columns,
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


# -- budgets: a limit per calendar day or month, and what is left of it ----------------------------

_BUDGET = re.compile(r"\$\s*([0-9]{1,9})(?:\.([0-9]{1,6}))?\s*/\s*([a-z]+)")
_AMOUNT = re.compile(r"(?:\$?\s*([0-9]{1,9})(?:\.([0-9]{1,6}))?)?")


@dataclass(frozen=True, slots=True)
class Budget:
    """At most this much per window. Key "" counts all requests, any other key only its own.

    Of the people behind a key, `of` says whether it counts each user or each group, and `name`
    which one; as a rule without a name it is for each of them that no rule names.
    """

    limit_microdollars: int
    window: Window
    key: str = ""
    of: People = ""
    name: str = ""

    def __post_init__(self) -> None:
        if self.limit_microdollars < 0:
            raise SettingsError(f"a budget cannot be negative: {self.limit_microdollars!r}")
        if self.window not in get_args(Window):
            raise SettingsError(f"a budget is per 'day' or 'month', not per {self.window!r}")

    def applies_to(self, payer: Payer) -> bool:
        if not self.of:
            return self.key in ("", payer.key)
        name = payer.user if self.of == "user" else payer.group
        return self.key == payer.key and bool(name) and self.name in ("", name)

    def in_words(self) -> str:
        key = f" for key {self.key!r}" if self.key else ""
        who = f" for each {self.of}" if self.of and not self.name else ""
        who = f" for {self.of} {self.name!r}" if self.name else who
        return f"{dollars(self.limit_microdollars)} per {self.window}{who}{key}"


def budgets_for(budgets: Sequence[Budget], payer: Payer) -> list[Budget]:
    """Those that one request must fit, each with the name of whom it counts."""
    found = [each for each in budgets if each.applies_to(payer)]
    named = {(each.of, each.window) for each in found if each.name}
    return [
        replace(each, name=payer.user if each.of == "user" else payer.group) if each.of else each
        for each in found
        if not each.of or each.name or (each.of, each.window) not in named
    ]


@dataclass(frozen=True, slots=True)
class BudgetState:
    """One budget in its current window; amounts in micro-dollars, `resets_at` in Unix seconds."""

    budget: Budget
    spent: int
    reserved: int
    remaining: int
    resets_at: float


def parse_budget(text: str, *, key: str = "") -> Budget:
    """Read "$3/day" or, for requests with that budget key, "app: $0.50/month".

    With `key` it is that key's, and the text is the amount alone. Raises SettingsError.
    """
    whole = text
    if not key:
        key, _, text = (part.strip() for part in text.rpartition(":"))
    match = _BUDGET.fullmatch(text.strip())
    window = match[3] if match else ""
    if match is None or window not in get_args(Window):
        near = f"; did you mean '${text}'?" if _BUDGET.fullmatch(f"${text}") else ""
        raise SettingsError(
            f"cannot read the budget {whole!r}: write an amount with at most six decimals and "
            f"a window, like '$3/day' or '$0.50/month'{near}"
        )
    microdollars = int(match[1]) * 1_000_000 + int((match[2] or "").ljust(6, "0"))
    return Budget(microdollars, "day" if window == "day" else "month", key)


def parse_amount(text: str) -> int:
    """Read "$0.50" as micro-dollars; empty is nothing. Raises SettingsError."""
    match = _AMOUNT.fullmatch(text.strip())
    if match is None:
        raise SettingsError(
            f"store_away_allowance = {text!r}: write an amount with at most six decimals, "
            "like '$0.50'"
        )
    return int(match[1] or 0) * 1_000_000 + int((match[2] or "").ljust(6, "0"))


def dollars(microdollars: int) -> str:
    """Exact, with two to six decimals: 3_000_000 → "$3.00", 125 → "$0.000125"."""
    whole, fraction = divmod(abs(microdollars), 1_000_000)
    digits = f"{fraction:06d}"
    sign = "-" if microdollars < 0 else ""
    return f"{sign}${whole}.{digits[:2]}{digits[2:].rstrip('0')}"


def window_end(now: float, window: Window) -> float:
    """When the window of this moment ends, and the budget resets."""
    today = datetime.fromtimestamp(now, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if window == "day":
        return (today + timedelta(days=1)).timestamp()
    # The 28th plus four days is always in the next month.
    return (today.replace(day=28) + timedelta(days=4)).replace(day=1).timestamp()


def budget_states(
    connection: sqlite3.Connection, budgets: Sequence[Budget], now: float
) -> list[BudgetState]:
    """What each budget has left. Inside a transaction the answer holds until it ends.

    Of a rule for each user or group: those who have spent most in its window, without those who
    have a rule of their own.
    """
    named = {_counted(each) for each in budgets if each.name}
    return [
        _state(connection, one, now)
        for budget in budgets
        for one in (_each(connection, budget, now) if budget.of and not budget.name else (budget,))
        if budget.name or _counted(one) not in named
    ]


def _counted(budget: Budget) -> tuple[str, str, str, str]:
    return budget.key, budget.of, budget.window, budget.name


def _each(connection: sqlite3.Connection, budget: Budget, now: float) -> list[Budget]:
    found = connection.execute(
        f"SELECT {budget.of}_name FROM spend_of_people"
        f" WHERE window_name = ? AND budget_key = ? AND {budget.of}_name <> ''"
        " GROUP BY 1 ORDER BY SUM(settled_microdollars + reserved_microdollars) DESC, 1 LIMIT ?",
        (window_name(now, budget.window), bindable(budget.key), MOST_PEOPLE),
    )
    return [replace(budget, name=name) for (name,) in found]


def _state(connection: sqlite3.Connection, budget: Budget, now: float) -> BudgetState:
    facts = [window_name(now, budget.window), bindable(budget.key)]
    query = (
        "SELECT settled_microdollars, reserved_microdollars FROM spend"
        " WHERE window_name = ? AND budget_key = ?"
    )
    if budget.of:
        query = (
            "SELECT COALESCE(SUM(settled_microdollars), 0),"
            " COALESCE(SUM(reserved_microdollars), 0) FROM spend_of_people"
            f" WHERE window_name = ? AND budget_key = ? AND {budget.of}_name = ?"
        )
        facts.append(bindable(budget.name))
    row = connection.execute(query, facts).fetchone()
    spent, reserved = row or (0, 0)
    return BudgetState(
        budget=budget,
        spent=spent,
        reserved=reserved,
        remaining=max(0, budget.limit_microdollars - spent - reserved),
        resets_at=window_end(now, budget.window),
    )


def refuse_if_over(states: Sequence[BudgetState], microdollars: int) -> None:
    """Raise BudgetExceeded if a reservation would pass a limit; names the last budget to reset."""
    over = [
        state
        for state in states
        if state.spent + state.reserved + microdollars > state.budget.limit_microdollars
    ]
    if not over:
        return
    state = max(over, key=lambda each: each.resets_at)
    resets_at = datetime.fromtimestamp(state.resets_at, UTC).strftime("%Y-%m-%d %H:%M UTC")
    raise BudgetExceeded(
        f"the budget of {state.budget.in_words()} does not cover this call: "
        f"{dollars(state.spent)} spent, {dollars(state.reserved)} reserved, "
        f"this call may cost {dollars(microdollars)}; "
        f"it resets at {resets_at}"
    )


# -- intervals between handoffs --------------------------------------------------------------------


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
