"""`edgewise models` and `edgewise pull`: what is installed, what can be had, and getting it."""

from __future__ import annotations

from typing import Any

import click
from rich.table import Table

from edgewise.cli import options
from edgewise.cli.render import console, download_bar, print_json
from edgewise.local.model_row import PackageSource
from edgewise.local.model_store import InstalledModel, ModelStore
from edgewise.settings import Settings


@click.command()
@click.option("--verify", is_flag=True, help="Hash every installed file again.")
@options.as_json
def models(verify: bool, as_json: bool) -> None:
    """List models: what is installed and what `edgewise pull` can get."""
    settings = Settings.load()
    store = ModelStore(settings.models_dir)
    installed = {model.name: model for model in store.installed()}
    if verify:
        with download_bar() as progress:
            for name in installed:
                installed[name] = store.verify(name, progress)
    rows = _rows(store, installed, settings.model)
    if as_json:
        print_json(rows)
        return
    table = Table(box=None, pad_edge=False)
    for column in ("", "model", "size", "licence", "from", ""):
        table.add_column(column, justify="right" if column == "size" else "left")
    for row in rows:
        table.add_row(
            "[green]✓[/green]" if row["installed"] else "[dim]·[/dim]",
            f"[bold]{row['name']}[/bold]" if row["default"] else row["name"],
            f"{row['bytes'] / 1e6:,.0f} MB",
            row["licence"],
            row["from"],
            f"[dim]{row['description']}[/dim]",
        )
    screen = console()
    screen.print(table)
    screen.print("\nGet one:  edgewise pull NAME    Use one:  edgewise ask --model NAME …")


@click.command()
@click.argument("name", required=False)
@click.option(
    "--keep-source", is_flag=True, help="Keep the file as published beside the faster one."
)
@options.as_json
def pull(name: str | None, keep_source: bool, as_json: bool) -> None:
    """Get the weights of model NAME (default: the default model), verified by SHA-256.

    An interrupted pull goes on where it stopped.
    """
    settings = Settings.load()
    store = ModelStore(settings.models_dir)
    with download_bar() as progress:
        model = store.pull(name or settings.model, progress, keep_source=keep_source)
    if as_json:
        print_json(_installed(model))
    else:
        click.echo(
            f"{model.name}: {model.bytes / 1e6:,.0f} MB, SHA-256 {model.sha256[:16]}… verified"
        )
        click.echo(str(model.path))


def _rows(
    store: ModelStore, installed: dict[str, InstalledModel], default: str
) -> list[dict[str, Any]]:
    rows = []
    for row in store.available():
        model = installed.get(row.name)
        rows.append(
            {
                "name": row.name,
                "installed": model is not None,
                "default": row.name == default,
                "bytes": model.bytes if model else row.installed_bytes,
                "quantisation": model.quantisation if model else row.installed_quantisation,
                "licence": row.licence,
                "from": "packages" if isinstance(row.source, PackageSource) else "hub",
                "context_tokens": row.context_tokens,
                "description": row.description,
                "path": str(model.path) if model else None,
                "sha256": model.sha256 if model else row.sha256,
            }
        )
    return rows


def _installed(model: InstalledModel) -> dict[str, Any]:
    return {
        "name": model.name,
        "path": str(model.path),
        "bytes": model.bytes,
        "quantisation": model.quantisation,
        "sha256": model.sha256,
    }
