"""Fetches a picture from a web address, without reaching into a private network."""

from __future__ import annotations

import http.client
import ipaddress
import socket
import ssl
import time
from urllib.parse import SplitResult, urljoin, urlsplit

from typing_extensions import override

from edgewise.errors import InvalidRequest
from edgewise.types.messages import Image, media_type_of
from edgewise.vision.pictures import MOST_BYTES

FETCH_S = 10.0  # for the whole fetch
MOST_REDIRECTS = 4
_CHUNK = 1 << 16


def fetch_picture(image: Image, *, private: bool = False) -> Image:
    """The image with its bytes. One that has them already is left alone.

    Every address of a host name is checked, and the connection goes to a checked address: another
    lookup could give another one. `private` allows addresses of private networks.
    """
    if image.data or not image.url:
        return image
    url, deadline = image.url, time.monotonic() + FETCH_S
    try:
        for _ in range(MOST_REDIRECTS + 1):
            found = _get(url, private, deadline)
            if isinstance(found, bytes):
                return Image(found, media_type_of(found), name=image.name, url=image.url)
            url = urljoin(url, found)
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise InvalidRequest(f"{image.name}: could not be fetched: {error}") from error
    raise InvalidRequest(f"{image.name}: it was passed on more than {MOST_REDIRECTS} times")


def _get(url: str, private: bool, deadline: float) -> bytes | str:
    """The bytes at an address, or the address it redirects to."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
        raise ValueError("only http:// and https:// addresses without a user are fetched")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    address = _address(parts.hostname, port, private)
    kind = _Secure if parts.scheme == "https" else _Plain
    connection = kind(parts.hostname, port, address, max(0.1, deadline - time.monotonic()))
    try:
        connection.request("GET", _target(parts), headers={"accept": "image/*"})
        response = connection.getresponse()
        if response.status in (301, 302, 303, 307, 308) and response.getheader("location"):
            return str(response.getheader("location"))
        if response.status != 200:
            raise ValueError(f"the server answered {response.status} {response.reason}")
        return _read(response, deadline)
    finally:
        connection.close()


def _read(response: http.client.HTTPResponse, deadline: float) -> bytes:
    data = bytearray()
    while chunk := response.read1(_CHUNK):
        data += chunk
        if len(data) > MOST_BYTES:
            raise ValueError(f"it has more than {MOST_BYTES / 1e6:.0f} MB")
        if time.monotonic() > deadline:
            raise TimeoutError(f"it took more than {FETCH_S:.0f} s")
    return bytes(data)


def _target(parts: SplitResult) -> str:
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _address(host: str, port: int, private: bool) -> str:
    entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = [str(entry[4][0]) for entry in entries]
    for address in addresses:
        if not private and not is_public(address):
            raise ValueError(
                f"{host} is in a private network (settings: private_image_urls = true allows that)"
            )
    return addresses[0]


def is_public(address: str) -> bool:
    found = ipaddress.ip_address(address.partition("%")[0])
    inner = getattr(found, "ipv4_mapped", None) or getattr(found, "sixtofour", None)
    return found.is_global and not found.is_multicast and (inner is None or inner.is_global)


class _Plain(http.client.HTTPConnection):
    """Connects to the checked address, whatever the name means by now."""

    def __init__(self, host: str, port: int, address: str, timeout: float) -> None:
        super().__init__(host, port, timeout=timeout)
        self._address = address

    @override
    def connect(self) -> None:
        self.sock = socket.create_connection((self._address, self.port), self.timeout)


class _Secure(_Plain):
    @override
    def connect(self) -> None:
        super().connect()
        context = ssl.create_default_context()
        self.sock = context.wrap_socket(self.sock, server_hostname=self.host)
