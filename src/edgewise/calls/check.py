"""What is wrong with the calls of a request as a whole; calls of several origins in one order."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

from edgewise.calls.rank_tools import fit_scores, stem, stems
from edgewise.calls.response_check import check_answer
from edgewise.calls.values.text import RequestText
from edgewise.types.calls import Complaint
from edgewise.types.messages import Source, Tool, ToolCall

# On 751 calls of held-out tools, where 29 % were wrong: half of those that this finds were.
CLEARLY_BETTER = 2.0  # times as much of the words
LEAST_FIT = 0.02  # a rival that says less than this says nothing
COVERING_FIT = 0.2  # a tool that explains so much of an intent could have served it
_AGAIN = frozenset(map(stem, ("again", "once", "more", "another", "twice", "second", "time")))

# What makes a call unfit to run, whatever its probability.
FATAL = frozenset(
    {"unknown_tool", "missing_argument", "wrong_type", "not_in_enum", "out_of_range", "empty_value"}
)
# What a schema may say beyond what the grammar of calls enforces and `schema.py` reads.
_UNENFORCED = frozenset(
    {
        "pattern", "uniqueItems", "multipleOf", "contains", "const", "not", "minProperties",
        "maxProperties", "patternProperties", "propertyNames", "dependentRequired",
    }
)  # fmt: skip
_TYPES = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})
# Reasons to doubt an answer: of an easy request, and of one where everything must be right.
EASY_GATE = FATAL | {"weak_fit", "refusal", "not_json"}
FULL_GATE = EASY_GATE | {"ungrounded", "duplicate_call", "uncovered_intent"}


@dataclass(frozen=True, slots=True)
class Checked:
    """Every intent's calls with their complaints, and the complaints about intents."""

    calls: Mapping[int, tuple[ToolCall, ...]]
    complaints: tuple[Complaint, ...]

    def of(self, number: int) -> frozenset[str]:
        """All codes that concern an intent: its own, and those of its calls."""
        own = {one.code for one in self.complaints if one.intent == number}
        return frozenset(own.union(*(call.complaints for call in self.calls.get(number, ()))))


def check_calls(
    by_intent: Mapping[int, Sequence[ToolCall]],
    intents: Sequence[RequestText],
    tools: Sequence[Tool],
    *,
    declined: Mapping[int, Complaint | None] | None = None,
) -> Checked:
    """The calls of each intent, checked together.

    `declined`: intents that were answered with something else than calls, and what is wrong with
    that; None where it is as good as a call.
    """
    declined = declined or {}
    earlier: list[tuple[int, ToolCall]] = []
    found: dict[int, tuple[ToolCall, ...]] = {}
    complaints: list[Complaint] = []
    for number, words in enumerate(intents):
        calls = by_intent.get(number, ())
        repeated = [call for call in calls if _repeats(call, words, earlier, intents)]
        found[number] = tuple(
            _with(
                _compared(call, tools),
                weak_fit=is_weak(call, words, tools),
                duplicate_call=call in repeated,
            )
            for call in calls
        )
        earlier += [(number, call) for call in calls]
        complaints += [
            Complaint("duplicate_call", f"{call.name} was called for another part already",
                      intent=number)
            for call in repeated
        ]  # fmt: skip
        if not calls:
            said = declined.get(number)
            complaints += [replace(said, intent=number)] if said else []
            complaints += [] if number in declined else _uncovered(number, words, tools)
    return Checked(found, tuple(complaints))


def _compared(call: ToolCall, tools: Sequence[Tool]) -> ToolCall:
    """The call, with a complaint if its arguments break one of `_UNENFORCED`."""
    tool = next((each for each in tools if each.name == call.name), None)
    if tool is None or not FATAL.isdisjoint(call.complaints):
        return call
    said = list(_keywords(tool.parameters))
    named = (name for word, name in said if word == "type" and isinstance(name, str))
    loose = not _TYPES.issuperset(named)  # names that only `schema.py` knows
    if loose or _UNENFORCED.isdisjoint(word for word, _ in said):
        return call
    written = json.dumps(dict(call.arguments), default=str)
    return _with(call, out_of_range=bool(check_answer(written, tool.parameters).fault))


def _keywords(schema: Any) -> Iterator[tuple[str, Any]]:
    """Every keyword of a schema with its value; names of parameters are among them."""
    if isinstance(schema, Mapping):
        yield from schema.items()
    for part in schema.values() if isinstance(schema, Mapping) else schema:
        if isinstance(part, Mapping | list | tuple):
            yield from _keywords(part)


def same_call(one: ToolCall, other: ToolCall) -> bool:
    return one.name == other.name and dict(one.arguments) == dict(other.arguments)


def is_weak(call: ToolCall, words: RequestText, tools: Sequence[Tool]) -> bool:
    """Whether another tool fits the words clearly better. The cloud knows more than the words."""
    return call.source != "cloud" and better_fit(call, words, tools, CLEARLY_BETTER) > 0


def better_fit(
    call: ToolCall, words: RequestText, tools: Sequence[Tool], times: float = 1.0
) -> float:
    """How well the best of the other tools fits, where that is `times` as well; else 0."""
    best = max(fit_scores(words.text, tools), default=0.0)
    return best if best > max(LEAST_FIT, times * fit_of(call.name, words, tools)) else 0.0


def fit_of(name: str, words: RequestText, tools: Sequence[Tool]) -> float:
    fits = zip(tools, fit_scores(words.text, tools), strict=True)
    return next((fit for tool, fit in fits if tool.name == name), 0.0)


def asks_again(words: RequestText, before: RequestText) -> bool:
    """Whether an intent asks for what an earlier one has asked for: "roll it, then roll it"."""
    return set(stems(words.text)) - _AGAIN <= set(stems(before.text))


def asked_twice(
    by_intent: Mapping[int, Sequence[ToolCall]], intents: Sequence[RequestText]
) -> set[int]:
    """Intents whose calls are to be made although an earlier intent has the same."""
    return {
        number
        for number in by_intent
        for other in range(number)
        if asks_again(intents[number], intents[other])
        and any(
            same_call(one, two) for one in by_intent[number] for two in by_intent.get(other, ())
        )
    }


def _repeats(
    call: ToolCall,
    words: RequestText,
    earlier: Sequence[tuple[int, ToolCall]],
    intents: Sequence[RequestText],
) -> bool:
    same = [number for number, other in earlier if same_call(call, other)]
    return bool(same) and not any(asks_again(words, intents[number]) for number in same)


def _with(call: ToolCall, **codes: bool) -> ToolCall:
    kept = [code for code in call.complaints if code not in codes]
    raised = [code for code, holds in codes.items() if holds]
    return replace(call, complaints=(*kept, *raised))


def _uncovered(number: int, words: RequestText, tools: Sequence[Tool]) -> list[Complaint]:
    fits = fit_scores(words.text, tools)
    best = max(range(len(tools)), key=fits.__getitem__, default=None)
    if best is None or fits[best] < COVERING_FIT:
        return []
    message = f"nothing was called, though {tools[best].name} fits the words"
    return [Complaint("uncovered_intent", message, intent=number)]


def merge(
    by_intent: Mapping[int, Sequence[ToolCall]], *, again: Set[int] = frozenset()
) -> tuple[ToolCall, ...]:
    """Intent after intent; a call that another intent made is not made twice, but for `again`."""
    merged: list[ToolCall] = []
    for number in sorted(by_intent):
        for call in by_intent[number]:
            if number in again or all(not same_call(call, other) for other in merged):
                merged.append(call)
    return tuple(merged)


def source_of(calls: Iterable[ToolCall], otherwise: Source) -> Source:
    """Where the calls came from together; `otherwise` where there are none."""
    found = {call.source for call in calls}
    if len(found) > 1:
        return "mixed"
    return found.pop() if found else otherwise
