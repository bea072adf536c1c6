"""A cloud that is open, answers at once and costs nothing: the gate holds text, nothing leaves."""

from __future__ import annotations

from collections.abc import Generator

from edgewise.cloud.provider import Chunk, Stop
from edgewise.errors import CloudClosed
from edgewise.types.messages import Request
from edgewise.types.replies import Attempt
from edgewise.types.tokens import Finish


class OpenCloud:
    """Fulfils `Cloud`."""

    def closed(self, request: Request) -> CloudClosed | None:
        return None

    def stream(
        self,
        request: Request,
        journal: list[Attempt],
        *,
        live: bool,
        patience_s: float | None,
        stop: Stop | None = None,
    ) -> Generator[Chunk, None, None]:
        journal.append(
            Attempt(
                place="cloud", backend="open", model="open", outcome="answered", output_tokens=1
            )
        )
        yield "The cloud's answer."
        yield Finish("stop", 1, 1)
