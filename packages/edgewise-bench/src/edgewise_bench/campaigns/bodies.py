"""JSON bodies bent out of shape: a good one of each API, with wrong things in its places."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from typing import Any

# One good body of each API, with as many fields as it has.
GOOD: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {
        "model": "auto",
        "messages": [
            {"role": "system", "content": "Be short."},
            {"role": "user", "content": [{"type": "text", "text": "Hello?"}]},
            {
                "role": "assistant",
                "tool_calls": [
                    {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
                ],
            },
            {"role": "tool", "tool_call_id": "1", "content": "done"},
        ],
        "stream": False,
        "stream_options": {"include_usage": True},
        "logprobs": True,
        "top_logprobs": 2,
        "temperature": 0.5,
        "seed": 3,
        "max_tokens": 5,
        "stop": ["x"],
        "metadata": {"policy": "local_only", "threshold": "0.5", "privacy": "open"},
        "response_format": {"type": "text"},
    },
    "/v1/responses": {
        "model": "auto",
        "instructions": "Be short.",
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "Hello?"}]},
            {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "1"},
            {"type": "function_call_output", "call_id": "1", "output": "done"},
        ],
        "include": ["message.output_text.logprobs"],
        "max_output_tokens": 5,
        "text": {"format": {"type": "text"}},
        "metadata": {"handoff": "automatic"},
    },
    "/v1/messages": {
        "model": "auto",
        "max_tokens": 5,
        "system": [{"type": "text", "text": "Be short."}],
        "messages": [
            {"role": "user", "content": "Hello?"},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "1", "name": "f", "input": {}}],
            },
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "1", "content": "done"}],
            },
        ],
        "stop_sequences": ["x"],
        "tool_choice": {"type": "auto"},
        "metadata": {"user_id": "me"},
    },
}
# The same for the APIs that only the campaign bends.
MORE_GOOD: dict[str, dict[str, Any]] = {
    "/v1/messages/count_tokens": {
        "model": "auto",
        "messages": [{"role": "user", "content": "Hello?"}],
    },
    "/v1/embeddings": {
        "model": "auto",
        "input": ["a cat", "a dog"],
        "encoding_format": "float",
        "dimensions": 64,
    },
    "/v1/systemone": {
        "model": "auto",
        "state": {"mail": "Charged twice."},
        "questions": {
            "refund": {"type": "noul", "instructions": "Money back?", "criteria": {"true": "so"}},
            "team": {"type": "choice", "criteria": {"billing": "payments", "tech": None}},
            "anger": {"type": "score", "instructions": "How angry?", "criteria": ["calm", "mad"]},
        },
    },
    "/v1/decisions": {
        "model": "auto",
        "input": [{"role": "user", "content": [{"type": "input_text", "text": "Twice."}]}],
        "questions": [
            {"type": "predicate", "name": "refund", "instructions": "Money back."},
            {
                "type": "choice",
                "instructions": "Who?",
                "choices": [{"value": True}, {"value": "tech", "description": "bugs"}],
            },
            {"type": "score", "instructions": "How?", "levels": [{"label": "a"}, {"label": "b"}]},
        ],
    },
    "/api/chat": {
        "model": "auto",
        "messages": [{"role": "user", "content": "Hello?", "images": []}],
        "options": {"temperature": 0, "num_predict": 4, "stop": ["x"], "seed": 1},
        "format": "json",
        "stream": False,
    },
    "/api/generate": {
        "model": "auto",
        "prompt": "Hello?",
        "system": "Be short.",
        "options": {"num_predict": 4},
        "stream": False,
    },
    "/api/embed": {"model": "auto", "input": ["a cat"], "truncate": True},
    "/api/show": {"model": "auto"},
}
WORDS = ("auto", "local", "tool", "user", "text", "json_schema", "function", "\x00", "\ud800", "")
# Whole bodies that are no good anywhere.
MALFORMED: dict[str, bytes] = {
    "bytes": b"\xff\xff",
    "null": b"null",
    "missing": b'{"model": "auto"}',
    "types": b'{"model": {"a": 1}, "messages": 5, "input": {}}',
    "lists": b'{"model": "auto", "messages": [[]], "input": [[]], "max_tokens": 1}',
    "empty": b'{"model": "auto", "messages": [{}], "input": [{}], "max_tokens": 1}',
    "infinite": b'{"model": "auto", "max_tokens": 1e400}',
    "zero": b'{"model": "\\u0000", "messages": [{"role": "user", "content": "\\u0000"}],'
    b' "max_tokens": 1, "input": "\\u0000", "tools": [{}]}',
}


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place of a body that could hold something else."""
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    found = [path] if path else []
    for key, below in inner:
        found += places(below, (*path, key))
    return found


def bend(body: Any, place: tuple[Any, ...], change: Callable[[Any, Any], None]) -> None:
    """Apply `change(holder, key)` at a place; an earlier change may have taken it away."""
    *above, last = place
    try:
        for key in above:
            body = body[key]
        change(body, last)
    except (KeyError, IndexError, TypeError, AttributeError):
        return


def odd_value(rng: random.Random, depth: int = 2) -> Any:
    kind = rng.randrange(9 if depth else 7)
    if kind < 2:
        return rng.choice([None, True, False, 0, -1, 2**70, -(2**70), 1.5, 1e308, float("nan")])
    if kind < 5:
        return rng.choice(WORDS)
    if kind == 5:
        return "".join(chr(rng.randrange(1, 0xD000)) for _ in range(rng.choice([1, 20, 400])))
    if kind == 6:
        return rng.choice([[], {}, [[]], {"": {}}, "9" * 5000, "x" * 100_000])
    inner = [odd_value(rng, depth - 1) for _ in range(rng.randint(0, 3))]
    if kind == 7:
        return inner
    return {rng.choice(["type", "role", "text", "name", "content"]): each for each in inner}


def bent_body(rng: random.Random) -> tuple[str, dict[str, Any]]:
    """A path, and a body for it with up to three wrong places."""
    known = {**GOOD, **MORE_GOOD}
    path = rng.choice([*GOOD, *GOOD, *MORE_GOOD])
    body = copy.deepcopy(known[path])

    def put(holder: Any, key: Any) -> None:
        holder[key] = odd_value(rng)

    def drop(holder: Any, key: Any) -> None:
        del holder[key]

    for _ in range(rng.randint(1, 3)):
        bend(body, rng.choice(places(known[path])), rng.choice([put, drop]))
    return path, body


def large_body(rng: random.Random) -> tuple[str, bytes]:
    """Bodies that are good or nearly so, but large: slow to parse, or with far too many parts."""
    size = rng.choice([1, 4, 14])  # megabytes
    hello = {"role": "user", "content": "Hello?"}
    base: dict[str, Any] = {"model": "local", "messages": [hello], "max_tokens": 2}
    many = size * 60_000
    makers: dict[str, Callable[[], bytes]] = {
        "text": lambda: _json(base | {"messages": [hello | {"content": "word " * (many * 3)}]}),
        "messages": lambda: _json(base | {"messages": [hello] * (many // 3)}),
        "parts": lambda: _json(
            base
            | {"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}] * many}]}
        ),
        "unknown fields": lambda: _json(base | {f"field{n}": n for n in range(many)}),
        "numbers": lambda: _json(base | {"extra": list(range(many * 2))}),
        "lists": lambda: _with_extra(base, b"[" + b"[]," * (many * 4) + b"[]]"),
        "nested": lambda: _with_extra(base, b"[" * (many * 4) + b"]" * (many * 4)),
        "digits": lambda: _with_extra(base, b"9" * (size * 1_000_000)),
        "stops": lambda: _json(base | {"stop": [f"stop {number}" for number in range(many)]}),
        "metadata": lambda: _json(base | {"metadata": {f"k{n}": "v" for n in range(many)}}),
        "tools": lambda: _json(base | {"tools": [_tool(number) for number in range(many // 6)]}),
        "escapes": lambda: _with_extra(base, b'"' + b"\\u00e9" * (many * 2) + b'"'),
        "objects": lambda: _with_extra(base, b'{"a":' * 60 + b"1" + b"}" * 60 + b" " * many),
    }
    name = rng.choice(list(makers))
    return f"large {name}", makers[name]()


def _json(body: Any) -> bytes:
    return json.dumps(body).encode()


def _with_extra(base: dict[str, Any], extra: bytes) -> bytes:
    return _json(base)[:-1] + b', "extra": ' + extra + b"}"


def _tool(number: int) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {"x": {"type": "string"}}}
    return {"type": "function", "function": {"name": f"tool_{number}", "parameters": parameters}}
