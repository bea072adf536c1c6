from __future__ import annotations

import gc
import subprocess
import sys

from typing_extensions import override

from edgewise.parts import OpenStreams


class Stream:
    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


class Owner:
    pass


def test_what_is_open_is_closed_with_its_owner() -> None:
    owner, stream = Owner(), Stream()
    OpenStreams(owner).add(stream)
    del owner
    gc.collect()
    assert stream.closed == 1


def test_a_stream_running_elsewhere_does_not_keep_the_others_open() -> None:
    class Running(Stream):
        @override
        def close(self) -> None:
            raise ValueError("generator already executing")

    owner, running, stream = Owner(), Running(), Stream()
    streams = OpenStreams(owner)
    streams.add(running)
    streams.add(stream)
    streams.close()
    assert stream.closed == 1


def test_the_end_of_the_interpreter_closes_too() -> None:
    code = """
from edgewise.parts import OpenStreams
class Thing:
    def close(self): print("closed")
thing, owner = Thing(), Thing()
OpenStreams(owner).add(thing)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "closed\n"
