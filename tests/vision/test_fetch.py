"""Pictures from web addresses: fetched within limits, and never from a private network unasked."""

from __future__ import annotations

import contextlib
import http.server
import socket
import threading
import time
from collections.abc import Iterator

import pytest
from typing_extensions import override

from edgewise.errors import InvalidRequest
from edgewise.types.messages import Image
from edgewise.vision import fetch as module
from edgewise.vision.fetch import (
    fetch_picture,
    fetch_pictures,
    is_public,
)

PICTURE = b"\x89PNG\r\n\x1a\n and so on"


class Pages(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/picture":
            self.send_response(200)
            self.end_headers()
            self.wfile.write(PICTURE)
        elif self.path == "/large":
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"x" * 200_000)
        elif self.path in ("/moved", "/round"):
            self.send_response(302)
            self.send_header("location", "/picture" if self.path == "/moved" else "/round")
            self.end_headers()
        elif self.path == "/slow-head":
            self.wfile.write(b"HTTP/1.1 200 OK\r\n")
            self.dribble(b"x-a: b\r\n")
        elif self.path == "/again":
            self.dribble(b"HTTP/1.1 100 Continue\r\n\r\n")
        elif self.path == "/slow-body":
            self.send_response(200)
            self.end_headers()
            self.dribble(b"x")
        elif self.path == "/inside":
            self.send_response(302)
            self.send_header("location", "http://192.168.0.1/picture")
            self.end_headers()
        else:
            self.send_error(404)

    def dribble(self, piece: bytes) -> None:
        """For ever, or until whoever reads it has gone."""
        with contextlib.suppress(OSError):
            while True:
                self.wfile.write(piece)
                time.sleep(0.02)

    @override
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def site() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_picture_is_fetched_where_private_networks_are_allowed(site: str) -> None:
    image = fetch_picture(Image.from_url(f"{site}/picture"), private=True)
    assert image.data == PICTURE
    assert image.name == f"{site}/picture"


def test_a_redirect_is_followed(site: str) -> None:
    assert fetch_picture(Image.from_url(f"{site}/moved"), private=True).data == PICTURE


def test_an_image_with_bytes_is_left_alone() -> None:
    image = Image(b"x", url="http://127.0.0.1:9/never")
    assert fetch_picture(image) is image


@pytest.mark.parametrize(
    ("path", "words"),
    [("/missing", "404"), ("/round", "more than 4 times")],
)
def test_what_cannot_be_had_is_an_error_with_the_reason(site: str, path: str, words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        fetch_picture(Image.from_url(site + path), private=True)


def test_a_file_that_is_too_large_is_not_read_to_its_end(
    site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 100_000)
    with pytest.raises(InvalidRequest, match="MB"):
        fetch_picture(Image.from_url(f"{site}/large"), private=True)


@pytest.mark.parametrize("path", ["/slow-head", "/again", "/slow-body"])
def test_one_deadline_holds_for_the_head_and_the_body(
    site: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each piece comes in time, and there is no end of them."""
    monkeypatch.setattr(module, "FETCH_S", 0.3)
    with pytest.raises(InvalidRequest, match="it took more than"):
        fetch_picture(Image.from_url(site + path), private=True)


def test_a_name_that_nobody_resolves_in_time_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answer.wait(60) and [])
    monkeypatch.setattr(module, "FETCH_S", 0.1)
    with pytest.raises(InvalidRequest, match="it took more than"):
        fetch_picture(Image.from_url("http://slow.example/cat.png"))
    answer.set()


def test_all_pictures_of_a_request_share_a_time_and_a_size(
    site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    two = [Image.from_url(f"{site}/large"), Image(b"x" * 100), Image.from_url(f"{site}/large")]
    assert [len(each.data) for each in fetch_pictures(two, private=True)] == [200_000, 100, 200_000]
    monkeypatch.setattr("edgewise.vision.pictures.MOST_BYTES_TOGETHER", 400_000)
    with pytest.raises(InvalidRequest, match="most for all images"):
        fetch_pictures(two, private=True)
    monkeypatch.setattr(module, "FETCH_ALL_S", 0.0)
    with pytest.raises(InvalidRequest, match="it took more than"):
        fetch_pictures(two, private=True)


def test_a_private_address_is_refused_unless_allowed(site: str) -> None:
    with pytest.raises(InvalidRequest, match=r"private network.*private_image_urls"):
        fetch_picture(Image.from_url(f"{site}/picture"))


def test_a_redirect_into_a_private_network_is_refused_too(
    site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The first server counts as public here, so that only the second address can be at fault.
    monkeypatch.setattr(module, "is_public", lambda address: address == "127.0.0.1")
    with pytest.raises(InvalidRequest, match=r"192\.168\.0\.1 is in a private network"):
        fetch_picture(Image.from_url(f"{site}/inside"))


def test_one_private_address_among_several_is_enough_to_refuse(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entries = [(0, 0, 0, "", ("93.184.216.34", 80)), (0, 0, 0, "", ("10.0.0.1", 80))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: entries)
    with pytest.raises(InvalidRequest, match="private network"):
        fetch_picture(Image.from_url("http://two-faced.example/cat.png"))


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "ftp://example.org/a.png", "http://me:pw@example.org/", "cat.png"]
)
def test_only_plain_web_addresses_are_fetched(url: str) -> None:
    with pytest.raises(InvalidRequest, match="only http"):
        fetch_picture(Image.from_url(url), private=True)


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("93.184.216.34", True),
        ("127.0.0.1", False),
        ("10.1.2.3", False),
        ("169.254.169.254", False),
        ("100.64.0.1", False),
        ("::1", False),
        ("fe80::1%eth0", False),
        ("::ffff:10.0.0.1", False),
        ("::ffff:93.184.216.34", True),
        ("::ffff:100.64.0.1", False),
        ("::", False),
        ("::10.0.0.1", False),  # an IPv4 address in the old form
        ("::ffff:0:10.0.0.1", False),  # translated
        ("64:ff9b::a00:1", False),  # NAT64
        ("64:ff9b::5db8:d822", False),
        ("64:ff9b:1::1", False),
        ("100::1", False),
        ("2001::1", False),  # Teredo
        ("2001:0:4136:e378:8000:63bf:3fff:fdd2", False),
        ("2001:20::1", False),
        ("2001:db8::1", False),
        ("2002:0a00:0001::", False),  # 6to4
        ("2002:5db8:d822::1", False),
        ("3fff::1", False),
        ("5f00::1", False),
        ("fc00::1", False),
        ("fec0::1", False),
        ("ff02::1", False),
        ("0.1.2.3", False),
        ("192.0.0.8", False),
        ("192.0.2.1", False),
        ("192.88.99.1", False),
        ("198.18.0.1", False),
        ("198.51.100.1", False),
        ("203.0.113.1", False),
        ("224.0.0.1", False),
        ("240.0.0.1", False),
        ("255.255.255.255", False),
        ("2606:2800:220:1:248:1893:25c8:1946", True),
    ],
)
def test_which_addresses_are_public(address: str, public: bool) -> None:
    assert is_public(address) is public
