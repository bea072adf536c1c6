"""The sets we report on: their cases in our prompt format, and what makes an answer right.

The Berkeley leaderboard's cases and its checker come through `edgewise_bench.calls.bfcl_package`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgewise.calls.prompt import render_prompt
from edgewise.types.messages import Tool
from edgewise_bench.calls.bfcl_package import CATEGORIES, MORE_CATEGORIES, Calls, read_category
from training.rows import read_examples
from training.score import Call, exact, f1, read_calls

BFCL = CATEGORIES + MORE_CATEGORIES
CALL_SETS = ("hackathon_30", "assistant_dev")


@dataclass(frozen=True, slots=True)
class EvalCase:
    """`judge` gives 0 to 1; 1 is right. `group` splits a set for reporting."""

    set: str
    id: str
    prompt: str
    group: str
    judge: Callable[[str], float]

    @property
    def key(self) -> str:
        return f"{self.set}/{self.id}"


def call_cases(path: Path) -> Iterator[EvalCase]:
    """`hackathon_30.json` and files of its kind; doubtful labels form a group of their own."""
    for case in json.loads(path.read_text(encoding="utf-8"))["cases"]:
        expected = [(call["name"], call["arguments"]) for call in case["expected_calls"]]
        group = "flagged" if case.get("flags") else str(case.get("difficulty", ""))
        prompt = render_prompt([_tool(tool) for tool in case["tools"]], case["query"])
        yield EvalCase(path.stem, str(case["id"]), prompt, group, _by_f1(expected))


def valid_cases(path: Path) -> Iterator[EvalCase]:
    """Held-out tools, as `training.generate` writes them."""
    for number, row in enumerate(read_examples(path)):
        expected = read_calls(row["answer"]) or []
        yield EvalCase("valid", str(number), row["prompt"], row["kind"], _by_equality(expected))


def bfcl_cases(package: Path, category: str) -> Iterator[EvalCase]:
    """One category of the leaderboard; `package` is the folder that holds `bfcl_eval`."""
    for case in read_category(package, category):
        prompt = render_prompt(case.tools, case.query)
        yield EvalCase(f"bfcl_{category}", case.id, prompt, "", _by_checker(case.is_right))


def _tool(row: Mapping[str, Any]) -> Tool:
    return Tool(row["name"], row.get("description", ""), row.get("parameters", {}))


def _by_f1(expected: Sequence[Call]) -> Callable[[str], float]:
    return lambda answer: f1(read_calls(answer), expected)


def _by_equality(expected: Sequence[Call]) -> Callable[[str], float]:
    return lambda answer: float(exact(read_calls(answer), expected))


def _by_checker(is_right: Callable[[Calls], bool]) -> Callable[[str], float]:
    return lambda answer: float(is_right(read_calls(answer) or []))
