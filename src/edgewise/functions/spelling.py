"""Which characters a model can be made to write, and JSON that needs no others.

A vocabulary has tokens for every byte of ordinary text. It may lack those of control characters
and of planes that Unicode left empty: a grammar that asks for one leads nowhere, which ends the
runtime and the process with it. JSON can spell any character in ASCII instead.
"""

from __future__ import annotations

import json
import re
from typing import Any

# Code points, both ends included. Quote and backslash are here: JSON escapes them by itself.
PLAIN = ((0x20, 0x7E), (0xA0, 0xD7FF), (0xE000, 0xFFFD), (0x10000, 0x3FFFF))

# The bytes that these are made of: all of ASCII's but the controls, and UTF-8's up to 0xF0.
PLAIN_BYTES = frozenset((*range(0x20, 0x7F), *range(0x80, 0xC0), *range(0xC2, 0xF1)))


_ODD = re.compile(f"[^{''.join(f'{chr(low)}-{chr(high)}' for low, high in PLAIN)}]")


def is_plain(text: str) -> bool:
    """Whether every vocabulary can spell this text."""
    return _ODD.search(text) is None


def escaped(letter: str) -> str:
    """A character as JSON spells it in ASCII: one escape, or two beyond the first plane."""
    data = letter.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{data[at : at + 2].hex()}" for at in range(0, len(data), 2))


def spelled_json(value: Any) -> str:
    """Compact JSON. Raises TypeError or ValueError for what JSON cannot write."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    # Beside its strings, JSON has plain characters only.
    return _ODD.sub(lambda odd: escaped(odd[0]), text)
