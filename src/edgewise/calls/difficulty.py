"""Estimate, before any inference, the chance that the device gets an intent wrong.

Only features that mean the same for a tool nobody has seen: how many things are asked for, how many
tools there are and how alike, what the likely tool wants, and how much of that the words can give.
`training/fit_difficulty.py` fits the weights."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from edgewise.calls.rank_tools import (
    NAME_WEIGHT,
    ToolWords,
    fit_scores,
    stems,
    words_of,
)
from edgewise.calls.words import NUMBER_WORDS
from edgewise.types.messages import Tool

Tier = Literal["local", "guarded", "cloud_first"]
TIER_LIMITS = (0.30, 0.60)
NESTING_LIMIT = 4

_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_WORD = re.compile(r"\w+")
_JOINING = re.compile(r"[,;&]|\b(?:and|or|then|also|plus|both|each)\b", re.IGNORECASE)
_NAME = re.compile(r"(?<!^)(?<!\w)[A-Z][\w-]+(?:\s+[A-Z][\w-]+)*|[\"“'][^\"”']+[\"”']")
_FLAG = re.compile(r"\b(?:on|off|yes|no|not|without|with|only|true|false|never)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Weights:
    """What each feature adds to the log-odds of a wrong answer, as fitted to the shipped caller."""

    bias: float = -3.088
    intents: float = 0.217
    boundaries: float = 1.009
    words: float = 0.653
    tools: float = 1.209
    similarity: float = 0.46
    fit: float = -1.325
    margin: float = 0.172
    undescribed: float = 0.216
    parameters: float = 2.828
    required: float = -1.191
    numbers: float = -0.468
    choices: float = 0.475
    lists: float = -0.737
    nested: float = 2.501
    ungrounded: float = -0.176
    values: float = 0.623
    # Not fitted: there is no record before there is use. A tool that is always right takes
    # this off, one that is always wrong puts it on.
    record: float = 1.5


DEFAULT = Weights()


@dataclass(frozen=True, slots=True)
class Difficulty:
    """`score` is an estimated chance of error, 0 to 1; `features` are what it was made from."""

    score: float
    features: dict[str, float]


def difficulty(
    intent_text: str,
    tools: Sequence[Tool],
    *,
    intents: int = 1,
    weights: Weights = DEFAULT,
    record: Mapping[str, float] | None = None,
) -> Difficulty:
    """How hard an intent is for the device. `record`: share of right calls so far, by tool."""
    found = features(intent_text, tools, intents=intents, record=record)
    logit = weights.bias + sum(getattr(weights, name) * value for name, value in found.items())
    return Difficulty(1.0 / (1.0 + math.exp(-max(-30.0, min(30.0, logit)))), found)


def tier(score: float, limits: tuple[float, float] = TIER_LIMITS) -> Tier:
    """Where an intent of this difficulty starts."""
    if score <= limits[0]:
        return "local"
    return "guarded" if score <= limits[1] else "cloud_first"


def features(
    intent_text: str,
    tools: Sequence[Tool],
    *,
    intents: int = 1,
    record: Mapping[str, float] | None = None,
) -> dict[str, float]:
    """Every feature by the name of its weight, each about 0 to 1."""
    found = dict.fromkeys((field.name for field in fields(Weights) if field.name != "bias"), 0.0)
    found["intents"] = _log_share(intents - 1, 4)
    found["boundaries"] = _log_share(len(_JOINING.findall(intent_text)), 8)
    found["words"] = _log_share(len(_WORD.findall(intent_text)), 60)
    found["values"] = _log_share(_count_numbers(intent_text) + len(_NAME.findall(intent_text)), 10)
    if not tools:
        return found
    scores = fit_scores(intent_text, tools)
    order = sorted(range(len(tools)), key=lambda place: -scores[place])
    likely, best = tools[order[0]], scores[order[0]]
    second = scores[order[1]] if len(order) > 1 else 0.0
    found["tools"] = _log_share(len(tools) - 1, 30)
    found["fit"] = best
    found["margin"] = (best - second) / best if best else 0.0
    found["similarity"] = max(
        (_alike(words_of(likely), words_of(tools[place])) for place in order[1:]), default=0.0
    )
    found["undescribed"] = 0.0 if likely.description.strip() else 1.0
    found["record"] = 1.0 - 2.0 * (record or {}).get(likely.name, 0.5)
    return found | _schema_features(likely, intent_text)


def _log_share(count: float, most: float) -> float:
    """0 at nothing, 1 at `most`, slower and slower; a little above 1 beyond."""
    return math.log1p(max(count, 0)) / math.log1p(most)


def _count_numbers(text: str) -> int:
    spelt = sum(word.lower() in NUMBER_WORDS for word in _WORD.findall(text))
    return len(_NUMBER.findall(text)) + spelt


def _alike(one: ToolWords, other: ToolWords) -> float:
    """How much of the rarer side's name and description words both tools have."""
    first = {word for word, weight in one.weights.items() if weight > NAME_WEIGHT / 2}
    second = {word for word, weight in other.weights.items() if weight > NAME_WEIGHT / 2}
    smaller = min(len(first), len(second))
    return len(first & second) / smaller if smaller else 0.0


def _schema_features(tool: Tool, text: str) -> dict[str, float]:
    leaves = list(_leaves(tool.parameters, NESTING_LIMIT))
    kinds = [_kind(field) for _, field, _ in leaves]
    required = [(name, field) for name, field, needed in leaves if needed]
    properties = tool.parameters.get("properties")
    top = len(properties) if isinstance(properties, Mapping) else 0
    return {
        "parameters": _log_share(len(leaves), 10),
        "required": _log_share(len(required), 6),
        "numbers": kinds.count("number") / max(len(kinds), 1),
        "choices": kinds.count("choice") / max(len(kinds), 1),
        "lists": min(1.0, kinds.count("list") / 2),
        "nested": min(1.0, max(len(leaves) - top, 0) / 4),
        "ungrounded": _ungrounded(required, words_of(tool), text),
    }


def _leaves(schema: Any, depth: int) -> list[tuple[str, Mapping[str, Any], bool]]:
    """Every parameter that holds a value: its name, schema, and whether it must be given."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping) or depth == 0:
        return []
    listed = schema.get("required")
    needed = set(filter(_is_text, listed)) if isinstance(listed, list | tuple) else set()
    found: list[tuple[str, Mapping[str, Any], bool]] = []
    for name, field in properties.items():
        if not isinstance(field, Mapping):
            continue
        inner = _leaves(field, depth - 1) or _leaves(field.get("items"), depth - 1)
        if inner:
            found += [(leaf, kept, want and name in needed) for leaf, kept, want in inner]
        else:
            found.append((str(name), field, name in needed))
    return found


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _kind(field: Mapping[str, Any]) -> str:
    if isinstance(field.get("enum"), list | tuple):
        return "choice"
    declared = field.get("type")
    names = declared if isinstance(declared, list | tuple) else [declared]
    for kind, words in _KINDS.items():
        if any(name in words for name in names if isinstance(name, str)):
            return kind
    return "text"


_KINDS = {
    "number": ("integer", "number", "int", "float", "double"),
    "switch": ("boolean", "bool"),
    "list": ("array", "list"),
}


def _ungrounded(
    required: Sequence[tuple[str, Mapping[str, Any]]], known: ToolWords, text: str
) -> float:
    """The share of required parameters for which the words hold nothing of their kind."""
    if not required:
        return 0.0
    said = stems(text)
    numbers = _count_numbers(text)
    # Words that are not the tool's own are left over to be values.
    left = len(_NAME.findall(text)) + sum(word not in known.weights for word in said)
    missing = 0
    for _, field in required:
        kind = _kind(field)
        if kind == "number":
            missing += numbers <= 0
            numbers -= 1
        elif kind == "choice":
            missing += not any(set(stems(str(choice))) & set(said) for choice in field["enum"])
        elif kind == "switch":
            missing += not _FLAG.search(text)
        else:
            missing += left <= 0
            left -= 1
    return missing / len(required)
