"""Asks a local model all decisions of some suites; one JSON line for each, written at once."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from edgewise.local.backend import ChatBackend
from edgewise.local.label_reader import read_question
from edgewise.types.messages import Message, Request
from edgewise_bench.decisions.suites import Suite, in_turns


def measure(
    backend: ChatBackend, suites: Sequence[Suite], path: Path, done: Callable[[], None]
) -> None:
    """Rows that the file already has are not asked again."""
    known = {(row["suite"], row["state"]) for row in read_rows(path)}
    with path.open("a", encoding="utf-8") as file:
        for suite, (state, label) in in_turns(suites):
            if (suite.name, state) not in known:
                row = {"suite": suite.name, "state": state, "label": label}
                file.write(json.dumps(row | _asked(backend, suite, state)) + "\n")
                file.flush()
            done()


def read_rows(path: Path) -> list[dict[str, Any]]:
    return list(_lines(path)) if path.exists() else []


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text("utf-8").splitlines():
        yield json.loads(line)


def _asked(backend: ChatBackend, suite: Suite, state: str) -> dict[str, Any]:
    asked = {suite.name: suite.question}
    request = Request(messages=(Message("user", state),), task="decide", questions=asked)
    began = time.process_time()
    reading = read_question(backend, request)
    return {
        "kind": type(suite.question).__name__,
        "one_way": [dict(each) for each in reading.one_way],
        "mass": reading.mass,
        "input_tokens": reading.input_tokens,
        "cached_tokens": reading.cached_tokens,
        "cpu_s": time.process_time() - began,
    }
