"""Pictures come in data URLs, and from elsewhere only where allowed and never from inside."""

from __future__ import annotations

import base64

import pytest

from edgewise.server.body import BadField, read_picture

PNG = base64.b64encode(b"picture").decode()


def test_a_data_url_is_decoded() -> None:
    image = read_picture(f"data:image/png;base64,{PNG}", "url", remote=False)
    assert (image.data, image.media_type) == (b"picture", "image/png")


@pytest.mark.parametrize(
    "url",
    [
        "data:image/png;base64,###",
        "data:image/png,raw",
        "data:text/html;base64,aGk=",
        "data:image/svg+xml;base64,aGk=",
        "data:",
        "https://pictures.example/cat.png",
    ],
)
def test_what_is_no_picture_is_refused_by_its_place(url: str) -> None:
    with pytest.raises(BadField) as caught:
        read_picture(url, "messages[0].content[1].image_url.url", remote=False)
    assert caught.value.path == "messages[0].content[1].image_url.url"


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/x.png",
        "http://localhost/x.png",
        "http://[::1]/x.png",
        "http://10.0.0.1/x.png",
        "http://192.168.1.1/x.png",
        "http://169.254.169.254/latest/meta-data",
        "http://[fd00::1]/x.png",
        "http://[::ffff:10.0.0.1]/x.png",
        "http://0.0.0.0/x.png",
        "http://100.64.0.1/x.png",
        "file:///etc/passwd",
        "ftp://pictures.example/x.png",
        "http://user:secret@pictures.example/x.png",
        "http://pictures.example:99999/x.png",
    ],
)
def test_private_addresses_are_never_asked(url: str) -> None:
    with pytest.raises(BadField):
        read_picture(url, "url", remote=True)
