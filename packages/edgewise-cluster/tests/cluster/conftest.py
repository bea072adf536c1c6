"""One real Ray for all tests of this folder, in a network namespace where root may make one.

Ray is slow to start, so it starts once. Tests deploy to it in the order of the file.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.server.conftest import cloud as cloud
from tests.server.conftest import serving as serving

from edgewise.testing import LoopbackCloud

TESTS, ROOT = Path(__file__).parents[1], Path(__file__).parents[4]
CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
LISTENING = "0A"


@contextlib.contextmanager
def own_network() -> Iterator[None]:
    """This thread, and what it starts, sees a loopback of its own and nothing else."""
    libc = ctypes.CDLL(None, use_errno=True)
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        if libc.unshare(CLONE_NEWNET) != 0:  # only root may: then it is this machine's loopback
            yield
            return
        try:
            bring_loopback_up()
            yield
        finally:
            assert libc.setns(before, CLONE_NEWNET) == 0
    finally:
        os.close(before)


def bring_loopback_up() -> None:
    import fcntl  # not on Windows

    with socket.socket() as any_socket:
        asked = struct.pack("16sh14x", b"lo", IFF_UP)
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, asked)


class Cluster:
    """`edgewise deploy` with files of this test's."""

    def __init__(self, home: Path, provider: LoopbackCloud) -> None:
        self.home = home
        self.file = home / "deploy.toml"
        self.url = "http://127.0.0.1:8585"
        keys = home / "keys.env"
        # A key in the shape of none, and where the cloud of the tests is.
        keys.write_text(f"OPENAI_API_KEY=loopback-key\nOPENAI_BASE_URL={provider.openai_url}\n")
        self._head = f'port = 8585\nkeys_file = "{keys}"\n'

    def write(self, parts: str, rest: str) -> None:
        line = f'parts = "cluster.scripted:{parts}"\n' if parts else ""
        self.file.write_text(self._head + line + rest)

    def edgewise(self, *words: str) -> dict[str, Any]:
        """Runs `edgewise deploy FILE`, and returns what it prints as JSON."""
        variables = {
            **os.environ,
            "EDGEWISE_HOME": str(self.home),
            "PYTHONPATH": f"{TESTS}{os.pathsep}{ROOT}",
            "RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S": "1",
        }
        done = subprocess.run(
            [sys.executable, "-m", "edgewise", "deploy", str(self.file), "--json", *words],
            env=variables,
            capture_output=True,
            text=True,
            timeout=560,  # a machine that others use
        )
        assert done.returncode == 0, done.stderr + done.stdout
        told: dict[str, Any] = json.loads(done.stdout)
        return told

    @property
    def folder(self) -> Path:
        """Where Ray and HAProxy have their sockets and logs."""
        (remembered,) = (self.home / "data" / "clusters").glob("*.json")
        return Path(json.loads(remembered.read_text("utf-8"))["folder"])

    def listening(self) -> dict[str, set[str]]:
        """The addresses, as the kernel writes them, that Ray's processes listen on; by process."""
        addresses = {}
        for table in ("tcp", "tcp6"):
            for line in Path("/proc/thread-self/net", table).read_text().splitlines()[1:]:
                words = line.split()
                if words[3] == LISTENING:
                    addresses[f"socket:[{words[9]}]"] = words[1].partition(":")[0]
        found: dict[str, set[str]] = {}
        for path in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                title = (path / "cmdline").read_bytes().split(b"\0")[0].decode(errors="replace")
                if title.startswith("ray::") or title.endswith(("raylet", "gcs_server", "haproxy")):
                    opened = {os.readlink(each) for each in (path / "fd").iterdir()}
                    own = {addresses[each] for each in opened & addresses.keys()}
                    found.setdefault(title, set()).update(own)
        return found

    def processes(self, deployment: str) -> list[int]:
        """Of the replicas of a deployment, in this network only."""
        ours = os.readlink("/proc/thread-self/ns/net")
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                title = (path / "cmdline").read_bytes().decode(errors="replace")
                here = os.readlink(path / "ns/net") == ours
                if here and title.startswith(f"ray::ServeReplica:edgewise:{deployment}"):
                    found.append(int(path.name))
        return sorted(found)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    home = tmp_path_factory.mktemp("cluster")
    with own_network(), LoopbackCloud() as provider:
        made = Cluster(home, provider)
        try:
            yield made
        finally:
            made.edgewise("--stop", "--timeout", "20")
