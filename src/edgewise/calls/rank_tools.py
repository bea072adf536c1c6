"""How well each tool fits a request by its words, and which intent each call answers."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

from edgewise.calls.schema import ground
from edgewise.calls.values.text import RequestText
from edgewise.calls.values.words import word_set
from edgewise.grammar.tools import per_tool, per_toolbox
from edgewise.types.messages import CLOUD_TOOLS, Request, Tool, ToolCall

# How much a word counts by where the tool says it.
NAME_WEIGHT = 3.0
DESCRIPTION_WEIGHT = 2.0
PARAMETER_WEIGHT = 1.2
CHOICE_WEIGHT = 1.5
DETAIL_WEIGHT = 0.7
# A word no tool has may still be a near miss of one (a slip, another ending).
NEAR_WEIGHT = 0.5
NEAR_SHARE = 0.45
# Longer tools match more words by chance: how strongly that is held against them.
LENGTH_SHARE = 0.35
FIT_SHARE = 0.5  # what a tool's words count for, beside the arguments' own
NESTING_LIMIT = 4
WORDS_OF_A_TEXT = 400  # a description may be a book; a request, too
CHOICES_LIMIT = 200
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_A-Za-z]+|\d+(?:[.,:]\d+)*")
_STOP_WORDS = word_set(
    """a an the this that these those some any and or but nor so if of in on at to for from by with
    without about into over under as is are was were be been being am do does did done has have
    had having can could will would shall should may might must i me my mine you your yours he
    him his she her hers it its we us our ours they them their theirs what which who whom whose
    there here then than also too please just not no yes hey hi hello ok okay thanks thank up
    out off e g etc s t d ll m ve re one parameter optional required given default value string
    number integer true false list"""
)
# Verbs of asking that say the same whatever they are asked for.
_SAME_ACTION = {
    word: group[0]
    for group in (
        ("get", "fetch", "retrieve", "show", "give", "obtain", "read", "return", "provide", "tell"),
        ("find", "search", "look", "lookup", "query", "locate", "seek", "discover"),
        ("create", "make", "add", "new", "generate", "register", "put", "insert"),
        ("delete", "remove", "cancel", "erase", "discard", "drop"),
        ("update", "change", "edit", "modify", "adjust", "alter"),
        ("calculate", "compute", "work", "estimate", "determine"),
        ("start", "begin", "launch", "run", "execute"),
        ("stop", "end", "halt", "finish"),
        ("reserve", "book"),
        ("buy", "purchase", "order"),
        ("check", "verify", "test"),
    )
    for word in group
}
_ENDINGS = (
    ("ations", ""), ("ation", ""), ("ates", ""), ("ated", ""),
    ("ating", ""), ("ate", ""), ("ings", ""), ("ing", ""), ("ions", ""), ("ion", ""),
    ("iers", "y"), ("ier", "y"), ("ies", "y"), ("ied", "y"), ("ers", ""), ("er", ""),
    ("ors", ""), ("or", ""), ("ments", ""), ("ment", ""), ("sses", "ss"), ("ches", "ch"),
    ("shes", "sh"), ("xes", "x"), ("ed", ""), ("ly", ""), ("ss", "ss"), ("us", "us"),
    ("is", "is"), ("s", ""),
)  # fmt: skip
GENERIC_STEMS = frozenset(_SAME_ACTION.values())


class ToolWords(NamedTuple):
    """A tool's stems with what each counts; `name` are the name's own."""

    weights: Mapping[str, float]
    name: frozenset[str]


def rank_tools(request: str, tools: Sequence[Tool], limit: int) -> list[Tool]:
    """The `limit` tools whose words fit the request best, in the order they were offered."""
    if len(tools) <= limit:
        return list(tools)
    scores = fit_scores(request, tools)
    best = sorted(range(len(tools)), key=lambda place: (-scores[place], place))[: max(limit, 0)]
    return [tools[place] for place in sorted(best)]


def for_cloud(request: Request, words: str) -> Request:
    """With no more tools than every cloud takes: of more, those that fit the words best."""
    if len(request.tools) <= CLOUD_TOOLS:
        return request
    if request.chosen:
        return replace(request, tools=request.offered)
    return replace(request, tools=tuple(rank_tools(words, request.tools, CLOUD_TOOLS)))


@per_toolbox
def fit_scores(request: str, tools: Sequence[Tool]) -> Sequence[float]:
    """For each tool how much of what the request says its words explain, 0 to 1.

    Words that many of the offered tools have count little; words that none has count against all.
    """
    offered = [words_of(tool) for tool in tools]
    asked = _asked(request, offered)
    if not asked or not tools:
        return (0.0,) * len(tools)
    average = sum(len(words.weights) for words in offered) / len(offered) or 1.0
    holders = {stem: sum(stem in words.weights for words in offered) for stem in asked}
    rarity = {stem: math.log(1 + len(tools) / (held + 0.5)) for stem, held in holders.items()}
    most = sum(rarity[stem] * asked[stem] for stem in asked) * NAME_WEIGHT
    scores = []
    for words in offered:
        found = sum(
            rarity[stem] * count * words.weights[stem]
            for stem, count in asked.items()
            if stem in words.weights
        )
        length = 1 - LENGTH_SHARE + LENGTH_SHARE * len(words.weights) / average
        scores.append(min(1.0, found / (most * length)) if most else 0.0)
    return tuple(scores)


def stems(text: str) -> list[str]:
    """The words of a text that carry meaning, without their endings, in order."""
    parts = _PART.findall(text[: WORDS_OF_A_TEXT * 12])[:WORDS_OF_A_TEXT]
    lowered = (part.lower() for part in parts)
    return [stem(word) for word in lowered if word not in _STOP_WORDS]


@lru_cache(maxsize=20_000)
def stem(word: str) -> str:
    """One form for the forms of a word. Crude on purpose: both sides are cut the same way.

    Tools are compared by it, so it also puts verbs together that ask for the same; values must
    not be, see `values.words.stem`.
    """
    cut = _cut(word)
    return _SAME_ACTION.get(word) or _SAME_CUT.get(cut) or cut


def _cut(word: str) -> str:
    for ending, rest in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: len(word) - len(ending)] + rest
            break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "aeiouls":
        word = word[:-1]
    return word[:-1] if len(word) > 3 and word[-1] in "ey" else word


_SAME_CUT = {_cut(word): head for word, head in _SAME_ACTION.items()}


@per_tool
def words_of(tool: Tool) -> ToolWords:
    """What a tool says of itself."""
    weights: dict[str, float] = {}
    name = frozenset(stems(tool.name))
    _note(weights, name, NAME_WEIGHT)
    _note(weights, stems(tool.description), DESCRIPTION_WEIGHT)
    for text, weight in _schema_texts(tool.parameters, NESTING_LIMIT):
        _note(weights, stems(text), weight)
    return ToolWords(weights, name)


def _note(weights: dict[str, float], found: Iterable[str], weight: float) -> None:
    for word in found:
        weights[word] = max(weight, weights.get(word, 0.0))


def _schema_texts(schema: Any, depth: int) -> Iterator[tuple[str, float]]:
    """Names, descriptions and choices of a schema's fields, each with what it counts."""
    if not isinstance(schema, Mapping) or depth == 0:
        return
    properties = schema.get("properties")
    fields = properties.items() if isinstance(properties, Mapping) else ()
    for name, field in fields:
        yield str(name), PARAMETER_WEIGHT
        if isinstance(field, Mapping):
            yield from _field_texts(field)
            yield from _schema_texts(field, depth - 1)
            yield from _schema_texts(field.get("items"), depth - 1)


def _field_texts(field: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    description = field.get("description")
    if isinstance(description, str):
        yield description, DETAIL_WEIGHT
    items = field.get("items")
    for holder in (field, items if isinstance(items, Mapping) else {}):
        choices = holder.get("enum")
        if isinstance(choices, list | tuple):
            for choice in choices[:CHOICES_LIMIT]:
                if isinstance(choice, str):
                    yield choice, CHOICE_WEIGHT


def _asked(request: str, offered: Sequence[ToolWords]) -> dict[str, float]:
    """The request's stems; one that no tool has is put back to the nearest one that some has."""
    asked: dict[str, float] = {}
    vocabulary: dict[str, frozenset[str]] | None = None
    for word in dict.fromkeys(stems(request)):
        if word[0].isdigit():
            continue
        if any(word in words.weights for words in offered):
            asked[word] = 1.0
            continue
        if vocabulary is None:
            vocabulary = _vocabulary(offered)
        near = _nearest(word, vocabulary)
        asked[near or word] = max(NEAR_WEIGHT, asked.get(near or word, 0.0))
    return asked


def _vocabulary(offered: Sequence[ToolWords]) -> dict[str, frozenset[str]]:
    """Name and description words by their grams: the ones a request is likely to garble."""
    return {
        word: _grams(word)
        for words in offered
        for word, weight in words.weights.items()
        if weight >= CHOICE_WEIGHT and len(word) >= 4
    }


def _nearest(word: str, vocabulary: Mapping[str, frozenset[str]]) -> str | None:
    grams = _grams(word)
    best, best_share = None, NEAR_SHARE
    for other, others in vocabulary.items():
        both = len(grams & others)
        if both and 2 * both / (len(grams) + len(others)) > best_share:
            best, best_share = other, 2 * both / (len(grams) + len(others))
    return best


@lru_cache(maxsize=20_000)
def _grams(word: str) -> frozenset[str]:
    padded = f"^{word}$"
    return frozenset(padded[index : index + 3] for index in range(len(padded) - 2))


def assign(
    calls: Sequence[ToolCall], tools: Mapping[str, Tool], intents: Sequence[RequestText]
) -> tuple[int, ...]:
    """An intent's number for each call, in an order that never goes back.

    Calls stand in the order of the request, so this is an alignment: the best sum of how well
    each intent's words support the arguments and the tool of its calls.
    """
    if len(intents) < 2 or not calls:
        return (0,) * len(calls)
    scores = [[_score(call, tools.get(call.name), words) for words in intents] for call in calls]
    best = list(scores[0])
    came: list[list[int]] = []
    for row in scores[1:]:
        top, before, here = 0, [], []
        for number, score in enumerate(row):
            top = number if best[number] > best[top] else top
            before.append(top)
            here.append(best[top] + score)
        came.append(before)
        best = here
    place = max(range(len(best)), key=best.__getitem__)
    path = [place]
    for before in reversed(came):
        path.append(before[path[-1]])
    return tuple(reversed(path))


def unanswered(owners: Sequence[int], intents: int) -> tuple[int, ...]:
    return tuple(number for number in range(intents) if number not in owners)


def _score(call: ToolCall, tool: Tool | None, words: RequestText) -> float:
    if tool is None:
        return 0.0
    supports = [one.score for one in ground(call.arguments, tool, words).arguments.values()]
    fit = fit_scores(words.text, [tool])[0]
    return sum(supports) / max(1, len(supports)) + FIT_SHARE * fit
