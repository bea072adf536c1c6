"""What a loaded model is to a forked process: memory without its threads.

Work that waits for those threads would hang, and so would freeing them. So after a fork the child
forgets what its parent had opened, and opens its own when it is first needed.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Forgetful(Protocol):
    """Has opened something that belongs to its process."""

    def _forget(self) -> None:
        """In a forked child: drop it without waiting for any thread or lock."""
        ...


_known: weakref.WeakSet[Forgetful] = weakref.WeakSet()


def forget_at_fork(owner: Forgetful) -> None:
    _known.add(owner)


def abandon(*inherited: object) -> None:
    """Never free these: their destructors wait for threads that exist in the parent only."""
    import ctypes  # noqa: PLC0415  # only after a fork

    for one in inherited:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(one))


def _in_child() -> None:
    for owner in list(_known):
        owner._forget()


if hasattr(os, "register_at_fork"):  # not on Windows, which cannot fork
    os.register_at_fork(after_in_child=_in_child)
