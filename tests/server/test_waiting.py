"""What a client gets while it waits, and bodies that come packed."""

from __future__ import annotations

import asyncio
import gzip
import importlib
import json
import sys
import zlib
from typing import Any

import httpx2
import pytest

from edgewise.server import app
from edgewise.testing import Answer, LoopbackCloud, ScriptedBackend, Status
from tests.server.conftest import Serving
from tests.server.served import HELLO, Served

ASKED: dict[str, Any] = {"model": "cloud/openai", "messages": HELLO, "max_tokens": 50}
ZSTD = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
PATHS = ("/v1/chat/completions", "/v1/messages")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "PING_S", 0.1)


def streamed(served: Served, path: str) -> httpx2.Response:
    return served.http.post(path, json={**ASKED, "stream": True})


@pytest.mark.parametrize("path", PATHS)
def test_a_client_that_waits_is_told_that_somebody_is_there(
    serving: Serving, cloud: LoopbackCloud, path: str
) -> None:
    cloud.always(Answer(text="Paris.", delay_first_s=1.0, delay_between_s=0.3, chunk_size=3))
    answer = streamed(serving(), path)
    first, *events = answer.text.split("\n\n")
    assert first in (": waiting", 'event: ping\ndata: {"type":"ping"}')
    assert answer.headers["x-edgewise-id"] and answer.status_code == 200
    data = [each.partition("data: ")[2] for each in events if "data: {" in each]
    told = [json.loads(each) for each in data]
    texts = [each.get("delta", {}).get("text") or "" for each in told]
    texts += [
        choice["delta"].get("content") or "" for each in told for choice in each.get("choices", ())
    ]
    assert "".join(texts) == "Paris."


@pytest.mark.parametrize("path", PATHS)
def test_a_fault_after_a_ping_is_an_event(
    serving: Serving, cloud: LoopbackCloud, path: str
) -> None:
    served = serving(settings={"chain": ("openai",)})

    def slow(_: object) -> Status:
        import time

        time.sleep(1.0)
        return Status(400, message="no such thing")

    cloud.always(slow)
    late = streamed(served, path)
    assert late.status_code == 200 and "no such thing" in late.text.splitlines()[-2]


def test_a_quick_answer_has_no_ping(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "PING_S", 60.0)
    answer = serving(ScriptedBackend.confident("Paris.")).http.post(
        PATHS[0], json={**ASKED, "model": "local", "stream": True}
    )
    assert ": waiting" not in answer.text and answer.headers["x-edgewise-source"] == "local"


def test_packed_bodies_are_read(served: Served) -> None:
    plain = json.dumps({"model": "local", "messages": HELLO}).encode()
    for encoding, body in (("gzip", gzip.compress(plain)), ("deflate", zlib.compress(plain))):
        answer = served.http.post(PATHS[0], content=body, headers={"content-encoding": encoding})
        assert answer.json()["choices"][0]["message"]["content"].startswith("Paris")


GOOD = json.dumps({"model": "local", "messages": HELLO}).encode()


@pytest.mark.parametrize(
    ("encoding", "body", "status"),
    [
        ("gzip", b"no gzip", 400),
        ("gzip", gzip.compress(b"{}" * 1000, mtime=0)[:-9], 400),
        ("gzip", gzip.compress(b" " * 30_000_000, mtime=0), 413),
        ("gzip", gzip.compress(GOOD, mtime=0) + b"what is this", 400),
        ("gzip", gzip.compress(GOOD, mtime=0) + gzip.compress(GOOD, mtime=0), 400),
        ("br", b"x", 415),
    ],
)
def test_packed_bodies_keep_to_the_limits(
    served: Served, encoding: str, body: bytes, status: int
) -> None:
    answer = served.http.post(PATHS[0], content=body, headers={"content-encoding": encoding})
    assert answer.status_code == status, answer.text
    assert served.state.bodies.used == 0


def test_a_packed_body_leaves_its_room_where_there_is_no_thread_to_unpack_it(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def exhausted(*_: object) -> bytes:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(asyncio, "to_thread", exhausted)
        packed = {"content-encoding": "gzip"}
        busy = served.http.post(PATHS[0], content=gzip.compress(GOOD), headers=packed)
    assert (busy.status_code, busy.json()["error"]["code"]) == (429, "server_busy")
    assert served.state.bodies.used == 0


def test_zstd_is_read_and_where_its_library_is_missing_the_answer_names_it(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    zstd = importlib.import_module(ZSTD)
    body = zstd.compress(json.dumps({"model": "local", "messages": HELLO}).encode())
    answer = served.http.post(PATHS[0], content=body, headers={"content-encoding": "zstd"})
    assert answer.status_code == 200, answer.text
    for name in ("compression.zstd", "backports.zstd"):
        monkeypatch.setitem(sys.modules, name, None)
    answer = served.http.post(PATHS[0], content=body, headers={"content-encoding": "zstd"})
    assert (answer.status_code, "backports.zstd" in answer.text) == (415, True)


def test_the_tools_that_only_a_provider_has_are_counted(served: Served) -> None:
    asked = {"model": "auto", "messages": HELLO, "tools": [{"name": "go", "input_schema": {}}]}
    few = served.http.post("/v1/messages/count_tokens", json=asked).json()["input_tokens"]
    search = {"type": "web_search_20250305", "name": "web_search", "allowed_domains": ["a.org"] * 9}
    asked["tools"] = [*asked["tools"], search]
    more = served.http.post("/v1/messages/count_tokens", json=asked).json()["input_tokens"]
    assert more > few + 20
