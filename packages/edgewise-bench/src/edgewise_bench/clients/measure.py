"""Runs each client against `edgewise serve`, and counts what did not arrive as it was sent."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from edgewise.settings import Settings
from edgewise.testing import LoopbackCloud, SeenRequest
from edgewise_bench.clients.compare import Found
from edgewise_bench.clients.programs import (
    CLIENTS,
    FILE,
    HEAD,
    RIGHT,
    WRONG,
    Client,
    Place,
    environment,
)
from edgewise_bench.clients.script import Script
from edgewise_bench.clients.tap import Exchange, Tap
from edgewise_bench.processes import our_server

PATIENCE_S = 180.0  # for one client
TARGETS: dict[str, tuple[str, float]] = {
    "tools_lost": ("<=", 0),
    "arguments_changed": ("<=", 0),
    "fields_lost": ("<=", 0),
    "cut_by_us": ("<=", 0),
    "refused": ("<=", 0),
    "agents_done": (">=", 5),
}
# Where a client's questions go is its own: the same server asks either.
CHAINS = ("openai", "anthropic", "gemini")


@dataclass(slots=True)
class Run:
    """What one client did."""

    version: str
    done: bool = False
    sent: int = 0  # requests that left
    kept: int = 0  # and those that the device answered
    refused: list[str] = field(default_factory=list)
    waits_ms: list[float] = field(default_factory=list)  # until a request that left was there
    found: Found = field(default_factory=Found)
    elsewhere: list[str] = field(default_factory=list)
    at_a_loss: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Outcome:
    runs: Mapping[str, Run]
    missing: Sequence[Client]

    def metrics(self) -> dict[str, float]:
        runs = self.runs.values()
        waits = sorted(each for run in runs for each in run.waits_ms)
        figures: dict[str, float] = {
            "clients_run": len(runs),
            "tasks_done": sum(run.done for run in runs),
            "agents_done": sum(
                run.done for name, run in self.runs.items() if CLIENTS[name].program
            ),
            "tools_lost": sum(run.found.tools_lost for run in runs),
            "arguments_changed": sum(run.found.arguments_changed for run in runs),
            "fields_lost": sum(len(run.found.fields_lost) for run in runs),
            "cut_by_us": sum(run.found.cut_by_us for run in runs),
            "refused": sum(len(run.refused) for run in runs),
            "requests_sent": sum(run.sent for run in runs),
            "requests_kept": sum(run.kept for run in runs),
            "asked_elsewhere": sum(len(run.elsewhere) for run in runs),
        }
        if waits:
            figures |= {
                "wait_ms_p50": statistics.median(waits),
                "wait_ms_worst": waits[-1],
            }
        return figures


def measure_clients(
    settings: Settings,
    names: Sequence[str],
    folder: Path | None = None,
    record: Path | None = None,
    progress: Callable[[], None] = lambda: None,
    tell: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """All clients that are installed, in `folder` or on PATH. `record` gets what was said."""
    runs: dict[str, Run] = {}
    missing = []
    for provider in CHAINS:
        chosen = [CLIENTS[name] for name in names if CLIENTS[name].provider == provider]
        found = {client.name: client.find(folder) for client in chosen}
        missing += [client for client in chosen if found[client.name] is None]
        if not any(found.values()):
            continue
        with LoopbackCloud() as cloud, _server(settings, cloud, provider) as url:
            for client in chosen:
                if program := found[client.name]:
                    runs[client.name] = _run(client, program, url, cloud, record)
                    _tell(client.name, runs[client.name], tell)
                    progress()
    return Outcome(runs, missing)


@contextlib.contextmanager
def _server(settings: Settings, cloud: LoopbackCloud, provider: str) -> Iterator[str]:
    variables = {
        "EDGEWISE_CHAIN": provider,
        "ANTHROPIC_API_KEY": "loopback",
        "ANTHROPIC_BASE_URL": cloud.anthropic_url,
        "GEMINI_API_KEY": "loopback",
        "GOOGLE_GEMINI_BASE_URL": cloud.gemini_url,
    }
    with our_server(settings, cloud.url, "--port", "0", variables=variables) as server:
        yield server.url


def _run(
    client: Client, program: str, server: str, cloud: LoopbackCloud, record: Path | None
) -> Run:
    before = len(cloud.requests)
    with (
        tempfile.TemporaryDirectory(prefix="edgewise-client-", ignore_cleanup_errors=True) as home,
        Tap(server).listening() as tap,
    ):
        place = Place(Path(home), tap.url, program)
        script = Script(client.steps(place), client.last, client.typed)
        cloud.always(script.answer)
        variables = {**environment(place), **client.variables(place)}
        _prepare(client, place, variables)
        run = Run(client.version(program, variables))
        said = _work(program, client.words(place), place.work, variables)
        run.done = (place.work / FILE).read_text("utf-8") == HEAD + RIGHT
        exchanges = list(tap.exchanges)
        run.elsewhere = sorted(tap.elsewhere)
    arrived = cloud.requests[before:]
    run.at_a_loss = sorted(script.at_a_loss)
    _judge(run, exchanges, arrived, script)
    if record is not None:
        _write(record / f"{client.name}.json", run, said, exchanges, arrived)
    return run


def _prepare(client: Client, place: Place, variables: Mapping[str, str]) -> None:
    place.work.mkdir()
    (place.work / FILE).write_text(HEAD + WRONG, "utf-8")
    for name, text in client.files(place).items():
        path = place.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    own = ("-c", "user.name=bench", "-c", "user.email=bench@localhost")
    for words in (("init", "-q"), ("add", "."), (*own, "commit", "-q", "-m", "Begin")):
        subprocess.run(["git", *words], cwd=place.work, env=dict(variables), check=True)


def _work(program: str, words: Sequence[str], folder: Path, variables: Mapping[str, str]) -> str:
    """What the client printed. One that does not end is ended, with all that it started."""
    process = subprocess.Popen(
        [program, *words],
        cwd=folder,
        env=dict(variables),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        return process.communicate(timeout=PATIENCE_S)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.communicate()[0] + "\n(ended by the bench)"


def _judge(
    run: Run, exchanges: Sequence[Exchange], arrived: Sequence[SeenRequest], script: Script
) -> None:
    by_id = {seen.headers.get("x-client-request-id", ""): seen for seen in arrived}
    for exchange in exchanges:
        if exchange.method != "POST":
            continue
        if exchange.status >= 400:
            run.refused.append(f"{exchange.path} {exchange.status}: {exchange.reply[:300]!r}")
            continue
        id = exchange.reply_headers.get("x-edgewise-id")
        if not id:  # tokens were counted
            continue
        ours = next((each for each in by_id if each.startswith(id)), None)
        if ours is None:
            run.kept += 1
            continue
        run.sent += 1
        run.waits_ms.append(1000 * (script.asked[ours] - exchange.asked))
        run.found.compare(exchange, by_id[ours], script.sent.get(ours, []))


def _tell(name: str, run: Run, tell: Callable[[str], None]) -> None:
    """What went wrong, in words."""
    if not run.done:
        offered = (
            f"; the cloud found no tool among {', '.join(run.at_a_loss)}" if run.at_a_loss else ""
        )
        tell(f"{name} did not mend the file{offered}")
    for path in sorted(run.found.fields_lost):
        tell(f"{name}: {path} did not arrive as it was sent")
    for words in run.refused:
        tell(f"{name} was refused: {words}")
    for host in run.elsewhere:
        tell(f"{name} asked for {host}, in vain")


def _write(
    path: Path,
    run: Run,
    said: str,
    exchanges: Sequence[Exchange],
    arrived: Sequence[SeenRequest],
) -> None:
    def shown(value: Any) -> Any:
        if isinstance(value, bytes):
            return value.decode("utf-8", "replace")
        return sorted(value) if isinstance(value, set) else dict(value)

    path.parent.mkdir(parents=True, exist_ok=True)
    whole = {
        "run": asdict(run),
        "printed": said,
        "exchanges": [asdict(each) for each in exchanges],
        "arrived": [asdict(each) for each in arrived],
    }
    path.write_text(json.dumps(whole, indent=1, default=shown), "utf-8")
