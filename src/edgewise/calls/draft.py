"""What the function model will probably answer, by rules, in a small part of a forward pass.

A runtime verifies the draft in the pass that reads the request. What is right in it saves a pass
per token, what is wrong costs little, and nothing else depends on it. The tool is the one whose
words and values fit best. A value is found by its type, or by the words that usually stand before
such a value: `to Oslo` for a `destination`, `saying …` for a `message`."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from edgewise.calls.intents import (
    ABBREVIATIONS,
    ACTION_VERBS,
    FILLERS,
    NOUN_VERBS,
    QUESTION_WORDS,
    REQUEST_OPENERS,
    split,
)
from edgewise.calls.prompt import MalformedAnswer, render_answer
from edgewise.calls.rank_tools import fit_scores
from edgewise.calls.schema import (
    Candidate,
    Wanted,
    candidates,
    description_of,
    means_on,
    nested_parameters,
    wanted,
)
from edgewise.calls.values.numbers import Said
from edgewise.calls.values.text import RequestText, read_request
from edgewise.calls.values.words import name_words, stem, switch_said, word_set, words
from edgewise.errors import InvalidRequest
from edgewise.grammar.check import problem_with, validate
from edgewise.grammar.tools import (
    MOST_CALLS,
    MOST_ITEMS,
    NO_CALL,
    Field,
    has_plain_numbers,
    per_tool,
    read_parameters,
)
from edgewise.types.messages import Tool, ToolCall
from edgewise.types.replies import Found

# A draft must cost far less than a forward pass, whatever is asked and offered.
LONGEST_REQUEST = 1_000  # characters; a longer text is a document, and its values are anybody's
TOOLS_FILLED = 3  # best fit first
OTHER_TOOLS = 8  # drafted for the case that the likeliest is not the one
MOST_SLOTS = 32  # parameters of a tool, and of an object in it
MOST_READ = 200  # parameters looked for in one request, about 0.05 ms each
MOST_PHRASES = 8  # tried for one parameter and one kind of cue
LONGEST_PHRASE = 24  # words
DEEPEST = 3  # objects in objects that are filled
# Chosen on the validation cases (docs/notes/calls.md).
OPTIONAL = 0.6  # how sure a value must be where the tool does not ask for one
FILLED_WEIGHT = 0.15  # what values count for beside the tool's words
UNFILLED_WEIGHT = 0.02
NO_FIT = 0.05  # a tool whose words fit less is called only for its values
SURE_VALUES = 0.6
LIKELY_VALUES = 0.45  # enough where the request asks for other things as well
# What a schema may do that no rule expects. The draft then ends.
_STRANGE = (
    InvalidRequest, MalformedAnswer, ArithmeticError, AttributeError, LookupError, RecursionError,
    TypeError, ValueError,
)  # fmt: skip

_TOKEN = re.compile(r"[^\s,;:!?()\"“”«»]+(?:[.:,][^\s,;:!?()\"“”«»]+)*")
_DETERMINERS = word_set("a an the my our your his her their some any this that these those me us")
_TRAILING = word_set(
    "please pls plz now thanks thank you right just again tho though ok okay immediately asap"
)
# Where a phrase ends: what comes then is another value, or says where to look for this one.
_STOPS = word_set(
    """in on at to for from near into around until till before after since within via saying says
    that called named titled between through during towards who which where when then also if so
    because is are was has have but by"""
)
# These end it only where another parameter is told by them: "lunch with Sam" may be one thing.
_OPTIONAL_STOPS = word_set("with about as using under over")
_LOOSE_ENDS = _STOPS | _OPTIONAL_STOPS | _TRAILING | {"and"}
_PRONOUNS = word_set("him her them it there he she they")
_PARTICLES = word_set("up on off out down over for me us")
_VERBS = ACTION_VERBS | NOUN_VERBS | {"hear", "know", "see"}
_ASKING = QUESTION_WORDS | word_set("much many i you we it there far long the a an any of")
_NOT_ITEMS = _VERBS | QUESTION_WORDS | FILLERS | _TRAILING | {"i", "i'm", "i'd"}
_OPENERS = sorted((tuple(one.split()) for one in REQUEST_OPENERS), key=len, reverse=True)
_TYPED_ROLES = frozenset({"date", "time", "datetime", "duration", "email", "url"})
_APART = _TYPED_ROLES | {"money", "percent"}  # kinds of values that no phrase runs into
_NUMBERS = ("number", "money", "percent")
_SHARED = ("hour", "minute", "switch", "choice")  # roles that may read what another has read
_PLACE_CUES = ("in", "at", "near", "around", "for", "of", "on")
_PERSON_CUES = (
    "to", "with", "for", "call", "text", "message", "email", "tell", "ask", "invite", "contact",
    "ping", "phone", "ring", "dial", "send", "notify",
)  # fmt: skip
_LAST = word_set("to destination end arrival target goal checkout out return until dropoff dest")
_FIRST = word_set("from origin start departure source sender checkin pickup begin")
_MOST = word_set("max maximum high upper most budget")
_LEAST = word_set("min minimum low lower least")


def _each(names: str | frozenset[str], cues: str | tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    told = tuple(cues.split()) if isinstance(cues, str) else cues
    return dict.fromkeys(names.split() if isinstance(names, str) else names, told)


# Words of a parameter's name, and the words that stand before such a value.
_CUES: Mapping[str, tuple[str, ...]] = {
    **_each(_LAST, "to into towards for until till out back through and"),
    **_each(_FIRST, "from in starting between"),
    **_each(_LEAST, "between from over least above"),
    **_each(_MOST, "and to under below most max maximum"),
    **_each("artist author by singer band performer writer director", "by from"),
    **_each("language lang", "into to in"),
    **_each("topic subject about theme query keyword keywords", "about on regarding"),
    **_each("title label name caption", "called named titled labelled labeled"),
    **_each("room location city place where area region venue country address town", _PLACE_CUES),
    **_each("recipient receiver contact person friend", _PERSON_CUES),
    **_each("list playlist folder album calendar", "to in on from"),
    **_each("reason purpose occasion", "for because"),
    **_each("file path document", "file open print read"),
    **_each("platform service app device provider", "on with via using through"),
}
_TASKS = word_set(
    """title task reminder todo what note text description event content item action message
    activity subject thing"""
)
_THINGS = word_set(
    """query item song track movie film book show keyword keywords term search title product name
    topic what dish food recipe artist word phrase text task"""
)
_MESSAGES = word_set("message body content")
_ACTIONS = word_set("action state command operation mode")
_ATTRIBUTES = word_set("attribute property field metric aspect info detail statistic")
_TICKERS = word_set("symbol ticker")
_FROM_UNITS = word_set("from source base input")
_PRICES = word_set("amount price cost money budget")
_CLOCK = {"h": "hour", "m": "minute"}
# What people say, and what a tool for it may be called.
_MEANS: Mapping[str, str] = {
    "wake": "alarm", "wake me": "alarm", "remind": "reminder", "remind me": "reminder",
    "put on": "play", "look up": "search find", "text me": "message", "rain": "weather",
    "sunny": "weather", "umbrella": "weather", "forecast": "weather", "hot": "weather temperature",
    "cold": "weather", "tell": "message send", "text": "message send sms", "message": "send text",
    "play": "music song media", "hear": "music play", "listen": "music play", "song": "music",
    "contacts": "contact", "number": "contact", "countdown": "timer", "count": "timer",
    "minutes": "timer", "dim": "light", "lights": "light", "lamp": "light",
    "degrees": "temperature", "warmer": "temperature", "calendar": "event",
    "meeting": "event calendar", "schedule": "event calendar", "todo": "task", "buy": "shopping",
    "room": "hotel", "fly": "flight", "sushi": "restaurant", "eat": "restaurant",
    "cab": "taxi ride uber", "taxi": "ride uber cab", "ride": "taxi uber",
    "navigate": "directions", "route": "directions", "stock": "price", "trading": "stock price",
    "dollars": "currency money", "usd": "currency", "eur": "currency", "call": "phone dial",
    "phone": "call", "email": "mail", "mail": "email", "photo": "picture image",
    "picture": "photo image", "movie": "film cinema", "shipped": "package track",
    "parcel": "package", "order": "package", "clean": "vacuum", "hoover": "vacuum",
}  # fmt: skip
_OWNER = re.compile(r"(.+?)['\u2019]s?\s+(.+)")
_REGION = re.compile(r", (?:[A-Z]{2}\b|[A-Z][a-z]+\b(?!\s*(?:,|and\b)))")
_LEAD = re.compile(r"(?:(?:and|with|use|using|set|the|a|an|where|its?|give)\s+)*", re.IGNORECASE)
_TICKER = re.compile(r"\b[A-Z]{2,5}\b")
_CODE_NUMBER = re.compile(r"(?<![\w.])#?(\d[\d-]*)(?!\w)")
_POINT_ZERO = re.compile(r"\d+\.0+(?!\d)")
_AND = re.compile(r"\s*(?:,\s*(?:and\s+|&\s*)?|\s(?:and|&)\s+)", re.IGNORECASE)
_AFTER_NAME = re.compile(r"\s+I(?:['\u2019]\w+)?\b.*|['\u2019]s?$")
_REMIND = re.compile(
    r"\b(?:remind(?:er)?|remember|forget|task|todo|to-do|note)\b(?:\s+(?:me|us|myself))?\s*"
    r"(?:\b(?:to|about|of|that|for)\b|:)\s*",
    re.IGNORECASE,
)
_SAID = re.compile(
    r"(?:\b(?:that\s+says|saying|says|say|stating|reading|with\s+the\s+(?:text|message|words))\b"
    r"(?:\s+that\b)?\s*:?|\bthat\b|:)\s*",
    re.IGNORECASE,
)
_EQUALS = re.compile(
    r"(?:'s)?\s*(?:(?:=|:|-|\b(?:is|being|of|as|named|called|equals|to|set to|should be)\b)\s*)*",
    re.IGNORECASE,
)


_LONGEST_NAME = _LONGEST_GUESS = 80  # characters
_Word = tuple[str, int, int]  # in small letters, and where it stands


def draft_answer(text: str, tools: Sequence[Tool]) -> str:
    """The answer that the function model will probably give, as `render_answer` writes it.

    Empty if there is nothing to go by. Never raises. The draft ends before a call that the schema
    does not allow, and where a schema is stranger than the rules expect.
    """
    if not tools or not text.strip() or len(text) > LONGEST_REQUEST:
        return ""
    drafted: list[str] = []
    try:
        for call, tool in islice(_calls(text, tools), MOST_CALLS):
            if validate(call.name, call.arguments, tool):
                break
            drafted.append(render_answer([call]))
        else:
            return "\n".join(drafted) or NO_CALL
    except _STRANGE:
        pass
    return "\n".join(drafted)


def _calls(text: str, tools: Sequence[Tool]) -> Iterator[tuple[ToolCall, Tool]]:
    for filling in _fillings(text, tools):
        for arguments in filling.repeated():
            yield ToolCall(filling.tool.name, arguments, source="local"), filling.tool


def _fillings(text: str, tools: Sequence[Tool]) -> Iterator[_Filling]:
    """A filled tool for each intent; a clause that only names a value belongs to the one before."""
    intents, work = split(text, tools), _Searches()
    sure = SURE_VALUES if len(intents) == 1 else LIKELY_VALUES
    last, start = None, 0
    for intent in intents:
        if last is not None and _names_a_value(intent.text, last.tool):
            last = _fill(last.tool, read_request(text[start : intent.end]), work)
            continue
        said = {match[0] for match in _TOKEN.finditer(intent.text)}
        resolved = intent.resolved if said & _PRONOUNS else intent.text
        best = _best(resolved, tools, sure, work)
        if best is not None:
            if last is not None:
                yield last
            last, start = best, intent.start
    if last is not None:
        yield last


class _Searches:
    """How many parameters may still be looked for."""

    def __init__(self) -> None:
        self._left = MOST_READ

    def spend(self, slots: int) -> None:
        self._left -= slots
        if self._left < 0:
            raise _TooMuch


class _TooMuch(ValueError):
    """What is left to do costs more than a draft is worth."""


def _names_a_value(text: str, tool: Tool) -> bool:
    """Whether a clause goes on with what was asked before: "…, and weight of 3 kg"."""
    lead = _LEAD.match(text)
    said = _said(text[lead.end() if lead else 0 :][:_LONGEST_NAME])
    return any(_name_at(slot.named, said, 0) for slot in _slots(tool))


def _said(text: str) -> list[_Word]:
    return [(match[0].lower(), *match.span()) for match in _TOKEN.finditer(text)]


def _name_at(named: tuple[str, ...], said: Sequence[_Word], place: int) -> int:
    """How many words from here on are a parameter's name: "policy id", "policy_id", "items"."""
    if not named or place >= len(said):
        return 0
    first = said[place][0]
    if len(named) > 1 and "".join(named) == first.replace("_", "").replace("-", ""):
        return 1
    if not first.startswith(named[0]):
        return 0
    here = [word for word, _, _ in said[place : place + len(named)]]
    here[-1] = here[-1] if here[-1] == named[-1] else here[-1].removesuffix("'s").removesuffix("s")
    return len(named) if tuple(here) == named else 0


def _best(text: str, tools: Sequence[Tool], sure: float, work: _Searches) -> _Filling | None:
    """The tool that fits the words and finds its values in them; None if none seems to."""
    scores = fit_scores(" ".join((text, *_meant(text))), tools)
    order = sorted(range(len(tools)), key=lambda place: -scores[place])[:TOOLS_FILLED]
    fillings = [(scores[place], _fill(tools[place], read_request(text), work)) for place in order]
    _, best = max(
        fillings,
        key=lambda one: one[0] + FILLED_WEIGHT * one[1].filled - UNFILLED_WEIGHT * one[1].unfilled,
    )
    return None if max(scores) < NO_FIT and best.filled < sure else best


def _meant(text: str) -> Iterator[str]:
    said = [match[0] for match in _TOKEN.finditer(text.lower())]
    for word, after in zip(said, (*said[1:], ""), strict=True):
        if after not in ("me", "us"):  # "tell me the weather"
            yield _MEANS.get(word, "")
        yield _MEANS.get(f"{word} {after}", "")


@dataclass(frozen=True, slots=True)
class _Slot:
    """A parameter, and how its value is told."""

    field: Field
    wanted: Wanted
    schema: Mapping[str, Any]
    own: frozenset[str]  # the words of its name
    stems: frozenset[str]
    cues: frozenset[str]
    named: tuple[str, ...]  # the words of its name, in order; none if they say too little
    order: int
    inner: tuple[_Slot, ...] = ()  # of an object

    @property
    def name(self) -> str:
        return self.field.name

    @property
    def is_number(self) -> bool:
        return self.wanted.type in ("int", "float")

    def allows(self, value: Any) -> bool:
        return problem_with(value, self.field.shapes) is None and has_plain_numbers(value)


@dataclass(frozen=True, slots=True)
class _Span:
    """A value, where it is said, and how likely it is meant."""

    value: Any
    start: int
    end: int
    score: float

    def overlaps(self, other: _Span) -> bool:
        return self.start < other.end and other.start < self.end


@dataclass(slots=True)
class _Filling:
    """A tool with its arguments."""

    tool: Tool
    arguments: dict[str, Any] = field(default_factory=dict)
    filled: float = 0.0  # how sure the values of the required parameters are, on average
    unfilled: int = 0  # required parameters for which the words have no value
    several: tuple[str, list[str]] | None = None  # an argument with all its values

    def repeated(self) -> Iterator[dict[str, Any]]:
        """The arguments, once for each value: "the mass of Mars, Venus and Jupiter"."""
        if self.several is None:
            yield self.arguments
            return
        name, values = self.several
        for value in values:
            yield {**self.arguments, name: value}


@per_tool
def _slots(tool: Tool) -> tuple[_Slot, ...]:
    return _read_slots(read_parameters(tool).fields or (), tool.parameters, tool.parameters, 0)


def _read_slots(
    fields: Sequence[Field], schema: Mapping[str, Any], root: Mapping[str, Any], depth: int
) -> tuple[_Slot, ...]:
    schemas = nested_parameters(schema, root)
    found: list[_Slot] = []
    for order, one in enumerate(fields[: MOST_SLOTS >> 2 * depth]):
        inner = one.shapes[0].fields if one.shapes and depth < DEEPEST else None
        slot = _read_slot(one, schemas.get(one.name, {}), order)
        nested = _read_slots(inner, slot.schema, root, depth + 1) if inner else ()
        found.append(replace(slot, inner=nested))
    return tuple(found)


def _read_slot(one: Field, schema: Mapping[str, Any], order: int) -> _Slot:
    own, told = name_words(one.name), wanted(one.name, schema)
    cues = {cue for word in own for cue in _CUES.get(word, ())}
    if told.role == "place" and not cues:
        cues.update(_PLACE_CUES)
    if told.role == "person":
        cues.update(_PERSON_CUES)
    # "from May 4 to May 6": whatever the order of the schema, the first is said first.
    late = not (_LAST | _MOST).isdisjoint(own)
    return _Slot(
        one,
        told,
        schema,
        frozenset(own),
        frozenset(map(stem, own)),
        frozenset(cues),
        tuple(own) if len("".join(own)) > 2 else (),
        order + MOST_SLOTS * late,
    )


def _fill(tool: Tool, request: RequestText, work: _Searches) -> _Filling:
    return _filled(tool, _slots(tool), request, work)


def _filled(tool: Tool, slots: Sequence[_Slot], request: RequestText, work: _Searches) -> _Filling:
    work.spend(len(slots))
    reader = _Reader(request, tool, slots)
    chosen = _chosen(slots, reader)
    needed = sum(slot.field.required for slot in slots)
    filling = _Filling(tool, filled=0.0 if needed else 0.5)
    for slot in slots:
        inside = _filled(tool, slot.inner, request, work) if slot.inner else None
        required, sure = slot.field.required, 0.0
        if inside is not None and (required or inside.filled >= OPTIONAL):
            filling.arguments[slot.name], sure = inside.arguments, inside.filled
        elif slot.name in chosen:
            filling.arguments[slot.name] = chosen[slot.name].value
            sure = chosen[slot.name].score
        elif required:
            filling.unfilled += 1
            filling.arguments[slot.name] = reader.guess(slot)
        filling.filled += sure / needed if required else 0.0
    filling.several = reader.several(chosen)
    return filling


def _chosen(slots: Sequence[_Slot], reader: _Reader) -> dict[str, _Span]:
    """The likeliest value first; its words are then no other parameter's."""
    offered = [
        (span, slot)
        for slot in slots
        for span in reader.spans(slot)
        if (slot.field.required or span.score >= OPTIONAL) and slot.allows(span.value)
    ]
    offered.sort(key=lambda pair: (-pair[0].score, pair[0].start, pair[1].order))
    chosen: dict[str, _Span] = {}
    taken: list[_Span] = []
    for span, slot in offered:
        free = slot.wanted.role in _SHARED or not any(map(span.overlaps, taken))
        if slot.name not in chosen and free:
            chosen[slot.name] = span
            taken.append(span)
    return chosen


class _Reader:
    """Reads one intent for the parameters of one tool."""

    def __init__(self, request: RequestText, tool: Tool, slots: Sequence[_Slot]) -> None:
        self.request, self.slots, self.text = request, slots, request.text
        self.words = _said(self.text)
        self.starts = [start for _, start, _ in self.words]
        self.found = tuple(map(_name_alone, request.found))
        self.names = [one for one in self.found if one.kind in ("name", "place")]
        self.numbers = [one for one in self.found if one.kind in _NUMBERS]
        self.apart = [one for one in self.found if one.kind in _APART]
        self.tool_stems = frozenset(map(stem, name_words(tool.name)))
        self.named = dict(self._named_slots())
        cues = frozenset(cue for slot in slots for cue in slot.cues)
        self.stops = _STOPS | (_OPTIONAL_STOPS & cues)
        self.attributes = [slot for slot in slots if slot.own & _ATTRIBUTES]
        self.one_number = sum(slot.is_number for slot in slots) == 1 and len(self.numbers) == 1
        self.verb, self.thing = self._verb_and_thing()

    def _named_slots(self) -> Iterator[tuple[int, tuple[int, _Slot]]]:
        """Where a parameter is named, and where its value then begins."""
        for place, (_, start, _) in enumerate(self.words):
            for slot in self.slots:
                if count := _name_at(slot.named, self.words, place):
                    equals = _EQUALS.match(self.text, self.words[place + count - 1][2])
                    if equals is not None:
                        yield start, (equals.end(), slot)

    def spans(self, slot: _Slot) -> Iterator[_Span]:
        """Values for a parameter."""
        role = slot.wanted.role
        typed = [
            _Span(self._as_written(one), one.start, one.end, one.score + self._around(slot, one))
            for one in candidates(
                self._full_name(slot),
                slot.schema,
                self.text,
                self.found,
                [other.name for other in self.slots if other is not slot],
            )
        ]
        yield from typed
        if role == "list":
            yield from self._lists(slot)
        elif role == "switch":
            yield from self._switches(slot)
        elif slot.wanted.type in ("str", "any") and role != "choice":
            yield from self._described(slot)
            if slot.field.required or role not in _TYPED_ROLES:
                yield from self._texts(slot)

    def guess(self, slot: _Slot) -> Any:
        """A value that the words do not tell: the schema's, or what the request is about."""
        shape = slot.field.shapes[0]
        if slot.wanted.default is not None and slot.allows(slot.wanted.default):
            return slot.wanted.default
        if shape.kind == "choice" and shape.choices:
            return shape.choices[0]
        plain: dict[str, Any] = {"bool": True, "int": 1, "float": 1, "list": [], "obj": {}}
        if shape.kind in plain:
            return plain[shape.kind]
        phrases = self._phrase(slot, self.thing, 0.0)
        return next((span.value for span in phrases), self.text[:_LONGEST_GUESS])

    def several(self, chosen: Mapping[str, _Span]) -> tuple[str, list[str]] | None:
        """The argument that is said several times, with all its values."""
        for slot in self.slots:
            span = chosen.get(slot.name)
            if span is None or not isinstance(span.value, str) or span.start == span.end:
                continue
            if slot.wanted.role in ("message", "choice", "date", "time"):
                continue
            rest = self._further(span.end, one_word=slot.wanted.role == "code")
            if rest:
                return slot.name, [span.value, *(one.value for one in rest)]
        return None

    def _as_written(self, one: Candidate) -> Any:
        """`2.0` where the request says so; a date without the full stop after it."""
        value = one.value
        if isinstance(value, str):
            return value.rstrip(".") if value[-2:-1].islower() else value
        written = _POINT_ZERO.match(self.text, one.start)
        return float(value) if isinstance(value, int) and written else value

    def _full_name(self, slot: _Slot) -> str:
        """What a one-letter name stands for: `hour` for `h` where there is an `m`, too."""
        if len(slot.name) > 1:
            return slot.name
        if _CLOCK.keys() <= {other.name for other in self.slots}:
            return _CLOCK.get(slot.name, slot.name)
        told = words(description_of(slot.schema))
        return next((word for word in told if word[:1] == slot.name.lower()), slot.name)

    def _around(self, slot: _Slot, one: Candidate) -> float:
        """How much likelier the words around a value make it for this parameter."""
        before = self._word_before(one.start)
        more = 0.15 if before in slot.cues or before in slot.own else 0.0
        if not slot.is_number:
            return more
        said = _TOKEN.findall(self.text[one.start : one.end])
        following = self._word_after(one.end)
        counted = {stem(word) for word in (*map(str.lower, said), following)}
        owner = next((other for other in self.slots if other.stems & counted), None)
        if owner is not None:  # "3 nights" is for `nights`
            return more + (0.4 if owner is slot else -0.3)
        return more + (0.2 if self.one_number else 0.0)

    def _word_before(self, start: int) -> str:
        before = self.words[: bisect_left(self.starts, start)]
        return next((word for word, _, _ in reversed(before) if word not in _DETERMINERS), "")

    def _word_after(self, end: int) -> str:
        place = bisect_left(self.starts, end)
        return self.words[place][0] if place < len(self.words) else ""

    def _switches(self, slot: _Slot) -> Iterator[_Span]:
        way = switch_said(self.text)
        own = {stem(word) for word in slot.own if len(word) > 2}
        if way is not None and (slot.field.required or means_on(slot.name, slot.schema)):
            yield _Span(way, 0, 0, 0.8)
        elif any(f"un{word}" in self.request.stems for word in own):
            yield _Span(False, 0, 0, 0.7)
        elif own and own <= self.request.stems:
            yield _Span(True, 0, 0, 0.62)

    def _lists(self, slot: _Slot) -> Iterator[_Span]:
        items = slot.field.shapes[0].items
        kinds = {shape.kind for shape in items}
        if kinds & {"int", "float"}:
            if self.numbers:
                values = [one.value for one in self.numbers[:MOST_ITEMS]]
                yield _Span(values, self.numbers[0].start, self.numbers[-1].end, 0.7)
        elif "choice" in kinds:
            said = self.text.lower()
            texts = [choice for choice in items[0].choices if isinstance(choice, str)]
            places = sorted((said.find(text.lower()), text) for text in texts)
            if picked := [text for place, text in places if place >= 0]:
                yield _Span(picked, 0, 0, 0.8)
        elif not kinds or kinds & {"str", "any"}:
            for span in self._texts(slot):
                rest = self._further(span.end)
                first = [part for part in _AND.split(span.value) if part]
                end = rest[-1].end if rest else span.end
                yield _Span([*first, *(one.value for one in rest)], span.start, end, span.score)

    def _described(self, slot: _Slot) -> Iterator[_Span]:
        """For `check_in`, "Arrival date": only the description says what it is."""
        told = slot.own.union(words(description_of(slot.schema)))
        for one in self.found:
            if (one.kind == "date" and told & {"date", "day"}) or (
                one.kind == "time" and "time" in told
            ):
                yield _Span(one.text.rstrip("."), one.start, one.end, 0.72)
            elif one.kind == "money" and told & _PRICES:
                yield _Span(one.text, one.start, one.end, 0.7)

    def _texts(self, slot: _Slot) -> Iterator[_Span]:
        """Free text, by what stands before it."""
        yield from self._by_name(slot)
        yield from self._by_kind(slot)
        cued = (end for word, _, end in self.words if word in slot.cues)
        for end in islice(cued, MOST_PHRASES):
            yield from self._phrase(slot, end, 0.66 if len(slot.cues) < 6 else 0.55)
        yield from self._thing(slot, 0.5 if slot.own & _THINGS else 0.42)

    def _by_name(self, slot: _Slot) -> Iterator[_Span]:
        """ "policy number 52", "title: Weekly review" """
        if slot.wanted.role != "message":
            ends = [end for end, other in self.named.values() if other is slot]
            for end in ends[:MOST_PHRASES]:
                yield from self._phrase(slot, end, 0.75)

    def _by_kind(self, slot: _Slot) -> Iterator[_Span]:
        role, own = slot.wanted.role, slot.own
        if own & _FROM_UNITS:
            yield from self._units()
        if role == "message" or own & _MESSAGES:
            yield from self._contents()
        if own & _ACTIONS and self.verb is not None:
            yield _Span(*self.verb, 0.7)
        if own & _TASKS and (match := _REMIND.search(self.text)):
            yield from self._phrase(slot, match.end(), 0.78, whole=True)
        if role == "person":
            for one in self.names:
                if one.kind == "name":
                    yield _Span(one.text, one.start, one.end, 0.6)
        pattern = _TICKER if own & _TICKERS else _CODE_NUMBER if role == "code" else None
        if pattern is not None:
            for match in islice(pattern.finditer(self.text), MOST_PHRASES):
                group = match.lastindex or 0
                yield _Span(match[group], *match.span(group), 0.7 if own & _TICKERS else 0.55)

    def _units(self) -> Iterator[_Span]:
        """The unit or currency of a number. The amount reads the same words, so it takes none."""
        for one in self.found:
            if one.kind == "money" and isinstance(one, Said):
                word = one.text.split()[-1]
                yield _Span(word if word.isalpha() else one.unit, one.end, one.end, 0.7)
            elif one.kind == "number" and self._word_after(one.end) not in self.stops | {""}:
                _, start, end = self.words[bisect_left(self.starts, one.end)]
                yield _Span(self.text[start:end], start, end, 0.7)

    def _contents(self) -> Iterator[_Span]:
        """What is to be said: after "saying", or after the name of who is told."""
        match = _SAID.search(self.text)
        told = self.names or [one for one in self.found if one.kind == "email"]
        start, score = (match.end(), 0.8) if match else (told[0].end if told else -1, 0.6)
        content = self.text[start:].strip() if start >= 0 else ""
        begin = self.text.find(content, start)
        asks = bool(self.words) and self.words[0][0] in QUESTION_WORDS
        content = content if content.endswith("..") else content.rstrip(" .?" if asks else " .")
        if content:
            yield _Span(content.strip('"“”'), begin, begin + len(content), score)

    def _thing(self, slot: _Slot, score: float) -> Iterator[_Span]:
        """What is asked for: "jazz" of "play some jazz", "Thai" of "find Thai restaurants"."""
        for span in self._phrase(slot, self.thing, score, first=True):
            of_tool = stem(self._word_after(span.end)) in self.tool_stems
            more = 0.2 if of_tool and len(span.value.split()) <= 2 else 0.0
            yield self._part(slot, span, more)

    def _part(self, slot: _Slot, span: _Span, more: float) -> _Span:
        """Of "the radius of Mars" and "Mars's radius" what the parameter asks for."""
        head, of, rest = span.value.partition(" of ")
        owner = _OWNER.match(span.value)
        if slot in self.attributes and of:
            return replace(span, value=head, end=span.start + len(head), score=span.score + 0.2)
        if slot in self.attributes and owner:
            start = span.start + owner.start(2)
            return replace(span, value=owner[2], start=start, score=span.score + 0.2)
        if of and (self.attributes or stem(head.split()[-1].lower()) in self.tool_stems):
            value = _without_determiners(rest)
            return _Span(value, span.end - len(value), span.end, span.score + 0.1)
        if owner and not of:
            return _Span(owner[1], span.start, span.start + owner.end(1), span.score + more)
        return replace(span, score=span.score + more)

    def _verb_and_thing(self) -> tuple[tuple[str, int, int] | None, int]:
        """The verb, and where what is asked for begins: after "please play", "can you find me"."""
        said = [word for word, _, _ in self.words]
        place = 0
        while skipped := _opening(said, place):
            place += skipped
        while place < len(said) and said[place] in _ASKING:
            place += 1
        verb = None
        if place < len(said) and said[place] in _VERBS:
            verb = self.words[place]
            place += 1
        while place < len(said) and said[place] in _PARTICLES:
            place += 1
        return verb, self.starts[place] if place < len(said) else len(self.text)

    def _phrase(
        self, slot: _Slot, start: int, score: float, *, whole: bool = False, first: bool = False
    ) -> Iterator[_Span]:
        """The words from a place on, up to the next value or preposition.

        `whole`: prepositions belong to it. `first`: it may begin with one.
        """
        if known := self._known(slot, start):
            yield replace(known, score=score + 0.1)
            return
        picked = list(self._picked(slot, start, whole, first))
        if not picked and first:
            value = next((one for one in self.apart if 0 <= one.start - start <= 4), None)
            if value is not None and value.text[:1].isupper():  # "play Yesterday"
                yield _Span(value.text, value.start, value.end, score)
            return
        picked = self._trimmed(slot, picked, whole, first)
        if not picked:
            return
        begin, end = picked[0][1], picked[-1][2]
        region = _REGION.match(self.text, end) if slot.wanted.role == "place" else None
        value_said = self.text[begin : region.end()] if region else self.text[begin:end].rstrip(".")
        if value_said:
            yield _Span(value_said, begin, begin + len(value_said), score)

    def _known(self, slot: _Slot, start: int) -> _Span | None:
        """A quotation, a code or a person's name that stands right here."""
        for one in self.found:
            near = one.start - start
            if one.kind in ("quoted", "code") and 0 <= near <= 2:
                return _Span(str(one.value), one.start, one.end, 0.0)
            if slot.wanted.role == "person" and one.kind in ("name", "place") and 0 <= near <= 5:
                return _Span(one.text, one.start, one.end, 0.0)
        return None

    def _picked(self, slot: _Slot, start: int, whole: bool, first: bool) -> Iterator[_Word]:
        place = bisect_left(self.starts, start)
        last = -1
        for word, begin, end in self.words[place : place + LONGEST_PHRASE]:
            if any(one.start <= begin < one.end for one in self.apart):
                return
            another = self.named.get(begin, (0, slot))[1] is not slot
            if last >= 0 and (another or self._broken(last, begin)):
                return
            ends = word in self.stops and not whole and (last >= 0 or not first)
            if ends and not any(one.start < begin < one.end for one in self.names):
                return
            yield word, begin, end
            last = end

    def _trimmed(self, slot: _Slot, picked: list[_Word], whole: bool, first: bool) -> list[_Word]:
        """Without articles, loose ends and the tool's own words: "the song Yesterday, please"."""
        counts = first and bool(self.numbers) and any(one.is_number for one in self.slots)
        own = frozenset() if whole else self.tool_stems | slot.stems
        low, high = 0, len(picked)
        while low < high - 1 and (
            picked[low][0] in _DETERMINERS or (counts and picked[low][0].isdigit())
        ):
            low += 1
        while low < high and picked[high - 1][0] in _LOOSE_ENDS:
            high -= 1
        while low < high and not whole and _is_own(picked[low][0], own):
            low += 1
        while low < high and stem(picked[high - 1][0]) in own:
            high -= 1
        return picked[low:high]

    def _broken(self, end: int, begin: int) -> bool:
        """Whether a mark stands between two words."""
        if any(mark in ",;!?:\n" for mark in self.text[end:begin]):
            return True
        last = self.text[:end].rstrip(".").rpartition(" ")[2].lower()
        return self.text[end - 1] == "." and end < begin and last not in ABBREVIATIONS

    def _further(self, end: int, *, one_word: bool = False) -> list[_Span]:
        """The further items of "Mars, Venus and Jupiter" after its first."""
        found: list[_Span] = []
        while len(found) < MOST_CALLS and (joint := _AND.match(self.text, end)):
            begin = last = joint.end()
            for word, start, stop in self.words[bisect_left(self.starts, begin) :]:
                ends = word in self.stops or word in ("and", "&")
                if ends or (last > begin and (one_word or self._broken(last, start))):
                    break
                last = stop
            item = _without_determiners(self.text[begin:last])
            opening = item.split(maxsplit=1)[0].strip(".").lower() if item.strip() else ""
            if begin in self.named or not opening or opening in _NOT_ITEMS:
                break
            found.append(_Span(item, last - len(item), last, 0.0))
            end = last
        return found


def _name_alone(one: Found) -> Found:
    """`Marco` of "Marco I'm on my way" and of "Marco's"."""
    cut = _AFTER_NAME.search(one.text) if one.kind in ("name", "place") else None
    if not cut or not cut.start():
        return one
    text = one.text[: cut.start()]
    return replace(one, value=text, text=text, end=one.start + len(text))


def _without_determiners(text: str) -> str:
    said = text.split(" ")
    while len(said) > 1 and said[0].lower() in _DETERMINERS:
        said.pop(0)
    return " ".join(said)


def _is_own(word: str, own: frozenset[str]) -> bool:
    return stem(word) in own or word in _DETERMINERS or word == "of"


def _opening(said: Sequence[str], place: int) -> int:
    """How many words here only open a request: "ok", "could you"."""
    if place < len(said) and said[place] in FILLERS:
        return 1
    return next((len(one) for one in _OPENERS if tuple(said[place : place + len(one)]) == one), 0)


def draft_answers(text: str, tools: Sequence[Tool]) -> list[str]:
    """The likeliest answer, then one call of each other tool: the model may choose another one."""
    likeliest = draft_answer(text, tools)
    drafts = [likeliest] if likeliest else []
    if not text.strip() or len(text) > LONGEST_REQUEST:
        return drafts
    request, work = read_request(text), _Searches()
    for tool in tools[:OTHER_TOOLS]:
        try:
            if likeliest.startswith(f"{tool.name} "):
                continue
            arguments = _fill(tool, request, work).arguments
            drafts.append(render_answer([ToolCall(tool.name, arguments, source="local")]))
        except _STRANGE:
            continue
    return drafts
