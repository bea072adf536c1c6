"""Segments of speech sent to the cloud for correction, a few at a time, each with its id."""

from __future__ import annotations

import queue
import threading
import time
from contextlib import closing
from dataclasses import dataclass, replace

from edgewise.cloud.provider import Cloud, Stop
from edgewise.errors import Cancelled, CloudError
from edgewise.types.messages import Audio, Message, Request
from edgewise.types.replies import Attempt
from edgewise.types.tokens import Finish

AT_ONCE = 3


@dataclass(frozen=True, slots=True)
class Correction:
    """The cloud's text of a segment, or the `error` if there is none."""

    segment: int
    text: str = ""
    error: CloudError | None = None


@dataclass(frozen=True, slots=True)
class _Asked:
    segment: int
    audio: Audio
    words_before: str
    stop: Stop


class Corrections:
    """Sends segments, up to AT_ONCE together. Each answer names its segment.

    Sending never waits for the network. Each answer is returned once, in any order.
    """

    def __init__(
        self, cloud: Cloud, request: Request, journal: list[Attempt], patience_s: float | None
    ) -> None:
        self._cloud = cloud
        self._request = request
        self._journal = journal
        self._patience_s = patience_s
        self._waiting: queue.SimpleQueue[_Asked | None] = queue.SimpleQueue()
        self._arrived: list[Correction] = []
        self._outstanding: dict[int, Stop] = {}
        self._changed = threading.Condition()
        self._workers: list[threading.Thread] = []

    @property
    def outstanding(self) -> int:
        with self._changed:
            return len(self._outstanding)

    def outstanding_ids(self) -> tuple[int, ...]:
        with self._changed:
            return tuple(self._outstanding)

    def send(self, segment: int, audio: Audio, *, words_before: str = "") -> None:
        """Ask for a segment that was not asked for before."""
        asked = _Asked(segment, audio, words_before, Stop())
        with self._changed:
            self._outstanding[segment] = asked.stop
            if len(self._workers) < min(AT_ONCE, len(self._outstanding)):
                worker = threading.Thread(target=self._work, name="edgewise-correct", daemon=True)
                self._workers.append(worker)
                worker.start()
        self._waiting.put(asked)

    def arrived(self) -> list[Correction]:
        """The answers since the last call."""
        with self._changed:
            found, self._arrived = self._arrived, []
            return found

    def wait(self, *, most: int = 0, limit_s: float | None = None) -> list[Correction]:
        """Wait until at most `most` are outstanding, or for `limit_s`; return the new answers."""
        give_up = None if limit_s is None else time.monotonic() + limit_s
        with self._changed:
            while len(self._outstanding) > most:
                left = None if give_up is None else give_up - time.monotonic()
                if left is not None and left <= 0:
                    break
                self._changed.wait(left)
        return self.arrived()

    def stop(self, *, within_s: float | None = None) -> list[Correction]:
        """Abort what is outstanding, and return an error for each.

        After `within_s` it is not waited for any longer: its costs are settled when it ends.
        """
        give_up = None if within_s is None else time.monotonic() + within_s
        with self._changed:
            stops = list(self._outstanding.values())
        for stop in stops:
            stop.ask()
        for _ in self._workers:
            self._waiting.put(None)
        for worker in self._workers:
            worker.join(None if give_up is None else max(0.0, give_up - time.monotonic()))
        self._workers.clear()
        with self._changed:
            given_up, self._outstanding = list(self._outstanding), {}
            self._arrived += [Correction(segment, error=_cut()) for segment in given_up]
        return self.arrived()

    def _work(self) -> None:
        while (asked := self._waiting.get()) is not None:
            journal: list[Attempt] = []
            correction = self._ask(asked, journal)
            with self._changed:
                self._journal += journal
                if self._outstanding.pop(asked.segment, None) is not None:  # not given up meanwhile
                    self._arrived.append(correction)
                self._changed.notify_all()

    def _ask(self, asked: _Asked, journal: list[Attempt]) -> Correction:
        request = replace(
            self._request,
            messages=(Message("user", asked.words_before, audio=(asked.audio,)),),
            part=f"s{asked.segment}.",
        )
        if asked.stop.asked:
            return Correction(asked.segment, error=_cut())
        try:
            stream = self._cloud.stream(
                request, journal, live=False, patience_s=self._patience_s, stop=asked.stop
            )
            with closing(stream):
                heard = list(stream)
        except CloudError as error:
            return Correction(asked.segment, error=error)
        except Cancelled:  # the user left: nobody waits for this answer
            return Correction(asked.segment, error=_cut())
        if not any(isinstance(chunk, Finish) for chunk in heard):
            return Correction(asked.segment, error=_cut())
        text = " ".join("".join(chunk for chunk in heard if isinstance(chunk, str)).split())
        return Correction(asked.segment, text)


def _cut() -> CloudError:
    return CloudError("broken off", code="cancelled")
