"""The Berkeley leaderboard's cases and its own checker, read from the `bfcl-eval` package.

Nothing of either is kept here. The package may be installed, or lie unpacked in a folder.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgewise.errors import SettingsError
from edgewise.extras import pip_command
from edgewise.types.messages import Tool

CATEGORIES = (
    "simple_python",
    "multiple",
    "parallel",
    "parallel_multiple",
    "irrelevance",
    "live_simple",
    "live_multiple",
)
MORE_CATEGORIES = ("live_irrelevance",)  # understood too, run when asked for
_PACKAGE = "bfcl_eval"
_CHECKED_AS = "edgewise"  # the checker looks its model's name up in a table

Calls = Sequence[tuple[str, Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class BfclCase:
    """`is_right` judges calls; for irrelevant requests, right is whatever holds no call."""

    category: str
    id: str
    query: str
    tools: tuple[Tool, ...]
    is_right: Callable[[Calls], bool]


def find_package(folder: Path | None = None) -> Path:
    """The folder that holds `bfcl_eval`: the one given, or where Python finds the package."""
    if folder is not None:
        if not (folder / _PACKAGE / "data").is_dir():
            raise SettingsError(f"{folder} holds no {_PACKAGE}/data: give the unpacked bfcl-eval")
        return folder
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise SettingsError(
            f"the package bfcl-eval is not installed: {pip_command('--no-deps', 'bfcl-eval')}, or "
            "unpack its wheel and give the folder with --package"
        )
    return Path(spec.submodule_search_locations[0]).parent


def package_version(folder: Path) -> str:
    """As its metadata beside it says; empty where it was left behind."""
    names = [path.name for path in folder.glob(f"{_PACKAGE}-*.dist-info")]
    return names[0].removeprefix(f"{_PACKAGE}-").removesuffix(".dist-info") if names else ""


def read_category(folder: Path, category: str, limit: int | None = None) -> Iterator[BfclCase]:
    """One category of the leaderboard, in its order; `folder` holds `bfcl_eval`."""
    data = folder / _PACKAGE / "data"
    answers: dict[str, Any] = {}
    if not category.endswith("irrelevance"):
        for row in _lines(data / "possible_answer" / f"BFCL_v4_{category}.json"):
            answers[row["id"]] = row["ground_truth"]
    check = load_checker(folder)
    for number, row in enumerate(_lines(data / f"BFCL_v4_{category}.json")):
        if limit is not None and number >= limit:
            return
        yield BfclCase(
            category,
            row["id"],
            "\n".join(message["content"] for message in row["question"][0]),
            tuple(_tool(tool) for tool in row["function"]),
            _judge(check, row["function"], answers.get(row["id"]), category),
        )


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise SettingsError(f"{path.name}: not in this bfcl-eval package") from error
    for line in text.splitlines():
        if line.strip():
            yield json.loads(line)


def _tool(row: Mapping[str, Any]) -> Tool:
    return Tool(row["name"], row.get("description", ""), row.get("parameters", {}))


def _judge(
    check: Callable[..., Mapping[str, Any]], functions: Any, truth: Any, category: str
) -> Callable[[Calls], bool]:
    def is_right(calls: Calls) -> bool:
        if truth is None:
            return not calls
        if not calls:
            return False
        output = [{name: dict(arguments)} for name, arguments in calls]
        return bool(check(functions, output, truth, category)["valid"])

    return is_right


def load_checker(folder: Path) -> Callable[..., Mapping[str, Any]]:
    """The package's own AST checker, without the dozens of clients its table of models imports.

    All it asks that table is whether a model writes dots in names as underscores. Ours does not.
    """
    table = types.ModuleType(f"{_PACKAGE}.constants.model_config")
    entry = types.SimpleNamespace(underscore_to_dot=False)
    table.MODEL_CONFIG_MAPPING = {_CHECKED_AS: entry}  # type: ignore[attr-defined]
    sys.modules[table.__name__] = table
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    enums = importlib.import_module(f"{_PACKAGE}.constants.enums")
    checker = importlib.import_module(f"{_PACKAGE}.eval_checker.ast_eval.ast_checker")

    def check(functions: Any, output: Any, truth: Any, category: str) -> Mapping[str, Any]:
        verdict: Mapping[str, Any] = checker.ast_checker(
            functions, output, truth, enums.Language.PYTHON, category, _CHECKED_AS
        )
        return verdict

    return check
