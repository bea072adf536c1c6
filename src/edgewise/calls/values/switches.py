"""Sets a switch by the verb of the request: `turn on` is true, `disable` is false."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from edgewise.calls.parameters import (
    parameters,
    revise,
    wanted,
)
from edgewise.calls.values.read import Heard
from edgewise.calls.words import (
    name_words,
    spaced,
    stem,
)
from edgewise.types.messages import Tool, ToolCall

_STATE_NAMES = frozenset({
    "on", "enable", "enabled", "status", "state", "active", "activate", "activated", "power",
    "powered", "switched",
})  # fmt: skip
_STATE_TOLD = re.compile(
    r"\btrue (?:to|for|=|means)?\s*(?:enable|turns? on|switch(?:es)? on|activate|on\b)|"
    r"\bon or off\b|\bon/off\b|\benabled? or disabled?\b|\bon \(true\)",
    re.IGNORECASE,
)
_UPSIDE_DOWN = re.compile(
    r"\b(?:true|whether)\b[^.,;]{0,20}?\b(?:disable|off|deactivate|stop|mute)", re.IGNORECASE
)
_VERBS = (
    (True, r"(?:turn|switch|put|flip)(?:ing)? on\b|enabl(?:e|ing)\b|(?:re)?activat(?:e|ing)\b"),
    (False, r"(?:turn|switch|shut|flip)(?:ing)? off\b|disabl(?:e|ing)\b|deactivat(?:e|ing)\b"),
)  # fmt: skip
_ADJACENT = tuple((state, re.compile(rf"\b(?:{verbs})", re.IGNORECASE)) for state, verbs in _VERBS)
_APART = re.compile(
    r"\b(?:turn|switch|put|flip|shut)\s+(?P<thing>(?:[\w'\u2019-]+\s+){1,6}?)(?P<way>on|off)\b"
    r"(?=\s*(?:$|[.,;!?]|(?:please|now|and|then|again|for|in|at|until|till|thanks)\b))",
    re.IGNORECASE,
)
_OPENING = re.compile(
    r"^\W*(?:(?:please|now|then|also|and|can you|could you|would you|hey)\W+)*"
    r"(?P<verb>start|stop)\s",
    re.IGNORECASE,
)
_NEGATED = re.compile(
    r"\b(?:don['\u2019]?t|do not|not|never|without|no need to|instead of|rather than|stop)\b"
    r"(?:\s+[\w'\u2019]+){0,2}\s*$",
    re.IGNORECASE,
)
_LITTLE = frozenset({"the", "and", "for", "all", "with", "this", "that", "you", "not", "off"})
_END = re.compile(r"[.,;:!?\n]|\b(?:and|then)\b")
_AFTER = 48
_BEFORE = 40


def set_switches(call: ToolCall, tool: Tool, heard: Heard) -> tuple[ToolCall, tuple[str, ...]]:
    """The one boolean that means on or off, by the verb that governs it: `switched:ARGUMENT`.

    Left alone where the verb is negated, where both ways are said, where the thing switched is
    not the tool's, and where the tool has two such booleans.
    """
    fields = parameters(tool.parameters)
    states = [name for name, schema in fields.items() if _means_on(name, schema)]
    if len(states) != 1:
        return call, ()
    meant = _meant(call, tool, states[0], heard)
    if meant is None:
        return call, ()

    def better(name: str, schema: Mapping[str, Any], value: Any) -> Any:
        return meant if name == states[0] and isinstance(value, bool) else None

    return revise(call, tool, "switched", better)


def state_said(name: str, schema: Mapping[str, Any], heard: Heard) -> bool | None:
    """What the verbs say of a boolean that means on or off, of whatever thing they say it."""
    if not _means_on(name, schema):
        return None
    said = list(_orders(heard.text))
    ways = {state for state, _, _ in said}
    return ways.pop() if len(ways) == 1 and not any(one[2] for one in said) else None


def _means_on(name: str, schema: Mapping[str, Any]) -> bool:
    if wanted(name, schema).role != "switch":
        return False
    described = schema.get("description")
    description = described if isinstance(described, str) else ""
    before, _, _ = description.partition(", false")
    if _UPSIDE_DOWN.search(before) and not _STATE_TOLD.search(before):
        return False
    own = name_words(name)
    return bool(own and {own[-1], own[0]} & _STATE_NAMES) or bool(_STATE_TOLD.search(description))


def _meant(call: ToolCall, tool: Tool, name: str, heard: Heard) -> bool | None:
    """The one way that the verbs say of this tool's thing."""
    described = parameters(tool.parameters)[name].get("description")
    told = [*name_words(tool.name), *name_words(name), tool.description, str(described or "")]
    known = " ".join((*told, *map(str, call.arguments.values())))
    own = {stem(word) for word in spaced(known).split() if len(word) > 2} - _LITTLE
    said = list(_orders(heard.text))
    ways = {state for state, _, _ in said}
    if len(ways) != 1 or any(negated for _, _, negated in said):
        return None
    things = {stem(word) for _, thing, _ in said for word in spaced(thing).split()}
    return ways.pop() if own & things else None


def _orders(text: str) -> Iterator[tuple[bool, str, bool]]:
    """Each order to switch: which way, the words it governs, and whether it is negated."""
    for state, pattern in _ADJACENT:
        for match in pattern.finditer(text):
            yield state, _clause(text, match.end()), _negated(text, match.start())
    for match in _APART.finditer(text):
        yield match["way"].lower() == "on", match["thing"], _negated(text, match.start())
    opening = _OPENING.search(text)
    if opening:
        yield opening["verb"].lower() == "start", _clause(text, opening.end()), False


def _clause(text: str, start: int) -> str:
    """What a verb governs: the words after it, up to the next mark or joint."""
    return _END.split(text[start : start + _AFTER], maxsplit=1)[0]


def _negated(text: str, place: int) -> bool:
    return bool(_NEGATED.search(text[max(0, place - _BEFORE) : place]))
