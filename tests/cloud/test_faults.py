"""From what HTTP says to what we say."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx2
import pytest

from edgewise.cloud.http import broken, mapped, message_in, reading, retry_after, status_error
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


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, CloudAuthFailed),
        (403, CloudAuthFailed),
        (429, CloudRateLimited),
        (500, CloudFailed),
        (529, CloudFailed),
        (400, CloudRejected),
        (404, CloudRejected),
        (422, CloudRejected),
        (307, CloudRejected),
    ],
)
def test_a_status_becomes_its_error(status: int, kind: type[CloudError]) -> None:
    error = status_error("some", status, "because", retry_after_s=2.0)
    assert type(error) is kind
    assert (error.status, error.provider, error.retry_after_s) == (status, "some", 2.0)
    assert str(error) == f"some answered {status}: because"


def test_a_short_placeholder_key_is_not_searched_for() -> None:
    assert str(status_error("some", 401, "no key", key="k")) == "some answered 401: no key"


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (httpx2.ConnectTimeout("x"), CloudUnreachable, "cloud_connect_timeout"),
        (httpx2.ConnectError("x"), CloudUnreachable, "cloud_unreachable"),
        (httpx2.ProxyError("x"), CloudUnreachable, "cloud_unreachable"),
        (httpx2.PoolTimeout("x"), CloudUnreachable, "cloud_unreachable"),
        (httpx2.ReadTimeout("x"), CloudTimeout, "cloud_timeout"),
        (httpx2.WriteTimeout("x"), CloudTimeout, "cloud_timeout"),
        (httpx2.ReadError("x"), CloudCut, "cloud_cut"),
        (httpx2.WriteError("x"), CloudCut, "cloud_cut"),
        (httpx2.RemoteProtocolError("x"), CloudCut, "cloud_cut"),
        (httpx2.DecodingError("x"), CloudMalformed, "cloud_malformed"),
        (httpx2.UnsupportedProtocol("x"), CloudRejected, "cloud_rejected"),
    ],
)
def test_a_failure_below_http_becomes_its_error(
    error: httpx2.HTTPError, kind: type[CloudError], code: str
) -> None:
    with pytest.raises(CloudError) as caught, mapped("some"):
        raise error
    assert type(caught.value) is kind
    assert caught.value.code == code
    assert caught.value.__cause__ is error


def test_the_words_of_a_local_protocol_error_are_not_repeated() -> None:
    assert "sk-1" not in str(broken("some", httpx2.LocalProtocolError("Illegal header b'sk-1'")))


def test_text_that_is_not_json_or_not_utf_8_is_malformed() -> None:
    with pytest.raises(CloudMalformed), mapped("some"):
        json.loads("{")
    with pytest.raises(CloudMalformed), mapped("some"):
        b"\xff".decode()


def test_mistakes_of_our_own_are_not_blamed_on_the_provider() -> None:
    with pytest.raises(TypeError), mapped("some"):
        raise TypeError("ours")


def test_a_surprising_shape_is_blamed_on_the_provider_without_quoting_it() -> None:
    with pytest.raises(CloudMalformed) as caught, reading("some"):
        raise ValueError("the private words of an answer")
    assert "private" not in str(caught.value)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"retry-after-ms": "1500", "retry-after": "60"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "60"}, 60.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
    ],
)
def test_waiting_times_are_read(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


def test_a_date_to_wait_for_becomes_seconds() -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(minutes=2), usegmt=True)
    seconds = retry_after({"retry-after": later})
    assert seconds is not None
    assert 60 < seconds <= 120


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"error": {"message": "a"}}, "a"),
        ([{"error": {"message": "a"}}], "a"),
        ({"error": "a"}, "a"),
        ({"detail": "a"}, "a"),
        ({"detail": [{"msg": "a"}]}, "[{'msg': 'a'}]"),
        ({"message": "a", "error": "b"}, "a"),
        ("a", "a"),
        ({}, ""),
        (None, ""),
        (7, ""),
    ],
)
def test_the_words_are_found_wherever_they_stand(body: object, words: str) -> None:
    assert message_in(body) == words
