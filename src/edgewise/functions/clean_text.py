"""Takes from a string what a model put around it, and nothing of what the user said."""

from __future__ import annotations

import re

_PAIRS = {'"': '"', "'": "'", "`": "`", "\u201c": "\u201d", "\u2018": "\u2019", "\u00ab": "\u00bb"}
# "p.m.", "U.S.", "J.": the full stop belongs to the word.
_ABBREVIATION = re.compile(r"(?:^|[\s.])[^\W\d_]\.$")


def clean_text(text: str, request: str = "") -> str:
    """The text without surrounding quotes and spaces, and without the request's own full stop.

    Text that is nothing but quotes or spaces is left as it is: it may be a separator.
    """
    found = text
    while True:
        shorter = _without_full_stop(_unquoted(found.strip()), request)
        if not shorter.strip() or shorter == found:
            return found
        found = shorter


def _unquoted(text: str) -> str:
    closing = _PAIRS.get(text[:1])
    if closing is None or len(text) < 3 or not text.endswith(closing):
        return text
    inside = text[1:-1]
    # 'tis the Night's end': more quotes inside, so these two need not be a pair.
    return text if closing in inside or text[0] in inside else inside


def _without_full_stop(text: str, request: str) -> str:
    said = request.rstrip()
    if not text.endswith(".") or text.endswith("..") or _ABBREVIATION.search(text):
        return text
    ends_request = said.casefold().endswith(text.casefold()) and said.casefold() != text.casefold()
    return text[:-1].rstrip() or text if ends_request else text
