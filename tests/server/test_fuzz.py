"""Requests bent in every direction: a 4xx or an answer, never a 5xx."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgewise_bench.campaigns.bodies import GOOD, bend, places
from tests.campaigns import rounds
from tests.server.served import Served

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


@pytest.mark.parametrize("path", GOOD)
@settings(
    max_examples=rounds(150),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_no_bent_request_breaks_the_server(
    session_served: Served, path: str, data: st.DataObject
) -> None:
    body = copy.deepcopy(GOOD[path])

    def put(holder: Any, key: Any) -> None:
        holder[key] = data.draw(VALUES)

    def drop(holder: Any, key: Any) -> None:
        del holder[key]

    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.sampled_from(places(GOOD[path])))
        bend(body, place, data.draw(st.sampled_from([put, drop])))
    body["stream"] = False
    content = json.dumps(body)
    response = session_served.http.post(path, content=content.encode())
    assert response.status_code < 500 or response.json()["error"]["code"] == "no_key", response.text
