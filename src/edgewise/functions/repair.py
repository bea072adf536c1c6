"""Makes calls of what an engine without a grammar answered, and says what had to be changed.

Codes in `repairs`: `recovered_json`, `truncated`, `renamed_tool`, and with the argument's name
`renamed:`, `dropped:`, `coerced:`, `rounded:`, `sign:`, `clamped:`, `snapped:`, `cleaned:`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from edgewise.functions.coerce import coerce_call
from edgewise.functions.read_calls import RawCall, meant_tool, read_calls
from edgewise.functions.recover_json import recover
from edgewise.functions.schema import read_parameters
from edgewise.functions.tool_prompt import NO_CALL
from edgewise.functions.validate import validate
from edgewise.types.calls import Complaint
from edgewise.types.messages import Source, Tool, ToolCall

_REFUSAL = re.compile(
    r"\b(?:sorry|apologi[sz]e|cannot|can['\u2019]?t|could not|couldn['\u2019]t|unable|not able|"
    r"(?:do|does) not have|don['\u2019]t have|as an ai|no (?:\w+ )?(?:tools?|functions?)\b|"
    r"not (?:possible|supported|available))\b",
    re.IGNORECASE,
)
_EMPTY = re.compile(r"(?:```\w*)?\s*(?:\[\s*\]|\{\s*\})\s*(?:```)?")
_NOTHING = {NO_CALL, "null", "nocall", "nocalls", "notool", "nofunctioncall", "nocallneeded"}


@dataclass(frozen=True, slots=True)
class Repaired:
    """The calls, what was changed to get them, and what is still wrong.

    `by_call` holds the changes of each call; `repairs` all of them, each once.
    """

    calls: tuple[ToolCall, ...]
    repairs: tuple[str, ...]
    complaints: tuple[Complaint, ...]
    by_call: tuple[tuple[str, ...], ...] = ()


def repair(
    answer: str | Sequence[ToolCall],
    tools: Sequence[Tool],
    request: str = "",
    *,
    source: Source = "local",
) -> Repaired:
    """The calls in an answer, brought to the schemas of the tools.

    Calls that are given as such keep their id and source; those read from text get `source`.
    """
    by_name = {tool.name: tool for tool in tools}
    if not isinstance(answer, str):
        raw = [RawCall(call.name, call.arguments) for call in answer]
        return _finish(raw, list(answer), by_name, request, ())
    reading = read_calls(answer, {name: _names(tool) for name, tool in by_name.items()})
    if not reading.calls:
        return Repaired((), (), _no_calls(answer))
    noted = () if reading.exact else ("recovered_json",)
    if reading.cut:
        noted = (*noted, "truncated")
    empty = [ToolCall(call.name, {}, source=source) for call in reading.calls]
    return _finish(reading.calls, empty, by_name, request, noted)


def is_refusal(text: str) -> bool:
    """Whether prose says that nothing can be done."""
    return _REFUSAL.search(text[:2000]) is not None


def _no_calls(answer: str) -> tuple[Complaint, ...]:
    said = re.sub(r"[\W_]+", "", answer[:200]).casefold()
    if said in _NOTHING or _EMPTY.fullmatch(answer.strip()[:200]):
        return ()
    if is_refusal(answer):
        return (Complaint("refusal", f"the model refused: {answer.strip()[:120]!r}"),)
    what = f"there is no call in {answer.strip()[:120]!r}" if answer.strip() else "it is empty"
    return (Complaint("not_json", f"the answer cannot be read: {what}"),)


def _finish(
    raw: Sequence[RawCall],
    given: Sequence[ToolCall],
    by_name: Mapping[str, Tool],
    request: str,
    noted: tuple[str, ...],
) -> Repaired:
    calls: list[ToolCall] = []
    by_call: list[tuple[str, ...]] = []
    complaints: list[Complaint] = []
    for index, (written, call) in enumerate(zip(raw, given, strict=True)):
        fixed, made, wrong = _one(written, call, by_name, request)
        calls.append(fixed)
        by_call.append((*noted, *made))
        complaints += [replace(complaint, call=index) for complaint in wrong]
    repairs = tuple(dict.fromkeys(code for made in by_call for code in made))
    return Repaired(tuple(calls), repairs, tuple(complaints), tuple(by_call))


def _one(
    raw: RawCall, call: ToolCall, by_name: Mapping[str, Tool], request: str
) -> tuple[ToolCall, tuple[str, ...], list[Complaint]]:
    name = meant_tool(raw.name, by_name)
    if name is None:
        kept = raw.arguments if isinstance(raw.arguments, Mapping) else {}
        message = f"there is no tool {raw.name!r}"
        return replace(call, arguments=dict(kept)), (), [Complaint("unknown_tool", message)]
    tool = by_name[name]
    made: tuple[str, ...] = () if name == raw.name else ("renamed_tool",)
    arguments, more = _arguments(raw, tool)
    fixed, coerced = coerce_call(replace(call, name=name, arguments=arguments), tool, request)
    made = tuple(dict.fromkeys((*made, *more, *coerced)))
    return fixed, made, validate(fixed, tool)


def _arguments(raw: RawCall, tool: Tool) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Arguments as names and values, also from a string of JSON or from positions."""
    value: Any = raw.arguments
    made: tuple[str, ...] = ()
    if isinstance(value, str) and value.strip():
        value, made = recover(value.strip()).value, ("recovered_json",)
    names = _names(tool)
    if isinstance(value, Mapping):
        found = {str(name): part for name, part in value.items()}
    else:
        bare = value is None or value in ("", [], {})
        found = {names[0]: value} if len(names) == 1 and not bare else {}
    free = [name for name in names if name not in found]
    return found | dict(zip(free, raw.positional, strict=False)), made


def _names(tool: Tool) -> list[str]:
    return [field.name for field in read_parameters(tool).fields or ()]
