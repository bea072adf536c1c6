"""Bytes on a bare connection that no client of ours would send: HTTP that is broken, or cut."""

from __future__ import annotations

import gzip
import random
from dataclasses import dataclass

HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n"
GET = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n"
GOOD_BODY = b'{"model":"local","messages":[{"role":"user","content":"Hi"}],"max_tokens":2}'
FORM = (
    b"POST /v1/audio/transcriptions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5000\r\n"
    b"content-type: multipart/form-data; boundary=b\r\n\r\n--b\r\n"
)
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"

NOT_HTTP: dict[str, bytes] = {
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "version": b"GET / HTTP/9.9\r\n\r\n",
    "word": b"NONSENSE\r\n\r\n",
    "zeros": b"\0\0\0\0\r\n\r\n",
    "negative": HEAD + b"content-length: -5\r\n\r\n",
    "lengths": HEAD + b"content-length: 5\r\ncontent-length: 6\r\n\r\nhello",
    "chunk": CHUNKED + b"zz\r\n",
    "path": b"GET /\xff\xfe HTTP/1.1\r\nhost: localhost\r\n\r\n",
}


def _posted(body: bytes, *headers: bytes, length: int | None = None) -> bytes:
    head = b"".join(each + b"\r\n" for each in headers)
    size = len(body) if length is None else length
    return HEAD + b"content-length: %d\r\n" % size + head + b"\r\n" + body


_SMUGGLED = b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n"
BROKEN: dict[str, bytes] = {
    **NOT_HTTP,
    "both lengths": CHUNKED.replace(b"\r\n\r\n", b"\r\ncontent-length: 6\r\n\r\n")
    + b"0\r\n\r\n"
    + _SMUGGLED,
    "two encodings": HEAD
    + b"transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n\r\n0\r\n\r\n"
    + _SMUGGLED,
    "odd encoding": HEAD + b"transfer-encoding: xchunked\r\n\r\n" + _SMUGGLED,
    "space before colon": HEAD + b"content-length : 5\r\n\r\nhello" + _SMUGGLED,
    "folded header": HEAD + b"x-a: 1\r\n content-length: 5\r\n\r\n" + _SMUGGLED,
    "bare line feeds": _posted(GOOD_BODY).replace(b"\r\n", b"\n"),
    "zero in a header": GET + b"x-a: a\0b\r\n\r\n",
    "no host": b"GET /healthz HTTP/1.1\r\n\r\n",
    "two hosts": GET + b"host: evil.example\r\n\r\n",
    "another host": b"GET /metrics HTTP/1.1\r\nhost: evil.example\r\n\r\n",
    "another origin": _posted(GOOD_BODY, b"origin: https://evil.example"),
    "chunk too large": CHUNKED + b"fffffffffffffffff\r\nx",
    "chunk of nothing": CHUNKED + b"\r\n\r\n",
    "chunk extension": CHUNKED + b"1;" + b"a" * 70_000 + b"\r\nx\r\n0\r\n\r\n",
    "chunks of one byte": CHUNKED + b"1\r\n[\r\n" * 3_000 + b"0\r\n\r\n",
    "trailers": CHUNKED + b"2\r\n{}\r\n0\r\n" + b"x-t: y\r\n" * 200 + b"\r\n",
    "huge header": HEAD + b"x-big: " + b"y" * 200_000 + b"\r\n\r\n",
    "many headers": GET + b"".join(b"x-%d: y\r\n" % number for number in range(4_000)) + b"\r\n",
    "long path": b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "huge length": HEAD + b"content-length: 99999999999999999999\r\n\r\n",
    "length that is no number": HEAD + b"content-length: 5e3\r\n\r\nhello",
    "length of a body not sent": HEAD + b"content-length: 5\r\n\r\n",
    "http/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0" * 60,
    "h2c": GET
    + b"connection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: AA\r\n\r\n",
    "connect": b"CONNECT evil.example:443 HTTP/1.1\r\nhost: evil.example:443\r\n\r\n",
    "whole address": b"GET http://evil.example/healthz HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "star": b"OPTIONS * HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "trace": b"TRACE / HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "wrong method": b"DELETE /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "expects": _posted(GOOD_BODY, b"expect: 100-continue"),
    "expects the unexpected": _posted(GOOD_BODY, b"expect: a-miracle"),
    "many at once": (GET + b"\r\n") * 60,
    "a folder above": b"GET /dashboard/..%2f..%2f..%2fetc%2fpasswd HTTP/1.1\r\nhost: a\r\n\r\n",
    "a model above": b"GET /v1/models/../../etc/passwd%00 HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "a strange request": b"GET /edgewise/requests/%27%3b-- HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "a strange time": b"GET /edgewise/overview/9999999999999d HTTP/1.1\r\nhost: localhost\r\n\r\n",
    "packed": _posted(gzip.compress(b" " * 3_000_000 + GOOD_BODY), b"content-encoding: gzip"),
    "another kind": _posted(b"a=b&c=d", b"content-type: application/x-www-form-urlencoded"),
    "a mark in front": _posted(b"\xef\xbb\xbf" + GOOD_BODY),
    "two bytes a letter": _posted(GOOD_BODY.decode().encode("utf-16")),
    "more than it says": _posted(GOOD_BODY, length=len(GOOD_BODY) - 20),
    "deep": _posted(b"[" * 500_000),
    "a long number": _posted(b'{"model":"local","max_tokens":' + b"1" * 100_000 + b"}"),
    "a form that ends": FORM,
}
WAYS = ("read", "half close", "reset", "dribble", "leave")


@dataclass(frozen=True, slots=True)
class RawBytes:
    """What is sent on a bare connection, and how the sender then behaves (one of WAYS)."""

    name: str
    data: bytes
    way: str


def raw_bytes(rng: random.Random) -> RawBytes:
    """A case of `BROKEN`, or a good request that is mutated or cut."""
    way = rng.choices(WAYS, (8, 6, 2, 1, 2))[0]
    if rng.random() < 0.6:
        name = rng.choice(list(BROKEN))
        return RawBytes(name, BROKEN[name], way)
    data = bytearray(_posted(GOOD_BODY, b"content-type: application/json"))
    if rng.random() < 0.5:
        for _ in range(rng.randint(1, 8)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        return RawBytes("mutated", bytes(data), way)
    return RawBytes("cut", bytes(data[: rng.randrange(1, len(data))]), way)
