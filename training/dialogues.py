"""Requests that stand in a conversation: follow-ups, corrections, questions back and their answers.

Every example is one answer in the middle or at the end of a talk; what was said before it is told
as `edgewise.calls.prompt` tells it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from edgewise.calls.prompt import Question, question_text
from edgewise.types.messages import Message, ToolCall
from training.boundaries import join_clauses
from training.example import Example, written
from training.followups import answered, brief, varied
from training.frame_types import Frame
from training.generic import be_of, label_of
from training.noise import add_noise
from training.offer import offer
from training.omissions import incomplete_request
from training.references import REFERENCES, with_pronoun
from training.sample import Clause, clause_from, sample_clause
from training.styles import StyledTool
from training.values import Said, sample_value
from training.world import World, tool_count

SHARES = {
    "change": 20,
    "same": 20,
    "answer": 18,
    "ask": 8,
    "part_answer": 4,
    "half": 5,
    "reference": 8,
    "switch": 14,
    "thanks": 4,
    "never_mind": 2,
    "other_after_question": 2,
}
TRIES = 12  # at one kind, so that the shares are those above
_DONE = (
    "Done.", "OK, done.", "All set.", "That's done.", "Here you go.", "Done!", "It is set.",
    "Okay.", "Sure, done.", "I've taken care of it.", "Ready.", "Got it.", "There you are.",
)  # fmt: skip
_THANKS = (
    "thanks", "Thank you!", "great, thanks", "perfect", "cool, thank you", "ok",
    "Okay, thanks a lot.", "that's all, thanks", "nice", "wonderful", "Good.",
    "thx", "That's all for now.", "lovely",
    "Great job!", "no, that's it", "You're the best", "alright then", "thank you, bye", "okay good",
    "excellent, thank you very much", "fine", "Good to know.", "brilliant, cheers", "ta",
)  # fmt: skip
_NEVER_MIND = (
    "never mind", "forget it", "cancel that", "Never mind, I'll do it myself.", "drop it",
    "leave it", "no, forget about it", "stop", "Let's leave that.", "I don't need it any more",
    "skip it",
    "not now", "Forget it, thanks.", "ah, doesn't matter", "nothing, never mind",
)  # fmt: skip
_QUESTIONS = (
    "Which {label}?", "Could you tell me the {label}?", "I need the {label} for that.",
    "And the {label}?", "What {label} should I use?", "Sure. What is the {label}?",
    "Please tell me the {label}.", "May I have the {label}?",
)  # fmt: skip
_STATUS = ("ok", "done", "success", "created", "accepted", "scheduled", "queued", "updated")


def dialogue(world: World, rng: Random, kind: str | None = None) -> Example | None:
    kind = kind or rng.choices(list(SHARES), list(SHARES.values()))[0]
    made = (_MAKERS[kind](world, rng) for _ in range(TRIES))
    return next((example for example in made if example), None)


def said_turn(clauses: Sequence[Clause], pieces: Sequence[Any], rng: Random) -> str:
    """A request on paper; values that are copied follow its noise."""
    return written(add_noise(clauses, [piece for piece in pieces if piece.text], rng))


def result_text(rng: Random, found: Mapping[str, object] | None = None) -> str:
    """What a tool gave back: a few JSON fields, or a word."""
    if found is None and rng.random() < 0.15:
        return rng.choice(("OK", "done", "Success", "true", "null"))
    fields: dict[str, object] = dict(found or {})
    if rng.random() < 0.6 or not fields:
        fields = {rng.choice(("status", "result", "state")): rng.choice(_STATUS), **fields}
    if rng.random() < 0.3:
        fields[rng.choice(("took_ms", "count", "version"))] = rng.randint(1, 900)
    spaced = rng.random() < 0.4
    return json.dumps(fields, ensure_ascii=False, separators=None if spaced else (",", ":"))


def called_turns(rng: Random, request: str, calls: Sequence[ToolCall]) -> list[Message]:
    """A request that was served: the calls, mostly what came back, and a word about it."""
    turns = [Message("user", request), Message("assistant", "", tool_calls=tuple(calls))]
    if rng.random() < 0.65:
        turns += [Message("tool", result_text(rng)) for _ in calls]
    if rng.random() < 0.55:
        turns.append(Message("assistant", rng.choice(_DONE)))
    return turns


def needs_of(styled: StyledTool, names: Sequence[str]) -> tuple[str, ...]:
    """Where in the schema these parameters of the frame are, in its order."""
    return tuple(".".join(path) for name, path in styled.paths.items() if name in names)


def _frame(world: World, rng: Random) -> Frame:
    """A tool that was written for this, since its values are known in every form."""
    return rng.choice(world.by_source["frames"] or world.frames)


def _earlier(rng: Random, offered: Sequence[StyledTool], tool: StyledTool) -> list[Message]:
    """A request for another of the tools, before this one, that says nothing about it."""
    others = [one for one in offered if one is not tool and one.frame.templates]
    if not others:
        return []
    other = rng.choice(others)
    clause = clause_from(other.frame, rng.choice(other.frame.templates), rng)
    request = said_turn([clause], clause.pieces, rng)
    return called_turns(rng, request, [other.call(clause.values)])


def _varied(world: World, rng: Random, kind: str, again: bool) -> Example | None:
    """ "make it ten" and "the same for Oslo": the last call with one value exchanged."""
    frame = _frame(world, rng)
    clause = sample_clause(frame, rng)
    request = said_turn([clause], clause.pieces, rng)
    values = dict(clause.values)
    found = varied(frame, values, rng, again=again) if values else None
    if found is None:
        return None
    name, said, query = found
    steps = [values, {**values, name: said}]
    queries = [query]
    if rng.random() < 0.2:  # and once more
        further = varied(frame, steps[-1], rng, again=rng.random() < 0.5)
        if further:
            steps.append({**steps[-1], further[0]: further[1]})
            queries.append(further[2])
    styled, offered = offer(world, rng, [(frame, steps)], tool_count(rng, 1))
    tool = styled[id(frame)]
    turns: list[Message] = []
    for text, made in zip([request, *queries[:-1]], steps[:-1], strict=True):
        turns += called_turns(rng, text, [tool.call(made)])
    calls = [tool.call(steps[-1])]
    return _example(kind, turns, queries[-1], offered, calls, [], frame, [clause.text, *queries])


def _change(world: World, rng: Random) -> Example | None:
    return _varied(world, rng, "change", again=False)


def _same(world: World, rng: Random) -> Example | None:
    return _varied(world, rng, "same", again=True)


def _asked_back(
    world: World, rng: Random, least: int = 1
) -> tuple[Frame, list[str], str, Clause, StyledTool, list[StyledTool]] | None:
    found = incomplete_request(world, rng)
    if found is None:
        return None
    frame, clause = found
    missing = [name for name in frame.required if name not in clause.values]
    missing = [name for name in missing if name not in frame.silent]
    if len(missing) < least or len(missing) > 3:
        return None
    request = said_turn([clause], clause.pieces, rng)
    styled, offered = offer(world, rng, [(frame, [])], tool_count(rng, 1), strict=True)
    return frame, missing, request, clause, styled[id(frame)], offered


def ask(world: World, rng: Random) -> Example | None:
    """Something required was not said, with nothing or something else before it: ask for it."""
    found = _asked_back(world, rng)
    if found is None:
        return None
    frame, missing, request, clause, tool, offered = found
    turns = _earlier(rng, offered, tool) if rng.random() < 0.25 else []
    questions = [Question(tool.tool.name, needs_of(tool, missing))]
    return _example("ask", turns, request, offered, [], questions, frame, [request, clause.text])


def _question(rng: Random, frame: Frame, missing: list[str], tool: StyledTool) -> str:
    """Our question; mostly in the words that the engine itself would use."""
    if len(missing) == 1 and rng.random() < 0.4:
        label = label_of(frame.parameters[missing[0]].name.rpartition(".")[2])
        return rng.choice(_QUESTIONS).format(label=label)
    return question_text([Question(tool.tool.name, needs_of(tool, missing))], [tool.tool])


def _answer(world: World, rng: Random) -> Example | None:
    """The answer to our question completes the call."""
    found = _asked_back(world, rng)
    if found is None:
        return None
    frame, missing, request, clause, tool, offered = found
    given = _given(frame, missing, rng)
    if given is None:
        return None
    query = answered(frame, missing, given, rng)
    turns = [Message("user", request), Message("assistant", _question(rng, frame, missing, tool))]
    calls = [tool.call({**clause.values, **given})]
    return _example("answer", turns, query, offered, calls, [], frame, [request, query])


def _given(frame: Frame, names: Sequence[str], rng: Random) -> dict[str, Said] | None:
    given = {name: sample_value(frame.parameters[name], rng) for name in names}
    if len(given) > 1 and not all(map(brief, given.values())):
        return None
    return given if len({said.text for said in given.values()}) == len(given) else None


def _part_answer(world: World, rng: Random) -> Example | None:
    """Two things were missing and one was answered: ask for the other."""
    found = _asked_back(world, rng, least=2)
    if found is None:
        return None
    frame, missing, request, _, tool, offered = found
    name = rng.choice(missing)
    given = _given(frame, [name], rng)
    if given is None or not brief(given[name]):
        return None
    label = label_of(frame.parameters[name].name.rpartition(".")[2])
    query = f"the {label} {be_of(label)} {given[name].text}"
    turns = [Message("user", request), Message("assistant", _question(rng, frame, missing, tool))]
    rest = [one for one in missing if one != name]
    questions = [Question(tool.tool.name, needs_of(tool, rest))]
    return _example("part_answer", turns, query, offered, [], questions, frame, [request])


def _half(world: World, rng: Random) -> Example | None:
    """Two requests in one, of which one lacks something: the other is served at once."""
    found = incomplete_request(world, rng)
    if found is None:
        return None
    frame, clause = found
    missing = [name for name in frame.required if name not in clause.values]
    missing = [name for name in missing if name not in frame.silent]
    others = world.others([frame], 1, rng, most=0.3)
    if not missing or not others:
        return None
    whole = sample_clause(others[0], rng)
    pair = [clause, whole] if rng.random() < 0.5 else [whole, clause]
    query = said_turn(pair, join_clauses(pair, rng), rng)
    needed = [(frame, []), (others[0], [whole.values])]
    styled, offered = offer(world, rng, needed, tool_count(rng, 2), strict=True)
    tool = styled[id(frame)]
    questions = [Question(tool.tool.name, needs_of(tool, missing))]
    calls = [styled[id(others[0])].call(whole.values)]
    texts = [clause.text, whole.text]
    return _example("half", [], query, offered, calls, questions, frame, texts)


def _two(world: World, rng: Random) -> tuple[Clause, Clause] | None:
    first = _frame(world, rng)
    others = world.others([first], 1, rng, most=0.4)
    if not others:
        return None
    return sample_clause(first, rng), sample_clause(others[0], rng)


def _switch(world: World, rng: Random) -> Example | None:
    """Another request, or the same tool with all values said anew: nothing is carried over."""
    if rng.random() < 0.3:
        frame = _frame(world, rng)
        pair = (sample_clause(frame, rng), sample_clause(frame, rng))
        if pair[0].text == pair[1].text or not pair[1].values:
            return None
        # "turn it up" after "turn it up to 3": what is not said anew might be meant to stay.
        if set(pair[0].values) - set(pair[1].values):
            return None
    else:
        found = _two(world, rng)
        if found is None:
            return None
        pair = found
    return _after(world, rng, "switch", pair)


def _reference(world: World, rng: Random) -> Example | None:
    """ "find a dentist there": the place was said in an earlier turn."""
    what = rng.choices(REFERENCES, (45, 25, 30))[0]
    pools = {"place": world.with_place, "person": world.with_person, "day": world.with_day}
    pool = pools[what.name]
    for _ in range(8 if len(pool) > 1 else 0):
        first, second = rng.sample(pool, 2)
        opening, closing = sample_clause(first, rng), sample_clause(second, rng)
        shared = [name for name in opening.values if what.fits(first.parameters[name])]
        followed = [name for name in closing.values if what.fits(second.parameters[name])]
        if len(shared) != 1 or len(followed) != 1:
            continue
        if first.parameters[shared[0]].values != second.parameters[followed[0]].values:
            continue
        pieces = with_pronoun(closing.pieces, followed[0], what, rng)
        if pieces is None:
            continue
        closing.pieces = pieces
        closing.values[followed[0]] = opening.values[shared[0]]
        return _after(world, rng, "reference", (opening, closing), (shared[0], followed[0]))
    return None


def _after(
    world: World,
    rng: Random,
    kind: str,
    pair: tuple[Clause, Clause],
    shared: tuple[str, str] | None = None,
) -> Example | None:
    """The second request, after the first was served."""
    first, second = pair
    request = said_turn([first], first.pieces, rng)
    query = said_turn([second], second.pieces, rng)
    if shared:  # the noise of the first turn may have changed the case of what is copied
        second.values[shared[1]] = first.values[shared[0]]
    by_frame: dict[int, tuple[Frame, list[Mapping[str, Said]]]] = {}
    for clause in pair:
        by_frame.setdefault(id(clause.frame), (clause.frame, []))[1].append(clause.values)
    styled, offered = offer(world, rng, list(by_frame.values()), tool_count(rng, len(by_frame)))
    turns = called_turns(rng, request, [styled[id(first.frame)].call(first.values)])
    calls = [styled[id(second.frame)].call(second.values)]
    texts = [first.text, second.text, request, query]
    return _example(kind, turns, query, offered, calls, [], second.frame, texts)


def _thanks(world: World, rng: Random) -> Example | None:
    """Nothing is asked for any more."""
    frame = _frame(world, rng)
    clause = sample_clause(frame, rng)
    request = said_turn([clause], clause.pieces, rng)
    styled, offered = offer(world, rng, [(frame, [clause.values])], tool_count(rng, 1))
    turns = called_turns(rng, request, [styled[id(frame)].call(clause.values)])
    return _example("thanks", turns, rng.choice(_THANKS), offered, [], [], frame, [clause.text])


def _never_mind(world: World, rng: Random) -> Example | None:
    found = _asked_back(world, rng)
    if found is None:
        return None
    frame, missing, request, _, tool, offered = found
    turns = [Message("user", request), Message("assistant", _question(rng, frame, missing, tool))]
    query = rng.choice(_NEVER_MIND)
    return _example("never_mind", turns, query, offered, [], [], frame, [request])


def _other_after_question(world: World, rng: Random) -> Example | None:
    """Our question is not answered: something else is asked for."""
    found = incomplete_request(world, rng)
    if found is None:
        return None
    frame, clause = found
    missing = [name for name in frame.required if name not in clause.values]
    others = world.others([frame], 1, rng, most=0.3)
    if not missing or not others:
        return None
    other = sample_clause(others[0], rng)
    request = said_turn([clause], clause.pieces, rng)
    query = said_turn([other], other.pieces, rng)
    needed = [(frame, []), (others[0], [other.values])]
    styled, offered = offer(world, rng, needed, tool_count(rng, 2), strict=True)
    question = _question(rng, frame, missing, styled[id(frame)])
    turns = [Message("user", request), Message("assistant", question)]
    calls = [styled[id(others[0])].call(other.values)]
    texts = [request, query, other.text]
    return _example("other_after_question", turns, query, offered, calls, [], frame, texts)


def _example(
    kind: str,
    turns: list[Message],
    query: str,
    offered: list[StyledTool],
    calls: list[ToolCall],
    questions: list[Question],
    frame: Frame,
    texts: list[str],
) -> Example:
    return Example(
        query,
        offered,
        calls,
        f"dialogue_{kind}" if kind != "ask" or turns else "missing",
        frame.source,
        texts,
        turns=turns,
        questions=questions,
    )


_MAKERS: dict[str, Callable[[World, Random], Example | None]] = {
    "change": _change,
    "same": _same,
    "answer": _answer,
    "ask": ask,
    "part_answer": _part_answer,
    "half": _half,
    "reference": _reference,
    "switch": _switch,
    "thanks": _thanks,
    "never_mind": _never_mind,
    "other_after_question": _other_after_question,
}
