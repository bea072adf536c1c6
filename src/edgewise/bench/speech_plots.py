"""The deferral curves as a picture."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from edgewise.bench.speech_deferral import Deferral
from edgewise.errors import SettingsError

_DOTS_PER_INCH = 120


def check_drawing() -> None:
    """Before long work: can anything be drawn? matplotlib comes with the extra `plots`."""
    _figures()


def keep_deferral(folder: Path, found: Mapping[str, Deferral]) -> None:
    """`speech_deferral.png`, and its points in `speech_deferral.json`."""
    draw_deferral(folder / "speech_deferral.png", found)
    points = {title: asdict(each) for title, each in found.items()}
    (folder / "speech_deferral.json").write_text(json.dumps(points, indent=1) + "\n", "utf-8")


def draw_deferral(path: Path, found: Mapping[str, Deferral]) -> Path:
    """Ours between random and oracle, a picture for each cloud by its title."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure = _figures()(figsize=(6 * len(found), 5), layout="constrained")
    for place, (title, deferral) in enumerate(found.items(), start=1):
        axes = figure.add_subplot(1, len(found), place)
        _curves(axes, deferral)
        axes.set_title(f"{title}\ndeferral gain {deferral.gain:.2f}", fontsize=10)
    figure.savefig(path, dpi=_DOTS_PER_INCH)
    return path


def _curves(axes: Any, found: Deferral) -> None:
    curves = (
        ("sent at random", found.random, "0.6", "--"),
        ("by our confidence", found.ours, "tab:blue", "-"),
        ("by an oracle", found.oracle, "tab:green", ":"),
    )
    for label, curve, colour, style in curves:
        axes.plot(
            [100 * share for share in curve.shares],
            [100 * rate for rate in curve.rates],
            label=label,
            color=colour,
            linestyle=style,
            linewidth=2,
        )
    axes.set_xlabel("share of speech sent, %")
    axes.set_ylabel("word error rate, %")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend()


def _figures() -> Any:
    """A figure of its own, without pyplot's windows and global state."""
    try:
        importlib.import_module("matplotlib.backends.backend_agg")
        return importlib.import_module("matplotlib.figure").Figure
    except ImportError as error:
        raise SettingsError("pictures need pip install 'edgewise[plots]'") from error
