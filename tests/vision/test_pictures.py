"""Every kind of picture file, good and bad: a correct conversion or a clear error."""

from __future__ import annotations

import importlib
import io
import struct
import time
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from PIL import Image as Pillow
from PIL import PngImagePlugin

from edgewise.errors import ExtraMissing, InvalidRequest
from edgewise.types.messages import Image
from edgewise.vision import pictures
from edgewise.vision.pictures import (
    MOST_BYTES,
    check_together,
    encode,
    note_of,
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


@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP", "BMP", "TIFF", "GIF", "AVIF"])
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
    image = Image.from_bytes(data, "cat.gif")
    assert note_of(image) == "image 1 (cat.gif): only the first frame was looked at"
    assert not note_of(Image(written(plain(), "GIF")))
    picture = open_picture(image)
    assert near(picture.pixels.getpixel((5, 5)), RED)


def test_all_pictures_of_a_request_are_measured_before_one_is_unpacked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    check_together([Image(png_header(7000, 7000))] * 4)
    with pytest.raises(InvalidRequest, match="245 million pixels; 200 million are the most"):
        check_together([Image(png_header(7000, 7000))] * 5)
    with pytest.raises(InvalidRequest, match=r"image 2.*not a picture"):
        check_together([Image(written(plain(), "PNG")), Image(b"just some words")])
    monkeypatch.setattr(pictures, "MOST_BYTES_TOGETHER", 50)
    with pytest.raises(InvalidRequest, match="MB are the most for all images"):
        check_together([Image(png_header(10, 10))] * 2)


def test_a_photo_of_many_passes_is_refused() -> None:
    """Each is a hundred bytes, and goes over all the pixels: 200 KB can take a minute."""
    data = written(plain("L", (64, 64), 128), "JPEG", progressive=True)
    last = data[data.rfind(b"\xff\xda") : -2]
    assert opened(data[:-2] + last * 20 + data[-2:]).size == (64, 64)
    with pytest.raises(InvalidRequest, match="more than 50 scans"):
        opened(data[:-2] + last * 60 + data[-2:])


@pytest.mark.parametrize("count", [20_000, 20_001])
def test_a_scan_of_too_many_strips_is_refused(count: int) -> None:
    one, rows = (4, 1), range(count)
    tags: list[tuple[int, int, int, int]] = [
        (256, *one, 1), (257, *one, count), (258, 3, 1, 8), (259, 3, 1, 1), (262, 3, 1, 1),
        (273, 4, count, 8), (277, 3, 1, 1), (278, *one, 1), (279, 4, count, 8 + 4 * count),
    ]  # fmt: skip
    offsets = b"".join(struct.pack("<I", 8) for _ in rows)
    sizes = b"".join(struct.pack("<I", 1) for _ in rows)
    listed = b"".join(struct.pack("<HHII", *tag) for tag in tags)
    head = b"II*\0" + struct.pack("<I", 8 + 8 * count)
    data = head + offsets + sizes + struct.pack("<H", len(tags)) + listed + bytes(4)
    if count <= 20_000:
        check_together([Image(data)])
        return
    with pytest.raises(InvalidRequest, match="more than 20,000 strips"):
        check_together([Image(data)])


def test_a_file_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "DECODE_S", -1.0)
    with pytest.raises(InvalidRequest, match="takes too long to unpack"):
        opened(written(plain(), "PNG"))
    monkeypatch.setattr(pictures, "HEAD_S", -1.0)
    with pytest.raises(InvalidRequest, match="takes too long to unpack"):
        check_together([Image(written(plain(), "GIF"))])


def test_frames_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file can have a million of them."""
    never = property(lambda _: pytest.fail("they were counted"))
    monkeypatch.setattr("PIL.GifImagePlugin.GifImageFile.n_frames", never)
    data = written(plain(), "GIF", save_all=True, append_images=[plain(colour=(0, 0, 255))])
    assert note_of(Image(data)) and opened(data).size == (40, 30)


def test_one_picture_at_a_time_is_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    inside: list[int] = []
    most: list[int] = []
    usual = pictures._as_rgb

    def watched(*args: Any) -> Any:
        inside.append(1)
        most.append(len(inside))
        time.sleep(0.01)
        inside.pop()
        return usual(*args)

    monkeypatch.setattr(pictures, "_as_rgb", watched)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(opened, [written(plain(), "PNG")] * 8))
    assert len(most) == 8 and max(most) == 1


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


@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP", "TIFF", "GIF", "BMP", "AVIF"])
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
    with pytest.raises(ExtraMissing, match=r"\[vision\]"):
        opened(b"x")
