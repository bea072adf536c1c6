"""Record `edgewise demo` as a moving SVG: `python scripts/record_terminal.py docs/images/demo.svg`.

The recording is real. The demo runs in a terminal (a pty). Each piece of its output appears when
it came; long waits are cut short, and the home folder is written as ~. The SVG holds text and CSS
only: it needs no script, fetches nothing, and follows a light or dark page. Linux and macOS only.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import sys
import termios
import time
from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path

COMMAND = ["edgewise", "demo", "--yes"]
COLUMNS, ROWS = 100, 20
CHARACTER, LINE, MARGIN = 7.85, 18, 14
SHORTEST_S, LONGEST_S, LAST_S = 0.12, 1.5, 5.0
COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")

Frame = tuple[float, list[str]]  # seconds that it is shown, and all lines so far as SVG


class Screen:
    """As much of a terminal as the demo uses: lines, erasing, going up, colours."""

    def __init__(self) -> None:
        self.lines: list[list[tuple[str, str]]] = [[]]  # characters, each with its classes
        self.row = self.column = 0
        self.style: set[str] = set()

    def feed(self, text: str) -> None:
        for piece in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|.", text, re.S):
            if piece.startswith("\x1b["):
                self._control(piece[2:-1], piece[-1])
            elif piece == "\n":
                self.row += 1
                self.lines.extend([[]] if self.row == len(self.lines) else [])
            elif piece == "\r":
                self.column = 0
            elif piece >= " ":
                line = self.lines[self.row]
                line.extend([(" ", "")] * (self.column + 1 - len(line)))
                line[self.column] = (piece, " ".join(sorted(self.style)))
                self.column += 1

    def _control(self, numbers: str, letter: str) -> None:
        if letter == "m":
            for number in numbers.split(";"):
                self._restyle(int(number or 0))
        elif letter == "K":
            del self.lines[self.row][0 if numbers == "2" else self.column :]
        elif letter == "A":
            self.row = max(0, self.row - int(numbers or 1))

    def _restyle(self, number: int) -> None:
        if number in (0, 39):
            self.style -= {"bold", "dim", *COLOURS} if number == 0 else set(COLOURS)
        elif number in (1, 2):
            self.style.add("bold" if number == 1 else "dim")
        elif 30 <= number < 38 or 90 <= number < 98:
            self.style -= set(COLOURS)
            self.style.add(COLOURS[number % 10])


def as_svg(cells: list[tuple[str, str]]) -> str:
    """One line; neighbours of the same style are one piece."""
    parts: list[tuple[str, str]] = []
    for character, style in cells:
        if parts and parts[-1][1] == style:
            parts[-1] = (parts[-1][0] + character, style)
        else:
            parts.append((character, style))
    written = (
        f'<tspan class="{style}">{escape(text)}</tspan>' if style else escape(text)
        for text, style in parts
    )
    return "".join(written).rstrip()


def output(command: list[str]) -> Iterator[tuple[float, str]]:
    """(seconds since the piece before, text) of a command that runs in a terminal."""
    process, terminal = pty.fork()
    if process == 0:
        time.sleep(0.2)  # until the terminal has its size
        os.execvp(command[0], command)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    before = time.monotonic()
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # how Linux says that the other end is closed
            break
        now = time.monotonic()
        yield now - before, piece.decode("utf-8", "replace").replace(str(Path.home()), "~")
        before = now
    os.waitpid(process, 0)
    os.close(terminal)


def frames(pieces: Iterable[tuple[float, str]]) -> Iterator[Frame]:
    screen, waited = Screen(), 0.0
    for seconds, text in pieces:
        waited += min(seconds, LONGEST_S)
        if waited >= SHORTEST_S:
            yield waited, [as_svg(line) for line in screen.lines]
            waited = 0.0
        screen.feed(text)
    yield LAST_S, [as_svg(line) for line in screen.lines]


def svg(shown: list[Frame]) -> str:
    """A line is an element, visible from one moment of the loop to another; the page scrolls."""
    total = sum(seconds for seconds, _ in shown)
    spans: dict[tuple[int, str], list[list[float]]] = {}
    scroll: dict[int, float] = {}  # rows out of sight, and since when
    now = 0.0
    for seconds, lines in shown:
        scroll.setdefault(max(0, len(lines) - ROWS), now)
        for row, line in enumerate(lines):
            if not line:
                continue
            times = spans.setdefault((row, line), [])
            if not times or times[-1][1] < now:  # new, or here again
                times.append([now, now])
            times[-1][1] = now + seconds
        now += seconds
    rules: list[str] = []
    texts: list[str] = []
    for (row, line), times in spans.items():
        name = f"t{len(texts)}"
        texts.append(f'<text id="{name}" x="{MARGIN}" y="{(row + 0.7) * LINE:g}">{line}</text>')
        stops = "".join(
            f"{100 * start / total:.2f}%{{opacity:1}}{100 * end / total:.2f}%{{opacity:0}}"
            for start, end in times
        ).removesuffix("100.00%{opacity:0}")
        rules.append(f"@keyframes {name}{{0%{{opacity:0}}{stops}}}#{name}{{animation-name:{name}}}")
    moves = "".join(
        f"{100 * since / total:.2f}%{{transform:translateY(-{rows * LINE}px)}}"
        for rows, since in scroll.items()
    )
    rules.append(f"@keyframes scroll{{{moves}}}")
    names = {"width": f"{COLUMNS * CHARACTER + 2 * MARGIN:g}", "height": f"{ROWS * LINE:g}"}
    names |= {"outer": f"{ROWS * LINE + 2 * MARGIN:g}", "margin": f"{MARGIN}"}
    names |= {"total": f"{total:.1f}", "rules": "\n".join(rules), "texts": "\n".join(texts)}
    return re.sub(r"@(\w+)@", lambda found: names[found[1]], PAGE)


PAGE = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 @width@ @outer@" role="img" \
aria-label="edgewise demo in a terminal">
<style>
rect{fill:#f6f8fa}
text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#1f2328;white-space:pre}
text,#page{animation:@total@s step-end infinite}
#page{animation-name:scroll}
.bold{font-weight:700}.dim{fill:#59636e}.green{fill:#116329}.red{fill:#b62324}
.yellow{fill:#7d4e00}.blue,.cyan{fill:#0550ae}.magenta{fill:#6639ba}
@media(prefers-color-scheme:dark){
rect{fill:#0d1117}text{fill:#e6edf3}.dim{fill:#9198a1}.green{fill:#56d364}.red{fill:#ff7b72}
.yellow{fill:#e3b341}.blue,.cyan{fill:#79c0ff}.magenta{fill:#d2a8ff}}
@media(prefers-reduced-motion:reduce){text,#page{animation-duration:1s;animation-delay:-.999s;\
animation-play-state:paused}}
@rules@
</style>
<rect width="@width@" height="@outer@" rx="8"/>
<svg y="@margin@" width="@width@" height="@height@"><g id="page">
@texts@
</g></svg>
</svg>
"""


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(svg(list(frames(output(COMMAND)))), "utf-8")
