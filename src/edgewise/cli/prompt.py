"""What is asked: the words on the command line, and whatever is piped in along with them."""

from __future__ import annotations

import click

from edgewise.cli.render import console
from edgewise.cli.streams import PATIENCE_S, read_all, read_if_piped, without_surrogates


def read_prompt(words: tuple[str, ...], nothing: str) -> str:
    """The words, then standard input; a - at the end waits for it. `nothing`: the usage error."""
    waits = words[-1:] == ("-",)
    said = without_surrogates(" ".join(words[:-1] if waits else words)).strip()
    piped = read_all() if waits else read_if_piped()
    if piped is None:  # silent: with no question there is nothing to do but wait
        piped = "" if said else read_all()
        if said:
            console(stderr=True).say(
                f"nothing came on standard input for {PATIENCE_S:g} s; asking without it "
                "(end the question with - to wait)"
            )
    prompt = f"{said}\n\n{piped}" if said and piped else said or piped
    if not prompt:
        raise click.UsageError(nothing)
    return prompt
