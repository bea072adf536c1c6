"""`edgewise ledger`: what was spent and avoided, what stayed on the device, and why."""

from __future__ import annotations

import time
from typing import Any

import click
from rich.table import Table

from edgewise import assembly
from edgewise.cli import options
from edgewise.cli.render import confidence, console, dollars, milliseconds, print_json
from edgewise.record.report import Report, parse_since
from edgewise.settings import Settings


@click.command()
@click.option("--since", help="Only since then: 24h, 7d, 30m, or 2026-11-01.")
@click.option("--last", type=click.IntRange(1), help="List the last N requests instead.")
@click.option("--request", "request_id", help="Everything about one request.")
@options.as_json
def ledger(since: str | None, last: int | None, request_id: str | None, as_json: bool) -> None:
    """Spend, share kept on the device, cost avoided, latency, reasons."""
    book = assembly.open_ledger(Settings.load())
    try:
        if request_id:
            entry = book.get(request_id)
            if entry is None:
                raise click.ClickException(f"no request {request_id!r} in {book.path}")
            print_json(entry)
        elif last:
            _print_recent(book.recent(last), as_json)
        else:
            report = book.report(parse_since(since) if since else None)
            if as_json:
                print_json(report.to_dict())
            else:
                _print_report(report)
    finally:
        book.close()


def _print_recent(rows: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print_json(rows)
        return
    table = Table(box=None, pad_edge=False)
    for column in ("when", "id", "source", "confidence", "time", "cost", "why"):
        table.add_column(column)
    for row in rows:
        table.add_row(
            time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(row["created_at"])),
            row["id"],
            row["source"],
            confidence(row["confidence"]),
            milliseconds(row["total_ms"]),
            dollars(row["cost_microdollars"]),
            row["error_code"] or row["decision_code"],
        )
    console().print(table)


def _print_report(report: Report) -> None:
    screen = console()
    if not report.requests:
        screen.print("Nothing asked yet." if report.since is None else "Nothing asked since then.")
    share = report.share_on_device
    kept = "-" if share is None else f"{share:.0%}"
    screen.print(
        f"[bold]{report.requests}[/bold] requests · [bold]{kept}[/bold] kept on the device · "
        f"{report.degraded} degraded · {report.failed} failed"
    )
    screen.print(
        f"spent [bold]{dollars(report.spent_microdollars)}[/bold] "
        f"(estimated part {dollars(report.estimated_microdollars)}, reserved now "
        f"{dollars(report.reserved_microdollars)}) · avoided against cloud-only "
        f"[bold]{dollars(report.avoided_microdollars)}[/bold]"
    )
    _print_latency(report)
    for title, counts in (
        ("reasons", report.reasons),
        ("degraded because", report.degraded_reasons),
        ("failed because", report.failures),
    ):
        named = {code: count for code, count in counts.items() if code}
        if named:
            words = " · ".join(f"{code} {count}" for code, count in named.items())
            screen.print(f"[dim]{title}:[/dim] {words}")
    for name, provider in report.providers.items():
        screen.print(
            f"[dim]{name}:[/dim] {provider.attempts} attempts, {provider.failures} failed, "
            f"{dollars(provider.spent_microdollars)}"
        )
    for state in report.budgets:
        screen.print(f"[dim]budget {state.budget}:[/dim] {dollars(state.remaining)} left")


def _print_latency(report: Report) -> None:
    if not report.total_ms:
        return
    table = Table(box=None, pad_edge=False)
    for column in ("source", "answers", "first text p50", "p99", "whole p50", "p90", "p99"):
        table.add_column(column, justify="left" if column == "source" else "right")
    for source, whole in report.total_ms.items():
        first = report.first_token_ms.get(source)
        table.add_row(
            source,
            str(whole.count),
            milliseconds(first.p50 if first else None),
            milliseconds(first.p99 if first else None),
            milliseconds(whole.p50),
            milliseconds(whole.p90),
            milliseconds(whole.p99),
        )
    console().print(table)
