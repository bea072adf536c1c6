"""Tables of function-calling benches: one row per figure, one column per system."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

    from edgewise.bench.tools import Outcome


def tool_tables(outcome: Outcome) -> Iterable[Table]:
    """All cases together, then each file where there are several."""
    figures = {name: outcome.figures(name, each) for name, each in outcome.results.items()}
    files = {name: outcome.by_file(name) for name in outcome.results}
    note = f"hybrid: {outcome.titles['hybrid']}" if "hybrid" in outcome.results else ""
    yield comparison("all cases", figures, outcome.titles, note)
    for stem in files[outcome.headline]:
        yield comparison(stem, {name: files[name][stem] for name in files}, outcome.titles, note)


def comparison(
    title: str,
    columns: Mapping[str, Mapping[str, float]],
    titles: Mapping[str, str],
    note: str = "",
) -> Table:
    """Figures that no column has are left out; a column without one has a gap."""
    from rich.table import Table  # noqa: PLC0415 - drawn only when a table is asked for

    table = Table("", *(titles[name] for name in columns), title=title, caption=note or None)
    table.columns[0].no_wrap = True
    for column in table.columns[1:]:
        column.justify = "right"
    names = dict.fromkeys(key for figures in columns.values() for key in figures)
    for name in names:
        table.add_row(name, *(_shown(figures.get(name)) for figures in columns.values()))
    return table


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:,.4g}"
