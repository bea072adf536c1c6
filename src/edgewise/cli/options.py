"""Options that several commands share, and the engine they make."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from edgewise.settings import Settings

Command = TypeVar("Command", bound=Callable[..., Any])

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a page.")

POLICIES = ("prefer_local", "local_only", "prefer_cloud", "cloud_only")


def routing(command: Command) -> Command:
    """--policy and its companions, for commands that ask something."""
    for option in reversed(
        (
            click.option(
                "--policy",
                "-p",
                help=f"Where it may be answered: {', '.join(POLICIES)}, or a plug-in's.",
            ),
            click.option("--local", is_flag=True, help="Short for --policy local_only."),
            click.option("--cloud", is_flag=True, help="Short for --policy cloud_only."),
            click.option("--private", is_flag=True, help="Never leaves the device."),
            click.option("--threshold", "-t", type=float, help="Hand off below this confidence."),
            click.option("--model", "-m", help="Local model: a name, or the path of a GGUF file."),
            click.option("--system", "-s", help="System prompt."),
            click.option("--max-tokens", type=int, help="Longest answer, in tokens."),
            click.option("--temperature", type=float, help="0 is repeatable (default)."),
        )
    ):
        command = option(command)
    return command


def split(given: dict[str, Any]) -> tuple[Settings, dict[str, Any]]:
    """Command-line words into settings for the engine and options for its requests."""
    policy, local, cloud = given.pop("policy"), given.pop("local"), given.pop("cloud")
    if sum(map(bool, (policy, local, cloud))) > 1:
        raise click.UsageError("--policy, --local and --cloud exclude each other")
    if local or cloud:
        policy = "local_only" if local else "cloud_only"
    overrides = {"model": model} if (model := given.pop("model")) else {}
    options = {name: value for name, value in given.items() if value not in (None, False)}
    if policy:
        options["policy"] = policy
    return Settings.load(**overrides), options
