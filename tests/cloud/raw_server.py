"""A server that sends scripted bytes, for replies no well-behaved cloud would send."""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

# Send these bytes; wait that long; None: say nothing more until the client has left.
Step = bytes | float | None


class RawServer:
    """Every request takes the next reply. The connection stays open afterwards."""

    def __init__(self, *replies: Sequence[Step], tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[bytes] = []
        self.connections = 0
        self.departed = threading.Event()
        self._replies = list(replies)
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads: list[threading.Thread] = []
        self._sockets: list[socket.socket] = []

    @property
    def url(self) -> str:
        scheme = "https" if self._tls else "http"
        return f"{scheme}://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for sock in [self._listener, *self._sockets]:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(sock, socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def _start(self, target: object, *args: object) -> None:
        assert callable(target)
        self._threads.append(threading.Thread(target=target, args=args, daemon=True))
        self._threads[-1].start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self._listener.accept()
                self.connections += 1
                self._sockets.append(sock)
                self._start(self._serve, sock)

    def _serve(self, sock: socket.socket) -> None:
        with sock, contextlib.suppress(OSError):
            secured = self._tls.wrap_socket(sock, server_side=True) if self._tls else sock
            with secured, secured.makefile("rb") as stream:
                self._sockets.append(secured)
                while request := _read(stream):
                    self.requests.append(request)
                    for step in self._replies.pop(0):
                        self._take(step, secured)

    def _take(self, step: Step, sock: socket.socket) -> None:
        if isinstance(step, bytes):
            sock.sendall(step)
        elif step is None:
            sock.recv(1)
            self.departed.set()
        else:
            threading.Event().wait(step)


def _read(stream: object) -> bytes:
    read_line, read = stream.readline, stream.read  # type: ignore[attr-defined]
    head = b""
    while (line := read_line()) not in (b"\r\n", b""):
        head += line
    lengths = [
        int(line.split(b":")[1])
        for line in head.splitlines()
        if line.lower().startswith(b"content-length:")
    ]
    return head + bytes(read(sum(lengths)))


def reply(
    body: bytes | str,
    *,
    kind: str = "text/event-stream",
    status: str = "200 OK",
    headers: Mapping[str, str] | None = None,
) -> list[Step]:
    """One whole HTTP response."""
    content = body.encode() if isinstance(body, str) else body
    fields = {"content-type": kind, "content-length": str(len(content)), **(headers or {})}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return [f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + content]


def events(*data: str) -> str:
    return "".join(f"data: {text}\n\n" for text in data)


@contextlib.contextmanager
def self_signed(folder: Path) -> Iterator[tuple[ssl.SSLContext, Path]]:
    """A server's TLS context for 127.0.0.1, and the certificate a client would have to trust."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "loopback")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    written = folder / "certificate.pem"
    written.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private = folder / "key.pem"
    private.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(written, private)
    yield context, written
