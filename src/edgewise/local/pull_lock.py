"""One pull of a model at a time, whichever process runs it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from edgewise.local.checksum import Progress


@contextlib.contextmanager
def pull_lock(path: Path, progress: Progress | None) -> Iterator[bool]:
    """Hold the lock file. Where another has it: wait, or without `progress` yield False at once."""
    # Loads asyncio, which `import edgewise` must not pay for.
    from filelock import FileLock, Timeout  # noqa: PLC0415

    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        if progress is None:
            yield False
            return
        progress(0, 0, "waiting for another process that is pulling it")
        lock.acquire()
    try:
        yield True
    finally:
        lock.release()
