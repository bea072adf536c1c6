"""One HTTP client per provider: verified TLS, reads that can be aborted, our errors; exchanges."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import re
import socket
import ssl
import threading
import urllib.request
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, ClassVar

import httpcore2
import httpx2
from typing_extensions import override

from edgewise.cloud.conversation import bytes_in
from edgewise.cloud.provider import LOOP_STATUS, VIA_HEADER, Arrived, Chunk, ProviderConfig
from edgewise.cloud.providers import PROVIDERS, is_loopback, row_for
from edgewise.errors import (
    CloudAuthFailed,
    CloudCut,
    CloudError,
    CloudFailed,
    CloudMalformed,
    CloudRateLimited,
    CloudRejected,
    CloudTimeout,
    CloudUnreachable,
    SettingsError,
)
from edgewise.types.messages import Original, Request
from edgewise.types.replies import Raw

# An answer is complete before its last bytes are read. A reusable connection is worth this wait.
DRAIN_S = 0.25
LONGEST_MESSAGE = 300
_SHORTEST_KEY = 6  # shorter keys are placeholders, and would match plain words
_CODES: tuple[tuple[type[BaseException], str], ...] = (
    (socket.gaierror, "cloud_dns_failed"),
    (ssl.SSLError, "cloud_tls_failed"),
    (ConnectionRefusedError, "cloud_refused"),
)
WIRE_ID_HEADER = "X-Client-Request-Id"
# Load balancers often drop idle connections after a minute; the client should do so first.
_KEEP_IDLE_S = 55.0
_MOST_CONNECTIONS = 4096  # the many streams of a server must not wait for each other
_MOST_IDLE = 32
_MOST_DRAINED_PARTS = 16
_CORE_ERRORS = (
    httpcore2.TimeoutException,
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    httpcore2.ProxyError,
    httpcore2.UnsupportedProtocol,
)


class WireProvider:
    """What every adapter has: its configuration, and a wire whose tries can be aborted."""

    def __init__(self, config: ProviderConfig, wire: Wire) -> None:
        self._config = config
        self._wire = wire

    @property
    def config(self) -> ProviderConfig:
        return self._config

    def abort(self, wire_id: str) -> bool:
        return self._wire.abort(wire_id)

    def close(self) -> None:
        self._wire.close()


class Wire:
    """A provider's client, and its running tries."""

    def __init__(self, config: ProviderConfig) -> None:
        if not (config.key.isascii() and config.key.isprintable()):
            # The HTTP library would quote the key in its error.
            raise SettingsError(f"the key of {config.name} has characters no key can have")
        self.base_url = config.base_url or row_for(config).base_url
        self._may_be_edgewise = may_be_edgewise(config.name, self.base_url)
        limits = config.limits
        self.timeout = httpx2.Timeout(
            connect=limits.connect_s,
            read=limits.first_token_s,
            write=limits.first_token_s,
            pool=limits.connect_s,
        )
        self._tries = Tries()
        # Redirects are not followed: a prompt goes to the configured host or nowhere.
        transport = _Transport(self.base_url, self.timeout, limits.total_s, self._tries)
        self.client = httpx2.Client(transport=transport, timeout=self.timeout)

    @contextlib.contextmanager
    def attempt(self, wire_id: str, via: tuple[str, ...] = ()) -> Generator[Try]:
        """Keep a try abortable. At its end, close the response if it is still open."""
        name = header_value(wire_id)
        current = self._tries.begin(name)
        current.via = via if self._may_be_edgewise else ()
        try:
            yield current
        except CloudError as error:
            error.begun = current.accepted
            raise
        finally:
            if current.body is not None:
                current.body.close()
            self._tries.end(name)

    def abort(self, wire_id: str) -> bool:
        return self._tries.abort(header_value(wire_id))

    def close(self) -> None:
        self._tries.abort_all()
        self.client.close()


def may_be_edgewise(provider: str, base_url: str) -> bool:
    """Whether an edgewise server may be there: a provider's own address is none."""
    row = PROVIDERS.get(provider)
    return row is None or is_loopback(base_url) or base_url.rstrip("/") != row.base_url.rstrip("/")


def _via(current: Try | None) -> list[tuple[bytes, bytes]]:
    if current is None or not current.via:
        return []
    return [(VIA_HEADER.encode(), ", ".join(current.via).encode())]


def header_value(wire_id: str) -> str:
    """The id as sent. If a header cannot carry it, its hash."""
    if wire_id.isascii() and wire_id.isprintable() and len(wire_id) <= 200:
        return wire_id.strip()
    return hashlib.sha256(wire_id.encode("utf-8", "replace")).hexdigest()


@dataclass(slots=True, eq=False)
class Try:
    """One running request. `whole` says that the answer is complete, whatever bytes follow.

    sent      some of it has left
    accepted  the provider answered with a status that is no refusal
    patient   the answer comes in one piece: silence may last as long as an answer may
    """

    connection: Connection | None = None
    body: httpx2.SyncByteStream | None = None
    aborted: bool = False
    sent: bool = False
    accepted: bool = False
    whole: bool = False
    patient: bool = False
    via: tuple[str, ...] = ()


@dataclass(slots=True)
class Tries:
    """Which try runs on which connection."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    running: dict[str, Try] = field(default_factory=dict)
    # An abort may come before its try starts; the try must still be stopped.
    early: deque[str] = field(default_factory=lambda: deque(maxlen=256))
    thread: threading.local = field(default_factory=threading.local)

    def begin(self, name: str) -> Try:
        with self.lock:
            self.running[name] = Try(aborted=name in self.early)
            return self.running[name]

    def end(self, name: str) -> None:
        with self.lock:
            self.running.pop(name, None)

    def claim(self, connection: Connection) -> None:
        """Called when the request is written, on the thread that sends it."""
        current: Try | None = getattr(self.thread, "current", None)
        if current is not None:
            with self.lock:
                current.connection = connection
                if current.aborted:
                    connection.shut_down()
                else:
                    current.sent = True

    def let_go(self, current: Try) -> None:
        """Called before the connection returns to the pool, where another try may take it."""
        with self.lock:
            current.connection = None

    def abort(self, name: str) -> bool:
        """Break a try's connection. False if nothing of it was sent, and nothing will be."""
        with self.lock:
            current = self.running.get(name)
            if current is None:
                self.early.append(name)
                return True  # it may just have ended
            current.aborted = True
            if current.connection is not None:
                current.connection.shut_down()
            return current.sent

    def abort_all(self) -> None:
        for name in list(self.running):
            self.abort(name)


class Connection(httpcore2.NetworkStream):
    """A network stream that knows its try and can be shut down from another thread."""

    def __init__(self, inner: httpcore2.NetworkStream, tries: Tries) -> None:
        self._inner = inner
        self._tries = tries
        self._closing = threading.Lock()
        self.in_a_hurry = False

    @override
    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, DRAIN_S if self.in_a_hurry else timeout)

    @override
    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._tries.claim(self)
        self._inner.write(buffer, timeout)

    @override
    def close(self) -> None:
        with self._closing:
            self._inner.close()

    @override
    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore2.NetworkStream:
        secured = self._inner.start_tls(ssl_context, server_hostname, timeout)
        return Connection(secured, self._tries)

    @override
    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)

    def shut_down(self) -> None:
        # The lock keeps the descriptor from being closed and reused meanwhile.
        with self._closing, contextlib.suppress(OSError):
            # Not sock.shutdown(): on a TLS socket it drops the encryption first. A write at that
            # moment would go out in the clear, with the key.
            socket.socket.shutdown(self._inner.get_extra_info("socket"), socket.SHUT_RDWR)


class _Backend(httpcore2.SyncBackend):
    def __init__(self, tries: Tries) -> None:
        self._tries = tries

    @override
    def connect_tcp(self, *args: Any, **options: Any) -> httpcore2.NetworkStream:
        return Connection(super().connect_tcp(*args, **options), self._tries)


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
        """Read the end of a finished answer: only a fully read connection can be reused."""
        if connection is None:
            return
        connection.in_a_hurry = True
        try:
            for _ in range(_MOST_DRAINED_PARTS):
                if next(self._parts, None) is None:
                    break
        except _CORE_ERRORS:
            pass  # the answer is complete; only the connection is lost
        finally:
            connection.in_a_hurry = False


class _Transport(httpx2.BaseTransport):
    """Sends through our own connections, always under the provider's time limits."""

    def __init__(
        self, base_url: str, timeout: httpx2.Timeout, total_s: float, tries: Tries
    ) -> None:
        self._tries = tries
        self._total_s = total_s
        # Set here too: an SDK that passes `timeout=None` would disable the client's.
        self._timeouts = timeout.as_dict()
        self._pool = httpcore2.ConnectionPool(
            ssl_context=httpx2.create_ssl_context() if base_url.startswith("https:") else None,
            proxy=_proxy_for(base_url),
            max_connections=_MOST_CONNECTIONS,
            max_keepalive_connections=_MOST_IDLE,
            keepalive_expiry=_KEEP_IDLE_S,
            network_backend=_Backend(tries),
        )

    @override
    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        current = self._tries.running.get(request.headers.get(WIRE_ID_HEADER, ""))
        if current is not None and current.aborted:
            raise httpx2.ReadError("aborted before it was sent", request=request)
        assert isinstance(request.stream, httpx2.SyncByteStream)
        url = request.url
        patient = current is not None and current.patient
        timeouts = self._timeouts | ({"read": self._total_s} if patient else {})
        sent = httpcore2.Request(
            method=request.method,
            url=httpcore2.URL(
                scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path
            ),
            headers=[*request.headers.raw, *_via(current)],
            content=request.stream,
            extensions={**request.extensions, "timeout": timeouts},
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
            current.accepted = response.status < 400
        return httpx2.Response(
            response.status, headers=response.headers, stream=body, extensions=response.extensions
        )

    @override
    def close(self) -> None:
        self._pool.close()


@contextlib.contextmanager
def _as_httpx() -> Generator[None]:
    try:
        yield
    except _CORE_ERRORS as error:
        # Both libraries use the same names for their errors.
        raise getattr(httpx2, type(error).__name__)(str(error)) from error


def _proxy_for(base_url: str) -> httpcore2.Proxy | None:
    """The system's proxy, as httpx would choose it; never for this machine."""
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


@contextlib.contextmanager
def mapped(provider: str, key: str = "") -> Generator[None]:
    """Turn httpx's errors, and replies that are not JSON, into ours. `key` is never quoted."""
    try:
        yield
    except httpx2.HTTPStatusError as error:
        raise refused(provider, error.response, key=key) from error
    except (httpx2.HTTPError, httpx2.StreamError) as error:
        raise broken(provider, error) from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise unreadable(provider, str(error)) from error


@contextlib.contextmanager
def reading(provider: str) -> Generator[None]:
    """For the lines that take a reply apart: an unexpected shape is the provider's fault.

    Use it only there: around anything else it would hide our own bugs. Python's message stays in
    the cause: it may quote the reply, and our messages go into the ledger.
    """
    try:
        yield
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise unreadable(provider, type(error).__name__) from error


def expect_events(provider: str, response: httpx2.Response) -> None:
    """HTML with status 200 is a log-in page of some network, not a cut answer."""
    kind = response.headers.get("content-type", "").lower()
    if kind.startswith(("text/html", "application/json")):
        raise unreadable(provider, f"expected an event stream, got {kind!r}")


def unreadable(provider: str, why: str) -> CloudMalformed:
    return CloudMalformed(_short(f"cannot read {provider}'s reply: {why}"), provider=provider)


def cut(provider: str) -> CloudCut:
    return CloudCut(f"{provider}'s answer ended before its end was marked", provider=provider)


def broken(provider: str, error: BaseException) -> CloudError:
    """For a failure below HTTP: no connection, no reply in time, a broken connection."""
    match error:
        case httpx2.ConnectTimeout():
            return CloudUnreachable(
                f"no connection to {provider} in time",
                provider=provider,
                code="cloud_connect_timeout",
            )
        case httpx2.ConnectError() | httpx2.ProxyError() | httpx2.PoolTimeout():
            return CloudUnreachable(
                f"cannot connect to {provider}: {_root_words(error)}",
                provider=provider,
                code=_unreachable_code(error),
            )
        case httpx2.UnsupportedProtocol() | httpx2.LocalProtocolError():
            # A local protocol error may quote a header, and so a key.
            return CloudRejected(f"the request to {provider} cannot be sent", provider=provider)
        case httpx2.TimeoutException():
            return CloudTimeout(f"{provider} sent nothing in time", provider=provider)
        case httpx2.DecodingError():
            return unreadable(provider, str(error))
        case _:
            return CloudCut(f"the connection to {provider} broke off: {error}", provider=provider)


def refused(
    provider: str,
    response: httpx2.Response,
    *,
    message: str = "",
    status: int | None = None,
    key: str = "",
) -> CloudError:
    """For a response with an error status. `status` overrides it, for errors inside a 200."""
    if not message:
        with contextlib.suppress(ValueError, httpx2.StreamError):
            message = message_in(response.json())
    return status_error(
        provider,
        status or response.status_code,
        message,
        retry_after_s=retry_after(response.headers),
        key=key,
    )


def status_error(
    provider: str,
    status: int,
    message: str = "",
    *,
    retry_after_s: float | None = None,
    key: str = "",
) -> CloudError:
    """The error for an HTTP status, with the provider's own words."""
    kind: type[CloudError]
    if status in (401, 403):
        kind = CloudAuthFailed
    elif status == 429:
        kind = CloudRateLimited
    elif status == LOOP_STATUS:
        kind = CloudRejected
    elif status >= 500:
        kind = CloudFailed
    else:
        kind = CloudRejected
    words = message.strip() or "no reason given"
    if len(key) >= _SHORTEST_KEY:
        words = words.replace(key, "***")
    return kind(
        _short(f"{provider} answered {status}: {words}"),
        provider=provider,
        status=status,
        retry_after_s=retry_after_s,
        code="cloud_loop" if status == LOOP_STATUS else None,
    )


def message_in(body: object) -> str:
    """The message in an error body, in any of the usual places."""
    if isinstance(body, list) and body:
        body = body[0]
    if isinstance(body, str):
        return body
    if not isinstance(body, Mapping):
        return ""
    for name in ("message", "msg", "detail", "error"):
        inside = body.get(name)
        if inside:
            return message_in(inside) or str(inside)
    return ""


def retry_after(headers: Mapping[str, str]) -> float | None:
    """How many seconds a provider asks us to wait: from milliseconds, seconds, or a date."""
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("retry-after", "")
    seconds = _number(text)
    if seconds is not None:
        return seconds
    try:
        when = parsedate_to_datetime(text)
    except ValueError:
        return None
    if when.tzinfo is None:  # "-0000" in the date: UTC, says RFC 5322
        when = when.replace(tzinfo=UTC)
    return max(0.0, (when - datetime.now(UTC)).total_seconds())


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _links(error: BaseException) -> Iterator[BaseException]:
    """An error and its causes. httpcore clears the cause, but the context remains."""
    link: BaseException | None = error
    while link is not None:
        yield link
        link = link.__cause__ or link.__context__


def _unreachable_code(error: BaseException) -> str:
    for link in _links(error):
        for kind, code in _CODES:
            if isinstance(link, kind):
                return code
    return "cloud_unreachable"


def _root_words(error: BaseException) -> str:
    *_, root = _links(error)
    return _short(str(root) or type(root).__name__)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_MESSAGE else text[: LONGEST_MESSAGE - 1] + "…"


# -- one request and its answer, as they come: for OpenAI's protocols and Anthropic's --------------

# A request that its client sent in the provider's own protocol leaves as it came, and the answer
# comes back as it is: `Raw` pieces, out of which our flows read what they need.

# Of a response, what its client may need: the provider's name for it, and its limits.
_FOR_CLIENTS = re.compile(
    r"(x-)?request-id|openai-processing-ms|(x|anthropic)-ratelimit-[a-z-]+", re.IGNORECASE
)
_OF_ERRORS = re.compile(rf"{_FOR_CLIENTS.pattern}|retry-after(-ms)?|x-should-retry", re.IGNORECASE)
_LONGEST_ERROR = 65_536  # bytes of one that is passed on
_NONE: Mapping[str, str] = {}
_EVENT_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_BLANKS = re.compile(r"[ \t\n\r]*")
_LINE_END = re.compile(r"\r\n|\n|\r")
MOST_EVENT = 64_000_000  # bytes; a large picture has ten million
MOST_ANSWER = 256_000_000  # of one that is not streamed
DONE = "[DONE]"  # the end mark of OpenAI's streams, which is no JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """What is sent. `raw`: its client gets the answer as it comes. `together`: in one piece, though
    it comes in many."""

    path: str
    body: Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)
    stream: bool = True
    raw: bool = False
    together: bool = False


class AnswerBuilder(ABC):
    """Builds an answer from its pieces.

    over    how it ended has been said
    ended   nothing more of it comes, whatever the connection does
    """

    # An error inside a stream has status 200 and only a word; unknown ones are the server's fault.
    status_of: ClassVar[Mapping[str, int]] = {}
    over = ended = False

    def __init__(self, provider: str, current: Try, *, raw: bool) -> None:
        self.provider, self.current, self.raw = provider, current, raw

    @abstractmethod
    def take(self, value: dict[str, Any]) -> Sequence[str | Arrived]:
        """One event: its text, and how much else it brought."""

    @abstractmethod
    def take_whole(self, value: dict[str, Any]) -> Sequence[str | Arrived]:
        """The same of an answer in one piece."""

    @abstractmethod
    def end(self, request: Request) -> Iterator[Chunk]:
        """The calls and the end. Raises CloudError if the answer was cut."""

    @abstractmethod
    def together(self, events: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """The whole answer that these are the events of, as its provider sends it in one piece."""

    def refused(
        self, config: ProviderConfig, response: httpx2.Response, words: str, value: Any
    ) -> CloudError:
        """For an answer with an error status: what it says, and the JSON of its body, if any."""
        return refused(config.name, response, message=words, key=config.key)

    def shown(self, written: bytes, value: Any) -> bytes:
        """What a client sees of an event; empty: nothing."""
        return written

    def check(self, value: Any, key: str = "") -> None:
        """Raises CloudError for an error in place of an answer."""
        error = value.get("error")
        if not error:
            return
        words = [error.get(name) for name in ("code", "type")] if isinstance(error, dict) else []
        known = (
            int(word) if str(word).isdigit() else self.status_of.get(word) for word in words if word
        )
        status = next((status for status in known if status), 500)
        raise status_error(self.provider, status, message_in(value), key=key)


def exchange(
    wire: Wire,
    config: ProviderConfig,
    post: Post,
    request: Request,
    wire_id: str,
    answer: Callable[[Try], AnswerBuilder],
) -> Iterator[Chunk]:
    """Send it, and yield what comes, as `Raw` or as text and `Arrived`; then calls and `Finish`."""
    sent = wire.client.build_request(
        "POST",
        wire.base_url.rstrip("/") + post.path,
        content=as_written(post.body, request.original),
        headers={
            **post.headers,
            "content-type": "application/json",
            WIRE_ID_HEADER: header_value(wire_id),
        },
    )
    with wire.attempt(wire_id, request.via) as current, mapped(config.name, config.key):
        current.patient = not post.stream
        reader = answer(current)
        response = wire.client.send(sent, stream=True)
        if response.status_code >= 300:  # redirects are not followed
            written = read_whole(response)
            value, words = None, ""
            if "json" not in response.headers.get("content-type", ""):
                words = written.decode("utf-8", "replace")
            else:
                with contextlib.suppress(ValueError):
                    value = json.loads(written)
                    words = message_in(value)
            error = reader.refused(config, response, words, value)
            if post.raw:
                headers = {n: v for n, v in response.headers.items() if _OF_ERRORS.fullmatch(n)}
                _tell(error, written, value, config.key, headers)
            raise error
        pieces = _pieces(response, post, reader, config)
        if post.together:
            yield from _together(pieces, reader, request, config)
            return
        for piece in pieces:
            if post.raw:
                yield piece
            else:
                yield from _plain(piece)
        yield from reader.end(request)


def as_written(body: Mapping[str, Any], original: Original | None) -> bytes:
    """A body as JSON. What is still its client's is written as the client wrote it: its numbers,
    its blanks and its escapes are what a provider has read, and keeps, of the turns before."""
    written = members(original.written.decode()) if original and original.written else {}
    sent = original.sent if original else {}

    def value(name: str, given: Any) -> str:
        if name in written and sent.get(name) is given:
            return written[name]
        return json.dumps(given, ensure_ascii=False, separators=(",", ":"))

    return (
        "{" + ",".join(f"{json.dumps(name)}:{value(name, body[name])}" for name in body) + "}"
    ).encode()


def members(text: str) -> dict[str, str]:
    """The values of an object of JSON, as they are written in its text."""
    found, read = dict[str, str](), json.JSONDecoder().raw_decode
    at = _after_blanks(text, text.index("{") + 1)
    while text[at] != "}":
        name, at = read(text, at)
        begin = _after_blanks(text, text.index(":", at) + 1)
        _, end = read(text, begin)
        found[name] = text[begin:end]
        at = _after_blanks(text, end)
        if text[at] == ",":
            at = _after_blanks(text, at + 1)
    return found


def _after_blanks(text: str, at: int) -> int:
    found = _BLANKS.match(text, at)
    return found.end() if found else at


def _together(
    pieces: Iterator[Raw], reader: AnswerBuilder, request: Request, config: ProviderConfig
) -> Iterator[Chunk]:
    """The stream of an answer that is wanted whole: seen to begin, and put together at its end."""
    events, texts, hidden, length = list[dict[str, Any]](), list[str](), 0, 0
    headers: Mapping[str, str] = {}
    for piece in pieces:
        yield Arrived(piece.size + len(piece.text))
        headers = headers or piece.headers
        texts.append(piece.text)
        hidden += piece.size
        length += len(piece.written)
        if length > MOST_ANSWER:
            raise httpx2.DecodingError(f"an answer of more than {MOST_ANSWER / 1e6:.0f} MB")
        if piece.value is not None:
            events.append(piece.value)
    end = list(reader.end(request))  # before anything is shown: it may have been cut
    with reading(config.name):
        value = reader.together(events)
    written = json.dumps(value, ensure_ascii=False).encode()
    yield Raw(written, value, "".join(texts), hidden, closing=True, headers=headers)
    yield from end


def _pieces(
    response: httpx2.Response, post: Post, reader: AnswerBuilder, config: ProviderConfig
) -> Iterator[Raw]:
    headers = {n: v for n, v in response.headers.items() if _FOR_CLIENTS.fullmatch(n)}
    if not post.stream:
        written = read_whole(response)
        with reading(config.name):
            value = json.loads(written)
            reader.check(value, config.key)
            found = reader.take_whole(value)
        yield _raw(written, value, found, closing=True, headers=headers)
        return
    expect_events(config.name, response)
    # Kept open until the response is closed, which reads what is left: so it can be used again.
    content = events(response.iter_bytes())
    yield from _events_of(content, reader, config, headers)
    response.close()
    content.close()


def read_whole(response: httpx2.Response) -> bytes:
    """All bytes of it, unpacked. Raises DecodingError for more than any answer has."""
    held = bytearray()
    for part in response.iter_bytes():
        held += part
        if len(held) > MOST_ANSWER:
            raise httpx2.DecodingError(f"an answer of more than {MOST_ANSWER / 1e6:.0f} MB")
    return bytes(held)


def _events_of(
    content: Iterator[tuple[bytes, str]],
    reader: AnswerBuilder,
    config: ProviderConfig,
    headers: dict[str, str],
) -> Iterator[Raw]:
    for written, data in content:
        value, found = None, tuple[str | Arrived, ...]()
        if data and data != DONE:
            try:
                with reading(config.name):
                    value = json.loads(data)
                    reader.check(value, config.key)
                    found = _taken(reader, value)
            except CloudError as error:
                if reader.raw and value is not None and not isinstance(error, CloudMalformed):
                    _tell(error, written, value, config.key)
                raise
        elif data:
            reader.over = reader.ended = True
        left = reader.shown(written, value)
        yield _raw(left, value, found, closing=reader.over, headers=headers)
        headers = {}
        if reader.ended:
            return


def _taken(reader: AnswerBuilder, value: dict[str, Any]) -> tuple[str | Arrived, ...]:
    """What one event brought. Of one that is passed on, its client may know what it means."""
    try:
        return tuple(reader.take(value))
    except (AttributeError, LookupError, TypeError, ValueError):
        if not reader.raw:
            raise
        return (Arrived(bytes_in(value)),)


def _tell(
    error: CloudError, written: bytes, value: Any, key: str, headers: Mapping[str, str] = _NONE
) -> None:
    """Keep a provider's own words of what is wrong: agents go by them. What it says of the key is
    nothing that a client could mend, and what of the key is quoted elsewhere is no client's."""
    if isinstance(error, CloudAuthFailed) or error.status == LOOP_STATUS:
        return
    if len(written) > _LONGEST_ERROR or not isinstance(value, dict):
        return
    if len(key) >= _SHORTEST_KEY and key.encode() in written:
        written = written.replace(key.encode(), b"***")
        value = json.loads(json.dumps(value).replace(key, "***"))
    error.raw = Raw(written, value, headers=headers)


def _raw(written: bytes, value: Any, found: Sequence[str | Arrived], **more: Any) -> Raw:
    text = "".join(each for each in found if isinstance(each, str))
    size = sum(each.size for each in found if isinstance(each, Arrived))
    return Raw(written, value, text, size, **more)


def _plain(piece: Raw) -> Iterator[Chunk]:
    if piece.size or not piece.text:
        yield Arrived(piece.size)
    if piece.text:
        yield piece.text


def events(content: Iterator[bytes]) -> Generator[tuple[bytes, str], None, None]:
    """Each event of a stream: its bytes, blank line included, and its data; "" of a comment.

    What stands after the last blank line was cut, and is no event. One without an end is refused:
    it would take all memory, and longer with each part of it.
    """
    held, looked = bytearray(), 0
    for part in content:
        held += part
        start = 0
        while found := _EVENT_END.search(held, looked):
            written = bytes(held[start : found.end()])
            start = looked = found.end()
            lines = _LINE_END.split(written.decode("utf-8"))
            data = [line[5:].removeprefix(" ") for line in lines if line.startswith("data:")]
            yield written, "\n".join(data)
        del held[:start]
        looked = max(0, len(held) - 3)  # the longest end may have begun
        if len(held) > MOST_EVENT:
            raise httpx2.DecodingError(f"an event of more than {MOST_EVENT / 1e6:.0f} MB")
