"""Offline is a tested state: every fault, under every policy, streamed or not.

The outcomes are the table in docs/faults.md, which is written from this run:
`EDGEWISE_WRITE_DOCS=1 python -m pytest tests/test_fault_matrix.py`.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from edgewise import CloudError, Engine, Settings
from edgewise.testing import (
    Answer,
    Cut,
    Empty,
    LoopbackCloud,
    Malformed,
    Scripted,
    ScriptedBackend,
    Silence,
    Status,
    black_hole,
    refused_url,
    unresolvable_url,
)
from edgewise.types.replies import Finished, Reply, TextDelta

PAGE = Path(__file__).parents[1] / "docs" / "faults.md"
WRITE = bool(os.environ.get("EDGEWISE_WRITE_DOCS"))  # read before tests clear the environment
BEGIN, END = "<!-- begin fault matrix -->", "<!-- end fault matrix -->"
POLICIES = ("prefer_local", "prefer_cloud", "local_only", "cloud_only")
LOCAL = "The device says that it may well be near the sea."
CLOUD = "The cloud says that it is in the mountains, far from any sea."
# Seconds a caller may wait beyond the device's own work. The black hole has the bound.
LONGEST_WAIT_S = {"black hole": 2.5, "silence": 2.5}


@contextlib.contextmanager
def scripted(reply: Scripted) -> Iterator[str]:
    with LoopbackCloud() as cloud:
        cloud.always(reply)
        yield cloud.openai_url


@contextlib.contextmanager
def at(url: str) -> Iterator[str]:
    yield f"{url}/v1"


@contextlib.contextmanager
def in_the_hole() -> Iterator[str]:
    with black_hole() as url:
        yield f"{url}/v1"


FAULTS: dict[str, Callable[[], contextlib.AbstractContextManager[str]]] = {
    "none": lambda: scripted(Answer(text=CLOUD)),
    "no key": lambda: at(""),
    "no such host": lambda: at(unresolvable_url()),
    "refused": lambda: at(refused_url()),
    "black hole": in_the_hole,
    "silence": lambda: scripted(Silence()),
    "401": lambda: scripted(Status(401)),
    "429": lambda: scripted(Status(429, retry_after_s=30)),
    "500": lambda: scripted(Status(500)),
    "cut half way": lambda: scripted(Cut(after_chunks=3, text=CLOUD)),
    "malformed": lambda: scripted(Malformed()),
    "empty": lambda: scripted(Empty()),
}


@dataclass(frozen=True)
class Cell:
    """What a caller saw."""

    outcome: str
    code: str
    text: str = ""
    waited_s: float = 0.0

    def words(self) -> str:
        return f"{self.outcome} `{self.code}`" if self.code else self.outcome


CELLS: dict[tuple[str, str, bool], Cell] = {}


def ask(url: str, fault: str, policy: str, live: bool, folder: Path) -> Cell:
    environment = {"OPENAI_API_KEY": "" if fault == "no key" else "k", "OPENAI_BASE_URL": url}
    settings = Settings.load(
        environment,
        chain=("openai",),
        data_dir=folder / "data",
        config_dir=folder / "config",
        first_token_s=2.0,
        cooldown_s=60.0,
    )
    backend = ScriptedBackend.doubtful(LOCAL)
    with Engine(settings, backend=backend) as engine:
        engine.complete("warm up", policy="local_only")
        started = time.monotonic()
        try:
            reply = _shown(engine, policy) if live else engine.complete("Where?", policy=policy)
        except CloudError as error:
            return Cell("raises", error.code, waited_s=time.monotonic() - started)
        waited = time.monotonic() - started
        if fault in ("black hole", "silence") and policy == "prefer_local":
            assert min(_while_open(engine) for _ in range(5)) < 0.05, (
                "an open breaker costs nothing"
            )
        assert reply.degraded == bool(reply.decision.degraded_code)
        outcome = {"local": "device", "cloud": "cloud", "mixed": "cloud, then device"}[reply.source]
        return Cell(outcome, reply.decision.degraded_code, reply.text, waited)


def _while_open(engine: Engine) -> float:
    started = time.monotonic()
    assert engine.complete("Where?").decision.degraded_code == "breaker_open"
    return time.monotonic() - started


def _shown(engine: Engine, policy: str) -> Reply:
    shown = ""
    for event in engine.stream("Where?", policy=policy):
        if isinstance(event, TextDelta):
            shown += event.text
        elif isinstance(event, Finished):
            assert event.reply.text == shown, "text once shown is never taken back"
            return event.reply
    raise AssertionError("no Finished")


@pytest.mark.parametrize("live", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_has_an_honest_outcome(
    fault: str, policy: str, live: bool, tmp_path: Path
) -> None:
    with FAULTS[fault]() as url:
        cell = ask(url, fault, policy, live, tmp_path)
    CELLS[fault, policy, live] = cell
    if fault == "none":
        assert (cell.outcome, cell.code) == ("device" if policy == "local_only" else "cloud", "")
    elif policy == "local_only":
        assert (cell.outcome, cell.code, cell.text) == ("device", "", LOCAL)
    elif policy == "cloud_only":
        assert cell.outcome == "raises"
    elif fault == "cut half way" and live:
        assert cell.outcome == "cloud, then device"
        from_cloud, _, rest = cell.text.partition(LOCAL)
        assert from_cloud.strip() and CLOUD.startswith(from_cloud.strip()) and rest == ""
    else:
        assert (cell.outcome, cell.text) == ("device", LOCAL)
    if fault != "none" and policy in ("prefer_local", "prefer_cloud"):
        assert cell.code, "the reply says what kept the cloud from answering"
    if policy == "prefer_local":
        assert cell.waited_s < LONGEST_WAIT_S.get(fault, 2.5)


def test_the_page_shows_what_this_run_saw() -> None:
    if len(CELLS) < 2 * len(POLICIES) * len(FAULTS):
        pytest.skip("the whole matrix did not run in this process")
    table = _table()
    page = PAGE.read_text("utf-8")
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    fresh = f"{before}{BEGIN}\n{table}{END}{after}"
    if WRITE:
        PAGE.write_text(fresh, "utf-8")
        return
    assert page == fresh, "docs/faults.md is stale: run with EDGEWISE_WRITE_DOCS=1"


def _table() -> str:
    lines = [
        "| fault | " + " | ".join(f"`{policy}`" for policy in POLICIES) + " |",
        "|---|" + "---|" * len(POLICIES),
    ]
    for fault in FAULTS:
        columns = []
        for policy in POLICIES:
            whole, streamed = CELLS[fault, policy, False], CELLS[fault, policy, True]
            a, b = whole.words(), streamed.words()
            columns.append(a if a == b else f"whole: {a}; streamed: {b}")
        lines.append(f"| {fault} | " + " | ".join(columns) + " |")
    return "\n".join(lines) + "\n"
