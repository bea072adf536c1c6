"""Breaks streamed text between words, for terminals; pieces go in, pieces come out."""

from __future__ import annotations

from rich.cells import cell_len


class WordWrap:
    """Holds a word back until it is whole, then puts it on this line or the next.

    Scripts without spaces are let through character by character: a word that never ends would
    hold the stream back for good.
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self._column = 0
        self._gap = ""
        self._word = ""

    def feed(self, text: str) -> str:
        return "".join(map(self._take, text))

    def flush(self) -> str:
        """What is still held back, at the end of a line."""
        held = self._place()
        self._gap, self._column = "", 0
        return held

    def _take(self, character: str) -> str:
        if character == "\n":
            return self.flush() + character
        if character.isspace():
            held = self._place()
            self._gap += character
            return held
        if cell_len(character) > 1:
            before, self._word = self._place(), character
            return before + self._place()
        self._word += character
        return ""

    def _place(self) -> str:
        """The pending word, with the gap before it or, where it does not fit, on a new line."""
        word, gap = self._word, self._gap
        if not word:
            return ""
        self._word = self._gap = ""
        needed = cell_len(gap.expandtabs(8)) + cell_len(word)
        if self._column and self._column + needed > self._width:
            self._column = self._after(cell_len(word))
            return f"\n{word}"
        self._column = self._after(self._column + needed)
        return gap + word

    def _after(self, cells: int) -> int:
        """The column behind a word that the terminal itself may have had to break."""
        return (cells - 1) % self._width + 1
