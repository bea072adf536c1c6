"""A process that asks an engine again and again until somebody kills it. Run by test_kills.py.

One server process imports everything once; each line on its standard input makes it fork a child,
which announces its pid and then works. Forking is cheap, so hundreds of kills are.
"""

from __future__ import annotations

import itertools
import os
import sys
from pathlib import Path

from edgewise import Engine, Settings
from edgewise.testing import ScriptedBackend


def work(url: str, folder: Path, requests: int | None = None) -> None:
    settings = Settings.load(
        {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": url},
        data_dir=folder,
        config_dir=folder / "config",
        budgets=("$100/day",),
    )
    backend = ScriptedBackend.doubtful("I have no idea what that could possibly be, none at all")
    with Engine(settings, backend=backend) as engine:
        for _ in itertools.count() if requests is None else range(requests):
            engine.complete("Where is it?")


def say(line: object) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    url, folder = sys.argv[1], Path(sys.argv[2])
    work(url, folder, requests=1)  # loads every module, so that a fork starts at once
    for _ in sys.stdin:
        child = os.fork()
        if child == 0:
            work(url, folder)
        say(child)
        os.waitpid(child, 0)
        say("gone")


if __name__ == "__main__":
    main()
