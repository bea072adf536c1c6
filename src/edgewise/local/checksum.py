"""Hash weight files, and refuse one that is not what it should be."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from edgewise.errors import StoreError

# Called with (bytes done, bytes in all, what is being done).
Progress = Callable[[int, int, str], None]

_CHUNK_BYTES = 1 << 20


def silent(done: int, total: int, label: str) -> None:
    """The progress callback of callers who show none."""


def sha256_of(path: Path, progress: Progress = silent) -> str:
    """Read the whole file; 100 MB take a fraction of a second."""
    total = path.stat().st_size
    digest = hashlib.sha256()
    chunk = memoryview(bytearray(_CHUNK_BYTES))
    done = 0
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(chunk):
            digest.update(chunk[:count])
            done += count
            progress(done, total, "checking")
    return digest.hexdigest()


def require_sha256(path: Path, expected: str, progress: Progress = silent) -> None:
    """Raise StoreError and delete the file unless its SHA-256 is the expected one.

    It is deleted because a resumed download would otherwise keep the wrong bytes for ever.
    """
    found = sha256_of(path, progress)
    if found != expected:
        path.unlink()
        raise StoreError(
            f"the downloaded weights are not the expected file: SHA-256 {found}, not {expected}. "
            "They were deleted; pull again to fetch them anew"
        )
