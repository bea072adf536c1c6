"""From evidence to the chance of being right, and the threshold for it.

A calibration belongs to one model, quantisation and runtime: the same weights in another format
give other log-probabilities. It is a JSON file; `docs/confidence-fit.md` describes how the shipped
ones were fitted. Every task has its own; `Kind` says which scores and numbers the files hold.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from dataclasses import dataclass, field, fields, replace
from typing import Any

from edgewise.decide.meter import Reading
from edgewise.decide.score import Head, Score, read_head
from edgewise.errors import SettingsError
from edgewise.types.measured import (
    BORROWED,
    NO_BOUNDARIES,
    UNCALIBRATED,
    UNMEASURED,
    Boundaries,
    Measured,
    ScoreMap,
    is_verified,
    read_boundaries,
    read_measured,
)

FORMAT = 1
STATE = ":state"  # behind the name of a calibration that also reads hidden states
HOLD_TOKENS, KEEP_ABOVE, DROP_BELOW = "hold_tokens", "keep_above", "drop_below"


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The calibration of one model.

    scores      by name; the task decides which there are
    threshold   an answer whose chance of being right is below this is handed off
    numbers     other numbers of the task, such as how long text may be held back
    boundaries  early scores so clear that waiting longer would change little (chat)
    report      how it was fitted; empty if it was not
    measured    what other rows showed: maps, risk tables (types/measured.py)
    heads       what read hidden states, by the feature they make (chat)
    with_state  the calibration for replies that come with hidden states, if there is one (chat)
    """

    name: str
    scores: Mapping[str, Score] = field(default_factory=dict)
    threshold: float = 0.5
    numbers: Mapping[str, float] = field(default_factory=dict)
    boundaries: Boundaries = NO_BOUNDARIES
    report: Mapping[str, Any] = field(default_factory=dict)
    measured: Measured = UNMEASURED
    heads: Mapping[str, Head] = field(default_factory=dict)
    with_state: Calibration | None = None

    def seen(self, *, states: bool) -> Calibration:
        """The one that applies if replies come with hidden states, or without."""
        return self.with_state if states and self.with_state is not None else self

    def layer_of(self, head: str) -> int:
        """The layer that a head reads; 0: there is no such head."""
        return self.heads[head].layer if head in self.heads else 0

    @property
    def fitted(self) -> bool:
        return bool(self.report)

    @property
    def verified(self) -> bool:
        """Whether it was measured on answers of the model that it is used for."""
        return is_verified(self.name)

    @property
    def at_end(self) -> bool:
        """Chat: whether it reads the runtime's own confidence, which comes with the end."""
        return "final" in self.scores and "engine" in self.final.weights

    def borrowed(self) -> Calibration:
        """The same for another runtime that runs the very same bits: it decides, and promises no
        risk, because nobody has counted that runtime's errors."""
        return replace(
            self,
            name=f"{self.name}{BORROWED}",
            measured=replace(self.measured, risk={}, risk_rows=0),
            with_state=None if self.with_state is None else self.with_state.borrowed(),
        )

    def chance(self, score: str, features: Mapping[str, float]) -> float:
        """The chance by one of its scores; 0.5 if it has no such score."""
        found = self.scores.get(score)
        return 0.5 if found is None else found.of(features)

    def with_scores(self, **scores: Score) -> Calibration:
        return replace(self, scores={**self.scores, **scores})

    def with_numbers(self, **numbers: float) -> Calibration:
        return replace(self, numbers={**self.numbers, **numbers})

    @property
    def early(self) -> Score:
        """Chat: the score while text is held back."""
        return self.scores["early"]

    @property
    def final(self) -> Score:
        """Chat: the score of a whole answer, which is the confidence that a user sees."""
        return self.scores["final"]

    @property
    def hold_tokens(self) -> int:
        """For how many tokens text may be held back before the gate must decide."""
        return int(self.numbers[HOLD_TOKENS])

    @property
    def keep_above(self) -> float:
        """From this early score on, the text is shown at once."""
        return self.numbers[KEEP_ABOVE]

    @property
    def drop_below(self) -> float:
        """Below this early score, the cloud is asked at once."""
        return self.numbers[DROP_BELOW]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What the calibration files of one task hold.

    name          in the names of its files: MODEL.json for chat, MODEL.calls.json for calls
    scores        the scores it must hold, each with the name of its map; empty: no map
    optional      scores that may be missing
    features      what a score may weigh; a score that is not listed may weigh anything
    rising, falling   features whose weight must not be below 0, or above 0
    numbers       the numbers it must hold, each with its bounds
    formats       the formats that can be read
    uncalibrated  for models without a calibration: its numbers order answers, they are no chances
    """

    name: str
    scores: Mapping[str, str]
    uncalibrated: Calibration
    optional: Set[str] = frozenset()
    features: Mapping[str, Set[str]] = field(default_factory=dict)
    rising: Set[str] = frozenset()
    falling: Set[str] = frozenset()
    numbers: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    formats: tuple[int, ...] = (FORMAT,)


def chat_calibration(
    *,
    name: str,
    early: Score,
    final: Score,
    threshold: float = 0.5,
    hold_tokens: int = 16,
    keep_above: float = 0.9,
    drop_below: float = 0.1,
    boundaries: Boundaries = NO_BOUNDARIES,
    report: Mapping[str, Any] | None = None,
    measured: Measured = UNMEASURED,
) -> Calibration:
    """`early` is the score while text is held back, `final` the score of a whole answer."""
    return Calibration(
        name=name,
        scores={"early": early, "final": final},
        threshold=threshold,
        numbers={HOLD_TOKENS: hold_tokens, KEEP_ABOVE: keep_above, DROP_BELOW: drop_below},
        boundaries=boundaries,
        report=report or {},
        measured=measured,
    )


_EVIDENCE = frozenset(each.name for each in fields(Reading))
_WORDS = _EVIDENCE - {"state", "before"}
CHAT = Kind(
    name="chat",
    scores={"early": "early", "final": "final"},
    features={"early": _WORDS, "final": _WORDS},
    numbers={HOLD_TOKENS: (1, 256), KEEP_ABOVE: (0, 1), DROP_BELOW: (0, 1)},
    # A simple score of the mean log-probability. Models have at least the transfer calibration.
    uncalibrated=chat_calibration(
        name=UNCALIBRATED,
        early=Score({"mean_logprob": 3.0}, 2.5),
        final=Score({"mean_logprob": 3.0}, 2.5),
    ),
)
# Of the same model, with a head: `before` is the chance before the first token.
CHAT_STATE = replace(
    CHAT,
    scores={**CHAT.scores, "before": "before"},
    optional={"before"},
    features={"early": _EVIDENCE, "final": _EVIDENCE, "before": {"before"}},
)


def parse_calibration(data: Mapping[str, Any], origin: str, kind: Kind = CHAT) -> Calibration:
    """Read the contents of a calibration file. `origin` names the file in errors."""
    if data.get("format") not in kind.formats:
        raise SettingsError(
            f"{origin}: calibration format {data.get('format')!r} is not {kind.formats[-1]};"
            " fit it again"
        )
    try:
        measured = read_measured(data)
        states = data.get("with_state") if kind is CHAT else None
        return Calibration(
            name=str(data["name"]),
            scores={
                score: _score(kind, score, data[score], measured.map_of(after))
                for score, after in kind.scores.items()
                if score in data or score not in kind.optional
            },
            threshold=_within(data, "threshold", 0, 1),
            numbers={name: _within(data, name, *bounds) for name, bounds in kind.numbers.items()},
            boundaries=read_boundaries(data.get("boundaries", ())),
            report=dict(data.get("report", {})),
            measured=measured,
            heads={str(name): read_head(head) for name, head in data.get("heads", {}).items()},
            with_state=None
            if states is None
            else parse_calibration(state_document(data), origin, CHAT_STATE),
        )
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise SettingsError(f"{origin}: not a calibration of {kind.name}: {error!r}") from error


def state_document(data: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a file for replies with hidden states, as if it were a file of its own."""
    return {**data["with_state"], "format": data["format"], "name": f"{data['name']}{STATE}"}


def _score(kind: Kind, name: str, data: Mapping[str, Any], after: ScoreMap) -> Score:
    weights = {str(feature): float(weight) for feature, weight in data["weights"].items()}
    bias = float(data["bias"])
    if not all(map(math.isfinite, (bias, *weights.values()))):
        raise ValueError(f"{name}: a weight is not a finite number")
    if unknown := set(weights) - kind.features.get(name, set(weights)):
        raise ValueError(f"{name}: unknown features {sorted(unknown)}")
    for feature, weight in weights.items():
        if (feature in kind.rising and weight < 0) or (feature in kind.falling and weight > 0):
            raise ValueError(f"{name}: {feature!r} would score a less sure answer higher")
    return Score(weights, bias, after)


def _within(data: Mapping[str, Any], name: str, low: float, high: float) -> float:
    value = float(data[name])
    if not low <= value <= high:
        raise ValueError(f"{name} must be {low:g} to {high:g}")
    return value
