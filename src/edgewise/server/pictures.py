"""Images in requests: data URLs, and, where allowed, addresses outside the private networks."""

from __future__ import annotations

import base64
import binascii

from edgewise.errors import InvalidRequest
from edgewise.server.fields import BadField
from edgewise.types.messages import Image
from edgewise.vision.fetch import fetch_picture

KINDS = ("image/png", "image/jpeg", "image/gif", "image/webp")


def read_picture(url: str, path: str, *, remote: bool) -> Image:
    """The picture a URL holds or points at. Raises BadField."""
    if url.startswith("data:"):
        return _from_data_url(url, path)
    if not remote:
        raise BadField(path, "remote images are off on this server; send a data: URL")
    try:
        # Never from inside, whatever the settings say: a server asks for strangers.
        return fetch_picture(Image(b"", name=path, url=url), private=False)
    except InvalidRequest as error:
        raise BadField(path, str(error).removeprefix(f"{path}: ")) from error


def decoded(data: str, media_type: str, path: str) -> Image:
    """A picture from base64."""
    if media_type not in KINDS:
        raise BadField(path, f"expected one of {', '.join(KINDS)}, got {media_type[:40]!r}")
    try:
        return Image(base64.b64decode(data, validate=True), media_type, name=path)
    except (binascii.Error, ValueError) as error:
        raise BadField(path, "not base64") from error


def _from_data_url(url: str, path: str) -> Image:
    head, comma, data = url.removeprefix("data:").partition(",")
    media_type, _, encoding = head.partition(";")
    if not comma or encoding != "base64":
        raise BadField(path, "expected data:image/…;base64,…")
    return decoded(data, media_type, path)
