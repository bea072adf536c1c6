"""What a speech model makes up: loops, and words where nobody spoke."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence

from edgewise.types.transcripts import Heard, Word

MOST_COMPRESSED = 2.4  # Whisper's own limit: text that packs better is a loop
LEAST_TEXT = 60  # bytes below which packing says nothing
LONGEST_LOOP = 8  # words
# How often in a row a run of so many words may come; people do say "no, no, no".
_ALLOWED = {1: 5, 2: 3, 3: 3}
_ALLOWED_LONGER = 2
LEAST_VOICE = 0.1  # mean chance of a voice in a segment, or nobody spoke; noise hides voices
LIKELY_SILENT, GUESSING = 0.6, -1.0  # no-speech chance and mean log-probability


def compression(text: str) -> float:
    """How much smaller zlib makes a text; 1 for one that is too short to tell."""
    data = text.encode()
    return len(data) / len(zlib.compress(data)) if len(data) >= LEAST_TEXT else 1.0


def loop_in(words: Sequence[str]) -> tuple[int, int, int] | None:
    """A run of words that comes too often in a row: where it starts, its length, how often."""
    plain = [re.sub(r"\W+", "", word).casefold() for word in words]
    for length in range(1, LONGEST_LOOP + 1):
        start = 0
        while start + length <= len(plain):
            times = _times(plain, start, length)
            if times > _ALLOWED.get(length, _ALLOWED_LONGER) and any(plain[start : start + length]):
                return start, length, times
            start += 1
    return None


def _times(words: Sequence[str], start: int, length: int) -> int:
    run, times = words[start : start + length], 1
    while words[start + times * length : start + (times + 1) * length] == run:
        times += 1
    return times


def without_loops(heard: Heard) -> tuple[str, tuple[Word, ...], bool]:
    """The text and words with each loop said once, and whether there was one."""
    if not heard.words:
        tokens, found = heard.text.split(), False
        while (loop := loop_in(tokens)) is not None:
            start, length, times = loop
            del tokens[start + length : start + times * length]
            found = True
        text = " ".join(tokens) if found else heard.text
        return text, (), found or compression(heard.text) > MOST_COMPRESSED
    words, found = list(heard.words), False
    while (loop := loop_in([word.text for word in words])) is not None:
        start, length, times = loop
        del words[start + length : start + times * length]
        found = True
    text = " ".join(word.text for word in words) if found else heard.text
    return text, tuple(words), found or compression(heard.text) > MOST_COMPRESSED


def made_up(heard: Heard, voice: Sequence[float]) -> str:
    """The code of why these words were never said; empty where they may have been."""
    if not re.search(r"\w", heard.text):
        return "silence"
    if voice and sum(voice) < LEAST_VOICE * len(voice):
        return "silence"
    if heard.no_speech > LIKELY_SILENT and heard.mean_logprob < GUESSING:
        return "no_speech"
    return ""
