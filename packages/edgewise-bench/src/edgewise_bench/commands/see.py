"""`edgewise bench see`: how well pictures are answered, and what the confidence is worth."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from edgewise_bench.commands.report import (
    as_json_option,
    command_line,
    new_scorecard,
    plots_option,
    progress,
    report,
    save_option,
)


@click.command()
@click.option("--texts", type=click.IntRange(1), default=120, show_default=True)
@click.option("--photos", type=click.IntRange(1), default=160, show_default=True)
@click.option("--beyond", type=click.IntRange(1), default=20, show_default=True)
@click.option("--turned", type=click.IntRange(0), default=30, show_default=True)
@click.option("--receipts", type=click.IntRange(0), default=50, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True, help="Makes other pictures.")
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the photographs are, or go (default: the cache).",
)
@click.option(
    "--fit",
    type=click.Path(file_okay=False, path_type=Path),
    help="Fit the calibrations instead, and write them into this folder.",
)
@plots_option
@save_option
@as_json_option
def see(
    folder: Path | None,
    fit: Path | None,
    plots: Path | None,
    save: Path | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Questions about drawn text and about photographs, answered by the device's skills.

    `turned_`: pages on their sides and heads. `receipts_`: made-up receipts in five layouts that
    nothing was fitted on. Pictures are made as it runs; photographs come out of two packages,
    fetched by pip and checked. What is handed off goes to a stand-in for a cloud, and the figures
    that rest on it say so.
    """
    import tempfile

    from edgewise.settings import Settings
    from edgewise_bench.plots import check_drawing, draw_confidence
    from edgewise_bench.scorecard import verdicts
    from edgewise_bench.vision import measure as bench
    from edgewise_bench.vision.photos import fetch_photos

    if plots is not None:
        check_drawing()
    with tempfile.TemporaryDirectory(prefix="edgewise-bench-") as data:
        settings = Settings.load(threads=1, data_dir=data)
        where = folder or settings.cache_dir / "bench-photos"
        fetch_photos(where)
        if fit is not None:
            _fit(settings, where, fit)
            return
        cases = bench.see_cases(where, **given)
        with progress("pictures", len(cases)) as step:
            seen = bench.measure_see(settings, cases, step)
    metrics = bench.summarise(seen)
    if plots is not None:
        draw_confidence(plots, *bench.units(seen), "Pictures: drawn text and photographs")
    defaults = {"texts": 120, "photos": 160, "beyond": 20, "turned": 30, "receipts": 50, "seed": 0}
    said = {name: value for name, value in given.items() if value != defaults[name]}
    card = new_scorecard("see", command_line("see", **said), metrics, cloud=bench.STAND_IN)
    report(card, save, as_json, verdicts(metrics, bench.TARGETS))


def _fit(settings: Any, photos: Path, folder: Path) -> None:
    """A file for each skill, named after its model."""
    from edgewise.local.vision import open_skill
    from edgewise.parts import find_or_fetch
    from edgewise_bench.vision.fit import fit_finder, fit_reader, fit_sums

    texts, views, receipts = 600, 250, 70
    reader, finder = (
        open_skill(name, lambda model: find_or_fetch(settings, model, model), threads=1)
        for name in ("reads text", "names objects")
    )
    with progress("fitting", texts + views + receipts) as step:
        made = [fit_finder(finder, photos, views, step), fit_reader(reader, texts, step)]
        sums = fit_sums(reader, receipts, step)
    made[1] |= sums | {"report": {**made[1]["report"], **sums["report"]}}
    folder.mkdir(parents=True, exist_ok=True)
    for document in made:
        path = folder / f"{document['name']}.see.json"
        path.write_text(json.dumps(document, indent=2) + "\n", "utf-8")
        click.echo(str(path), err=True)
