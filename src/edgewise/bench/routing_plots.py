"""Routing as pictures: quality against the share sent, agreement against the tokens waited for."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from edgewise.bench.frozen_routing import Routed
from edgewise.bench.routing_metrics import apgr, deferral_curve
from edgewise.errors import SettingsError

_DOTS_PER_INCH = 120


def check_drawing() -> None:
    """Before long work: can anything be drawn? matplotlib comes with the extra `plots`."""
    figures()


def draw_deferral(path: Path, routed: Sequence[Routed]) -> Path:
    """Ours between random and the oracle, a picture for each set."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure = figures()(figsize=(5 * len(routed), 4.5), layout="constrained")
    for place, each in enumerate(routed, start=1):
        _curves(figure.add_subplot(1, len(routed), place), each)
    figure.savefig(path, dpi=_DOTS_PER_INCH)
    return path


def draw_early(path: Path, studies: Mapping[str, Mapping[str, Mapping[str, float]]]) -> Path:
    """Tokens before the decision against what it changes, a picture for each study by its title."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure = figures()(figsize=(5 * len(studies), 4.5), layout="constrained")
    for place, (title, rules) in enumerate(studies.items(), start=1):
        axes = figure.add_subplot(1, len(studies), place)
        _rules(axes, rules)
        axes.set_title(title, fontsize=10)
    figure.savefig(path, dpi=_DOTS_PER_INCH)
    return path


def _rules(axes: Any, rules: Mapping[str, Mapping[str, float]]) -> None:
    bounded = [rule for name, rule in rules.items() if name.startswith("boundaries")]
    axes.plot(
        [rule["tokens"] for rule in bounded],
        [100 * rule["agreement"] for rule in bounded],
        marker="o",
        label="boundaries, ever bolder",
    )
    for name, rule in rules.items():
        if not name.startswith("boundaries"):
            axes.plot([rule["tokens"]], [100 * rule["agreement"]], "s", label=name)
    axes.set_xlabel("tokens before the decision, mean")
    axes.set_ylabel("decisions that are those in the end, %")
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")


def _curves(axes: Any, routed: Routed) -> None:
    weak, strong = routed.outcomes.weak, routed.outcomes.strong
    axes.plot([0, 100], [100 * weak.mean(), 100 * strong.mean()], color="0.6", label="at random")
    for label, score, colour, style in (
        ("by predicted gain", routed.score, "tab:blue", "-"),
        ("by an oracle", routed.outcomes.gain, "tab:green", ":"),
    ):
        share, quality = deferral_curve(score, weak, strong)
        axes.plot(100 * share, 100 * quality, color=colour, linestyle=style, label=label)
    axes.set_title(f"{routed.title}\nAPGR {apgr(routed.score, weak, strong):.3f}", fontsize=10)
    axes.set_xlabel("share sent to the strong model, %")
    axes.set_ylabel("quality, %")
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")


def figures() -> Any:
    """A figure of its own, without pyplot's windows and global state."""
    try:
        importlib.import_module("matplotlib.backends.backend_agg")
        return importlib.import_module("matplotlib.figure").Figure
    except ImportError as error:
        raise SettingsError("pictures need pip install 'edgewise[plots]'") from error
