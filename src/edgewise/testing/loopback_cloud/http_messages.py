"""Reads HTTP/1.1 requests from a socket's file and writes the bytes of responses."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO
from urllib.parse import unquote, urlsplit

LAST_FRAME = b"0\r\n\r\n"


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request as read. `path` is unquoted and has no query."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    content: bytes

    def json_object(self) -> dict[str, Any] | None:
        """The body as a JSON object; {} where there is none; None where it is something else."""
        if not self.content:
            return {}
        try:
            value = json.loads(self.content)
        except ValueError:
            return None
        return value if isinstance(value, dict) else None

    def form(self) -> dict[str, Any] | None:
        """The parts of a multipart form: text, or bytes where a part is a file. None: not one."""
        kind, _, options = self.headers.get("content-type", "").partition(";")
        found = re.search(r'boundary="?([^";]+)', options)
        if kind.strip().lower() != "multipart/form-data" or not found:
            return None
        fields: dict[str, Any] = {}
        for part in (b"\r\n" + self.content).split(b"\r\n--" + found[1].encode())[1:-1]:
            head, _, value = part.removeprefix(b"\r\n").partition(b"\r\n\r\n")
            name = re.search(rb'[; ]name="([^"]*)"', head)
            if name:
                fields[name[1].decode()] = (
                    value if b"filename=" in head else value.decode("utf-8", "replace")
                )
        return fields

    @property
    def wants_close(self) -> bool:
        return self.headers.get("connection", "").lower() == "close"


def read_request(stream: BinaryIO) -> HttpRequest | None:
    """None when the client has closed the connection or does not speak HTTP."""
    try:
        method, target, _version = stream.readline().decode("latin-1").split()
        fields = http.client.parse_headers(stream)
        headers = {name.lower(): value for name, value in fields.items()}
        content = _read_content(stream, headers)
    except (ValueError, OSError, http.client.HTTPException):
        return None
    parts = urlsplit(target)
    return HttpRequest(method, unquote(parts.path), parts.query, headers, content)


def _read_content(stream: BinaryIO, headers: Mapping[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() != "chunked":
        length = int(headers.get("content-length", "0"))
        content = stream.read(length)
        if len(content) < length:
            raise ValueError("the client left before its request was whole")
        return content
    content = b""
    while size := int(stream.readline().split(b";")[0], 16):
        content += stream.read(size)
        stream.readline()
    while stream.readline().strip():
        pass  # trailers carry nothing we need
    return content


def response_head(status: int, headers: Mapping[str, str]) -> bytes:
    reason = http.client.responses.get(status, "Unknown")
    lines = [f"HTTP/1.1 {status} {reason}", *(f"{name}: {text}" for name, text in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def frame(data: bytes) -> bytes:
    """One piece of a body in chunked transfer coding."""
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"
