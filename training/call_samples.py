"""Answers of the function caller as the fit of its confidence sees them."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from edgewise.calls.check import answer_confidence, call_confidence, call_features
from edgewise.calls.intents import as_written
from edgewise.calls.prompt import MalformedAnswer, parse_answer, render_conversation
from edgewise.decide.calibration import Calibration
from edgewise.grammar.tools import ASK
from edgewise.types.messages import Message, Tool, ToolCall
from edgewise.types.replies import Token
from training.base_tokenizer import build_tokenizer
from training.base_weights import GgufFile
from training.cpu_eval import read_answers
from training.eval_sets import BFCL, CALL_SETS, EvalCase, bfcl_cases, call_cases
from training.score import exact, read_calls, value_matches

_PARAMETER = re.compile(r"  (?P<name>\S+?)(?P<star>\*?) (?P<type>.*?)(?:: (?P<description>.*))?")
_TYPES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean", "obj": "object"}
_TURN = re.compile(r"<\|im_start\|>(\w+)\n(.*?)<\|im_end\|>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Sample:
    """An answer: what is known of each call, which are right, and whether all is."""

    features: tuple[dict[str, float], ...]
    right: tuple[bool, ...]
    exact: bool
    logprob: float
    tools: frozenset[str] = field(default_factory=frozenset)
    source: str = ""
    withheld: float | None = None  # the flow's own confidence where it withheld all calls

    def confidence(self, calibration: Calibration) -> float:
        """What the flow says of the whole answer: the least sure thing in it."""
        if self.withheld is None:
            return answer_confidence(calibration, self.features)
        return min([self.withheld, *(call_confidence(calibration, one) for one in self.features)])

    @property
    def group(self) -> str:
        return "mixed" if "+" in self.source else self.source


def read_prompt(prompt: str) -> tuple[str, tuple[Tool, ...]]:
    """The request and the tools in a rendered prompt, the schemas as far as it tells them."""
    rendered, _, rest = prompt.partition("<|im_end|>\n<|im_start|>user\n")
    request = rest.rpartition("<|im_end|>\n<|im_start|>assistant")[0]
    return request, read_tools(rendered.removeprefix("<|im_start|>system\nTools\n"))


def read_tools(rendered: str) -> tuple[Tool, ...]:
    """Tools back from the lines that `calls.prompt.render_tools` wrote, as far as they tell."""
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


@dataclass(frozen=True, slots=True)
class Asked:
    """A case as the engine is asked it: with its turns and its facts."""

    messages: tuple[Message, ...]
    tools: tuple[Tool, ...]
    context: dict[str, Any]

    @classmethod
    def of(cls, request: str, tools: Sequence[Tool]) -> Self:
        return cls((Message("user", request),), tuple(tools), {})

    @property
    def prompt(self) -> str:
        return render_conversation(self.tools, self.messages, self.context)

    @property
    def read_prompt(self) -> str:
        """The prompt that the flow makes of it: what is asked, as most requests are written."""
        last = max(place for place, one in enumerate(self.messages) if one.role == "user")
        messages = list(self.messages)
        messages[last] = replace(messages[last], content=as_written(messages[last].content))
        return render_conversation(self.tools, messages, self.context)


def read_asked(prompt: str) -> Asked:
    """Turns, tools and facts of a rendered prompt, as far as it tells them."""
    turns = [(role, text) for role, text in _TURN.findall(prompt)]
    tools = read_tools(turns[0][1].removeprefix("Tools\n"))
    facts = [text for role, text in turns[1:] if role == "system"]
    messages = [_message(role, text) for role, text in turns[1:] if role != "system"]
    context = _read_facts(facts[0].removeprefix("Context\n")) if facts else {}
    return Asked(tuple(messages), tools, context)


def _message(role: str, text: str) -> Message:
    if role == "assistant":
        try:
            return Message("assistant", "", tool_calls=tuple(parse_answer(text)))
        except MalformedAnswer:
            return Message("assistant", text)
    return Message("tool" if role == "tool" else "user", text)


def _read_facts(text: str) -> dict[str, Any]:
    """What `calls.history.render_context` was given."""
    facts: dict[str, Any] = {}
    columns: list[str] = []
    for line in text.split("\n"):
        if not line.startswith("  "):
            name, _, value = line.partition(": " if ": " in line else ":")
            columns = value.split(" | ") if " | " in value else []
            facts[name] = [] if columns else value
        elif columns:
            cells = line.strip().split(" | ")
            facts[name].append(dict(zip(columns, cells, strict=False)))
        else:
            key, _, value = line.strip().partition(": ")
            facts[name] = {**(facts[name] or {}), key: value}
    if found := re.match(r"\w{3} (\d{4}-\d\d-\d\d); ", str(facts.get("date", ""))):
        facts["date"] = found[1]
    return facts


def token_texts(tokenizer: Any, answer: str) -> list[str]:
    """The answer cut where the tokenizer cuts it; the later part of a split character is empty."""
    starts = [start for start, _ in tokenizer.encode(answer, add_special_tokens=False).offsets]
    ends = [*starts[1:], len(answer)]
    return [answer[start:end] for start, end in zip(starts, ends, strict=True)]


def right_calls(calls: Sequence[ToolCall], expected: str) -> tuple[bool, ...]:
    """Which calls are among the expected, each of which counts once; no call stands for `none`."""
    left = read_calls(expected) or []
    if not calls:
        return (not left,)
    right = []
    for call in calls:
        same = [
            one for one in left if one[0] == call.name and value_matches(call.arguments, one[1])
        ]
        right.append(bool(same))
        if same:
            left.remove(same[0])
    return tuple(right)


def judge_answer(answer: str, tokens: Sequence[Token], prompt: str) -> tuple[dict[str, float], ...]:
    """The features of an answer's calls; none at all of a malformed one."""
    request, tools = read_prompt(prompt)
    try:
        return call_features(tokens, parse_answer(answer), tools, request)
    except MalformedAnswer:
        return ()


def read_samples(base: Path, cases: Path, predictions: Path) -> Iterator[Sample]:
    """Answers whose tokens can be told from their text; about one in fifty was cut otherwise."""
    tokenizer = build_tokenizer(GgufFile(base).metadata)
    for case, told in zip(lines(cases), lines(predictions), strict=True):
        if case["answer"] != told["expected"]:
            raise ValueError("the predictions are not in the order of the cases")
        texts = [*token_texts(tokenizer, told["answer"]), ""]
        if len(texts) != len(told["logprobs"]):
            continue
        pairs = zip(texts, told["logprobs"], strict=True)
        features = judge_answer(told["answer"], [Token(*pair) for pair in pairs], case["prompt"])
        calls = parse_answer(told["answer"]) if features else []
        yield Sample(
            features,
            right_calls(calls, told["expected"]) if features else (),
            bool(told["exact"]),
            sum(told["logprobs"]),
            tools_of(told["expected"], told["answer"], read_prompt(case["prompt"])[1]),
            str(told["source"]),
        )


def read_answered(cases: Path, folder: Path) -> Iterator[Sample]:
    """What `training.cpu_eval --valid CASES --out FOLDER` kept, with the runners-up."""
    told = read_answers(folder)
    for number, case in enumerate(lines(cases)):
        row = told.get(f"valid/{number}")
        if row is None or not row["logprobs"]:
            continue
        answer, expected = row["answer"], case["answer"]
        features = judge_answer(answer, answer_tokens(row), case["prompt"])
        calls = parse_answer(answer) if features else []
        yield Sample(
            features,
            right_calls(calls, expected) if features else (),
            exact(read_calls(answer), read_calls(expected) or []),
            sum(row["logprobs"]),
            tools_of(expected, answer, read_prompt(case["prompt"])[1]),
            str(case["source"]),
        )


def answer_tokens(row: Mapping[str, Any]) -> list[Token]:
    """The tokens of an answer of `training.cpu_eval`, each with its lead on the runner-up."""
    runners_up = row.get("runners_up") or [None] * len(row["tokens"])
    return [
        Token(text, logprob, 0.0 if other is None else logprob - other)
        for text, logprob, other in zip(row["tokens"], row["logprobs"], runners_up, strict=True)
    ]


def tools_of(expected: str, answer: str, offered: Sequence[Tool]) -> frozenset[str]:
    """The tools that a case is about, whatever the style of their names."""
    told = [*expected.splitlines(), *answer.splitlines()]
    asked = [line.removeprefix(f"{ASK} ").partition(":")[0] for line in told if _asks(line)]
    called = [line.partition(" ")[0] for line in told if "{" in line]
    names = [*called, *asked] or [tool.name for tool in offered[:1]]
    return frozenset(re.sub(r"\W|_", "", name).lower() for name in names)


def _asks(line: str) -> bool:
    return line.startswith(f"{ASK} ") and "{" not in line


def lines(path: Path) -> Iterator[dict[str, Any]]:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


@dataclass(slots=True)
class Answered:
    """A set as far as it has been answered."""

    samples: list[Sample] = field(default_factory=list)
    cases: int = 0


def answered_samples(
    answers: Sequence[Path], calls: Path | None, bfcl: Path | None
) -> dict[str, Answered]:
    """By set, what `training.cpu_eval` kept."""
    told: dict[str, Any] = {}
    for folder in answers:
        told |= read_answers(folder)
    cases: list[EvalCase] = []
    if calls:
        cases += [case for name in CALL_SETS for case in call_cases(calls / f"{name}.json")]
    if bfcl:
        cases += [case for category in BFCL for case in bfcl_cases(bfcl, category)]
    found: dict[str, Answered] = {}
    for case in cases:
        answered = found.setdefault(case.set, Answered())
        answered.cases += 1
        if row := told.get(case.key):
            features = judge_answer(row["answer"], answer_tokens(row), case.prompt)
            right = case.judge(row["answer"]) == 1.0
            answered.samples.append(Sample(features, (), right, sum(row["logprobs"])))
    return found
