"""Cut a text into passages: whole paragraphs where they fit, lines or words where they do not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from edgewise.types.passages import Passage

MOST_WORDS = 180  # about what the default model reads in one window

_Line = tuple[int, str]


def cut_into_passages(text: str, most_words: int = MOST_WORDS) -> list[Passage]:
    """Every word of `text` is in exactly one passage, in order; none of them is empty."""
    passages: list[Passage] = []
    held: list[_Line] = []
    words = 0
    for block in _blocks(text, most_words):
        count = sum(len(line.split()) for _, line in block)
        if held and words + count > most_words:
            passages.append(_passage(held))
            held, words = [], 0
        held += block
        words += count
    if held:
        passages.append(_passage(held))
    return passages


def _passage(lines: list[_Line]) -> Passage:
    """Blank lines between paragraphs come back as one."""
    text, before = "", lines[0][0]
    for number, line in lines:
        gap = (
            "" if not text else "\n\n" if number > before + 1 else "\n" if number > before else " "
        )
        text, before = text + gap + line, number
    return Passage(lines[0][0], lines[-1][0], text)


def _blocks(text: str, most_words: int) -> Iterator[list[_Line]]:
    """Paragraphs; those that are too long as pieces of lines that are not."""
    for paragraph in _paragraphs(text):
        if sum(len(line.split()) for _, line in paragraph) <= most_words:
            yield paragraph
        else:
            for line in paragraph:
                yield from _pieces(line, most_words)


def _paragraphs(text: str) -> Iterator[list[_Line]]:
    paragraph: list[_Line] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            paragraph.append((number, line.rstrip()))
        elif paragraph:
            yield paragraph
            paragraph = []
    if paragraph:
        yield paragraph


def _pieces(line: _Line, most_words: int) -> Iterable[list[_Line]]:
    number, text = line
    words = text.split()
    if len(words) <= most_words:
        return [[line]]
    starts = range(0, len(words), most_words)
    return [[(number, " ".join(words[start : start + most_words]))] for start in starts]
