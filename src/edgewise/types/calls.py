"""The values of function calling: intents, values found in words, and complaints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

FoundKind = Literal[
    "time", "date", "datetime", "duration", "number", "percent", "money",
    "name", "place", "quoted", "email", "url", "code",
]  # fmt: skip


ComplaintCode = Literal[
    "not_json", "unknown_tool", "unknown_argument", "missing_argument", "wrong_type",
    "not_in_enum", "out_of_range", "empty_value", "ungrounded", "weak_fit", "duplicate_call",
    "uncovered_intent", "withheld", "refusal", "question", "in_words",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Intent:
    """One thing that is asked for.

    `text` is the request's own words from `start` to `end`. `resolved` is the same text with
    pronouns replaced, and with the words that it shares with its neighbours put back.
    """

    text: str
    start: int
    end: int
    resolved: str


@dataclass(frozen=True, slots=True)
class Found:
    """A typed value in the words, and where it stands.

    `value` is canonical: "19:30" for a time, "2026-03-01" for a date with a year, seconds for a
    duration, a number for a number.
    """

    kind: FoundKind
    value: Any
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Complaint:
    """One thing that is wrong with a call, or with the answer to an intent.

    `call` and `intent` are their numbers; None if the complaint is not about one.
    """

    code: ComplaintCode
    message: str
    call: int | None = None
    argument: str = ""
    intent: int | None = None
