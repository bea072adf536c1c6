"""Values that a request has for a parameter, and how likely each is meant."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from edgewise.calls.parameters import Wanted, wanted, written_date
from edgewise.calls.values.numbers import ONES, Said, whole
from edgewise.calls.values.text import RequestText
from edgewise.calls.values.times import SECONDS
from edgewise.calls.values.words import WORD, edits, fold, locate, name_words, stem, tokens
from edgewise.types.calls import Found

# At least this sure, and this far before the next best, is a clear candidate.
CLEAR = 0.6
MARGIN = 0.2
_NEAR = 24
# Words of a request that are compared with a misspelt value.
MOST_WORDS = 2000
_LONGEST_NAME = 60
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


def free_candidate(
    name: str,
    schema: Mapping[str, Any],
    request: RequestText,
    taken: Mapping[str, Any],
    fields: Mapping[str, Any],
) -> Candidate | None:
    """The clear candidate whose words no other argument of the call uses."""
    listed = candidates(
        name, schema, request.text, request.found, [one for one in fields if one != name]
    )
    used = (
        _used(taken.values(), request)
        if wanted(name, schema).role not in ("hour", "minute")
        else []
    )
    free = [one for one in listed if not any(a < one.end and one.start < b for a, b in used)]
    return clear_candidate(free)


def _used(values: Iterable[Any], request: RequestText) -> list[tuple[int, int]]:
    """Where the request says what other arguments hold already."""
    spans = []
    for value in values:
        if isinstance(value, str) and value:
            place = request.text.find(value)
            if place >= 0:
                spans.append((place, place + len(value)))
        elif isinstance(value, list):
            spans += _used(value, request)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            spans += [(one.start, one.end) for one in request.found if one.value == value]
    return spans


def written_alike(value: Any, request: RequestText) -> Any:
    """The one thing in the request that is written nearly like the value, or None."""
    if isinstance(value, int | float):
        return _number_alike(value, request)
    if not isinstance(value, str) or not 4 <= len(value) <= _LONGEST_NAME:
        return None
    wanted_text = fold(value)
    limit = 1 if len(value) < 6 else 2 if len(value) < 9 else 3
    spans = [match.span() for match in WORD.finditer(request.text)][:MOST_WORDS]
    length = len(WORD.findall(value)) or 1
    best: dict[str, int] = {}
    for count in {max(1, length - 1), length, length + 1}:
        for index in range(len(spans) - count + 1):
            said = request.text[spans[index][0] : spans[index + count - 1][1]]
            if abs(len(said) - len(value)) <= limit:
                cost = edits(wanted_text, fold(said), limit)
                if cost <= limit:
                    best[said] = cost
    nearest = [said for said, cost in best.items() if cost == min(best.values())]
    return nearest[0] if len(nearest) == 1 else None


def _number_alike(value: float, request: RequestText) -> Any:
    """A number said whose digits differ by dropped or doubled zeros, or by one digit."""
    digits = _digits(value)
    said = {one.value for one in request.found if one.kind in ("number", "money", "percent")}
    alike = []
    for one in said:
        other = _digits(one)
        zeros = len(other) > 2 and other.rstrip("0") == digits.rstrip("0")
        if zeros or (len(digits) > 3 and edits(digits, other, 1) == 1):
            alike.append(one)
    if len(alike) != 1 or (isinstance(value, int) and isinstance(alike[0], float)):
        return None
    return alike[0]


def _digits(value: float) -> str:
    return f"{value:.12g}".replace(".", "").lstrip("-0")


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
    if parameter.type == "int" and isinstance(value, float):
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
            yield _from(one, one.text if parameter.type == "str" else amount, 0.9)
        elif one.kind == "number" and parameter.type != "str":
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
