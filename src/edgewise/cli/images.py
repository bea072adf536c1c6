"""Images as they are named on the command line: files and addresses."""

from __future__ import annotations

from collections.abc import Sequence

from edgewise.errors import InvalidRequest
from edgewise.types.messages import Image


def read_images(names: Sequence[str]) -> list[Image]:
    """One for each name. Addresses are fetched when the request runs. Raises InvalidRequest."""
    return [_read(name) for name in names]


def _read(name: str) -> Image:
    if name.startswith(("http://", "https://")):
        return Image.from_url(name)
    try:
        return Image.from_path(name)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InvalidRequest(f"image {name!r} cannot be read: {reason}") from error
