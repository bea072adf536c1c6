"""What function calling passes around: intents, values found in words, and what is wrong."""

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
    "uncovered_intent", "withheld", "refusal", "question",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Intent:
    """One thing that is asked for.

    `text` is the request's own words from `start` to `end`; `resolved` is the same with pronouns
    replaced by what they stand for and words shared with its neighbours put back.
    """

    text: str
    start: int
    end: int
    resolved: str


@dataclass(frozen=True, slots=True)
class Found:
    """A typed value that the words say, and where they say it.

    `value` is canonical: "19:30" for a time, "2026-03-01" for a date that names its year, seconds
    for a duration, a number for a number.
    """

    kind: FoundKind
    value: Any
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Complaint:
    """One named thing that is wrong with a call, or with what became of an intent.

    `call` and `intent` are their numbers; None where it is not about one.
    """

    code: ComplaintCode
    message: str
    call: int | None = None
    argument: str = ""
    intent: int | None = None
