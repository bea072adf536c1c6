"""Several rounds of tools: what one gave back is what the next one needs, or all is done."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from edgewise.types.messages import Message, ToolCall
from training.boundaries import join_clauses
from training.dialogues import called_turns, result_text, said_turn
from training.example import Example
from training.frame_types import Frame, Pool
from training.offer import offer
from training.parallel import same_tool
from training.references import BEFORE_A_THING, with_reference
from training.sample import Clause, clause_from, sample_clause
from training.styles import StyledTool
from training.values import Said
from training.word_pools import from_pool
from training.world import World, tool_count

# What the tools of frames/lookups.frames find, by their domain: lookups_phone, lookups_email, …
LOOKUPS = "lookups_"
_WORDS = {
    "phone": ("that number", "the number you find", "this number"),
    "email": ("that address", "that email address", "the address you find"),
    "id": ("that id", "that number", "the id you get"),
    "street": ("that address", "the address you find", "this address"),
    "url": ("that link", "the link you get", "this link"),
    "filename": ("that file", "the file you find", "this file"),
}
_LATER = {
    "phone": ("that number", "this number", "the number you found"),
    "email": ("that address", "this address", "that email"),
    "id": ("that id", "this one", "that one"),
    "street": ("that address", "this address", "the address you found"),
    "url": ("that link", "this link", "the link"),
    "filename": ("that file", "this file", "the file you found"),
}
_FIND_ONE = ("share_link.create", "newest_download", "orders.latest", "nearest_station")
_ORDER = (("first", 0), ("second", 1), ("third", 2), ("last", -1))
_NOUNS = {"phone": "number", "email": "address", "id": "id", "street": "address", "url": "link",
          "filename": "file"}  # fmt: skip
_FAILURES = (
    '{"error":"not found"}', '{"error":"service unavailable"}', '{"status":"failed"}', "[]",
    '{"results":[]}', "Error: no such entry", '{"status":"error","code":404}', "null",
)  # fmt: skip


def rounds(world: World, rng: Random) -> Example | None:
    if rng.random() < 0.25:
        return _done(world, rng)
    make = _in_one_request if rng.random() < 0.5 else _later
    for _ in range(60):  # most requests have no place for "that number"
        found = _pair(world, rng)
        example = make(world, rng, *found) if found else None
        if example:
            return example
    return None


def _done(world: World, rng: Random) -> Example | None:
    """All calls of the request were made: nothing is left to call."""
    frame = world.frame(rng)
    clauses, pieces = (
        same_tool(frame, rng, 2)
        if rng.random() < 0.3
        else ([clause := sample_clause(frame, rng)], clause.pieces)
    )
    query = said_turn(clauses, pieces, rng)
    values = [clause.values for clause in clauses]
    styled, offered = offer(world, rng, [(frame, values)], tool_count(rng, 1))
    calls = [styled[id(frame)].call(one) for one in values]
    results = [Message("tool", result_text(rng)) for _ in calls]
    if rng.random() < 0.2:
        results = [Message("tool", rng.choice(_FAILURES)) for _ in calls]
    since = [Message("assistant", "", tool_calls=tuple(calls)), *results]
    texts = [clause.text for clause in clauses]
    return Example(query, offered, [], "rounds_done", frame.source, texts, since=since)


def _pair(world: World, rng: Random) -> tuple[Clause, Clause, str, str] | None:
    """A lookup, and a request whose slot of that kind is pointed at by `words`."""
    if not world.lookups:
        return None
    lookup = rng.choice(world.lookups)
    kind = lookup.domain.removeprefix(LOOKUPS).split("_")[0]
    users = world.users_of(Pool(kind))
    if not users:
        return None
    frame = rng.choice(users)
    closing = clause_from(frame, rng.choice(frame.templates), rng)
    slots = [name for name in closing.values if is_kind(frame, name, kind)]
    if len(slots) != 1:
        return None
    return clause_from(lookup, rng.choice(lookup.templates), rng), closing, kind, slots[0]


def is_kind(frame: Frame, name: str, kind: str) -> bool:
    parameter = frame.parameters[name]
    return parameter.values == Pool(kind) and parameter.counts is None


def _found(rng: Random, kind: str, lookup: Frame, *, one: bool) -> tuple[str, list[str]]:
    """What the lookup gave back, and the values in it, in order."""
    key = _key(kind, rng)
    count = 1 if one or lookup.name in _FIND_ONE else rng.choice((1, 1, 2, 3))
    values = [from_pool(kind, rng) for _ in range(count)]
    rows: list[dict[str, Any]] = []
    for value in values:
        row: dict[str, Any] = {key: value}
        if kind == "phone" and len(values) > 1 and rng.random() < 0.6:
            row = {"type": ("mobile", "work", "home")[len(rows)], **row}
        if rng.random() < 0.3:
            row["updated"] = (
                f"20{rng.randint(20, 26)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
            )
        rows.append(row)
    body: Any = rows[0] if len(rows) == 1 and rng.random() < 0.7 else rows
    if rng.random() < 0.4:
        body = {rng.choice(("result", "results", "data", "matches")): body}
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")), values


def _offered(
    world: World, rng: Random, first: Clause, second: Clause
) -> tuple[StyledTool, StyledTool, list[StyledTool]]:
    needed = [(first.frame, [first.values]), (second.frame, [second.values])]
    styled, offered = offer(world, rng, needed, tool_count(rng, 2))
    return styled[id(first.frame)], styled[id(second.frame)], offered


def _in_one_request(
    world: World, rng: Random, first: Clause, second: Clause, kind: str, slot: str
) -> Example | None:
    """ "find Dana's number and text that number …": the lookup, then the rest, then nothing."""
    pieces = with_reference(second.pieces, slot, rng.choice(_WORDS[kind]), BEFORE_A_THING)
    if pieces is None:
        return None
    second.pieces = pieces
    texts = [first.text, second.text]
    query = said_turn([first, second], join_clauses([first, second], rng), rng)
    result, values = _found(rng, kind, first.frame, one=True)
    second.values[slot] = Said(values[0], values[0])
    opening, closing, offered = _offered(world, rng, first, second)
    calls = [opening.call(first.values), closing.call(second.values)]
    told = [Message("assistant", "", tool_calls=(calls[0],)), Message("tool", result)]
    step = rng.choices((0, 1, 2), (35, 50, 15))[0]
    if step == 2:
        told += [
            Message("assistant", "", tool_calls=(calls[1],)),
            Message("tool", result_text(rng)),
        ]
    left: list[ToolCall] = calls[step : step + 1]
    kind_ = ("rounds_first", "rounds_second", "rounds_done")[step]
    return Example(query, offered, left, kind_, "frames", texts, since=told if step else ())


def _later(
    world: World, rng: Random, first: Clause, second: Clause, kind: str, slot: str
) -> Example | None:
    """What was found in an earlier turn is pointed at: "text the second number …"."""
    result, values = _found(rng, kind, first.frame, one=False)
    words, value = rng.choice(_LATER[kind]), values[0]
    if len(values) > 1:
        name, place = rng.choice([(n, p) for n, p in _ORDER if p < len(values)])
        words, value = f"the {name} {rng.choice((_NOUNS[kind], 'one'))}", values[place]
    pieces = with_reference(second.pieces, slot, words, BEFORE_A_THING)
    if pieces is None:
        return None
    second.pieces = pieces
    texts = [first.text, second.text]
    request = said_turn([first], first.pieces, rng)
    query = said_turn([second], second.pieces, rng)
    second.values[slot] = Said(value, value)
    opening, closing, offered = _offered(world, rng, first, second)
    turns = called_turns(rng, request, [opening.call(first.values)])[:2]
    turns.append(Message("tool", result))
    if rng.random() < 0.4:
        turns.append(
            Message("assistant", rng.choice(("Here you are.", "Found it.", "I found this.")))
        )
    calls = [closing.call(second.values)]
    return Example(query, offered, calls, "rounds_later", "frames", texts, turns=turns)


def _key(kind: str, rng: Random) -> str:
    names = {"phone": ("phone", "number", "tel"), "email": ("email", "mail", "address"),
             "id": ("id", "reference", "number"), "street": ("address", "street", "location"),
             "url": ("url", "link", "href"), "filename": ("path", "file", "filename")}  # fmt: skip
    return rng.choice(names[kind])
