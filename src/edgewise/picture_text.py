"""The text in images for the index, where what reads it is installed."""

from __future__ import annotations

from edgewise.engine import Engine
from edgewise.search.documents import PictureReader


def picture_reader(engine: Engine) -> PictureReader | None:
    """None where this installation cannot read images: they are skipped, and the report says so."""
    return None
