"""Orders to switch something on or off, as a text gives them."""

from __future__ import annotations

import re
from collections.abc import Iterator

_VERBS = (
    (True, r"(?:turn|switch|put|flip)(?:ing)? on\b|enabl(?:e|ing)\b|(?:re)?activat(?:e|ing)\b"),
    (False, r"(?:turn|switch|shut|flip)(?:ing)? off\b|disabl(?:e|ing)\b|deactivat(?:e|ing)\b"),
)  # fmt: skip
_ADJACENT = tuple((state, re.compile(rf"\b(?:{verbs})", re.IGNORECASE)) for state, verbs in _VERBS)
_APART = re.compile(
    r"\b(?:turn|switch|put|flip|shut)\s+(?:[\w'\u2019-]+\s+){1,6}?(?P<way>on|off)\b"
    r"(?=\s*(?:$|[.,;!?]|(?:please|now|and|then|again|for|in|at|until|till|thanks)\b))",
    re.IGNORECASE,
)
_OPENING = re.compile(
    r"^\W*(?:(?:please|now|then|also|and|can you|could you|would you|hey)\W+)*"
    r"(?P<verb>start|stop)\s",
    re.IGNORECASE,
)
_NEGATED = re.compile(
    r"\b(?:don['\u2019]?t|do not|not|never|without|no need to|instead of|rather than|stop)\b"
    r"(?:\s+[\w'\u2019]+){0,2}\s*$",
    re.IGNORECASE,
)
_BEFORE = 40


def switch_said(text: str) -> bool | None:
    """True for on, False for off; None if nothing is ordered, if negated, or if both are said."""
    orders = list(_orders(text))
    ways = {state for state, _ in orders}
    if len(ways) != 1 or any(negated for _, negated in orders):
        return None
    return ways.pop()


def _orders(text: str) -> Iterator[tuple[bool, bool]]:
    """Each order to switch: which way, and whether it is negated."""
    for state, pattern in _ADJACENT:
        for match in pattern.finditer(text):
            yield state, _negated(text, match.start())
    for match in _APART.finditer(text):
        yield match["way"].lower() == "on", _negated(text, match.start())
    opening = _OPENING.search(text)
    if opening:
        yield opening["verb"].lower() == "start", False


def _negated(text: str, place: int) -> bool:
    return bool(_NEGATED.search(text[max(0, place - _BEFORE) : place]))
