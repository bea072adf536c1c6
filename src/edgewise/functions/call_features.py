"""What is known about each call of an answer: how sure the model was, and what the words support.

A call counts with all its tokens, the line break or end after it included: which arguments are
named, and that nothing follows, are as much a decision as a value is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from edgewise.functions.answer_spans import Span, owners
from edgewise.functions.ground import ground
from edgewise.functions.heard import Heard, hear
from edgewise.functions.left_over import left_over, use_of_words
from edgewise.functions.narrow import fit_scores
from edgewise.functions.parameter import parameters, required
from edgewise.functions.split_intents import expected_calls
from edgewise.types.messages import Tool, ToolCall
from edgewise.types.tokens import Token

# Log-probabilities come rounded to about this: nearer to certain they say nothing.
_LEAST_DOUBT = 1e-4
_HALF = math.log(0.5)
# An argument that the words support less than this is doubtful, if not made up.
_WEAK = 0.5


def surety(logprob: float) -> float:
    """0 for no chance, 9.2 for certain: minus the log of the chance of anything else."""
    return -math.log(_LEAST_DOUBT + 1.0 - math.exp(min(0.0, logprob)))


def call_features(
    tokens: Sequence[Token],
    calls: Sequence[ToolCall],
    tools: Sequence[Tool],
    request: str | Heard,
) -> tuple[dict[str, float], ...]:
    """What is known about each call; one entry about the whole where there is no call.

    `tokens` are the answer's, the end token included; `calls` may have been repaired since. A call
    without tokens that carry evidence has only the features of the words.
    """
    heard = request if isinstance(request, Heard) else hear(request)
    fits = fit_scores(heard.text, tools)
    asked = expected_calls(heard.text, tools)
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
    shared |= left_over(calls, {tool.name: tool for tool in tools}, heard)
    found = []
    for call, group in zip(calls, _of_calls(said, calls), strict=True):
        told = _evidence(group)
        words = _word_features(call, calls, tools, fits, heard)
        found.append({**shared, **words, **(whole | told if told else {})})
    return tuple(found)


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
    heard: Heard,
) -> dict[str, float]:
    place = next((place for place, tool in enumerate(tools) if tool.name == call.name), None)
    tool = Tool(call.name) if place is None else tools[place]
    fit = 0.0 if place is None else fits[place]
    rival = max((score for other, score in enumerate(fits) if other != place), default=0.0)
    grounding = ground(call, tool, heard)
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
        **use_of_words(call, calls, tool, heard),
    }
