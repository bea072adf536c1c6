"""A cloud without a network, for flows: it answers or fails as scripted."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from edgewise.cloud.provider import Chunk, Stop
from edgewise.errors import CloudClosed, CloudError
from edgewise.types.messages import Request
from edgewise.types.replies import Attempt, Finish


class PlayedCloud:
    """Fulfils `Cloud`: first `chunks`, then `error`. If not live, an error replaces the chunks."""

    def __init__(
        self,
        chunks: Sequence[Chunk] = ("The cloud ", "knows."),
        *,
        error: CloudError | None = None,
        shut: CloudClosed | None = None,
    ) -> None:
        self.chunks = chunks
        self.error = error
        self.shut = shut
        self.asked: list[Request] = []
        self.patience: list[float | None] = []
        self.left_early = 0

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
        self.asked.append(request)
        self.patience.append(patience_s)
        outcome = "cancelled"
        try:
            if live or self.error is None:
                yield from self.chunks
            if self.error is not None:
                outcome = self.error.code
                raise self.error
            outcome = "answered"
            yield Finish(input_tokens=10, output_tokens=4)
        except GeneratorExit:
            self.left_early += 1
            raise
        finally:
            journal.append(
                Attempt(place="cloud", backend="played", model="played-1", outcome=outcome)
            )
