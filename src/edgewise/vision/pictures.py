"""From the bytes of a picture file to pixels and back: checked, upright, without metadata."""

from __future__ import annotations

import importlib
import io
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from edgewise.errors import ExtraMissing, InvalidRequest
from edgewise.types.messages import Image

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray
    from PIL.Image import Image as Pixels

    PixelArray = NDArray[numpy.uint8]


MOST_BYTES = 30_000_000  # of a file
MOST_PIXELS = 50_000_000  # of a picture: 150 MB in memory
MOST_PICTURES = 20  # in one request
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")
TAKEN = "PNG, JPEG, WebP, GIF, BMP and TIFF are taken"
JPEG_QUALITY = 90

# Warning filters belong to the process, not to a thread.
_opening = threading.Lock()


@dataclass(frozen=True, slots=True)
class Picture:
    """An upright RGB picture. `notes` say what was noticeably changed or left out."""

    pixels: Pixels
    name: str
    lossless: bool = True  # from a lossless format
    notes: tuple[str, ...] = ()

    @property
    def size(self) -> tuple[int, int]:
        return self.pixels.size


def open_picture(image: Image, position: int = 1) -> Picture:
    """Decode a picture. Raises InvalidRequest with the reason; ExtraMissing without Pillow."""
    name = f"image {position}" + (f" ({image.name})" if image.name else "")
    module = _pillow()
    if image.url and not image.data:
        raise InvalidRequest(f"{name} was not fetched")
    _check_bytes(image.data, name)
    try:
        with _opened(module, image.data) as file:
            _check_size(file.size, name)
            frames = int(getattr(file, "n_frames", 1)) if file.format != "MPO" else 1
            kind = str(file.format)
            file.load()
            pixels = _as_rgb(module, _upright(file))
    except InvalidRequest:
        raise
    except _pillow_errors() as error:
        raise InvalidRequest(f"{name}: {_words(error, image.data)}") from error
    notes = (f"{name}: only the first of {frames} frames was looked at",) if frames > 1 else ()
    return Picture(pixels, name, lossless=kind in ("PNG", "GIF", "BMP", "TIFF"), notes=notes)


def shrink(picture: Picture, side: int) -> Picture:
    """No side longer than this. Smaller pictures stay as they are."""
    width, height = picture.size
    if max(width, height) <= side:
        return picture
    scale = side / max(width, height)
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    pixels = picture.pixels.resize(size, _pillow().Resampling.LANCZOS)
    return Picture(pixels, picture.name, picture.lossless, picture.notes)


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


def _opened(module: Any, data: bytes) -> Any:
    """Reads only the header. We give our own warning about large pictures."""
    with _opening, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return module.open(io.BytesIO(data), formats=FORMATS)


def _upright(file: Any) -> Any:
    """Turned as its EXIF says. Unreadable EXIF is no reason to refuse a picture."""
    transpose: Callable[..., Any] = importlib.import_module("PIL.ImageOps").exif_transpose
    try:
        return transpose(file)
    except (ValueError, TypeError, KeyError, OSError, SyntaxError):
        return file


def _as_rgb(module: Any, pixels: Any) -> Pixels:
    if pixels.mode.startswith("I") or pixels.mode == "F":
        pixels = _eight_bits(pixels)
    if pixels.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in pixels.info:
        layer = pixels.convert("RGBA")
        paper = module.new("RGBA", layer.size, (255, 255, 255, 255))
        pixels = module.alpha_composite(paper, layer)
    rgb: Pixels = pixels.convert("RGB")
    fresh: Pixels = module.new("RGB", rgb.size)
    fresh.paste(rgb)  # pixels only, no metadata
    return fresh


def _eight_bits(pixels: Any) -> Any:
    """Scale 16 and 32 bits per pixel to 8; a plain conversion would cut them off at 255."""
    low, high = pixels.convert("F").getextrema()
    scale = 255.0 / (high - low) if high > low else 1.0
    return pixels.convert("F").point(lambda value: value * scale - low * scale).convert("L")


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
    struct_error: type[BaseException] = importlib.import_module("struct").error
    return (
        OSError, ValueError, SyntaxError, EOFError, TypeError, KeyError, IndexError,
        OverflowError, MemoryError, ZeroDivisionError, bomb, struct_error,
    )  # fmt: skip


def _words(error: BaseException, data: bytes) -> str:
    head = data[:1000].lstrip().lower()
    if type(error).__name__ == "DecompressionBombError":
        return f"it would unpack to more than {MOST_PIXELS / 1e6:.0f} million pixels"
    if b"<svg" in head or head.startswith(b"<?xml"):
        return "SVG is drawing instructions, not pixels; export it as PNG first"
    if data[4:12] in (b"ftypheic", b"ftypheix", b"ftypmif1", b"ftypavif"):
        return f"HEIC and AVIF are not read; {TAKEN}"
    if type(error).__name__ == "UnidentifiedImageError":
        return f"this is not a picture that can be read; {TAKEN}"
    return f"the picture is damaged or cut off ({error})"


def measure_quality(pixels: PixelArray) -> dict[str, float]:
    """`contrast`: how far dark and light are apart. `sharpness`: how steep edges are.

    `noise`: how much neighbouring pixels differ in empty areas. All from 0 to 1.
    """
    import numpy as np  # noqa: PLC0415 - only pictures need it

    grey = pixels.astype(np.float32).mean(axis=2) / 255.0
    if min(grey.shape) < 4:
        return {"contrast": 0.0, "sharpness": 0.0, "noise": 0.0}
    across = np.abs(np.diff(grey, axis=1))
    low, high = np.percentile(grey, (0.5, 99.5))
    return {
        "contrast": float(high - low),
        "sharpness": float(np.percentile(across, 99.5)),
        "noise": float(np.median(across)),
    }
