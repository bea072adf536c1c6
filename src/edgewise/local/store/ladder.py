"""Which model of the ladder fits this machine: what it has free, and what each rung needs."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Container
from dataclasses import dataclass
from pathlib import Path

from edgewise.local.store.catalogue import ModelRow, PackageSource, ladder


@dataclass(frozen=True, slots=True)
class Machine:
    """What a model could use here; `memory_bytes` is None if it cannot be read."""

    memory_bytes: int | None
    disk_bytes: int
    cores: int
    gpu: str = ""  # its maker; empty: none was found

    def in_words(self) -> str:
        known = self.memory_bytes is not None
        memory = f"{_gb(self.memory_bytes or 0)} GB of memory and " if known else ""
        cores = "1 core" if self.cores == 1 else f"{self.cores} cores"
        gpu = f"a GPU ({self.gpu})" if self.gpu else "no GPU"
        return f"{memory}{_gb(self.disk_bytes)} GB of disk free, {cores}, {gpu}"


@dataclass(frozen=True, slots=True)
class Proposal:
    """A rung for this machine, and why, in a sentence."""

    row: ModelRow
    reason: str


def propose(machine: Machine, installed: Container[str] = ()) -> Proposal:
    """The highest rung that fits; the lowest if none does.

    A rung from the hub is never proposed: it asks a second host for gigabytes, and edgewise has
    measured no confidence for it. Whoever wants it names it.
    """
    rungs = [row for row in ladder().values() if isinstance(row.source, PackageSource)]
    chosen, missing = rungs[0], ""
    for row in rungs[1:]:
        missing = _missing(row, machine, installed)
        if missing:
            break
        chosen = row
    if missing:
        return Proposal(chosen, missing)
    return Proposal(
        chosen,
        f"{chosen.rung} needs about {_gb(chosen.free_memory)} GB of free memory and "
        f"{_gb(chosen.free_disk)} GB of disk, and this machine has them",
    )


def fits(row: ModelRow, machine: Machine, installed: Container[str] = ()) -> bool:
    return not _missing(row, machine, installed)


def _missing(row: ModelRow, machine: Machine, installed: Container[str]) -> str:
    """What this machine lacks for a rung; empty if nothing. An installed model needs no disk."""
    memory, disk = machine.memory_bytes, machine.disk_bytes
    if memory is None:
        return f"{row.rung} needs free memory, and how much there is cannot be read"
    if memory < row.free_memory:
        return (
            f"{row.rung} needs about {_gb(row.free_memory)} GB of free memory, "
            f"and there are {_gb(memory)}"
        )
    if disk < row.free_disk and row.name not in installed:
        return f"{row.rung} needs {_gb(row.free_disk)} GB of free disk, and there are {_gb(disk)}"
    return ""


def _gb(value: int) -> str:
    return f"{value / 1e9:.0f}" if value >= 9.95e9 else f"{value / 1e9:.1f}".removesuffix(".0")


def read_machine(folder: Path) -> Machine:
    """What is free now; the disk is that of `folder`, which need not exist yet."""
    while not folder.exists():
        folder = folder.parent
    affinity = getattr(os, "sched_getaffinity", None)  # a container may have fewer than all
    return Machine(
        memory_bytes=free_memory(),
        disk_bytes=shutil.disk_usage(folder).free,
        cores=len(affinity(0)) if affinity else os.cpu_count() or 1,
        gpu=_gpu(),
    )


def free_memory() -> int | None:
    """What can be used without swapping."""
    if sys.platform == "win32":
        return _free_on_windows()
    if sys.platform == "darwin":
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            said = subprocess.run(["vm_stat"], capture_output=True, text=True, timeout=5)
            return free_in_vm_stat(said.stdout)
        return None
    limits = (free_in_meminfo(Path("/proc/meminfo")), free_in_cgroup(Path("/sys/fs/cgroup")))
    return min((each for each in limits if each is not None), default=None)


def free_in_meminfo(path: Path) -> int | None:
    """Linux's own estimate, caches that can be dropped included."""
    found = re.search(r"^MemAvailable:\s+(\d+) kB", _text(path), re.MULTILINE)
    return int(found[1]) * 1024 if found else None


def free_in_cgroup(folder: Path) -> int | None:
    """What a container's limit leaves, if it has one; /proc/meminfo shows the whole machine."""
    limit, used = _text(folder / "memory.max").strip(), _text(folder / "memory.current").strip()
    if not (limit.isdigit() and used.isdigit()):
        return None  # "max", no limit, or another system
    cache = re.search(r"^inactive_file (\d+)", _text(folder / "memory.stat"), re.MULTILINE)
    return max(0, int(limit) - int(used) + (int(cache[1]) if cache else 0))


def free_in_vm_stat(said: str) -> int | None:
    """What macOS can give at once: free pages, and those that only cache something."""
    size = re.search(r"page size of (\d+) bytes", said)
    pages = re.findall(r"^Pages (?:free|inactive|speculative|purgeable):\s+(\d+)", said, re.M)
    return int(size[1]) * sum(map(int, pages)) if size and pages else None


def _free_on_windows() -> int | None:
    class Status(ctypes.Structure):  # MEMORYSTATUSEX
        _fields_ = (
            ("length", ctypes.c_uint32),
            ("load", ctypes.c_uint32),
            ("total", ctypes.c_uint64),
            ("available", ctypes.c_uint64),
            ("rest", ctypes.c_uint64 * 5),
        )

    status = Status(length=ctypes.sizeof(Status))
    windows = getattr(ctypes, "windll", None)
    if windows is None or not windows.kernel32.GlobalMemoryStatusEx(ctypes.byref(status)):
        return None
    return int(status.available)


def _gpu() -> str:
    """The maker of a GPU that programs could compute on; a look at files, no driver is loaded."""
    if sys.platform == "darwin":
        return "Apple" if os.uname().machine == "arm64" else ""
    if Path("/proc/driver/nvidia/version").exists() or shutil.which("nvidia-smi"):
        return "NVIDIA"
    return "AMD" if Path("/dev/kfd").exists() else ""


def _text(path: Path) -> str:
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return path.read_text("utf-8")
    return ""
