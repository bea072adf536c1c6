"""What a request says and no call uses, and what its calls use more often than it is said.

A number that is left over is nearly always an error, and so is one value in two arguments of a
call that was said once. Generous on purpose: a value counts as used in whatever form it may have
been written, and then what is still left over tells something.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from edgewise.functions.fold import name_words, spaced, stem, words
from edgewise.functions.heard import Heard, hear
from edgewise.functions.parameter import parameters
from edgewise.functions.request_words import (
    ACTION_VERBS,
    DETERMINERS,
    FILLERS,
    PREPOSITIONS,
    QUESTION_WORDS,
    SEQUENCE,
    word_set,
)
from edgewise.types.calls import Found
from edgewise.types.messages import Tool, ToolCall

# Words that say nothing about what is asked for.
_LITTLE = frozenset(
    stem(word)
    for group in (ACTION_VERBS, DETERMINERS, FILLERS, PREPOSITIONS, QUESTION_WORDS, SEQUENCE)
    for word in group
) | word_set("and or but you we they he she be been able thank like know")
_NAMES = frozenset({"name", "place"})
_AMOUNTS = frozenset({"number", "percent", "money"})
# A number may be asked for in another unit, as a share, or with the other sign.
_FACTORS = (1, -1, 100, 1000, 1_000_000, 60, 3600, 24, 7)
_LONGEST = 400  # characters of a value or a description that are read
_MOST = 60  # values of an answer that are read
_DEEPEST = 6


def plain_values(value: Any, depth: int = 0) -> Iterator[str | float]:
    """The texts and numbers in an argument; whether something is on or off is not said as such."""
    inner: Sequence[Any] = ()
    if isinstance(value, Mapping):
        inner = list(value.values())
    elif isinstance(value, list | tuple):
        inner = value
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield value[:_LONGEST] if isinstance(value, str) else float(value)
    for one in inner[:_MOST] if depth < _DEEPEST else ():
        yield from plain_values(one, depth + 1)


@dataclass(frozen=True, slots=True)
class _Used:
    """The values of some calls, in every form in which the words may have said them."""

    texts: tuple[str, ...]
    joined: str
    stems: frozenset[str]
    numbers: frozenset[float]

    @classmethod
    def of(cls, calls: Sequence[ToolCall], tools: Mapping[str, Tool]) -> _Used:
        values = [one for call in calls for one in plain_values(call.arguments)][:_MOST]
        told = [hear(one) for one in values if isinstance(one, str)]
        amounts = {
            round(scaled, 6)
            for one in values
            if isinstance(one, float) and abs(one) < 1e300
            for factor in _FACTORS
            for scaled in (one * factor, one / factor)
        }
        roots = {root for one in told for root in one.stems}
        for call in calls:
            roots |= _tool_stems(tools[call.name]) if call.name in tools else set()
            roots |= {stem(word) for name in call.arguments for word in name_words(name)}
        return cls(
            texts=tuple(one.spaced for one in told if one.spaced.strip()),
            joined=" ".join(one.joined for one in told),
            stems=frozenset(roots),
            numbers=frozenset(amounts | {round(key, 6) for one in told for key in one.numbers}),
        )

    def holds(self, one: Found) -> bool:
        said = spaced(one.text)
        joined = said.replace(" ", "")
        if any(said in text or text in said for text in self.texts):
            return True
        if len(joined) > 2 and joined in self.joined:
            return True
        if one.kind in _NAMES or not any(letter.isdigit() for letter in one.text):
            roots = [stem(word) for word in said.split()]
            if roots and all(root in self.stems for root in roots):
                return True
        told = () if one.kind in _NAMES else hear(one.text).numbers
        return any(round(number, 6) in self.numbers for number in told)


def left_over(
    calls: Sequence[ToolCall], tools: Mapping[str, Tool], heard: Heard
) -> dict[str, float]:
    """How much of what was said no call uses: values, names, and numbers in words."""
    used = _Used.of(calls, tools)
    kinds = Counter(_kind(one) for one in heard.found if not used.holds(one))
    return {name: float(kinds[name]) for name in ("left", "left_names", "left_counts")}


def _kind(one: Found) -> str:
    if one.kind in _NAMES:
        return "left_names"
    written = one.kind not in _AMOUNTS or any(letter.isdigit() for letter in one.text)
    return "left" if written else "left_counts"  # "one of them" often counts nothing


def use_of_words(
    call: ToolCall, calls: Sequence[ToolCall], tool: Tool, heard: Heard
) -> dict[str, float]:
    """What a call makes of the words.

    twice   values in two of its arguments that were not said twice
    shared  values that another call has, too, and that were said once
    cues    parameters without an argument, though their name or one of their choices was said
    """
    own = Counter(_form(one) for one in plain_values(call.arguments))
    others = {
        _form(one) for other in calls if other is not call for one in plain_values(other.arguments)
    }
    said = {form: heard.spaced.count(form) for form in own}
    return {
        "twice": float(sum(count - 1 for form, count in own.items() if said[form] < count)),
        "shared": float(sum(said[form] == 1 for form in own if form in others)),
        "cues": float(_cues(call, tool, heard, {root for form in own for root in _stems(form)})),
    }


def _form(value: str | float) -> str:
    whole = isinstance(value, float) and abs(value) < 1e15 and value == int(value)
    return spaced(str(int(value) if whole else value))


def _stems(form: str) -> list[str]:
    return [stem(word) for word in form.split()]


def _cues(call: ToolCall, tool: Tool, heard: Heard, used: set[str]) -> int:
    free = heard.stems - _LITTLE - _tool_stems(tool) - used
    found = 0
    for name, schema in parameters(tool.parameters).items():
        choices = schema.get("enum")
        listed = choices[:_MOST] if isinstance(choices, list | tuple) else ()
        told = [{stem(word) for word in name_words(name) if len(word) > 2}]
        told += [set(_stems(" ".join(name_words(str(one))))) for one in listed]
        named = told[0] & free or any(one and one <= free for one in told[1:])
        found += name not in call.arguments and bool(named)
    return found


@lru_cache(maxsize=256)
def _roots(name: str, description: str) -> frozenset[str]:
    return frozenset(map(stem, (*name_words(name), *words(description[:_LONGEST]))))


def _tool_stems(tool: Tool) -> frozenset[str]:
    return _roots(tool.name, tool.description)
