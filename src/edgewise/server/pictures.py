"""Images in requests: data URLs, and, where allowed, addresses outside the private networks."""

from __future__ import annotations

import base64
import binascii
import http.client
import ipaddress
import socket
import ssl
from urllib.parse import urlsplit

from typing_extensions import override

from edgewise.server.fields import BadField
from edgewise.types.messages import Image

MOST_BYTES = 10_000_000
FETCH_S = 10.0
KINDS = ("image/png", "image/jpeg", "image/gif", "image/webp")


def read_picture(url: str, path: str, *, remote: bool) -> Image:
    """The picture a URL holds or points at. Raises BadField."""
    if url.startswith("data:"):
        return _from_data_url(url, path)
    if not remote:
        raise BadField(path, "remote images are off on this server; send a data: URL")
    return _fetched(url, path)


def decoded(data: str, media_type: str, path: str) -> Image:
    """A picture from base64."""
    if media_type not in KINDS:
        raise BadField(path, f"expected one of {', '.join(KINDS)}, got {media_type[:40]!r}")
    try:
        return Image(base64.b64decode(data, validate=True), media_type)
    except (binascii.Error, ValueError) as error:
        raise BadField(path, "not base64") from error


def _from_data_url(url: str, path: str) -> Image:
    head, comma, data = url.removeprefix("data:").partition(",")
    media_type, _, encoding = head.partition(";")
    if not comma or encoding != "base64":
        raise BadField(path, "expected data:image/…;base64,…")
    return decoded(data, media_type, path)


def _fetched(url: str, path: str) -> Image:
    """No redirects, no proxy, and only an address that was looked at before it is used."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
        raise BadField(path, "expected a data:, http: or https: URL")
    try:
        port = parts.port or (443 if parts.scheme == "https" else 80)
        address = public_address(parts.hostname, port)
        connection = (_Tls if parts.scheme == "https" else _Plain)(parts.hostname, port, address)
        try:
            target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            connection.request("GET", target, headers={"accept": ", ".join(KINDS)})
            response = connection.getresponse()
            data = response.read(MOST_BYTES + 1)
        finally:
            connection.close()
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise BadField(path, f"the image could not be fetched ({type(error).__name__})") from error
    media_type = (response.getheader("content-type") or "").partition(";")[0].strip().lower()
    if response.status != 200 or media_type not in KINDS or len(data) > MOST_BYTES:
        raise BadField(path, f"no usable image there (status {response.status})")
    return Image(data, media_type)


def public_address(host: str, port: int) -> str:
    """An address of the host; ValueError where any of them is private: then it is a trick."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = [str(entry[4][0]) for entry in found]
    for address in addresses:
        if not ipaddress.ip_address(address.partition("%")[0]).is_global:
            raise ValueError("not a public address")
    return addresses[0]


class _Plain(http.client.HTTPConnection):
    def __init__(self, host: str, port: int, address: str) -> None:
        super().__init__(host, port, timeout=FETCH_S)
        self._address = address

    @override
    def connect(self) -> None:
        # By address: the name could mean another one by now.
        self.sock = socket.create_connection((self._address, self.port), self.timeout)


class _Tls(_Plain):
    @override
    def connect(self) -> None:
        super().connect()
        context = ssl.create_default_context()
        self.sock = context.wrap_socket(self.sock, server_hostname=self.host)
