"""Pictures of what the benches found. matplotlib comes with the extra `plots`."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from edgewise.calibrate.metrics import reliability
from edgewise.errors import SettingsError
from edgewise.extras import package_command
from edgewise_bench.calls.scores import Results, call_units, hybrid_curve, judged
from edgewise_bench.calls.stand_in_cloud import STAND_IN
from edgewise_bench.chat.traces import read_trace_set
from edgewise_bench.risk import aurc, risk_coverage
from edgewise_bench.routing.cost_study import make_pairs
from edgewise_bench.routing.frozen import Routed
from edgewise_bench.routing.metrics import apgr, deferral_curve
from edgewise_bench.routing.rows import Rows, all_rows, chat_calibration, chat_path, cloud_path
from edgewise_bench.speech.deferral import Deferral

_DOTS_PER_INCH = 120


def check_drawing() -> None:
    """Before long work: can anything be drawn?"""
    _figures()


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


def draw_deferral(path: Path, routed: Sequence[Routed]) -> Path:
    """Ours between random and the oracle, a picture for each set."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure = _figures()(figsize=(5 * len(routed), 4.5), layout="constrained")
    for place, each in enumerate(routed, start=1):
        _routing_curves(figure.add_subplot(1, len(routed), place), each)
    figure.savefig(path, dpi=_DOTS_PER_INCH)
    return path


def draw_early(path: Path, studies: Mapping[str, Mapping[str, Mapping[str, float]]]) -> Path:
    """Tokens before the decision against what it changes, a picture for each study by its title."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure = _figures()(figsize=(5 * len(studies), 4.5), layout="constrained")
    for place, (title, rules) in enumerate(studies.items(), start=1):
        axes = figure.add_subplot(1, len(studies), place)
        _rules(axes, rules)
        axes.set_title(title, fontsize=10)
    figure.savefig(path, dpi=_DOTS_PER_INCH)
    return path


def draw_own(folder: Path, traces: Path) -> list[Path]:
    """One picture a task, and what handing off buys where there is a stand-in for the cloud."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = []
    for rows in all_rows(traces):
        figure = _figures()(figsize=(10, 4.5), layout="constrained")
        _risk(figure.add_subplot(1, 2, 1), rows)
        _reliability(figure.add_subplot(1, 2, 2), rows)
        drawn.append(folder / f"own_{rows.task}.png")
        figure.savefig(drawn[-1], dpi=_DOTS_PER_INCH)
    if chat_path(traces).exists() and cloud_path(traces).exists():
        figure = _figures()(figsize=(5.5, 4.5), layout="constrained")
        _deferral(figure.add_subplot(1, 1, 1), traces)
        drawn.append(folder / "own_deferral.png")
        figure.savefig(drawn[-1], dpi=_DOTS_PER_INCH)
    return drawn


def keep_deferral(folder: Path, found: Mapping[str, Deferral]) -> None:
    """`speech_deferral.png`, and its points in `speech_deferral.json`."""
    draw_speech_deferral(folder / "speech_deferral.png", found)
    points = {title: asdict(each) for title, each in found.items()}
    (folder / "speech_deferral.json").write_text(json.dumps(points, indent=1) + "\n", "utf-8")


def draw_speech_deferral(path: Path, found: Mapping[str, Deferral]) -> Path:
    """Ours between random and oracle, a picture for each cloud by its title."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure = _figures()(figsize=(6 * len(found), 5), layout="constrained")
    for place, (title, deferral) in enumerate(found.items(), start=1):
        axes = figure.add_subplot(1, len(found), place)
        _speech_curves(axes, deferral)
        axes.set_title(f"{title}\ndeferral gain {deferral.gain:.2f}", fontsize=10)
    figure.savefig(path, dpi=_DOTS_PER_INCH)
    return path


def _draw(
    path: Path,
    title: str,
    labels: tuple[str, str],
    points: tuple[Sequence[float], Sequence[float]],
    *,
    diagonal: bool = False,
) -> Path:
    figure = _figures()(figsize=(6, 4.5), layout="tight")
    axes = figure.add_subplot()
    if diagonal:
        axes.plot([0, 1], [0, 1], color="0.7", linewidth=1)
    axes.plot(*points, marker=".")
    axes.set_xlabel(labels[0])
    axes.set_ylabel(labels[1])
    axes.set_xlim(0, 1)
    axes.set_ylim(bottom=0)
    axes.set_title(title, fontsize=9)
    axes.grid(alpha=0.3)
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


def _routing_curves(axes: Any, routed: Routed) -> None:
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


def _figures() -> Any:
    """A figure of its own, without pyplot's windows and global state."""
    try:
        importlib.import_module("matplotlib.backends.backend_agg")
        return importlib.import_module("matplotlib.figure").Figure
    except ImportError as error:
        raise SettingsError(
            f"--plots needs matplotlib: {package_command('edgewise-bench', 'plots')}"
        ) from error


def _risk(axes: Any, rows: Rows) -> None:
    right = [bool(flag) for flag in rows.right]
    for label, scores, colour in (
        ("by confidence", rows.confidence, "tab:blue"),
        ("by mean log-probability", rows.plain, "tab:orange"),
    ):
        curve = risk_coverage(scores.tolist(), right)
        axes.plot([100 * kept for kept, _ in curve], [100 * wrong for _, wrong in curve],
                  color=colour, label=label)  # fmt: skip
    axes.set_title(f"{rows.task}: {len(right):,} answers, none fitted on", fontsize=10)
    axes.set_xlabel("share kept on the device, %")
    axes.set_ylabel("wrong among the kept, %")
    axes.set_ylim(0, 100)
    axes.grid(alpha=0.3)
    axes.legend()


def _reliability(axes: Any, rows: Rows) -> None:
    chances, right = rows.crossed or (rows.confidence, rows.right)
    bins = reliability(chances.tolist(), [bool(flag) for flag in right])
    axes.plot([0, 1], [0, 1], color="0.6", linestyle=":")
    axes.plot([each.confidence for each in bins], [each.accuracy for each in bins],
              marker="o", color="tab:blue")  # fmt: skip
    axes.set_title(f"{rows.task}: {len(right):,} held-out answers in 15 bins", fontsize=10)
    axes.set_xlabel("mean confidence")
    axes.set_ylabel("share right")
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.grid(alpha=0.3)


def _deferral(axes: Any, traces: Path) -> None:
    pairs = make_pairs(
        read_trace_set(chat_path(traces)), read_trace_set(cloud_path(traces)), chat_calibration()
    )
    weak, strong = pairs.device, pairs.cloud
    axes.plot([0, 100], [100 * weak.mean(), 100 * strong.mean()], color="0.6", label="at random")
    for label, score, colour, style in (
        ("by doubt", 1 - pairs.confidence, "tab:blue", "-"),
        ("by an oracle", strong - weak, "tab:green", ":"),
    ):
        share, quality = deferral_curve(score, weak, strong)
        axes.plot(100 * share, 100 * quality, color=colour, linestyle=style, label=label)
    apgr_found = apgr(1 - pairs.confidence, weak, strong)
    axes.set_title(f"chat, {len(pairs):,} questions: APGR {apgr_found:.3f}", fontsize=10)
    axes.set_xlabel("share sent to the stand-in cloud, %")
    axes.set_ylabel("answered rightly, %")
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")


def _speech_curves(axes: Any, found: Deferral) -> None:
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
