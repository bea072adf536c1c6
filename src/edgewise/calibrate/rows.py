"""Labelled requests: the built-in ones, and those of a file, a JSON object a line, for one task.

{"prompt": "...", "answer": "Paris"}                      chat; also "kind", "match", "system"
{"prompt": "...", "tools": [...], "calls": [...]}         function calls; [] if none is right
{"audio": "call.wav", "text": "what is said in it"}       speech
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from edgewise.calibrate.answers import Call, Question, Rule
from edgewise.calls.tools import as_tools
from edgewise.decide.compare_answers import normalise
from edgewise.errors import InvalidRequest
from edgewise.types.messages import Tool

LabelledTask = Literal["chat", "call", "transcribe"]
_MATCHES: tuple[Rule, ...] = ("exact", "mention", "number", "yes_no", "contains")
PARTS = 10  # that rows without a kind are divided into


@dataclass(frozen=True, slots=True)
class LabelledCall:
    """A request and the calls it asks for."""

    prompt: str
    tools: tuple[Tool, ...]
    calls: tuple[Call, ...]


@dataclass(frozen=True, slots=True)
class LabelledSound:
    """A file and what is said in it."""

    path: Path
    text: str


@dataclass(frozen=True, slots=True)
class Labelled:
    """The rows of a file, without duplicates."""

    task: LabelledTask
    questions: tuple[Question, ...] = ()
    calls: tuple[LabelledCall, ...] = ()
    sounds: tuple[LabelledSound, ...] = ()
    repeated: int = 0

    def __len__(self) -> int:
        return len(self.questions) + len(self.calls) + len(self.sounds)


def read_labelled(path: Path) -> Labelled:
    """Raises InvalidRequest with the number of the wrong line."""
    rows = list(_rows(path))
    if not rows:
        raise InvalidRequest(f"{path}: no rows")
    tasks = {_task(where, row) for where, row in rows}
    if len(tasks) > 1:
        raise InvalidRequest(f"{path}: rows for {' and '.join(sorted(tasks))}; one task a file")
    task = tasks.pop()
    fresh: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for where, row in rows:  # the same row must not be both fitted and tested
        fresh.setdefault(_key(row), (where, row))
    kept = list(fresh.values())
    repeated = len(rows) - len(kept)
    if task == "chat":
        asked = tuple(_question(*each, number) for number, each in enumerate(kept))
        return Labelled(task, questions=asked, repeated=repeated)
    if task == "call":
        return Labelled(task, calls=tuple(_call(*each) for each in kept), repeated=repeated)
    sounds = tuple(_sound(where, row, path.parent) for where, row in kept)
    return Labelled(task, sounds=sounds, repeated=repeated)


def _rows(path: Path) -> Sequence[tuple[str, Mapping[str, Any]]]:
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"{path}: {error}") from error
    found = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            row = json.loads(line)
        except ValueError as error:
            raise InvalidRequest(f"{where}: not JSON: {error}") from error
        if not isinstance(row, dict):
            raise InvalidRequest(f"{where}: not an object")
        found.append((where, row))
    return found


def _task(where: str, row: Mapping[str, Any]) -> LabelledTask:
    if "audio" in row:
        return "transcribe"
    if "calls" in row or "tools" in row:
        return "call"
    if "prompt" in row:
        return "chat"
    raise InvalidRequest(f"{where}: neither a prompt nor audio")


def _key(row: Mapping[str, Any]) -> str:
    asked = {name: row.get(name) for name in ("system", "prompt", "tools", "audio")}
    return json.dumps(asked, sort_keys=True, default=str)


def _question(where: str, row: Mapping[str, Any], number: int) -> Question:
    given = row.get("answer")
    answers = [given] if isinstance(given, str | int | float) else given
    if not isinstance(answers, list) or not answers:
        raise InvalidRequest(f"{where}: answer must be a text, or a list of accepted texts")
    accepted = tuple(str(answer) for answer in answers)
    given_rule = row.get("match") or _usual_match(accepted)
    rule: Rule | None = next((name for name in _MATCHES if name == given_rule), None)
    if rule is None:
        known = ", ".join(_MATCHES)
        raise InvalidRequest(f"{where}: match {given_rule!r}: must be one of {known}")
    if rule == "yes_no":
        accepted = tuple("yes" if normalise(a) in ("yes", "true") else "no" for a in accepted)
    return Question(
        kind=str(row.get("kind") or f"part {number % PARTS}"),
        prompt=_text(where, row, "prompt"),
        accepted=accepted,
        rule=rule,
        system=str(row.get("system") or ""),
    )


def _usual_match(accepted: Sequence[str]) -> str:
    if all(normalise(answer) in ("yes", "no", "true", "false") for answer in accepted):
        return "yes_no"
    if all(re.fullmatch(r"\d+(\.\d+)?", normalise(answer)) for answer in accepted):
        return "number"
    return "mention"


def _call(where: str, row: Mapping[str, Any]) -> LabelledCall:
    calls = row.get("calls")
    if not isinstance(calls, list):
        raise InvalidRequest(f"{where}: calls must be a list; empty if no call is right")
    tools = _checked(where, lambda: as_tools(row.get("tools") or []))
    found = []
    for call in calls:
        if not isinstance(call, dict) or not isinstance(call.get("name"), str):
            raise InvalidRequest(f"{where}: a call needs a name and arguments")
        found.append((call["name"], dict(call.get("arguments") or {})))
    return LabelledCall(_text(where, row, "prompt"), tools, tuple(found))


def _checked(where: str, read: Callable[[], tuple[Tool, ...]]) -> tuple[Tool, ...]:
    try:
        return read()
    except InvalidRequest as error:
        raise InvalidRequest(f"{where}: {error}") from error


def _sound(where: str, row: Mapping[str, Any], folder: Path) -> LabelledSound:
    path = folder / Path(_text(where, row, "audio")).expanduser()
    if not path.is_file():
        raise InvalidRequest(f"{where}: no file {path}")
    return LabelledSound(path, _text(where, row, "text"))


def _text(where: str, row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    if not isinstance(value, str) or not value.strip():
        raise InvalidRequest(f"{where}: {name} must be a text")
    return value


# -- the built-in questions ------------------------------------------------------------------------
#
# With answers a program can check. They make a model that nobody has measured comparable with one
# that was. The measurements have the generator, which writes the file.

FILE = "questions.jsonl.gz"


def builtin_questions(most: int | None = None) -> list[Question]:
    """The first of them; kinds take turns, so a part is a fair part."""
    return [question for question, _ in _chat()[:most]]


def family_of(kind: str, otherwise: str = "") -> str:
    """The family of one of our kinds; `otherwise` for a kind of somebody else."""
    return _families().get(kind, otherwise)


def builtin_calls(most: int | None = None) -> tuple[LabelledCall, ...]:
    """Requests for calls, all different; tools take turns."""
    return tuple(_frozen_call(row) for row in _frozen_rows() if "calls" in row)[:most]


@cache
def _families() -> dict[str, str]:
    return {question.kind: family for question, family in _chat()}


@cache
def _chat() -> tuple[tuple[Question, str], ...]:
    return tuple(_frozen_question(row) for row in _frozen_rows() if "calls" not in row)


def _frozen_question(row: dict[str, Any]) -> tuple[Question, str]:
    family = row.pop("family")
    row |= {name: tuple(row[name]) for name in ("accepted", "rivals", "rejected") if name in row}
    return Question(**row), family


def _frozen_call(row: Mapping[str, Any]) -> LabelledCall:
    tools = tuple(Tool(**tool) for tool in row["tools"])
    return LabelledCall(row["prompt"], tools, tuple((name, given) for name, given in row["calls"]))


def _frozen_rows() -> list[dict[str, Any]]:
    packed = (resources.files("edgewise.calibrate") / FILE).read_bytes()
    return [json.loads(line) for line in gzip.decompress(packed).splitlines()]
