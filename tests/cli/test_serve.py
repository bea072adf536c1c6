"""`edgewise serve` as a process: starts, serves, drains, ends."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest
from typing_extensions import override

from edgewise.cli.serve import request_line
from edgewise.local.store import InstalledModel
from edgewise.record.ledger import Ledger
from edgewise.settings import Settings
from edgewise.testing import Answer, LoopbackCloud
from tests.cli.conftest import Open, Run

HELLO = [{"role": "user", "content": "Hello?"}]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX's")


@pytest.fixture
def cloud() -> Iterator[LoopbackCloud]:
    with LoopbackCloud() as server:
        server.always(Answer(text="From afar."))
        yield server


@contextmanager
def process(cloud: LoopbackCloud, *words: str, **variables: str) -> Iterator[subprocess.Popen[str]]:
    environment = os.environ | {
        "OPENAI_API_KEY": "sk-cloud-secret-0123456789",
        "OPENAI_BASE_URL": cloud.openai_url,
        **variables,
    }
    started = subprocess.Popen(
        [sys.executable, "-m", "edgewise", "serve", "--policy", "cloud_only", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        yield started
    finally:
        started.kill()
        started.communicate()


def address(started: subprocess.Popen[str]) -> str:
    assert started.stdout
    said = ""
    while "}" not in said:
        line = started.stdout.readline()
        assert line, started.stderr and started.stderr.read()
        said += line
    found: dict[str, str] = json.loads(said)
    assert found["openai_base_url"] == f"{found['url']}/v1"
    return found["url"]


def post(url: str, **body: Any) -> httpx2.Response:
    whole = {"model": "auto", "messages": HELLO, **body}
    return httpx2.post(f"{url}/v1/chat/completions", json=whole, timeout=30)


def test_it_says_where_it_listens_with_a_line_to_try(cloud: LoopbackCloud) -> None:
    with process(cloud, "--port", "0") as started:
        assert started.stdout
        first = started.stdout.readline()
        assert first.startswith("Listening on http://127.0.0.1:")
        shown = started.stdout.readline() + started.stdout.readline()
        assert shown.startswith("curl ")
        if shutil.which("curl"):
            line = shown.replace("curl ", "curl --silent --retry-connrefused --retry 5 ", 1)
            done = subprocess.run(line, shell=True, capture_output=True, text=True, check=True)
            assert json.loads(done.stdout)["choices"][0]["message"]["content"] == "From afar."


def test_sigterm_lets_a_running_stream_finish_and_ends_well(cloud: LoopbackCloud) -> None:
    cloud.always(Answer(text="one two three four five", chunk_size=4, delay_between_s=0.15))
    with process(cloud, "--port", "0", "--json") as started:
        url = address(started)
        body = {"model": "auto", "messages": HELLO, "stream": True}
        text = ""
        with httpx2.stream("POST", f"{url}/v1/chat/completions", json=body, timeout=30) as stream:
            lines = stream.iter_lines()
            next(lines)
            started.send_signal(signal.SIGTERM)
            text = "\n".join(lines)
        assert text.endswith("data: [DONE]\n")
        assert started.wait(60) == 0
        with pytest.raises(httpx2.ConnectError):
            httpx2.get(f"{url}/healthz")


@pytest.mark.real_model
@pytest.mark.skipif(sys.platform != "linux", reason="the system's list of processes is Linux's")
def test_sigterm_to_all_processes_lets_a_local_stream_finish_and_leaves_none(
    cloud: LoopbackCloud, default_model: InstalledModel
) -> None:
    """A service manager sends it to the server and to the model's process alike."""
    with process(cloud, "--port", "0", "--json", EDGEWISE_THREADS="1") as started:
        url = address(started)
        body = {"model": "local", "messages": HELLO, "stream": True, "max_tokens": 32}
        with httpx2.stream("POST", f"{url}/v1/chat/completions", json=body, timeout=60) as stream:
            lines = stream.iter_lines()
            next(lines)
            models = children(started.pid)
            assert models
            for each in (started.pid, *models):
                os.kill(each, signal.SIGTERM)
            text = "\n".join(lines)
        assert text.endswith("data: [DONE]\n")
        assert started.wait(60) == 0
        assert not [each for each in models if Path(f"/proc/{each}").exists()]


def children(process: int) -> list[int]:
    lists = Path(f"/proc/{process}/task").glob("*/children")
    return [int(each) for found in lists for each in found.read_text("ascii").split()]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_what_does_not_finish_in_time_is_cancelled(cloud: LoopbackCloud, number: int) -> None:
    cloud.always(Answer(text="word " * 1000, delay_between_s=0.1))
    home = Path(os.environ["EDGEWISE_HOME"])
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.toml").write_text("[server]\ndrain_s = 1\n", "utf-8")
    with process(cloud, "--port", "0", "--json", EDGEWISE_CONFIG_DIR=str(home)) as started:
        url = address(started)
        asking = threading.Thread(target=lambda: _ignored(url))
        asking.start()
        cloud.wait_for(lambda seen: len(seen.requests) == 1, timeout=20)
        started.send_signal(number)
        assert started.wait(60) == 0
        cloud.wait_for(lambda seen: seen.disconnects == 1)
        asking.join(60)
    ledger = Ledger(Settings.load().ledger_path)
    (row,) = ledger.recent()
    found = ledger.get(row["id"])
    ledger.close()
    assert row["error_code"] == "cancelled"
    assert found and [each["state"] for each in found["attempts"]] == ["settled"]


def _ignored(url: str) -> None:
    with suppress(httpx2.HTTPError):
        post(url, stream=True)


def test_the_log_is_json_without_words_or_keys(cloud: LoopbackCloud) -> None:
    with process(cloud, "--port", "0", "--json", EDGEWISE_SERVER_KEY="server-key-1") as started:
        url = address(started)
        assert post(url).status_code == 401
        headers = {"authorization": "Bearer server-key-1"}
        body = {"model": "auto", "messages": HELLO}
        answer = httpx2.post(f"{url}/v1/chat/completions", json=body, headers=headers, timeout=30)
        assert answer.status_code == 200
        started.send_signal(signal.SIGINT)
        assert started.wait(60) == 0
        assert started.stderr
        lines = [json.loads(line) for line in started.stderr.read().splitlines()]
    served = [line for line in lines if line.get("endpoint") == "chat.completions"]
    assert [line["status"] for line in served if "source" in line] == [200]
    for word in ("server-key", "sk-cloud", "Hello", "afar"):
        assert word not in json.dumps(lines)


@pytest.mark.parametrize("by", ["flags", "variables"])
def test_a_container_reaches_it_by_name_without_a_config_file(
    cloud: LoopbackCloud, by: str
) -> None:
    """As Docker's host.docker.internal; the key comes with every request."""
    words = ("--host", "0.0.0.0", "--key", "k-1", "--allow-host", "host.docker.internal")
    variables = {
        "EDGEWISE_SERVER_HOST": "0.0.0.0",
        "EDGEWISE_SERVER_KEY": "k-1",
        "EDGEWISE_SERVER_HOSTS": "host.docker.internal",
    }
    given: dict[str, Any] = {"flags": (words, {}), "variables": ((), variables)}
    options, environment = given[by]
    with process(cloud, "--port", "0", "--json", *options, **environment) as started:
        url = address(started)
        right = {"authorization": "Bearer k-1", "host": "host.docker.internal:8484"}
        body = {"model": "auto:latest", "messages": HELLO, "stream": False}

        def status(**headers: str) -> int:
            answer = httpx2.post(f"{url}/api/chat", json=body, headers=right | headers, timeout=30)
            return answer.status_code

        assert status() == 200
        assert status(authorization="Bearer k-2") == 401
        assert status(host="elsewhere.example") == 403


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--host", "0.0.0.0"), "key"),
        (("--port", "99999"), "range"),
        (("--host", "256.1.1.1", "--key", "k"), "cannot listen"),
    ],
)
def test_impossible_options_are_refused(
    cloud: LoopbackCloud, words: tuple[str, ...], said: str
) -> None:
    with process(cloud, *words) as started:
        assert started.wait(30) == 2
        assert started.stderr and said in started.stderr.read()


def test_without_a_key_nothing_is_fetched_for_strangers(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container that was started without one: it says so at once."""

    def fetch(*_: object) -> None:
        raise AssertionError("a model is fetched that nobody may ask")

    monkeypatch.setattr("edgewise.cli.serve.choose_model", fetch)
    ran = run("serve", "--host", "0.0.0.0")
    assert (ran.code, ran.out) == (2, "")
    assert "make a key first (edgewise keys add NAME, --key, EDGEWISE_SERVER_KEY" in ran.err
    assert "or say --open" in ran.err


def test_spans_go_where_the_environment_says(cloud: LoopbackCloud) -> None:
    posted: list[str] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            posted.append(self.path)
            self.send_response(200)
            self.end_headers()

        @override
        def log_message(self, *_: object) -> None:
            """Quiet."""

    home = Path(os.environ["EDGEWISE_HOME"])
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.toml").write_text("[server]\notel = true\n", "utf-8")
    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as collector:
        threading.Thread(target=collector.serve_forever, daemon=True).start()
        variables = {
            "EDGEWISE_CONFIG_DIR": str(home),
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.server_port}",
        }
        with process(cloud, "--port", "0", "--json", **variables) as started:
            assert post(address(started)).status_code == 200
            started.send_signal(signal.SIGTERM)
            assert started.wait(30) == 0
        collector.shutdown()
    assert "/v1/traces" in posted and "/v1/metrics" in posted


def test_in_a_terminal_the_log_is_for_people(
    cloud: LoopbackCloud, terminal: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    monkeypatch.setenv("OPENAI_BASE_URL", cloud.openai_url)
    shown = terminal("serve", "--port", "0", "--policy", "cloud_only", columns=160)
    shown.wait_for("Listening on http://")
    shown.wait_for("Hello")
    url = re.findall(r"Listening on (\S+)", shown.text)[0]
    assert post(url).status_code == 200
    assert post(url, max_tokens="many").status_code == 400
    shown.wait_for(" 400 ")
    shown.press("\x03")
    assert shown.finish() == 0
    good, bad = [line for line in shown.text.splitlines() if "chat.completions ·" in line]
    assert re.fullmatch(
        r"\d\d:\d\d:\d\d 200 chat\.completions · 127\.0\.0\.1 · auto · cloud gpt-6-luna · "
        r"12\+8 tokens · [\d,]+ ms · \$0\.\d+",
        good,
    )
    assert re.fullmatch(
        r"\S+ 400 chat\.completions · 127\.0\.0\.1 · .*[\d,]+ ms · invalid_\w+", bad
    )
    assert "\x1b[32m200" in shown.raw and '{"at"' not in shown.raw


def test_in_a_terminal_json_can_be_asked_for(
    cloud: LoopbackCloud, terminal: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    monkeypatch.setenv("OPENAI_BASE_URL", cloud.openai_url)
    words = ("serve", "--port", "0", "--policy", "cloud_only", "--log-format", "json")
    shown = terminal(*words, columns=400)
    shown.wait_for("Hello")
    assert post(re.findall(r"Listening on (\S+)", shown.text)[0]).status_code == 200
    shown.wait_for('"attempts": 1}')
    shown.press("\x03")
    assert shown.finish() == 0


def test_a_line_of_the_log_marks_what_a_reader_should_notice() -> None:
    request = {
        "at": 0.0, "status": 200, "endpoint": "ollama.chat", "client": "phone", "model": "auto",
        "source": "local", "answered_by": "tiny\x1b[31m", "confidence": 0.923,
        "confidence_verified": False, "input_tokens": 5, "output_tokens": 7, "total_ms": 12_345.0,
        "cost_microdollars": 0, "needs_cloud_handoff": True, "degraded": "no_key", "left": True,
        "code": "kept_in_doubt",
    }  # fmt: skip
    words = "".join(part if isinstance(part, str) else part[0] for part in request_line(request))
    assert words[9:] == (
        "200 ollama.chat · phone · auto · device tiny\x1b[31m · confidence 0.92 (unverified) · 5+7 "
        "tokens · 12.3 s · $0 · in doubt · degraded: no_key · the client left"
    )
    turned_away = {"at": 0.0, "endpoint": "models", "client": "", "status": 401, "code": "bad_key"}
    words = "".join(
        part if isinstance(part, str) else part[0] for part in request_line(turned_away)
    )
    assert words[9:] == "401 models · bad_key"
