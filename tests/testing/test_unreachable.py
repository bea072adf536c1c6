"""Addresses that fail below HTTP, met with a real client."""

from __future__ import annotations

import socket
import sys
import time
from urllib.parse import urlsplit

import httpx2
import pytest

from edgewise.testing import black_hole, refused_url, unresolvable_url


def test_a_refused_url_refuses_at_once() -> None:
    with pytest.raises(httpx2.ConnectError) as caught:
        httpx2.get(refused_url(), timeout=30)
    assert not isinstance(caught.value, httpx2.TimeoutException)


def test_an_unresolvable_url_has_no_address() -> None:
    host = urlsplit(unresolvable_url()).hostname
    with pytest.raises(socket.gaierror):
        socket.getaddrinfo(host, 80)
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(unresolvable_url(), timeout=30)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux drops SYNs of a full queue")
def test_a_black_hole_lets_every_connect_hang() -> None:
    with black_hole() as url:
        address = (urlsplit(url).hostname, urlsplit(url).port)
        for _ in range(3):
            began = time.monotonic()
            with socket.socket() as sock:
                sock.settimeout(0.5)
                with pytest.raises(TimeoutError):
                    sock.connect(address)
            assert time.monotonic() - began >= 0.4
        timeouts = httpx2.Timeout(30, connect=0.3)
        with pytest.raises(httpx2.ConnectTimeout):
            httpx2.get(url, timeout=timeouts)


def test_a_black_hole_is_gone_after_use() -> None:
    with black_hole() as url:
        pass
    with pytest.raises(httpx2.ConnectError):
        httpx2.get(url, timeout=30)


def test_two_black_holes_are_two_places() -> None:
    with black_hole() as one, black_hole() as other:
        assert one != other
