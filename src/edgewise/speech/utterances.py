"""Words into utterances: segments that begin and end where nobody speaks.

Whisper ends a segment where a line of a subtitle would be full, in the middle of a sentence. Sound
that is cut there loses half a word on each side, and what is in doubt is mixed with what is not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from edgewise.types.transcripts import Heard, Word

PAUSE_S = 0.3  # between two words, or less where voice activity hears nobody
LONGEST_S = 12.0  # of an utterance; a longer one is cut at its widest gap
JOINED_S = 8.0  # up to which what was said in one breath stays together
BREATH_S = 0.7  # a pause inside a sentence
_ENDS = (".", "?", "!", "。", "？", "！")  # noqa: RUF001 - other languages have other marks

# Whether somebody speaks all the time between two moments.
Speaking = Callable[[float, float], bool]
Item = tuple[Word, int]  # a word, and the number of the stretch it was heard in


def into_utterances(heard: Sequence[Heard], speaking: Speaking) -> list[Heard]:
    """The same words, divided at pauses. Stretches without times of words stay as they are."""
    if not all(each.words for each in heard):
        return list(heard)
    items = [(word, number) for number, each in enumerate(heard) for word in each.words]
    parts: list[list[Item]] = []
    for item in items:
        if parts and not _pauses(parts[-1][-1][0], item[0], speaking):
            parts[-1].append(item)
        else:
            parts.append([item])
    whole = [piece for part in _joined(parts) for piece in _shortened(part)]
    return [_utterance(part, heard) for part in whole]


def _pauses(word: Word, following: Word, speaking: Speaking) -> bool:
    gap = following.start - word.end
    return gap >= PAUSE_S or (gap >= 0.05 and not speaking(word.end, following.start))


def _joined(parts: Sequence[list[Item]]) -> list[list[Item]]:
    """Pieces of one sentence, as far as they are short: context helps whoever hears them."""
    found: list[list[Item]] = []
    for part in parts:
        if found and _belong(found[-1], part):
            found[-1] = found[-1] + part
        else:
            found.append(list(part))
    return found


def _belong(before: Sequence[Item], part: Sequence[Item]) -> bool:
    last, first = before[-1][0], part[0][0]
    return (
        first.start - last.end < BREATH_S
        and part[-1][0].end - before[0][0].start <= JOINED_S
        and not last.text.endswith(_ENDS)
    )


def _shortened(part: list[Item]) -> list[list[Item]]:
    if len(part) < 2 or part[-1][0].end - part[0][0].start <= LONGEST_S:
        return [part]
    middle = (part[0][0].start + part[-1][0].end) / 2

    def width(index: int) -> tuple[float, bool, float]:
        word, following = part[index - 1][0], part[index][0]
        gap = round(following.start - word.end, 1)
        return gap, word.text.endswith(_ENDS), -abs(word.end - middle)

    cut = max(range(1, len(part)), key=width)
    return [*_shortened(part[:cut]), *_shortened(part[cut:])]


def _utterance(part: Sequence[Item], heard: Sequence[Heard]) -> Heard:
    numbers = [number for _, number in part]
    source = heard[max(set(numbers), key=numbers.count)]  # the evidence of where most of it is
    words = tuple(word for word, _ in part)
    texts = [
        text_of([word for word, own in part if own == number], heard[number])
        for number in dict.fromkeys(numbers)
    ]
    return replace(
        source, start=words[0].start, end=words[-1].end, text=" ".join(texts), words=words
    )


def text_of(words: Sequence[Word], heard: Heard) -> str:
    """Some words of a stretch as they are written in it: not every language has spaces."""
    begin, place = None, 0
    first = next((i for i, word in enumerate(heard.words) if word is words[0]), 0)
    for word in heard.words[: first + len(words)]:
        found = heard.text.find(word.text, place)
        if found < 0:
            return " ".join(each.text for each in words)
        if word is words[0]:
            begin = found
        place = found + len(word.text)
    return heard.text[begin:place].strip()
