"""The runtime's own HTTP server and ours, given the same hostile schemas one after the other."""

from __future__ import annotations

import contextlib
import random
import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from edgewise.settings import Settings
from edgewise.testing import LoopbackCloud
from edgewise_bench.campaigns.attacks import CHAT, Target
from edgewise_bench.campaigns.hostile import MOST_MB
from edgewise_bench.campaigns.schemas import hostile_schema
from edgewise_bench.campaigns.watch import MemoryWatch
from edgewise_bench.processes import Process, bare_server, our_server

STALLED_S = 30.0  # without an answer to a schema, with nothing else to do
SETTLE_S = 0.5


def measure_peer(
    settings: Settings,
    schemas: int,
    seed: int,
    options: tuple[str, ...] = (),
    progress: Callable[[], None] = lambda: None,
    tell: Callable[[str], None] = lambda _: None,
) -> dict[str, float]:
    """How many of the schemas end or stall the peer, and how many end or stall ours.

    One that died or stalled is started again. A stall is no answer for half a minute; one that
    takes too much memory is ended before it takes the machine's, and counted as a bloat.
    """
    with LoopbackCloud() as cloud:
        peer = _Side("peer", lambda: bare_server(settings, 4), tell)
        ours = _Side("ours", lambda: our_server(settings, cloud.url, "--port", "0", *options), tell)
        try:
            for number in range(schemas):
                kind, body = _request(seed, number)
                for side in (peer, ours):
                    side.send(number, kind, body)
                    progress()
        finally:
            peer.stop()
            ours.stop()
    return {"peer_schemas": schemas, **peer.metrics(), **ours.metrics()}


def _request(seed: int, number: int) -> tuple[str, dict[str, Any]]:
    kind, schema = hostile_schema(random.Random(f"{seed}-peer-{number}"))
    held = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    asked = [{"role": "user", "content": "Answer as JSON."}]
    body = {"model": "local", "messages": asked, "max_tokens": 16, "response_format": held}
    return kind, body


class _Side:
    def __init__(
        self,
        name: str,
        start: Callable[[], AbstractContextManager[Process]],
        tell: Callable[[str], None],
    ) -> None:
        self._name, self._start, self._tell = name, start, tell
        self._stack = contextlib.ExitStack()
        self._process: Process | None = None
        self._memory: MemoryWatch | None = None
        self._deaths = self._stalls = self._bloats = self._answered = 0
        self._peak_mb = 0.0

    def send(self, number: int, kind: str, body: dict[str, Any]) -> None:
        process = self._process or self._stack.enter_context(self._start())
        memory = self._memory or MemoryWatch(process, MOST_MB)
        self._process, self._memory = process, memory
        answer = Target.at(process.url).post(CHAT, body, patience_s=STALLED_S)
        if not answer.status and not answer.late:  # cut: give it a moment to be gone
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.popen.wait(SETTLE_S)
        if memory.too_much:
            self._bloats += 1
            self._tell(f"{self._name} took {MOST_MB:,.0f} MB at schema {number} ({kind})")
            self.stop()
        elif not process.alive:
            self._deaths += 1
            self._tell(f"{self._name} died of schema {number} ({kind})")
            self.stop()
        elif answer.late:
            self._stalls += 1
            self._tell(f"{self._name} stalled at schema {number} ({kind})")
            self.stop()
        else:
            self._answered += 1

    def stop(self) -> None:
        if self._process is not None and self._process.alive:
            self._process.popen.kill()  # one that stalls does not listen
        self._stack.close()
        if self._memory is not None:
            self._peak_mb = max(self._peak_mb, self._memory.stop())
        self._process = self._memory = None

    def metrics(self) -> dict[str, float]:
        found = {
            "deaths": self._deaths,
            "stalls": self._stalls,
            "bloats": self._bloats,
            "answered": self._answered,
            "peak_mb": self._peak_mb,
        }
        beside = "peer" if self._name == "peer" else "beside_peer"
        return {f"{beside}_{name}": float(value) for name, value in found.items()}
