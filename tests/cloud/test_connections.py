"""The moments at which an abort may come, one by one."""

from __future__ import annotations

import socket

import httpcore2
import pytest
from typing_extensions import override

from edgewise.cloud.http import Connection, Tries


class Pair:
    """A connection and the far end of it."""

    def __init__(self, tries: Tries) -> None:
        near, self.far = socket.socketpair()
        self.far.settimeout(5.0)
        self.near = near
        self.connection = Connection(_Plain(near), tries)

    def close(self) -> None:
        self.connection.close()
        self.far.close()


class _Plain(httpcore2.NetworkStream):
    """The least a network stream can be."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    @override
    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        self._sock.settimeout(timeout)
        return self._sock.recv(max_bytes)

    @override
    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._sock.sendall(buffer)

    @override
    def close(self) -> None:
        self._sock.close()

    @override
    def get_extra_info(self, info: str) -> socket.socket | None:
        return self._sock if info == "socket" else None


@pytest.fixture
def tries() -> Tries:
    return Tries()


def test_a_write_makes_the_connection_known_to_its_try(tries: Tries) -> None:
    pair = Pair(tries)
    current = tries.begin("one")
    tries.thread.current = current
    pair.connection.write(b"request")
    assert current.connection is pair.connection
    tries.abort("one")
    assert pair.connection.read(10, 1.0) == b""
    pair.close()


def test_an_abort_while_connecting_stops_the_request_from_leaving(tries: Tries) -> None:
    pair = Pair(tries)
    tries.thread.current = tries.begin("one")
    tries.abort("one")  # no connection is known yet
    with pytest.raises(OSError):
        pair.connection.write(b"request")
    assert pair.far.recv(10) == b""
    pair.close()


def test_a_connection_let_go_is_out_of_reach(tries: Tries) -> None:
    pair = Pair(tries)
    current = tries.begin("one")
    tries.thread.current = current
    pair.connection.write(b"request")
    tries.let_go(current)
    tries.abort("one")
    pair.far.sendall(b"still open")
    assert pair.connection.read(10, 1.0) == b"still open"
    pair.close()


def test_aborts_of_unknown_tries_are_remembered_but_not_for_ever(tries: Tries) -> None:
    for number in range(1000):
        tries.abort(f"try-{number}")
    assert tries.begin("try-999").aborted
    assert not tries.begin("try-0").aborted
    assert len(tries.early) == 256


def test_shutting_down_a_closed_connection_is_no_error(tries: Tries) -> None:
    pair = Pair(tries)
    pair.close()
    pair.connection.shut_down()


def test_a_hurried_read_does_not_wait_its_full_time(tries: Tries) -> None:
    pair = Pair(tries)
    pair.connection.in_a_hurry = True
    with pytest.raises(TimeoutError):
        pair.connection.read(10, 3600.0)
    pair.close()
