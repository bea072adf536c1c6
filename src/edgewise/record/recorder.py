"""Records the requests of an engine: each once, however it ends."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from edgewise.errors import Cancelled, EdgewiseError, LedgerError
from edgewise.record.book import Book
from edgewise.record.rows import avoided_microdollars
from edgewise.types.messages import Request
from edgewise.types.replies import Attempt, Reply

_log = logging.getLogger("edgewise")

Answer = TypeVar("Answer", bound=Reply)
Watcher = Callable[[Request, Reply], None]  # what it raises is only logged


class Every:
    """Calls a watcher at the first answer, and at every nth after it."""

    def __init__(self, count: int, watcher: Watcher) -> None:
        self._count = count
        self._watcher = watcher
        self._seen = 0

    def __call__(self, request: Request, reply: Reply) -> None:
        self._seen += 1  # two threads at once may skip a count, which does no harm
        if self._seen % self._count == 1:
            self._watcher(request, reply)


@dataclass(slots=True)
class RequestRecorder:
    """`rates`: what the cloud would have charged per million tokens, in and out.

    `watchers` are called for every answer, after it is recorded and before the user has it. They
    must be quick, and do slow work on their own thread.
    """

    ledger: Book
    rates: Callable[[], tuple[int, int]]
    watchers: Sequence[Watcher] = ()
    _told: str = ""  # the trouble with the ledger that the log has already

    def seen(self, request_id: str) -> bool:
        """Whether an id was used. A ledger that cannot tell also lets nothing out."""
        try:
            return self.ledger.seen(request_id)
        except LedgerError as error:
            self._tell(request_id, error)
            return False

    def keep(self, request: Request, work: Callable[[list[Attempt]], Answer]) -> Answer:
        """The answer of `work`, recorded."""
        attempts: list[Attempt] = []
        try:
            reply = work(attempts)
        except EdgewiseError as error:
            self.failed(request, error, attempts)
            raise
        except (KeyboardInterrupt, SystemExit):  # the second by a signal
            self.left(request, attempts)
            raise
        return self.answered(request, reply)

    def answered(self, request: Request, reply: Answer) -> Answer:
        """The answer; with the reason, if it could not be recorded."""
        try:
            # The rates are for chat, which costs many times as much as embedding.
            counts = reply.source == "local" and request.task != "embed"
            avoided = avoided_microdollars(reply, self.rates()) if counts else 0
            self.ledger.record(request, reply, cost_avoided_microdollars=avoided)
            self._told = ""
        except LedgerError as error:  # the answer matters more than its record
            self._tell(request.id, error)
            reply = replace(reply, unrecorded=str(error))
        for watcher in self.watchers:
            try:
                watcher(request, reply)
            except Exception:  # noqa: BLE001  # a watcher must not spoil the answer
                _log.exception("a watcher failed at request %s", request.id)
        return reply

    def failed(self, request: Request, error: EdgewiseError, attempts: Sequence[Attempt]) -> None:
        try:
            self.ledger.record_failure(request, error, attempts)
        except LedgerError as failure:
            self._tell(request.id, failure)

    def _tell(self, request_id: str, error: LedgerError) -> None:
        """In the log; loudly only once for each trouble."""
        level = logging.DEBUG if str(error) == self._told else logging.WARNING
        self._told = str(error)
        _log.log(level, "request %s is not in the ledger: %s", request_id, error)

    def left(self, request: Request, attempts: Sequence[Attempt]) -> None:
        """The user left before the end."""
        self.failed(request, Cancelled("the user left"), attempts)
