"""What a request carries: JSON, forms and pictures are read whole, or refused by the field."""

from __future__ import annotations

import base64
import time
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.server.body import (
    MOST_PARTS,
    BadField,
    Between,
    Flag,
    Many,
    Model,
    Number,
    Object,
    Text,
    parse_form,
    read_body,
    read_model,
    read_picture,
)

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


class Inner(Model):
    kind: Literal["a", "b"]


class Sample(Model):
    text: Text = ""
    whole: Annotated[int, Between(1, 9)] | None = None
    number: Annotated[float, Between(0, 2)] | None = None
    finite: Number | None = None
    flag: Flag | None = None
    object: Object | None = None
    inner: Many[Inner] | None = None


@pytest.mark.parametrize(
    ("given", "path", "words"),
    [
        ({"text": 5}, "text", "expected text, got a number"),
        ({"text": None}, "text", "is required"),
        ({"whole": "5"}, "whole", "expected a whole number, got text"),
        ({"whole": True}, "whole", "expected a whole number, got true or false"),
        ({"whole": 5.5}, "whole", "expected a whole number, got a number"),
        ({"whole": float("inf")}, "whole", "expected a whole number, got a number"),
        ({"whole": 10}, "whole", "expected at most 9, got 10"),
        ({"whole": 0}, "whole", "expected at least 1, got 0"),
        ({"whole": 10**300}, "whole", "expected at most 9, got 1" + "0" * 39),
        ({"number": True}, "number", "expected a number, got true or false"),
        ({"number": "1"}, "number", "expected a number, got text"),
        ({"number": 10**400}, "number", "the number is too large"),
        ({"number": float("inf")}, "number", "expected at most 2, got inf"),
        ({"finite": float("inf")}, "finite", "expected a finite number, got inf"),
        ({"finite": float("nan")}, "finite", "expected a finite number, got nan"),
        ({"flag": 1}, "flag", "expected true or false, got a number"),
        ({"flag": "true"}, "flag", "expected true or false, got text"),
        ({"object": []}, "object", "expected an object, got a list"),
        ({"inner": {}}, "inner", "expected a list, got an object"),
        ({"inner": "abc"}, "inner", "expected a list, got text"),
        ({"inner": [{"kind": "a"}, 5]}, "inner[1]", "expected an object, got a number"),
        ({"inner": [{"kind": "c"}]}, "inner[0].kind", "expected 'a' or 'b', got 'c'"),
        ({"inner": [{"kind": ["a"]}]}, "inner[0].kind", "expected 'a' or 'b', got a list"),
        ({"inner": [{}]}, "inner[0].kind", "is required"),
    ],
    ids=str,
)
def test_a_wrong_value_is_refused_by_its_place(given: Any, path: str, words: str) -> None:
    with pytest.raises(BadField) as caught:
        read_model(Sample, given)
    assert (caught.value.path, caught.value.words) == (path, words)


def test_null_is_not_given_a_whole_number_may_have_a_point_and_the_rest_is_ignored() -> None:
    read = read_model(Sample, {"whole": 5.0, "number": 1, "flag": None, "other": [{"deep": 1}]})
    assert (read.whole, read.number, read.flag) == (5, 1.0, None)
    assert isinstance(read.whole, int) and isinstance(read.number, float)


def test_a_long_text_is_not_quoted_whole() -> None:
    with pytest.raises(BadField) as caught:
        read_model(Sample, {"inner": [{"kind": "x" * 10_000}]})
    assert len(str(caught.value)) < 120


def test_of_a_million_wrong_items_the_first_is_told_at_once() -> None:
    values = {"inner": [5] * 1_000_000}
    started = time.process_time()
    with pytest.raises(BadField, match=r"inner\[0\]"):
        read_model(Sample, values)
    assert time.process_time() - started < 1


def test_a_body_is_read_into_its_model() -> None:
    assert read_body(Sample, b'{"text": "x"}').text == "x"
