"""Addresses that fail below HTTP: nobody listens, nobody accepts, no such name."""

from __future__ import annotations

import contextlib
import socket
import sys
from collections.abc import Iterator

# Long enough for a loopback connection, if it is going to succeed.
_SETTLED_S = 0.1
_MOST_FILLERS = 16


def refused_url() -> str:
    """A URL where connecting is refused at once."""
    # Port 1 belongs to a service that nobody runs any more, and the system never assigns it. A free
    # port that was found and released could be taken again.
    return "http://127.0.0.1:1"


def unresolvable_url() -> str:
    """A URL whose host has no address. RFC 2606 keeps `.invalid` free for this."""
    return "http://edgewise-no-such-host.invalid"


@contextlib.contextmanager
def black_hole() -> Iterator[str]:
    """A URL where connecting hangs, as behind a firewall that drops packets.

    Linux drops SYNs for a listener whose queue is full, so the queue is filled. Elsewhere the
    kernel completes the connection but nothing is ever answered: a client then meets its read
    time-out instead of its connect time-out.
    """
    with contextlib.ExitStack() as held:
        listener = held.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        address = listener.getsockname()
        listener.listen(0 if sys.platform == "linux" else 128)
        if sys.platform == "linux":
            _fill(address, held)
        yield f"http://127.0.0.1:{address[1]}"


def _fill(address: tuple[str, int], held: contextlib.ExitStack) -> None:
    """Connect until one attempt hangs."""
    for _ in range(_MOST_FILLERS):
        filler = held.enter_context(socket.socket())
        filler.settimeout(_SETTLED_S)
        try:
            filler.connect(address)
        except TimeoutError:
            return
    raise OSError(f"this kernel still accepts after {_MOST_FILLERS} unaccepted connections")
