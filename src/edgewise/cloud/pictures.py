"""Makes pictures fit to leave: pixels only, no larger than the provider looks at, and counted."""

from __future__ import annotations

import math
from dataclasses import replace

from edgewise.cloud.directory import row_for
from edgewise.cloud.provider import ProviderConfig
from edgewise.cloud.provider_row import Protocol, Provider
from edgewise.types.messages import Image, Request
from edgewise.vision.pictures import encode, open_picture, shrink

# What servers take in one request, base64 included, at the strictest of them.
MOST_BYTES_TOGETHER = 18_000_000


def ready_to_leave(request: Request, config: ProviderConfig) -> Request:
    """The request with all its pictures written anew: upright, resized, without metadata.

    Raises InvalidRequest for a picture that cannot be read: what cannot be cleaned stays here.
    """
    if not request.has_images:
        return request
    row = row_for(config)
    count = sum(len(message.images) for message in request.messages)
    most_bytes = min(row.image_bytes, MOST_BYTES_TOGETHER * 3 // 4 // count)
    position = 0
    messages = []
    for message in request.messages:
        images = []
        for image in message.images:
            position += 1
            images.append(_ready(image, position, row, most_bytes))
        messages.append(replace(message, images=tuple(images)))
    return replace(request, messages=tuple(messages))


def _ready(image: Image, position: int, row: Provider, most_bytes: int) -> Image:
    picture = shrink(open_picture(image, position), row.image_side)
    written = encode(picture, most_bytes)
    while len(written.data) > most_bytes and max(picture.size) > 256:
        picture = shrink(picture, max(picture.size) * 3 // 4)
        written = encode(picture, most_bytes)
    tokens = count_tokens(row.protocol, *picture.size)
    return Image(written.data, written.media_type, tokens=tokens)  # no name: it may be a path


def count_tokens(protocol: Protocol, width: int, height: int) -> int:
    """By the rules a provider publishes; 0 for one that publishes none."""
    match protocol:
        case "anthropic":
            return math.ceil(width * height / 750)
        case "gemini":
            return _gemini_tokens(width, height)
        case "openai":
            return _openai_tokens(width, height)
    return 0


def _gemini_tokens(width: int, height: int) -> int:
    """258 for a small picture, and for each tile of a larger one."""
    if max(width, height) <= 384:
        return 258
    tile = min(768, max(256, int(min(width, height) / 1.5)))
    return 258 * math.ceil(width / tile) * math.ceil(height / tile)


def _openai_tokens(width: int, height: int) -> int:
    """85, and 170 for each 512-pixel tile once the shorter side is at most 768."""
    scale = min(1.0, 2048 / max(width, height))
    scale *= min(1.0, 768 / max(1.0, min(width, height) * scale))
    tiles = math.ceil(width * scale / 512) * math.ceil(height * scale / 512)
    return 85 + 170 * tiles
