"""How replies, money and times look in a terminal. Everything makes sense without colour."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from edgewise.types.replies import Reply

COLOURS = {"local": "green", "cloud": "cyan", "mixed": "yellow", "none": "magenta"}
PLACES = {"local": "device", "cloud": "cloud", "mixed": "cloud, then device", "none": "nobody yet"}


def console(*, stderr: bool = False) -> Console:
    return Console(stderr=stderr, highlight=False, soft_wrap=True)


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, ensure_ascii=False, default=str))


def dollars(microdollars: int) -> str:
    """Money as people read it; fractions of a cent keep their digits."""
    amount = microdollars / 1_000_000
    return "$0" if amount == 0 else f"${amount:.2f}" if amount >= 1 else f"${amount:.6f}"


def milliseconds(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f} ms" if value < 10_000 else f"{value / 1000:,.1f} s"


def confidence(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def summary(reply: Reply) -> Text:
    """One line under an answer: source, confidence, time, tokens, cost; then why."""
    usage = reply.usage
    line = Text("└ ", style="dim")
    line.append(PLACES[reply.source], style=f"bold {COLOURS[reply.source]}")
    if reply.model:
        line.append(f" · {reply.model}", style="dim")
    line.append(f" · confidence {confidence(reply.confidence)}", style="dim")
    line.append(f" · {milliseconds(reply.total_ms)}", style="dim")
    line.append(f" · {usage.input_tokens}+{usage.output_tokens} tokens", style="dim")
    line.append(f" · {dollars(usage.cost_microdollars)}", style="dim")
    if reply.degraded:
        line.append(f" · degraded: {reply.decision.degraded_code}", style="bold yellow")
    return line


def why(reply: Reply) -> Text:
    """The decision in words, then every attempt."""
    decision = reply.decision
    text = Text()
    text.append(f"{decision.code}: {decision.reason}\n")
    text.append(f"policy {decision.policy}, handoff {decision.handoff}", style="dim")
    if decision.threshold is not None:
        text.append(f", threshold {decision.threshold:.2f}", style="dim")
    if decision.decided_after_tokens:
        text.append(f", decided after {decision.decided_after_tokens} tokens", style="dim")
    text.append(f", calibration {decision.calibration or '-'}", style="dim")
    for attempt in reply.attempts:
        text.append(
            f"\n  {attempt.place}: {attempt.backend}/{attempt.model} {attempt.outcome}, "
            f"{milliseconds(attempt.total_ms)}, {attempt.output_tokens} tokens, "
            f"{dollars(attempt.cost_microdollars)}{' (estimated)' if attempt.estimated else ''}"
        )
        if attempt.error:
            text.append(f"\n    {escape(attempt.error)}", style="dim")
    return text


@contextmanager
def download_bar() -> Iterator[Callable[[int, int, str], None]]:
    """A progress bar on standard error; the callback the model store feeds."""
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
        console=console(stderr=True),
        disable=not sys.stderr.isatty(),
    )
    with progress:
        tasks: dict[str, Any] = {}

        def report(done: int, total: int, label: str) -> None:
            if label not in tasks:
                tasks[label] = progress.add_task(label, total=total or None)
            progress.update(tasks[label], completed=done, total=total or None)

        yield report
