"""The way in: Host, Origin, key and rate are looked at before anything else of a request is."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import itertools
import json
import logging
import math
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Mapping, MutableSequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any, Protocol
from urllib.parse import parse_qsl, urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from edgewise.cloud.provider import LOOP_STATUS, VIA_HEADER
from edgewise.errors import SettingsError, StoreAway
from edgewise.record.rows import Budget, Interval
from edgewise.server.body import BadField, check_place
from edgewise.server.errors import Fault, Refusal, error_body, is_google, refuse
from edgewise.server.keys import (
    LOOK_S,
    MOST_KEYS,
    KeyFile,
    LastUse,
    StoredKey,
    expires_at,
    limits_of,
)
from edgewise.server.metrics import Metrics
from edgewise.server.wire import HEADER, JSON, LOCAL_ONLY, Head, send_head, to_json
from edgewise.settings import KeySettings, ServerSettings, Settings
from edgewise.types.replies import Progress, Reply, is_borrowed, watched

KEY_VARIABLE = "EDGEWISE_SERVER_KEY"
GOOGLE_KEY = "x-goog-api-key"
KEY_PROTOCOL = "openai-insecure-api-key."
# For load balancers, which have no key; and what is the same on every server: the description, and
# the page that asks for a key, which shows nothing yet.
HEALTH_PATHS = ("/healthz", "/readyz")
OPEN_PATHS = (*HEALTH_PATHS, "/openapi.json", "/")
OPEN_FOLDER = "/dashboard/"
PEOPLE = (f"{HEADER}user", f"{HEADER}group")  # our own words for whom a client asks
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
    """`budget_key` is the key's own: a client with one cannot spend from another's budget.

    What it reads (models, figures) has an allowance of its own: whoever looks at the dashboard
    takes no answer from whoever asks.
    """

    name: str
    budget_key: str = ""
    allowance: Allowance | None = None
    reads: Allowance | None = None
    redact: tuple[str, ...] = ()  # whatever the request says
    private_kinds: tuple[str, ...] = ()
    role: str = "admin"  # without keys, whoever asks
    policy: str = ""
    models: tuple[str, ...] = ()
    forwards_users: bool = False
    # The person that it asks for, where it may say so
    user: str = ""
    group: str = ""

    @property
    def own(self) -> str:
        """The budget key whose figures alone it sees; empty: all."""
        return self.budget_key if self.role == "app" else ""

    def check_path(self, method: str, path: str) -> None:
        """Raises Refusal: a key that reads figures reads nothing else, and asks nothing."""
        reads = method in ("GET", "HEAD") and path.startswith(("/metrics", "/edgewise/usage/"))
        if self.role == "metrics" and not reads:
            raise refuse(
                403, "role_not_allowed", "this key reads /metrics and /edgewise/usage, nothing else"
            )

    def check_model(self, *names: str) -> None:
        """Raises Refusal: none of the names of a model is one that this key may ask for."""
        if not any(map(self.may_ask, names)):
            words = f"this key may ask for {', '.join(self.models)}, not for {names[0][:80]!r}"
            raise refuse(403, "model_not_allowed", words, param="model")

    def may_ask(self, name: str) -> bool:
        return not self.models or any(fnmatchcase(name, pattern) for pattern in self.models)

    def policy_for(self, asked: str) -> str:
        """The policy of a request that asks for this one, or for none. Raises Refusal."""
        if not self.policy or asked in (self.policy, LOCAL_ONLY):
            return asked
        if asked:
            words = f"this key's policy is {self.policy}; a request may only be {LOCAL_ONLY}"
            raise refuse(403, "policy_not_allowed", words)
        return self.policy


@dataclass(frozen=True, slots=True)
class Known:
    """A key that a server knows, and until when it counts (None: for ever)."""

    digest: bytes
    client: Client
    until: float | None = None


class Clients:
    """The keys of a server. Without any, whoever reaches it may ask.

    Those of `edgewise keys` come and go while the server runs. A server that has had a key does not
    open when the last one goes.
    """

    def __init__(
        self,
        settings: Settings,
        rates: Rates | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._settings, self._rates, self._clock = settings, rates, clock
        self._salt = secrets.token_bytes(16)
        self._file = KeyFile(settings.config_dir)
        self._last_use = LastUse(self._file)
        self._counts: MutableSequence[float] | None = None
        self.changed: Callable[[], object] = lambda: None  # what else depends on the keys
        self._own: list[Known] = []  # of the settings
        # A table that was given in code names no key; the variable's counts all the same.
        if key := settings.server.key or settings.environment.get(KEY_VARIABLE, "").strip():
            self._own.append(Known(_digest(key), Client("key")))
        for name, row in settings.server.keys.items():
            client = _client(name, row, rates)
            self._own.append(Known(_key_digest(name, row, settings), client, expires_at(row)))
        self._stored: dict[str, tuple[StoredKey, Client]] = {}
        self._known = list(self._own)
        self._stamp, self._looked = (-1, -1, -1), -math.inf
        self._lock = threading.Lock()
        self._read()
        self._was_keyed = bool(self._known)

    @property
    def keyed(self) -> bool:
        return bool(self._known) or self._was_keyed

    @property
    def names(self) -> set[str]:
        """The budget keys of all that have one."""
        return {each.client.budget_key for each in self._known} - {""}

    def limits(self) -> tuple[list[Budget], list[Interval]]:
        """What the keys add to the budgets and intervals of the settings."""
        rules = {name: each.rules for name, (each, _) in self._stored.items()}
        return limits_of({**self._settings.server.keys, **rules})

    def share_of(self, most: int) -> int:
        """Of so many places, those that one key may have: with others there, half of them."""
        return max(1, most // 2) if len(self._known) > 1 else most

    def places(self) -> int:
        """How many numbers the rates of all keys take, those that are to come included."""
        return 4 * (len(self._own) + MOST_KEYS)

    def share(self, counts: MutableSequence[float]) -> None:
        """Count the rates together with other processes, in `counts`: zeros at first."""
        self._counts = counts
        for number, known in enumerate(self._own):
            self._place(known.client, number)
        for each, client in self._stored.values():
            self._place(client, len(self._own) + each.number)

    def _place(self, client: Client, number: int) -> None:
        if self._counts is None or 4 * number + 4 > len(self._counts):
            return
        for index, allowance in enumerate((client.allowance, client.reads)):
            if allowance is not None:
                allowance.counts, allowance.place = self._counts, 4 * number + 2 * index

    def close(self) -> None:
        self._last_use.write()

    def look(self) -> None:
        """Take up what `edgewise keys` has changed. Costs a look at the file, once a second."""
        now = time.monotonic()
        if now - self._looked < LOOK_S or not self._lock.acquire(blocking=False):
            return
        try:
            if self._file.stamp() != self._stamp:
                self._read()
                self.changed()
            self._looked = now
        except SettingsError as error:  # those that are known go on
            self._looked = now
            log.warning("the keys were not read again: %s", error)
        finally:
            self._lock.release()

    def _read(self) -> None:
        stamp, before = self._file.stamp(), self._stored
        found: dict[str, tuple[StoredKey, Client]] = {}
        for name, each in self._file.read().items():
            if name in self._settings.server.keys:
                raise SettingsError(f"{name!r} is a key of `edgewise keys` and of [server.keys]")
            was = before.get(name)
            if was is not None and was[0].rules == each.rules and was[0].number == each.number:
                found[name] = (each, was[1])  # with what it has left of its rate
                continue
            client = _client(name, each.rules, self._rates)
            self._place(client, len(self._own) + each.number)
            found[name] = (each, client)
        known = list(self._own)
        for each, client in found.values():
            ends = expires_at(each.rules)
            for secret in each.secrets:
                until = min((one for one in (secret.until, ends) if one is not None), default=None)
                known.append(Known(bytes.fromhex(secret.sha256), client, until))
        self._stored, self._known, self._stamp = found, known, stamp

    def admit(self, headers: Mapping[str, str], address: str) -> Client:
        """Whose request this is. Raises Refusal: 401."""
        self.look()
        shown = _shown(headers)
        if not self.keyed:
            # Any key will do here; different ones still take turns as different clients. It may
            # be a real one of somebody else's, so that not even its hash goes into the log.
            name = hmac.digest(self._salt, shown.encode("utf-8", "surrogateescape"), "sha256")
            return Client(f"{address}:{name.hex()[:8]}" if shown else address)
        self._was_keyed = True
        digest = _digest(shown)
        found: Known | None = None
        for known in self._known:  # all of them, so that time tells nothing
            if hmac.compare_digest(known.digest, digest):
                found = known
        if found is None:
            words = "a key is needed: Authorization: Bearer KEY" if not shown else "wrong key"
            raise refuse(401, "invalid_api_key", words)
        if found.until is not None and found.until <= self._clock():
            raise refuse(401, "key_expired", "this key has expired, or was replaced")
        if found.client.name in self._stored:
            self._last_use.note(digest.hex())
        return found.client

    def person(self, client: Client, fields: Iterable[tuple[bytes, bytes]], peer: str) -> Client:
        """The client with the person it asks for. Raises Refusal: it must not say so."""
        server = self._settings.server
        trusted = client.forwards_users or peer in server.user_proxies
        found: list[str] = []
        for names in (server.user_headers, server.group_headers):
            values = [_one_value(fields, name) for name in names]
            found.append(next((value for value in values if value), ""))
            ours = any(value for name, value in zip(names, values, strict=True) if name in PEOPLE)
            if found[-1] and not trusted and (ours or self._trusts_somebody()):
                words = "this client must not say for whom it asks (forwards_users, user_proxies)"
                raise refuse(403, "user_not_trusted", words)
        return replace(client, user=found[0], group=found[1]) if trusted else client

    def _trusts_somebody(self) -> bool:
        return bool(self._settings.server.user_proxies) or any(
            each.client.forwards_users for each in self._known
        )


def _one_value(fields: Iterable[tuple[bytes, bytes]], name: str) -> str:
    """Of a header that must come once. Raises Refusal: one could be slipped in beside another."""
    wanted = name.lower().encode("latin-1", "replace")
    found = [value.decode("utf-8", "replace").strip() for given, value in fields if given == wanted]
    if len(found) > 1 or any(not (len(one) <= 200 and one.isprintable()) for one in found):
        raise refuse(400, "invalid_header", f"{name}: one name of at most 200 characters")
    return found[0] if found else ""


async def check_rate(client: Client, method: str) -> None:
    """Raises Refusal: 429, with when to come again."""
    allowance = client.reads if method in ("GET", "HEAD") else client.allowance
    if isinstance(allowance, SharedAllowance):
        await asyncio.to_thread(take_one, client, allowance)
    else:
        take_one(client, allowance)


def take_one(client: Client, allowance: Allowance | None) -> None:
    """Raises Refusal, as above. May ask the database: not on the event loop, then."""
    if isinstance(allowance, SharedAllowance):
        wait = allowance.take_shared()
    else:
        wait = allowance.take() if allowance else 0.0
    if wait:
        words = f"{client.name!r} asks too often"
        raise Refusal(
            Fault(status=429, code="rate_limit_exceeded", message=words, retry_after_s=wait)
        )


def _check_places(headers: Mapping[str, str], query: bytes) -> None:
    """Raises Refusal for what would keep a request in, if anybody read it there."""
    try:
        for name in headers:
            if not name.startswith(HEADER[:-1]):  # those are checked with the request's own words
                check_place(name, "the header ")
        for name, _ in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
            for piece in re.split(r"[][.]+", name):
                check_place(piece, "the query's ")
    except BadField as error:
        raise refuse(400, "invalid_request", str(error)) from error


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
            _check_places(headers, scope.get("query_string", b""))
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
        method = scope.get("method", "")  # a live session has none: it asks, and counts as that
        shown = headers
        if is_google(scope["path"]) and not _shown(headers):  # those who speak its API may
            query = dict(parse_qsl(scope.get("query_string", b"").decode("latin-1")))
            shown = headers | {GOOGLE_KEY: query.get("key", "")}
        client = self._clients.admit(shown, address)
        scope["edgewise.client"] = client  # so that the log names whoever is refused from here on
        client.check_path(method, scope["path"])
        peer = scope["client"][0] if scope.get("client") else ""
        client = self._clients.person(client, scope["headers"], peer)
        for name in PEOPLE:  # they were read
            headers.pop(name, None)
        await check_rate(client, method)
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
        client: Client | None = scope.get("edgewise.client")
        name = client.name if client is not None else ""
        self._log.refused(_endpoint(scope["path"]), fault.status, fault.code, name)
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
        ipaddress.ip_address(name)  # the zone of one, too: `fe80::1%eth0`
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
    known = path.startswith(("/v1/", "/v1beta/", "/api/")) and len(path) < 40 and path.isascii()
    return path if known else "other"


def _client(name: str, row: KeySettings, rates: Rates | None) -> Client:
    def allowance(counted: str) -> Allowance | None:
        if not row.requests_per_minute:
            return None
        if rates is None:
            return Allowance(row.requests_per_minute)
        return SharedAllowance(row.requests_per_minute, name=counted, rates=rates)

    return Client(
        name,
        row.budget_key or name,
        allowance(name),
        allowance(f"{name} reads"),
        row.redact,
        row.private_kinds,
        row.role,
        row.policy,
        row.models,
        row.forwards_users,
    )


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
    for name in ("x-api-key", GOOGLE_KEY):
        if key := headers.get(name, "").strip():
            return key
    # Pages cannot set headers of a WebSocket; OpenAI's own show their key so.
    for protocol in headers.get("sec-websocket-protocol", "").split(","):
        if protocol.strip().startswith(KEY_PROTOCOL):
            return protocol.strip().removeprefix(KEY_PROTOCOL)
    return ""


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


# -- what is noted of each request -----------------------------------------------------------------


log = logging.getLogger("edgewise.server")
_numbers = itertools.count(1)


@dataclass(slots=True, kw_only=True)
class Served:
    """One request: filled in while it is served, noted when it ends. Holds no text of it."""

    endpoint: str
    number: int = field(default_factory=_numbers.__next__)
    client: str = ""
    id: str = ""
    model: str = ""
    stream: bool = False
    status: int = 0
    code: str = ""  # the decision's, or the error's
    left: bool = False
    reply: Reply | None = None
    at: float = field(default_factory=time.time)
    started: float = field(default_factory=time.perf_counter)
    first_s: float | None = None
    total_s: float = 0.0
    progress: Progress = field(default_factory=Progress)

    def to_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "at": round(self.at, 3),
            "endpoint": self.endpoint,
            "client": self.client,
            "id": self.id,
            "model": self.model,
            "stream": self.stream,
            "status": self.status,
            "code": self.code,
            "left": self.left,
            "first_ms": None if self.first_s is None else round(1000 * self.first_s, 1),
            "total_ms": round(1000 * self.total_s, 1),
        }
        if self.reply is not None:
            found |= {
                "source": self.reply.source,
                "answered_by": self.reply.model,
                "confidence": self.reply.confidence,
                "confidence_verified": self.reply.confidence_verified,
                "degraded": self.reply.decision.degraded_code,
                "needs_cloud_handoff": self.reply.needs_cloud_handoff,
                "cost_microdollars": self.reply.usage.cost_microdollars,
                "input_tokens": self.reply.usage.input_tokens,
                "output_tokens": self.reply.usage.output_tokens,
                "attempts": len(self.reply.attempts),
            }
        return found


class AccessLog:
    """Takes down requests as they end. `listeners` get each one, on the thread that served it;
    `starters` are called there when one begins.

    `running` holds those that have not ended, by the thread that serves them.
    """

    def __init__(self, metrics: Metrics) -> None:
        self.metrics = metrics
        self.listeners: list[Callable[[Served], None]] = []
        self.starters: list[Callable[[], object]] = []
        self.running: dict[int, Served] = {}

    def begin(self, served: Served) -> None:
        """On the thread that serves it. What runs for it from now on tells how it goes."""
        watched.set(served.progress)
        self.running[threading.get_ident()] = served
        for starter in self.starters:
            starter()

    def forget(self) -> None:
        """On the thread that served it, at its very end; noted or not."""
        self.running.pop(threading.get_ident(), None)

    def note(self, served: Served) -> None:
        self.forget()
        served.total_s = time.perf_counter() - served.started
        self._count(served)
        _write_line(served.to_dict())
        for listener in list(self.listeners):
            listener(served)

    def refused(self, endpoint: str, status: int, code: str, client: str = "") -> None:
        """Turned away before it was read."""
        self.metrics.refused.labels(status=str(status), code=code).inc()
        line = {"at": round(time.time(), 3), "endpoint": endpoint, "client": client}
        _write_line(line | {"status": status, "code": code})

    def _count(self, served: Served) -> None:
        metrics, reply = self.metrics, served.reply
        source = reply.source if reply else "none"
        where = {"endpoint": served.endpoint, "source": source}
        metrics.requests.labels(**where, code=served.code, status=str(served.status)).inc()
        if served.left:
            metrics.disconnects.labels(endpoint=served.endpoint).inc()
        metrics.seconds.labels(**where).observe(served.total_s)
        if served.first_s is not None:
            metrics.first_token_seconds.labels(**where).observe(served.first_s)
        if reply is not None:
            self._count_reply(reply)

    def _count_reply(self, reply: Reply) -> None:
        metrics = self.metrics
        if reply.confidence is not None:
            borrowed = is_borrowed(reply.decision.calibration)
            verified = "borrowed" if borrowed else str(reply.confidence_verified).lower()
            metrics.confidence.labels(verified=verified).observe(reply.confidence)
        if reply.degraded:
            metrics.degraded.labels(code=reply.decision.degraded_code).inc()
        metrics.cost.inc(reply.usage.cost_microdollars)
        for each in reply.attempts:
            metrics.attempts.labels(
                place=each.place, backend=each.backend, outcome=each.outcome
            ).inc()
            metrics.tokens.labels(place=each.place, kind="input").inc(each.input_tokens)
            metrics.tokens.labels(place=each.place, kind="output").inc(each.output_tokens)


def _write_line(facts: dict[str, Any]) -> None:
    """As JSON; a handler that prefers other words finds the facts as `record.request`."""
    log.info("%s", json.dumps(facts, ensure_ascii=False), extra={"request": facts})
