"""`edgewise deploy`: the server and its models as replicas on Ray Serve, from one file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from edgewise.cli import options
from edgewise.cli.render import Waiting, console
from edgewise.cli.streams import print_json
from edgewise.errors import EdgewiseError
from edgewise.settings import Settings

COLOURS = {"running": "green", "deploying": "yellow"}


@click.command()
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option("--check", "do", flag_value="check", help="Only say whether the file is right.")
@click.option("--status", "do", flag_value="status", help="What runs of it.")
@click.option("--stop", "do", flag_value="stop", help="Finish what runs, and end it.")
@click.option("--example", "do", flag_value="example", help="Print a file with all settings.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    default=300.0,
    metavar="SECONDS",
    help="To wait until all replicas run, or have ended.  [300]",
)
@options.as_json
def deploy(file: Path | None, do: str | None, timeout_s: float, as_json: bool) -> None:
    """Run the server and its models as replicas on Ray Serve, on one machine or many.

    \b
    edgewise deploy --example > deploy.toml
    edgewise deploy deploy.toml
    edgewise deploy deploy.toml --status

    The same line with a changed file is a rolling upgrade: what runs finishes first. Keys are never
    in the file; docs/guide/scaling.md says where they come from. Needs the extra `cluster`.
    """
    # Imported here: pydantic takes its time, and other commands do not need it.
    from edgewise_cluster import launch  # noqa: PLC0415
    from edgewise_cluster.plan import EXAMPLE, notes, read_plan  # noqa: PLC0415

    if do == "example":
        click.echo(EXAMPLE, nl=False)
        return
    if file is None:
        raise click.UsageError("which file? edgewise deploy --example > deploy.toml makes one")
    plan, settings = read_plan(file), Settings.load()
    settings = settings.with_changes(data_dir=plan.settings.get("data_dir", settings.data_dir))
    if do == "check":
        _say_checked(plan.model_dump(), notes(plan), as_json)
        return
    side = console(stderr=True)
    if do == "stop":
        with Waiting(side, "Stopping"):
            stopped = launch.stop(plan, settings, timeout_s)
        _say({"stopped": stopped}, f"{plan.name} {'ended' if stopped else 'did not run'}", as_json)
        return
    for note in notes(plan) if do is None and not as_json else ():
        side.say((note, "yellow"))
    with Waiting(side, "Starting replicas" if do is None else "Asking Ray"):
        if do == "status":
            told = launch.status(plan, settings)
        else:
            told = launch.deploy(plan, settings, timeout_s)
    _report({"name": plan.name, "url": plan.url, **told}, as_json)
    if do is None and told["status"] != "running":
        raise EdgewiseError(f"{plan.name} is {told['status']}: {_why(told)}")


def _say_checked(plan: dict[str, Any], said: list[str], as_json: bool) -> None:
    if as_json:
        print_json({"plan": plan, "notes": said})
        return
    screen = console()
    screen.say(("The file is right.", "green"))
    for note in said:
        screen.say((note, "yellow"))


def _say(value: dict[str, Any], words: str, as_json: bool) -> None:
    if as_json:
        print_json(value)
    else:
        console().say(words)


def _report(told: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(told)
        return
    screen = console()
    status = told["status"]
    screen.say((status.replace("_", " "), COLOURS.get(status, "red")), f" · {told['url']}")
    for name, each in told["deployments"].items():
        counts = ", ".join(f"{count} {state}" for state, count in each["replicas"].items())
        screen.say(f"  {name}: {counts or each['status']}")


def _why(told: dict[str, Any]) -> str:
    """The first thing that Ray says about it."""
    found = sorted(told["deployments"].values(), key=lambda each: each["status"] != "deploy_failed")
    said = [*(each["message"] for each in found), told.get("message", "")]
    lines = [text.strip().splitlines()[-1] for text in said if text.strip()]
    return lines[0] if lines else "not all replicas run yet; --status tells"
