"""Processes that write one file take turns: first come, first served.

SQLite lets whoever waits sleep and look again, longer each time. A process that writes without a
pause then takes the lock again and again while the others sleep.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: without turns, as SQLite does it
    fcntl = None  # type: ignore[assignment]


class Turns:
    """A queue in front of a file: the kernel's, of an advisory lock on the file's folder.

    Whoever is first in the queue waits for the file itself and lets the next one move up when it
    has it. So nobody who comes later gets it first. A process that dies leaves the queue.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._descriptor = -1

    @contextmanager
    def first(self, wait_s: float) -> Iterator[None]:
        """Wait for the turn, at most so long: one who stopped in the queue must not stop all."""
        if fcntl is None:
            yield
            return
        if self._descriptor < 0:
            self._descriptor = os.open(self._folder, os.O_RDONLY | os.O_CLOEXEC)
        held = _lock(self._descriptor, wait_s)
        try:
            yield
        finally:
            if held:
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            else:
                self.close()  # a thread still waits on it: the next turn has a place of its own

    def close(self) -> None:
        """In a forked child too: the descriptor is the child's, the lock the parent's."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def _lock(descriptor: int, wait_s: float) -> bool:
    """Whether the lock is held. A kernel's wait has no end, so another thread does the waiting."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except OSError:
        pass
    waiting = _Waiting(os.dup(descriptor))
    threading.Thread(target=waiting.wait, name="edgewise-turn", daemon=True).start()
    return waiting.got(wait_s)


class _Waiting:
    """One wait in the kernel's queue, with a way to leave it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor  # the same open file, so the same lock
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._held = self._left = False

    def wait(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
            with self._lock:
                self._held = not self._left
            if self._left:
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        except OSError:
            pass  # a file system without locks: no turns
        finally:
            os.close(self._descriptor)
            self._done.set()

    def got(self, wait_s: float) -> bool:
        self._done.wait(wait_s)
        with self._lock:
            self._left = not self._held
            return self._held
