"""HTTP/1.1 with patience that ends: a client that dribbles its headers is let go."""

from __future__ import annotations

import asyncio
from typing import Any

from typing_extensions import override
from uvicorn.protocols.http.h11_impl import H11Protocol

TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class PatientProtocol(H11Protocol):
    """uvicorn's own, with a clock that runs from the first byte (or none) to the last header."""

    header_s = 10.0

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._clock: asyncio.TimerHandle | None = None

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_clock()

    @override
    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is None or self.cycle.response_complete:
            self._start_clock()  # between requests: these bytes begin the next one
        else:
            self._stop_clock()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_clock()
        super().connection_lost(exc)

    def _start_clock(self) -> None:
        if self._clock is None:
            self._clock = self.loop.call_later(self.header_s, self._give_up)

    def _stop_clock(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _give_up(self) -> None:
        self._clock = None
        upgraded = self.transport.get_protocol() is not self  # to a WebSocket: no more requests
        if not (upgraded or self.transport.is_closing()):
            self.transport.write(TOO_SLOW)
            self.transport.close()


def protocol_with(header_s: float) -> type[PatientProtocol]:
    return type("PatientProtocol", (PatientProtocol,), {"header_s": header_s})
