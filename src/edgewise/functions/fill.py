"""Puts values that the request says where a call lacks one or has one made up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from edgewise.functions.candidates import Candidate, candidates, clear_candidate
from edgewise.functions.fold import WORD, distance, fold, spaced
from edgewise.functions.ground import UNGROUNDED, ground
from edgewise.functions.ground_values import support
from edgewise.functions.heard import Heard, hear
from edgewise.functions.moment_forms import moment_form
from edgewise.functions.parameter import listed_choice, parameters, required, resolve, wanted
from edgewise.types.messages import Tool, ToolCall

__all__ = ["Candidate", "as_said", "candidates", "drop_made_up", "fill_missing", "prefer_grounded"]

# Words of a request that are compared with a misspelt value.
_MOST_WORDS = 2000
_LONGEST_NAME = 60
_DEEPEST = 4
_MOMENTS = ("time", "date", "datetime")


def fill_missing(
    call: ToolCall, tool: Tool, request: str | Heard
) -> tuple[ToolCall, tuple[str, ...]]:
    """The call with absent required arguments filled where the request leaves one choice.

    Changes are named `filled:ARGUMENT`.
    """
    heard = request if isinstance(request, Heard) else hear(request)
    fields = parameters(tool.parameters)
    arguments = dict(call.arguments)
    filled = []
    for name in required(tool.parameters):
        if name in arguments:
            continue
        best = _clear(name, fields[name], heard, arguments, fields)
        if best is not None:
            arguments[name] = best.value
            filled.append(name)
    if not filled:
        return call, ()
    order = [*(name for name in fields if name in arguments), *arguments]
    ordered = {name: arguments[name] for name in dict.fromkeys(order)}
    return replace(call, arguments=ordered), tuple(f"filled:{name}" for name in filled)


def prefer_grounded(
    call: ToolCall, tool: Tool, request: str | Heard, whole: Heard | None = None
) -> tuple[ToolCall, tuple[str, ...]]:
    """The call with made-up values replaced by what the request says, where that is one thing.

    A value that the request supports is never touched. `whole` is all that was asked for, where
    `request` is one part of it: what another part says is not made up. Changes are named
    `grounded:ARGUMENT`.
    """
    heard = request if isinstance(request, Heard) else hear(request)
    fields = parameters(tool.parameters)
    arguments = dict(call.arguments)
    changes = []
    for name, value in call.arguments.items():
        others = {key: other for key, other in arguments.items() if key != name}
        if whole and _said(value, name, fields.get(name, {}), tool, whole) >= UNGROUNDED:
            continue
        better = _better(value, name, fields.get(name, {}), tool.parameters, heard, others, fields)
        if better is not None and better != value:
            arguments[name] = better
            changes.append(f"grounded:{name}")
    return (replace(call, arguments=arguments), tuple(changes)) if changes else (call, ())


def as_said(call: ToolCall, tool: Tool, request: str | Heard) -> tuple[ToolCall, tuple[str, ...]]:
    """Free text in the case, accents and marks of the request: `oslo` is `Oslo` if it says so.

    Choices and values of a given form keep the schema's spelling, and `carbon_monoxide` is meant to
    be a name. Spaces are not a spelling. Changes: `as_said:ARGUMENT`.
    """
    heard = request if isinstance(request, Heard) else hear(request)
    fields = parameters(tool.parameters)
    arguments = dict(call.arguments)
    changes = []
    for name, value in call.arguments.items():
        schema = fields.get(name, {})
        if not isinstance(value, str) or value.strip() in heard.text:
            continue
        if "enum" in schema or wanted(name, schema).form or listed_choice(value, schema):
            continue
        form = moment_form(name, schema)
        if wanted(name, schema).role in _MOMENTS or (form is not None and form.holds(value)):
            continue  # `2:40 AM` as the example has it, though the request has 2.40 am.
        said = _spelled(value, heard)
        if said is not None and said != value and not ("_" in value and " " in said):
            arguments[name] = said
            changes.append(f"as_said:{name}")
    return (replace(call, arguments=arguments), tuple(changes)) if changes else (call, ())


def drop_made_up(
    call: ToolCall, tool: Tool, request: str | Heard, whole: Heard | None = None
) -> tuple[ToolCall, tuple[str, ...]]:
    """The call without optional arguments that nothing in the request, nor in the whole, supports.

    What is not said is left out, by the rule that the function caller is trained on. Changes are
    named `dropped:ARGUMENT`.
    """
    kept_names = set(required(tool.parameters))
    if whole is not None:
        told = ground(call, tool, whole).ungrounded
        kept_names |= {name for name in call.arguments if name not in told}
    made_up = [name for name in ground(call, tool, request).ungrounded if name not in kept_names]
    if not made_up:
        return call, ()
    kept = {name: value for name, value in call.arguments.items() if name not in made_up}
    return replace(call, arguments=kept), tuple(f"dropped:{name}" for name in made_up)


def _said(value: Any, name: str, schema: Mapping[str, Any], tool: Tool, heard: Heard) -> float:
    return support(value, name, schema, tool.parameters, heard).score


def _spelled(value: str, heard: Heard) -> str | None:
    """The request's own spelling of the same words; None where it has none, or several."""
    if spaced(value) == " " or spaced(value) not in heard.spaced:
        return None
    spans = [match.span() for match in WORD.finditer(heard.text)][:_MOST_WORDS]
    count = len(WORD.findall(value))
    found = set()
    for index in range(len(spans) - count + 1):
        said = heard.text[spans[index][0] : spans[index + count - 1][1]]
        if len(said) <= len(value) + 8 and spaced(said) == spaced(value):
            found.add(" ".join(said.split()))
    return found.pop() if len(found) == 1 else None


def _better(
    value: Any,
    name: str,
    schema: Mapping[str, Any],
    root: Mapping[str, Any],
    heard: Heard,
    others: Mapping[str, Any],
    fields: Mapping[str, Any],
    depth: int = 0,
) -> Any:
    """A supported value in place of this one; None to leave it."""
    if isinstance(value, bool) or value is None or depth > _DEEPEST:
        return None
    if isinstance(value, Mapping):
        inner = parameters({**root, "properties": schema.get("properties") or {}})
        return _better_object(value, inner, root, heard, depth)
    known = support(value, name, schema, root, heard)
    if isinstance(value, list):
        return None if known.score >= UNGROUNDED else _better_list(value, name, schema, root, heard)
    choices = schema.get("enum")
    if known.score >= UNGROUNDED or (isinstance(choices, list | tuple) and value in choices):
        return None  # A choice says more than its own words: "half online, half on site".
    return _replacement(value, name, schema, heard, others, fields)


def _better_object(
    value: Mapping[str, Any],
    fields: Mapping[str, Mapping[str, Any]],
    root: Mapping[str, Any],
    heard: Heard,
    depth: int,
) -> Any:
    changed = dict(value)
    for key, inner in value.items():
        others = {one: other for one, other in changed.items() if one != key}
        schema = fields.get(str(key), {})
        better = _better(inner, str(key), schema, root, heard, others, fields, depth + 1)
        if better is not None:
            changed[key] = better
    return changed if changed != dict(value) else None


def _better_list(
    value: list[Any], name: str, schema: Mapping[str, Any], root: Mapping[str, Any], heard: Heard
) -> Any:
    """Items set right one by one, by what is written nearly like them."""
    items = resolve(schema.get("items"), root)
    changed = []
    for item in value:
        known = support(item, name, items, root, heard)
        near = _written_alike(item, heard) if known.score < UNGROUNDED else None
        changed.append(item if near is None else near)
    return changed if changed != value else None


def _replacement(
    value: Any,
    name: str,
    schema: Mapping[str, Any],
    heard: Heard,
    others: Mapping[str, Any],
    fields: Mapping[str, Any],
) -> Any:
    best = None
    # Of names and sentences the form says too little about what was meant.
    if isinstance(value, int | float) or _typed(name, schema):
        best = _clear(name, schema, heard, others, fields)
    if best is not None and not isinstance(value, int | float):
        return best.value
    near = _written_alike(value, heard)
    return near if near is not None else _value(best)


def _typed(name: str, schema: Mapping[str, Any]) -> bool:
    return wanted(name, schema).role in ("time", "date", "datetime", "duration", "email", "url")


def _value(best: Candidate | None) -> Any:
    return None if best is None else best.value


def _clear(
    name: str,
    schema: Mapping[str, Any],
    heard: Heard,
    taken: Mapping[str, Any],
    fields: Mapping[str, Any],
) -> Candidate | None:
    """The clear candidate whose words no other argument of the call uses."""
    listed = candidates(
        name, schema, heard.text, heard.found, [one for one in fields if one != name]
    )
    used = (
        _used(taken.values(), heard) if wanted(name, schema).role not in ("hour", "minute") else []
    )
    free = [one for one in listed if not any(a < one.end and one.start < b for a, b in used)]
    return clear_candidate(free)


def _used(values: Iterable[Any], heard: Heard) -> list[tuple[int, int]]:
    """Where the request says what other arguments hold already."""
    spans = []
    for value in values:
        if isinstance(value, str) and value:
            place = heard.text.find(value)
            if place >= 0:
                spans.append((place, place + len(value)))
        elif isinstance(value, list):
            spans += _used(value, heard)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            spans += [(one.start, one.end) for one in heard.found if one.value == value]
    return spans


def _written_alike(value: Any, heard: Heard) -> Any:
    """The one thing in the request that is written nearly like the value, or None."""
    if isinstance(value, int | float):
        return _number_alike(value, heard)
    if not isinstance(value, str) or not 4 <= len(value) <= _LONGEST_NAME:
        return None
    wanted_text = fold(value)
    limit = 1 if len(value) < 6 else 2 if len(value) < 9 else 3
    spans = [match.span() for match in WORD.finditer(heard.text)][:_MOST_WORDS]
    length = len(WORD.findall(value)) or 1
    best: dict[str, int] = {}
    for count in {max(1, length - 1), length, length + 1}:
        for index in range(len(spans) - count + 1):
            said = heard.text[spans[index][0] : spans[index + count - 1][1]]
            if abs(len(said) - len(value)) <= limit:
                edits = distance(wanted_text, fold(said), limit)
                if edits <= limit:
                    best[said] = edits
    nearest = [said for said, edits in best.items() if edits == min(best.values())]
    return nearest[0] if len(nearest) == 1 else None


def _number_alike(value: float, heard: Heard) -> Any:
    """A number said whose digits differ by dropped or doubled zeros, or by one digit."""
    digits = _digits(value)
    said = {one.value for one in heard.found if one.kind in ("number", "money", "percent")}
    alike = []
    for one in said:
        other = _digits(one)
        zeros = len(other) > 2 and other.rstrip("0") == digits.rstrip("0")
        if zeros or (len(digits) > 3 and distance(digits, other, 1) == 1):
            alike.append(one)
    if len(alike) != 1 or (isinstance(value, int) and isinstance(alike[0], float)):
        return None
    return alike[0]


def _digits(value: float) -> str:
    return f"{value:.12g}".replace(".", "").lstrip("-0")
