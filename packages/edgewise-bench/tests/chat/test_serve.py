"""`edgewise bench serve`: the load it makes, and a quick run of all of it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from edgewise.cli.main import cli
from edgewise.local.store import InstalledModel
from edgewise.server.serve import running
from edgewise.settings import Settings
from edgewise.testing import ScriptedBackend
from edgewise_bench.chat.serve import PATH, TARGETS, Client, Rounds, Side, run_load
from edgewise_bench.processes import started

BODY = {"model": "local", "messages": [{"role": "user", "content": "Hello?"}]}


def test_a_load_is_shared_by_its_clients_and_counted(tmp_path: Path) -> None:
    settings = Settings.load({}, data_dir=tmp_path, server={"port": 0})
    with running(settings, backend=ScriptedBackend.confident("One two three.")) as url:
        load = asyncio.run(run_load(url, PATH, [BODY] * 10, clients=3))
        assert (len(load.seconds), load.tokens) == (10, 30)
        assert load.per_second > 0
        with pytest.raises(OSError, match="status 400"):
            asyncio.run(run_load(url, PATH, [{"model": 5}], clients=1))


def test_a_stream_is_open_once_its_first_text_is_there(tmp_path: Path) -> None:
    settings = Settings.load({}, data_dir=tmp_path, server={"port": 0})

    async def open_and_leave(url: str) -> None:
        client = Client(url)
        await client.open_stream(PATH, {**BODY, "stream": True})
        client.close()

    with running(settings, backend=ScriptedBackend.confident("One two three.")) as url:
        asyncio.run(open_and_leave(url))


def test_the_bar_is_told_of_every_step() -> None:
    assert Rounds(rounds=4).steps == 3 * 4 + 2


WORKS_IN_ITS_CHILD = """
import json, subprocess, sys, time
from http.server import BaseHTTPRequestHandler, HTTPServer

class Model(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        until = time.process_time() + 0.2
        while time.process_time() < until:
            pass
        body = b'{"usage": {"completion_tokens": 2}}'
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass

if sys.argv[1:]:
    server = HTTPServer(("127.0.0.1", 0), Model)
    print(json.dumps({"url": f"http://127.0.0.1:{server.server_port}"}), flush=True)
    server.serve_forever()
else:
    subprocess.run([sys.executable, __file__, "model"])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_time_of_a_model_in_its_own_process_counts(tmp_path: Path) -> None:
    script = tmp_path / "server.py"
    script.write_text(WORKS_IN_ITS_CHILD, "utf-8")
    with started(str(script)) as process:
        side = Side(process, "local")
        side.run(Rounds(requests=3), 0, 1)
        for pid in process.family()[1:]:
            os.kill(pid, signal.SIGTERM)
    assert side.cpu[0] >= 0.9 * 0.2 / 2  # seconds a token


@pytest.mark.real_model
def test_a_quick_run_finds_every_metric(default_model: InstalledModel, tmp_path: Path) -> None:
    done = CliRunner().invoke(
        cli, ["bench", "serve", "--quick", "--slots", "2", "--json", "--save", str(tmp_path)]
    )
    assert done.exit_code == 0, done.output
    metrics = json.loads((tmp_path / "serve.json").read_text("utf-8"))["metrics"]
    assert set(TARGETS) <= set(metrics)
    assert metrics["cloud_streams_held"] == 20
    assert metrics["cloud_streams_left_behind"] == 0
    assert all(metrics[f"requests_per_second_{clients}"] > 0 for clients in (1, 4, 16))
    if sys.platform == "linux":  # where processor time can be read
        assert all(0.1 < metrics[f"cpu_ratio_{clients}"] < 10 for clients in (1, 4, 16))
