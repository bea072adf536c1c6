"""Tools in every form users have them: edgewise tools, JSON Schemas, Python functions."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

from edgewise.errors import InvalidRequest
from edgewise.types.messages import RunnableTool, Tool, ToolChoice, ToolLike, leaves

NESTING_LIMIT = 32
TOOLS_LIMIT = 10_000
NAME_LIMIT = 256
_MOST_KNOWN = 200_000  # characters of tools that are remembered: an agent's have 60,000
SCHEMA_KEYS = ("parameters", "input_schema", "inputSchema")  # OpenAI, Anthropic, MCP


@dataclass(frozen=True, slots=True)
class Toolbox:
    """Tools, and for those that can be run from here what to call, by name."""

    tools: tuple[Tool, ...] = ()
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)

    def leaves(self, name: str) -> bool:
        """Whether a call of this tool sends its arguments to another machine."""
        return any(tool.name == name and leaves(tool) for tool in self.tools)


def as_tools(items: Sequence[ToolLike] | Toolbox) -> tuple[Tool, ...]:
    """`as_toolbox(items).tools`"""
    return as_toolbox(items).tools


def as_toolbox(items: Sequence[ToolLike] | Toolbox) -> Toolbox:
    """Tools from edgewise tools, request-style dictionaries and plain functions, mixed as you like.

    Raises InvalidRequest with the place of the first bad field, as in
    "tools[2].parameters.properties.hour: expected an object".
    """
    if isinstance(items, Toolbox):
        return items
    if isinstance(items, tuple) and _checked.get(id(items)) is items:
        return Toolbox(items)
    if (known := _known(items)) is not None:
        return known
    if isinstance(items, str | bytes) or not isinstance(items, Sequence):
        raise InvalidRequest(f"tools: expected a list, got {_kind(items)}")
    if len(items) > TOOLS_LIMIT:
        raise InvalidRequest(f"tools: {len(items)} tools, at most {TOOLS_LIMIT} are taken")
    tools: dict[str, Tool] = {}
    functions: dict[str, Callable[..., Any]] = {}
    for number, item in enumerate(items):
        path = f"tools[{number}]"
        tool = _tool(item, path)
        if tool.name in tools:
            earlier = list(tools).index(tool.name)
            raise InvalidRequest(f"{path}.name: {tool.name!r} is the name of tools[{earlier}] too")
        tools[tool.name] = tool
        if isinstance(item, RunnableTool):
            functions[tool.name] = item.run
        elif not isinstance(item, Tool | Mapping):
            functions[tool.name] = item
    return Toolbox(tuple(tools.values()), functions)


def _known(items: object) -> Toolbox | None:
    """What the same descriptions were read as before; None: they are not plain JSON.

    A client sends its tools with each request, each time as new objects. What was worked out about
    a tool is kept by identity (grammar/tools.py), so equal ones should be the same ones. They are
    made from a copy: whoever changes a description later changes nothing here.
    """
    if not isinstance(items, list) or not items or not all(type(one) is dict for one in items):
        return None
    try:
        text = json.dumps(items)
    except (TypeError, ValueError, RecursionError):
        return None
    if len(text) > _MOST_KNOWN:
        return None
    plain, box = _read_once(text)
    if plain != items:  # JSON has no 1 for a name, and no tuples
        return None
    if len(_checked) >= _MOST_CHECKED:
        _checked.clear()
    _checked[id(box.tools)] = box.tools
    return box


# The last tools that were read: the engine is given what the server has read, and looks again.
_MOST_CHECKED = 16
_checked: dict[int, tuple[Tool, ...]] = {}


@functools.lru_cache(16)
def _read_once(text: str) -> tuple[list[Any], Toolbox]:
    return json.loads(text), as_toolbox(tuple(json.loads(text)))


def choose(tools: tuple[Tool, ...], choice: Any) -> dict[str, Any]:
    """What a tool choice makes of a request: a named tool is the only one to be called, and once.

    `choice` is "auto", "none", "required", the name of a tool, or an object that holds this name as
    in OpenAI's and Anthropic's requests.
    """
    if isinstance(choice, str) and choice in get_args(ToolChoice):
        if choice == "required" and not tools:
            raise InvalidRequest("tool_choice = 'required': there are no tools")
        return {"tools": tools, "tool_choice": choice}
    named = choice
    if isinstance(choice, Mapping):
        inner = choice.get("function")
        named = (inner if isinstance(inner, Mapping) else choice).get("name")
    if not isinstance(named, str):
        words = ", ".join(get_args(ToolChoice))
        raise InvalidRequest(f"tool_choice: expected one of {words}, or the name of a tool")
    if not any(tool.name == named for tool in tools):
        raise InvalidRequest(f"tool_choice: there is no tool {named[:80]!r}")
    return {"tools": tools, "tool_choice": "required", "chosen": named}


def parse_tools_file(text: str) -> tuple[Tool, ...]:
    """Tools from JSON: a list of them, or an object with the list under "tools"."""
    try:
        found = json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise InvalidRequest(f"tools: not JSON: {error.msg} at {where}") from error
    except RecursionError as error:
        raise InvalidRequest("tools: nested too deeply") from error
    except ValueError as error:
        raise InvalidRequest(f"tools: not JSON: {error}") from error
    if isinstance(found, dict):
        if "tools" not in found:
            raise InvalidRequest('tools: expected a list, or an object with "tools"')
        found = found["tools"]
    return as_tools(found)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _tool(item: Any, path: str) -> Tool:
    if isinstance(item, Tool):
        _check_tool(item.name, item.description, item.parameters, path, "parameters")
        return item
    if isinstance(item, Mapping):
        return _from_mapping(item, path)
    if callable(item):
        from edgewise.calls.python_tools import tool_from_function  # noqa: PLC0415 - pydantic

        tool = tool_from_function(item, path)
        _check_tool(tool.name, tool.description, tool.parameters, path, "parameters")
        return tool
    raise InvalidRequest(f"{path}: expected a tool, an object or a function, got {_kind(item)}")


def _from_mapping(item: Mapping[str, Any], path: str) -> Tool:
    if "function" in item:
        item, path = item["function"], f"{path}.function"
        if not isinstance(item, Mapping):
            raise InvalidRequest(f"{path}: expected an object, got {_kind(item)}")
    key = next((key for key in SCHEMA_KEYS if item.get(key) is not None), SCHEMA_KEYS[0])
    schema = item.get(key)
    schema = {"type": "object", "properties": {}} if schema is None else schema
    description = item.get("description")
    description = "" if description is None else description
    _check_tool(item.get("name"), description, schema, path, key)
    return Tool(item["name"], description, schema)


def _check_tool(name: Any, description: Any, schema: Any, path: str, key: str) -> None:
    if not isinstance(name, str) or not name.strip():
        raise InvalidRequest(f"{path}.name: expected a name, got {_kind(name)}")
    if name != name.strip() or len(name) > NAME_LIMIT or any(c in "{\n\r" for c in name):
        raise InvalidRequest(f"{path}.name: {name[:40]!r} cannot be the name of a tool")
    if not isinstance(description, str):
        raise InvalidRequest(f"{path}.description: expected text, got {_kind(description)}")
    place = f"{path}.{key}"
    _check_schema(schema, place, NESTING_LIMIT)
    if schema.get("type", "object") not in ("object", "dict"):
        raise InvalidRequest(f'{place}.type: expected "object", got {schema["type"]!r}')


def _check_schema(schema: Any, place: str, depth: int) -> None:
    """Raise InvalidRequest unless every part of a JSON Schema that is read later can be read."""
    if not isinstance(schema, Mapping):
        raise InvalidRequest(f"{place}: expected an object, got {_kind(schema)}")
    if depth == 0:
        raise InvalidRequest(f"{place}: nested too deeply")
    for key, value in schema.items():
        check = _CHECKS.get(key) if isinstance(key, str) else _bad_key
        if check is not None:
            check(value, f"{place}.{key}", depth - 1)


def _bad_key(_: Any, place: str, __: int) -> None:
    raise InvalidRequest(f"{place}: names must be text")


def _check_fields(value: Any, place: str, depth: int) -> None:
    if not isinstance(value, Mapping):
        raise InvalidRequest(f"{place}: expected an object, got {_kind(value)}")
    for name, inner in value.items():
        if not isinstance(name, str):
            _bad_key(inner, f"{place}.{name}", depth)
        _check_schema(inner, f"{place}.{name}", depth)


def _check_required(value: Any, place: str, _: int) -> None:
    if isinstance(value, bool):  # {"type": "string", "required": true} is common and is read
        return
    if not isinstance(value, list | tuple):
        raise InvalidRequest(f"{place}: expected a list, got {_kind(value)}")
    for number, name in enumerate(value):
        _check_text(name, f"{place}[{number}]", 0)


def _check_text(value: Any, place: str, _: int) -> None:
    if value is not None and not isinstance(value, str):
        raise InvalidRequest(f"{place}: expected text, got {_kind(value)}")


def _check_type(value: Any, place: str, _: int) -> None:
    names = value if isinstance(value, list | tuple) else [value]
    if not names or not all(isinstance(name, str) and name for name in names):
        raise InvalidRequest(f"{place}: expected the name of a type, got {_kind(value)}")


def _check_options(value: Any, place: str, depth: int) -> None:
    if not isinstance(value, list | tuple) or not value:
        raise InvalidRequest(f"{place}: expected a list with something in it, got {_kind(value)}")
    for number, inner in enumerate(value):
        _check_schema(inner, f"{place}[{number}]", depth)


def _check_items(value: Any, place: str, depth: int) -> None:
    if isinstance(value, list | tuple):
        return _check_options(value, place, depth)
    return None if isinstance(value, bool) else _check_schema(value, place, depth)


def _check_choices(value: Any, place: str, depth: int) -> None:
    if not isinstance(value, list | tuple) or not value:
        raise InvalidRequest(f"{place}: expected a list with something in it, got {_kind(value)}")
    for number, choice in enumerate(value):
        _check_json(choice, f"{place}[{number}]", depth)


def _check_json(value: Any, place: str, depth: int) -> None:
    if value is None or isinstance(value, str | bool | int):
        return
    if isinstance(value, float) and math.isfinite(value):
        return
    if depth <= 0:
        raise InvalidRequest(f"{place}: nested too deeply")
    if isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            _check_json(inner, f"{place}[{number}]", depth - 1)
    elif isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        for key, inner in value.items():
            _check_json(inner, f"{place}.{key}", depth - 1)
    else:
        raise InvalidRequest(f"{place}: {_kind(value)} is not JSON")


def _check_number(value: Any, place: str, _: int) -> None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if value is not None and not whole and not (isinstance(value, float) and math.isfinite(value)):
        raise InvalidRequest(f"{place}: expected a number, got {_kind(value)}")


def _check_count(value: Any, place: str, _: int) -> None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if value is not None and not (whole and value >= 0):
        raise InvalidRequest(f"{place}: expected a whole number from 0, got {_kind(value)}")


_CHECKS: dict[str, Callable[[Any, str, int], None]] = {
    **dict.fromkeys(("properties", "$defs", "definitions", "patternProperties"), _check_fields),
    **dict.fromkeys(("anyOf", "oneOf", "allOf"), _check_options),
    **dict.fromkeys(("description", "title", "format", "pattern", "$ref"), _check_text),
    **dict.fromkeys(("minimum", "maximum", "multipleOf"), _check_number),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _check_count),
    **dict.fromkeys(("default", "const", "example", "examples"), _check_json),
    "additionalProperties": _check_items,
    "items": _check_items,
    "enum": _check_choices,
    "required": _check_required,
    "type": _check_type,
}


def _kind(value: Any) -> str:
    """What a value is, as JSON calls it, for a message."""
    if value is None:
        return "nothing"
    names = {bool: "true or false", str: "text", int: "a number", float: "a number"}
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list" if value else "an empty list"
    return (
        "empty text"
        if isinstance(value, str) and not value
        else names.get(type(value), type(value).__name__)
    )
