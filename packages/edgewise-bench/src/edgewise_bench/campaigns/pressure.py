"""Hostile rounds that are no single request: many connections of one client, readers that hardly
read, children that are stopped, personal data in odd spellings, and odd arguments of the library.
"""

from __future__ import annotations

import contextlib
import functools
import os
import random
import signal
import socket
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from edgewise_bench.campaigns.arguments import ODD, foreign, scripted_engine, tries_of
from edgewise_bench.campaigns.raw_websocket import handshake
from edgewise_bench.campaigns.watch import CARD_MARK
from edgewise_bench.processes import family

STOPPED_S = (0.2, 1.0, 3.0)


def places(rng: random.Random) -> tuple[str, Callable[[str, int], None]]:
    """One key takes many places at once, and another one asks meanwhile."""
    count, key = rng.choice((8, 40, 90)), f"key-{rng.getrandbits(32):08x}"
    bearer = f"authorization: Bearer {key}"
    watch = f"GET /edgewise/events HTTP/1.1\r\nhost: localhost\r\n{bearer}\r\n\r\n".encode()
    hello = rng.choice((watch, handshake(bearer)))
    stay_s = rng.choice((0.1, 0.5))

    def take(host: str, port: int) -> None:
        with contextlib.ExitStack() as held, contextlib.suppress(OSError):
            for _ in range(count):
                held.enter_context(socket.create_connection((host, port), timeout=5)).sendall(hello)
            time.sleep(stay_s)

    return f"{count} places of one key", take


def slow_reader(rng: random.Random, body: bytes) -> tuple[str, Callable[[str, int], None]]:
    """A stream of which hardly anything is read, and the rest never."""
    count, step = rng.choice((1, 4, 12)), rng.choice((1, 64))
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )

    def read(host: str, port: int) -> None:
        with contextlib.ExitStack() as held, contextlib.suppress(OSError):
            readers = []
            for _ in range(count):
                reader = held.enter_context(socket.socket())
                reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
                reader.settimeout(5)
                reader.connect((host, port))
                reader.sendall(head.encode() + body)
                readers.append(reader)
            for _ in range(5):
                for reader in readers:
                    reader.recv(step)
                time.sleep(0.2)

    return f"{count} readers of {step} bytes", read


def stopped_child(rng: random.Random, pid: int) -> tuple[str, Callable[[], None]]:
    """A process that the server started stands still for a while."""
    seconds, which = rng.choice(STOPPED_S), rng.random()

    def stop() -> None:
        children = family(pid)[1:]
        if not children:
            return
        child = children[int(which * len(children))]
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGSTOP)
            try:
                time.sleep(seconds)
            finally:
                os.kill(child, signal.SIGCONT)

    return f"a child that stands still for {seconds:g} s", stop


def spelt(rng: random.Random) -> tuple[str, str]:
    """A card number that begins with the mark, in one of the spellings that are promised."""
    digits = [int(each) for each in CARD_MARK] + [rng.randrange(10) for _ in range(5)]
    total = sum(sum(divmod(2 * d, 10)) if i % 2 == 0 else d for i, d in enumerate(digits))
    card = "".join(map(str, [*digits, -total % 10]))
    fours = [card[start : start + 4] for start in range(0, 16, 4)]
    spellings = {
        "plain": card,
        "spaces": " ".join(fours),
        "dashes": "-".join(fours),
        "four spaces": "    ".join(fours),
        "a URL's": "+".join(fours),
        "invisible": "\u200b".join(fours),
        "glued": f"card{card}",
        "in an argument": '{"number": ' + card + "}",
    }
    name = rng.choice(list(spellings))
    return name, spellings[name]


@functools.cache
def _library() -> dict[str, Callable[[Any], Any]]:
    """Kept as long as the process: a scripted engine in a folder that nobody misses."""
    folder = Path(tempfile.mkdtemp(prefix="edgewise-bench-"))
    return tries_of(scripted_engine(folder).__enter__(), folder)


def odd_argument(rng: random.Random) -> tuple[str, Callable[[], str]]:
    """A call of the library with something odd; what is wrong with its end, or nothing."""
    name, odd = rng.choice(sorted(_library())), rng.choice(ODD)
    return name, lambda: foreign(name, _library()[name], odd)
