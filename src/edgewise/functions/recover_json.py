"""Reads JSON that a model wrote nearly right: cut off, with single quotes, as Python, or bare."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

DEPTH_LIMIT = 40
_QUOTES = {'"': '"', "'": "'", "`": "`", "\u201c": "\u201d", "\u2018": "\u2019"}
_CLOSERS = {"{": "}", "[": "]", "(": ")"}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_WORDS = {"true": True, "false": False, "null": None, "none": None}
_SPACE = re.compile(r"\s*")
_BARE_NAME = re.compile(r"[\w$.\-]+")
_BARE_VALUE = re.compile(r"[^,}\])\n]*")
_BETWEEN = re.compile(r"\s*(?::|=>?|\uff1a)")
_WHOLE = re.compile(r"[+-]?\d{1,18}")
_DECIMAL = re.compile(r"[+-]?(?:\d{1,18}\.?\d{0,18}|\.\d{1,18})(?:[eE][+-]?\d{1,2})?")
_HEX = re.compile(r"[0-9a-fA-F]{4}")


@dataclass(frozen=True, slots=True)
class Recovered:
    """A value read from a text, where it ended, and how far it was from JSON."""

    value: Any
    end: int
    exact: bool
    cut: bool = False


def recover(text: str, start: int = 0) -> Recovered:
    """The value at `start`. Exact JSON is read as such; anything else as well as it can be."""
    try:
        value, end = _DECODER.raw_decode(text, start)
        return Recovered(value, end, exact=True)
    except (ValueError, RecursionError):
        reader = _Reader(text, start)
        value = reader.value(0)
        return Recovered(value, max(reader.position, start + 1), exact=False, cut=reader.cut)


def recover_arguments(text: str, start: int) -> tuple[list[Any], dict[str, Any], Recovered]:
    """`(1, place="Oslo")` at `start`: what is given by position and what by name."""
    reader = _Reader(text, start)
    positional, named = reader.arguments()
    end = max(reader.position, start + 1)
    return positional, named, Recovered(named, end, exact=False, cut=reader.cut)


def plain(word: str) -> Any:
    """A bare word as what it says: a number, true, false, null, or itself."""
    text = word.strip()
    if text.casefold() in _WORDS:
        return _WORDS[text.casefold()]
    if _WHOLE.fullmatch(text):
        return int(text)
    return float(text) if _DECIMAL.fullmatch(text) else text


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_no_constant)


class _Reader:
    def __init__(self, text: str, start: int) -> None:
        self._text = text
        self.position = start
        self.cut = False
        self._open: list[str] = []  # closing brackets still to come

    def value(self, depth: int) -> Any:
        first = self._peek()
        if first in _CLOSERS and depth < DEPTH_LIMIT:
            return self._object(depth) if first == "{" else self._list(depth)
        if first in _QUOTES:
            return self._string()
        found = _BARE_VALUE.match(self._text, self.position)
        assert found is not None
        self.position = found.end()
        return plain(found.group())

    def arguments(self) -> tuple[list[Any], dict[str, Any]]:
        self._enter()
        positional: list[Any] = []
        named: dict[str, Any] = {}
        while not self._left():
            name = _BARE_NAME.match(self._text, self.position)
            between = _BETWEEN.match(self._text, name.end()) if name else None
            if name and between and "=" in between.group():
                self.position = between.end()
                named[name.group()] = self.value(1)
            else:
                positional.append(self.value(1))
        return positional, named

    def _peek(self) -> str:
        space = _SPACE.match(self._text, self.position)
        assert space is not None
        self.position = space.end()
        return self._text[self.position : self.position + 1]

    def _enter(self) -> None:
        self._open.append(_CLOSERS[self._text[self.position]])
        self.position += 1

    def _left(self) -> bool:
        """Whether the innermost bracket is closed: by its mark, by an outer one, or by the end."""
        while True:
            mark = self._peek()
            if not mark:
                self.cut = True
            elif mark == self._open[-1]:
                self.position += 1
            elif mark not in self._open:
                if mark in ",}])":
                    self.position += 1
                    continue
                return False
            self._open.pop()
            return True

    def _list(self, depth: int) -> list[Any]:
        self._enter()
        items = []
        while not self._left():
            before = self.position
            items.append(self.value(depth + 1))
            if self.position == before:  # nothing could be read here
                self.position += 1
        return items

    def _object(self, depth: int) -> dict[str, Any]:
        self._enter()
        found: dict[str, Any] = {}
        while not self._left():
            name = self._name()
            between = _BETWEEN.match(self._text, self.position) if name is not None else None
            if name is None or between is None:
                if name is None:
                    self.position += 1
                continue
            self.position = between.end()
            if self._peek() in ("", ",", "}"):
                self.cut = self.cut or not self._peek()
                continue
            found[name] = self.value(depth + 1)
        return found

    def _name(self) -> str | None:
        if self._text[self.position] in _QUOTES:
            return self._string()
        bare = _BARE_NAME.match(self._text, self.position)
        if bare is None:
            return None
        self.position = bare.end()
        return bare.group()

    def _string(self) -> str:
        closing = _QUOTES[self._text[self.position]]
        self.position += 1
        parts: list[str] = []
        mark = re.compile(rf"[\\{closing}]")
        while found := mark.search(self._text, self.position):
            parts.append(self._text[self.position : found.start()])
            self.position = found.end()
            if found.group() == "\\":
                parts.append(self._escape())
            elif self._ends_string():
                return _joined(parts)
            else:
                parts.append(closing)  # an apostrophe, or a quotation inside the text
        parts.append(self._text[self.position :])
        self.position = len(self._text)
        self.cut = True
        text = _joined(parts)
        for bracket in self._open:  # `{"place":"Oslo}`: the quote is missing, not the brace
            text = text.rstrip().removesuffix(bracket)
        return text

    def _ends_string(self) -> bool:
        after = self._text[self.position : self.position + 24]
        start = after.lstrip()[:1]
        return not after.strip(" \t") or after[:1] == "\n" or (start != "" and start in ",:}])=")

    def _escape(self) -> str:
        letter = self._text[self.position : self.position + 1]
        self.position += 1
        code = _HEX.match(self._text, self.position) if letter == "u" else None
        if code is None:
            return _ESCAPES.get(letter, letter)
        self.position = code.end()
        return chr(int(code.group(), 16))


def _joined(parts: list[str]) -> str:
    """Text whose halves of surrogate pairs are put together, and lone ones replaced."""
    text = "".join(parts)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
