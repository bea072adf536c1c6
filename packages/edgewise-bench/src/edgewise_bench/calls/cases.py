"""Function-calling cases from files: requests, the tools on offer, and the calls expected.

Two kinds of file are read. In the first each case has its `tools` and `expected_calls`; in the
second the file has `tools`, and a case names one `intent` with its `arguments` or `slots`. A case
may also name some of the file's tools instead of describing them again.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from edgewise.calibrate.rows import AnyOf, Call
from edgewise.errors import SettingsError
from edgewise.types.messages import Context, Message, Tool, ToolCall

Case = TypeVar("Case")
OWN_CASES = Path(__file__).with_name("thirty_requests.json")  # for whoever has no file


@dataclass(frozen=True, slots=True)
class CallCase:
    """`flags` say why a label is in doubt; `difficulty` may be empty; `context` holds facts.

    `messages` are the turns of a case that has some; the last words in them are the query.
    """

    set: str
    id: str
    query: str
    tools: tuple[Tool, ...]
    expected: tuple[Call, ...]
    difficulty: str = ""
    flags: tuple[str, ...] = ()
    context: Context = field(default_factory=dict)
    messages: tuple[Message, ...] = ()

    @property
    def key(self) -> str:
        return f"{self.set}/{self.id}"


def read_cases(
    path: Path,
    limit: int | None = None,
    *,
    context: Context | None = None,
    part: str = "",
    messages: bool = False,
) -> list[CallCase]:
    """The cases of a file, in its order; with a limit so many, spread over the whole file.

    `context` is known in all of them; a case may add the area where it is said. `part` is the
    `first` or the `second` half: of each group of cases that come from one `file`, so that both
    halves are of one kind. With `messages` a case has its turns, where the file gives them.
    """
    with reading(path):
        document = json.loads(path.read_text("utf-8"))
        rows = document["cases"]
        shared = [read_tool(row) for row in _listed(document.get("tools", []))]
        cases = [_case(path.stem, number, row, shared) for number, row in enumerate(rows)]
        if messages:
            cases = [
                replace(case, messages=tuple(map(read_message, row.get("messages", ()))))
                for case, row in zip(cases, rows, strict=True)
            ]
        if context is not None:
            cases = [
                replace(case, context={**context, **_here(row)})
                for case, row in zip(cases, rows, strict=True)
            ]
        if part:
            cases = _half(cases, [str(row.get("file", "")) for row in rows], part)
    if not cases:
        raise SettingsError(f"{path} holds no case")
    return spread(cases, limit)


def read_message(row: Mapping[str, Any]) -> Message:
    """One turn; its calls as we write them, or as OpenAI wraps them."""
    wrapped = (call.get("function", call) for call in row.get("tool_calls") or ())
    made = tuple(ToolCall(call["name"], _arguments(call["arguments"])) for call in wrapped)
    return Message(row["role"], row.get("content") or "", tool_calls=made)


def _arguments(given: Any) -> Mapping[str, Any]:
    return dict(json.loads(given) if isinstance(given, str) else given)


def _here(row: Mapping[str, Any]) -> dict[str, Any]:
    """Where the speaker is. The rest of a case's context would tell the answer."""
    known = row.get("context") or {}
    return {"area": known["area"]} if "area" in known else {}


def _half(cases: Sequence[CallCase], groups: Sequence[str], part: str) -> list[CallCase]:
    """The larger half of each group is the first."""
    sizes, seen = Counter(groups), Counter[str]()
    kept = []
    for case, group in zip(cases, groups, strict=True):
        first = seen[group] < (sizes[group] + 1) // 2
        seen[group] += 1
        if first == (part == "first"):
            kept.append(case)
    return kept


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Says in words what is wrong with a file of cases."""
    try:
        yield
    except FileNotFoundError as error:
        raise SettingsError(f"no file {path}: give the path of a file of cases") from error
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise SettingsError(f"{path} is not a file of function-calling cases: {reason}") from error


def spread(cases: Sequence[Case], limit: int | None) -> list[Case]:
    if limit is None or limit >= len(cases):
        return list(cases)
    return [cases[number * len(cases) // limit] for number in range(limit)]


def irrelevant_cases(cases: Iterable[CallCase], limit: int) -> list[CallCase]:
    """Requests that no tool on offer serves, at most `limit` of them.

    Those that expect no call, and the others asked again without the tools that they need, where
    any tool is left.
    """
    found = []
    for case in cases:
        needed = {name for name, _ in case.expected}
        left = tuple(tool for tool in case.tools if tool.name not in needed)
        if left:
            found.append(replace(case, tools=left, expected=()))
    return spread(found, limit)


def read_tool(row: Mapping[str, Any]) -> Tool:
    """Also what is wrapped the way OpenAI does it."""
    inner = row.get("function")
    row = inner if isinstance(inner, Mapping) else row
    return Tool(row["name"], row.get("description", ""), row.get("parameters", {}))


def _listed(tools: Any) -> Sequence[Mapping[str, Any]]:
    return list(tools.values()) if isinstance(tools, Mapping) else tools


def _case(name: str, number: int, row: Mapping[str, Any], shared: Sequence[Tool]) -> CallCase:
    known = {tool.name: tool for tool in shared}
    tools = tuple(
        known[tool] if isinstance(tool, str) else read_tool(tool)
        for tool in row.get("tools", known)
    )
    known = {tool.name: tool for tool in tools}
    flags = tuple(row.get("flags") or ())
    if "intent" in row:
        given = row["arguments"] if "arguments" in row else row["slots"]
        expected = [(row["intent"], as_labelled(given, known[row["intent"]]))]
        flags += _unsaid(row["query"], given, row.get("context") or {})
    else:
        expected = [(call["name"], dict(call["arguments"])) for call in row["expected_calls"]]
    return CallCase(
        name,
        str(row.get("id", number)),
        _query(row),
        tools,
        tuple(expected),
        str(row.get("difficulty", "")),
        flags,
    )


def _query(row: Mapping[str, Any]) -> str:
    said = [one["content"] for one in row.get("messages", ()) if one["role"] == "user"]
    return str(row["query"] if "query" in row else said[-1])


def as_labelled(arguments: Mapping[str, Any], tool: Tool) -> dict[str, Any]:
    """Labels of intents: a list is a choice of answers; numbers become text if the tool says so."""
    properties = tool.parameters.get("properties", {})
    return {
        key: _label(value, properties.get(key, {}).get("type")) for key, value in arguments.items()
    }


def _label(value: Any, kind: Any) -> Any:
    if isinstance(value, list) and kind != "array":
        return AnyOf(tuple(_label(each, kind) for each in value))
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if is_number and kind == "string" else value


def _unsaid(query: str, given: Mapping[str, Any], context: Mapping[str, Any]) -> tuple[str, ...]:
    """A label that comes from where the speaker stands, and not from the words."""
    words = query.lower()
    return tuple(
        f"context: {key} is not said"
        for key, value in given.items()
        if context.get(key) == value and str(value).lower() not in words
    )
