"""The kinds of personal data that can be kept from leaving, and how they are named in options."""

from __future__ import annotations

import re
from collections.abc import Iterable

# Found by our own patterns. A finder of the settings may add kinds, as NAME.
KINDS = ("EMAIL", "PHONE", "CARD", "IBAN", "IP", "KEY")
ALL = "ALL"  # every kind that can be found

# How options and settings name kinds: True is all of them.
Kinds = bool | str | Iterable[str]

_NAME = re.compile(r"[A-Z][A-Z_]{0,30}[A-Z]")
_WORDS = {"": (), "0": (), "no": (), "false": (), "1": (ALL,), "yes": (ALL,), "true": (ALL,)}


def as_kinds(value: Kinds) -> tuple[str, ...]:
    """The names in capitals, each once: of True, "EMAIL, CARD", or a list. Raises ValueError."""
    if isinstance(value, bool):
        return (ALL,) if value else ()
    if isinstance(value, str):
        known = _WORDS.get(value.strip().lower())
        if known is not None:
            return known
        value = value.split(",")
    names = [name.strip().upper() for name in value]
    for name in names:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not the name of a kind, like {', '.join(KINDS)}")
    return tuple(dict.fromkeys(names))
