"""How many words were transcribed wrongly, in all and by segment."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

_ONES = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
    "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen",
    "nineteen",
)  # fmt: skip
_TENS = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
# Spellings that differ between writers.
_SAME = {
    "mr": "mister", "mrs": "missus", "dr": "doctor", "ok": "okay", "voicemail": "voice mail",
    "colour": "color", "grey": "gray", "neighbour": "neighbor", "centre": "center",
    "favourite": "favorite", "goodbye": "good bye", "cannot": "can not",
}  # fmt: skip
_SHORT = {
    "it's": "it is", "that's": "that is", "i'm": "i am", "don't": "do not", "can't": "can not",
    "won't": "will not", "you're": "you are", "we're": "we are", "i'd": "i would",
    "isn't": "is not", "doesn't": "does not", "didn't": "did not", "there's": "there is",
}  # fmt: skip


def plain_words(text: str) -> list[str]:
    """Words without case, marks and spelling habits; numbers up to 99 in words."""
    text = unicodedata.normalize("NFKC", text).replace("\u2019", "'").casefold()
    text = re.sub(r"[\[(][^\])]*[\])]", " ", text)  # a model's notes about noises
    words: list[str] = []
    for word in re.findall(r"\d+|[^\W\d_]+(?:'[^\W\d_]+)*", text):
        spelled = _number(word) if word.isdigit() else _SAME.get(word) or _SHORT.get(word, word)
        words += spelled.replace("'", "").split()
    return words


def _number(digits: str) -> str:
    value = int(digits)
    if value < 20:
        return _ONES[value]
    if value < 100:
        return f"{_TENS[value // 10]} {_ONES[value % 10] if value % 10 else ''}".strip()
    return " ".join(_ONES[int(digit)] for digit in digits)


@dataclass(frozen=True, slots=True)
class WordErrors:
    """Errors, and the number of words that were said."""

    errors: int
    words: int

    @property
    def rate(self) -> float:
        return self.errors / self.words if self.words else float(self.errors > 0)

    def __add__(self, other: WordErrors) -> WordErrors:
        return WordErrors(self.errors + other.errors, self.words + other.words)


def word_errors(said: str, heard: str) -> WordErrors:
    return errors_by_segment(said, [heard])[0]


def errors_by_segment(said: str, heard: Sequence[str]) -> list[WordErrors]:
    """Each segment's errors, by the best alignment of all segments with what was said.

    A missing word belongs to the segment in which, or before which, it is missing.
    """
    segments = [plain_words(text) for text in heard]
    owners = [number for number, words in enumerate(segments) for _ in words]
    hypothesis = [word for words in segments for word in words]
    errors, words = [0] * len(segments), [0] * len(segments)
    for reference, position, wrong in _alignment(plain_words(said), hypothesis):
        if not segments:
            break
        owner = owners[min(position, len(owners) - 1)] if owners else 0
        errors[owner] += wrong
        words[owner] += reference
    if not segments:
        return []
    return [WordErrors(*pair) for pair in zip(errors, words, strict=True)]


def said_in_segments(said: str, heard: Sequence[str]) -> list[str]:
    """What was said in each segment, by the same alignment: a perfect transcript."""
    segments = [plain_words(text) for text in heard]
    owners = [number for number, words in enumerate(segments) for _ in words]
    found: list[list[str]] = [[] for _ in segments]
    following = iter(plain_words(said))
    for reference, position, _ in _alignment(plain_words(said), [w for s in segments for w in s]):
        if reference and found:
            owner = owners[min(position, len(owners) - 1)] if owners else 0
            found[owner].append(next(following))
    return [" ".join(words) for words in found]


def _alignment(said: Sequence[str], heard: Sequence[str]) -> list[tuple[int, int, int]]:
    """Steps of the cheapest alignment: words said (0 or 1), place in `heard`, errors (0 or 1)."""
    rows = [list(range(len(heard) + 1))]
    for number, word in enumerate(said, start=1):
        above, row = rows[-1], [number]
        for place, other in enumerate(heard, start=1):
            swap = above[place - 1] + (word != other)
            row.append(min(swap, above[place] + 1, row[place - 1] + 1))
        rows.append(row)
    steps: list[tuple[int, int, int]] = []
    i, j = len(said), len(heard)
    while i or j:
        if i and j and rows[i][j] == rows[i - 1][j - 1] + (said[i - 1] != heard[j - 1]):
            i, j = i - 1, j - 1
            steps.append((1, j, int(said[i] != heard[j])))
        elif i and rows[i][j] == rows[i - 1][j] + 1:
            i -= 1
            steps.append((1, j, 1))
        else:
            j -= 1
            steps.append((0, j, 1))
    return steps[::-1]
