"""The words that the description is written in: small builders of JSON Schemas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Schema = dict[str, Any]

ANYTHING: Schema = {}
TEXT: Schema = {"type": "string"}
WORD: Schema = {"type": "string", "minLength": 1}
FLAG: Schema = {"type": "boolean"}
COUNT: Schema = {"type": "integer", "minimum": 0}
AMOUNT: Schema = {"type": "number", "minimum": 0}
NUMBER: Schema = {"type": "number"}
CHANCE: Schema = {"type": "number", "minimum": 0, "maximum": 1}
OBJECT: Schema = {"type": "object"}


def whole(low: int, high: int) -> Schema:
    return {"type": "integer", "minimum": low, "maximum": high}


def number(low: float, high: float) -> Schema:
    return {"type": "number", "minimum": low, "maximum": high}


def choice(*known: str | int | bool) -> Schema:
    return {"enum": list(known)}


def known_or(schema: Schema, *known: str) -> Schema:
    """Names that mean something everywhere, among others."""
    return {"anyOf": [choice(*known), schema]}


def listed(items: Schema, **limits: int) -> Schema:
    return {"type": "array", "items": items, **limits}


def either(*schemas: Schema) -> Schema:
    return {"anyOf": list(schemas)}


def maybe(schema: Schema) -> Schema:
    """Or null."""
    if schema.get("type") == "null":
        return schema
    if isinstance(schema.get("type"), str):
        return schema | {"type": [schema["type"], "null"]}
    if "enum" in schema:
        return schema | {"enum": [*schema["enum"], None]}
    if "anyOf" in schema:
        return schema | {"anyOf": [*schema["anyOf"], {"type": "null"}]}
    return either(schema, {"type": "null"})


def record(fields: Mapping[str, Schema], *, optional: Sequence[str] = ()) -> Schema:
    """An object of an answer: all these fields are there, but the optional ones."""
    required = [name for name in fields if name not in optional]
    return {"type": "object", "properties": dict(fields), "required": required}


def asked(required: Mapping[str, Schema], given: Mapping[str, Schema] | None = None) -> Schema:
    """An object of a request. Besides what is required, null counts as not given."""
    more = {name: maybe(schema) for name, schema in (given or {}).items()}
    found: Schema = {"type": "object", "properties": {**required, **more}}
    return found | ({"required": list(required)} if required else {})


def mapped(values: Schema) -> Schema:
    """An object whose names are data."""
    return {"type": "object", "additionalProperties": values}


def said(words: str, schema: Schema) -> Schema:
    return schema | {"description": words}


def named(name: str) -> Schema:
    """A schema of the description's own shelf."""
    return {"$ref": f"#/components/schemas/{name}"}
