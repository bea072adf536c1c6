"""`edgewise completion`: shell completion, from click's own generator."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from edgewise.cli import options
from edgewise.cli.streams import print_json


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@options.as_json
@click.pass_context
def completion(context: click.Context, shell: str, as_json: bool) -> None:
    """Print a completion script for SHELL: commands, options, models, providers, policies.

    \b
    bash:  edgewise completion bash >> ~/.bashrc
    zsh:   edgewise completion zsh >> ~/.zshrc
    fish:  edgewise completion fish > ~/.config/fish/completions/edgewise.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None, "click knows these three"
    script = kind(context.find_root().command, {}, "edgewise", "_EDGEWISE_COMPLETE").source()
    if as_json:
        print_json({"shell": shell, "script": script})
    else:
        click.echo(script)
