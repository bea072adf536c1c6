"""What starting costs: `import edgewise` and `edgewise --version`, each in a fresh process."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Sequence


def measure_startup(rounds: int) -> dict[str, float]:
    """Medians over interleaved rounds; the first round warms the disk and is dropped."""
    bare: list[float] = []
    importing: list[float] = []
    version: list[float] = []
    for _ in range(rounds + 1):
        bare.append(_seconds([sys.executable, "-c", "pass"]))
        importing.append(_seconds([sys.executable, "-c", "import edgewise"]))
        version.append(_seconds([sys.executable, "-m", "edgewise.cli.main", "--version"]))
    extra = [with_it - without for with_it, without in zip(importing, bare, strict=True)]
    return {
        "import_s": statistics.median(extra[1:]),
        "version_s": statistics.median(version[1:]),
    }


def _seconds(command: Sequence[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - started
