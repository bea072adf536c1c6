"""What leaves the device with a picture: its pixels, resized, and nothing else."""

from __future__ import annotations

import base64
import io
import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image as Pillow
from PIL import PngImagePlugin

from edgewise import Engine, Settings
from edgewise.cloud.conversation import TOKENS_PER_IMAGE, estimated_input_tokens
from edgewise.cloud.door import count_tokens, ready_to_leave
from edgewise.cloud.provider import ProviderConfig
from edgewise.cloud.providers import PROVIDERS
from edgewise.errors import InvalidRequest
from edgewise.testing import LoopbackCloud
from edgewise.types.messages import Image, Message, Request

SECRET = "Zanzibar-7731-secret"
CONFIGS = {
    name: ProviderConfig(name=name, protocol=PROVIDERS[name].protocol, model="m")
    for name in ("openai", "anthropic", "gemini", "mistral", "cactus_cloud")
}


def photo(
    form: str = "JPEG",
    secret: str = SECRET,
    size: tuple[int, int] = (320, 240),
    colour: str = "red",
) -> bytes:
    """A picture whose metadata tells a secret, in every place the format has for it."""
    pixels = Pillow.new("RGB", size, colour)
    exif = Pillow.Exif()
    exif[0x010E] = secret  # description
    exif[0x0112] = 1
    exif.get_ifd(0x8825)[1] = "N"  # GPS
    exif.get_ifd(0x8825)[2] = (48.0, 51.0, 29.5)
    exif.get_ifd(0x8825)[29] = secret
    options: dict[str, Any] = {"exif": exif}
    if form == "PNG":
        info = PngImagePlugin.PngInfo()
        info.add_text("Comment", secret)
        info.add_itxt("XML:com.adobe.xmp", f"<x>{secret}</x>")
        options["pnginfo"] = info
    if form in ("JPEG", "WEBP"):
        options["xmp"] = f"<x:xmpmeta>{secret}</x:xmpmeta>".encode()
    if form == "JPEG":
        options["comment"] = secret.encode()
    if form == "GIF":
        options = {"comment": secret.encode()}
    file = io.BytesIO()
    pixels.save(file, form, **options)
    assert secret.encode() in file.getvalue()
    return file.getvalue()


def request_with(*images: bytes) -> Request:
    pictures = tuple(Image.from_bytes(data, "/home/me/private.jpg") for data in images)
    return Request(messages=(Message("user", "What is this?", images=pictures),))


def sent_images(request: Request) -> list[Image]:
    return [image for message in request.messages for image in message.images]


@settings(max_examples=25, deadline=None)
@given(
    secret=st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=8, max_size=60),
    form=st.sampled_from(["JPEG", "PNG", "WEBP", "TIFF", "GIF"]),
    name=st.sampled_from(sorted(CONFIGS)),
)
def test_no_metadata_leaves_whatever_it_says(secret: str, form: str, name: str) -> None:
    [image] = sent_images(ready_to_leave(request_with(photo(form, secret)), CONFIGS[name]))
    assert secret.encode() not in image.data
    assert image.name == ""
    found = Pillow.open(io.BytesIO(image.data))
    assert not found.getexif()
    assert not {"exif", "xmp", "comment", "Comment", "icc_profile"} & set(found.info)


URLS = {"openai": "openai_url", "anthropic": "anthropic_url", "gemini": "gemini_url"}


@pytest.mark.parametrize("name", URLS)
def test_through_the_sdk_all_pictures_arrive_clean_and_resized(name: str) -> None:
    with LoopbackCloud() as cloud:
        settings = Settings.load(
            {
                f"{name.upper()}_API_KEY": "k",
                f"EDGEWISE_{name.upper()}_BASE_URL": getattr(cloud, URLS[name]),
                "EDGEWISE_CHAIN": name,
            }
        )
        large = photo("JPEG", size=(6000, 3000), colour="blue")
        images = [Image.from_bytes(data) for data in (large, photo("PNG"), photo("WEBP"))]
        with Engine(settings) as engine:
            reply = engine.complete("Compare these.", images=images, policy="cloud_only")
    body = json.dumps(cloud.requests[-1].body)
    assert reply.source == "cloud"
    assert SECRET not in body
    found = [
        Pillow.open(io.BytesIO(base64.b64decode(text.replace("-", "+").replace("_", "/"))))
        for text in re.findall(r"[A-Za-z0-9+/_-]{200,}={0,2}", body)
    ]
    side = PROVIDERS[name].image_side
    assert [picture.size for picture in found] == [(side, side // 2), (320, 240), (320, 240)]
    assert SECRET.encode() not in b"".join(picture.tobytes() for picture in found)
    assert all(not picture.getexif() for picture in found)
    assert reply.usage.cost_microdollars > 0


def test_text_is_left_as_it_is() -> None:
    request = Request(messages=(Message("user", "hello"),))
    assert ready_to_leave(request, CONFIGS["openai"]) is request


def test_a_picture_that_cannot_be_read_does_not_leave() -> None:
    with pytest.raises(InvalidRequest, match="image 2"):
        ready_to_leave(request_with(photo(), b"\x89PNG but not really"), CONFIGS["openai"])


def test_many_large_pictures_together_stay_below_what_servers_take() -> None:
    noise = io.BytesIO()
    Pillow.effect_noise((1600, 1600), 100).convert("RGB").save(noise, "PNG")
    request = ready_to_leave(request_with(*[noise.getvalue()] * 12), CONFIGS["openai"])
    assert sum(len(image.data) for image in sent_images(request)) * 4 / 3 <= 18_000_000


@pytest.mark.parametrize(
    ("protocol", "size", "tokens"),
    [
        ("anthropic", (1000, 750), 1000),
        ("gemini", (300, 300), 258),
        ("gemini", (960, 540), 258 * 6),
        ("openai", (1024, 1024), 85 + 4 * 170),
        ("openai", (512, 512), 85 + 170),
        ("cactus_cloud", (512, 512), 0),
    ],
)
def test_pictures_are_counted_by_the_providers_rules(
    protocol: Any, size: tuple[int, int], tokens: int
) -> None:
    assert count_tokens(protocol, *size) == tokens


def test_the_count_enters_what_is_reserved() -> None:
    request = request_with(photo(size=(750, 750)))
    words = estimated_input_tokens(Request(messages=(Message("user", "What is this?"),)))
    assert estimated_input_tokens(request) == words + TOKENS_PER_IMAGE
    ready = ready_to_leave(request, CONFIGS["anthropic"])
    assert estimated_input_tokens(ready) == words + 750
