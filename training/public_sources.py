"""Frames from public data: spoken requests (NLU, SNIPS), tool schemas (Seal-Tools), small talk.

| source     | what                                  | licence    | used as                        |
|------------|---------------------------------------|------------|--------------------------------|
| nlu        | NLU-Evaluation-Data, home assistants  | CC BY 4.0  | requests with arguments, talk  |
| snips      | SNIPS voice assistant, 7 intents      | CC0 1.0    | requests with arguments, names |
| seal_tools | Seal-Tools schemas (about 4,000)      | Apache-2.0 | tools; requests are generated  |
| seal_dev   | Seal-Tools development requests       | Apache-2.0 | requests with arguments        |
| clinc      | CLINC150 requests                     | CC BY 3.0  | requests no tool serves        |

Left out on purpose: Schema-Guided Dialogue (CC BY-SA 4.0 would bind what is made from it), Glaive
and ToolRL samples (the terms of what they were made from are unclear).
"""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from training.articles import without_article
from training.frame_types import Choice, Choices, Frame, Kind, Parameter, Part, Template
from training.public_tools import NLU_TOOLS, SNIPS_TOOLS
from training.seal_frames import seal_frame
from training.word_pools import add_entries

LICENCES = {
    "nlu": "CC BY 4.0",
    "snips": "CC0 1.0",
    "seal": "Apache-2.0",
    "seal_dev": "Apache-2.0",
    "clinc": "CC BY 3.0",
    "frames": "ours (Apache-2.0)",
    "sibling": "ours (Apache-2.0)",
}
_POOL_SLOTS = {
    "artist": "artist", "track": "song", "movie_name": "movie", "restaurant_name": "restaurant",
    "city": "city", "served_dish": "food",
}  # fmt: skip
_NUMERIC = ("rating_value", "best_rating", "party_size_number")
_ANY = Choices(())


def read_seeds(path: Path) -> dict[str, Any]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        seeds: dict[str, Any] = json.load(file)
    return seeds


def public_frames(seeds: Mapping[str, Any]) -> list[Frame]:
    """Every public source as frames."""
    add_public_entries(seeds["snips"])
    schemas = {tool["api_name"]: tool for tool in seeds["seal_tools"]}
    return [
        *_spoken(seeds["nlu"], NLU_TOOLS, "nlu"),
        *_spoken(seeds["snips"], SNIPS_TOOLS, "snips"),
        *(frame for tool in seeds["seal_tools"] if (frame := seal_frame(tool))),
        *_seal_requests(seeds["seal_dev"], schemas),
    ]


def small_talk(seeds: Mapping[str, Any]) -> list[str]:
    """Requests for which nothing should be called, unless a tool of that very kind is offered."""
    talk = [text for text, _ in seeds["clinc"]]
    for text, intent, _ in seeds["nlu"]:
        if intent.startswith("general_") and intent != "general_joke":
            talk.append(text)
    return [text for text in talk if len(text) > 3]


def add_public_entries(snips: Iterable[Any]) -> None:
    """Names from SNIPS (public domain) for the pools of our own frames."""
    found: dict[str, set[str]] = defaultdict(set)
    for _, _, slots in snips:
        for slot, value in slots:
            pool = _POOL_SLOTS.get(slot)
            if pool and 2 < len(value) < 40 and "," not in value and '"' not in value:
                found[pool].add(value)
    for pool, values in found.items():
        add_entries(pool, tuple(sorted(values)))


def _spoken(
    rows: Iterable[Any], tools: Mapping[str, tuple[str, str, Mapping[str, str]]], source: str
) -> list[Frame]:
    """Requests with marked values; those whose marks the schema does not know are left out."""
    by_intent: dict[str, list[tuple[str, list[list[str]]]]] = defaultdict(list)
    for text, intent, slots in rows:
        by_intent[intent].append((text, slots))
    frames = []
    for intent, (name, description, parameters) in tools.items():
        frame = Frame(name, description, f"{source}_{intent.split('_')[0].lower()}", source=source)
        for slot, words in parameters.items():
            label, _, meaning = words.partition(": ")
            numeric = slot in _NUMERIC and sum(map(ord, intent)) % 2 == 0
            frame.parameters[label] = Parameter(
                label, False, "int" if numeric else "str", _ANY, meaning
            )
        labels = {slot: words.partition(": ")[0] for slot, words in parameters.items()}
        for text, slots in by_intent[intent]:
            utterance = _utterance(text, slots, labels, frame)
            if utterance:
                frame.utterances.append(utterance)
        _learn_values(frame)
        if len(frame.utterances) >= 10:
            frames.append(frame)
    return frames


def _learn_values(frame: Frame) -> None:
    """Give parameters the values that occur, for examples in descriptions."""
    found: dict[str, list[Any]] = defaultdict(list)
    for _, values in frame.utterances:
        for name, value in values.items():
            found[name].append(value)
    for name, occurring in found.items():
        distinct = list(dict.fromkeys(occurring))[:40]
        options = tuple(Choice(value, (str(value),), isinstance(value, str)) for value in distinct)
        frame.parameters[name] = replace(frame.parameters[name], values=Choices(options))


_LONGEST_WITHOUT_VALUES = 6
_TITLES = frozenset(("title", "song", "book", "film", "album", "playlist", "name", "movie"))


def _utterance(
    text: str, slots: list[list[str]], labels: Mapping[str, str], frame: Frame
) -> tuple[Template, dict[str, Any]] | None:
    if any(slot not in labels for slot, _ in slots) or len({s for s, _ in slots}) != len(slots):
        return None
    if not slots and text.count(" ") > _LONGEST_WITHOUT_VALUES:
        return None  # long and nothing marked: mostly something was overlooked
    values: dict[str, Any] = {}
    for slot, value in slots:
        label = labels[slot]
        if label not in _TITLES:
            value = without_article(value)
        if frame.parameters[label].kind == "int" and value.isdigit():
            values[label] = int(value)
        elif frame.parameters[label].kind == "int":
            return None
        else:
            values[label] = value
    return located(text, values)


def located(text: str, values: Mapping[str, Any]) -> tuple[Template, dict[str, Any]] | None:
    """A sentence cut at its values; None where a value is not in it exactly once."""
    places = []
    for name, value in values.items():
        pattern = rf"(?<![\w]){re.escape(str(value))}(?![\w])"
        found = [match.span() for match in re.finditer(pattern, text, re.IGNORECASE)]
        if len(found) != 1 or text[slice(*found[0])] != str(value):
            return None
        places.append((*found[0], name))
    places.sort()
    parts: list[Part] = []
    position = 0
    for start, end, name in places:
        if start < position:
            return None
        parts += [Part(text=text[position:start]), Part(slot=name)]
        position = end
    parts.append(Part(text=text[position:]))
    return Template(tuple(part for part in parts if part.text or part.slot)), dict(values)


def _typed(
    arguments: Mapping[str, Any], schemas: Mapping[str, Mapping[str, str]]
) -> dict[str, Any] | None:
    """Arguments with numbers as numbers; None where a value does not fit its type."""
    typed: dict[str, Any] = {}
    for name, value in arguments.items():
        kind = schemas.get(name, {}).get("type")
        if kind in ("int", "float"):
            match = re.fullmatch(r"-?\d+(\.\d+)?", str(value))
            # Only numbers written as JSON would write them can be found in the request.
            if not match or (match[1] or "").endswith("0") or (kind == "int" and match[1]):
                return None
            typed[name] = float(value) if match[1] else int(value)
        elif kind == "str" and isinstance(value, str):
            typed[name] = value
        else:
            return None
    return typed


def _seal_requests(rows: Iterable[Any], schemas: Mapping[str, Any]) -> list[Frame]:
    """Single-call requests of Seal-Tools whose arguments all stand in the request."""
    frames: dict[str, Frame] = {}
    for row in rows:
        if len(row["calling"]) != 1:
            continue
        call = row["calling"][0]
        tool = schemas.get(call["api"])
        arguments = _typed(call["parameters"], tool["parameters"]) if tool else None
        utterance = located(row["query"], arguments) if arguments else None
        if not tool or not utterance:
            continue
        if not set(tool["required"]) <= set(call["parameters"]) <= set(tool["parameters"]):
            continue
        frame = frames.setdefault(
            tool["api_name"],
            Frame(tool["api_name"], tool["api_description"], tool["field"], source="seal_dev"),
        )
        for name, schema in tool["parameters"].items():
            known = schema["type"] in ("int", "float", "bool")
            kind = cast(Kind, schema["type"] if known else "str")
            frame.parameters[name] = Parameter(
                name, name in tool["required"], kind, _ANY, schema["description"]
            )
        frame.utterances.append(utterance)
    for frame in frames.values():
        _learn_values(frame)
    return list(frames.values())
