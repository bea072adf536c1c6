"""Hashes weight files, refuses a wrong one, and records what was verified."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from edgewise.errors import StoreError

# Called with (bytes done, bytes in all, what is being done).
Progress = Callable[[int, int, str], None]
_CHUNK_BYTES = 1 << 20
FILE_NAME = "manifest.json"
_FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """`sha256`, `bytes` and `modified_ns` are those of the model file in the same folder.

    source          its origin: packages, or repository and commit; what was merged in, and when
    source_sha256   of the published file, which differs after re-quantisation
    vouched_by      who declared that hash: "edgewise" (its row) or "hub"
    converted_with  the release of gguf that re-quantised it, or of the engine that it was
                    converted for; empty if it was not
    beside          the other files of the folder, each with its SHA-256
    """

    name: str
    file: str
    quantisation: str
    bytes: int
    modified_ns: int
    sha256: str
    source_sha256: str
    vouched_by: str
    converted_with: str = ""
    source: Mapping[str, Any] = field(default_factory=dict)
    beside: Mapping[str, str] = field(default_factory=dict)

    def missing(self, folder: Path) -> str:
        """The first missing file beside the weights; empty if none is missing."""
        return next((name for name in self.beside if not (folder / name).is_file()), "")

    def seen(self, file: Path) -> Manifest:
        """The same with the file's current size and time."""
        status = file.stat()
        return replace(self, bytes=status.st_size, modified_ns=status.st_mtime_ns)


def silent(done: int, total: int, label: str) -> None:
    """The default progress callback."""


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

    It is deleted because a resumed download would keep the wrong bytes for ever.
    """
    found = sha256_of(path, progress)
    if found != expected:
        path.unlink()
        raise StoreError(
            f"the downloaded weights are not the expected file: SHA-256 {found}, not {expected}. "
            "They were deleted; pull again to fetch them anew"
        )


def read_manifest(folder: Path) -> Manifest | None:
    """None if it is missing or unreadable: then nothing vouches for the file."""
    try:
        values = json.loads((folder / FILE_NAME).read_text(encoding="utf-8"))
        if values.pop("format") != _FORMAT:
            return None
        manifest = Manifest(**values)
        # Only a name belongs here; a path would lead out of the folder.
        names = (manifest.file, *manifest.beside)
        return manifest if all(Path(name).name == name for name in names) else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Replace the manifest in one step: a reader sees the old one or the new one."""
    text = json.dumps({"format": _FORMAT, **asdict(manifest)}, indent=2, sort_keys=True)
    temporary = folder / f"{FILE_NAME}.{os.getpid()}.tmp"
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, folder / FILE_NAME)


def flush(path: Path) -> None:
    """Write the bytes to disk before the name: a power cut must not leave a name without bytes."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())
