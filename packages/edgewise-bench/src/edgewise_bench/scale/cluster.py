"""`edgewise deploy` for measurements: a cluster of this machine, and what belongs to it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from edgewise.children import python_child
from edgewise.settings import Settings

DEPLOY_S = 280
NAME = "bench"


class Cluster:
    """One deploy file and what runs of it."""

    def __init__(self, folder: Path, secrets: Mapping[str, str]) -> None:
        self._folder = folder
        self._file = folder / "deploy.toml"
        keys = folder / "keys.env"
        keys.write_text("".join(f"{name}={value}\n" for name, value in secrets.items()), "utf-8")
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self._head = f'name = "{NAME}"\nport = {self._port}\nkeys_file = "{keys}"\n'

    def deploy(self, parts: str, rest: str) -> None:
        """Start it, or upgrade what runs. Returns when all replicas run."""
        self._file.write_text(
            f'{self._head}parts = "edgewise_bench.scale.parts:{parts}"\n{rest}', "utf-8"
        )
        told = self._edgewise()
        if told.get("status") != "running":
            raise OSError(f"the cluster does not run: {told}")

    def stop(self) -> None:
        self._edgewise("--stop", "--timeout", "20")

    def _edgewise(self, *words: str) -> dict[str, Any]:
        variables = {
            **Settings.load().environment,
            "EDGEWISE_DATA_DIR": str(self._folder / "data"),
            "EDGEWISE_CONFIG_DIR": str(self._folder / "config"),
            "RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S": "1",
        }
        done = subprocess.run(
            python_child("-m", "edgewise", "deploy", str(self._file), "--json", *words),
            env=variables,
            capture_output=True,
            text=True,
            timeout=DEPLOY_S + 60,
        )
        if done.returncode != 0:
            raise OSError(f"edgewise deploy: {done.stderr.strip() or done.stdout.strip()}")
        told: dict[str, Any] = json.loads(done.stdout)
        return told

    def processes(self, deployment: str) -> list[int]:
        """Of the replicas of a deployment."""
        title = f"ray::ServeReplica:{NAME}:{deployment}"
        return _processes(lambda words: words.startswith(title))

    def around(self) -> list[int]:
        """HAProxy, and all of Ray but the replicas: what a cluster has and one server has not."""
        return _processes(
            lambda words: (
                "haproxy" in words.partition("\0")[0]
                or "/ray/" in words
                or (words.startswith("ray::") and not words.startswith("ray::ServeReplica"))
            )
        )


def _processes(wanted: Callable[[str], bool]) -> list[int]:
    """The processes of this machine whose command line is wanted."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if wanted((path / "cmdline").read_bytes().decode(errors="replace")):
                found.append(int(path.name))
    return sorted(found)


@contextlib.contextmanager
def cluster_in(folder: Path, secrets: Mapping[str, str]) -> Iterator[Cluster]:
    """A cluster that is stopped at the end, whatever happens."""
    made = Cluster(folder, secrets)
    try:
        yield made
    finally:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            made.stop()


def kill(pid: int) -> bool:
    """Whether it was still there."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
        return True
    return False


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])
