"""The way in: Host, Origin, key and rate are looked at before anything else of a request is."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Mapping, MutableSequence
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from edgewise.cloud.provider import LOOP_STATUS, VIA_HEADER
from edgewise.errors import SettingsError, StoreAway
from edgewise.server.access_log import AccessLog
from edgewise.server.errors import Fault, Refusal, error_body, refuse
from edgewise.server.wire import JSON, Head, send_head, to_json
from edgewise.settings import KeySettings, ServerSettings, Settings

KEY_VARIABLE = "EDGEWISE_SERVER_KEY"
KEY_PROTOCOL = "openai-insecure-api-key."
# For load balancers, which have no key; and what is the same on every server: the description, and
# the page that asks for a key, which shows nothing yet.
HEALTH_PATHS = ("/healthz", "/readyz")
OPEN_PATHS = (*HEALTH_PATHS, "/openapi.json", "/")
OPEN_FOLDER = "/dashboard/"
MOST_ENGINES = 4  # that a request comes through: more is a circle that somebody does not see


class Rates(Protocol):
    """How often each client may ask, counted for all processes. Raises StoreAway."""

    def take(self, client: str, per_minute: int) -> float: ...


@dataclass(slots=True)
class Allowance:
    """So many requests a minute; unused ones add up to one minute's worth."""

    per_minute: int
    clock: Callable[[], float] = time.monotonic
    lock: threading.Lock = field(default_factory=threading.Lock)
    # At `place`: what is left; after it, when that was counted. Several processes may share it,
    # without a lock that one could die with: two in the same instant may count as one.
    counts: MutableSequence[float] = field(default_factory=list)
    place: int = 0

    def __post_init__(self) -> None:
        self.counts = self.counts or [float(self.per_minute), self.clock()]

    def take(self) -> float:
        """0 where a request may pass; otherwise the seconds until one may."""
        if not self.per_minute:
            return 0.0
        with self.lock:
            now = self.clock()
            gained = (now - self.counts[self.place + 1]) * self.per_minute / 60
            left = min(float(self.per_minute), self.counts[self.place] + gained)
            passes = left >= 1
            self.counts[self.place], self.counts[self.place + 1] = left - passes, now
            return 0.0 if passes else (1 - left) * 60 / self.per_minute


@dataclass(slots=True)
class SharedAllowance(Allowance):
    """The same for all processes with one ledger; this process's own while that is away."""

    name: str = ""
    rates: Rates | None = None

    def take_shared(self) -> float:
        """As `take`. Asks the database, so that it must not run on the event loop."""
        if self.rates is None or not self.per_minute:
            return self.take()
        try:
            return self.rates.take(self.name, self.per_minute)
        except StoreAway:
            return self.take()


@dataclass(frozen=True, slots=True)
class Client:
    """`budget_key` is the key's own: a client with one cannot spend from another's budget."""

    name: str
    budget_key: str = ""
    allowance: Allowance | None = None
    redact: tuple[str, ...] = ()  # whatever the request says
    private_kinds: tuple[str, ...] = ()


class Clients:
    """The keys of a server. Without any, whoever reaches it may ask."""

    def __init__(self, settings: Settings, rates: Rates | None = None) -> None:
        server = settings.server
        self._salt = secrets.token_bytes(16)
        self._known: list[tuple[bytes, Client]] = []
        # A table that was given in code names no key; the variable's counts all the same.
        if key := server.key or settings.environment.get(KEY_VARIABLE, "").strip():
            self._known.append((_digest(key), Client("key")))
        for name, row in server.keys.items():
            self._known.append((_key_digest(name, row, settings), _client(name, row, rates)))

    @property
    def keyed(self) -> bool:
        return bool(self._known)

    def counts(self) -> list[float]:
        """Of all rates as they are now, one key after the other."""
        return [each for allowance in self._allowances() for each in allowance.counts]

    def share(self, counts: MutableSequence[float]) -> None:
        """Count the rates together with other processes, in what `counts` was copied to."""
        for number, allowance in enumerate(self._allowances()):
            allowance.counts, allowance.place = counts, 2 * number

    def _allowances(self) -> list[Allowance]:
        return [client.allowance for _, client in self._known if client.allowance]

    def admit(self, headers: Mapping[str, str], address: str) -> Client:
        """Whose request this is. Raises Refusal: 401."""
        shown = _shown(headers)
        if not self._known:
            # Any key will do here; different ones still take turns as different clients. It may
            # be a real one of somebody else's, so that not even its hash goes into the log.
            name = hmac.digest(self._salt, shown.encode("utf-8", "surrogateescape"), "sha256")
            return Client(f"{address}:{name.hex()[:8]}" if shown else address)
        digest = _digest(shown)
        found: Client | None = None
        for known, client in self._known:  # all of them, so that time tells nothing
            if hmac.compare_digest(known, digest):
                found = client
        if found is None:
            raise refuse(
                401,
                "invalid_api_key",
                "a key is needed: Authorization: Bearer KEY" if not shown else "wrong key",
            )
        return found


async def check_rate(client: Client) -> None:
    """Raises Refusal: 429, with when to come again."""
    if isinstance(client.allowance, SharedAllowance):
        wait = await asyncio.to_thread(client.allowance.take_shared)
    else:
        wait = client.allowance.take() if client.allowance else 0.0
    if wait:
        words = f"{client.name!r} asks too often"
        raise Refusal(
            Fault(status=429, code="rate_limit_exceeded", message=words, retry_after_s=wait)
        )


def key_budgets(server: ServerSettings) -> tuple[str, ...]:
    """What the table of keys adds to the settings' budgets."""
    return tuple(
        f"{row.budget_key or name}: {amount}"
        for name, row in server.keys.items()
        for amount in row.budgets
    )


def key_intervals(server: ServerSettings) -> tuple[str, ...]:
    """The same for the least times between handoffs."""
    return tuple(
        f"{row.budget_key or name}: {row.cloud_every_s:g}"
        for name, row in server.keys.items()
        if row.cloud_every_s
    )


class Guard:
    """Refuses what a web page elsewhere, or a stranger, sends; lets the rest through.

    A page can make a browser call a server on its user's machine, under a name of its own that it
    lets point there (DNS rebinding), or across origins. It cannot choose the Host or the Origin
    header, so those tell. Starlette's TrustedHostMiddleware knows lists of names but not "any
    address", and its CORSMiddleware does not refuse foreign origins: it only leaves headers out.
    The headers for allowed origins are its work all the same, further in.
    """

    def __init__(
        self, app: ASGIApp, server: ServerSettings, clients: Clients, log: AccessLog, own_id: str
    ) -> None:
        self._app, self._server, self._clients, self._log = app, server, clients, log
        self._own_id = own_id
        self._names = {name.lower() for name in (server.host, *server.hosts)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = _joined(scope["headers"])
        origin = headers.get("origin", "")
        try:
            self._check_host(headers.get("host", ""), scope["path"])
            self._check_origin(origin, headers.get("host", ""))
            # Before the key: ours is none of this server's, and 401 would not say what is wrong.
            scope["edgewise.via"] = self._check_via(headers.pop(VIA_HEADER, ""))
            # A preflight shows no key. CORSMiddleware answers it, and nobody else sees it.
            preflight = origin and "access-control-request-method" in headers
            if scope.get("method") == "OPTIONS" and preflight:
                client = Client("preflight")
            else:
                client = await self._admit(scope, headers)
        except Refusal as refusal:
            await self._refuse(scope, receive, send, refusal.fault)
            return
        scope["edgewise.headers"], scope["edgewise.client"] = headers, client
        await self._app(scope, receive, send)

    async def _admit(self, scope: Scope, headers: dict[str, str]) -> Client:
        address = scope["client"][0] if scope.get("client") else "unknown"
        if address in self._server.proxies:
            address = _forwarded(headers.get("x-forwarded-for", ""), self._server.proxies, address)
        if scope["path"] in OPEN_PATHS or scope["path"].startswith(OPEN_FOLDER):
            return Client(address)
        client = self._clients.admit(headers, address)
        if scope.get("method") != "GET":
            await check_rate(client)
        return client

    def _check_host(self, host: str, path: str) -> None:
        if not host and path in HEALTH_PATHS:
            return  # load balancers check with HTTP/1.0, which has no Host; browsers always send it
        name = _host_name(host)
        if not (name == "localhost" or _is_address(name) or name in self._names):
            raise refuse(
                403,
                "host_not_allowed",
                f"this server is not called {name[:80]!r}; "
                "--allow-host, EDGEWISE_SERVER_HOSTS or [server] hosts can allow it",
            )

    def _check_origin(self, origin: str, host: str) -> None:
        if not origin or origin in self._server.origins:
            return
        if _netloc(origin) != host.lower():
            raise refuse(403, "origin_not_allowed", "pages of other origins may not ask here")

    def _check_via(self, header: str) -> tuple[str, ...]:
        """The engines before this one. Raises Refusal: this server may not be its own cloud."""
        via = tuple(name.strip() for name in header.split(",") if name.strip())
        if self._own_id in via:
            words = "this server asks itself: the address of its cloud is its own"
            raise refuse(LOOP_STATUS, "cloud_loop", words)
        if len(via) > MOST_ENGINES:
            words = f"it came through {len(via)} edgewise servers, {MOST_ENGINES} are the most"
            raise refuse(LOOP_STATUS, "cloud_loop", words)
        if not all(name.isalnum() and name.isascii() and len(name) <= 64 for name in via):
            raise refuse(400, "invalid_header", f"{VIA_HEADER} is for edgewise itself")
        return via

    async def _refuse(self, scope: Scope, receive: Receive, send: Send, fault: Fault) -> None:
        self._log.refused(_endpoint(scope["path"]), fault.status, fault.code)
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": fault.code})
            return
        await send_fault(send, scope["path"], fault)


async def send_fault(send: Send, path: str, fault: Fault) -> None:
    """An error in the shape of the API it belongs to. The connection is not used again."""
    await send_head(send, Head(fault.status, JSON | {"connection": "close"} | fault.all_headers()))
    await send({"type": "http.response.body", "body": to_json(error_body(path, fault))})


def _joined(pairs: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Headers by name. One that is sent twice is both: nothing can be slipped in behind another."""
    headers: dict[str, str] = {}
    for raw, value in pairs:
        name, text = raw.decode("latin-1"), value.decode("latin-1")
        headers[name] = f"{headers[name]}, {text}" if name in headers else text
    return headers


def _netloc(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


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


def _forwarded(header: str, proxies: tuple[str, ...], proxy: str) -> str:
    """Who asked a proxy of ours: the last address that is none. What stands before it in the
    header, the client may have written itself."""
    for name in reversed([part.strip() for part in header.split(",")]):
        if not _is_address(name):
            return proxy
        if name not in proxies:
            return name
    return proxy


def _endpoint(path: str) -> str:
    known = path.startswith(("/v1/", "/api/")) and len(path) < 40 and path.isascii()
    return path if known else "other"


def _client(name: str, row: KeySettings, rates: Rates | None) -> Client:
    allowance: Allowance | None = None
    if row.requests_per_minute:
        if rates is None:
            allowance = Allowance(row.requests_per_minute)
        else:
            allowance = SharedAllowance(row.requests_per_minute, name=name, rates=rates)
    return Client(name, row.budget_key or name, allowance, row.redact, row.private_kinds)


def _key_digest(name: str, row: KeySettings, settings: Settings) -> bytes:
    if row.key_sha256:
        return bytes.fromhex(row.key_sha256)
    if key := settings.environment.get(row.key_env, "").strip():
        return _digest(key)
    raise SettingsError(f"[server.keys.{name}]: the variable {row.key_env} is not set")


def _shown(headers: Mapping[str, str]) -> str:
    scheme, _, key = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and key.strip():
        return key.strip()
    if key := headers.get("x-api-key", "").strip():
        return key
    # Pages cannot set headers of a WebSocket; OpenAI's own show their key so.
    for protocol in headers.get("sec-websocket-protocol", "").split(","):
        if protocol.strip().startswith(KEY_PROTOCOL):
            return protocol.strip().removeprefix(KEY_PROTOCOL)
    return ""


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
