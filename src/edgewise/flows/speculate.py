"""Asks the cloud while the device still works: the loser's work is cancelled or not needed.

Costs what the cloud charges for an answer that is often thrown away, and saves its waiting time
where the device is in doubt. Only where a caller says `speculative=True`.
"""

from __future__ import annotations

import threading
from contextlib import closing

from edgewise.cloud.provider import Chunk, Cloud, Stop
from edgewise.types.messages import Request
from edgewise.types.replies import Attempt


class Speculation:
    """One whole request at the cloud, on a thread of its own from the moment it is made."""

    def __init__(self, cloud: Cloud, request: Request, patience_s: float) -> None:
        self._cloud = cloud
        self._request = request
        self._patience_s = patience_s
        self._stop = Stop()
        # Its own: the device writes its attempts down at the same time, and comes first.
        self._journal: list[Attempt] = []
        self._chunks: list[Chunk] = []
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="edgewise-speculate", daemon=True)
        self._thread.start()

    def answer(self, journal: list[Attempt]) -> list[Chunk]:
        """All of the cloud's answer, waited for; raises what went wrong."""
        self._thread.join()
        self._hand_over(journal)
        if self._error is not None:
            raise self._error
        return self._chunks

    def cancel(self, journal: list[Attempt]) -> None:
        """Nobody needs it: the connection is closed at once. After `answer` it does nothing."""
        if self._stop.ask():
            self._thread.join()  # until what was used is settled
        self._hand_over(journal)

    def _run(self) -> None:
        stream = self._cloud.stream(
            self._request, self._journal, live=False, patience_s=self._patience_s, stop=self._stop
        )
        try:
            with closing(stream):
                self._chunks += stream
        except Exception as error:  # noqa: BLE001  # `answer` raises it where somebody can see it
            self._error = error

    def _hand_over(self, journal: list[Attempt]) -> None:
        journal += self._journal
        self._journal.clear()
