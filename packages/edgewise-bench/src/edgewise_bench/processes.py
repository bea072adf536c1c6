"""Servers in processes of their own: ours, the runtime's, a loopback cloud; and their memory."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from edgewise.children import python_child
from edgewise.local.catalogue import SMALLEST_MODEL
from edgewise.local.store import ModelStore
from edgewise.settings import DEFAULT_MODEL, Settings

START_S = 60.0


def without_limits(settings: Settings) -> Settings:
    """For an engine with a cloud of the bench's own, which cannot keep budgets. A real door inside
    of that cloud keeps its own.
    """
    return settings.with_changes(budgets=(), audit_budget="", cloud_every_s=())


def with_model(settings: Settings, model: str | None = None) -> Settings:
    """The model that a bench measures: the one that is named, else the smallest.

    Not the one that suits this machine: figures are compared from one machine to the next.
    """
    unnamed = settings.model == DEFAULT_MODEL
    return settings.with_changes(model=model or (SMALLEST_MODEL if unnamed else settings.model))


@dataclass(frozen=True, slots=True)
class Process:
    """A server in a process of its own. What is read from /proc is 0 where there is none."""

    url: str
    popen: subprocess.Popen[str]

    @property
    def pid(self) -> int:
        return self.popen.pid

    @property
    def alive(self) -> bool:
        return self.popen.poll() is None

    def family_cpu_s(self) -> float:
        """Processor time of it and of the processes that it started, those that ended included."""
        return sum(cpu_s(pid, ended=True) for pid in self.family())

    def family(self) -> list[int]:
        """Its pid, and those of the processes that it started."""
        return family(self.pid)

    def resident_mb(self) -> float:
        """Of the whole family, now."""
        return sum(_status_mb(pid, "VmRSS") for pid in self.family())

    def highest_mb(self) -> float:
        """The most that one of them ever had."""
        return max(highest_mb(pid) for pid in self.family())

    def descriptors(self) -> int:
        with contextlib.suppress(OSError):
            return sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in self.family())
        return 0

    def threads(self) -> int:
        with contextlib.suppress(OSError):
            return sum(len(os.listdir(f"/proc/{pid}/task")) for pid in self.family())
        return 0


def family(pid: int) -> list[int]:
    """A pid, and those of the processes that it started."""
    found = [pid]
    for each in found:
        for path in Path(f"/proc/{each}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found += map(int, path.read_text("ascii").split())
    return found


def cpu_s(pid: int, *, ended: bool = False) -> float:
    """User and system time; with `ended` also that of children that were waited for."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("ascii", "replace")
    except OSError:
        return 0.0
    ticks = text.rpartition(")")[2].split()[11 : 15 if ended else 13]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def highest_mb(pid: int) -> float:
    """The most memory that a process ever had."""
    return _status_mb(pid, "VmHWM")


def _status_mb(pid: int, field: str) -> float:
    try:
        for line in Path(f"/proc/{pid}/status").read_text("ascii", "replace").splitlines():
            if line.startswith(f"{field}:"):
                return int(line.split()[1]) * 1024 / 1e6
    except OSError:  # it has ended, or there is no /proc
        pass
    return 0.0


@contextlib.contextmanager
def started(
    *words: str, variables: Mapping[str, str] | None = None, errors: Path | None = None
) -> Iterator[Process]:
    """A Python process that prints its address as JSON; ended with the block."""
    with contextlib.ExitStack() as stack:
        sink = stack.enter_context(errors.open("a")) if errors else subprocess.DEVNULL
        process = subprocess.Popen(
            python_child(*words),
            stdout=subprocess.PIPE,
            stderr=sink,
            text=True,
            env=dict(variables) if variables is not None else None,
            start_new_session=True,  # Ctrl-C at a terminal is for us, and not for it
        )
        try:
            yield Process(_address(process, words), process)
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(START_S / 2)
            process.kill()
            process.communicate()  # closes its pipe


def _address(process: subprocess.Popen[str], words: tuple[str, ...]) -> str:
    assert process.stdout is not None
    said = ""
    while "}" not in said:
        line = process.stdout.readline()
        if not line:
            raise OSError(f"{' '.join(words)} did not start")
        said += line
    return str(json.loads(said)["url"])


def first_byte_s(*words: str, variables: Mapping[str, str]) -> tuple[float, float]:
    """From the start of an `edgewise` command until it says something; it is then left to end.

    The second figure is the processor time that it has taken until then.
    """
    # As it is where pip installed it: otherwise an editable installation compiles all of it anew.
    variables = {k: v for k, v in variables.items() if k != "PYTHONDONTWRITEBYTECODE"}
    began = time.perf_counter()
    with subprocess.Popen(
        python_child("-m", "edgewise", *words),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=variables,
    ) as process:
        assert process.stdout is not None
        process.stdout.read(1)
        took, computed = time.perf_counter() - began, cpu_s(process.pid)
        process.communicate()
    return took, computed


def our_server(
    settings: Settings,
    cloud: str,
    *options: str,
    variables: Mapping[str, str] | None = None,
    errors: Path | None = None,
) -> contextlib.AbstractContextManager[Process]:
    """`edgewise serve` with these settings' models and folders, and OpenAI at the cloud's URL."""
    environment = {
        **settings.environment,
        "EDGEWISE_DATA_DIR": str(settings.data_dir),
        "EDGEWISE_CACHE_DIR": str(settings.cache_dir),
        "EDGEWISE_CONFIG_DIR": str(Path(settings.data_dir) / "config"),
        "EDGEWISE_THREADS": str(settings.threads),
        "EDGEWISE_MODEL": settings.model,
        "EDGEWISE_CHAIN": "openai",
        "OPENAI_API_KEY": "loopback",
        "OPENAI_BASE_URL": f"{cloud}/v1",
        **(variables or {}),
    }
    environment.pop("EDGEWISE_SERVER_KEY", None)
    words = ("-m", "edgewise", "serve", "--json", *options)
    return started(*words, variables=environment, errors=errors)


def bare_server(settings: Settings, slots: int) -> contextlib.AbstractContextManager[Process]:
    """The runtime's own server with the same model."""
    model = ModelStore(settings.models_dir).find(settings.model)
    context = settings.context_tokens or (model.row.context_tokens if model.row else 2048)
    numbers = (str(settings.threads), str(slots), str(context))
    return started("-m", "edgewise_bench.chat.bare_server", str(model.path), *numbers)
