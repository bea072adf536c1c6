"""`edgewise bench hostile`: a real server under thousands of hostile requests.

The server is `edgewise serve` in a process of its own, with the real model, a home of its own and
a loopback cloud as its provider. Several clients send `attacks` at once, in batches; after each
batch a good request must be answered. Meanwhile its pulse and its memory are watched.
"""

from __future__ import annotations

import contextlib
import random
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from edgewise.settings import ServerSettings, Settings
from edgewise.testing import SeenRequest
from edgewise.vision.pictures import MOST_PIXELS
from edgewise_bench.campaigns.attacks import (
    CHAT,
    FAMILIES,
    FOREIGN,
    Answer,
    Attack,
    Target,
    make_attack,
)
from edgewise_bench.campaigns.watch import (
    Downtime,
    MemoryWatch,
    Pulse,
    Span,
    WatchedCloud,
    control_server,
    control_stalls,
    count_stalls,
)
from edgewise_bench.processes import Process, our_server

BATCH = 25
CLIENTS = 4
PROCESSES = 6  # the server, and what chats, calls, hears, embeds and sees
PROCESS_MB = 250.0  # of Python, a runtime and the smallest model: the only figure below measured
COPIES = 3  # of a body: its bytes, its text, its values
PICTURE_BYTES = 8  # for each pixel, while one is unpacked
SAMPLE_BYTES, SAMPLES_A_SECOND = 4, 16_000
MOST_MB = 8_000.0  # beyond it the server is ended, before the machine is
QUIET_S = 60.0


def peak_limit_mb(server: ServerSettings, clients: int = CLIENTS) -> float:
    """The most memory that the limits of a server allow to so many clients at once."""
    bodies = COPIES * min(server.bodies_bytes, clients * server.body_bytes)
    sound = clients * server.sound_s * SAMPLES_A_SECOND * SAMPLE_BYTES
    picture = MOST_PIXELS * PICTURE_BYTES  # one at a time, whoever sent it
    return PROCESSES * PROCESS_MB + (bodies + sound + picture) / 1e6


# So that a slow client is let go within seconds, not minutes.
IMPATIENT = {"EDGEWISE_SERVER_HEADER_S": "3", "EDGEWISE_SERVER_BODY_S": "5"}
TARGETS: dict[str, tuple[str, float]] = {
    "process_deaths": ("<=", 0),
    "stalls_over_2s": ("<=", 0),
    "peak_mb": ("<=", round(peak_limit_mb(ServerSettings()))),
    "private_bytes_out": ("<=", 0),
    "rows_lost": ("<=", 0),
    "own_5xx": ("<=", 0),
    "foreign_exceptions": ("<=", 0),
    "unanswered": ("<=", 0),
    "next_good_served": (">=", 1),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    rounds: int
    seed: int = 0
    first: int = 0
    families: tuple[str, ...] = tuple(FAMILIES)
    options: tuple[str, ...] = ()  # of `edgewise serve`

    def batches(self) -> Iterator[tuple[bool, range]]:
        """Whether nothing of a batch may leave, and its numbers."""
        end = self.first + self.rounds
        for start in range(self.first, end, BATCH):
            private = random.Random(f"{self.seed}-batch-{start // BATCH}").random() < 0.2
            yield private, range(start, min(end, start + BATCH))


@dataclass(slots=True)
class Findings:
    """What went wrong, in words and in numbers."""

    count: Counter[str] = field(default_factory=Counter)
    families: Counter[str] = field(default_factory=Counter)
    statuses: Counter[str] = field(default_factory=Counter)
    ids: set[str] = field(default_factory=set)
    incidents: list[str] = field(default_factory=list)
    good_served: bool = True
    peak_mb: float = 0.0
    peak_at: float = 0.0


def measure_hostile(
    settings: Settings,
    plan: Plan,
    progress: Callable[[], None] = lambda: None,
    tell: Callable[[str], None] = lambda _: None,
) -> dict[str, float]:
    """All metrics. `settings.data_dir` gets a ledger: give it a folder that may be thrown away.

    Ctrl-C ends it early: what was sent is judged. `tell` is told of everything that goes wrong.
    """
    with WatchedCloud() as cloud, control_server() as control:
        campaign = Campaign(settings, plan, cloud, tell)
        beside = Pulse(control.url, "/")
        try:
            with contextlib.suppress(KeyboardInterrupt):
                campaign.run(progress)
        finally:
            pulse, down = campaign.stop()
            beside.stop()
    found, limit_mb = campaign.found, peak_limit_mb(settings.server)
    stalls = count_stalls(pulse, beside.spans, down)
    for stall in stalls:
        busy = campaign.busy_in(stall)
        tell(f"stalled {stall.end - stall.start:.1f} s while {busy}")
    if found.peak_mb > limit_mb:
        busy = campaign.busy_in(Span(found.peak_at - 0.5, found.peak_at))
        tell(f"{found.peak_mb:,.0f} MB while {busy}")
    rows_lost = found.ids - _recorded(Path(settings.data_dir) / "ledger.sqlite3")
    for each in sorted(rows_lost)[:5]:
        tell(f"no row of {each}")
    return {
        "rounds": found.families.total(),
        "process_deaths": found.count["process_deaths"],
        "child_deaths": found.count["child_deaths"],
        "stalls_over_2s": len(stalls),
        "control_stalls_over_2s": control_stalls(beside.spans),
        "peak_mb": found.peak_mb,
        "peak_limit_mb": limit_mb,
        "private_bytes_out": cloud.private_bytes,
        "rows_lost": len(rows_lost),
        "own_5xx": found.count["own_5xx"],
        "foreign_exceptions": found.count["foreign_exceptions"],
        "unanswered": found.count["unanswered"],
        "next_good_served": float(found.good_served),
        "answers_with_a_row": len(found.ids),
        "cloud_requests": cloud.seen,
        "slowest_pulse_s": max((span.end - span.start for span in pulse), default=0.0),
        **{f"rounds_{family}": found.families[family] for family in plan.families},
        **{f"status_{status}": count for status, count in sorted(found.statuses.items())},
    }


def _recorded(path: Path) -> set[str]:
    if not path.exists():
        return set()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return {name for (name,) in connection.execute("SELECT id FROM requests")}


class Campaign:
    """One server, started again when it dies, and those who attack it."""

    def __init__(
        self, settings: Settings, plan: Plan, cloud: WatchedCloud, tell: Callable[[str], None]
    ) -> None:
        self.found = Findings()
        self._settings, self._plan, self._cloud, self._tell = settings, plan, cloud, tell
        self._lock = threading.Lock()
        self._running: dict[int, Attack] = {}  # by thread
        self._history: list[tuple[Span, Attack]] = []
        self._down = Downtime([])
        self._children: set[int] = set()
        cloud.on_private = self._left
        self._port = 0
        self._server: Process
        self._memory: MemoryWatch
        self._stack = contextlib.ExitStack()
        self._start()
        self._pulse = Pulse(self._server.url, "/healthz")

    def run(self, progress: Callable[[], None]) -> None:
        if not self._good():
            raise OSError("the server does not answer a good request")
        with ThreadPoolExecutor(CLIENTS) as clients:
            for private, numbers in self._plan.batches():
                if private:
                    self._quiet()
                self._cloud.all_private = private
                sent = [clients.submit(self._attack, number, private) for number in numbers]
                try:
                    for each in sent:
                        each.result()
                        progress()
                except KeyboardInterrupt:
                    clients.shutdown(cancel_futures=True)
                    raise
                if not self._good():
                    self.found.good_served = False
                    self._wrong(f"the good request after round {numbers[-1]} was not served")
                if private:
                    self._quiet()
                self._cloud.all_private = False

    def stop(self) -> tuple[list[Span], list[Span]]:
        """The pulse, and when the server was down."""
        self._ensure_alive()
        self._pulse.stop()
        self._stop_memory()
        self._stack.close()
        return self._pulse.spans, self._down.spans

    def busy_in(self, span: Span) -> str:
        names = [
            f"{attack.number} ({attack.family}: {attack.name})"
            for lasted, attack in self._history
            if lasted.start < span.end and span.start < lasted.end
        ]
        return ", ".join(names) or "nothing ran"

    # -- one attack -------------------------------------------------------------------------------

    def _attack(self, number: int, private: bool) -> None:
        attack = make_attack(self._plan.seed, number, self._plan.families, private)
        self._ensure_alive()
        thread = threading.get_ident()
        self._running[thread] = attack
        start = time.monotonic()
        try:
            answer = attack.send(Target.at(self._server.url, self._server.pid))
        finally:
            self._running.pop(thread, None)
        with self._lock:
            self._history.append((Span(start, time.monotonic()), attack))
            self._judge(attack, answer)
        self._count_children()

    def _judge(self, attack: Attack, answer: Answer) -> None:
        found = self.found
        found.families[attack.family] += 1
        found.statuses[str(answer.status or "none")] += 1
        found.ids.update(answer.ids)
        named = f"{attack.number} ({attack.family}: {attack.name})"
        if answer.code == FOREIGN:
            found.count["foreign_exceptions"] += 1
            self._wrong(f"{named}: {answer.words}")
        elif answer.late:
            found.count["unanswered"] += 1
            self._wrong(f"no answer to {named}")
        elif answer.status >= 500 and not answer.code.startswith("cloud_"):
            found.count["own_5xx"] += 1
            self._wrong(f"{answer.status} {answer.code} for {named}")

    def _wrong(self, words: str) -> None:
        self.found.incidents.append(words)
        self._tell(words)

    def _left(self, seen: SeenRequest) -> None:
        self._wrong(f"private bytes at the cloud: {seen.path} while {self._busy()}")

    def _busy(self) -> str:
        running = list(self._running.values())
        return ", ".join(f"{each.number} ({each.family}: {each.name})" for each in running)

    # -- the server -------------------------------------------------------------------------------

    def _start(self) -> None:
        self._stack.close()
        folder = Path(self._settings.data_dir)
        folder.mkdir(parents=True, exist_ok=True)
        self._server = self._stack.enter_context(
            our_server(
                self._settings,
                self._cloud.url,
                *("--port", str(self._port), *self._plan.options),
                variables=IMPATIENT,
                errors=folder / "stderr",
            )
        )
        self._port = Target.at(self._server.url).port
        self._memory = MemoryWatch(self._server, MOST_MB)
        self._children = set()

    def _ensure_alive(self) -> None:
        with self._lock:
            if self._server.alive:
                return
            with self._down():
                self.found.count["process_deaths"] += 1
                bloated = f" at more than {MOST_MB:,.0f} MB" if self._memory.too_much else ""
                ended = [f"{a.number} ({a.family}: {a.name})" for _, a in self._history[-CLIENTS:]]
                self._wrong(
                    f"the server died{bloated} with status {self._server.popen.returncode}"
                    f" while {self._busy()}; just before: {', '.join(ended)}"
                )
                self._stop_memory()
                self._start()

    def _stop_memory(self) -> None:
        if (peak_mb := self._memory.stop()) > self.found.peak_mb:
            self.found.peak_mb, self.found.peak_at = peak_mb, self._memory.peak_at

    def _count_children(self) -> None:
        """A child that is gone was restarted, or was only there for a while."""
        now = set(self._server.family()[1:])
        with self._lock:
            self.found.count["child_deaths"] += len(self._children - now)
            self._children = now

    def _good(self) -> bool:
        """Whether a good request is answered; twice, because the first may find it dead."""
        body = {"model": "local", "max_tokens": 2, "messages": [{"role": "user", "content": "Hi"}]}
        self._ensure_alive()
        answer = Target.at(self._server.url).post(CHAT, body)
        self.found.ids.update(answer.ids)
        return answer.status == 200

    def _quiet(self) -> None:
        """Wait until no request is left inside the server."""
        until = time.monotonic() + QUIET_S
        while time.monotonic() < until and self._inside() > 1:  # the question itself is one
            time.sleep(0.1)

    def _inside(self) -> float:
        target = Target.at(self._server.url)
        with contextlib.suppress(OSError), target.raw() as connection:
            connection.sendall(
                b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
            )
            parts = []
            while part := connection.recv(65_536):
                parts.append(part)
            for line in b"".join(parts).decode("utf-8", "replace").splitlines():
                if line.startswith("edgewise_requests_in_flight"):
                    return float(line.rpartition(" ")[2])
        return 0.0
