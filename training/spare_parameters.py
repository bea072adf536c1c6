"""Optional parameters that real interfaces have and no request mentions: they are left alone."""

from __future__ import annotations

from random import Random
from typing import Any

_EXTRAS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("limit", {"type": "integer", "default": 10, "description": "Maximum number of results"}),
    ("page", {"type": "integer", "default": 1}),
    ("verbose", {"type": "boolean", "default": False, "description": "Return more detail"}),
    ("format", {"type": "string", "enum": ["json", "xml", "text"], "default": "json"}),
    ("language", {"type": "string", "default": "en", "description": "Language of the reply"}),
    ("api_key", {"type": "string", "description": "Key of the service, if needed"}),
    ("timeout", {"type": "number", "default": 30, "description": "Seconds to wait"}),
    ("units", {"type": "string", "enum": ["metric", "imperial"], "default": "metric"}),
    ("sort_by", {"type": "string", "description": "Field to sort the results by"}),
    ("dry_run", {"type": "boolean", "default": False, "description": "Only pretend"}),
    ("tags", {"type": "array", "items": {"type": "string"}, "description": "Labels to attach"}),
    ("notes", {"type": "string", "default": "", "description": "Anything else"}),
    ("request_id", {"type": "string", "description": "Id for tracing"}),
    ("precision", {"type": "integer", "default": 2, "description": "Decimal places"}),
    ("timezone", {"type": "string", "default": "UTC"}),
    ("cache", {"type": "boolean", "default": True}),
    ("metadata", {"type": "object", "description": "Additional data"}),
)


def add_spare_parameters(schema: dict[str, Any], rng: Random) -> None:
    """Optional parameters no request mentions: they must be left alone."""
    if rng.random() > 0.15:
        return
    for name, extra in rng.sample(_EXTRAS, rng.choice((1, 1, 2, 3))):
        schema["properties"].setdefault(name, dict(extra))
