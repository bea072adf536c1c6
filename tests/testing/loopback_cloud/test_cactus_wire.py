"""Cactus Cloud's protocol, as a plain client meets it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx2
import pytest

from edgewise.testing import Answer, Cut, Empty, LoopbackCloud, Malformed, Silence, Status
from edgewise.types.messages import ToolCall

BODY = {"text": "[user] Capital of Norway?", "language": "en-US", "model": "some-model"}


@pytest.fixture
def cloud() -> Iterator[LoopbackCloud]:
    with LoopbackCloud() as cloud:
        yield cloud


def post(cloud: LoopbackCloud, *, timeout: float = 5.0) -> httpx2.Response:
    return httpx2.post(
        f"{cloud.cactus_url}/text", json=BODY, headers={"X-API-Key": "secret"}, timeout=timeout
    )


def test_an_answer_carries_text_and_function_calls(cloud: LoopbackCloud) -> None:
    cloud.script(Answer(text="Oslo.", tool_calls=(ToolCall("weather", {"city": "Oslo"}),)))
    assert post(cloud).json() == {
        "text": "Oslo.",
        "function_calls": [{"name": "weather", "arguments": {"city": "Oslo"}}],
    }


def test_the_request_is_seen_as_it_was_sent(cloud: LoopbackCloud) -> None:
    post(cloud)
    (seen,) = cloud.requests
    assert (seen.path, seen.protocol, seen.stream) == ("/api/v1/text", "cactus", False)
    assert seen.headers["x-api-key"] == "secret"
    assert seen.body == BODY


def test_a_body_without_text_is_refused(cloud: LoopbackCloud) -> None:
    response = httpx2.post(f"{cloud.cactus_url}/text", json={"model": "m"})
    assert response.status_code == 400
    assert "text" in response.json()["error"]


@pytest.mark.parametrize("status", [401, 429, 500])
def test_a_status_is_sent_with_an_error_and_a_waiting_time(
    cloud: LoopbackCloud, status: int
) -> None:
    cloud.script(Status(status, retry_after_s=2, message="no"))
    response = post(cloud)
    assert response.status_code == status
    assert response.json() == {"error": "no"}
    assert response.headers["retry-after"] == "2"


def test_a_status_after_chunks_is_sent_at_once_as_nothing_is_streamed(
    cloud: LoopbackCloud,
) -> None:
    cloud.script(Status(500, after_chunks=2))
    assert post(cloud).status_code == 500


def test_a_broken_answer_raises(cloud: LoopbackCloud) -> None:
    cloud.script(Cut(), Cut(how="close"), Cut(how="end"), Malformed())
    with pytest.raises(httpx2.ReadError):
        post(cloud)
    with pytest.raises(httpx2.RemoteProtocolError):
        post(cloud)
    for _ in range(2):
        response = post(cloud)
        assert response.status_code == 200
        with pytest.raises(json.JSONDecodeError):
            response.json()


def test_an_empty_answer_is_well_formed(cloud: LoopbackCloud) -> None:
    cloud.script(Empty())
    assert post(cloud).json() == {"text": "", "function_calls": []}


def test_silence_outlasts_the_patience_of_the_client(cloud: LoopbackCloud) -> None:
    cloud.script(Silence(after_chunks=2))
    with pytest.raises(httpx2.ReadTimeout):
        post(cloud, timeout=0.2)
    cloud.wait_for(lambda cloud: cloud.disconnects == 1)
