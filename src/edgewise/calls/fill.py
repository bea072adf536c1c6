"""Puts values that the request says where a call lacks one or has one made up."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from edgewise.calls.dates import moment_form
from edgewise.calls.ground import (
    UNGROUNDED,
    ground,
    support,
)
from edgewise.calls.parameters import (
    Wanted,
    listed_choice,
    parameters,
    required,
    resolve,
    wanted,
    written_date,
)
from edgewise.calls.values.numbers import (
    ONES,
    Said,
    whole,
)
from edgewise.calls.values.read import (
    Heard,
    hear,
)
from edgewise.calls.values.times import SECONDS
from edgewise.calls.words import (
    WORD,
    distance,
    fold,
    locate,
    name_words,
    spaced,
    stem,
    tokens,
)
from edgewise.types.calls import Found
from edgewise.types.messages import Tool, ToolCall

# At least this sure, and this far before the next best, is a clear candidate.
CLEAR = 0.6
MARGIN = 0.2
_NEAR = 24
_CONTENT = re.compile(
    r"(?:\b(?:saying|says|say|stating|reading|telling (?:him|her|them))\b(?:\s+that\b)?|"
    r"\bthat\b(?=\s+(?:i|i'm|i'll|we|he|she|they|it|the|my|our|you)\b)|:)\s*(?P<content>\S[^\n]*)",
    re.IGNORECASE,
)
_TITLED = re.compile(
    r"\b(?:called|named|titled|entitled|labelled|labeled)\s+(?P<content>[^,.;!?\n]+)"
)
_ON = re.compile(r"\b(?:on|yes|enable|enabled|true|activate)\b", re.IGNORECASE)
_OFF = re.compile(
    r"\b(?:off|no|not|without|disable|disabled|false|deactivate|don't)\b", re.IGNORECASE
)
_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A value of the right type, where the request says it, and how likely it is meant."""

    value: Any
    start: int
    end: int
    score: float


def candidates(
    name: str,
    schema: Mapping[str, Any],
    request: str,
    found: Iterable[Found],
    siblings: Iterable[str] = (),
) -> list[Candidate]:
    """Values for one parameter, best first. `siblings` are the tool's other parameters."""
    parameter = wanted(name, schema)
    read = _BY_ROLE.get(parameter.role)
    if read is None:
        return []
    listed = list(read(parameter, request, tuple(found), frozenset(siblings)))
    named = [_named(one, parameter, request) for one in listed]
    fitting = [one for one in named if _fits(one.value, parameter, schema)]
    return sorted(fitting, key=lambda one: (-one.score, one.start))


def clear_candidate(listed: Sequence[Candidate]) -> Candidate | None:
    """The one that stands out: sure enough, and no other value comes near."""
    if not listed or listed[0].score < CLEAR:
        return None
    best = listed[0]
    others = [one.score for one in listed if one.value != best.value]
    return best if not others or max(others) <= best.score - MARGIN else None


def _named(one: Candidate, parameter: Wanted, request: str) -> Candidate:
    """More likely where the parameter's own name stands right beside it: "policy number 52"."""
    own = {stem(word) for word in name_words(parameter.name) if len(word) > 2}
    before = [root for root, _, _ in tokens(request[max(0, one.start - _NEAR) : one.start])]
    for place in reversed(range(max(0, len(before) - 3), len(before))):
        if _is_number(before[place]):
            break  # The name belongs to the number before: "policy number 52, 3 people".
        if before[place] in own:
            # "167 dismissals off 432 balls": here too.
            counted = place > 0 and _is_number(before[place - 1])
            return one if counted else replace(one, score=min(1.0, one.score + 0.3))
    return one


def _is_number(word: str) -> bool:
    return word[:1].isdigit() or word in ONES


def _fits(value: Any, parameter: Wanted, schema: Mapping[str, Any]) -> bool:
    if parameter.type == "integer" and isinstance(value, float):
        return False
    if isinstance(value, int | float) and not isinstance(value, bool):
        low, high = schema.get("minimum"), schema.get("maximum")
        if isinstance(low, int | float) and value < low:
            return False
        return not (isinstance(high, int | float) and value > high)
    return True


_Reader = Callable[[Wanted, str, tuple[Found, ...], frozenset[str]], Iterator[Candidate]]


def _from(one: Found, value: Any, score: float) -> Candidate:
    return Candidate(value, one.start, one.end, score)


def _unit(one: Found) -> str:
    return one.unit if isinstance(one, Said) else ""


def _clock(
    parameter: Wanted, request: str, found: tuple[Found, ...], siblings: frozenset[str]
) -> Iterator[Candidate]:
    halves = {"am", "pm", "ampm", "meridiem", "period"}
    twelve = parameter.form == "12" or any(halves & set(name_words(one)) for one in siblings)
    for one in found:
        if one.kind == "time":
            hour, minute = int(one.value[:2]), int(one.value[3:5])
            hour = (hour % 12 or 12) if twelve else hour
            yield _from(one, hour if parameter.role == "hour" else minute, 0.9)


def _time(
    parameter: Wanted, request: str, found: tuple[Found, ...], siblings: frozenset[str]
) -> Iterator[Candidate]:
    for one in found:
        if one.kind == "time":
            yield _from(
                one, one.value if parameter.form and parameter.form != "12" else one.text, 0.9
            )


def _date(
    parameter: Wanted, request: str, found: tuple[Found, ...], siblings: frozenset[str]
) -> Iterator[Candidate]:
    for one in found:
        if one.kind != "date":
            continue
        full = bool(_ISO_DATE.fullmatch(str(one.value)))
        if parameter.form and full:
            yield _from(one, written_date(one.value, parameter.form), 0.9)
        elif not parameter.form:
            yield _from(one, one.text, 0.9)


def _duration(
    parameter: Wanted, request: str, found: tuple[Found, ...], siblings: frozenset[str]
) -> Iterator[Candidate]:
    for one in found:
        if one.kind == "duration":
            unit = parameter.unit or _unit(one)
            amount = whole(one.value / SECONDS[unit])
            yield _from(one, one.text if parameter.type == "string" else amount, 0.9)
        elif one.kind == "number" and parameter.type != "string":
            yield _from(one, one.value, 0.4)


def _number(
    parameter: Wanted, request: str, found: tuple[Found, ...], siblings: frozenset[str]
) -> Iterator[Candidate]:
    """Numbers, the likelier the closer their unit is to the parameter's words."""
    best = {"percent": "percent", "share": "percent", "money": "money"}.get(
        parameter.role, "number"
    )
    numbers = [one for one in found if one.kind in ("number", "money", "percent")]
    alone = len(numbers) == 1
    for one in numbers:
        value = one.value
        if parameter.role == "share" and one.kind == "percent":
            value = whole(value / 100)
        score = 0.3 if one.kind != best else 0.5 if best == "number" else 0.7
        score += 0.2 if alone else 0.0
        if stem(_unit(one)) in parameter.words:
            score += 0.3
        yield _from(one, value, score)


def _text(
    parameter: Wanted, request: str, found: tuple[Found, ...], siblings: frozenset[str]
) -> Iterator[Candidate]:
    """Quoted text first; then what follows `called`, and names at a lower score."""
    for one in found:
        if one.kind == "quoted":
            yield _from(one, one.value, 0.8)
        elif one.kind in ("name", "place", "code"):
            yield _from(one, one.value, 0.25)
    for match in _TITLED.finditer(request):
        content = match["content"].strip(" \"'")
        yield Candidate(content, match.start("content"), match.end("content"), 0.6)


def _message(
    parameter: Wanted, request: str, found: tuple[Found, ...], siblings: frozenset[str]
) -> Iterator[Candidate]:
    quoted = [one for one in found if one.kind == "quoted"]
    for one in quoted:
        yield _from(one, one.value, 0.95)
    match = None if quoted else _CONTENT.search(request)
    if match:
        content = match["content"].rstrip(" .")
        start = match.start("content")
        yield Candidate(content, start, start + len(content), 0.7)


def _kinds(**scores: float) -> _Reader:
    def read(
        parameter: Wanted, request: str, found: tuple[Found, ...], siblings: frozenset[str]
    ) -> Iterator[Candidate]:
        for one in found:
            if one.kind in scores:
                yield _from(one, one.value, scores[one.kind])

    return read


def _choice(
    parameter: Wanted, request: str, found: tuple[Found, ...], siblings: frozenset[str]
) -> Iterator[Candidate]:
    among = tokens(request)
    for choice in parameter.choices:
        own = " ".join(name_words(str(choice)))
        place = locate(own, among) if len(own) > 1 else None
        if place:
            yield Candidate(choice, *place, 0.9)


def _switch(
    parameter: Wanted, request: str, found: tuple[Found, ...], siblings: frozenset[str]
) -> Iterator[Candidate]:
    among = tokens(request)
    for word in name_words(parameter.name):
        place = locate(word, among) if len(word) > 2 else None
        if place:
            near = request[max(0, place[0] - _NEAR) : place[1] + _NEAR]
            off, on = bool(_OFF.search(near)), bool(_ON.search(near))
            if off != on:
                yield Candidate(on, *place, 0.7)
            return


_BY_ROLE: dict[str, _Reader] = {
    "hour": _clock, "minute": _clock, "time": _time, "date": _date, "duration": _duration,
    "percent": _number, "share": _number, "money": _number, "number": _number, "year": _number,
    "text": _text, "message": _message, "choice": _choice, "switch": _switch,
    "person": _kinds(name=0.7, email=0.4, place=0.4), "place": _kinds(place=0.8, name=0.5),
    "email": _kinds(email=0.9), "url": _kinds(url=0.9), "code": _kinds(code=0.8, quoted=0.6),
    "datetime": _kinds(datetime=0.9),
}  # fmt: skip


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
