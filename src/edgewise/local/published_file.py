"""Finds a published file that lies in the store already: what is made of it needs no fetching."""

from __future__ import annotations

import contextlib
from pathlib import Path

from edgewise.local.checksum import Progress, sha256_of
from edgewise.local.manifest import read_manifest
from edgewise.local.model_row import ModelRow


def find_published(row: ModelRow, root: Path, progress: Progress) -> Path | None:
    """The file of another model that is the one `row` is made of, by its hash; not to be changed.

    A row that is not converted needs a file of its own. One that is damaged or has gone is passed
    over.
    """
    if row.requantise_to is None or row.sha256 is None or not root.is_dir():
        return None
    for folder in sorted(root.iterdir()):
        manifest = read_manifest(folder)
        if manifest is None or manifest.source_sha256 != row.sha256:
            continue
        for path in sorted(folder.glob("*.gguf")):  # as it was published, or kept beside
            with contextlib.suppress(OSError):
                if path.stat().st_size == row.bytes and sha256_of(path, progress) == row.sha256:
                    return path
    return None
