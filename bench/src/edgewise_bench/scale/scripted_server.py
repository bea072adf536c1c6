"""`python -m edgewise_bench.scale.scripted_server FOLDER`: the server with a scripted model.

Everything is at its defaults: ledger, metrics, a JSON line per request on standard error. Only the
model is none: it says 32 tokens at once, and its own cost is next to nothing.
"""

from __future__ import annotations

import json
import sys

import click
from typing_extensions import override

from edgewise.local.backend import TokenStream
from edgewise.server.serve import log_to, serve
from edgewise.settings import Settings
from edgewise.testing import ScriptedBackend, word_tokens
from edgewise.types.messages import Request
from edgewise.types.tokens import Finish, Token

ANSWER = " ".join(["word"] * 32)


class InstantBackend(ScriptedBackend):
    """Has its answer ready: what is measured is the server."""

    def __init__(self) -> None:
        super().__init__([ANSWER])
        tokens = word_tokens(ANSWER, logprob=-0.01, margin=6.0, entropy=0.05)
        self._said: tuple[Token | Finish, ...] = (
            *tokens,
            Finish("stop", input_tokens=16, output_tokens=len(tokens)),
        )

    @override
    def generate(
        self, request: Request, *, already: str = "", layer: int = 0, prompt_layer: int = 0
    ) -> TokenStream:
        yield from self._said


def main(folder: str) -> None:
    settings = Settings.load({}, data_dir=folder, config_dir=f"{folder}/config", server={"port": 0})
    log_to()
    serve(
        settings,
        lambda url: click.echo(json.dumps({"url": url})),
        backend=InstantBackend(),
    )


if __name__ == "__main__":
    main(sys.argv[1])
