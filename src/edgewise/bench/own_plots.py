"""Pictures of our own traces: risk against coverage, promised against found, and the deferral."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from edgewise.bench.cost_study import make_pairs
from edgewise.bench.judged_rows import Rows, all_rows, chat_calibration, chat_path, cloud_path
from edgewise.bench.metrics import reliability
from edgewise.bench.risk import risk_coverage
from edgewise.bench.routing_metrics import apgr, deferral_curve
from edgewise.bench.routing_plots import figures
from edgewise.bench.trace_set import read_trace_set

_DOTS_PER_INCH = 120


def draw_own(folder: Path, traces: Path) -> list[Path]:
    """One picture a task, and what handing off buys where there is a stand-in for the cloud."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = []
    for rows in all_rows(traces):
        figure = figures()(figsize=(10, 4.5), layout="constrained")
        _risk(figure.add_subplot(1, 2, 1), rows)
        _reliability(figure.add_subplot(1, 2, 2), rows)
        drawn.append(folder / f"own_{rows.task}.png")
        figure.savefig(drawn[-1], dpi=_DOTS_PER_INCH)
    if chat_path(traces).exists() and cloud_path(traces).exists():
        figure = figures()(figsize=(5.5, 4.5), layout="constrained")
        _deferral(figure.add_subplot(1, 1, 1), traces)
        drawn.append(folder / "own_deferral.png")
        figure.savefig(drawn[-1], dpi=_DOTS_PER_INCH)
    return drawn


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
