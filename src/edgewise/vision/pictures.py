"""From the bytes of a picture file to pixels and back: checked, upright, without metadata."""

from __future__ import annotations

import contextlib
import importlib
import io
import struct
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from edgewise.errors import ExtraMissing, InvalidRequest
from edgewise.types.messages import Image

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray
    from PIL.Image import Image as Pixels

    PixelArray = NDArray[numpy.uint8]


MOST_BYTES = 30_000_000  # of a file
MOST_PIXELS = 50_000_000  # of a picture: 200 MB in memory, and twice that while it is read
MOST_PICTURES = 20  # in one request
MOST_BYTES_TOGETHER = 100_000_000  # of their files
MOST_PIXELS_TOGETHER = 200_000_000
# Files can be made that are small and take hours: of many passes over the same pixels, of
# millions of strips, or of comments. The limit on time is for everything that we did not think of.
MOST_SCANS = 50  # of a JPEG; progressive ones have about ten
MOST_STRIPS = 20_000  # of a TIFF
HEAD_S, DECODE_S = 2.0, 10.0  # of a processor
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "AVIF")
TAKEN = "PNG, JPEG, WebP, GIF, BMP, TIFF and AVIF are taken"
JPEG_QUALITY = 90
BLOCK_BYTES = 64 * 2**20

# Warning filters belong to the process, not to a thread.
_opening = threading.Lock()
_decoding = threading.Lock()


@dataclass(frozen=True, slots=True)
class Picture:
    """An upright RGB picture."""

    pixels: Pixels
    name: str
    lossless: bool = True  # from a lossless format

    @property
    def size(self) -> tuple[int, int]:
        return self.pixels.size


@contextlib.contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Whatever the requests are: a file of 200 KB takes half a gigabyte, or a whole one.

    Meanwhile Pillow takes memory in blocks so large that the system has them back at once.
    """
    core = _pillow().core
    with _decoding:
        usual = core.get_block_size()
        core.set_block_size(BLOCK_BYTES)
        try:
            yield
        finally:
            core.set_block_size(usual)


def check_bytes_together(size: int) -> None:
    if size > MOST_BYTES_TOGETHER:
        words = f"{MOST_BYTES_TOGETHER / 1e6:.0f} MB are the most for all images of a request"
        raise InvalidRequest(words)


def check_together(images: Sequence[Image]) -> None:
    """All pictures of a request, by their headers, before one of them is unpacked.

    Raises InvalidRequest with the reason; ExtraMissing without Pillow.
    """
    check_bytes_together(sum(len(image.data) for image in images))
    pixels = 0
    for position, image in enumerate(images, 1):
        with _Opened(image, position) as opened:
            width, height = opened.file.size
            pixels += width * height
    if pixels > MOST_PIXELS_TOGETHER:
        raise InvalidRequest(
            f"all images together have {pixels / 1e6:,.0f} million pixels; "
            f"{MOST_PIXELS_TOGETHER / 1e6:.0f} million are the most: make them smaller first"
        )


def open_picture(image: Image, position: int = 1, *, side: int = 0) -> Picture:
    """Decode a picture, and make no side longer than `side`, if it is given.

    Raises InvalidRequest with the reason; ExtraMissing without Pillow.
    """
    with _one_at_a_time(), _Opened(image, position) as opened:
        lossless = opened.kind in ("PNG", "GIF", "BMP", "TIFF")
        picture = Picture(opened.decoded(), opened.name, lossless=lossless)
        return shrink(picture, side) if side else picture


def note_of(image: Image, position: int = 1) -> str:
    """What of a picture will be left out; empty if nothing is. Reads its header only."""
    with _Opened(image, position) as opened:
        animated = opened.kind != "MPO" and getattr(opened.file, "is_animated", False)
        return f"{opened.name}: only the first frame was looked at" if animated else ""


class _Opened:
    """A file of which the header was read. What is wrong with it is an InvalidRequest."""

    def __init__(self, image: Image, position: int) -> None:
        self.name = f"image {position}" + (f" ({image.name})" if image.name else "")
        self._data, self._module = image.data, _pillow()
        if image.url and not image.data:
            raise InvalidRequest(f"{self.name} was not fetched")
        _check_bytes(image.data, self.name)

    def __enter__(self) -> _Opened:
        try:
            _check_parts(self._data)
            self._bytes = _Watched(self._data, HEAD_S)
            with _opening, warnings.catch_warnings():
                warnings.simplefilter("ignore")  # we give our own about large pictures
                self.file: Any = self._module.open(self._bytes, formats=FORMATS)
        except _pillow_errors() as error:
            raise self._refused(error) from error
        self.kind = str(self.file.format)
        _check_size(self.file.size, self.name)
        return self

    def decoded(self) -> Pixels:
        """Upright, in RGB."""
        self._bytes.allow(DECODE_S)
        self.file.load()
        return _as_rgb(self._module, _upright(self.file))

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.file.close()
        if isinstance(error, _pillow_errors()):
            raise self._refused(error) from error

    def _refused(self, error: BaseException) -> InvalidRequest:
        return InvalidRequest(f"{self.name}: {_words(error, self._data)}")


class _Watched(io.BytesIO):
    """Bytes that are read within a time of the processor, or no further."""

    def __init__(self, data: bytes, seconds: float) -> None:
        super().__init__(data)
        self.allow(seconds)

    def allow(self, seconds: float) -> None:
        self._until = time.thread_time() + seconds

    @override
    def read(self, size: int | None = -1) -> bytes:
        if time.thread_time() > self._until:
            raise TimeoutError
        return super().read(size)


def _check_parts(data: bytes) -> None:
    """Raises ValueError for a file whose parts are too many to be read in a reasonable time."""
    if data[:3] == b"\xff\xd8\xff" and data.count(b"\xff\xda") > MOST_SCANS:
        raise ValueError(f"more than {MOST_SCANS} scans")
    if data[:2] in (b"II", b"MM") and _count_strips(data) > MOST_STRIPS:
        raise ValueError(f"more than {MOST_STRIPS:,} strips")


def _count_strips(data: bytes) -> int:
    """Strips or tiles of a TIFF, by its first directory."""
    end = "<" if data[:2] == b"II" else ">"
    mark, start = struct.unpack_from(f"{end}HI", data, 2)
    if mark != 42:
        raise ValueError("a large TIFF (BigTIFF) is not read")
    (entries,) = struct.unpack_from(f"{end}H", data, start)
    found = [struct.unpack_from(f"{end}HHI", data, start + 2 + 12 * n) for n in range(entries)]
    return max((count for tag, _, count in found if tag in (273, 324)), default=0)


def shrink(picture: Picture, side: int) -> Picture:
    """No side longer than this. Smaller pictures stay as they are."""
    width, height = picture.size
    if max(width, height) <= side:
        return picture
    scale = side / max(width, height)
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    pixels = picture.pixels.resize(size, _pillow().Resampling.LANCZOS)
    return Picture(pixels, picture.name, picture.lossless)


def encode(picture: Picture, most_bytes: int = MOST_BYTES) -> Image:
    """Pixels as a new file: PNG if the source was lossless and it stays small, else JPEG."""
    if picture.lossless:
        data = _written(picture.pixels, format="PNG")
        if len(data) <= min(most_bytes, 1_500_000):
            return Image(data, "image/png", name=picture.name)
    quality = JPEG_QUALITY
    data = _written(picture.pixels, format="JPEG", quality=quality)
    while len(data) > most_bytes and quality > 40:
        quality -= 10
        data = _written(picture.pixels, format="JPEG", quality=quality)
    return Image(data, "image/jpeg", name=picture.name)


def _check_bytes(data: bytes, name: str) -> None:
    if not data:
        raise InvalidRequest(f"{name} is empty: it has no bytes")
    if len(data) > MOST_BYTES:
        raise InvalidRequest(
            f"{name} has {len(data) / 1e6:.0f} MB; {MOST_BYTES / 1e6:.0f} MB are the most"
        )


def _check_size(size: tuple[int, int], name: str) -> None:
    width, height = size
    if width * height > MOST_PIXELS:
        raise InvalidRequest(
            f"{name} has {width:,} by {height:,} pixels, {width * height / 1e6:,.0f} million; "
            f"{MOST_PIXELS / 1e6:.0f} million are the most: make it smaller first"
        )


def _upright(file: Any) -> Any:
    """Turned as its EXIF says. Unreadable EXIF is no reason to refuse a picture."""
    with contextlib.suppress(ValueError, TypeError, KeyError, OSError, SyntaxError):
        importlib.import_module("PIL.ImageOps").exif_transpose(file, in_place=True)
    return file


def _as_rgb(module: Any, pixels: Any) -> Pixels:
    """A picture of its own, with pixels only and no metadata."""
    if pixels.mode.startswith("I") or pixels.mode == "F":
        pixels = _eight_bits(pixels)
    mask = None
    if pixels.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in pixels.info:
        pixels = pixels if pixels.mode == "RGBA" else pixels.convert("RGBA")
        mask = pixels.getchannel("A")
    fresh: Pixels = module.new("RGB", pixels.size, (255, 255, 255))
    fresh.paste(pixels, mask=mask)  # which turns it into RGB, too
    return fresh


def _eight_bits(pixels: Any) -> Any:
    """Scale 16 and 32 bits per pixel to 8; a plain conversion would cut them off at 255."""
    pixels = pixels.convert("F")
    low, high = pixels.getextrema()
    scale = 255.0 / (high - low) if high > low else 1.0
    return pixels.point(lambda value: value * scale - low * scale).convert("L")


def _written(pixels: Pixels, **options: Any) -> bytes:
    file = io.BytesIO()
    pixels.save(file, **options)
    return file.getvalue()


def _pillow() -> Any:
    try:
        return importlib.import_module("PIL.Image")
    except ImportError as error:
        raise ExtraMissing("vision", "Pillow") from error


def _pillow_errors() -> tuple[type[BaseException], ...]:
    """What Pillow's decoders raise for bad files; struct.error is no ValueError."""
    bomb: type[BaseException] = _pillow().DecompressionBombError
    return (
        OSError, ValueError, SyntaxError, EOFError, TypeError, KeyError, IndexError,
        OverflowError, MemoryError, ZeroDivisionError, RuntimeError, bomb, struct.error,
    )  # fmt: skip


def _words(error: BaseException, data: bytes) -> str:
    head = data[:1000].lstrip().lower()
    if type(error).__name__ == "DecompressionBombError":
        return f"it would unpack to more than {MOST_PIXELS / 1e6:.0f} million pixels"
    if isinstance(error, TimeoutError):
        return "it takes too long to unpack: save it anew first"
    if b"<svg" in head or head.startswith(b"<?xml"):
        return "SVG is drawing instructions, not pixels; export it as PNG first"
    if data[4:12] in (b"ftypheic", b"ftypheix", b"ftypmif1"):
        return f"HEIC is not read; {TAKEN}"
    if type(error).__name__ == "UnidentifiedImageError":
        return f"this is not a picture that can be read; {TAKEN}"
    return f"the picture is damaged or cut off ({error})"


def measure_quality(pixels: PixelArray) -> dict[str, float]:
    """`contrast`: how far dark and light are apart. `sharpness`: how steep edges are.

    `noise`: how much neighbouring pixels differ in empty areas. All from 0 to 1.
    """
    import numpy as np  # noqa: PLC0415 - only pictures need it

    grey = pixels.mean(axis=2, dtype=np.float32) / 255.0
    if min(grey.shape) < 4:
        return {"contrast": 0.0, "sharpness": 0.0, "noise": 0.0}
    across = np.abs(np.diff(grey, axis=1))
    low, high = np.percentile(grey, (0.5, 99.5))
    return {
        "contrast": float(high - low),
        "sharpness": float(np.percentile(across, 99.5)),
        "noise": float(np.median(across)),
    }
