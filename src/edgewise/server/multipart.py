"""Reads a form with files (`multipart/form-data`) from a body that is already here."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from edgewise.server.fields import BadField

MOST_PARTS = 100
LONGEST_TEXT = 100_000  # bytes of a field that is not a file
_BOUNDARY = re.compile(r'boundary=(?:"([^"]{1,200})"|([^\s;,"]{1,200}))', re.IGNORECASE)
_NAME = re.compile(r'[;\s]name="((?:[^"\\]|\\.)*)"', re.IGNORECASE)
_FILE_NAME = re.compile(r'[;\s]filename="((?:[^"\\]|\\.)*)"', re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Upload:
    """A file of a form. Its name is what the client says, and nothing is ever opened by it."""

    name: str
    media_type: str
    data: bytes = field(repr=False)


@dataclass(slots=True)
class Form:
    """Fields and files by name; a name may come more than once, as `include[]` does."""

    texts: dict[str, list[str]] = field(default_factory=dict)
    files: dict[str, Upload] = field(default_factory=dict)

    def text(self, name: str, default: str = "") -> str:
        return self.texts.get(name, [default])[-1]

    def listed(self, name: str) -> tuple[str, ...]:
        """Under `name` and `name[]`: clients write lists either way."""
        return (*self.texts.get(name, ()), *self.texts.get(f"{name}[]", ()))

    def inner(self, name: str) -> dict[str, str]:
        """`metadata[policy]` and the like, by what is in the brackets."""
        start = f"{name}["
        return {
            key.removeprefix(start).removesuffix("]"): values[-1]
            for key, values in self.texts.items()
            if key.startswith(start) and key.endswith("]")
        }


def parse_form(content_type: str, body: bytes) -> Form:
    """The form in a body. Raises BadField where it is none."""
    found = _BOUNDARY.search(content_type)
    if not content_type.lower().startswith("multipart/form-data") or found is None:
        raise BadField("", "the body must be multipart/form-data")
    mark = b"\r\n--" + (found[1] or found[2]).encode("latin-1")
    parts = (b"\r\n" + body).split(mark, MOST_PARTS + 1)
    if len(parts) < 2 or not parts[-1].startswith(b"--"):
        raise BadField("", f"the form does not end, or has more than {MOST_PARTS - 1} parts")
    form = Form()
    for part in parts[1:-1]:
        _add(form, part)
    return form


def _add(form: Form, part: bytes) -> None:
    head, end, data = part.partition(b"\r\n\r\n")
    headers = dict(_header(line) for line in head.decode("utf-8", "replace").split("\r\n") if line)
    disposition = headers.get("content-disposition", "")
    name = _NAME.search(disposition)
    if not end or name is None:
        raise BadField("", "a part of the form has no name")
    file_name = _FILE_NAME.search(disposition)
    if file_name is not None:
        media_type = headers.get("content-type", "application/octet-stream")
        form.files[name[1]] = Upload(file_name[1], media_type, data)
        return
    if len(data) > LONGEST_TEXT:
        raise BadField(name[1], f"more than {LONGEST_TEXT:,} bytes")
    try:
        form.texts.setdefault(name[1], []).append(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise BadField(name[1], f"not UTF-8: {error.reason}") from error


def _header(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name.strip().lower(), value.strip()
