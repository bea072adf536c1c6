"""Picture files for tests that need a real one."""

from __future__ import annotations

import io
from typing import Any

from PIL import Image as Pillow
from PIL import ImageDraw, ImageFont


def as_file(pixels: Pillow.Image, form: str = "PNG", **options: Any) -> bytes:
    file = io.BytesIO()
    pixels.save(file, form, **options)
    return file.getvalue()


def one_pixel() -> bytes:
    return as_file(Pillow.new("RGB", (1, 1), "red"))


def page(*rows: str, size: int = 28, width: int = 620) -> Pillow.Image:
    """Black text on white, a row below the other."""
    pixels = Pillow.new("RGB", (width, int(2 * size * (len(rows) + 0.5))), "white")
    pen = ImageDraw.Draw(pixels)
    for number, row in enumerate(rows):
        place = (20, int(size * (0.5 + 2 * number)))
        pen.text(place, row, font=ImageFont.load_default(size), fill="black")
    return pixels
