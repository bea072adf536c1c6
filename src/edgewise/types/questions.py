"""What a decision asks: typed questions about a state. Their answers are in `types/answers.py`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

State: TypeAlias = "str | Mapping[str, Any] | Sequence[Any]"  # what the questions are about
Described: TypeAlias = "str | Mapping[str, Any] | Sequence[Any] | None"
QuestionLike: TypeAlias = "YesNo | Choice | Score | Mapping[str, Any]"

MOST_QUESTIONS = 400  # of one request
MOST_OPTIONS = 255  # of a choice
MOST_LEVELS = 10  # of a score


@dataclass(frozen=True, slots=True)
class YesNo:
    """Is it so? `true` and `false` may say what each outcome means."""

    ask: Described = None
    true: Described = None
    false: Described = None

    @property
    def options(self) -> tuple[str, ...]:
        return ("true", "false")

    @property
    def described(self) -> tuple[Described, ...]:
        """What each option means, in their order."""
        return (self.true, self.false)


@dataclass(frozen=True, slots=True)
class Choice:
    """Which one of these? Options by name, with a description or None; a list of names will do."""

    choices: Mapping[str, Described] | Sequence[str]
    ask: Described = None

    @property
    def options(self) -> tuple[str, ...]:
        return tuple(self.choices)

    @property
    def described(self) -> tuple[Described, ...]:
        if isinstance(self.choices, Mapping):
            return tuple(self.choices.values())
        return (None,) * len(self.choices)


@dataclass(frozen=True, slots=True)
class Score:
    """How much, on levels from the lowest to the highest? They count from 0."""

    levels: Sequence[Described]
    ask: Described = None

    @property
    def options(self) -> tuple[str, ...]:
        return tuple(str(level) for level in range(len(self.levels)))

    @property
    def described(self) -> tuple[Described, ...]:
        return tuple(self.levels)


Question: TypeAlias = "YesNo | Choice | Score"


def text_of(described: Described) -> str:
    """A description, or a state, as text: JSON if it is no text, empty for None."""
    if described is None or isinstance(described, str):
        return described or ""
    return json.dumps(described, ensure_ascii=False)
