"""Our own questions and requests for calls, with answers a program can check, from a frozen file.

They make a model that nobody has measured comparable with one that was. The measurements have the
generator, which writes the file.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from edgewise.calibrate.answers import Question
from edgewise.calibrate.rows import LabelledCall
from edgewise.types.messages import Tool

FILE = "questions.jsonl.gz"


def builtin_questions(most: int | None = None) -> list[Question]:
    """The first of them; kinds take turns, so a part is a fair part."""
    return [question for question, _ in _chat()[:most]]


def family_of(kind: str, otherwise: str = "") -> str:
    """The family of one of our kinds; `otherwise` for a kind of somebody else."""
    return _families().get(kind, otherwise)


def builtin_calls(most: int | None = None) -> tuple[LabelledCall, ...]:
    """Requests for calls, all different; tools take turns."""
    return tuple(_call(row) for row in _rows() if "calls" in row)[:most]


@cache
def _families() -> dict[str, str]:
    return {question.kind: family for question, family in _chat()}


@cache
def _chat() -> tuple[tuple[Question, str], ...]:
    return tuple(_question(row) for row in _rows() if "calls" not in row)


def _question(row: dict[str, Any]) -> tuple[Question, str]:
    family = row.pop("family")
    row |= {name: tuple(row[name]) for name in ("accepted", "rivals", "rejected") if name in row}
    return Question(**row), family


def _call(row: Mapping[str, Any]) -> LabelledCall:
    tools = tuple(Tool(**tool) for tool in row["tools"])
    return LabelledCall(row["prompt"], tools, tuple((name, given) for name, given in row["calls"]))


def _rows() -> list[dict[str, Any]]:
    packed = (resources.files("edgewise.calibrate") / FILE).read_bytes()
    return [json.loads(line) for line in gzip.decompress(packed).splitlines()]
