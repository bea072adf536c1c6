"""The sets we report on: their cases in our prompt format, and what makes an answer right.

The Berkeley leaderboard's cases and its checker are read from an unpacked `bfcl-eval` package;
nothing of either is kept here.
"""

from __future__ import annotations

import importlib
import json
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgewise.functions.tool_prompt import render_prompt
from edgewise.types.messages import Tool
from training.rows import read_examples
from training.score import Call, exact, f1, read_calls

BFCL = (
    "simple_python",
    "multiple",
    "parallel",
    "parallel_multiple",
    "irrelevance",
    "live_simple",
    "live_multiple",
    "live_irrelevance",
)
CALL_SETS = ("hackathon_30", "assistant_dev")
_CHECKED_AS = "edgewise"  # the checker looks its model's name up in a table


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
    data = package / "bfcl_eval" / "data"
    answers: dict[str, Any] = {}
    if not category.endswith("irrelevance"):
        for row in _lines(data / "possible_answer" / f"BFCL_v4_{category}.json"):
            answers[row["id"]] = row["ground_truth"]
    check = _load_checker(package)
    for row in _lines(data / f"BFCL_v4_{category}.json"):
        query = "\n".join(message["content"] for message in row["question"][0])
        prompt = render_prompt([_tool(tool) for tool in row["function"]], query)
        judge = _by_checker(check, row["function"], answers.get(row["id"]), category)
        yield EvalCase(f"bfcl_{category}", row["id"], prompt, "", judge)


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.strip():
            yield json.loads(line)


def _tool(row: Mapping[str, Any]) -> Tool:
    return Tool(row["name"], row.get("description", ""), row.get("parameters", {}))


def _by_f1(expected: Sequence[Call]) -> Callable[[str], float]:
    return lambda answer: f1(read_calls(answer), expected)


def _by_equality(expected: Sequence[Call]) -> Callable[[str], float]:
    return lambda answer: float(exact(read_calls(answer), expected))


def _by_checker(
    check: Callable[..., Mapping[str, Any]], functions: Any, truth: Any, category: str
) -> Callable[[str], float]:
    def judge(answer: str) -> float:
        calls = read_calls(answer)
        if truth is None:  # irrelevance: right is whatever holds no call
            return float(not calls)
        if not calls:
            return 0.0
        output = [{name: dict(arguments)} for name, arguments in calls]
        return float(check(functions, output, truth, category)["valid"])

    return judge


def _load_checker(package: Path) -> Callable[..., Mapping[str, Any]]:
    """The package's own AST checker, without the dozens of clients its table of models imports.

    All it asks that table is whether a model writes dots in names as underscores. Ours does not.
    """
    table = types.ModuleType("bfcl_eval.constants.model_config")
    entry = types.SimpleNamespace(underscore_to_dot=False)
    table.MODEL_CONFIG_MAPPING = {_CHECKED_AS: entry}  # type: ignore[attr-defined]
    sys.modules[table.__name__] = table
    if str(package) not in sys.path:
        sys.path.append(str(package))
    enums = importlib.import_module("bfcl_eval.constants.enums")
    checker = importlib.import_module("bfcl_eval.eval_checker.ast_eval.ast_checker")

    def check(functions: Any, output: Any, truth: Any, category: str) -> Mapping[str, Any]:
        verdict: Mapping[str, Any] = checker.ast_checker(
            functions, output, truth, enums.Language.PYTHON, category, _CHECKED_AS
        )
        return verdict

    return check
