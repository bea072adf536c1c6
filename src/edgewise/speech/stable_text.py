"""Which words of live speech are settled: those that two hypotheses in a row agree on.

Pure. A hypothesis is all that a model hears in an utterance so far; the next one has more sound to
go by. Words that both begin with are settled and never taken back (local agreement of two).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from edgewise.types.transcripts import Word


class StableText:
    """The words of one utterance: `settled`, which only grows, and `pending`, which may change."""

    def __init__(self) -> None:
        self.settled: list[Word] = []
        self.pending: tuple[Word, ...] = ()

    @property
    def end(self) -> float:
        """When the last settled word ends."""
        return self.settled[-1].end if self.settled else 0.0

    def offer(self, hypothesis: Sequence[Word]) -> tuple[Word, ...]:
        """The words that this hypothesis settles."""
        rest = hypothesis[self._place_in(hypothesis) :]
        agreed = 0
        for before, now in zip(self.pending, rest, strict=False):
            if plain(before) != plain(now):
                break
            agreed += 1
        return self._settle(rest, agreed)

    def finish(self, hypothesis: Sequence[Word]) -> tuple[Word, ...]:
        """The words that are left, settled by the last hypothesis alone: nothing more is said."""
        rest = hypothesis[self._place_in(hypothesis) :]
        return self._settle(rest, len(rest))

    def _settle(self, rest: Sequence[Word], count: int) -> tuple[Word, ...]:
        new = []
        for word in rest[:count]:
            start = max(word.start, self.end)
            new.append(replace(word, start=start, end=max(word.end, start)))
            self.settled.append(new[-1])
        self.pending = tuple(rest[count:])
        return tuple(new)

    def _place_in(self, hypothesis: Sequence[Word]) -> int:
        """How many words of a hypothesis are the settled ones, some perhaps heard differently.

        The beginning with the fewest differences; among equals, the one that ends when they do.
        """
        differences = list(range(len(hypothesis) + 1))
        for word in self.settled:
            before, said = differences, plain(word)
            differences = [before[0] + 1]
            for index, other in enumerate(hypothesis):
                changed = before[index] + (plain(other) != said)
                differences.append(min(changed, before[index + 1] + 1, differences[-1] + 1))

        def how_far(count: int) -> tuple[int, float]:
            end = hypothesis[count - 1].end if count else 0.0
            return differences[count], abs(end - self.end)

        return min(range(len(hypothesis) + 1), key=how_far)


def plain(word: Word) -> str:
    """A word as it is compared: without case and punctuation."""
    return re.sub(r"[^\w]+", "", word.text).casefold() or word.text


@dataclass(slots=True)
class Captions:
    """The whole confirmed text: ended segments by their id, and the settled words of the open one.

    It only grows, unless a segment is corrected.
    """

    _ended: dict[int, str] = field(default_factory=dict)
    _before: str = ""  # the ended ones, joined
    _open: str = ""

    @property
    def text(self) -> str:
        return _joined(self._before, self._open)

    def say(self, words: Sequence[Word]) -> None:
        """More settled words of the open segment."""
        self._open = _joined(self._open, " ".join(word.text for word in words))

    def end(self, number: int | None) -> str:
        """The open segment has ended and has this id, None where nothing was said; its text."""
        text, self._open = self._open, ""
        if number is not None:
            self._ended[number] = text
            self._before = _joined(self._before, text)
        return text

    def correct(self, number: int, text: str) -> None:
        """Another text for one segment; no other changes."""
        if self._ended[number] != text:
            self._ended[number] = text
            self._before = " ".join(each for each in self._ended.values() if each)


def _joined(before: str, after: str) -> str:
    return f"{before} {after}" if before and after else before or after
