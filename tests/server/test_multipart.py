from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.server.body import MOST_PARTS, BadField, parse_form

KIND = "multipart/form-data; boundary=xyz"


def part(name: str, value: bytes, file: str = "") -> bytes:
    file_name = f'; filename="{file}"' if file else ""
    head = f'--xyz\r\nContent-Disposition: form-data; name="{name}"{file_name}\r\n'
    kind = "Content-Type: audio/wav\r\n" if file else ""
    return f"{head}{kind}\r\n".encode() + value + b"\r\n"


def test_fields_and_files_are_read_byte_for_byte() -> None:
    data = bytes(range(256)) + b"\r\n--xy\r\n\r\n"
    form = parse_form(KIND, part("model", "é".encode()) + part("file", data, "a.wav") + b"--xyz--")
    assert form.text("model") == "é"
    assert form.files["file"].data == data
    assert (form.files["file"].name, form.files["file"].media_type) == ("a.wav", "audio/wav")


def test_lists_and_inner_fields_are_found_under_their_brackets() -> None:
    body = part("include[]", b"logprobs") + part("include", b"x") + part("metadata[policy]", b"p")
    form = parse_form(KIND, body + b"--xyz--\r\n")
    assert form.listed("include") == ("x", "logprobs")
    assert form.inner("metadata") == {"policy": "p"}


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/json", b"{}"),
        ("multipart/form-data", b"--xyz--"),
        (KIND, b""),
        (KIND, b"nothing of the kind"),
        (KIND, part("model", b"auto")),
        (KIND, b"--xyz\r\nContent-Disposition: form-data\r\n\r\nnameless\r\n--xyz--"),
        (KIND, b"--xyz\r\nno end of the head\r\n--xyz--"),
        (KIND, part("model", b"\xff\xfe") + b"--xyz--"),
        (KIND, part("model", b"a" * 100_001) + b"--xyz--"),
        (KIND, part("a", b"") * (MOST_PARTS + 1) + b"--xyz--"),
    ],
    ids=str,
)
def test_what_is_no_form_is_refused(kind: str, body: bytes) -> None:
    with pytest.raises(BadField):
        parse_form(kind, body)


PIECES = (
    b"--xyz",
    b"--",
    b"\r\n",
    b"\r\n\r\n",
    b"Content-Disposition: form-data; name=",
    b'"a"',
    b"x",
)


@given(st.lists(st.sampled_from(PIECES) | st.binary(max_size=8), max_size=20))
def test_any_bytes_are_a_form_or_refused(pieces: list[bytes]) -> None:
    try:
        parse_form(KIND, b"".join(pieces))
    except BadField:
        return
