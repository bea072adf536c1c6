"""An endpoint: reads a request's body within its limits, then lets a thread answer it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.types import Receive, Scope, Send

from edgewise.server.access import send_fault
from edgewise.server.answer import Incoming
from edgewise.server.bridge import relay
from edgewise.server.cancellation import Cancellation
from edgewise.server.errors import (
    Fault,
    Refusal,
    refuse,
)
from edgewise.server.state import ServerState
from edgewise.server.wire import Work

FULL = Fault(
    status=429,
    code="server_busy",
    message="the server serves as many requests as it may",
    retry_after_s=1.0,
)


class ClientGone(Exception):
    """It left while it was still sending."""


class Endpoint:
    """An ASGI app for one route. `work` is a generator: a head, then bytes."""

    def __init__(self, state: ServerState, name: str, work: Callable[[Incoming], Work]) -> None:
        self._state = state
        self._name = name
        self._work = work

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = scope["edgewise.client"]
        try:
            body = await self._read(scope, receive)
        except Refusal as refusal:
            self._note(refusal.fault, client.name)
            await send_fault(send, scope["path"], refusal.fault)
            return
        except ClientGone:
            return
        cancellation = Cancellation(client.name)
        incoming = Incoming(
            scope["edgewise.headers"], body, client, cancellation, scope.get("path_params", {})
        )
        if not await relay(self._state, cancellation, lambda: self._work(incoming), receive, send):
            self._note(FULL, client.name)
            await send_fault(send, scope["path"], FULL)

    def _note(self, fault: Fault, client: str) -> None:
        self._state.access_log.refused(self._name, fault.status, fault.code, client)

    async def _read(self, scope: Scope, receive: Receive) -> bytes:
        limit = self._state.server.body_bytes
        too_big = refuse(413, "request_too_large", f"the body may have {limit:,} bytes")
        length = scope["edgewise.headers"].get("content-length", "")
        if length.isdigit() and int(length) > limit:
            raise too_big
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._state.server.body_s):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ClientGone
                    size += len(message.get("body", b""))
                    if size > limit:
                        raise too_big
                    parts.append(message.get("body", b""))
                    if not message.get("more_body"):
                        return b"".join(parts)
        except TimeoutError:
            raise refuse(408, "request_timeout", "the body took too long to arrive") from None
