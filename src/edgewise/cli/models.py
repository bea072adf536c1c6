"""`edgewise models` and `edgewise pull`: list, check, remove and fetch models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.padding import Padding
from rich.text import Text

from edgewise.assembly.models import can_chat
from edgewise.cli import options
from edgewise.cli.main import exit_code
from edgewise.cli.ready import explain_packages
from edgewise.cli.render import (
    console,
    download_bar,
    megabytes,
    print_json,
)
from edgewise.errors import StoreError
from edgewise.local.store.catalogue import (
    MODELS,
    ModelRow,
    PackageSource,
    model_name,
    row_named,
)
from edgewise.local.store.engines import ENGINES, engine_named, split_engine
from edgewise.local.store.store import (
    InstalledModel,
    ModelStore,
)
from edgewise.settings import Settings


@click.command()
@click.option(
    "--verify", is_flag=True, help="Hash every installed file again; exit 6 if one changed."
)
@click.option(
    "--remove", metavar="NAME", help="Delete a model.", shell_complete=options.complete_models
)
@options.as_json
@click.pass_context
def models(context: click.Context, /, verify: bool, remove: str | None, as_json: bool) -> None:
    """List models: those installed, and those `edgewise pull` can get.

    \b
    edgewise models
    edgewise models --json | jq '.[] | select(.installed) | .path'
    edgewise models --remove qwen3-0.6b
    """
    settings = Settings.load()
    store = ModelStore(settings.models_dir)
    if remove:
        store.remove(remove)
    rows = _rows(store, settings)
    problem: StoreError | None = None
    if verify:
        problem = _verify(store, rows)
    if as_json:
        print_json(rows)
    else:
        _print(rows)
    if problem is not None:
        context.exit(exit_code(problem))


@click.command()
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=options.complete_models)
@click.option(
    "--engine",
    metavar="ENGINE",
    default="",
    help="Convert it for another engine (onnx, openvino, executorch); NAME may be a GGUF file.",
    shell_complete=options.complete_engines,
)
@click.option(
    "--from",
    "given",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A .pte of yours for --engine executorch, checked and taken instead of exporting one.",
)
@click.option("--keep-source", is_flag=True, help="Keep the published file beside the faster one.")
@options.as_json
def pull(
    names: tuple[str, ...], engine: str, given: Path | None, keep_source: bool, as_json: bool
) -> None:
    """Get the weights of models (default: the chat model), verified by SHA-256.

    The function model is fetched at the first call, or by its name. An interrupted pull
    continues where it stopped; an installed model is left alone. A file that two models share
    is fetched once. With --json several NAMEs give a list.

    \b
    edgewise pull
    edgewise pull standard
    edgewise pull smollm2-135m-instruct edgewise-caller
    edgewise pull tiny --engine onnx
    """
    settings = Settings.load()
    store = ModelStore(settings.models_dir)
    wanted = names or (settings.model,)
    if engine:
        engine_named(engine)
        wanted = tuple(f"{split_engine(name)[0]}@{engine}" for name in wanted)
    if given is not None and (not engine or len(wanted) > 1):
        raise click.UsageError("--from needs --engine and one NAME.")
    pulled = []
    for number, name in enumerate(wanted, start=1):
        row = row_named(split_engine(name)[0])
        if row is not None:
            explain_packages(store, row)
        with download_bar() as progress:
            pulled.append(
                store.pull(
                    name,
                    progress,
                    keep_source=keep_source,
                    leave_for=wanted[number:],
                    given=given,
                )
            )
    if as_json:
        found = [_installed(model) for model in pulled]
        print_json(found[0] if len(wanted) == 1 else found)
        return
    for model in pulled:
        click.echo(f"{model.name}: {megabytes(model.bytes)}, SHA-256 {model.sha256[:16]}… verified")
        click.echo(str(model.path))
        if model.engine:
            use = f"edgewise ask --model {model.name} …"
            if not can_chat(model):
                use = f"EDGEWISE_FUNCTION_MODEL={model.name} edgewise call …"
            click.echo(f"Use it: {use}")


def _rows(store: ModelStore, settings: Settings) -> list[dict[str, Any]]:
    here = store.installed()
    installed = {model.name: model for model in here}
    rows = []
    for row in store.available():
        rows.append(_row(row, installed.get(row.name), settings))
        rows += [_row(row, each, settings) for each in here if each.engine and each.row is row]
    rows += [_converted_file(each) for each in here if each.engine and each.row is None]
    return rows


def _row(row: ModelRow, model: InstalledModel | None, settings: Settings) -> dict[str, Any]:
    """A model of the catalogue: as it is, or as it was converted for an engine."""
    name = model.name if model else row.name
    words = _made_for(model) if model and model.engine else row.description
    return {
        "name": name,
        "installed": model is not None,
        "rung": "" if model and model.engine else row.rung,
        "engine": model.engine if model else "",
        "default": name == model_name(settings.model, MODELS),
        "function_model": name == model_name(settings.function_model, MODELS),
        "transcriber": name == settings.speech_model,
        "embedder": name == settings.embed_model,
        "kind": row.kind,
        "bytes": model.bytes if model else row.installed_bytes,
        "quantisation": model.quantisation if model else row.installed_quantisation,
        "licence": row.licence,
        "from": "packages" if isinstance(row.source, PackageSource) else "hub",
        "context_tokens": row.context_tokens,
        "description": words,
        "path": str(model.path) if model else None,
        "sha256": model.sha256 if model else row.sha256,
        "problem": None,
    }


def _converted_file(model: InstalledModel) -> dict[str, Any]:
    """A user's own file that was converted for an engine."""
    return {
        **dict.fromkeys(("default", "function_model", "transcriber", "embedder"), False),
        **_installed(model),
        "installed": True,
        "rung": "",
        "kind": "text",
        "licence": "yours",
        "from": "a file",
        "context_tokens": 0,
        "description": _made_for(model),
        "problem": None,
    }


def _made_for(model: InstalledModel) -> str:
    base, engine = split_engine(model.name)
    bits = "the same bits" if model.same_bits else f"rounded to {model.quantisation}"
    return f"{base} for {ENGINES[engine].title}, {bits}."


def _verify(store: ModelStore, rows: list[dict[str, Any]]) -> StoreError | None:
    """Note each damaged model in its row; return the last problem."""
    problem: StoreError | None = None
    with download_bar() as progress:
        for row in rows:
            if row["installed"]:
                try:
                    store.verify(row["name"], progress)
                except StoreError as error:
                    row["problem"], problem = str(error), error
    return problem


def _print(rows: list[dict[str, Any]]) -> None:
    screen = console()
    width = max(len(row["name"]) for row in rows)
    for row in rows:
        mark = (
            ("✗", "red") if row["problem"] else ("✓", "green") if row["installed"] else ("·", "dim")
        )
        screen.say(
            mark,
            (f" {row['name']:<{width}}", "bold" if row["installed"] else ""),
            f" {megabytes(row['bytes']):>9}  {row['licence']} · {row['from']}",
            f" · {row['rung']}" if row["rung"] else "",
            " · the default" if row["default"] else "",
            " · calls functions" if row["function_model"] else "",
            " · transcribes" if row["transcriber"] else "",
            " · embeds" if row["embedder"] else "",
        )
        words = Text(row["problem"] or row["description"], "red" if row["problem"] else "dim")
        screen.print(Padding(words, (0, 0, 0, 4), expand=False))
    screen.say()
    screen.say("Get one: edgewise pull NAME · use one: edgewise ask --model NAME …")


def _installed(model: InstalledModel) -> dict[str, Any]:
    return {
        "name": model.name,
        "engine": model.engine,
        "path": str(model.path),
        "bytes": model.bytes,
        "quantisation": model.quantisation,
        "sha256": model.sha256,
    }
