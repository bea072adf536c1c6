"""Turns what can go wrong over HTTP into our errors, in one place for all adapters."""

from __future__ import annotations

import contextlib
import json
import math
import socket
import ssl
from collections.abc import Generator, Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx2

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
)

LONGEST_MESSAGE = 300
_SHORTEST_KEY = 6  # shorter ones are placeholders, and would be found in plain words

_CODES: tuple[tuple[type[BaseException], str], ...] = (
    (socket.gaierror, "cloud_dns_failed"),
    (ssl.SSLError, "cloud_tls_failed"),
    (ConnectionRefusedError, "cloud_refused"),
)


@contextlib.contextmanager
def mapped(provider: str, key: str = "") -> Generator[None]:
    """Raise our errors for httpx's, and for replies that are not JSON. `key` is never quoted."""
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
    """For the lines that take a reply apart: a shape they do not expect is the provider's fault.

    Keep it that narrow. Around anything else it would hide mistakes of our own. What Python says
    is left to the cause: it may quote the reply, and our messages are kept in the ledger.
    """
    try:
        yield
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise unreadable(provider, type(error).__name__) from error


def unreadable(provider: str, why: str) -> CloudMalformed:
    return CloudMalformed(_short(f"cannot read {provider}'s reply: {why}"), provider=provider)


def cut(provider: str) -> CloudCut:
    return CloudCut(f"{provider}'s answer ended before its end was marked", provider=provider)


def broken(provider: str, error: BaseException) -> CloudError:
    """For a failure below HTTP: no connection, no reply in time, a connection that broke."""
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
            # The words of a local protocol error may quote a header, and so a key.
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
    """For a response with an error status. `status` overrides, for errors inside a 200."""
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
    )


def message_in(body: object) -> str:
    """The human words in an error body, whichever of the usual places they stand in."""
    if isinstance(body, list) and body:
        body = body[0]
    if isinstance(body, str):
        return body
    if not isinstance(body, Mapping):
        return ""
    for name in ("message", "detail", "error"):
        inside = body.get(name)
        if inside:
            return message_in(inside) or str(inside)
    return ""


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds a provider asks us to wait: milliseconds, seconds, or a date."""
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
    """An error and what caused it. httpcore clears the cause on the way; the context remains."""
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
