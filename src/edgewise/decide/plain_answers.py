"""Brings answers to plain words and digits, so that they can be compared."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence


def normalise(text: str, *, keep_case: bool = False) -> str:
    """Plain words, single spaces: no accents, markup or punctuation, numbers as digits."""
    text = unicodedata.normalize("NFKD", text)
    text = "".join(character for character in text if not unicodedata.combining(character))
    text = re.sub(r"(?<=\d),(?=\d{3}\b)", "", text)  # 1,000 is one number; 2,4,6 are three
    text = re.sub(r"['\u2019](s\b)?", r" \1", text)
    words = re.findall(r"\d+\.\d+|\w+", text.replace("_", " "))
    return _digits(words if keep_case else [word.lower() for word in words])


_UNIT_WORDS = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
sixteen seventeen eighteen nineteen
"""
_TEN_WORDS = "twenty thirty forty fifty sixty seventy eighty ninety"
_UNITS = {word: value for value, word in enumerate(_UNIT_WORDS.split())}
_TENS = {word: 10 * value for value, word in enumerate(_TEN_WORDS.split(), start=2)}


def _digits(words: Sequence[str]) -> str:
    """Spell numbers in digits. "one" stays: it is a pronoun more often than a number."""
    out: list[str] = []
    open_tens = False
    for word in words:
        plain = word.lower()
        if open_tens and 1 <= _UNITS.get(plain, 0) <= 9:
            out[-1] = str(int(out[-1]) + _UNITS[plain])
        elif plain in _TENS:
            out.append(str(_TENS[plain]))
        elif plain in _UNITS and plain != "one":
            out.append(str(_UNITS[plain]))
        else:
            out.append(word)
        open_tens = plain in _TENS
    return " ".join(out)
