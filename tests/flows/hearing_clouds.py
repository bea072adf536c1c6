"""A cloud that transcribes: each segment gets its own answer, failure or delay."""

from __future__ import annotations

import threading
from collections.abc import Generator, Mapping

from edgewise.cloud.provider import Chunk, Stop
from edgewise.errors import CloudClosed, CloudError
from edgewise.types.messages import Request
from edgewise.types.replies import Attempt, Finish


class HearingCloud:
    """Fulfils `Cloud`. Answers are chosen by the part of the request: `s3.` for segment 3.

    Segments in `late` wait until `release` is called, or until they are stopped.
    """

    def __init__(
        self,
        answers: Mapping[int, str | CloudError] | None = None,
        *,
        otherwise: str | CloudError = "the cloud heard this",
        late: frozenset[int] = frozenset(),
        shut: CloudClosed | None = None,
    ) -> None:
        self.answers = dict(answers or {})
        self.otherwise = otherwise
        self.late = late
        self.shut = shut
        self.asked: list[Request] = []
        self.busy = self.most_busy = 0
        self._lock = threading.Lock()
        self._released = threading.Event()

    def release(self) -> None:
        self._released.set()

    @property
    def segments(self) -> list[int]:
        return sorted(int(request.part[1:-1]) for request in self.asked)

    def closed(self, request: Request) -> CloudClosed | None:
        if not request.may_leave:
            return CloudClosed("the request is private", code="private")
        return self.shut

    def stream(
        self,
        request: Request,
        journal: list[Attempt],
        *,
        live: bool,
        patience_s: float | None,
        stop: Stop | None = None,
    ) -> Generator[Chunk, None, None]:
        assert self.closed(request) is None, "a flow must ask before it leaves"
        number = int(request.part[1:-1])
        with self._lock:
            self.asked.append(request)
            self.busy += 1
            self.most_busy = max(self.most_busy, self.busy)
        outcome = "cancelled"
        try:
            while number in self.late and not self._released.wait(0.01):
                if stop is not None and stop.asked:
                    return
            answer = self.answers.get(number, self.otherwise)
            if isinstance(answer, CloudError):
                outcome = answer.code
                raise answer
            outcome = "answered"
            yield answer
            yield Finish()
        finally:
            with self._lock:
                self.busy -= 1
            journal.append(Attempt(place="cloud", backend="hearing", model="h-1", outcome=outcome))
