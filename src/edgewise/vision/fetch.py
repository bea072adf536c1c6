"""Fetches a picture from a web address, without reaching into a private network."""

from __future__ import annotations

import contextlib
import http.client
import io
import ipaddress
import math
import queue
import socket
import ssl
import threading
import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import SplitResult, urljoin, urlsplit

from typing_extensions import override

from edgewise.errors import InvalidRequest
from edgewise.types.messages import Image, media_type_of
from edgewise.vision.pictures import MOST_BYTES, check_bytes_together

FETCH_S = 10.0  # for one picture, from the look-up of its name to its last byte
FETCH_ALL_S = 30.0  # for all pictures of a request
MOST_REDIRECTS = 4
_CHUNK = 1 << 16

# Ranges that are nobody's on the public internet, or that lead elsewhere: tunnels and translators
# carry another address inside, which may be a private one. `ipaddress` does not know all of them
# in every version of Python.
_NOT_PUBLIC = tuple(
    ipaddress.ip_network(each)
    for each in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16",
        "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16",
        "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3",
        "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",  # Teredo, 6to4, documentation
    )
)  # fmt: skip
_PUBLIC_V6 = ipaddress.ip_network("2000::/3")  # the rest is local, mapped, translated or unassigned


def fetch_pictures(images: Sequence[Image], *, private: bool = False) -> list[Image]:
    """The images with their bytes. Those that have them already are left alone."""
    until, size = time.monotonic() + FETCH_ALL_S, sum(len(image.data) for image in images)
    found = []
    for image in images:
        fetched = fetch_picture(image, private=private, until=until)
        size += len(fetched.data) - len(image.data)
        check_bytes_together(size)
        found.append(fetched)
    return found


def fetch_picture(image: Image, *, private: bool = False, until: float = math.inf) -> Image:
    """The image with its bytes. One that has them already is left alone.

    Every address of a host name is checked, and the connection goes to a checked address: another
    lookup could give another one. `private` allows addresses of private networks.
    """
    if image.data or not image.url:
        return image
    url, deadline = image.url, min(until, time.monotonic() + FETCH_S)
    try:
        for _ in range(MOST_REDIRECTS + 1):
            found = _get(url, private, deadline)
            if isinstance(found, bytes):
                return Image(found, media_type_of(found), name=image.name, url=image.url)
            url = urljoin(url, found)
    except (OSError, ValueError, http.client.HTTPException) as error:
        late = isinstance(error, TimeoutError)
        words = f"it took more than {FETCH_S:.0f} s" if late else error
        raise InvalidRequest(f"{image.name}: could not be fetched: {words}") from error
    raise InvalidRequest(f"{image.name}: it was passed on more than {MOST_REDIRECTS} times")


def _left(deadline: float) -> float:
    """Seconds; raises TimeoutError where there are none."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _get(url: str, private: bool, deadline: float) -> bytes | str:
    """The bytes at an address, or the address it redirects to."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
        raise ValueError("only http:// and https:// addresses without a user are fetched")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    address = _address(parts.hostname, port, private, deadline)
    kind = _Secure if parts.scheme == "https" else _Plain
    with contextlib.closing(kind(parts.hostname, port, address, deadline)) as connection:
        connection.request("GET", _target(parts), headers={"accept": "image/*"})
        with connection.getresponse() as response:
            if response.status in (301, 302, 303, 307, 308) and response.getheader("location"):
                return str(response.getheader("location"))
            if response.status != 200:
                raise ValueError(f"the server answered {response.status} {response.reason}")
            return _read(response)


def _read(response: http.client.HTTPResponse) -> bytes:
    data = bytearray()
    while chunk := response.read1(_CHUNK):
        data += chunk
        if len(data) > MOST_BYTES:
            raise ValueError(f"it has more than {MOST_BYTES / 1e6:.0f} MB")
    return bytes(data)


def _target(parts: SplitResult) -> str:
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _address(host: str, port: int, private: bool, deadline: float) -> str:
    addresses = _resolved(host, port, deadline)
    for address in addresses:
        if not private and not is_public(address):
            raise ValueError(
                f"{host} is in a private network (private_image_urls = true allows that, "
                "but never on a server)"
            )
    return addresses[0]


def _resolved(host: str, port: int, deadline: float) -> list[str]:
    """On a thread: the system's resolver takes its time, and cannot be called off."""
    found: queue.SimpleQueue[list[str] | Exception] = queue.SimpleQueue()

    def resolve() -> None:
        try:
            entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            found.put([str(entry[4][0]) for entry in entries])
        except (OSError, ValueError) as error:
            found.put(error)

    threading.Thread(target=resolve, name="edgewise-resolve", daemon=True).start()
    try:
        answer = found.get(timeout=_left(deadline))
    except queue.Empty:
        raise TimeoutError from None
    if isinstance(answer, Exception):
        raise answer
    return answer


def is_public(address: str) -> bool:
    """Whether an address is a single host's on the public internet."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if found.version == 6 and found not in _PUBLIC_V6:
        return found.ipv4_mapped is not None and is_public(str(found.ipv4_mapped))
    return found.is_global and not any(found in network for network in _NOT_PUBLIC)


class _Plain(http.client.HTTPConnection):
    """Connects to the checked address, whatever the name means by now. Every wait, for the
    connection, the head or a piece of the body, ends at the one deadline.
    """

    def __init__(self, host: str, port: int, address: str, deadline: float) -> None:
        super().__init__(host, port, timeout=_left(deadline))
        self._address, self._deadline = address, deadline
        self.response_class = self._response  # type: ignore[assignment]

    @override
    def connect(self) -> None:
        left = _left(self._deadline)
        self.sock = socket.create_connection((self._address, self.port), left)

    def _response(self, sock: socket.socket, **options: Any) -> http.client.HTTPResponse:
        response = http.client.HTTPResponse(sock, **options)
        # It holds the socket open when the connection is closed before the body is read.
        response.fp = io.BufferedReader(_Timed(sock, response.fp.detach(), self._deadline))
        return response


class _Secure(_Plain):
    @override
    def connect(self) -> None:
        super().connect()
        context = ssl.create_default_context()
        self.sock.settimeout(_left(self._deadline))
        self.sock = context.wrap_socket(self.sock, server_hostname=self.host)


class _Timed(io.RawIOBase):
    """What comes over a connection, until the deadline."""

    def __init__(self, sock: socket.socket, raw: io.RawIOBase, deadline: float) -> None:
        self._sock, self._raw, self._deadline = sock, raw, deadline

    @override
    def readable(self) -> bool:
        return True

    @override
    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(_left(self._deadline))
        return self._raw.readinto(buffer)

    @override
    def close(self) -> None:
        self._raw.close()
        super().close()
