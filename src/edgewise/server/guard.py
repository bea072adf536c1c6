"""The way in: Host, Origin and key are looked at before anything else of a request is."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from edgewise.server.chat_wire import openai_error
from edgewise.server.clients import Client, check_rate
from edgewise.server.faults import Fault, Refusal, refuse
from edgewise.server.house import House
from edgewise.server.messages_wire import anthropic_error
from edgewise.server.relay import Head, send_head
from edgewise.server.wire import to_json

# For load balancers, which have no key; and what is the same on every server: the description, and
# the page that asks for a key, which shows nothing yet.
OPEN_PATHS = ("/healthz", "/readyz", "/openapi.json", "/")
OPEN_FOLDER = "/dashboard/"
CORS = {
    "access-control-allow-methods": "GET, POST, OPTIONS",
    "access-control-allow-headers": "*, authorization",
    "access-control-expose-headers": "*",
    "access-control-max-age": "600",
}


class Guard:
    """Refuses what a web page elsewhere, or a stranger, sends; lets the rest through.

    A page can make a browser call a server on its user's machine, under a name of its own that it
    lets point there (DNS rebinding), or across origins. It cannot choose the Host or the Origin
    header, so those tell.
    """

    def __init__(self, app: ASGIApp, house: House) -> None:
        self._app = app
        self._house = house

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = _joined(scope["headers"])
        origin = headers.get("origin", "")
        try:
            self._check_host(headers.get("host", ""))
            self._check_origin(origin, headers.get("host", ""))
            if scope.get("method") == "OPTIONS" and origin:
                await _send(send, Head(204, CORS | _allowed(origin)), b"")
                return
            client = self._admit(scope, headers)
        except Refusal as refusal:
            await self._refuse(scope, receive, send, refusal.fault)
            return
        scope["edgewise.headers"], scope["edgewise.client"] = headers, client
        await self._app(scope, receive, _with_origin(send, origin) if origin else send)

    def _admit(self, scope: Scope, headers: dict[str, str]) -> Client:
        address = scope["client"][0] if scope.get("client") else "unknown"
        if scope["path"] in OPEN_PATHS or scope["path"].startswith(OPEN_FOLDER):
            return Client(address)
        client = self._house.clients.admit(headers, address)
        if scope.get("method") != "GET":
            check_rate(client)
        return client

    def _check_host(self, host: str) -> None:
        name = _host_name(host)
        if not (name == "localhost" or _is_address(name) or name in self._names()):
            raise refuse(
                403, "host_not_allowed", f"this server is not called {name[:80]!r} ([server] hosts)"
            )

    def _check_origin(self, origin: str, host: str) -> None:
        if not origin or origin in self._house.server.origins:
            return
        if urlsplit(origin).netloc.lower() != host.lower():
            raise refuse(403, "origin_not_allowed", "pages of other origins may not ask here")

    def _names(self) -> set[str]:
        server = self._house.server
        return {name.lower() for name in (server.host, *server.hosts)}

    async def _refuse(self, scope: Scope, receive: Receive, send: Send, fault: Fault) -> None:
        self._house.journal.refused(_endpoint(scope["path"]), fault.status, fault.code)
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": fault.code})
            return
        await send_fault(send, scope["path"], fault)


async def send_fault(send: Send, path: str, fault: Fault) -> None:
    """An error in the shape of the API it belongs to. The connection is not used again."""
    write = anthropic_error if path.startswith("/v1/messages") else openai_error
    head = {"content-type": "application/json", "connection": "close"} | fault.all_headers()
    await _send(send, Head(fault.status, head), to_json(write(fault)))


async def _send(send: Send, head: Head, body: bytes) -> None:
    await send_head(send, head)
    await send({"type": "http.response.body", "body": body, "more_body": False})


def _joined(pairs: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Headers by name. One that is sent twice is both: nothing can be slipped in behind another."""
    headers: dict[str, str] = {}
    for raw, value in pairs:
        name, text = raw.decode("latin-1"), value.decode("latin-1")
        headers[name] = f"{headers[name]}, {text}" if name in headers else text
    return headers


def _with_origin(send: Send, origin: str) -> Send:
    async def send_with_origin(message: Message) -> None:
        if message["type"] == "http.response.start":
            allowed = {**_allowed(origin), "access-control-expose-headers": "*"}
            extra = [(name.encode(), value.encode("latin-1")) for name, value in allowed.items()]
            message = {**message, "headers": [*message["headers"], *extra]}
        await send(message)

    return send_with_origin


def _allowed(origin: str) -> dict[str, str]:
    return {"access-control-allow-origin": origin, "vary": "origin"}


def _host_name(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def _is_address(name: str) -> bool:
    """An address cannot be made to point elsewhere, as a name can."""
    try:
        ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return False
    return True


def _endpoint(path: str) -> str:
    return path if path.startswith("/v1/") and len(path) < 40 and path.isascii() else "other"
