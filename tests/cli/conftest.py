"""Ways to run the command line: in this process, and as the installed script."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from edgewise.cli.main import cli
from edgewise.testing import LoopbackCloud

SCRIPT = Path(sys.executable).with_name("edgewise")
KEY = "sk-loopback-4f9c1e77ab"


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output, which must be one JSON value on one line and nothing else."""
        (line,) = self.out.splitlines()
        return json.loads(line)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


Run = Callable[..., Ran]


@pytest.fixture
def run() -> Run:
    """`run("ask", "hi")` in this process: quick, and neither side is a terminal."""

    def runner(*args: str, stdin: str = "") -> Ran:
        result = CliRunner().invoke(cli, args, input=stdin, catch_exceptions=False)
        return Ran(result.exit_code, result.stdout, result.stderr)

    return runner


@contextmanager
def piped(data: bytes | None) -> Iterator[int | None]:
    """A pipe that is full and closed before anybody reads: a slow writer would look silent."""
    if data is None:
        yield None
        return
    reading, writing = os.pipe()
    try:
        with open(writing, "wb") as pipe:
            assert len(data) < 2**16, "more than a pipe holds"
            pipe.write(data)
        yield reading
    finally:
        os.close(reading)


@pytest.fixture
def script() -> Run:
    """The installed `edgewise` script, as a shell would run it."""

    def runner(*args: str, stdin: str | bytes | None = "") -> Ran:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        with piped(data) as pipe:
            ran = subprocess.run([SCRIPT, *args], stdin=pipe, capture_output=True, timeout=60)
        return Ran(ran.returncode, ran.stdout.decode(), ran.stderr.decode())

    return runner


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackCloud]:
    """A scripted cloud that the commands take for OpenAI, with a key for it."""
    with LoopbackCloud() as server:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("EDGEWISE_OPENAI_BASE_URL", server.openai_url)
        yield server


@pytest.fixture
def plain_cloud(monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackCloud]:
    """A cloud whose provider has no SDK: saves a second per script."""
    with LoopbackCloud() as server:
        monkeypatch.setenv("CACTUS_CLOUD_API_KEY", KEY)
        monkeypatch.setenv("EDGEWISE_CACTUS_CLOUD_BASE_URL", server.cactus_url)
        yield server


@pytest.fixture
def no_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without weights and without a package index."""
    cache = tmp_path / "empty-cache"
    monkeypatch.setenv("EDGEWISE_CACHE_DIR", str(cache))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    return cache


class Terminal:
    """The installed script in a pseudo-terminal: what a person would see, and keys to press."""

    def __init__(self, *args: str, columns: int = 80) -> None:
        ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (40, columns))
        self._ours = ours
        self._seen = b""
        self._process = subprocess.Popen(
            [SCRIPT, *args],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={
                **os.environ,
                "TERM": "xterm-256color",
                "COLUMNS": str(columns),
                "PROMPT_TOOLKIT_NO_CPR": "1",  # nobody here answers where the cursor is
            },
            start_new_session=True,
            # Without a controlling terminal Ctrl-C would be a letter like any other.
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(theirs)

    def press(self, keys: str) -> None:
        # No person is quicker, and Python loses a Ctrl-C that comes while readline is starting.
        time.sleep(0.3)
        os.write(self._ours, keys.encode())

    def wait_for(self, text: str, *, times: int = 1, timeout: float = 30.0) -> None:
        deadline = time.monotonic() + timeout
        while self.text.count(text) < times:
            assert time.monotonic() < deadline, f"no {text!r} in {self.raw!r}"
            assert self._read(1.0), f"it ended without {text!r}: {self.raw!r}"

    def finish(self, timeout: float = 30.0) -> int:
        """Read to the end; the exit code."""
        deadline = time.monotonic() + timeout
        while self._read(1.0):
            assert time.monotonic() < deadline, f"still running: {self.raw!r}"
        os.close(self._ours)
        return self._process.wait(timeout)

    def _read(self, patience: float) -> bool:
        """False at the end."""
        if select.select([self._ours], [], [], patience)[0]:
            try:
                piece = os.read(self._ours, 65536)
            except OSError:  # how Linux reports that the other side is closed
                return False
            self._seen += piece
            return bool(piece)
        return True

    def close(self) -> None:
        """For tests that fail in the middle."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    @property
    def raw(self) -> str:
        return self._seen.decode(errors="replace")

    @property
    def text(self) -> str:
        """Without colours, cursor movements and the terminal's own line ends."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.raw).replace("\r\n", "\n")


Open = Callable[..., Terminal]


@pytest.fixture
def terminal() -> Iterator[Open]:
    opened: list[Terminal] = []

    def start(*args: str, columns: int = 80) -> Terminal:
        opened.append(Terminal(*args, columns=columns))
        return opened[-1]

    yield start
    for each in opened:
        each.close()
