"""How long a connection may take to say what it wants, at any port of ours that speaks HTTP."""

from __future__ import annotations

import asyncio
from typing import Any

from typing_extensions import override
from uvicorn.protocols.http.h11_impl import H11Protocol

TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
WASTEFUL = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
LEAST_JUDGED = 512  # bytes: of fewer, half may be the lengths of chunks
SLICE_BYTES = 16_384  # of what comes over a connection: parsed at a time


class PatientProtocol(H11Protocol):
    """uvicorn's own, with a clock that runs from the first byte (or none) to the last header.

    A body in tiny chunks is refused: each costs the event loop as much as a large one, and 256 KB
    of them would stop it for seconds.
    """

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
        for start in range(0, len(data), SLICE_BYTES):
            self._parse(data[start : start + SLICE_BYTES])
            if self.transport.is_closing() or self.transport.get_protocol() is not self:
                break  # refused, or upgraded
        if self.cycle is None or self.cycle.response_complete:
            self._start_clock()  # between requests: these bytes begin the next one
        else:
            self._stop_clock()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_clock()
        super().connection_lost(exc)

    def _parse(self, piece: bytes) -> None:
        cycle = self.cycle
        before = 0 if cycle is None else len(cycle.body)
        super().data_received(piece)
        if cycle is None or cycle is not self.cycle or not cycle.more_body:
            return
        if len(piece) >= LEAST_JUDGED and 2 * (len(cycle.body) - before) < len(piece):
            if not cycle.response_started:
                self.transport.write(WASTEFUL)
            self.transport.close()

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
