"""Typed values that the words of a request say, with where they say them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from edgewise.functions.find_dates import find_dates
from edgewise.functions.find_durations import find_durations
from edgewise.functions.find_names import find_codes, find_literal, find_names
from edgewise.functions.find_numbers import Said, find_numbers
from edgewise.functions.find_times import find_times
from edgewise.types.calls import Found

# Text beyond this is not read: a request is a sentence or a page, not a book.
LONGEST_TEXT = 50_000
# Stands for text that is taken: no pattern matches it, so no value reaches across it.
_TAKEN = "\ufffc"


def find_values(text: str) -> tuple[Found, ...]:
    """All typed values in the order of the text, none overlapping another.

    What is copied literally (quotations, addresses) wins over dates, those over codes, then come
    times, lengths of time, numbers, and last names.
    """
    found: list[Found] = []
    rest = text[:LONGEST_TEXT]
    rest = _take(find_literal(rest), rest, found)
    rest = _take(find_dates(rest), rest, found)
    rest = _take(find_codes(rest), rest, found)
    rest = _take(find_times(rest, text), rest, found)
    numbers = list(find_numbers(rest))
    rest = _take(find_durations(rest, numbers), rest, found)
    rest = _take(_still_there(numbers, rest), rest, found)
    _take(find_names(rest), rest, found)
    return tuple(sorted(found, key=lambda value: value.start))


def find_all_numbers(text: str) -> list[Said]:
    """Every number said, also those inside dates, times, codes and quotations."""
    return list(find_numbers(text[:LONGEST_TEXT]))


def _still_there(numbers: Iterable[Said], rest: str) -> Iterator[Said]:
    return (number for number in numbers if rest[number.start] != _TAKEN)


def _take(values: Iterable[Found], text: str, found: list[Found]) -> str:
    """Keep the values that overlap none before; the text with their places taken."""
    letters = list(text)
    for value in values:
        if value.start < value.end and _TAKEN not in letters[value.start : value.end]:
            found.append(value)
            letters[value.start : value.end] = _TAKEN * (value.end - value.start)
    return "".join(letters)
