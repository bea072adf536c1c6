"""One convention for articles: what names a thing is copied without the article before it."""

from __future__ import annotations

import re

_LEADING = re.compile(r"(?:the|an?) (?=\w)")
_ON_A_DAY = re.compile(r"on (?=the \d|[A-Z]|\d)")
# Sentences keep theirs, and so do times: "the 14th", "a week from now".
_SENTENCE = frozenset(
    ("is", "are", "was", "were", "has", "have", "had", "arrived", "landed", "closes", "opens",
     "two", "says", "said", "moved", "please", "recommended", "starts", "called", "will", "can",
     "asked")
)  # fmt: skip
_TIMES = re.compile(
    r"\b(\d+\w*|first|last|next|day|week|weekend|month|year|hour|minute|second|morning|afternoon|"
    r"evening|night|fortnight|couple|few|bit|lot|little|half|quarter|dozen|while|end|moment)s?\b"
)
LONGEST = 4


def without_article(text: str) -> str:
    """ "the passport renewal" → "passport renewal"; names ("The Who") and sentences stay."""
    day = _ON_A_DAY.match(text)
    if day:
        return text[day.end() :]
    match = _LEADING.match(text)
    rest = text[match.end() :] if match else ""
    words = rest.split()
    if not words or len(words) > LONGEST or "," in rest or _SENTENCE & set(words):
        return text
    return text if _TIMES.search(rest) else rest
