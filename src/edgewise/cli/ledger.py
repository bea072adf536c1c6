"""`edgewise ledger` and `edgewise why`: what was spent and saved, and why requests left."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import asdict
from typing import Any, get_args

import click
from rich.table import Table

from edgewise import parts
from edgewise.cli import options
from edgewise.cli.render import Screen, confidence, console, dollars, milliseconds, print_json
from edgewise.cli.streams import printable
from edgewise.decide.drift import Drift
from edgewise.decide.explain import Explanation, Pull
from edgewise.monitor.drift import DriftWatch, Outlook, Verdicts, in_words
from edgewise.monitor.why import explain_row
from edgewise.record.ledger import Book
from edgewise.record.report import (
    DAY_S,
    AuditReport,
    By,
    Every,
    Report,
    Usage,
    parse_since,
    usage_csv,
)
from edgewise.record.rows import BudgetState
from edgewise.server.keys import all_keys, limits_of
from edgewise.settings import Settings
from edgewise.types.replies import doubt_of

SEARCHED_FOR_AN_ID = 10_000
MOST_PEOPLE = 10  # whose budgets the page lists


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


@click.group(invoke_without_command=True)
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
@click.option(
    "--verdicts", is_flag=True, help="What verdicts prove for each key, and what is missing."
)
@click.option(
    "--by",
    type=click.Choice(get_args(By)),
    help="A table: what each key asked, kept, spent and saved, or each user or group behind one.",
)
@click.option(
    "--every", type=click.Choice(["day", "week"]), help="With --by: a row for each day or week."
)
@click.option("--csv", "as_csv", is_flag=True, help="With --by: as CSV, amounts in micro-dollars.")
@options.as_json
def ledger(
    since: str | None,
    last: int | None,
    request_id: str | None,
    accept: bool,
    verdicts: bool,
    by: By | None,
    every: Every | None,
    as_csv: bool,
    as_json: bool,
) -> None:
    """Show spend, share kept on the device, cost avoided, latency and reasons.

    \b
    edgewise ledger --since 7d
    edgewise ledger --by key --since 30d
    edgewise ledger --by user --every week --csv > people.csv
    edgewise ledger --last 10
    edgewise ledger --verdicts
    edgewise ledger --json | jq .spent_microdollars
    """
    if click.get_current_context().invoked_subcommand:
        return
    given = (since if by is None else None, last, request_id, accept or None, verdicts or None, by)
    if sum(each is not None for each in given) > 1:
        names = "--since, --last, --request, --accept, --verdicts and --by (but for its --since)"
        raise click.UsageError(f"{names} exclude each other")
    if by is None and (every or as_csv):
        raise click.UsageError("--every and --csv belong to --by")
    moment = parse_since(since) if since else None
    settings = Settings.load()
    book = parts.open_ledger(settings)
    mine, of_keys = parts.ledger_limits(settings), limits_of(all_keys(settings))
    book.limit([*mine[0], *of_keys[0]], [*mine[1], *of_keys[1]])
    try:
        if by is not None:
            _print_usage(book, book.usage(moment, by, every or ""), by, as_csv, as_json)
        elif accept:
            _accept(book, as_json)
        elif verdicts:
            _print_verdicts(Verdicts(settings, book).outlooks(), as_json)
        elif request_id is not None:
            _print_request(find_request(book, request_id), as_json)
        elif last:
            _print_recent(book.recent(last), as_json)
            if not as_json:
                _print_away(book)
        else:
            _print_all(book.report(moment), settings, book, as_json)
    finally:
        book.close()


@ledger.command()
@click.option("--keep", required=True, help="Keep what is younger: 90d, 12w; at least a day.")
@options.as_json
def prune(keep: str, as_json: bool) -> None:
    """Delete old requests, their attempts and texts, audits and claimed ids.

    Budgets, the figures of `--by`, and verdicts stay as they are. It may run beside a server. The
    file does not shrink: what is free in it is used again.

    \b
    edgewise ledger prune --keep 90d
    """
    now = time.time()
    before = parse_since(keep, now=now)
    if now - before < DAY_S:
        raise click.UsageError("--keep: at least 1d")
    book = parts.open_ledger(Settings.load())
    try:
        count = book.prune(before)
    finally:
        book.close()
    if as_json:
        print_json({"deleted": count, "before": before})
        return
    console().say(f"Deleted {count:,} requests from before {_when(before, '%Y-%m-%d %H:%M')}.")


def _print_usage(book: Book, rows: list[Usage], by: By, as_csv: bool, as_json: bool) -> None:
    found = [asdict(row) for row in rows]
    if as_csv:
        click.echo(usage_csv(found), nl=False)
        return
    if as_json:
        print_json(found)
        return
    table = Table(box=None, pad_edge=False, padding=(0, 1))
    periods = any(row.period for row in rows)
    words = ["when"] * periods + ["key"] + [by] * (by != "key")
    for column in words:
        table.add_column(column, overflow="fold")
    for column in ("requests", "kept", "doubtful", "cloud", "failed", "spent", "avoided"):
        table.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        names = [row.period] * periods + [row.key or "-"]
        names += [row.user or row.group or "-"] * (by != "key")
        answered = row.requests - row.failed  # of answers, as on the page
        share = f" ({row.kept / answered:.0%})" if answered else ""
        table.add_row(
            *map(printable, names),
            f"{row.requests:,}",
            f"{row.kept:,}{share}",
            f"{row.doubtful:,}",
            f"{row.cloud:,}",
            f"{row.failed:,}",
            dollars(row.spent_microdollars),
            dollars(row.avoided_microdollars),
        )
    console().print(table if rows else "Nothing asked yet.")
    _print_away(book)


def _accept(book: Book, as_json: bool) -> None:
    lost = book.accept()
    if as_json:
        print_json({"accepted": bool(lost), "lost": lost})
        return
    console().say(
        f"Accepted: {lost}. Budgets count from now on." if lost else "No ledger was lost."
    )


def _print_verdicts(outlooks: list[Outlook], as_json: bool) -> None:
    if as_json:
        print_json([each.to_dict() for each in outlooks])
    else:
        whose = Counter((each.workload.name, each.workload.task) for each in outlooks)
        for each in outlooks:
            several = whose[each.workload.name, each.workload.task] > 1
            model = f" (answers of {each.workload.calibration})" if several else ""
            console().say(f"{in_words(each)}{model}")
        if not outlooks:
            console().say("Nothing asked yet.")


def _print_all(report: Report, settings: Settings, book: Book, as_json: bool) -> None:
    drifted = [each for each in DriftWatch(settings, book).compare_all() if each.drifted]
    if as_json:
        drift = [asdict(each) for each in drifted]
        facts = {"drift": drift, "lost": book.lost(), "away": book.away()}
        print_json(report.to_dict() | facts)
        return
    _print_report(report)
    _print_away(book)
    if lost := book.lost():
        closed = "nothing that has a budget leaves until `edgewise ledger --accept`"
        console().say(("lost: ", "bold yellow"), f"{lost}; {closed}")
    _print_drift(drifted, book)


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


_COLUMNS = ("when", "id", "source", "conf.", "time", "cost", "why")
_WIDE_ENOUGH = 76  # columns of a terminal for all of them; in fewer the reason matters more


def _print_recent(rows: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print_json(rows)
        return
    table = Table(box=None, pad_edge=False, padding=(0, 1))
    screen = console()
    left_out = {"when", "time"} if screen.width < _WIDE_ENOUGH else set[str]()
    for column in _COLUMNS:
        if column in left_out:
            continue
        right = column in ("conf.", "time", "cost")
        fold = column == "why"  # a narrow terminal shows all of the reason, on several lines
        table.add_column(
            column,
            justify="right" if right else "left",
            no_wrap=not fold,
            overflow="fold" if fold else "ellipsis",
            min_width=16 if fold else None,
        )
    for row in rows:
        sure = confidence(
            row["confidence"],
            verified=row["confidence_verified"],
            calibration=row["calibration"],
        )
        cells = (
            _when(row["created_at"], "%m-%d %H:%M"),
            row["id"][:SHORT_ID],
            row["source"],
            sure,
            milliseconds(row["total_ms"]),
            dollars(row["cost_microdollars"]),
            row["error_code"] or row["decision_code"],
        )
        shown = zip(_COLUMNS, cells, strict=True)
        table.add_row(*(cell for column, cell in shown if column not in left_out))
    screen.print(table if rows else "Nothing asked yet.")


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
    people = sorted((each for each in report.budgets if each.budget.of), key=_share_left)
    for state in (*(each for each in report.budgets if not each.budget.of), *people[:MOST_PEOPLE]):
        screen.say(
            (f"budget {state.budget.in_words()}: ", "dim"), f"{dollars(state.remaining)} left"
        )
    if len(people) > MOST_PEOPLE:
        more = len(people) - MOST_PEOPLE
        screen.say((f"{more} more users and groups have more left; --json has them", "dim"))


def _share_left(state: BudgetState) -> float:
    return state.remaining / max(1, state.budget.limit_microdollars)


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


@click.command()
@click.argument("request_id")
@click.argument("verdict", type=click.Choice(["right", "wrong"]))
@click.option(
    "--above",
    type=click.FloatRange(0, 1),
    default=0.0,
    help="You judge only answers of at least this confidence, whether they look right or not.",
)
@options.as_json
def feedback(request_id: str, verdict: str, above: float, as_json: bool) -> None:
    """Say whether an answer was right. What `max_error` promises grows from this.

    The first characters of REQUEST_ID are enough. The last verdict on an answer counts.

    \b
    edgewise feedback 3f2a right
    edgewise ledger --verdicts
    """
    settings = Settings.load()
    book = parts.open_ledger(settings)
    try:
        verdicts = Verdicts(settings, book)
        found = find_request(book, request_id)["id"]
        said = verdicts.say(found, verdict == "right", above=above)
        outlook = verdicts.outlook(said.workload, said.calibration)
    finally:
        book.close()
    if as_json:
        told = None if outlook is None else outlook.to_dict()
        print_json({"id": said.id, "right": said.right, "workload": said.workload, "outlook": told})
        return
    console().say(f"{said.id}: {verdict}", f"; {outlook}" if outlook else "")


# -- why one request went where it went ------------------------------------------------------------


HALF_BAR = 18  # characters on each side of the middle
LINE = 50  # characters from 0 to 1
MOST_PULLS = 8


@click.command()
@click.argument("request_id", required=False)
@click.option("--last", is_flag=True, help="The latest request.")
@options.as_json
def why(request_id: str | None, last: bool, as_json: bool) -> None:
    """Say why a request stayed on the device or left, and what would have changed it.

    The first characters of REQUEST_ID are enough; `edgewise ledger --last 10` lists ids.

    \b
    edgewise why --last
    edgewise why 3f2a
    edgewise why --last --json | jq -r .sentence
    """
    if last == (request_id is not None):
        raise click.UsageError("name one request: REQUEST_ID or --last")
    settings = Settings.load()
    book = parts.open_ledger(settings)
    try:
        row = _latest(book) if last else find_request(book, request_id or "")
        outlook = Verdicts(settings, book).outlook(row["budget_key"], row["calibration"])
    finally:
        book.close()
    told = explain_row(row, settings)
    if as_json:
        facts = {"id": row["id"], "source": row["source"], "task": row["task"]}
        known = {"outlook": None if outlook is None else outlook.to_dict()}
        print_json(facts | told.to_dict() | known)
        return
    _print(told, row, console())
    if outlook is not None and outlook.learnt.verdicts:
        console().say((f"your own verdicts: {outlook}", "dim"))


def _latest(book: Book) -> dict[str, Any]:
    rows = book.recent(1)
    if not rows:
        raise click.ClickException(f"nothing asked yet: {book.path} is empty")
    return rows[0]


def _print(told: Explanation, row: dict[str, Any], screen: Screen) -> None:
    screen.say((told.sentence, "bold"))
    facts = [row["id"], row["task"], told.code, f"policy {row['policy']}"]
    facts += [f"calibration {told.calibration}"] if told.calibration else []
    screen.say((" · ".join(fact for fact in facts if fact), "dim"))
    if told.confidence is not None:
        screen.say()
        for line in confidence_line(
            told.confidence, told.threshold, "" if told.verified else doubt_of(told.calibration)
        ):
            screen.say(line)
    if told.pulls:
        screen.say()
        screen.say((f"what the {told.score} score weighed (against · for, in log-odds)", "dim"))
        for bar in bars(told.pulls[:MOST_PULLS]):
            screen.say(bar)
        screen.say(f"{told.evidence}.")
    if told.changes:
        screen.say()
        for change in told.changes:
            screen.say(f"→ {change}")
    for note in told.notes:
        screen.say((f"! {note}", "yellow"))


def confidence_line(confidence: float, threshold: float | None, doubt: str = "") -> list[str]:
    """Both numbers on one line from 0 to 1: `o` is the confidence, `|` the threshold."""
    cells = ["─"] * (LINE + 1)
    if threshold is not None:
        cells[_place(threshold)] = "|"
    cells[_place(confidence)] = "o"
    words = f"o {doubt} confidence {confidence:.2f}".replace("  ", " ")
    if threshold is not None:
        words += f"   | threshold {threshold:.2f}"
    return [f"0 {''.join(cells)} 1", f"  {words}"]


def _place(share: float) -> int:
    return round(min(1.0, max(0.0, share)) * LINE)


def bars(pulls: tuple[Pull, ...]) -> list[str]:
    """One line per feature: its name, its value, what it added, and a bar to that side."""
    largest = max((abs(pull.contribution) for pull in pulls), default=0.0) or 1.0
    width = max((len(pull.feature) for pull in pulls), default=0)
    lines = []
    for pull in pulls:
        length = round(HALF_BAR * abs(pull.contribution) / largest)
        bar = "█" * length
        left, right = (bar, "") if pull.contribution < 0 else ("", bar)
        lines.append(
            f"  {pull.feature:<{width}} {pull.value:>8.3g} {pull.contribution:+7.2f}  "
            f"{left:>{HALF_BAR}}│{right}"
        )
    return lines
