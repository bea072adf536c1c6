"""Whole examples of every kind: which tools are offered, what is asked, which calls are right."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from edgewise.functions.tool_prompt import render_answer
from edgewise.types.messages import ToolCall

from training.frame_types import Flag, Frame, Template
from training.naming import words_of
from training.noise import add_noise
from training.parallel import Composed, join_clauses, same_tool, wrong_value
from training.sample import Clause, Piece, clause_from, is_person, is_place, sample_clause
from training.siblings import sibling_frames
from training.styles import House, StyledTool, pick_house, style_tool
from training.values import pool_entries

# Shares of the kinds, in percent.
SHARES = {
    "single_one": 19,
    "single_many": 25,
    "correction": 3,
    "parallel": 17,
    "parallel_multiple": 14,
    "pronoun": 2,
    "irrelevant": 17,
    "missing": 3,
}
_SOURCE_SHARES = {"frames": 10, "seal": 3, "nlu": 1.2, "snips": 0.8, "seal_dev": 0.5}
_CORRECTIONS = (
    ", no wait, ", " - sorry, I mean ", ", I mean ", "... actually ", ", or rather ", ", no, ",
    " (scratch that: ", " oh wait ", ", sorry, ",
)  # fmt: skip
_STOP = frozenset(
    "a an the of for to in on at by with and or from is are be it its this that as into per get set "
    "find make create add check calculate compute show tell give list update number name value user "
    "given based using data information return returns search one two how what".split()
)
_PREPOSITION = re.compile(r"\b(in|at|to|for|around|near) $")
_PERSON_PREPOSITION = re.compile(r"\b(to|for|with|from) $")


@dataclass(slots=True)
class Example:
    """One training case, before it is written as prompt and answer."""

    query: str
    tools: list[StyledTool]
    calls: list[ToolCall]
    kind: str
    source: str
    clauses: list[str] = field(default_factory=list)

    @property
    def answer(self) -> str:
        return render_answer(self.calls)


def content_words(text: str) -> frozenset[str]:
    """Words that say what something is about, without endings."""
    found = (word.rstrip("s") for word in words_of(text))
    return frozenset(word for word in found if word not in _STOP and len(word) > 2)


class World:
    """Every tool there is, and how to draw requests and other tools from it."""

    def __init__(self, frames: Sequence[Frame], small_talk: Sequence[str] = ()) -> None:
        self.frames = list(frames)
        self.small_talk = [*pool_entries("small_talk"), *small_talk]
        self.by_source: dict[str, list[Frame]] = defaultdict(list)
        self.by_domain: dict[str, list[Frame]] = defaultdict(list)
        self.words: dict[int, frozenset[str]] = {}
        for frame in self.frames:
            self.by_source[frame.source].append(frame)
            self.by_domain[frame.domain].append(frame)
            self.words[id(frame)] = content_words(f"{frame.name} {frame.description}")
        self.sources = list(self.by_source)
        self.weights = [_SOURCE_SHARES.get(source, 1) for source in self.sources]
        self.with_misses = [frame for frame in self.frames if frame.near_misses]
        self.with_incomplete = [frame for frame in self.frames if frame.incomplete]
        self.with_place = [frame for frame in self.frames if _says(frame, place=True)]
        self.with_person = [frame for frame in self.frames if _says(frame, place=False)]
        self._cache: dict[int, list[StyledTool]] = {}

    def forget(self) -> None:
        """Drop what was kept for speed, so that a chunk depends on nothing but its seed."""
        self._cache.clear()

    def frame(self, rng: Random) -> Frame:
        """A tool, each source by its share."""
        source = rng.choices(self.sources, self.weights)[0]
        return rng.choice(self.by_source[source])

    def likeness(self, one: Frame, other: Frame) -> float:
        first, second = self.words[id(one)], self.words[id(other)]
        union = len(first | second)
        return len(first & second) / union if union else 1.0

    def others(self, frames: Sequence[Frame], count: int, rng: Random, most: float) -> list[Frame]:
        """Further tools: near ones from the same domain, far ones; none too much alike."""
        found: list[Frame] = []
        for _ in range(count * 4):
            if len(found) == count:
                break
            near = rng.random() < 0.5
            pool = self.by_domain[rng.choice(frames).domain] if near else self.frames
            candidate = rng.choice(pool)
            known = [*frames, *found]
            if all(
                candidate is not frame
                and candidate.name != frame.name
                and self.likeness(candidate, frame) < most
                for frame in known
            ):
                found.append(candidate)
        return found

    def styled(self, frame: Frame, house: House, rng: Random) -> StyledTool:
        """A tool that is only offered; its writing may be used again in other examples."""
        kept = self._cache.setdefault(id(frame), [])
        if len(kept) >= 8:
            return rng.choice(kept)
        mixed = house if rng.random() < 0.6 else pick_house(rng)
        styled = style_tool(frame, mixed, rng)
        kept.append(styled)
        return styled


def _says(frame: Frame, place: bool) -> bool:
    wanted = is_place if place else is_person
    return frame.source == "frames" and any(
        wanted(parameter) and parameter.counts is None for parameter in frame.parameters.values()
    )


def compose(world: World, rng: Random, kind: str | None = None) -> Example | None:
    """One example; None where the draw did not work out and another should be made."""
    kind = kind or rng.choices(list(SHARES), list(SHARES.values()))[0]
    return _MAKERS[kind](world, rng)


def _tool_count(rng: Random, least: int) -> int:
    return max(least, rng.choices((1, 2, 3, 4, 5, 6, 7, 8, 10), (6, 22, 20, 18, 13, 8, 6, 5, 2))[0])


def _finish(
    world: World, rng: Random, composed: Composed, kind: str, tool_count: int
) -> Example | None:
    """Write the request down, offer the tools it needs and others, and make the calls."""
    clauses, pieces = composed
    pieces = add_noise(clauses, [piece for piece in pieces if piece.text], rng)
    query = re.sub(r"[ \t]+", " ", "".join(piece.text for piece in pieces)).strip()
    house = pick_house(rng)
    needed = list({id(clause.frame): clause.frame for clause in clauses}.values())
    styled: dict[int, StyledTool] = {}
    names: set[str] = set()
    for frame in needed:
        present = set.intersection(*(set(c.values) for c in clauses if c.frame is frame))
        styled[id(frame)] = style_tool(frame, house, rng, present)
        names.add(styled[id(frame)].tool.name)
    offered = list(styled.values())
    extra = world.others(needed, tool_count - len(needed), rng, most=0.5)
    if rng.random() < 0.3 and extra:
        siblings = sibling_frames(needed[0], rng, 1)
        extra[: len(siblings)] = siblings
    for frame in extra:
        other = (
            style_tool(frame, house, rng)
            if frame.source == "sibling"
            else world.styled(frame, house, rng)
        )
        if other.tool.name not in names:
            names.add(other.tool.name)
            offered.append(other)
    rng.shuffle(offered)
    calls = [styled[id(clause.frame)].call(clause.values) for clause in clauses]
    source = "+".join(sorted({clause.frame.source for clause in clauses}))
    return Example(query, offered, calls, kind, source, [clause.text for clause in clauses])


def _single(world: World, rng: Random, count: int, kind: str) -> Example | None:
    clause = sample_clause(world.frame(rng), rng)
    return _finish(world, rng, ([clause], clause.pieces), kind, count)


def _single_one(world: World, rng: Random) -> Example | None:
    return _single(world, rng, 1, "single_one")


def _single_many(world: World, rng: Random) -> Example | None:
    return _single(world, rng, _tool_count(rng, 2), "single_many")


def _correction(world: World, rng: Random) -> Example | None:
    """ "…at 6, no wait, 7": only the last value counts."""
    frame = rng.choice(world.by_source["frames"] or world.frames)
    if not frame.templates:
        return None
    clause = clause_from(frame, rng.choice(frame.templates), rng)
    places = [
        index
        for index, piece in enumerate(clause.pieces)
        if piece.slot
        and frame.parameters[piece.slot].counts is None
        and not isinstance(frame.parameters[piece.slot].values, Flag)
    ]
    if not places:
        return None
    index = rng.choice(places)
    name = clause.pieces[index].slot
    wrong = wrong_value(clause, name, rng)
    if wrong is None or sum(piece.slot == name for piece in clause.pieces) > 1:
        return None
    pieces = list(clause.pieces)
    joint = rng.choice(_CORRECTIONS)
    pieces[index : index + 1] = [Piece(wrong.text), Piece(joint), clause.pieces[index]]
    if joint.startswith(" ("):
        pieces.insert(index + 3, Piece(")"))
    return _finish(world, rng, ([clause], pieces), "correction", _tool_count(rng, 1))


def _parallel(world: World, rng: Random) -> Example | None:
    count = rng.choices((2, 3, 4, 5), (50, 30, 13, 7))[0]
    frame = world.frame(rng)
    composed = same_tool(frame, rng, count)
    if len(composed[0]) < 2:
        return None
    tools = 1 if rng.random() < 0.6 else _tool_count(rng, 1)
    return _finish(world, rng, composed, "parallel", tools)


def _parallel_multiple(world: World, rng: Random) -> Example | None:
    """Different tools in one request; now and then one of them twice."""
    count = rng.choices((2, 3, 4), (60, 30, 10))[0]
    first = world.frame(rng)
    frames = [first, *world.others([first], count - 1, rng, most=0.4)]
    clauses: list[Clause] = []
    parts: list[Clause] = []
    for frame in frames:
        if rng.random() < 0.2:
            group, pieces = same_tool(frame, rng, 2)
        else:
            clause = sample_clause(frame, rng)
            group, pieces = [clause], clause.pieces
        clauses += group
        parts.append(Clause(frame, pieces, {}))
    if len(frames) < 2:
        return None
    pieces = join_clauses(parts, rng)
    return _finish(
        world, rng, (clauses, pieces), "parallel_multiple", _tool_count(rng, len(frames))
    )


def _pronoun(world: World, rng: Random) -> Example | None:
    """ "…in Lyon, and find a dentist there": the second call takes its place from the first."""
    place = rng.random() < 0.6
    pool = world.with_place if place else world.with_person
    if len(pool) < 2:
        return None
    first, second = rng.sample(pool, 2)
    if world.likeness(first, second) > 0.4:
        return None
    wanted = is_place if place else is_person
    opening = sample_clause(first, rng)
    shared = [n for n in opening.values if wanted(first.parameters[n])]
    closing = sample_clause(second, rng)
    followed = [n for n in closing.values if wanted(second.parameters[n])]
    if len(shared) != 1 or len(followed) != 1:
        return None
    said = opening.values[shared[0]]
    closing.values[followed[0]] = said
    pieces = _with_pronoun(closing.pieces, followed[0], place)
    if pieces is None:
        return None
    closing.pieces = pieces
    composed = [opening, closing], join_clauses([opening, closing], rng)
    return _finish(world, rng, composed, "pronoun", _tool_count(rng, 2))


def _with_pronoun(pieces: list[Piece], name: str, place: bool) -> list[Piece] | None:
    places = [index for index, piece in enumerate(pieces) if piece.slot == name]
    if len(places) != 1 or places[0] == 0 or pieces[places[0] - 1].slot:
        return None
    index = places[0]
    pattern = _PREPOSITION if place else _PERSON_PREPOSITION
    before = pieces[index - 1]
    match = pattern.search(before.text)
    after = pieces[index + 1].text if index + 1 < len(pieces) else ""
    if not match or after.startswith(("'", "-")):
        return None
    if place:
        head, word = replace(before, text=before.text[: match.start()]), "there"
    else:
        head, word = before, "them"
    return [*pieces[: index - 1], head, Piece(word), *pieces[index + 1 :]]


def _irrelevant(world: World, rng: Random) -> Example | None:
    """A request that none of the offered tools serves."""
    count = rng.choices((1, 2, 3, 4, 5, 6, 8), (42, 20, 12, 10, 8, 5, 3))[0]
    chance = rng.random()
    if chance < 0.2 and world.with_misses:
        frame = rng.choice(world.with_misses)
        clause = clause_from(frame, rng.choice(frame.near_misses), rng)
        offered = [frame, *world.others([frame], count - 1, rng, most=0.3)]
        return _refuse(world, rng, clause.pieces, offered, "near_miss")
    if chance < 0.45:
        text = rng.choice(world.small_talk)
        return _refuse(world, rng, [Piece(text)], _apart(world, rng, text, count), "talk")
    frame = world.frame(rng)
    clause = sample_clause(frame, rng)
    pieces = clause.pieces
    if chance < 0.6:
        offered = sibling_frames(frame, rng, min(count, 3))
        return _refuse(world, rng, pieces, offered, "sibling") if offered else None
    if chance < 0.75:
        offered = world.others([frame], count, rng, most=0.2)
    else:
        offered = _apart(world, rng, f"{frame.name} {frame.description} {clause.text}", count)
    return _refuse(world, rng, pieces, offered, "other")


def _apart(world: World, rng: Random, text: str, count: int) -> list[Frame]:
    """Tools that share no word of substance with a request."""
    words = content_words(text)
    found: list[Frame] = []
    for _ in range(count * 6):
        frame = rng.choice(world.frames)
        if not words & world.words[id(frame)] and frame not in found:
            found.append(frame)
        if len(found) == count:
            break
    return found


def _refuse(
    world: World, rng: Random, pieces: list[Piece], offered: list[Frame], why: str
) -> Example | None:
    if not offered:
        return None
    pieces = add_noise([], pieces, rng)
    query = re.sub(r"[ \t]+", " ", "".join(piece.text for piece in pieces)).strip()
    house = pick_house(rng)
    tools: dict[str, StyledTool] = {}
    for frame in offered:
        styled = (
            world.styled(frame, house, rng)
            if frame.source != "sibling"
            else style_tool(frame, house, rng)
        )
        tools.setdefault(styled.tool.name, styled)
    shuffled = list(tools.values())
    rng.shuffle(shuffled)
    return Example(query, shuffled, [], f"irrelevant_{why}", offered[0].source, [query])


def _missing(world: World, rng: Random) -> Example | None:
    """Something required was not said: no call."""
    if not world.with_incomplete:
        return None
    frame = rng.choice(world.with_incomplete)
    template: Template = rng.choice(frame.incomplete)
    clause = clause_from(frame, template, rng)
    offered = [frame, *world.others([frame], _tool_count(rng, 1) - 1, rng, most=0.3)]
    example = _refuse(world, rng, clause.pieces, offered, "missing")
    if example:
        example.kind = "missing"
    return example


_MAKERS: dict[str, Callable[[World, Random], Example | None]] = {
    "single_one": _single_one,
    "single_many": _single_many,
    "correction": _correction,
    "parallel": _parallel,
    "parallel_multiple": _parallel_multiple,
    "pronoun": _pronoun,
    "irrelevant": _irrelevant,
    "missing": _missing,
}
