"""`python -m edgewise_bench.scale.scripted_server FOLDER [WORKERS]`: a server, a scripted model.

Everything is at its defaults: ledger, metrics, a JSON line per request on standard error. Only the
model is none: it says 32 tokens at once, and its own cost is next to nothing.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

import click
from typing_extensions import override

from edgewise.local.backend import TokenStream
from edgewise.server.serve import log_to, serve
from edgewise.settings import Settings
from edgewise.testing import ScriptedBackend, word_tokens
from edgewise.types.messages import Request
from edgewise.types.replies import Finish, Token

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


def make_parts() -> Mapping[str, Any]:
    return {"backend": InstantBackend()}


def announce(url: str, *_: object) -> None:
    click.echo(json.dumps({"url": url}))


def main(folder: str, workers: str = "1") -> None:
    settings = Settings.load({}, data_dir=folder, config_dir=f"{folder}/config", server={"port": 0})
    if workers == "1":
        log_to()
        serve(settings, announce, **make_parts())
    else:
        from edgewise.server.workers import serve_many  # noqa: PLC0415 - an older checkout has none

        serve_many(settings, announce, int(workers), make_parts=make_parts, set_up_log=log_to)


if __name__ == "__main__":
    main(*sys.argv[1:])
