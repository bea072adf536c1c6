"""How likely each call is right, from what the model said and what the words support."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from edgewise.calls.ground import ground
from edgewise.calls.intents import (
    ACTION_VERBS,
    DETERMINERS,
    FILLERS,
    PREPOSITIONS,
    QUESTION_WORDS,
    SEQUENCE,
    expected_calls,
)
from edgewise.calls.parameters import parameters, required
from edgewise.calls.prompt import Span, owners
from edgewise.calls.rank_tools import fit_scores
from edgewise.calls.values.text import RequestText, read_request
from edgewise.calls.values.words import name_words, spaced, stem, word_set, words
from edgewise.decide.calibration import Calibration, Kind
from edgewise.decide.score import Score
from edgewise.types.calls import Found
from edgewise.types.messages import Tool, ToolCall
from edgewise.types.tokens import Token

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

    `margin` tells of the model's own choice. A token that the grammar chose instead has less than
    half of the chance, and then no more than its odds are its lead.
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
