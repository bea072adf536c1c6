"""One HTTP client per provider: verified TLS, pooled connections, reads that can be broken off.

TLS certificates are always verified and there is no way to ask for less. The time limits of the
provider hold whatever an SDK passes. `connections.py` does the breaking off.
"""

from __future__ import annotations

import contextlib
import hashlib
import urllib.request
from collections.abc import Generator, Iterable, Iterator

import httpcore2
import httpx2
from typing_extensions import override

from edgewise.cloud.connections import Backend, Connection, Tries, Try
from edgewise.cloud.directory import is_loopback
from edgewise.cloud.faults import unreadable
from edgewise.cloud.provider import ProviderConfig
from edgewise.errors import SettingsError

WIRE_ID_HEADER = "X-Client-Request-Id"

# Load balancers commonly drop idle connections after a minute; the client should do so first.
_KEEP_IDLE_S = 55.0
_MOST_CONNECTIONS = 4096  # a server's many streams must not wait for each other
_MOST_IDLE = 32
_MOST_DRAINED_PARTS = 16
_CORE_ERRORS = (
    httpcore2.TimeoutException,
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    httpcore2.ProxyError,
    httpcore2.UnsupportedProtocol,
)


class _Body(httpx2.SyncByteStream):
    """A response's bytes."""

    def __init__(self, content: Iterable[bytes], current: Try | None, tries: Tries) -> None:
        self._content = content
        self._parts = iter(content)
        self._try = current
        self._tries = tries
        self._closed = False

    @override
    def __iter__(self) -> Iterator[bytes]:
        with _as_httpx():
            yield from self._parts

    @override
    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._try is not None:
            if self._try.whole:
                self._drain(self._try.connection)
            self._tries.let_go(self._try)
        close = getattr(self._content, "close", None)
        if close is not None:
            close()

    def _drain(self, connection: Connection | None) -> None:
        """Read the end of a finished answer: only a connection read to the end can be reused."""
        if connection is None:
            return
        connection.in_a_hurry = True
        try:
            for _ in range(_MOST_DRAINED_PARTS):
                if next(self._parts, None) is None:
                    break
        except _CORE_ERRORS:
            pass  # the answer is whole; only the connection is lost
        finally:
            connection.in_a_hurry = False


class _Transport(httpx2.BaseTransport):
    """Sends through our own connections, always under the provider's time limits."""

    def __init__(self, base_url: str, timeout: httpx2.Timeout, tries: Tries) -> None:
        self._tries = tries
        # Kept here too: an SDK that passes `timeout=None` would switch the client's off.
        self._timeouts = timeout.as_dict()
        self._pool = httpcore2.ConnectionPool(
            ssl_context=httpx2.create_ssl_context() if base_url.startswith("https:") else None,
            proxy=_proxy_for(base_url),
            max_connections=_MOST_CONNECTIONS,
            max_keepalive_connections=_MOST_IDLE,
            keepalive_expiry=_KEEP_IDLE_S,
            network_backend=Backend(tries),
        )

    @override
    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        current = self._tries.running.get(request.headers.get(WIRE_ID_HEADER, ""))
        if current is not None and current.aborted:
            raise httpx2.ReadError("aborted before it was sent", request=request)
        assert isinstance(request.stream, httpx2.SyncByteStream)
        url = request.url
        sent = httpcore2.Request(
            method=request.method,
            url=httpcore2.URL(
                scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path
            ),
            headers=request.headers.raw,
            content=request.stream,
            extensions={**request.extensions, "timeout": self._timeouts},
        )
        self._tries.thread.current = current
        try:
            with _as_httpx():
                response = self._pool.handle_request(sent)
        finally:
            self._tries.thread.current = None
        assert isinstance(response.stream, Iterable)
        body = _Body(response.stream, current, self._tries)
        if current is not None:
            current.body = body
        return httpx2.Response(
            response.status, headers=response.headers, stream=body, extensions=response.extensions
        )

    @override
    def close(self) -> None:
        self._pool.close()


class Wire:
    """A provider's client, and the tries under way on it."""

    def __init__(self, config: ProviderConfig, base_url: str) -> None:
        if not (config.key.isascii() and config.key.isprintable()):
            # The HTTP library would quote the key in its complaint.
            raise SettingsError(f"the key of {config.name} has characters no key can have")
        limits = config.limits
        self.timeout = httpx2.Timeout(
            connect=limits.connect_s,
            read=limits.first_token_s,
            write=limits.first_token_s,
            pool=limits.connect_s,
        )
        self._tries = Tries()
        # Redirects are not followed: a prompt goes to the configured host or nowhere.
        transport = _Transport(base_url, self.timeout, self._tries)
        self.client = httpx2.Client(transport=transport, timeout=self.timeout)

    @contextlib.contextmanager
    def attempt(self, wire_id: str) -> Generator[Try]:
        """Hold a try open for aborts; at its end, close whatever response it left open."""
        name = header_value(wire_id)
        current = self._tries.begin(name)
        try:
            yield current
        finally:
            if current.body is not None:
                current.body.close()
            self._tries.end(name)

    def abort(self, wire_id: str) -> None:
        self._tries.abort(header_value(wire_id))

    def close(self) -> None:
        self._tries.abort_all()
        self.client.close()


def expect_events(provider: str, response: httpx2.Response) -> None:
    """A page of HTML with status 200 is a hotel's log-in page, not an answer that was cut."""
    kind = response.headers.get("content-type", "").lower()
    if kind.startswith(("text/html", "application/json")):
        raise unreadable(provider, f"expected an event stream, got {kind!r}")


def header_value(wire_id: str) -> str:
    """The id as it travels. One that a header cannot carry becomes its hash."""
    if wire_id.isascii() and wire_id.isprintable() and len(wire_id) <= 200:
        return wire_id.strip()
    return hashlib.sha256(wire_id.encode("utf-8", "replace")).hexdigest()


@contextlib.contextmanager
def _as_httpx() -> Generator[None]:
    try:
        yield
    except _CORE_ERRORS as error:
        # The two libraries name their errors alike.
        raise getattr(httpx2, type(error).__name__)(str(error)) from error


def _proxy_for(base_url: str) -> httpcore2.Proxy | None:
    """The system's proxy, as httpx would choose it; never for this machine itself."""
    url = httpx2.URL(base_url)
    proxies = urllib.request.getproxies()
    address = proxies.get(url.scheme) or proxies.get("all")
    if not address or is_loopback(base_url) or urllib.request.proxy_bypass(url.host):
        return None
    proxy = httpx2.Proxy(address if "://" in address else f"http://{address}")
    if proxy.url.scheme not in ("http", "https"):
        raise SettingsError(f"only http and https proxies are supported, not {proxy.url.scheme!r}")
    return httpcore2.Proxy(
        httpcore2.URL(
            scheme=proxy.url.raw_scheme,
            host=proxy.url.raw_host,
            port=proxy.url.port,
            target=proxy.url.raw_path,
        ),
        auth=proxy.raw_auth,
        headers=proxy.headers.raw,
        ssl_context=proxy.ssl_context,
    )
