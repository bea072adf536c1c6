"""`python -m tests.server.worker_script FOLDER WORKERS CLOUD`: several workers, scripted model."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Any

from edgewise.server.serve import log_to
from edgewise.server.workers import serve_many
from edgewise.settings import Settings
from edgewise.testing import ScriptedBackend

WORDS = "One two three four five six seven eight nine ten."


def make_parts() -> Mapping[str, Any]:
    """In each worker: a model that says whose it is."""
    return {"backend": ScriptedBackend.confident(f"{WORDS} {os.getpid()}", delay_s=0.02)}


def main(folder: str, workers: int, cloud: str) -> None:
    settings = Settings.load(
        {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": cloud, "BOB_KEY": "bob"},
        data_dir=folder,
        config_dir=f"{folder}/config",
        budgets=("$0.0002/day",),
        chain=("openai",),
        server={
            "port": 0,
            "keys": {"bob": {"key_env": "BOB_KEY", "requests_per_minute": 4}},
            "key": "plain",
        },
    )

    def announce(url: str, pids: Any) -> None:
        print(json.dumps({"url": url, "workers": list(pids)}), flush=True)  # noqa: T201

    serve_many(settings, announce, workers, make_parts=make_parts, set_up_log=log_to)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
