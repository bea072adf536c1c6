"""Fit the weights of `edgewise.calls.difficulty` to what a model really got right.

    python -m training.fit_difficulty --cases valid-00000.jsonl --predictions Q8_0.valid.jsonl.gz

Cases are `training.generate`'s lines (prompt, answer); predictions are `training.evaluate`'s file,
in the same order, or the folder that `training.cpu_eval --valid CASES` wrote. Tools are split into
two halves by name: one fits, the other tests.
"""

from __future__ import annotations

import argparse
import dataclasses
import gzip
import json
import re
import sys
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np

from edgewise.calibrate.logistic import fit_logistic
from edgewise.calls.difficulty import Tier, Weights, features, tier
from edgewise.calls.intents import split
from edgewise.calls.prompt import NO_CALL
from edgewise.types.messages import Tool
from training.cpu_eval import read_answers
from training.score import auroc, exact, read_calls

# Every weight but the bias, and the record: generated cases have no history.
FITTED = [
    field.name for field in dataclasses.fields(Weights) if field.name not in ("bias", "record")
]

_PARAMETER = re.compile(r"  (?P<name>\S+?)(?P<star>\*?) (?P<type>.*?)(?:: (?P<description>.*))?")
_TYPES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean", "obj": "object"}


@dataclass(frozen=True, slots=True)
class Case:
    """A request with its tools, what was right, and what kind of case it is."""

    request: str
    tools: tuple[Tool, ...]
    answer: str
    kind: str


def read_cases(path: Path) -> Iterator[Case]:
    for line in _lines(path):
        rendered, _, rest = line["prompt"].partition("<|im_end|>\n<|im_start|>user\n")
        request = rest.rpartition("<|im_end|>\n<|im_start|>assistant")[0]
        tools = read_tools(rendered.removeprefix("<|im_start|>system\nTools\n"))
        yield Case(request, tools, line["answer"], line["kind"])


def read_tools(rendered: str) -> tuple[Tool, ...]:
    """Tools back from the lines that `tool_prompt.render_tools` wrote, as far as they tell."""
    tools: list[tuple[str, str, dict[str, Any]]] = []
    for line in rendered.splitlines():
        field = _PARAMETER.fullmatch(line)
        if field is None and line.strip():
            name, _, description = line.partition(" - ")
            tools.append((name.strip(), description, {"type": "object", "properties": {}}))
        elif field is not None and tools:
            _put(tools[-1][2], field)
    return tuple(Tool(*tool) for tool in tools)


def _put(schema: dict[str, Any], field: re.Match[str]) -> None:
    *path, name = field["name"].split(".")
    for step in path:
        inner = schema.setdefault("properties", {}).setdefault(step.removesuffix("[]"), {})
        schema = inner.setdefault("items", {}) if step.endswith("[]") else inner
    properties = schema.setdefault("properties", {})
    properties[name] = {**_schema(field["type"]), "description": field["description"] or ""}
    if field["star"]:
        schema.setdefault("required", []).append(name)


def _schema(written: str) -> dict[str, Any]:
    kind, equals, default = written.partition("=")
    schema: dict[str, Any]
    if kind.startswith("list"):
        inner = kind.removeprefix("list").removeprefix("[").removesuffix("]")
        schema = {"type": "array", "items": _schema(inner) if inner else {}}
    elif kind.partition("(")[0] in _TYPES:
        schema = {"type": _TYPES[kind.partition("(")[0]]}
    elif "|" in kind:
        schema = {"enum": kind.split("|")}
    else:
        schema = {}
    return {**schema, "default": _default(default, schema)} if equals else schema


def _default(written: str, schema: dict[str, Any]) -> Any:
    """A default as its schema means it: texts stand bare, unless they look like something else."""
    if schema.get("type") == "string" and not written.startswith('"'):
        return written
    try:
        return json.loads(written)
    except ValueError:
        return written


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


@dataclass(frozen=True, slots=True)
class Fitted:
    """The weights, and how they do on tools they were not fitted on."""

    weights: Weights
    auroc: float
    tiers: dict[str, tuple[int, float]]  # cases and share of wrong answers in each


def half_of(case: Case) -> int:
    """0 or 1 by the tool that was right (or offered first): one tool is never in both halves."""
    name = case.answer.partition(" ")[0]
    if case.answer == NO_CALL and case.tools:
        name = case.tools[0].name
    bare = re.sub(r"\W|_", "", name).lower()
    return zlib.crc32(bare.encode()) % 2


def fit(cases: Sequence[Case], wrong: Sequence[bool], *, ridge: float = 3.0) -> Fitted:
    """Fit on one half of the tools, measure on the other; the weights returned use both."""
    table = np.array([list(_features(case).values()) for case in cases])
    target = np.array(wrong, dtype=float)
    halves = np.array([half_of(case) for case in cases])
    model = fit_logistic(table[halves == 0], target[halves == 0], ridge=ridge)
    scores = model.chances(table[halves == 1])
    missed = target[halves == 1]
    final = fit_logistic(table, target, ridge=ridge)
    weights = Weights(
        bias=round(final.bias, 3),
        **{name: round(value, 3) for name, value in zip(FITTED, final.weights, strict=True)},
    )
    tiers = {}
    for name in get_args(Tier):
        inside = [miss for miss, score in zip(missed, scores, strict=True) if tier(score) == name]
        tiers[name] = (len(inside), float(np.mean(inside)) if inside else 0.0)
    return Fitted(weights, auroc(list(scores), [bool(m) for m in missed]), tiers)


def _answered(cases: Sequence[Case], folder: Path) -> tuple[list[Case], list[bool]]:
    """The cases that `training.cpu_eval` has answered, and whether wrongly."""
    told = read_answers(folder)
    pairs = [
        (case, not exact(read_calls(row["answer"]), read_calls(case.answer) or []))
        for number, case in enumerate(cases)
        if (row := told.get(f"valid/{number}")) is not None
    ]
    return [case for case, _ in pairs], [wrong for _, wrong in pairs]


def _features(case: Case) -> dict[str, float]:
    found = features(case.request, case.tools, intents=len(split(case.request, case.tools)))
    return {name: found[name] for name in FITTED}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--cases", type=Path, required=True)
    parser.add_argument("--predictions", type=Path, required=True)
    options = parser.parse_args(arguments)
    cases = list(read_cases(options.cases))
    if options.predictions.is_dir():
        cases, wrong = _answered(cases, options.predictions)
    else:
        wrong = [not line["exact"] for line in _lines(options.predictions)]
    fitted = fit(cases, wrong)
    share = sum(wrong) / len(wrong)
    lines = [f"wrong {share:.3f} of {len(wrong)}, AUROC on the other tools {fitted.auroc:.3f}"]
    for name, (count, wrong_share) in fitted.tiers.items():
        lines.append(f"  {name}: {count} cases, {wrong_share:.3f} wrong")
    for field in dataclasses.fields(Weights):
        lines.append(f"    {field.name}: float = {getattr(fitted.weights, field.name)}")
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
