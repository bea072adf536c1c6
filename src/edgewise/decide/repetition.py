"""Repetition is evidence: an answer that goes round in circles, or repeats an earlier turn."""

from __future__ import annotations

import re
from collections.abc import Iterable

LOOKED_EVERY = 8  # tokens
LONGEST_CIRCLE = 48  # tokens that come again and again
LEAST_ROUNDS = 3
LEAST_REPEATED = 24  # tokens in the circles together: "ha ha ha" is no loop
LEAST_WORDS = 4  # of an answer that counts as repeated: "Yes." may be right twice

_WORD = re.compile(r"\w+")


class RepetitionWatch:
    """Takes the texts of tokens, and says when they go round in circles."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    def add(self, text: str) -> bool:
        """Whether the answer repeats itself by now. Looks at every eighth token."""
        self._texts.append(text)
        return len(self._texts) % LOOKED_EVERY == 0 and self._circles()

    def _circles(self) -> bool:
        texts = self._texts
        for length in range(1, min(LONGEST_CIRCLE, len(texts) // LEAST_ROUNDS) + 1):
            repeated = max(LEAST_ROUNDS * length, LEAST_REPEATED)
            if repeated > len(texts):
                continue
            tail = texts[-repeated:]
            # Dashes of a table or dots of a list say nothing; words that come again do.
            if tail[length:] == tail[:-length] and any(map(_WORD.search, tail[-length:])):
                return True
        return False


def repeats_a_turn(answer: str, earlier: Iterable[str]) -> bool:
    """Whether an answer of some length is one that was given before, word for word."""
    words = _words(answer)
    return len(words) >= LEAST_WORDS and any(_words(turn) == words for turn in earlier)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())
