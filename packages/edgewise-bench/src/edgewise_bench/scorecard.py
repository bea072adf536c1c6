"""A scorecard: what a bench found, with the command, versions and machine that found it."""

from __future__ import annotations

import json
import operator
import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from edgewise import __version__

_SIGNS: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    ">": operator.gt,
    "<=": operator.le,
    "<": operator.lt,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scorecard:
    """`metrics` is flat: a name and a number each. The keys of `to_dict` are these, no more."""

    name: str
    command: str
    versions: Mapping[str, str]
    date: str
    metrics: Mapping[str, float]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.to_dict(), indent=2) + "\n", "utf-8")


def make_scorecard(name: str, command: str, metrics: Mapping[str, float]) -> Scorecard:
    """A scorecard of this moment and this machine; four significant digits are plenty."""
    return Scorecard(
        name=name,
        command=command,
        versions=find_versions(),
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        metrics={key: float(f"{value:.4g}") for key, value in metrics.items()},
    )


def find_versions() -> dict[str, str]:
    try:
        runtime = version("xllamacpp")
    except PackageNotFoundError:
        runtime = "none"
    return {
        "edgewise": __version__,
        "python": platform.python_version(),
        "xllamacpp": runtime,
        "platform": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cpus": str(os.cpu_count() or 1),
    }


def _processor() -> str:
    """The processor's name, where the system tells; figures mean little without it."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def verdicts(
    metrics: Mapping[str, float], targets: Mapping[str, tuple[str, float]]
) -> dict[str, str]:
    """Each target in words, and whether it was reached."""
    return {
        name: f"{targets[name][0]} {targets[name][1]:g}, "
        + ("reached" if reached(name, metrics[name], targets) else "missed")
        for name in targets
        if name in metrics
    }


def reached(name: str, value: float, targets: Mapping[str, tuple[str, float]]) -> bool:
    sign, target = targets[name]
    return _SIGNS[sign](value, target)
