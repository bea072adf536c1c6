"""Pictures of a confidence: risk against coverage, reliability, and F1 against calls sent."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgewise.bench.call_metrics import Results, call_units, judged
from edgewise.bench.metrics import reliability
from edgewise.bench.risk import aurc, hybrid_curve, risk_coverage
from edgewise.bench.stand_in_cloud import STAND_IN
from edgewise.errors import SettingsError

_DOTS_PER_INCH = 120


def check_drawing() -> None:
    """Before hours of work: can anything be drawn? matplotlib comes with the extra `plots`."""
    _pyplot()


def draw_confidence(
    folder: Path, scores: Sequence[float], right: Sequence[bool], title: str
) -> list[Path]:
    """`risk_coverage.png` and `reliability.png`."""
    folder.mkdir(parents=True, exist_ok=True)
    curve = risk_coverage(scores, right)
    bins = reliability(scores, right)
    return [
        _draw(
            folder / "risk_coverage.png",
            f"{title}\nAURC {aurc(scores, right):.4f}, {len(scores)} answers",
            ("share kept on the device", "share wrong among the kept"),
            ([each for each, _ in curve], [risk for _, risk in curve]),
        ),
        _draw(
            folder / "reliability.png",
            f"{title}\n{len(bins)} bins of equal mass",
            ("mean confidence", "share right"),
            ([each.confidence for each in bins], [each.accuracy for each in bins]),
            diagonal=True,
        ),
    ]


def draw_calls(folder: Path, results: Results, title: str) -> list[Path]:
    """The two of the confidence, and `hybrid.png`, which supposes a cloud that is always right."""
    drawn = draw_confidence(folder, *call_units(results.rows), title)
    curve = hybrid_curve([judged(*row) for row in results.rows])
    points = ([sent for _, sent, _ in curve], [score for _, _, score in curve])
    title = f"{title}\nrescued by a {STAND_IN}"
    path = folder / "hybrid.png"
    return [*drawn, _draw(path, title, ("share of calls sent", "mean F1"), points)]


def _draw(
    path: Path,
    title: str,
    labels: tuple[str, str],
    points: tuple[Sequence[float], Sequence[float]],
    *,
    diagonal: bool = False,
) -> Path:
    pyplot = _pyplot()
    figure, axes = pyplot.subplots(figsize=(6, 4.5), dpi=_DOTS_PER_INCH)
    if diagonal:
        axes.plot([0, 1], [0, 1], color="0.7", linewidth=1)
    axes.plot(*points, marker=".")
    axes.set_xlabel(labels[0])
    axes.set_ylabel(labels[1])
    axes.set_xlim(0, 1)
    axes.set_ylim(bottom=0)
    axes.set_title(title, fontsize=9)
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path)
    pyplot.close(figure)
    return path


def _pyplot() -> Any:
    try:
        importlib.import_module("matplotlib").use("Agg")  # no window, no display
    except ImportError as error:
        raise SettingsError("--plots needs matplotlib: pip install 'edgewise[plots]'") from error
    return importlib.import_module("matplotlib.pyplot")
