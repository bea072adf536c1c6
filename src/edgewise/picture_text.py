"""The text in images for the index, where what reads it is installed."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from edgewise.errors import InvalidRequest
from edgewise.local.read_text import TextReader
from edgewise.search.documents import PictureReader
from edgewise.types.messages import Image
from edgewise.vision.pictures import open_picture, shrink
from edgewise.vision.reading_order import rows_of

if TYPE_CHECKING:
    from edgewise.local.backend import PictureArray

LONGEST_SIDE = 2000  # pixels; more tell the reader nothing, and cost it seconds


def picture_reader(threads: int) -> PictureReader | None:
    """None where this installation cannot read images: they are skipped, and the report says so."""
    if any(importlib.util.find_spec(package) is None for package in ("rapidocr", "PIL")):
        return None
    reader = TextReader(threads=threads)

    def read(path: Path) -> str:
        sight = reader.look(_pixels(path))
        return "\n".join(row.text for row in rows_of(sight.lines))

    return read


def _pixels(path: Path) -> PictureArray:
    import numpy  # noqa: PLC0415  # only pictures need it

    try:
        image = Image.from_path(path)
    except OSError as error:
        raise InvalidRequest(f"{path} cannot be read: {error.strerror}") from error
    picture = shrink(open_picture(image), LONGEST_SIDE)
    return numpy.asarray(picture.pixels, dtype=numpy.uint8)
