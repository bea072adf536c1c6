"""Who may ask: keys compared in constant time, and how often each client may."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from edgewise.errors import SettingsError
from edgewise.server.faults import Fault, Refusal, refuse
from edgewise.server_settings import KeySettings, ServerSettings
from edgewise.settings import Settings

KEY_VARIABLE = "EDGEWISE_SERVER_KEY"
KEY_PROTOCOL = "openai-insecure-api-key."


@dataclass(slots=True)
class Allowance:
    """So many requests a minute; unused ones add up to one minute's worth."""

    per_minute: int
    clock: Callable[[], float] = time.monotonic
    lock: threading.Lock = field(default_factory=threading.Lock)
    left: float = 0.0
    counted_at: float = 0.0

    def __post_init__(self) -> None:
        self.left, self.counted_at = float(self.per_minute), self.clock()

    def take(self) -> float:
        """0 where a request may pass; otherwise the seconds until one may."""
        if not self.per_minute:
            return 0.0
        with self.lock:
            now = self.clock()
            gained = (now - self.counted_at) * self.per_minute / 60
            self.left = min(float(self.per_minute), self.left + gained)
            self.counted_at = now
            if self.left >= 1:
                self.left -= 1
                return 0.0
            return (1 - self.left) * 60 / self.per_minute


@dataclass(frozen=True, slots=True)
class Client:
    """`budget_key` is the key's own: a client with one cannot spend from another's budget."""

    name: str
    budget_key: str = ""
    allowance: Allowance | None = None


class Clients:
    """The keys of a server. Without any, whoever reaches it may ask."""

    def __init__(self, settings: Settings) -> None:
        server = settings.server
        self._salt = secrets.token_bytes(16)
        self._known: list[tuple[bytes, Client]] = []
        if key := server.key or settings.environment.get(KEY_VARIABLE, "").strip():
            self._known.append((_digest(key), Client("key")))
        for name, row in server.keys.items():
            self._known.append((_key_digest(name, row, settings), _client(name, row)))

    @property
    def keyed(self) -> bool:
        return bool(self._known)

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


def check_rate(client: Client) -> None:
    """Raises Refusal: 429, with when to come again."""
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


def _client(name: str, row: KeySettings) -> Client:
    allowance = Allowance(row.requests_per_minute) if row.requests_per_minute else None
    return Client(name, row.budget_key or name, allowance)


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
