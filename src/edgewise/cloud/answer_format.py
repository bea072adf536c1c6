"""How each protocol is told what JSON an answer must be: natively, or else in words."""

from __future__ import annotations

import json
from typing import Any

from edgewise.types.messages import AnswerSchema, Request


def openai_format(wanted: AnswerSchema | None) -> dict[str, Any]:
    if wanted is None:
        return {}
    if not wanted.schema:
        return {"response_format": {"type": "json_object"}}
    named = {"name": wanted.name, "schema": dict(wanted.schema), "strict": wanted.strict}
    return {"response_format": {"type": "json_schema", "json_schema": named}}


def anthropic_format(wanted: AnswerSchema | None) -> dict[str, Any]:
    """Nothing for "any object": the protocol has no word for it, so it is said in words."""
    if wanted is None or not wanted.schema:
        return {}
    return {"output_config": {"format": {"type": "json_schema", "schema": dict(wanted.schema)}}}


def gemini_format(wanted: AnswerSchema | None) -> dict[str, Any]:
    if wanted is None:
        return {}
    schema = {"response_json_schema": dict(wanted.schema)} if wanted.schema else {}
    return {"response_mime_type": "application/json", **schema}


def in_words(request: Request) -> str:
    """For protocols that have no field for it; empty where any text will do."""
    if request.answer_schema is None:
        return ""
    words = "Answer with one JSON object and nothing else."
    schema = request.answer_schema.schema
    return f"{words} It must follow this JSON Schema: {json.dumps(schema)}" if schema else words
