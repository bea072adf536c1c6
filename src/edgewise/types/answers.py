"""What a decision answers: for each question a chance for each option, and who said so."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from typing_extensions import override

from edgewise.types.messages import Handoff, Kinds, ObjectiveOptions, Question, Score, Source, YesNo
from edgewise.types.replies import Reply, is_verified


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelReading:
    """What a device says of one question.

    chances    by option, in the caller's order; they sum to 1
    one_way    the same, read in one order of the options, and in its reverse
    mass       how much of the model's probability the options had, the least of all reads
    stranger   nothing like the state was among those that the question was learnt from
    """

    chances: Mapping[str, float]
    one_way: tuple[Mapping[str, float], ...]
    mass: float
    stranger: bool = False
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to one question.

    value          a bool (YesNo), the name of an option (Choice), or the mean level (Score)
    probabilities  by option, in the caller's order: "true" and "false"; "0", "1", ... for levels
    confidence     the calibrated chance that the likeliest option is right; None if nobody
                   measured it, or nobody answered
    source         who answered this question: "local", "cloud" or "none" (nobody)
    code, reason   why it stayed or left
    doubted        below its threshold, although it stayed
    calibration    whose confidence this is; empty: nobody's
    """

    name: str
    value: bool | str | float | None
    probabilities: Mapping[str, float]
    confidence: float | None
    source: Source
    code: str = ""
    reason: str = ""
    doubted: bool = False
    calibration: str = ""

    @property
    def confidence_verified(self) -> bool:
        """False: nobody has measured what this confidence is worth, or there is none."""
        return self.confidence is not None and is_verified(self.calibration)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "value": self.value,
            "probabilities": dict(self.probabilities),
            "confidence": self.confidence,
            "confidence_verified": self.confidence_verified,
            "source": self.source,
            "code": self.code,
            "reason": self.reason,
            "doubted": self.doubted,
            "calibration": self.calibration,
        }


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Answers(Reply, Mapping[str, Answer]):
    """The answers to the questions about one state, by name, in the order of the questions."""

    answers: Mapping[str, Answer] = field(default_factory=dict)

    @override
    def __getitem__(self, name: str) -> Answer:
        return self.answers[name]

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(self.answers)

    @override
    def __len__(self) -> int:
        return len(self.answers)

    @override
    def _begins(self) -> str:
        if self.signalled:
            return f"to be handed off ({self.decision.code})"
        return ", ".join(f"{name}={shown_value(each)}" for name, each in self.answers.items())

    @override
    def to_dict(self) -> dict[str, Any]:
        # dataclass(slots=True) makes a new class, so a bare super() does not work.
        return super(Answers, self).to_dict() | {
            "answers": {name: each.to_dict() for name, each in self.answers.items()},
        }


def shown_value(answer: Answer) -> str:
    """An answer's value in one word, as people read it."""
    if answer.value is None:
        return "?"
    if isinstance(answer.value, bool):
        return "yes" if answer.value else "no"
    return f"{answer.value:.2f}" if isinstance(answer.value, float) else answer.value


def value_of(question: Question, chances: Mapping[str, float]) -> bool | str | float:
    """What the chances of the options say: the likeliest option, or the mean level of a score."""
    if isinstance(question, YesNo):
        return chances["true"] >= chances["false"]
    if isinstance(question, Score):
        return math.fsum(int(level) * chance for level, chance in chances.items())
    return max(question.options, key=lambda name: chances[name])


class DecideOptions(ObjectiveOptions, total=False):
    """Keyword arguments of `Engine.decide`. `requests.py` says what each one means."""

    model: str
    policy: str
    handoff: Handoff
    private: bool
    redact: Kinds
    private_kinds: Kinds
    deadline_ms: float
    store_text: bool
    budget_key: str
    request_id: str
