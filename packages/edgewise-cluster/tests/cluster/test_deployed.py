"""A real Ray Serve with HAProxy: streams, deaths, an upgrade, and the server's own contract.

The tests follow each other: each goes on with what the one before it has deployed.
"""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import ollama
import openai
import pytest
import websockets.sync.client
from tests.conftest import MODELS_DIR
from tests.pictures import as_file, page
from typing_extensions import override

from cluster.conftest import Cluster
from cluster.scripted import WORDS

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="HAProxy comes for Linux only"),
    pytest.mark.timeout(600),
    pytest.mark.xdist_group("cluster"),
]
CONTRACT = Path(__file__).parents[4] / "tests" / "server" / "openai_contract.py"

SLOW = """
[fronts]
replicas = 2
cpus = 0.1
[models.chat]
replicas = 2
cpus = 0.1
[settings.server]
total_s = 120.0
"""
ALL = """
[fronts]
replicas = 2
cpus = 0.1
[models]
chat = { replicas = 2, cpus = 0.1 }
calls = { cpus = 0.1 }
speech = { cpus = 0.1 }
embeddings = { cpus = 0.1 }
[settings.server]
total_s = 30.0
"""
PATIENCE_S = 180.0  # shared machines stop for seconds
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F"}  # 127.0.0.1, also as an IPv6 address
ONE = """
[fronts]
replicas = 1
cpus = 0.1
[models]
chat = { cpus = 0.5 }
vision = { cpus = 0.1 }
"""


class Told(Exception):
    """The last event of the stream was an error."""


class Stream(threading.Thread):
    """Reads one streamed answer, and keeps how it ended."""

    def __init__(self, url: str, question: str) -> None:
        super().__init__(daemon=True)
        self._url, self._question = url, question
        self.text, self.done = "", False
        self.begun = threading.Event()
        self.error: Exception | None = None
        self.start()

    def again(self) -> Stream:
        return Stream(self._url, self._question)

    @override
    def run(self) -> None:
        body = {
            "model": "auto",
            "stream": True,
            "messages": [{"role": "user", "content": self._question}],
        }
        try:
            with httpx2.stream(
                "POST", f"{self._url}/v1/chat/completions", json=body, timeout=60
            ) as answer:
                for line in answer.iter_lines():
                    self._take(line)
        except (httpx2.HTTPError, Told) as error:
            self.error = error

    def _take(self, line: str) -> None:
        words = line.removeprefix("data: ")
        if words == "[DONE]":
            self.done = True
        elif words.startswith("{"):
            chunk = json.loads(words)
            if "error" in chunk:
                raise Told(chunk["error"])
            for choice in chunk["choices"]:
                self.text += choice["delta"].get("content") or ""
            if self.text:
                self.begun.set()


def streams(cluster: Cluster, count: int = 6) -> list[Stream]:
    """So many answers, each of which has begun.

    HAProxy needs a moment to learn which replicas are there. What it could not begin is asked
    again, as a client would.
    """
    running = [Stream(cluster.url, f"Question {number}?") for number in range(count)]
    until = time.monotonic() + PATIENCE_S
    while not all(each.begun.is_set() for each in running):
        assert time.monotonic() < until, [each.error for each in running]
        running = [each.again() if each.error and not each.text else each for each in running]
        time.sleep(0.1)
    return running


def eventually(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < until, "it did not come to that"
        time.sleep(0.1)


def counted(cluster: Cluster) -> str:
    return httpx2.get(f"{cluster.url}/metrics", timeout=30).text


def test_a_file_becomes_an_application(cluster: Cluster) -> None:
    cluster.write("slow", SLOW)
    told = cluster.edgewise()
    assert told["status"] == "running" and told["url"] == cluster.url
    running = {name: each["replicas"] for name, each in told["deployments"].items()}
    assert running == {"front": {"running": 2}, "chat": {"running": 2}}
    assert httpx2.get(f"{cluster.url}/readyz").json() == {
        "status": "ready",
        "local_model": "scripted-1",
    }


def test_nothing_listens_to_other_machines(cluster: Cluster) -> None:
    listening = cluster.listening()
    assert any("haproxy" in title and found for title, found in listening.items())
    assert any("ServeReplica" in title and found for title, found in listening.items())
    assert set().union(*listening.values()) <= LOOPBACK, listening


def test_other_users_cannot_reach_its_sockets_and_logs(cluster: Cluster) -> None:
    assert stat.S_IMODE(cluster.folder.stat().st_mode) == 0o700


def test_streams_go_on_when_a_model_replica_dies(cluster: Cluster) -> None:
    running = streams(cluster)
    os.kill(cluster.processes("chat")[0], signal.SIGKILL)
    for each in running:
        each.join(PATIENCE_S)
        assert (each.error, each.done, each.text) == (None, True, WORDS)
    eventually(lambda: len(cluster.processes("chat")) == 2)


def test_a_front_that_dies_is_an_error_for_its_clients_not_an_end(cluster: Cluster) -> None:
    cut: list[Stream] = []
    until, rounds = time.monotonic() + 2 * PATIENCE_S, 0
    while not cut:  # now and then the other front has all of them
        assert time.monotonic() < until, "no stream was cut"
        eventually(lambda: len(cluster.processes("front")) == 2)
        running = streams(cluster)
        os.kill(cluster.processes("front")[rounds % 2], signal.SIGKILL)
        rounds += 1
        for each in running:
            each.join(PATIENCE_S)
        whole = [each for each in running if each.text == WORDS and each.done]
        cut = [each for each in running if isinstance(each.error, httpx2.TransportError | Told)]
        odd = [each for each in running if each not in whole and each not in cut]
        # Not one that ended as if it were whole, nor one that nobody ended.
        assert not odd, [(each.text, each.done, each.error, each.is_alive()) for each in odd]
        assert all(WORDS.startswith(each.text) for each in cut)
    eventually(lambda: len(cluster.processes("front")) == 2)


def test_metrics_are_those_of_all_replicas(cluster: Cluster) -> None:
    eventually(lambda: len({_replica(line) for line in counted(cluster).splitlines()} - {""}) == 4)
    written = counted(cluster)
    assert 'edgewise_requests_total{code="policy_local' in written or "_total{" in written
    assert written.count("# TYPE edgewise_slots gauge") == 1


def _replica(line: str) -> str:
    return line.partition('replica="')[2].partition('"')[0]


def test_an_upgrade_loses_no_stream(cluster: Cluster) -> None:
    before = set(cluster.processes("front")) | set(cluster.processes("chat"))
    running = streams(cluster)
    cluster.write("contract", ALL)
    asked: list[Stream] = []
    upgraded = threading.Event()

    def keep_asking() -> None:
        while not upgraded.is_set():
            asked.append(Stream(cluster.url, f"Meanwhile {len(asked)}?"))
            time.sleep(0.5)

    client = threading.Thread(target=keep_asking, daemon=True)
    client.start()
    try:
        told = cluster.edgewise()
    finally:
        upgraded.set()
    client.join(10)
    for each in (*running, *asked):
        each.join(PATIENCE_S)
        assert each.error is None and each.done, each.text
        assert each.text in (WORDS, '{"city": "Paris"}')
    assert told["status"] == "running"
    assert set(told["deployments"]) == {"front", "chat", "calls", "speech", "embeddings"}
    eventually(lambda: not before & set(cluster.processes("front") + cluster.processes("chat")))


def test_the_servers_contract_holds_here_too(cluster: Cluster) -> None:
    done = subprocess.run(
        [sys.executable, str(CONTRACT), cluster.url], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "all good" in done.stdout


def test_every_door_streams_to_its_official_client(cluster: Cluster) -> None:
    question: Any = [{"role": "user", "content": "Name a city."}]
    city = '{"city": "Paris"}'
    with (
        anthropic.Anthropic(base_url=cluster.url, api_key="any", max_retries=0) as theirs,
        theirs.messages.stream(model="auto", max_tokens=64, messages=question) as stream,
    ):
        assert "".join(stream.text_stream) == city
    with ollama.Client(cluster.url) as client:
        said = client.chat("auto", question, stream=True)
        assert "".join(part.message.content or "" for part in said) == city


def test_live_sessions_come_through(cluster: Cluster) -> None:
    address = f"{cluster.url}/v1/realtime?intent=transcription".replace("http", "ws", 1)
    with websockets.sync.client.connect(address) as connection:
        assert json.loads(connection.recv(timeout=30))["type"] == "session.created"


def test_what_a_model_refuses_is_refused_as_it_is_on_one_machine(cluster: Cluster) -> None:
    long: Any = [{"role": "user", "content": "word " * 5000}]
    with (
        openai.OpenAI(base_url=f"{cluster.url}/v1", api_key="any", max_retries=0) as client,
        pytest.raises(openai.APIStatusError, match="context window holds 4096"),
    ):
        client.chat.completions.create(model="local", messages=long)


def test_all_replicas_write_one_ledger(cluster: Cluster) -> None:
    pages = [httpx2.get(f"{cluster.url}/edgewise/requests").json() for _ in range(4)]
    first = {row["id"] for row in pages[0]["requests"]}
    assert first and all({row["id"] for row in page["requests"]} == first for page in pages)


@pytest.mark.real_model
def test_real_models_answer_and_see_in_replicas_of_their_own(
    cluster: Cluster, default_model: Any
) -> None:
    settings = f'model = "tiny"\npolicy = "local_only"\ncache_dir = "{MODELS_DIR.parent}"\n'
    cluster.write("", f"{ONE}[settings]\n{settings}threads = 1\n")
    assert cluster.edgewise()["status"] == "running"
    question: Any = [{"role": "user", "content": "What is the capital of France?"}]
    with openai.OpenAI(base_url=f"{cluster.url}/v1", api_key="any", max_retries=0) as client:
        answer = client.chat.completions.create(model="auto", messages=question)
        picture = base64.b64encode(as_file(page("Platform nine"))).decode()
        shown: Any = [
            {"type": "text", "text": "What does the sign say?"},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{picture}"}},
        ]
        seen = client.chat.completions.create(
            model="auto", messages=[{"role": "user", "content": shown}]
        )
    assert answer.model == f"local/{default_model.name}"
    assert "Paris" in (answer.choices[0].message.content or "")
    assert "Platform nine" in (seen.choices[0].message.content or "")
    assert re.search(r'edgewise_slots\{.*replica="vision-', counted(cluster))
    assert 'edgewise_model_up{model="' in counted(cluster)
