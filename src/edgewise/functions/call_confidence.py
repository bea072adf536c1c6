"""How likely each call of an answer is right, from what the model said and what the words support.

A call counts with all its tokens, the line break or end after it included: which arguments are
named, and that nothing follows, are as much a decision as a value is. `training/fit_calls.py` fits
the weights. No weight lets a call that the model was less sure of score higher.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from edgewise.errors import SettingsError
from edgewise.functions.answer_spans import Span, owners
from edgewise.functions.ground import ground
from edgewise.functions.heard import Heard, hear
from edgewise.functions.narrow import fit_scores
from edgewise.functions.parameter import parameters, required
from edgewise.functions.split_intents import expected_calls
from edgewise.types.measured import UNMEASURED, Measured, read_measured
from edgewise.types.messages import Tool, ToolCall
from edgewise.types.tokens import Token

FORMAT = 1
# Log-probabilities come rounded to about this: nearer to certain they say nothing.
_LEAST_DOUBT = 1e-4
_WIDEST = 60.0
_HALF = math.log(0.5)

# Features that rise with the model's own sureness: their weights are at least 0.
RISING = frozenset(
    {
        "call_sum", "call_surety", "call_min", "call_mean", "name_surety", "value_surety",
        "end_surety", "answer_surety", "margin", "name_margin",
    }
)  # fmt: skip
FALLING = frozenset({"entropy"})
# What needs no token: grounding in the words, fit of the tool, what was asked for.
WORDED = frozenset(
    {
        "fit", "fit_margin", "ground_min", "ground_mean", "ungrounded", "absent", "optional",
        "parameters", "tools", "calls", "missing", "extra",
    }
)  # fmt: skip


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
    found = []
    for call, group in zip(calls, _of_calls(said, calls), strict=True):
        told = _evidence(group)
        words = _word_features(call, tools, fits, heard)
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
    call: ToolCall, tools: Sequence[Tool], fits: Sequence[float], heard: Heard
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
        "absent": float(len(needed - set(call.arguments))),
        "optional": float(len(set(call.arguments) - needed)),
        "parameters": math.log(1 + len(parameters(tool.parameters))),
    }


@dataclass(frozen=True, slots=True)
class CallScore:
    """A logistic score: 1 / (1 + exp(-(bias + sum of weight x feature)))."""

    weights: Mapping[str, float]
    bias: float

    def probability(self, features: Mapping[str, float]) -> float:
        total = self.bias + sum(
            weight * features.get(name, 0.0) for name, weight in self.weights.items()
        )
        return 1.0 / (1.0 + math.exp(-max(-_WIDEST, min(_WIDEST, total))))

    def suits(self, features: Mapping[str, float]) -> bool:
        """Whether all it asks for is known: the runtime may have reported no evidence."""
        return all(name in features for name in self.weights)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallCalibration:
    """From features to the chance that a call is right, for one model and quantisation.

    call, none       the scores of a call and of the answer that no tool serves
    worded_call, worded_none   the same where the runtime gave no evidence: from the words alone
    threshold        the chance below which an answer is not to be trusted
    report           how it was fitted; empty for one that was not
    """

    name: str
    call: CallScore
    none: CallScore
    worded_call: CallScore
    worded_none: CallScore
    threshold: float = 0.5
    report: Mapping[str, Any] = field(default_factory=dict)
    measured: Measured = UNMEASURED

    @property
    def fitted(self) -> bool:
        return bool(self.report)

    def confidence(self, features: Mapping[str, float]) -> float:
        """The chance that one call, or `none`, is right."""
        if features.get("none"):
            score = self.none if self.none.suits(features) else self.worded_none
        else:
            score = self.call if self.call.suits(features) else self.worded_call
        return self.measured.map_of("final").of(score.probability(features))

    def answer_confidence(self, features: Iterable[Mapping[str, float]]) -> float:
        """The chance that the whole answer is right: that of its worst call.

        Calls of one answer are right or wrong together, and each knows how sure the whole was:
        their product is no better ordered, and too low.
        """
        return min((self.confidence(one) for one in features), default=0.0)


# For models nobody has calibrated: an ordering, not chances. Replies carry its name.
UNCALIBRATED_CALLS = CallCalibration(
    name="uncalibrated",
    call=CallScore({"call_surety": 1.0, "ground_min": 1.0, "ungrounded": -2.0}, -2.0),
    none=CallScore({"call_surety": 1.0}, -2.0),
    worded_call=CallScore({"ground_min": 2.0, "ungrounded": -2.0, "absent": -2.0}, -1.0),
    worded_none=CallScore({"fit": -1.0}, 0.0),
)


def answer_confidence(
    features: Iterable[Mapping[str, float]], calibration: CallCalibration
) -> float:
    """The chance that an answer with these calls is right."""
    return calibration.answer_confidence(features)


def parse_call_calibration(data: Mapping[str, Any], origin: str) -> CallCalibration:
    """Read a calibration file's contents; `origin` names it in errors."""
    if data.get("format") != FORMAT:
        raise SettingsError(
            f"{origin}: call calibration format {data.get('format')!r} is not {FORMAT};"
            " fit it again"
        )
    try:
        calibration = CallCalibration(
            name=str(data["name"]),
            call=_parse_score(data["call"], RISING | FALLING | WORDED),
            none=_parse_score(data["none"], RISING | FALLING | WORDED),
            worded_call=_parse_score(data["worded_call"], WORDED),
            worded_none=_parse_score(data["worded_none"], WORDED),
            threshold=float(data["threshold"]),
            report=dict(data.get("report", {})),
            measured=read_measured(data),
        )
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise SettingsError(f"{origin}: not a call calibration: {error!r}") from error
    if not 0.0 <= calibration.threshold <= 1.0:
        raise SettingsError(f"{origin}: threshold must be 0 to 1")
    return calibration


def _parse_score(data: Mapping[str, Any], known: frozenset[str]) -> CallScore:
    score = CallScore(
        {str(name): float(weight) for name, weight in data["weights"].items()}, float(data["bias"])
    )
    for name, weight in score.weights.items():
        if name not in known:
            raise ValueError(f"unknown feature {name!r}")
        if (name in RISING and weight < 0) or (name in FALLING and weight > 0):
            raise ValueError(f"{name!r} would score a less sure answer higher")
    if not all(map(math.isfinite, (score.bias, *score.weights.values()))):
        raise ValueError("a weight is not a finite number")
    return score
