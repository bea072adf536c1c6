"""`edgewise why`: why one request stayed on the device or left it, in a sentence and a chart."""

from __future__ import annotations

from typing import Any

import click

from edgewise.assembly import parts
from edgewise.cli import options
from edgewise.cli.ledger import find_request
from edgewise.cli.render import (
    Screen,
    console,
    print_json,
)
from edgewise.decide.explain import (
    Explanation,
    Pull,
)
from edgewise.monitor.why import explain_row
from edgewise.record.book import Book
from edgewise.settings import Settings
from edgewise.types.measured import doubt_of

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
    finally:
        book.close()
    told = explain_row(row, settings)
    if as_json:
        print_json({"id": row["id"], "source": row["source"], "task": row["task"]} | told.to_dict())
        return
    _print(told, row, console())


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
