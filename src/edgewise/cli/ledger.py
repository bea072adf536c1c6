"""`edgewise ledger`: what was spent and saved, what stayed on the device, and why."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

import click
from rich.table import Table

from edgewise.assembly import parts
from edgewise.cli import options
from edgewise.cli.render import (
    confidence,
    console,
    dollars,
    milliseconds,
    print_json,
)
from edgewise.decide.drift import Drift
from edgewise.monitor.drift import DriftWatch
from edgewise.record.audits import AuditReport
from edgewise.record.book import Book
from edgewise.record.report import (
    Report,
    parse_since,
)
from edgewise.settings import Settings

SEARCHED_FOR_AN_ID = 10_000


SHORT_ID = 8
OF_AN_ATTEMPT = (
    "model",
    "outcome",
    "error",
    "tries",
    "first_token_ms",
    "total_ms",
    "input_tokens",
    "output_tokens",
    "cached_tokens",
    "audio_seconds",
    "cost_microdollars",
    "estimated",
)


def find_request(book: Book, request_id: str) -> dict[str, Any]:
    """The whole row with its attempts. Raises if no request, or more than one, begins like this."""
    entry = book.get(request_id)
    if entry is None and request_id:
        ids = [row["id"] for row in book.recent(SEARCHED_FOR_AN_ID)]
        near = [known for known in ids if known.startswith(request_id)]
        if len(near) > 1:
            raise click.ClickException(f"{len(near)} requests begin with {request_id!r}")
        entry = book.get(near[0]) if near else None
    if entry is None:
        raise click.ClickException(f"no request {request_id!r} in {book.path}")
    return entry


@click.command()
@click.option("--since", help="Only since then: 30m, 24h, 7d, or a UTC date like 2026-11-01.")
@click.option("--last", type=click.IntRange(1), help="List the last N requests instead.")
@click.option(
    "--request",
    "request_id",
    metavar="ID",
    help="Everything about one request; the first characters of its id are enough.",
)
@click.option(
    "--accept",
    is_flag=True,
    help="After a lost ledger: let budgets count from what is recorded now.",
)
@options.as_json
def ledger(
    since: str | None, last: int | None, request_id: str | None, accept: bool, as_json: bool
) -> None:
    """Show spend, share kept on the device, cost avoided, latency and reasons.

    \b
    edgewise ledger --since 7d
    edgewise ledger --last 10
    edgewise ledger --json | jq .spent_microdollars
    """
    if sum(given is not None for given in (since, last, request_id, accept or None)) > 1:
        raise click.UsageError("--since, --last, --request and --accept exclude each other")
    moment = parse_since(since) if since else None
    settings = Settings.load()
    book = parts.open_ledger(settings)
    try:
        if accept:
            _print_accepted(book.accept(), as_json)
        elif request_id is not None:
            _print_request(find_request(book, request_id), as_json)
        elif last:
            _print_recent(book.recent(last), as_json)
            if not as_json:
                _print_away(book)
        else:
            report = book.report(moment)
            drifted = [each for each in DriftWatch(settings, book).compare_all() if each.drifted]
            if as_json:
                drift = [asdict(each) for each in drifted]
                facts = {"drift": drift, "lost": book.lost(), "away": book.away()}
                print_json(report.to_dict() | facts)
            else:
                _print_report(report)
                _print_away(book)
                _print_lost(book.lost())
                _print_drift(drifted, book)
    finally:
        book.close()


def _print_accepted(lost: str, as_json: bool) -> None:
    if as_json:
        print_json({"accepted": bool(lost), "lost": lost})
    else:
        words = f"Accepted: {lost}. Budgets count from now on." if lost else "No ledger was lost."
        console().say(words)


def _print_lost(lost: str) -> None:
    if lost:
        closed = "nothing that has a budget leaves until `edgewise ledger --accept`"
        console().say(("lost: ", "bold yellow"), f"{lost}; {closed}")


def _print_away(book: Book) -> None:
    if why := book.away():
        waiting = f"{book.waiting():,} rows wait to be sent"
        console().say(("this machine alone: ", "bold yellow"), f"{why}; {waiting}")


def _print_request(entry: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(entry)
        return
    screen = console()
    attempts = entry.pop("attempts")
    entry["created_at"] = _when(entry["created_at"], "%Y-%m-%d %H:%M:%S")
    _print_facts(entry, "")
    for number, attempt in enumerate(attempts, start=1):
        screen.say()
        screen.say((f"attempt {number}: {attempt['place']} {attempt['backend']}", "bold"))
        _print_facts({name: attempt[name] for name in OF_AN_ATTEMPT}, "  ")


def _print_facts(facts: dict[str, Any], indent: str) -> None:
    """Names and values, without empty ones; --json has them all."""
    screen = console()
    for name, value in facts.items():
        if value is None or value is False or value in ("", {}):
            continue
        if name == "audio_seconds" and not value:
            continue  # most requests have no sound
        if name.endswith("_ms"):
            value = milliseconds(value)
        elif name.endswith("_microdollars"):
            name, value = name.removesuffix("_microdollars"), dollars(value)
        elif isinstance(value, dict):
            value = ", ".join(f"{key} {number:.3g}" for key, number in value.items())
        elif isinstance(value, float):
            value = f"{value:.3f}"
        if name == "confidence" and not facts["confidence_verified"]:
            value = f"{value} (unverified)"
        screen.say((f"{indent}{name:<22} ", "dim"), str(value))


def _print_recent(rows: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print_json(rows)
        return
    table = Table(box=None, pad_edge=False, padding=(0, 1))
    for column in ("when", "id", "source", "conf.", "time", "cost", "why"):
        right = column in ("conf.", "time", "cost")
        table.add_column(column, justify="right" if right else "left", no_wrap=column != "why")
    for row in rows:
        table.add_row(
            _when(row["created_at"], "%m-%d %H:%M"),
            row["id"][:SHORT_ID],
            row["source"],
            confidence(
                row["confidence"],
                verified=row["confidence_verified"],
                calibration=row["calibration"],
            ),
            milliseconds(row["total_ms"]),
            dollars(row["cost_microdollars"]),
            row["error_code"] or row["decision_code"],
        )
    console().print(table if rows else "Nothing asked yet.")


def _when(moment: float, form: str) -> str:
    return time.strftime(form, time.localtime(moment))


def _print_report(report: Report) -> None:
    screen = console()
    if not report.requests:
        screen.say("Nothing asked yet." if report.since is None else "Nothing asked since then.")
    else:
        share = report.share_on_device
        screen.say(
            (str(report.requests), "bold"),
            " requests · " if report.requests != 1 else " request · ",
            ("-" if share is None else f"{share:.0%}", "bold"),
            f" kept on the device · {report.degraded} degraded · {report.failed} failed",
        )
        screen.say(
            "spent ",
            (dollars(report.spent_microdollars), "bold"),
            _part("estimated", report.estimated_microdollars),
            " · avoided against cloud-only ",
            (dollars(report.avoided_microdollars), "bold"),
            _part("set aside for calls still running", report.reserved_microdollars),
        )
        _print_latency(report)
    _print_audits(report.audits)
    _print_reasons(report)


def _print_drift(drifted: list[Drift], book: Book) -> None:
    for each in drifted:
        note = book.noted("drift", each.calibration)
        since = f" (since {_when(note.created_at, '%m-%d %H:%M')})" if note and note.words else ""
        console().say((f"drift{since}: ", "bold yellow"), f"{each.calibration}: {each.words}")


def _print_audits(audits: AuditReport) -> None:
    """The price of what was saved: possible errors."""
    screen, found = console(), audits.all
    if not found.count or found.share is None:
        if audits.spent_microdollars:
            screen.say((f"audits: none finished, {dollars(audits.spent_microdollars)}", "dim"))
        return
    screen.say(
        (str(found.count), "bold"),
        f" {'answer' if found.count == 1 else 'answers'} audited for ",
        dollars(audits.spent_microdollars),
        " · the cloud would have said otherwise in ",
        (f"{found.share:.0%}", "bold"),
        f" ({found.low:.0%} to {found.high:.0%})",
    )
    screen.say(
        f"so of {audits.kept:,} kept answers about ",
        (f"{audits.accepted:,.0f}", "bold"),
        f" ({audits.accepted_low:,.0f} to {audits.accepted_high:,.0f}) may be wrong, if the cloud"
        " is right and the others are like these",
    )


def _part(name: str, microdollars: int) -> str:
    return f" ({dollars(microdollars)} {name})" if microdollars else ""


def _print_reasons(report: Report) -> None:
    screen = console()
    for title, counts in (
        ("reasons", report.reasons),
        ("degraded because", report.degraded_reasons),
        ("failed because", report.failures),
        ("left as placeholders", report.redacted),
    ):
        if counts:
            words = " · ".join(f"{code} {count}" for code, count in counts.items())
            screen.say((f"{title}: ", "dim"), words)
    for name, provider in report.providers.items():
        calls = "call" if provider.attempts == 1 else "calls"
        heard = provider.audio_seconds
        screen.say(
            (f"{name}: ", "dim"),
            f"{provider.attempts} {calls}, {provider.failures} failed, "
            f"{dollars(provider.spent_microdollars)}",
            f", {heard:.1f} s of sound" if heard else "",
        )
    for state in report.budgets:
        screen.say(
            (f"budget {state.budget.in_words()}: ", "dim"), f"{dollars(state.remaining)} left"
        )


def _print_latency(report: Report) -> None:
    sources = [source for source in report.total_ms if source != "all" or len(report.total_ms) > 2]
    if not sources:
        return
    table = Table(box=None, pad_edge=False)
    for column in ("source", "answers", "first text p50", "p99", "whole p50", "p90", "p99"):
        table.add_column(column, justify="left" if column == "source" else "right")
    for source in sources:
        whole, first = report.total_ms[source], report.first_token_ms.get(source)
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
