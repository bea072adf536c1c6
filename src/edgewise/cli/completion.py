"""`edgewise completion`: shell completion, from click's own generator."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a completion script for SHELL.

    \b
    bash:  edgewise completion bash >> ~/.bashrc
    zsh:   edgewise completion zsh >> ~/.zshrc
    fish:  edgewise completion fish > ~/.config/fish/completions/edgewise.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None, "click knows these three"
    click.echo(kind(context.find_root().command, {}, "edgewise", "_EDGEWISE_COMPLETE").source())
