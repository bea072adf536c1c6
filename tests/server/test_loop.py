"""A server is never its own cloud: neither directly nor through another server."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from edgewise import Engine, Settings
from edgewise.cloud.http import may_be_edgewise
from edgewise.cloud.providers import PROVIDERS
from edgewise.testing import Answer, LoopbackCloud, ScriptedBackend
from tests.server.served import Served

PATHS = ("/v1/chat/completions", "/v1/messages", "/api/chat", "/v1/embeddings")


def doubtful() -> ScriptedBackend:
    return ScriptedBackend.doubtful("It may be Lyon or Paris, I am not sure.")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as found:
        yield found


def start(stack: ExitStack, home: Path, port: int, cloud_url: str, **server: Any) -> Served:
    """A doubtful server at `port`, whose cloud is at `cloud_url`."""
    settings = Settings.load(
        {"OPENAI_API_KEY": "test-key", "OPENAI_BASE_URL": cloud_url},
        data_dir=home,
        config_dir=home / "config",
        server={"port": port, "drain_s": 2.0, **server},
    )
    return stack.enter_context(Served.started(settings, doubtful()))


def test_a_server_whose_cloud_is_itself_answers_on_the_device_and_says_why(
    stack: ExitStack, tmp_path: Path
) -> None:
    port = free_port()
    served = start(stack, tmp_path, port, f"http://127.0.0.1:{port}/v1")
    answer = served.chat()
    assert answer.status_code == 200
    about = answer.json()["edgewise"]
    assert (about["source"], answer.headers["x-edgewise-degraded"]) == ("local", "cloud_loop")
    rows = served.state.engine.ledger.recent(50)
    assert len(rows) == 1, "it did not serve itself"
    assert rows[0]["cost_microdollars"] == 0
    assert "asks itself" in rows[0]["reason"]
    again = served.chat().headers["x-edgewise-degraded"]
    assert again == "cloud_loop", "it says so every time"
    refused = served.chat(model="cloud")
    assert (refused.status_code, refused.json()["error"]["code"]) == (508, "cloud_loop")
    assert refused.headers["x-should-retry"] == "false"


def test_a_key_of_the_server_does_not_hide_it(stack: ExitStack, tmp_path: Path) -> None:
    port = free_port()
    served = start(stack, tmp_path, port, f"http://localhost:{port}/v1", key="the-servers-own")
    answer = served.chat(headers={"authorization": "Bearer the-servers-own"})
    assert answer.headers["x-edgewise-degraded"] == "cloud_loop"


def test_two_servers_do_not_send_a_request_round(stack: ExitStack, tmp_path: Path) -> None:
    one, two = free_port(), free_port()
    first = start(stack, tmp_path / "one", one, f"http://127.0.0.1:{two}/v1")
    second = start(stack, tmp_path / "two", two, f"http://127.0.0.1:{one}/v1")
    answer = first.chat().json()["edgewise"]
    assert answer["source"] == "cloud", "the second one answered, on its device"
    assert len(first.state.engine.ledger.recent(50)) == 1
    (row,) = second.state.engine.ledger.recent(50)
    assert (row["source"], row["degraded_code"]) == ("local", "cloud_loop")
    assert row["cost_microdollars"] == 0
    refused = first.chat(model="cloud/openai/cloud")  # the second may only ask the first
    assert (refused.status_code, refused.json()["error"]["code"]) == (508, "cloud_loop")


@pytest.mark.parametrize("path", PATHS)
def test_a_request_that_came_through_many_servers_goes_no_further(
    session_served: Served, path: str
) -> None:
    via = ", ".join("abcde")
    answer = session_served.http.post(path, json={}, headers={"x-edgewise-via": via})
    assert answer.status_code == 508
    assert "5 edgewise servers" in answer.text
    spoilt = session_served.http.post(path, json={}, headers={"x-edgewise-via": "a/b"})
    assert spoilt.status_code == 400


def test_a_program_may_have_a_server_as_its_cloud(stack: ExitStack, tmp_path: Path) -> None:
    with LoopbackCloud() as cloud:
        cloud.always(Answer(text="Paris."))
        served = start(stack, tmp_path / "server", 0, cloud.openai_url)
        settings = Settings.load(
            {"OPENAI_API_KEY": "test-key", "OPENAI_BASE_URL": f"{served.url}/v1"},
            data_dir=tmp_path / "program",
            config_dir=tmp_path / "config",
        )
        with Engine(settings, backend=doubtful()) as engine:
            reply = engine.complete("What is the capital of France?")
            assert (reply.text, reply.source) == ("Paris.", "cloud")
            served.settle()
            via = cloud.requests[0].headers["x-edgewise-via"]
            assert via == f"{engine.parts.id}, {served.state.engine.parts.id}"


def test_a_providers_own_address_is_not_told_of_it() -> None:
    for row in PROVIDERS.values():
        local = "127.0.0.1" in row.base_url or "localhost" in row.base_url
        assert may_be_edgewise(row.name, row.base_url) == local, row.name
    assert may_be_edgewise("openai", "http://192.168.1.7:8484/v1")
    assert may_be_edgewise("my-own", "https://models.example.org/v1")


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_the_log_warns_at_the_start(
    stack: ExitStack, tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    port = free_port()
    with caplog.at_level(logging.WARNING, "edgewise.server"):
        start(stack, tmp_path, port, f"http://{name}:{port}/v1")
    assert f"openai is not asked: its address, http://{name}:{port}/v1, is this" in caplog.text


def test_another_address_gives_no_warning(
    stack: ExitStack, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "edgewise.server"):
        start(stack, tmp_path, 0, "http://127.0.0.1:9/v1")
    assert "is not asked" not in caplog.text
