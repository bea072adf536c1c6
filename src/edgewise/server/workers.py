"""`edgewise serve --workers N`: several processes behind one port, and one that looks after them.

The parent opens the port, starts the workers and restarts one that dies. It serves nothing itself.
On Linux every worker has a listening socket of its own on the same port, and the system shares out
connections evenly; elsewhere they share one. The parent keeps the sockets: whoever connects while a
worker is down waits for the next one and is not refused.

A pipe to each worker carries three things: "stop", requests for the others' metrics, and, by its
end, that the parent is gone. Then a worker finishes what it has and ends.
"""

from __future__ import annotations

import itertools
import logging
import multiprocessing
import multiprocessing.connection
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.sharedctypes import RawArray
from typing import Any

from prometheus_client.core import Metric

from edgewise import children
from edgewise.errors import SettingsError
from edgewise.server.access import Clients
from edgewise.server.metrics import series_of
from edgewise.server.serve import (
    listen,
    prepared,
    require_key,
    run_until_stopped,
    take_all_descriptors,
    url_of,
)
from edgewise.server.state import ServerState
from edgewise.settings import Settings

log = logging.getLogger("edgewise.server")

START_S = 120.0  # for all workers to be there: a model may be large
GATHER_S = 2.0  # for the other workers to tell their metrics; who does not is left out
SHORT_S = 5.0  # a worker that lives no longer did not start
MOST_FAILURES = 5  # in a row: then something is wrong for all of them
KILL_S = 15.0  # beyond `drain_s`: what has not ended by then is ended
LOOK_S = 0.1

Parts = Callable[[], Mapping[str, Any]]
LogSetup = Callable[[], object]


@dataclass(frozen=True, slots=True)
class WorkerPost:
    """What one worker is started with. All of it can be sent to a new process."""

    number: int
    settings: Settings
    listener: socket.socket
    allowances: Any  # shared by all: what is left of each key's rate
    make_parts: Parts
    set_up_log: LogSetup


@dataclass(slots=True)
class Staff:
    """The parent's side of one worker."""

    process: Any
    pipe: multiprocessing.connection.Connection
    started: float
    ready: bool = False


@dataclass(slots=True)
class MetricsQuestion:
    """One worker waits for the metrics of the others."""

    asker: multiprocessing.connection.Connection
    number: int
    waiting: set[int]
    until: float
    told: list[bytes] = field(default_factory=list)


def serve_many(
    settings: Settings,
    announce: Callable[[str, Sequence[int]], None],
    workers: int,
    *,
    make_parts: Parts = dict,
    set_up_log: LogSetup = lambda: None,
) -> None:
    """Serve with so many processes until SIGTERM, SIGHUP or SIGINT. `make_parts` and `set_up_log`
    are called in each of them."""
    require_key(settings)
    threads = max(1, settings.threads // workers)
    listeners = _listeners(settings, workers)
    port = listeners[0].getsockname()[1]
    # Each says the port that it has, not 0, to know its own address.
    settings = settings.with_changes(threads=threads, server=replace(settings.server, port=port))
    take_all_descriptors()
    parent = Parent(settings, listeners, workers, make_parts, set_up_log)
    _on_signals(parent.stop)
    try:
        parent.run(lambda pids: announce(url_of(listeners[0]), pids))
    finally:
        for listener in set(listeners):
            listener.close()


class Parent:
    """Starts workers, keeps their number, passes their questions on, and stops them."""

    def __init__(
        self,
        settings: Settings,
        listeners: Sequence[socket.socket],
        workers: int,
        make_parts: Parts,
        set_up_log: LogSetup,
    ) -> None:
        self._drain_s = settings.server.drain_s
        self._context = multiprocessing.get_context("spawn")
        allowances = RawArray("d", Clients(settings).places())
        self._posts = [
            WorkerPost(number, settings, listener, allowances, make_parts, set_up_log)
            for number, listener in zip(range(workers), itertools.cycle(listeners), strict=False)
        ]
        self._staff: dict[int, Staff] = {}
        self._questions: dict[int, MetricsQuestion] = {}
        self._numbers = itertools.count()
        self._failures = 0
        self._again: dict[int, float] = {}  # when to start which worker
        self._stopping = False

    def stop(self) -> None:
        """From a signal: `run` sees it at its next look."""
        self._stopping = True

    def run(self, announce: Callable[[list[int]], None]) -> None:
        for number in range(len(self._posts)):
            self._start(number)
        announced, give_up_at = False, time.monotonic() + START_S
        try:
            while not self._stopping:
                self._look()
                if not announced and self._all_ready():
                    announced = True
                    announce([each.process.pid for each in self._staff.values()])
                if not announced and time.monotonic() > give_up_at:
                    raise SettingsError("the workers did not start")
        finally:
            self._stop_all()

    def _all_ready(self) -> bool:
        return len(self._staff) == len(self._posts) and all(
            each.ready for each in self._staff.values()
        )

    def _start(self, number: int) -> None:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(
            target=work, args=(self._posts[number], theirs), name=f"edgewise-worker-{number}"
        )
        with children.spawning():
            process.start()
        theirs.close()
        self._staff[number] = Staff(process, ours, time.monotonic())

    def _look(self) -> None:
        """One round: what workers say, who has died, who is to be started."""
        pipes = {each.pipe: number for number, each in self._staff.items()}
        ready = multiprocessing.connection.wait(list(pipes), LOOK_S)
        for pipe in ready:
            number = pipes[pipe]  # type: ignore[index]
            try:
                self._hear(number, *self._staff[number].pipe.recv())
            except (EOFError, OSError):
                self._bury(number)
        now = time.monotonic()
        for question in list(self._questions.values()):
            if not question.waiting or now > question.until:
                self._answer(question)
        for number, at in list(self._again.items()):
            if now >= at:
                del self._again[number]
                self._start(number)

    def _hear(self, number: int, kind: str, *rest: Any) -> None:
        if kind == "ready":
            self._staff[number].ready = True
            self._failures = 0
        elif kind == "gather":
            others = {which for which in self._staff if which != number}
            question = MetricsQuestion(
                self._staff[number].pipe, rest[0], others, time.monotonic() + GATHER_S
            )
            asked = next(self._numbers)
            self._questions[asked] = question
            for which in list(others):
                if not _send(self._staff[which].pipe, "tell", asked):
                    others.discard(which)
        elif kind == "told" and (found := self._questions.get(rest[0])) is not None:
            found.waiting.discard(number)
            found.told.append(rest[1])

    def _answer(self, question: MetricsQuestion) -> None:
        self._questions = {
            number: each for number, each in self._questions.items() if each is not question
        }
        _send(question.asker, "gathered", question.number, question.told)

    def _bury(self, number: int) -> None:
        """A worker's pipe has ended: it is dead or dying. Another one takes its place."""
        gone = self._staff.pop(number)
        gone.pipe.close()
        gone.process.join(KILL_S)
        for question in self._questions.values():
            question.waiting.discard(number)
        lived = time.monotonic() - gone.started
        self._failures = self._failures + 1 if lived < SHORT_S and not gone.ready else 0
        if self._failures >= MOST_FAILURES:
            raise SettingsError("the workers end as soon as they start; see the lines above")
        log.warning("worker %d ended (%s); starting another", number, gone.process.exitcode)
        self._again[number] = time.monotonic() + (1.0 if self._failures else 0.0)

    def _stop_all(self) -> None:
        for each in self._staff.values():
            _send(each.pipe, "stop")
        until = time.monotonic() + self._drain_s + KILL_S
        for each in self._staff.values():
            each.process.join(max(0.0, until - time.monotonic()))
            if each.process.is_alive():
                each.process.kill()
                each.process.join()
            each.pipe.close()


def work(post: WorkerPost, pipe: multiprocessing.connection.Connection) -> None:
    """A worker's whole life, in its own process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal's is for the parent
    post.set_up_log()
    state = prepared(post.settings, post.listener, dict(post.make_parts()))
    state.clients.share(post.allowances)
    talk = WorkerPipe(pipe, state)
    state.metrics.replica = f"worker-{post.number}"
    state.metrics.others = talk.others
    take_all_descriptors()
    run_until_stopped(state, post.listener, talk.listen)


class WorkerPipe:
    """A worker's side of the pipe."""

    def __init__(self, pipe: multiprocessing.connection.Connection, state: ServerState) -> None:
        self._pipe, self._state = pipe, state
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._waiting: dict[int, tuple[threading.Event, list[bytes]]] = {}

    def listen(self, stop: Callable[[], None]) -> None:
        """Until the parent says stop, or is gone. On a thread of its own."""
        self._state.warm.wait()
        self._say("ready")
        try:
            while True:
                kind, *rest = self._pipe.recv()
                if kind == "stop":
                    break
                if kind == "tell":
                    self._say("told", rest[0], self._state.metrics.own())
                elif kind == "gathered" and rest[0] in self._waiting:
                    told, found = self._waiting.pop(rest[0])
                    found.extend(rest[1])
                    told.set()
        except (EOFError, OSError):
            pass
        stop()

    def others(self) -> Iterator[Metric]:
        """The metrics of the other workers, of those that tell them in time."""
        for written in self._gathered():
            yield from series_of(written, but=self._state.metrics.replica)

    def _gathered(self) -> list[bytes]:
        number, told = next(self._numbers), threading.Event()
        found: list[bytes] = []
        self._waiting[number] = (told, found)
        self._say("gather", number)
        told.wait(2 * GATHER_S)
        self._waiting.pop(number, None)
        return found

    def _say(self, *words: Any) -> None:
        with self._lock:
            _send(self._pipe, *words)


def _send(pipe: multiprocessing.connection.Connection, *words: Any) -> bool:
    try:
        pipe.send(words)
    except (OSError, ValueError):  # it is dead, or just dying
        return False
    return True


def _listeners(settings: Settings, workers: int) -> list[socket.socket]:
    """One per worker where the system shares out connections among them, else one for all."""
    first = listen(settings.server)
    if not sys.platform.startswith("linux"):
        return [first]
    # That one had the port to itself, so nobody else listens there. Now all may.
    host, port = first.getsockname()[:2]
    first.close()
    server = replace(settings.server, host=host, port=port)
    return [listen(server, shared=True) for _ in range(workers)]


def _on_signals(stop: Callable[[], None]) -> None:
    for name in ("SIGTERM", "SIGINT", "SIGHUP"):
        number = getattr(signal, name, None)  # Windows has no SIGHUP; `nohup` ignores it
        if number is not None and signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda *_: stop())
