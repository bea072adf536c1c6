"""WebSocket frames by hand, good and bad, for `/v1/realtime`."""

from __future__ import annotations

import base64
import json
import random
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

TEXT, BINARY, CLOSE, PING = 1, 2, 8, 9
RATE = 24_000


def handshake(*headers: str, key: str = "AAAAAAAAAAAAAAAAAAAAAA==", version: str = "13") -> bytes:
    lines = [
        "GET /v1/realtime HTTP/1.1",
        "host: localhost",
        "connection: Upgrade",
        "upgrade: websocket",
        f"sec-websocket-key: {key}",
        f"sec-websocket-version: {version}",
        *headers,
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def frame(
    data: bytes, kind: int = TEXT, *, last: bool = True, masked: bool = True, flags: int = 0
) -> bytes:
    """One frame. The mask is of zeros: it must be there, and need not hide anything."""
    head = bytes([(0x80 if last else 0) | flags | kind])
    mark, size = (0x80 if masked else 0), len(data)
    if size < 126:
        head += bytes([mark | size])
    elif size < 65_536:
        head += bytes([mark | 126]) + struct.pack(">H", size)
    else:
        head += bytes([mark | 127]) + struct.pack(">Q", size)
    return head + (bytes(4) if masked else b"") + data


def event(kind: str, **fields: Any) -> bytes:
    return frame(json.dumps({"type": kind, **fields}).encode())


def sound(seconds: float, level: int = 0) -> bytes:
    """An event that appends this much of a steady tone."""
    wave = struct.pack("<4h", 0, level, 0, -level)
    data = wave * int(seconds * RATE / 4)
    return event("input_audio_buffer.append", audio=base64.b64encode(data).decode())


BROKEN: dict[str, Callable[[], bytes]] = {
    "unmasked": lambda: frame(b"{}", masked=False),
    "reserved bits": lambda: frame(b"{}", flags=0x70),
    "unknown kind": lambda: frame(b"{}", 5),
    "nothing to continue": lambda: frame(b"{}", 0),
    "a long ping": lambda: frame(b"x" * 4_000, PING),
    "a cut ping": lambda: frame(b"x", PING, last=False),
    "pings": lambda: frame(b"x", PING) * 2_000,
    "no text": lambda: frame(b"\xff\xfe\xfd"),
    "half a letter": lambda: frame('"é"'.encode()[:2]),
    "an endless message": lambda: b"\x81\xff" + struct.pack(">Q", 2**62) + bytes(4) + b"x" * 99,
    "a length below zero": lambda: b"\x81\xff" + struct.pack(">Q", 2**64 - 1) + bytes(4),
    "fragments": lambda: frame(b"[", last=False) + frame(b"[", 0, last=False) * 4_000,
    "a short goodbye": lambda: frame(b"\x03", CLOSE),
    "a strange goodbye": lambda: frame(struct.pack(">H", 5) + b"\xff", CLOSE),
    "http again": lambda: b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "zeros": lambda: bytes(5_000),
}
ODD: dict[str, Callable[[], bytes]] = {
    "no JSON": lambda: frame(b"hello"),
    "a list": lambda: frame(b"[]"),
    "binary": lambda: frame(bytes(range(256)), BINARY),
    "no kind": lambda: frame(b"{}"),
    "a kind that is a list": lambda: frame(b'{"type": [[]]}'),
    "an unknown kind": lambda: event("response.create"),
    "sound that is a number": lambda: event("input_audio_buffer.append", audio=7),
    "sound that is no base64": lambda: event("input_audio_buffer.append", audio="é!" * 99),
    "half a sample": lambda: event("input_audio_buffer.append", audio="AAAA"[:4]),
    "nothing to commit": lambda: event("input_audio_buffer.commit"),
    "many commits": lambda: event("input_audio_buffer.commit") * 200,
    "nothing to clear": lambda: event("input_audio_buffer.clear") * 200,
    "a rate of nothing": lambda: event(
        "session.update", session={"audio": {"input": {"format": {"rate": 0}}}}
    ),
    "settings that are text": lambda: event("session.update", session="x"),
    "a long hint": lambda: event(
        "session.update", session={"input_audio_transcription": {"prompt": "word " * 200_000}}
    ),
    "a strange policy": lambda: event("session.update", session={"edgewise": {"policy": "x"}}),
    "many settings": lambda: event("session.update", session={}) * 300,
    "deep": lambda: frame(b"[" * 300_000),
    "a large list": lambda: frame(b'{"type":"x","y":[' + b"[]," * 3_000_000 + b"[]]}"),
    "large sound": lambda: sound(200),
    "large sounds": lambda: sound(110) * 3,
    "larger than it may be": lambda: frame(b'"' + b"x" * 17_000_000 + b'"'),
    "silence": lambda: sound(4),
    "a tone": lambda: sound(2, 9_000) + event("input_audio_buffer.commit"),
}


@dataclass(frozen=True, slots=True)
class Talk:
    """A handshake, what follows it, and how many seconds the sender stays."""

    name: str
    hello: bytes
    said: bytes
    stay_s: float


def talk(rng: random.Random, *headers: str) -> Talk:
    """A session that breaks the protocol, or keeps it and says odd things."""
    stay_s = rng.choice([0.0, 0.05, 0.3, 1.5])
    if rng.random() < 0.08:
        key, version = rng.choice([("x", "13"), ("", "13"), ("AAAAAAAAAAAAAAAAAAAAAA==", "99")])
        return Talk("bad handshake", handshake(*headers, key=key, version=version), b"", stay_s)
    table, count = (BROKEN, 1) if rng.random() < 0.4 else (ODD, rng.randint(1, 3))
    names = rng.choices(list(table), k=count)
    said = b"".join(table[name]() for name in names)
    if rng.random() < 0.1:
        said = said[: rng.randrange(1, len(said) + 1)]
    return Talk(", ".join(names), handshake(*headers), said, stay_s)
