"""A JSON Schema in the words that a model on the device is asked in.

The grammar holds the answer to the schema, but it cannot say what is wanted: a model that was not
told writes what it would have written, and is then forced. What leaves for a cloud is not changed:
a cloud gets the schema in its own form.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from edgewise.grammar.check import pointed_at

MOST_CHARACTERS = 3_000  # of a form: a longer one would fill the context of a small model
DEEPEST = 8  # nested values
LEAD = "Answer in JSON of exactly this form, and with nothing else:"

_FORMS = {
    "date": '"YYYY-MM-DD"',
    "time": '"HH:MM:SS+00:00"',
    "date-time": '"YYYY-MM-DDTHH:MM:SS+00:00"',
    "time-local": '"HH:MM:SS"',
    "date-time-local": '"YYYY-MM-DDTHH:MM:SS"',
    "clock-duration": '"HH:MM:SS"',
}
_BOUNDS = (
    ("minimum", "{} or more"),
    ("maximum", "at most {}"),
    ("exclusiveMinimum", "more than {}"),
    ("exclusiveMaximum", "less than {}"),
    ("minLength", "{} characters or more"),
    ("maxLength", "at most {} characters"),
    ("minItems", "{} or more"),
    ("maxItems", "at most {}"),
    ("pattern", "matches {}"),
)


def tell(schema: Mapping[str, Any]) -> str:
    """What is asked for, in a few lines; empty if that would be too long."""
    if not schema:
        return "Answer in JSON: one object, and nothing else."
    form = _Teller(schema).form(schema, 0)
    return f"{LEAD}\n{form}" if len(form) <= MOST_CHARACTERS else ""


class _Teller:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._left = MOST_CHARACTERS  # a schema may refer to itself in many ways
        self._indent = ""

    def form(self, schema: Any, depth: int) -> str:
        """As TypeScript would have it, which models have read much of."""
        if not isinstance(schema, Mapping) or not schema or depth > DEEPEST or self._left < 0:
            return "any"
        if "$ref" in schema:
            address = schema["$ref"]
            local = isinstance(address, str) and address.startswith("#")
            return self.form(pointed_at(self._root, address) if local else None, depth + 1)
        parts = schema.get("allOf")
        if _is_list(parts) and len(parts) == 1:
            return self.form(parts[0], depth + 1)
        found = self._plain(schema, depth)
        self._left -= len(found)
        return found

    def _plain(self, schema: Mapping[str, Any], depth: int) -> str:
        choices = [schema["const"]] if "const" in schema else schema.get("enum")
        if _is_list(choices):
            return " | ".join(json.dumps(each, ensure_ascii=False) for each in choices)
        for name in ("anyOf", "oneOf"):
            if _is_list(options := schema.get(name)):
                return " | ".join(dict.fromkeys(self.form(one, depth + 1) for one in options))
        kinds = schema.get("type")
        if not _is_list(kinds):
            kinds = ["object" if "properties" in schema else kinds]
        return " | ".join(self._of_kind(kind, schema, depth) for kind in kinds)

    def _of_kind(self, kind: Any, schema: Mapping[str, Any], depth: int) -> str:
        if kind == "object":
            return self._object(schema, depth)
        if kind == "array":
            return f"[{self.form(schema.get('items'), depth + 1)}, ...]"
        if kind == "string":
            return _FORMS.get(str(schema.get("format")), "string")
        return str(kind) if kind else "any"

    def _object(self, schema: Mapping[str, Any], depth: int) -> str:
        fields = schema.get("properties")
        if not isinstance(fields, Mapping) or not fields:
            return "{...}"
        required = schema.get("required")
        required = required if _is_list(required) else ()
        outside, lines = self._indent, []
        self._indent = inside = f"{outside}  "
        for number, (name, field) in enumerate(fields.items(), start=1):
            comma = "," if number < len(fields) else ""
            noted = "; ".join(_notes(field, left_out=name not in required))
            note = f"  // {noted}" if noted else ""
            key = json.dumps(name, ensure_ascii=False)
            lines.append(f"{inside}{key}: {self.form(field, depth + 1)}{comma}{note}")
        self._indent = outside
        return "\n".join(("{", *lines, f"{outside}}}"))


def _notes(field: Any, *, left_out: bool) -> list[str]:
    if not isinstance(field, Mapping):
        return []
    described = field.get("description")
    notes = [" ".join(described.split())] if isinstance(described, str) else []
    notes += [words.format(field[name]) for name, words in _BOUNDS if name in field]
    return [*notes, "may be left out"] if left_out else notes


def _is_list(value: Any) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, Sequence) and not isinstance(value, str) and bool(value)
