"""Where in an answer the tool names and the argument values stand.

The probability of a call is that of its name and its values; braces, quotes and argument names are
forced by the format and say nothing.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from edgewise.functions.tool_prompt import NO_CALL

DEPTH_LIMIT = 64
_DECODER = json.JSONDecoder()
_SPACES = (" ", "\t", "\r", "\n")


@dataclass(frozen=True, slots=True)
class Span:
    """Characters `start` to `end` of an answer: a call's name, or (a part of) an argument's value.

    Strings are given without their quotes; of lists and objects the plain values inside.
    """

    call: int
    argument: str | None  # None: the name of the tool
    start: int
    end: int


def value_spans(answer: str) -> tuple[Span, ...]:
    """The names and values in an answer of the line format, in order.

    `none` is the name of a call that is not made. Text that is not in the format ends the list.
    """
    if answer.strip() == NO_CALL:
        start = answer.index(NO_CALL)
        return (Span(0, None, start, start + len(NO_CALL)),)
    reader = _Reader(answer)
    try:
        while reader.read_call():
            pass
    except (ValueError, IndexError):  # cut off or malformed: what was read before stands
        pass
    return tuple(reader.spans)


def owners(texts: Sequence[str]) -> tuple[Span | None, ...]:
    """For the token texts of an answer, the name or value each belongs to; None: punctuation.

    A token that holds more than one of them belongs to the first.
    """
    spans = value_spans("".join(texts))
    ends = [span.end for span in spans]
    found: list[Span | None] = []
    position = 0
    for text in texts:
        index = bisect_right(ends, position)
        after = position + len(text)
        inside = index < len(spans) and spans[index].start < after
        found.append(spans[index] if inside else None)
        position = after
    return tuple(found)


class _Reader:
    """Walks an answer from its beginning. Raises ValueError or IndexError where it is malformed."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._call = -1
        self.spans: list[Span] = []

    def read_call(self) -> bool:
        start = self._skip()
        brace = self._text.find("{", start)
        name = self._text[start:brace].rstrip()
        if brace < 0 or not name or "\n" in name:
            return False
        self._call += 1
        self.spans.append(Span(self._call, None, start, start + len(name)))
        self._position = brace
        self._read_object(None, 0)
        return True

    def _skip(self) -> int:
        while self._text[self._position : self._position + 1] in _SPACES:
            self._position += 1
        return self._position

    def _take(self, mark: str) -> bool:
        found = self._text[self._skip()] == mark
        self._position += found
        return found

    def _read_object(self, argument: str | None, depth: int) -> None:
        self._take("{")
        while not self._take("}"):
            name, self._position = _DECODER.raw_decode(self._text, self._skip())
            if not self._take(":"):
                raise ValueError("a name without a value")
            self._read_value(str(name) if argument is None else argument, depth + 1)
            self._take(",")

    def _read_value(self, argument: str, depth: int) -> None:
        start = self._skip()
        first = self._text[start]
        if depth > DEPTH_LIMIT:
            raise ValueError("nested too deeply")
        if first == "{":
            self._read_object(argument, depth)
        elif first == "[":
            self._take("[")
            while not self._take("]"):
                self._read_value(argument, depth + 1)
                self._take(",")
        else:
            _, self._position = _DECODER.raw_decode(self._text, start)
            quote = first == '"'
            self.spans.append(Span(self._call, argument, start + quote, self._position - quote))
