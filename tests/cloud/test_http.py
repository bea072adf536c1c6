"""The HTTP client of the adapters: TLS, proxies, limits, connections, errors."""

from __future__ import annotations

import gzip
import json
import socket
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import httpcore2
import httpx2
import pytest
from typing_extensions import override

from edgewise.cloud import http
from edgewise.cloud.http import (
    WIRE_ID_HEADER,
    Connection,
    Tries,
    Wire,
    broken,
    header_value,
    mapped,
    message_in,
    reading,
    retry_after,
    status_error,
)
from edgewise.cloud.provider import ProviderConfig, TimeLimits
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
from edgewise.testing import LoopbackCloud
from tests.cloud.adapter_cases import KEY, QUESTION, Reader, open_adapter, text_of
from tests.cloud.raw_server import RawServer, Step, reply, self_signed

HELLO: list[Step] = reply(json.dumps({"text": "Hello."}), kind="application/json")


def config(base_url: str, key: str = KEY, first_token_s: float = 5.0) -> ProviderConfig:
    limits = TimeLimits(first_token_s=first_token_s)
    return ProviderConfig(
        name="some", protocol="openai", model="m", base_url=base_url, key=key, limits=limits
    )


# -- TLS ------------------------------------------------------------------------------------------


def test_a_certificate_nobody_vouches_for_is_refused_before_anything_is_sent(
    tmp_path: Path,
) -> None:
    with self_signed(tmp_path) as (context, _), RawServer(HELLO, tls=context) as server:
        provider = open_adapter("cactus_cloud", server.url)
        with pytest.raises(CloudUnreachable) as caught:
            list(provider.stream(QUESTION, "try-1"))
        provider.close()
        assert server.connections == 1
        assert server.requests == []
    assert caught.value.code == "cloud_tls_failed"


def test_a_trusted_certificate_is_accepted_and_its_connection_reused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with self_signed(tmp_path) as (context, certificate):
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        with RawServer(HELLO, HELLO, tls=context) as server:
            provider = open_adapter("cactus_cloud", server.url)
            for number in range(2):
                chunks = list(provider.stream(QUESTION, f"try-{number}"))
                assert text_of(chunks) == "Hello."
            provider.close()
            assert server.connections == 1


@pytest.mark.parametrize("reused", [False, True], ids=["fresh", "reused"])
def test_an_abort_wakes_a_read_over_tls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reused: bool
) -> None:
    silence: list[Step] = [None]
    with self_signed(tmp_path) as (context, certificate):
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        replies = [HELLO, silence] if reused else [silence]
        with RawServer(*replies, tls=context) as server:
            provider = open_adapter("cactus_cloud", server.url)
            if reused:
                list(provider.stream(QUESTION, "try-0"))
            reader = Reader(lambda: provider.stream(QUESTION, "try-1"))
            while len(server.requests) < len(replies):
                assert not reader.ended_within(0.01)
            provider.abort("try-1")
            assert reader.ended_within(1.0)
            assert isinstance(reader.error, CloudCut)
            provider.close()


# -- time limits and redirects --------------------------------------------------------------------


def test_the_limits_hold_though_an_sdk_switches_time_outs_off() -> None:
    with RawServer([None]) as server:
        wire = Wire(config(server.url, first_token_s=0.2))
        with pytest.raises(httpx2.ReadTimeout):
            wire.client.get(server.url, timeout=None)
        wire.close()


def test_what_a_try_leaves_open_is_closed_at_its_end() -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nthe beginning"
    with RawServer([head, None]) as server:
        wire = Wire(config(server.url))
        with wire.attempt("try-1"):
            request = wire.client.build_request(
                "GET", server.url, headers={WIRE_ID_HEADER: "try-1"}
            )
            response = wire.client.send(request, stream=True)
            assert next(response.iter_raw()) == b"the beginning"
        assert server.departed.wait(30)
        wire.close()


def test_a_request_without_a_wire_id_is_sent_all_the_same() -> None:
    with RawServer(HELLO) as server:
        wire = Wire(config(server.url))
        assert wire.client.get(server.url).json() == {"text": "Hello."}
        wire.close()


# -- proxies --------------------------------------------------------------------------------------


def test_the_systems_proxy_is_used_for_other_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    with RawServer(HELLO) as proxy:
        monkeypatch.setattr(urllib.request, "getproxies", lambda: {"http": proxy.url})
        provider = open_adapter("cactus_cloud", "http://cloud.example/api/v1")
        assert text_of(list(provider.stream(QUESTION, "try-1"))) == "Hello."
        provider.close()
        assert proxy.requests[0].startswith(b"POST http://cloud.example/api/v1/text ")


def test_a_try_through_a_proxy_can_be_aborted(monkeypatch: pytest.MonkeyPatch) -> None:
    with RawServer([None]) as proxy:
        monkeypatch.setattr(urllib.request, "getproxies", lambda: {"http": proxy.url})
        provider = open_adapter("cactus_cloud", "http://cloud.example/api/v1")
        reader = Reader(lambda: provider.stream(QUESTION, "try-1"))
        while not proxy.requests:
            assert not reader.ended_within(0.01)
        provider.abort("try-1")
        assert reader.ended_within(1.0)
        provider.close()


def test_no_proxy_stands_between_us_and_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    with RawServer() as proxy, LoopbackCloud() as cloud:
        monkeypatch.setattr(urllib.request, "getproxies", lambda: {"all": proxy.url})
        provider = open_adapter("cactus_cloud", cloud.cactus_url)
        list(provider.stream(QUESTION, "try-1"))
        provider.close()
        assert proxy.connections == 0


def test_a_host_the_system_exempts_is_reached_without_the_proxy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with RawServer() as proxy:
        monkeypatch.setattr(urllib.request, "getproxies", lambda: {"http": proxy.url})
        monkeypatch.setattr(urllib.request, "proxy_bypass", lambda host: host == "exempt.invalid")
        provider = open_adapter("cactus_cloud", "http://exempt.invalid")
        with pytest.raises(CloudUnreachable):
            list(provider.stream(QUESTION, "try-1"))
        provider.close()
        assert proxy.connections == 0


def test_a_socks_proxy_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(urllib.request, "getproxies", lambda: {"all": "socks5://127.0.0.1:1"})
    with pytest.raises(SettingsError, match="socks5"):
        Wire(config("https://cloud.example"))


# -- keys and ids ---------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["sk-1\n", "sk-\x00", "schlüssel"])
def test_a_key_no_header_can_carry_is_refused_without_being_quoted(key: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Wire(config("https://cloud.example", key))
    assert key not in str(caught.value)


def test_a_wire_id_is_sent_as_it_is_where_a_header_can_carry_it() -> None:
    assert header_value("request-7/0.1") == "request-7/0.1"
    assert len(header_value("x" * 1000)) == 64
    assert header_value("ä") != header_value("ö")


def test_a_url_that_is_no_url_is_a_rejected_request() -> None:
    provider = open_adapter("cactus_cloud", "ftp://cloud.example")
    with pytest.raises(CloudRejected):
        list(provider.stream(QUESTION, "try-1"))
    provider.close()


class Pair:
    """A connection and the far end of it."""

    def __init__(self, tries: Tries) -> None:
        near, self.far = socket.socketpair()
        self.far.settimeout(5.0)
        self.near = near
        self.connection = Connection(_Plain(near), tries)

    def close(self) -> None:
        self.connection.close()
        self.far.close()


class _Plain(httpcore2.NetworkStream):
    """A minimal network stream."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    @override
    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        self._sock.settimeout(timeout)
        return self._sock.recv(max_bytes)

    @override
    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._sock.sendall(buffer)

    @override
    def close(self) -> None:
        self._sock.close()

    @override
    def get_extra_info(self, info: str) -> socket.socket | None:
        return self._sock if info == "socket" else None


@pytest.fixture
def tries() -> Tries:
    return Tries()


def test_a_write_makes_the_connection_known_to_its_try(tries: Tries) -> None:
    pair = Pair(tries)
    current = tries.begin("one")
    tries.thread.current = current
    pair.connection.write(b"request")
    assert current.connection is pair.connection
    tries.abort("one")
    assert pair.connection.read(10, 1.0) == b""
    pair.close()


def test_an_abort_while_connecting_stops_the_request_from_leaving(tries: Tries) -> None:
    pair = Pair(tries)
    tries.thread.current = tries.begin("one")
    tries.abort("one")  # no connection is known yet
    with pytest.raises(OSError):
        pair.connection.write(b"request")
    assert pair.far.recv(10) == b""
    pair.close()


def test_a_connection_let_go_is_out_of_reach(tries: Tries) -> None:
    pair = Pair(tries)
    current = tries.begin("one")
    tries.thread.current = current
    pair.connection.write(b"request")
    tries.let_go(current)
    tries.abort("one")
    pair.far.sendall(b"still open")
    assert pair.connection.read(10, 1.0) == b"still open"
    pair.close()


def test_aborts_of_unknown_tries_are_remembered_but_not_for_ever(tries: Tries) -> None:
    for number in range(1000):
        tries.abort(f"try-{number}")
    assert tries.begin("try-999").aborted
    assert not tries.begin("try-0").aborted
    assert len(tries.early) == 256


def test_shutting_down_a_closed_connection_is_no_error(tries: Tries) -> None:
    pair = Pair(tries)
    pair.close()
    pair.connection.shut_down()


def test_a_hurried_read_does_not_wait_its_full_time(tries: Tries) -> None:
    pair = Pair(tries)
    pair.connection.in_a_hurry = True
    with pytest.raises(TimeoutError):
        pair.connection.read(10, 3600.0)
    pair.close()


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
        ({"detail": [{"msg": "a"}]}, "a"),
        ({"message": "a", "error": "b"}, "a"),
        ("a", "a"),
        ({}, ""),
        (None, ""),
        (7, ""),
    ],
)
def test_the_words_are_found_wherever_they_stand(body: object, words: str) -> None:
    assert message_in(body) == words


@pytest.mark.parametrize("size", [1, 2, 3, 5, 1000])
def test_events_are_the_same_in_parts_of_any_size(size: int) -> None:
    sent = b"data: a\n\n: note\r\n\r\nevent: x\ndata: b\ndata:c\n\ndata: d\r\rdata: cut"
    parts = (sent[at : at + size] for at in range(0, len(sent), size))
    found = list(http.events(parts))
    assert [data for _, data in found] == ["a", "", "b\nc", "d"]
    assert b"".join(written for written, _ in found) + b"data: cut" == sent


def test_an_event_without_an_end_is_refused_before_it_takes_all_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http, "MOST_EVENT", 1000)
    taken = []

    def endless() -> Iterator[bytes]:
        yield b"data: first\n\ndata: "
        while True:
            taken.append(1)
            yield b"x" * 100

    events = http.events(endless())
    assert next(events)[1] == "first"
    with pytest.raises(httpx2.DecodingError, match="an event of more than"):
        next(events)
    assert len(taken) <= 11


@pytest.mark.parametrize("status", [200, 500])
def test_an_answer_that_unfolds_without_end_is_refused(
    monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setattr(http, "MOST_ANSWER", 10_000)
    packed = gzip.compress(b" " * 1_000_000)
    response = httpx2.Response(
        status, headers={"content-encoding": "gzip"}, stream=httpx2.ByteStream(packed)
    )
    with pytest.raises(httpx2.DecodingError, match="an answer of more than"):
        http.read_whole(response)
