"""Which of several names a misspelt one means: a slip of spelling, never a different word."""

from __future__ import annotations

import re
from collections.abc import Iterable

_WORD = re.compile(r"[A-Z]?[^\W\d_A-Z]+|[A-Z]+(?![^\W\d_A-Z])|\d+|[^\W\d_]+")
_LONGEST = 120


def nearest(word: str, names: Iterable[str], limit: int) -> str | None:
    """The name that `word` means, or None where none or more than one could be meant.

    Case, underscores, dots and spaces do not count. Beyond that at most `limit` letters may
    differ, and of each word at most a third: "turn_on" does not mean "turn_off", nor "unlock"
    "lock", though few letters differ.
    """
    candidates = list(dict.fromkeys(names))
    if word in candidates:
        return word
    folded = squashed(word)
    if folded:
        same = [name for name in candidates if squashed(name) == folded]
        if same:
            return same[0] if len(same) == 1 else None
    if len(word) > _LONGEST:
        return None
    found = [(cost, name) for name in candidates if (cost := _slips(word, name, limit)) is not None]
    found.sort()
    if not found or (len(found) > 1 and found[0][0] == found[1][0]):
        return None
    return found[0][1]


def squashed(text: str) -> str:
    """Letters and digits only, in one case."""
    return "".join(letter for letter in text.casefold() if letter.isalnum())


def _slips(word: str, name: str, limit: int) -> int | None:
    """How many letters differ, None if more than slips of spelling would."""
    if abs(len(word) - len(name)) > limit + 4 or len(name) > _LONGEST:
        return None
    ours, theirs = _words(word), _words(name)
    if len(ours) != len(theirs):
        # Words run together or torn apart: one letter may differ, no more.
        ours, theirs, limit = ["".join(ours)], ["".join(theirs)], min(limit, 1)
    total = 0
    for one, other in zip(ours, theirs, strict=True):
        allowed = min(limit - total, max(len(one), len(other)) // 3)
        if one[:1] != other[:1] or (one != other and (one + other).isdigit()):
            return None
        cost = edit_distance(one, other, allowed)
        if cost > allowed:
            return None
        total += cost
    return total


def _words(text: str) -> list[str]:
    return [found.group().casefold() for found in _WORD.finditer(text)]


def edit_distance(one: str, other: str, limit: int) -> int:
    """Letters to insert, leave out or change; `limit + 1` for anything above the limit."""
    if one == other:
        return 0
    if abs(len(one) - len(other)) > limit:
        return limit + 1
    row = list(range(len(other) + 1))
    for index, letter in enumerate(one, start=1):
        previous, row[0] = row[0], index
        for column, their in enumerate(other, start=1):
            change = previous + (letter != their)
            previous = row[column]
            row[column] = min(change, row[column] + 1, row[column - 1] + 1)
        if min(row) > limit:
            return limit + 1
    return min(row[-1], limit + 1)
