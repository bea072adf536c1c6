"""The HTTP client under the adapters: TLS, proxies, time limits, connections."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

import httpx2
import pytest

from edgewise.cloud.http import WIRE_ID_HEADER, Wire, header_value
from edgewise.cloud.provider import ProviderConfig, TimeLimits
from edgewise.errors import CloudCut, CloudRejected, CloudUnreachable, SettingsError
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
        assert server.departed.wait(5.0)
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
