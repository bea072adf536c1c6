"""Every kind of picture file, good and bad: a correct conversion or a clear error."""

from __future__ import annotations

import importlib
import io
import struct
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from PIL import Image as Pillow
from PIL import PngImagePlugin

from edgewise.errors import ExtraMissing, InvalidRequest
from edgewise.types.messages import Image
from edgewise.vision import pictures
from edgewise.vision.pictures import (
    MOST_BYTES,
    encode,
    open_picture,
    shrink,
)

RED = (220, 30, 40)


def written(pixels: Pillow.Image, form: str, **options: Any) -> bytes:
    file = io.BytesIO()
    pixels.save(file, form, **options)
    return file.getvalue()


def plain(mode: str = "RGB", size: tuple[int, int] = (40, 30), colour: Any = RED) -> Pillow.Image:
    return Pillow.new(mode, size, colour)


def png_header(width: int, height: int) -> bytes:
    """A PNG that promises pixels it does not have."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = zlib.compress(b"\0" * 1000)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def opened(data: bytes, name: str = "") -> pictures.Picture:
    return open_picture(Image.from_bytes(data, name))


def near(found: Any, wanted: tuple[int, int, int]) -> bool:
    return all(abs(one - other) <= 12 for one, other in zip(found, wanted, strict=True))


@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP", "BMP", "TIFF", "GIF"])
def test_the_usual_formats_are_read(form: str) -> None:
    picture = opened(written(plain(), form))
    assert picture.size == (40, 30)
    assert picture.pixels.mode == "RGB"
    assert near(picture.pixels.getpixel((20, 15)), RED)


def test_the_content_decides_and_not_the_extension() -> None:
    image = Image.from_bytes(written(plain(), "JPEG"), "photo.png")
    assert image.media_type == "image/jpeg"
    assert near(open_picture(image).pixels.getpixel((5, 5)), RED)


def test_cmyk_becomes_rgb() -> None:
    data = written(plain("CMYK", colour=(0, 255, 255, 0)), "JPEG")
    assert near(opened(data).pixels.getpixel((5, 5)), (255, 0, 0))


def test_what_is_transparent_becomes_white() -> None:
    pixels = plain("RGBA", colour=(0, 0, 0, 0))
    pixels.putpixel((3, 3), (10, 20, 30, 255))
    found = opened(written(pixels, "PNG")).pixels
    assert found.getpixel((0, 0)) == (255, 255, 255)
    assert found.getpixel((3, 3)) == (10, 20, 30)


def test_sixteen_bits_are_scaled_and_not_cut_off() -> None:
    pixels = Pillow.new("I;16", (10, 10), 1000)
    pixels.putpixel((0, 0), 60000)
    found = opened(written(pixels, "PNG")).pixels
    assert found.getpixel((0, 0)) == (255, 255, 255)
    assert found.getpixel((5, 5)) == (0, 0, 0)


def test_a_photo_is_turned_as_the_camera_says() -> None:
    pixels = plain(size=(40, 20), colour=(0, 0, 0))
    pixels.paste(RED, (0, 0, 20, 20))  # the left half
    exif = Pillow.Exif()
    exif[0x0112] = 6  # turn clockwise by a quarter
    picture = opened(written(pixels, "JPEG", exif=exif, quality=95))
    assert picture.size == (20, 40)
    assert near(picture.pixels.getpixel((10, 5)), RED)


def test_one_pixel_is_a_picture() -> None:
    assert opened(written(plain(size=(1, 1)), "PNG")).size == (1, 1)


def test_a_side_of_twenty_thousand_pixels_is_read_where_the_area_is_not_too_much() -> None:
    picture = opened(written(plain("L", (20_000, 40), 200), "PNG"))
    assert picture.size == (20_000, 40)
    assert shrink(picture, 1568).size == (1568, 3)


def test_the_first_frame_of_an_animation_is_used_and_noted() -> None:
    frames = [plain(colour=colour) for colour in (RED, (0, 0, 255), (0, 255, 0))]
    data = written(frames[0], "GIF", save_all=True, append_images=frames[1:])
    picture = opened(data, "cat.gif")
    assert picture.notes == ("image 1 (cat.gif): only the first of 3 frames was looked at",)
    assert near(picture.pixels.getpixel((5, 5)), RED)


JPEG = written(Pillow.effect_noise((200, 200), 80).convert("RGB"), "JPEG")
BAD: dict[str, tuple[bytes, str]] = {
    "zero bytes": (b"", "is empty"),
    "no picture": (b"just some words, really", "not a picture"),
    "truncated": (JPEG[: len(JPEG) // 2], "damaged or cut off"),
    "cut after the header": (written(plain(), "PNG")[:30], "damaged|not a picture"),
    "svg": (b'<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"/>', "SVG"),
    "heic": (b"\0\0\0\x18ftypheic" + b"\0" * 40, "HEIC"),
    "20,000 by 20,000": (png_header(20_000, 20_000), "million"),
    "bomb": (png_header(60_000, 60_000), "million"),
    "too many bytes": (b"\xff\xd8\xff" + b"\0" * MOST_BYTES, "MB are the most"),
    "pixels that are missing": (png_header(3000, 3000), "damaged or cut off"),
    "no width": (png_header(0, 5), "damaged|not a picture"),
}


@pytest.mark.parametrize(("data", "words"), BAD.values(), ids=BAD)
def test_a_bad_picture_is_refused_with_the_reason(data: bytes, words: str) -> None:
    with pytest.raises(InvalidRequest, match=words) as caught:
        opened(data, "bad.png")
    assert "image 1 (bad.png)" in str(caught.value)


def test_a_text_chunk_that_unpacks_without_end_is_refused() -> None:
    info = PngImagePlugin.PngInfo()
    info.add_text("bomb", "A" * 20_000_000, zip=True)
    data = written(plain(), "PNG", pnginfo=info)
    assert len(data) < 100_000
    with pytest.raises(InvalidRequest, match="image 1"):
        opened(data)


@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP", "TIFF", "GIF", "BMP"])
def test_damage_anywhere_in_a_file_never_gets_past_the_refusal(form: str) -> None:
    data = written(Pillow.effect_noise((64, 64), 80).convert("RGB"), form)
    for place in range(0, len(data), max(1, len(data) // 60)):
        broken = (
            data[:place] + bytes(255 - byte for byte in data[place : place + 4]) + data[place + 4 :]
        )
        try:
            assert opened(broken).pixels.mode == "RGB"
        except InvalidRequest:
            continue


@pytest.mark.parametrize(
    ("lossless", "kind"), [(True, "image/png"), (False, "image/jpeg")], ids=["png", "jpeg"]
)
def test_a_picture_is_written_in_a_format_of_its_kind(lossless: bool, kind: str) -> None:
    picture = pictures.Picture(plain(), "x", lossless)
    image = encode(picture)
    assert image.media_type == kind
    assert near(open_picture(image).pixels.getpixel((5, 5)), RED)


def test_a_picture_that_must_be_small_loses_quality() -> None:
    picture = opened(written(Pillow.effect_noise((600, 600), 90).convert("RGB"), "PNG"))
    assert len(encode(picture, 150_000).data) <= 150_000


def test_without_pillow_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real: Callable[..., Any] = importlib.import_module

    def missing(name: str) -> Any:
        if name.startswith("PIL"):
            raise ImportError(name)
        return real(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(ExtraMissing, match=r"edgewise\[vision\]"):
        opened(b"x")
