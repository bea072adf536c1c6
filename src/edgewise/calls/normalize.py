"""The last hand on a call, whoever wrote it: brought to its schema and to the request's words."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from edgewise.calls.coerce import coerce_call, validate
from edgewise.calls.dates import (
    date_moments,
    write_moments,
)
from edgewise.calls.fill import (
    as_said,
    drop_made_up,
    fill_missing,
    prefer_grounded,
)
from edgewise.calls.ground import check_grounding
from edgewise.calls.parameters import revise, wanted
from edgewise.calls.values.money import code_currencies
from edgewise.calls.values.numbers import Said, whole
from edgewise.calls.values.read import Heard, find_all_numbers
from edgewise.calls.values.switches import set_switches
from edgewise.calls.values.times import unit_name
from edgewise.calls.words import (
    fold,
    name_words,
    spaced,
    stem,
)
from edgewise.types.messages import Tool, ToolCall

_LONGEST = 40
_AMOUNT = re.compile(r"(?P<number>\S.*?)[\s-]*(?P<unit>[A-Za-z]+)\.?")


def bare_amounts(call: ToolCall, tool: Tool, heard: Heard) -> tuple[ToolCall, tuple[str, ...]]:
    """`5` for `5 minutes` where the parameter is `minutes` and shows no unit: `bared:ARGUMENT`."""

    def better(name: str, schema: Mapping[str, Any], value: Any) -> Any:
        unit = unit_name((name_words(name) or [""])[-1])
        if not unit or not isinstance(value, str) or len(value) > _LONGEST:
            return None
        said = _AMOUNT.fullmatch(value.strip())
        if said is None or unit_name(said["unit"]) != unit or "enum" in schema:
            return None
        shown = re.search(r"\d\s*[a-z]+", str(schema.get("description", "")).lower())
        if shown and unit_name(shown.group().lstrip("0123456789 ")):
            return None  # its own example has the unit
        numbers = find_all_numbers(said["number"])
        if len(numbers) != 1 or numbers[0].text.strip() != said["number"]:
            return None
        return str(whole(numbers[0].value))

    return revise(call, tool, "bared", better)


# "City and state", "City, Country", or an example that is written so.
_ASKS_MORE = re.compile(
    r"\b(?i:state|country|province|region|county|full address)\b|[A-Z]\w+, ?[A-Z]\w"
)
_LONGEST_PLACE = 60


def without_invented_region(
    call: ToolCall, tool: Tool, heard: Heard
) -> tuple[ToolCall, tuple[str, ...]]:
    """`Seattle` for `Seattle, WA` where the request says no more. Named `shortened:ARGUMENT`."""

    def better(name: str, schema: Mapping[str, Any], value: Any) -> Any:
        if not isinstance(value, str) or len(value) > _LONGEST_PLACE or "enum" in schema:
            return None
        city, comma, rest = value.partition(", ")
        described = schema.get("description")
        if not comma or not city.strip() or wanted(name, schema).role != "place":
            return None
        if isinstance(described, str) and _ASKS_MORE.search(described):
            return None
        return city.strip() if _only_city_said(city, rest, heard) else None

    return revise(call, tool, "shortened", better)


def _only_city_said(city: str, rest: str, heard: Heard) -> bool:
    """Not where any word of the rest is said too, in any form: it is not invented then."""
    said = spaced(rest).split()
    return (
        spaced(city).strip() != ""
        and spaced(city) in heard.spaced
        and bool(said)
        and not any(stem(word) in heard.stems or f" {word[:4]}" in heard.spaced for word in said)
    )


_DAY_PARTS = ("evening", "afternoon", "night", "tonight", "dinner", "pm")


def plain_hours(call: ToolCall, tool: Tool, heard: Heard) -> tuple[ToolCall, tuple[str, ...]]:
    """`6` for `18` where "half past six" is all that was said. Named `as_said:ARGUMENT`.

    Only whole numbers of a parameter that is named after hours; text keeps the model's reading.
    """
    open_hours = {
        int(one.value[:2])
        for one in heard.found
        if isinstance(one, Said) and one.kind == "time" and not one.unit
    }
    if not open_hours or any(f" {part} " in f" {heard.spaced} " for part in _DAY_PARTS):
        return call, ()
    certain = {
        int(one.value[:2])
        for one in heard.found
        if isinstance(one, Said) and one.kind == "time" and one.unit
    }

    def better(name: str, schema: Mapping[str, Any], value: Any) -> Any:
        whole_hour = isinstance(value, int) and not isinstance(value, bool) and 12 <= value <= 23
        if not whole_hour or "hour" not in {word.rstrip("s") for word in name_words(name)}:
            return None
        if value in certain or value - 12 not in open_hours:
            return None
        return value - 12

    return revise(call, tool, "as_said", better)


_QUOTES = "'\"`\u2018\u2019\u201c\u201d\u00ab\u00bb"
_MARKS = _QUOTES + " .,;:!?"


def unquote(call: ToolCall, tool: Tool, heard: Heard) -> tuple[ToolCall, tuple[str, ...]]:
    """`joining in 5` for `joining in 5'` where the request quotes that: `unquoted:ARGUMENT`."""
    inside = {_bare(str(one.value)): one.value for one in heard.found if one.kind == "quoted"}

    def better(name: str, schema: Mapping[str, Any], value: Any) -> Any:
        if not isinstance(value, str) or not inside or "enum" in schema:
            return None
        text = value.strip()
        if not text or not (text[0] in _QUOTES or text[-1] in _QUOTES):
            return None
        return inside.get(_bare(text))

    return revise(call, tool, "unquoted", better)


def _bare(text: str) -> str:
    return fold(text.strip(_MARKS))


_Step = Callable[[ToolCall, Tool, Heard], tuple[ToolCall, tuple[str, ...]]]
# What makes a call unfit to run, whatever its probability.
FATAL = frozenset(
    {"unknown_tool", "missing_argument", "wrong_type", "not_in_enum", "out_of_range", "empty_value"}
)


def normalize(
    call: ToolCall,
    tool: Tool | None,
    heard: Heard,
    *,
    whole: Heard | None = None,
    today: datetime.date | None = None,
) -> ToolCall:
    """The call as it will be run, with the codes of what was changed and what is still wrong.

    `whole` is the request that `heard` is a part of: what it says elsewhere is not made up. Days
    named without a year are left as they are without `today`. Device and cloud are brought to the
    same forms, so that their calls can be compared and merged; only the device's values are
    doubted for what the request does not say, since a large model knows more than the words.
    """
    if tool is None:
        return replace(call, complaints=("unknown_tool",))
    made: list[str] = []
    for step in _steps(whole, today) if call.source != "cloud" else _FORMS:
        call, changes = step(call, tool, heard)
        made += changes
    complaints = (*validate(call, tool), *check_grounding(call, tool, heard))
    return replace(
        call,
        repairs=tuple(dict.fromkeys((*call.repairs, *made))),
        complaints=tuple(dict.fromkeys(complaint.code for complaint in complaints)),
    )


def _coerced(call: ToolCall, tool: Tool, heard: Heard) -> tuple[ToolCall, tuple[str, ...]]:
    return coerce_call(call, tool, heard.text)


_FORMS: tuple[_Step, ...] = (
    _coerced,
    unquote,
    write_moments,
    bare_amounts,
    as_said,
    code_currencies,
    _coerced,
)


def _steps(whole: Heard | None, today: datetime.date | None) -> tuple[_Step, ...]:
    """In this order: a value is brought to its form before it is judged, and dropped last."""
    return (
        _coerced,
        unquote,
        write_moments,
        lambda call, tool, heard: date_moments(call, tool, heard, today),
        bare_amounts,
        lambda call, tool, heard: prefer_grounded(call, tool, heard, whole),
        fill_missing,
        as_said,
        plain_hours,
        code_currencies,
        set_switches,
        without_invented_region,
        lambda call, tool, heard: drop_made_up(call, tool, heard, whole),
        _coerced,
    )


def same_call(one: ToolCall, other: ToolCall) -> bool:
    return one.name == other.name and dict(one.arguments) == dict(other.arguments)
