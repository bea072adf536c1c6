"""The type of an answer: a pydantic model, a dataclass, a TypedDict or a JSON Schema.

A class is described to the models by its JSON Schema, and makes `reply.parsed` from the answer."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from collections.abc import Mapping
from typing import Any

from typing_extensions import is_typeddict

from edgewise.errors import InvalidRequest
from edgewise.types.messages import ResponseFormat

TYPES = "a pydantic model, a dataclass, a TypedDict or a JSON Schema"


def as_response_format(given: Any) -> ResponseFormat | None:
    """Raises InvalidRequest, with one line that names the argument, for what is none."""
    if isinstance(given, ResponseFormat):
        return given
    if isinstance(given, Mapping):
        return _from_mapping(given)
    if not inspect.isclass(given):
        raise InvalidRequest(f"response_format: expected {TYPES}, got {_kind(given)}")
    is_model = hasattr(given, "model_json_schema")
    if not (is_model or dataclasses.is_dataclass(given) or is_typeddict(given)):
        raise InvalidRequest(f"response_format: the class {given.__name__} is not {TYPES}")
    from edgewise.calls.python_tools import describe_answer  # noqa: PLC0415 - pydantic

    schema, parse = describe_answer(given, "response_format")
    # OpenAI takes no other characters in a name, and no more of them.
    name = re.sub(r"[^A-Za-z0-9_-]", "_", given.__name__)[:64]
    return ResponseFormat(schema, name=name, parse=parse)


def _from_mapping(given: Mapping[str, Any]) -> ResponseFormat | None:
    """A JSON Schema, or what OpenAI's requests have in its place; none of their types is one."""
    place, kind = "response_format", given.get("type")
    if kind == "text":
        return None
    if kind == "json_object":
        return ResponseFormat()
    name, strict = "answer", False
    if kind == "json_schema":
        inner = given.get("json_schema", given)  # chat completions nest it, responses do not
        schema = inner.get("schema") if isinstance(inner, Mapping) else None
        if not isinstance(schema, Mapping):
            raise InvalidRequest(f"{place}.schema: expected an object, got {_kind(schema)}")
        name, strict = str(inner.get("name") or name), bool(inner.get("strict"))
        given = schema
    try:
        return ResponseFormat(json.loads(json.dumps(given, allow_nan=False)), name, strict)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidRequest(f"{place}: the schema is not JSON: {error}") from error


def _kind(value: Any) -> str:
    return "nothing" if value is None else f"an object of the type {type(value).__name__}"
