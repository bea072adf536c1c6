"""Offline is a tested state: every fault, under every policy, streamed or not.

The outcomes are the table in docs/guide/providers.md, which is written from this run:
`EDGEWISE_WRITE_DOCS=1 python -m pytest tests/test_fault_matrix.py`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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

PAGE = Path(__file__).parents[1] / "docs" / "guide" / "providers.md"
WRITE = bool(os.environ.get("EDGEWISE_WRITE_DOCS"))  # read before tests clear the environment
BEGIN, END = "<!-- begin fault matrix -->", "<!-- end fault matrix -->"
POLICIES = ("prefer_local", "prefer_cloud", "local_only", "cloud_only")
LOCAL = "The device says that it may well be near the sea."
CLOUD = "The cloud says that it is in the mountains, far from any sea."
# Only a time limit ends these. All others end by themselves, however slow this machine is.
ENDLESS: dict[str, dict[str, Any]] = {
    "black hole": {"connect_s": 1.5},
    "silence": {"first_token_s": 2.0},
}
AWAY: dict[str, Any] = {"ledger": "postgresql://nobody@127.0.0.1:1/none", "budgets": ("$1/day",)}
PATIENT: dict[str, Any] = {
    "connect_s": 60.0,
    "first_token_s": 60.0,
    "total_s": 120.0,
    "patience_s": 60.0,
}


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
    "budget store away": lambda: scripted(Answer(text=CLOUD)),
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
        cooldown_s=600.0,
        **(AWAY if fault == "budget store away" else {}),
    )
    # The provider's own limit ends the wait. Our patience would, too, and says nothing about it.
    settings = settings.with_changes(**PATIENT | ENDLESS.get(fault, {}))
    backend = ScriptedBackend.doubtful(LOCAL)
    with Engine(settings, backend=backend) as engine:
        engine.complete("warm up", policy="local_only")
        try:
            reply = _shown(engine, policy) if live else engine.complete("Where?", policy=policy)
        except CloudError as error:
            return Cell("raises", error.code)
        if fault in ENDLESS and policy == "prefer_local":
            again = engine.complete("Where?")
            assert again.decision.degraded_code == "breaker_open", "nobody waits a second time"
        assert reply.degraded == bool(reply.decision.degraded_code)
        outcome = {"local": "device", "cloud": "cloud", "mixed": "cloud, then device"}[reply.source]
        return Cell(outcome, reply.decision.degraded_code, reply.text)


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
    assert page == fresh, "docs/guide/providers.md is stale: run with EDGEWISE_WRITE_DOCS=1"


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
