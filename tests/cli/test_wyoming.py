"""`edgewise wyoming` as a process: starts, is found by the protocol's client, ends."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from edgewise.cli.main import cli
from edgewise.local.store import InstalledModel

with warnings.catch_warnings():  # of `audioop`, which the protocol's package takes where it can
    warnings.simplefilter("ignore", DeprecationWarning)
    from wyoming.client import AsyncClient
    from wyoming.event import Event
    from wyoming.info import Describe, Info

LAMP = "- names: Reading Lamp\n  domain: light\n  areas: Study\n"
posix = pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX's")


@contextmanager
def process(*words: str) -> Iterator[subprocess.Popen[str]]:
    started = subprocess.Popen(
        [sys.executable, "-m", "edgewise", "wyoming", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield started
    finally:
        started.kill()
        started.communicate()


async def described(uri: str) -> Event | None:
    async with AsyncClient.from_uri(uri) as client:
        await client.write_event(Describe().event())
        return await asyncio.wait_for(client.read_event(), 60)


@posix
@pytest.mark.real_model
def test_it_is_found_and_ends_when_told_to(
    tmp_path: Path,
    default_function_model: InstalledModel,
    default_transcriber: InstalledModel,
) -> None:
    home = tmp_path / "home.yaml"
    home.write_text(LAMP, "utf-8")
    with process("--port", "0", "--entities", str(home), "--json") as started:
        assert started.stdout and started.stderr
        said = ""
        while "}" not in said:
            line = started.stdout.readline()
            assert line, started.stderr.read()
            said += line
        uri = json.loads(said)["uri"]
        assert uri.startswith("tcp://127.0.0.1:")
        event = asyncio.run(described(uri))
        assert event is not None
        assert Info.from_event(event).intent[0].name == "edgewise"
        started.send_signal(signal.SIGTERM)
        assert started.wait(60) == 0
        assert started.stderr.read() == ""


def test_a_list_that_is_none_is_said_before_anything_is_loaded(tmp_path: Path) -> None:
    empty = tmp_path / "empty.yaml"
    empty.write_text("nothing", "utf-8")
    for path, reason in ((empty, "lists no device"), (tmp_path / "none.yaml", "No such file")):
        result = CliRunner().invoke(cli, ["wyoming", "--entities", str(path)])
        assert result.exit_code == 2
        assert reason in result.output


def test_without_its_package_it_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['wyoming'] = None; sys.modules['wyoming.audio'] = None; "
        "from edgewise.cli.main import main; main(['wyoming'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "it comes with" in done.stderr and "[wyoming]'" in done.stderr


def test_other_machines_are_let_in_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    from edgewise.cli import serve as command
    from edgewise.settings import Settings

    served: list[str] = []

    async def serve(settings: Settings, home: object, uri: str, *_: object, **__: object) -> None:
        served.append(f"{settings.policy} {uri}")

    monkeypatch.setattr(command, "_serve_wyoming", serve)
    for name in ("ensure_transcriber", "ensure_function_model"):
        monkeypatch.setattr(command, name, lambda settings, policy: settings)
    quiet = CliRunner().invoke(cli, ["wyoming"])
    warned = CliRunner().invoke(cli, ["wyoming", "--host", "0.0.0.0", "-p", "prefer_local"])
    assert "anybody" not in quiet.output
    assert "anybody who reaches this port can use it" in warned.output
    assert served == ["local_only tcp://127.0.0.1:10300", "prefer_local tcp://0.0.0.0:10300"]
