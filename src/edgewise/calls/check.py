"""How likely each call is right, and what is wrong with the calls of a request as a whole."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from edgewise.calls.intents import (
    ACTION_VERBS,
    DETERMINERS,
    FILLERS,
    PREPOSITIONS,
    QUESTION_WORDS,
    SEQUENCE,
    expected_calls,
    held_back,
    left_wrong,
)
from edgewise.calls.prompt import Span, owners
from edgewise.calls.rank_tools import fit_scores, stems
from edgewise.calls.schema import ground, parameters, required, wanted
from edgewise.calls.values.text import RequestText, read_request
from edgewise.calls.values.words import name_words, spaced, stem, word_set, words
from edgewise.decide.calibration import Calibration, Kind, Score
from edgewise.grammar.check import check_answer
from edgewise.types.messages import Source, Tool, ToolCall
from edgewise.types.replies import Complaint, Found, Token

# Words that say nothing about what is asked for.
_LITTLE = frozenset(
    stem(word)
    for group in (ACTION_VERBS, DETERMINERS, FILLERS, PREPOSITIONS, QUESTION_WORDS, SEQUENCE)
    for word in group
) | word_set("and or but you we they he she be been able thank like know")
_NAMES = frozenset({"name", "place"})
_TIMES = frozenset({"hour", "minute", "second", "duration"})
_AMOUNTS = frozenset({"number", "percent", "money"})
# A number may be asked for in another unit, as a share, or with the other sign.
_FACTORS = (1, -1, 100, 1000, 1_000_000, 60, 3600, 24, 7)
_LONGEST = 400  # characters of a value or a description that are read
_MOST = 60  # values of an answer that are read
_DEEPEST = 6
# Log-probabilities come rounded to about this: nearer to certain they say nothing.
_LEAST_DOUBT = 1e-4
_HALF = math.log(0.5)
# An argument that the words support less than this is doubtful, if not made up.
_WEAK = 0.5
# Features that rise with the model's own sureness: their weights are at least 0.
RISING = frozenset(
    {
        "call_sum", "call_surety", "call_min", "call_mean", "name_surety", "value_surety",
        "shape_surety", "end_surety", "answer_surety", "margin", "name_margin",
    }
)  # fmt: skip
FALLING = frozenset({"entropy"})
# What needs no token: grounding in the words, fit of the tool, what was asked for.
WORDED = frozenset(
    {
        "fit", "fit_margin", "ground_min", "ground_mean", "ungrounded", "absent", "optional",
        "parameters", "tools", "calls", "missing", "extra", "weak", "left", "left_names",
        "left_counts", "twice", "shared", "cues",
    }
)  # fmt: skip


def call_features(
    tokens: Sequence[Token],
    calls: Sequence[ToolCall],
    tools: Sequence[Tool],
    request: str | RequestText,
) -> tuple[dict[str, float], ...]:
    """What is known about each call; one entry about the whole where there is no call.

    `tokens` are the answer's, the end token included; `calls` may have been repaired since. A call
    without tokens that carry evidence has only the features of the words.
    """
    request = read_request(request)
    fits = fit_scores(request.text, tools)
    asked = expected_calls(request.text, tools)
    shared = {
        "tools": math.log(max(1, len(tools))),
        "calls": float(len(calls)),
        "missing": float(max(0, asked - len(calls))),
        "extra": float(max(0, len(calls) - asked)),
    }
    sure = [token.logprob for token in tokens if token.has_evidence]
    whole = {"answer_surety": surety(sum(sure))} if sure else {}
    said = _said(tokens)
    if not calls:
        told = _evidence(said[0].tokens) if said else {}
        best = max(fits, default=0.0)
        return ({"none": 1.0, "fit": best, **shared, **(whole | told if told else {})},)
    shared |= unused_words(calls, {tool.name: tool for tool in tools}, request)
    found = []
    for call, group in zip(calls, _of_calls(said, calls), strict=True):
        told = _evidence(group)
        words = _word_features(call, calls, tools, fits, request)
        found.append({**shared, **words, **(whole | told if told else {})})
    return tuple(found)


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
        told = [read_request(one) for one in values if isinstance(one, str)]
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
        told = () if one.kind in _NAMES else read_request(one.text).numbers
        return any(round(number, 6) in self.numbers for number in told)


def unused_words(
    calls: Sequence[ToolCall], tools: Mapping[str, Tool], request: RequestText
) -> dict[str, float]:
    """How much of what was said no call uses: values, names, and numbers in words."""
    used = _Used.of(calls, tools)
    kinds = Counter(_kind(one) for one in request.found if not used.holds(one))
    return {name: float(kinds[name]) for name in ("left", "left_names", "left_counts")}


def _kind(one: Found) -> str:
    if one.kind in _NAMES:
        return "left_names"
    written = one.kind not in _AMOUNTS or any(letter.isdigit() for letter in one.text)
    return "left" if written else "left_counts"  # "one of them" often counts nothing


def use_of_words(
    call: ToolCall, calls: Sequence[ToolCall], tool: Tool, request: RequestText
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
    said = {form: request.spaced.count(form) for form in own}
    return {
        "twice": float(sum(count - 1 for form, count in own.items() if said[form] < count)),
        "shared": float(sum(said[form] == 1 for form in own if form in others)),
        "cues": float(_cues(call, tool, request, {root for form in own for root in _stems(form)})),
    }


def repeated_values(call: ToolCall, request: RequestText) -> tuple[str, ...]:
    """Arguments with a value that an earlier one has, too, though it was not said so often."""
    used: Counter[str] = Counter()
    found = []
    for name, value in call.arguments.items():
        forms = [_form(one) for one in plain_values(value)]
        if any(used[form] and request.spaced.count(form) <= used[form] for form in forms):
            found.append(name)
        used.update(forms)
    return tuple(found)


def _form(value: str | float) -> str:
    whole = isinstance(value, float) and abs(value) < 1e15 and value == int(value)
    return spaced(str(int(value) if whole else value))


def _stems(form: str) -> list[str]:
    return [stem(word) for word in form.split()]


def _cues(call: ToolCall, tool: Tool, request: RequestText, used: set[str]) -> int:
    free = request.stems - _LITTLE - _tool_stems(tool) - used
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


def surety(logprob: float) -> float:
    """0 for no chance, 9.2 for certain: minus the log of the chance of anything else."""
    return -math.log(_LEAST_DOUBT + 1.0 - math.exp(min(0.0, logprob)))


@dataclass(frozen=True, slots=True)
class _Said:
    """The tokens of one call, from its name to before the next, each with what it is part of."""

    name: str
    tokens: list[tuple[Token, Span | None]]


def _said(tokens: Sequence[Token]) -> list[_Said]:
    text = "".join(token.text for token in tokens)
    groups: list[_Said] = []
    for token, span in zip(tokens, owners([token.text for token in tokens]), strict=True):
        while span is not None and span.call >= len(groups):
            groups.append(_Said(text[span.start : span.end], []))
        if groups:
            groups[-1].tokens.append((token, span))
    return groups


def _of_calls(
    said: Sequence[_Said], calls: Sequence[ToolCall]
) -> list[list[tuple[Token, Span | None]]]:
    """The tokens of each call; by name where repair has added, dropped or joined some."""
    if len(said) == len(calls):
        return [group.tokens for group in said]
    left = list(said)
    found = []
    for call in calls:
        own = next((group for group in left if group.name == call.name), None)
        if own is not None:
            left.remove(own)
        found.append([] if own is None else own.tokens)
    return found


def _evidence(group: Sequence[tuple[Token, Span | None]]) -> dict[str, float]:
    known = [(token, span) for token, span in group if token.has_evidence]
    if not known:
        return {}
    chances = [token.logprob for token, _ in known]
    owned = [place for place, (_, span) in enumerate(known) if span is not None]
    after = owned[-1] + 1 if owned else 0
    decided = [known[place][0] for place in owned] or [token for token, _ in known]
    return {
        "call_sum": sum(chances),
        "call_min": min(chances),
        "call_mean": sum(chances) / len(chances),
        "call_surety": surety(sum(chances)),
        "name_surety": surety(
            sum(token.logprob for token, span in known if span and span.argument is None)
        ),
        "value_surety": surety(
            sum(token.logprob for token, span in known if span and span.argument is not None)
        ),
        "shape_surety": surety(sum(token.logprob for token, span in known[:after] if span is None)),
        "end_surety": surety(sum(chances[after:])),
        "margin": min(token.margin for token in decided),
        "name_margin": min(
            (_lead(token) for token, span in known if span and span.argument is None), default=0.0
        ),
        "entropy": max(token.entropy for token in decided),
    }


def _lead(token: Token) -> float:
    """How far a token of a tool's name is ahead of the best other one, in nats.

    `margin` is the lead of the token that the model wanted most. If the grammar forced another
    one, the chance of that one is below one half, and its lead is at most the log of its odds.
    """
    if token.logprob >= _HALF:
        return min(token.margin, -math.log(_LEAST_DOUBT))
    chance = math.exp(token.logprob)
    return min(token.margin, math.log(max(chance, 1e-30) / (1.0 - chance)))


def _word_features(
    call: ToolCall,
    calls: Sequence[ToolCall],
    tools: Sequence[Tool],
    fits: Sequence[float],
    request: RequestText,
) -> dict[str, float]:
    place = next((place for place, tool in enumerate(tools) if tool.name == call.name), None)
    tool = Tool(call.name) if place is None else tools[place]
    fit = 0.0 if place is None else fits[place]
    rival = max((score for other, score in enumerate(fits) if other != place), default=0.0)
    grounding = ground(call.arguments, tool, request)
    scores = [one.score for one in grounding.arguments.values()]
    needed = set(required(tool.parameters))
    return {
        "fit": fit,
        "fit_margin": fit - rival,
        "ground_min": grounding.score,
        "ground_mean": sum(scores) / len(scores) if scores else 1.0,
        "ungrounded": float(len(grounding.ungrounded)),
        "weak": float(sum(score < _WEAK for score in scores)),
        "absent": float(len(needed - set(call.arguments))),
        "optional": float(len(set(call.arguments) - needed)),
        "parameters": math.log(1 + len(parameters(tool.parameters))),
        **use_of_words(call, calls, tool, request),
    }


def call_confidence(calibration: Calibration, features: Mapping[str, float]) -> float:
    """The chance that one call, or the answer that no tool serves, is right.

    Where the runtime gave no evidence the words alone have to do (`worded_call`, `worded_none`).
    """
    name = "none" if features.get("none") else "call"
    score = calibration.scores[name]
    return (score if score.suits(features) else calibration.scores[f"worded_{name}"]).of(features)


def answer_confidence(calibration: Calibration, features: Iterable[Mapping[str, float]]) -> float:
    """The chance that the whole answer is right: that of its worst call.

    Calls of one answer are right or wrong together, and each knows how sure the whole was: their
    product is no better ordered, and too low.
    """
    return min((call_confidence(calibration, one) for one in features), default=0.0)


_ALL = RISING | FALLING | WORDED
CALLS = Kind(
    name="calls",
    scores=dict.fromkeys(("call", "none", "worded_call", "worded_none"), "final"),
    features={"call": _ALL, "none": _ALL, "worded_call": WORDED, "worded_none": WORDED},
    rising=RISING,
    falling=FALLING,
    formats=(1, 2),  # 1 knew fewer features; what they mean has not changed
    uncalibrated=Calibration(
        name="uncalibrated",
        scores={
            "call": Score({"call_surety": 1.0, "ground_min": 1.0, "ungrounded": -2.0}, -2.0),
            "none": Score({"call_surety": 1.0}, -2.0),
            "worded_call": Score({"ground_min": 2.0, "ungrounded": -2.0, "absent": -2.0}, -1.0),
            "worded_none": Score({"fit": -1.0}, 0.0),
        },
    ),
)


# -- what is wrong with the calls ------------------------------------------------------------------

# On 751 calls of held-out tools, where 29 % were wrong: half of those that this finds were.
CLEARLY_BETTER = 2.0  # times as much of the words
LEAST_FIT = 0.02  # a rival that says less than this says nothing
COVERING_FIT = 0.2  # a tool that explains so much of an intent could have served it
_AGAIN = frozenset(stems("again once more another twice second time"))

# What makes a call unfit to run, whatever its probability.
FATAL = frozenset(
    {"unknown_tool", "missing_argument", "wrong_type", "not_in_enum", "out_of_range", "empty_value"}
)
# What a schema may say beyond what the grammar of calls enforces and `grammar.tools` reads.
_UNENFORCED = frozenset(
    {
        "pattern", "uniqueItems", "multipleOf", "contains", "const", "not", "minProperties",
        "maxProperties", "patternProperties", "propertyNames", "dependentRequired",
    }
)  # fmt: skip
_TYPES = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})
# Reasons to doubt an answer, however sure the model is of it.
GATE = FATAL | {"weak_fit", "refusal", "not_json", "held_back"}
# More of them where a call had to be made, or shall come back after the cloud made none. Else they
# only cost: the confidence knows what the words say (docs/notes/function-steps.md).
STRICT_GATE = GATE | {"ungrounded", "duplicate_call", "uncovered_intent"}


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
    request: str = "",
) -> Checked:
    """The calls of each intent, checked together. `request`: the words of all intents.

    `declined` names the intents that were answered without a call, each with the complaint about
    its answer. None instead of a complaint: the answer will do.
    """
    declined = declined or {}
    made = [call for calls in by_intent.values() for call in calls]
    earlier: list[tuple[int, ToolCall]] = []
    found: dict[int, tuple[ToolCall, ...]] = {}
    complaints: list[Complaint] = []
    for number, part in enumerate(intents):
        calls = by_intent.get(number, ())
        repeated = [call for call in calls if _repeats(call, part, earlier, intents)]
        # Nothing holds back what the cloud wrote: it has read the words too.
        cues = [
            ""
            if call.source == "cloud"
            else held_back(call, request, tools)
            or left_wrong(call, request, made)
            or miscounted(call, part, tools)
            for call in calls
        ]
        found[number] = tuple(
            _with(
                _compared(call, tools),
                weak_fit=is_weak(call, part, tools),
                duplicate_call=call in repeated,
                held_back=bool(cue),
            )
            for call, cue in zip(calls, cues, strict=True)
        )
        earlier += [(number, call) for call in calls]
        complaints += [
            Complaint("duplicate_call", f"{call.name} was called for another part already",
                      intent=number)
            for call in repeated
        ]  # fmt: skip
        complaints += [
            Complaint("held_back", f"the words {cue!r} hold {call.name} back", intent=number)
            for call, cue in zip(calls, cues, strict=True)
            if cue
        ]
        if not calls:
            said = declined.get(number)
            complaints += [replace(said, intent=number)] if said else []
            complaints += [] if number in declined else _uncovered(number, part, tools)
    return Checked(found, tuple(complaints))


def _compared(call: ToolCall, tools: Sequence[Tool]) -> ToolCall:
    """The call, with a complaint if its arguments break one of `_UNENFORCED`."""
    tool = next((each for each in tools if each.name == call.name), None)
    if tool is None or not FATAL.isdisjoint(call.complaints):
        return call
    said = list(_keywords(tool.parameters))
    named = (name for word, name in said if word == "type" and isinstance(name, str))
    loose = not _TYPES.issuperset(named)  # names that only `grammar.tools` knows
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


def miscounted(call: ToolCall, words: RequestText, tools: Sequence[Tool]) -> str:
    """The words that say how many calls there are, taken for a time: "set two timers, …"."""
    tool = next((each for each in tools if each.name == call.name), None)
    fields = parameters(tool.parameters) if tool else {}
    timed = [
        (name, value)
        for name, value in call.arguments.items()
        if name in fields and wanted(name, fields[name]).role in _TIMES
    ]
    if tool is None or len(timed) != 1 or not isinstance(timed[0][1], int | float):
        return ""
    said, (name, value) = words.spaced.split(), timed[0]
    own = {*map(stem, name_words(tool.name))}.difference(map(stem, name_words(name)))
    for before, word in itertools.pairwise(said):
        several = word.endswith("s") and stem(word) in own and said.count(before) == 1
        if several and float(value) in read_request(before).numbers:
            return f"{before} {word}"
    return ""


def same_call(one: ToolCall, other: ToolCall) -> bool:
    return one.name == other.name and dict(one.arguments) == dict(other.arguments)


def is_weak(call: ToolCall, words: RequestText, tools: Sequence[Tool]) -> bool:
    """Whether another tool fits the words clearly better. The cloud knows more than the words."""
    best = max(fit_scores(words.text, tools), default=0.0)
    least = max(LEAST_FIT, CLEARLY_BETTER * fit_of(call.name, words, tools))
    return call.source != "cloud" and best > least


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
