"""Requests bent in every direction: a 4xx or an answer, never a 5xx."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.campaigns import rounds
from tests.server.served import Served

SEEDS: dict[str, dict[str, Any]] = {
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
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["auto", "local", "tool", "user", "text", "json_schema", "function"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "role", "text", "name"]), inner, max_size=3)
    ),
    max_leaves=6,
)


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


@pytest.mark.parametrize("path", SEEDS)
@settings(
    max_examples=rounds(150),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_no_bent_request_breaks_the_server(
    session_served: Served, path: str, data: st.DataObject
) -> None:
    body = copy.deepcopy(SEEDS[path])
    for _ in range(data.draw(st.integers(1, 3))):
        *above, last = data.draw(st.sampled_from(places(SEEDS[path])))
        holder: Any = body
        try:
            for key in above:
                holder = holder[key]
            if data.draw(st.booleans()):
                holder[last] = data.draw(VALUES)
            else:
                del holder[last]
        except (KeyError, IndexError, TypeError, AttributeError):
            continue  # an earlier change took the place away
    body["stream"] = False
    content = json.dumps(body)
    response = session_served.http.post(path, content=content.encode())
    assert response.status_code < 500 or response.json()["error"]["code"] == "no_key", response.text
