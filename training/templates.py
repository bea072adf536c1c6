"""Reads a template line: text, `{slot}` and `{slot:text that stands only with it}`."""

from __future__ import annotations

import re

from training.frame_types import Part, Template

_SLOT_NAME = re.compile(r"[A-Za-z_][\w.\-]*")


class BadLine(ValueError):
    """A line of a frame file that cannot be used."""


def read_template(text: str) -> Template:
    """`{name}` and `{name:TEXT}`, where TEXT may itself hold slots."""
    parts: list[Part] = []
    _read_parts(text, "", parts)
    return Template(tuple(part for part in parts if part.text or part.slot))


def _read_parts(text: str, condition: str, parts: list[Part]) -> None:
    position = 0
    while position < len(text):
        start = text.find("{", position)
        if start < 0:
            break
        parts.append(_plain(text[position:start], condition))
        end = _closing(text, start)
        inside = text[start + 1 : end]
        name, colon, body = inside.partition(":")
        name = name.strip().rstrip("*")
        if not _SLOT_NAME.fullmatch(name):
            raise BadLine(f"{{{inside}}} is no slot")
        if colon:
            _read_parts(body, name, parts)
        else:
            parts.append(Part(slot=name, condition=condition))
        position = end + 1
    parts.append(_plain(text[position:], condition))


def _plain(text: str, condition: str) -> Part:
    if "}" in text:
        raise BadLine("a closing brace without an opening one")
    return Part(text=text, condition=condition)


def _closing(text: str, start: int) -> int:
    depth = 0
    for position in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[position], 0)
        if depth == 0:
            return position
    raise BadLine("an opening brace without a closing one")
