"""How replies, money and times look in a terminal. Everything makes sense without colour."""

from __future__ import annotations

import datetime
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.segment import Segment, Segments
from rich.status import Status
from rich.style import Style
from rich.text import Text
from typing_extensions import override

from edgewise.cli.streams import echo, print_json, printable
from edgewise.types.replies import Event, Finished, Reply, Switched, TextDelta, doubt_of

__all__ = [
    "Screen",
    "Waiting",
    "confidence",
    "console",
    "dollars",
    "download_bar",
    "megabytes",
    "milliseconds",
    "pass_bar",
    "print_json",
    "show_answer",
    "summary",
    "why",
]
COLOURS = {"local": "green", "cloud": "cyan", "mixed": "yellow", "none": "magenta"}
PLACES = {"local": "device", "cloud": "cloud", "mixed": "cloud, then device", "none": "nobody yet"}
UNLIMITED_WIDTH = 10_000
Part = str | tuple[str, str]


class WordWrap:
    """Holds a word back until it is whole, then puts it on this line or the next.

    Text in scripts without spaces passes character by character: its words never end, and would
    hold the stream back for ever.
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
        """The pending word: after a gap, or on a new line if it does not fit."""
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
        """The column after a word that the terminal itself may have broken."""
        return (cells - 1) % self._width + 1


class Screen(Console):
    """A terminal or a pipe. No markup, no emoji codes: text may come from a model. Nor does any
    escape of it arrive, whoever built the line: only rich's own do.

    In a terminal lines break between words; in a pipe or a file they do not break.
    """

    def __init__(self, *, stderr: bool = False) -> None:
        stream = sys.stderr if stderr else sys.stdout
        width = None if stream.isatty() else UNLIMITED_WIDTH
        super().__init__(stderr=stderr, highlight=False, markup=False, emoji=False, width=width)

    def say(self, *parts: Part, to_copy: bool = False) -> None:
        """One line of parts, each a text or a (text, style). A line to copy is never broken."""
        pairs = [(part, "") if isinstance(part, str) else part for part in parts]
        self.print(Text.assemble(*pairs), soft_wrap=to_copy)

    @override
    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterator[Segment]:
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else printable(text), style, control)

    @override
    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # rich would exit with 1 by itself


def console(*, stderr: bool = False) -> Screen:
    return Screen(stderr=stderr)


class Waiting:
    """A sign of life on standard error, in a terminal only. ASCII, for any encoding."""

    def __init__(self, side: Screen, message: str) -> None:
        self._status: Status | None = None
        self._message = message
        if side.is_terminal:
            self._status = side.status(message, spinner="line")

    def __enter__(self) -> Waiting:
        self.start(self._message)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self, message: str | None = None) -> None:
        if self._status is not None:
            self._status.update(message)
            self._status.start()

    def stop(self) -> None:
        if self._status is not None:
            self._status.stop()


class Voice:
    """Prints one answer piece by piece. In a terminal, lines break between words.

    In a pipe the answer is data: no character is changed.
    """

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._wrap = WordWrap(screen.width)
        self._style = Style.null()
        self._ends_line = True

    def speak(self, text: str, style: str) -> None:
        self._style, self._ends_line = Style.parse(style), text.endswith("\n")
        self._out(self._wrap.feed(printable(text)) if self._screen.is_terminal else text)

    def end_line(self) -> None:
        """Print what is held back, and end the line."""
        self._out(self._wrap.flush() + ("" if self._ends_line else "\n"))
        self._ends_line = True

    def _out(self, text: str) -> None:
        if self._screen.is_terminal:
            self._screen.print(Segments([Segment(text, self._style)]), end="", crop=False)
        else:  # past rich, which would turn tabs into spaces
            self._screen.file.write(text)
            self._screen.file.flush()


def show_answer(
    events: Iterable[Event], screen: Screen, side: Screen, waiting: Waiting | None = None
) -> Reply:
    """Stream an answer: its text to `screen`, everything else to `side`.

    `waiting` is the sign of life, for a caller who has to stop it in the middle.
    """
    voice = Voice(screen)
    with echo(on=False), waiting or Waiting(console(stderr=True), "thinking") as waiting:
        for event in events:
            waiting.stop()
            match event:
                case TextDelta(text, source):
                    voice.speak(text, COLOURS[source])
                case Switched(to, _, reason, _):
                    if screen.is_terminal:  # in a pipe the answer just goes on
                        voice.end_line()
                    side.say((f"→ {'device' if to == 'local' else 'cloud'}: {reason}", "dim"))
                    waiting.start("waiting for the cloud" if to == "cloud" else "thinking")
                case Finished(reply):
                    voice.end_line()
                    return reply
    raise AssertionError("a stream ends with Finished")


def dollars(microdollars: int) -> str:
    """Money as people read it; fractions of a cent keep their digits."""
    amount = microdollars / 1_000_000
    return "$0" if amount == 0 else f"${amount:.2f}" if amount >= 1 else f"${amount:.6f}"


def milliseconds(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f} ms" if value < 10_000 else f"{value / 1000:,.1f} s"


def megabytes(value: int) -> str:
    return f"{value / 1e6:,.0f} MB"


def confidence(value: float | None, *, verified: bool = True, calibration: str = "") -> str:
    """A number that nobody has verified for its model says so; `calibration` is whose it is."""
    if value is None:
        return "-"
    return f"{value:.2f}" if verified else f"{value:.2f} ({doubt_of(calibration)})"


def summary(reply: Reply) -> Text:
    """One line under an answer: source, confidence, time, tokens, cost, and warnings."""
    usage, name = reply.usage, reply.decision.calibration
    sure = confidence(reply.confidence, verified=reply.confidence_verified, calibration=name)
    whose = "" if reply.source == "local" else "device's "  # the cloud's own is unknown
    facts = [
        reply.model,
        f"{whose}confidence {sure}",
        milliseconds(reply.total_ms),
        f"{usage.input_tokens}+{usage.output_tokens} tokens",
        dollars(usage.cost_microdollars),
    ]
    line = Text("└ ", style="dim")
    line.append(_place(reply), style=f"bold {COLOURS[reply.source]}")
    line.append("".join(f" · {fact}" for fact in facts if fact))
    if reply.finish_reason == "length":
        circles = reply.source == "local" and "repeats itself" in reply.decision.reason
        why_cut = "stopped: it repeated itself" if circles else "cut off (--max-tokens)"
        line.append(f" · {why_cut}", style="yellow")
    if reply.needs_cloud_handoff and reply.source == "local":
        line.append(" · in doubt", style="yellow")
    if reply.degraded:
        line.append(f" · degraded: {reply.decision.degraded_code}", style="bold yellow")
    if reply.unrecorded:
        line.append(" · not recorded (edgewise doctor)", style="bold yellow")
    return line


def _place(reply: Reply) -> str:
    if reply.source == "mixed" and reply.tool_calls:
        return "device and cloud"  # calls of both
    return PLACES[reply.source]


def why(reply: Reply) -> Text:
    """The decision in words, then every attempt."""
    decision = reply.decision
    text = Text()
    text.append(f"{decision.code}: {printable(decision.reason)}\n")
    text.append(f"policy {decision.policy}, handoff {decision.handoff}", style="dim")
    if decision.threshold is not None:
        text.append(f", threshold {decision.threshold:.2f}", style="dim")
    if decision.decided_after_tokens:
        text.append(f", decided after {_count(decision.decided_after_tokens, 'token')}", "dim")
    text.append(f", calibration {decision.calibration or '-'}", style="dim")
    if reply.confidence is not None and not reply.confidence_verified:
        text.append(f", {doubt_of(decision.calibration)}", style="yellow")
    for attempt in reply.attempts:
        text.append(
            f"\n  {attempt.place}: {attempt.backend}/{attempt.model} {attempt.outcome}, "
            f"{milliseconds(attempt.total_ms)}, {_count(attempt.output_tokens, 'token')}, "
            f"{dollars(attempt.cost_microdollars)}{' (estimated)' if attempt.estimated else ''}"
        )
        if attempt.error:
            text.append(f"\n    {printable(attempt.error)}", style="dim")
    return text


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


@contextmanager
def download_bar() -> Iterator[Callable[[int, int, str], None]]:
    """One progress bar on standard error for every step; in a log, one line for each."""
    side = console(stderr=True)
    progress = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
        console=side,
        disable=not side.is_terminal,
    )
    with progress:
        bar = progress.add_task("", total=None, visible=False)  # until there is something
        labels: set[str] = set()

        def report(done: int, total: int, label: str) -> None:
            if label not in labels and not side.is_terminal:
                side.say(f"{label} {megabytes(total)} …" if total else f"{label} …")
            labels.add(label)
            progress.update(
                bar, description=label, completed=done, total=total or None, visible=True
            )

        yield report


@contextmanager
def pass_bar(label: str) -> Iterator[Callable[[str, int], None]]:
    """One bar for short passes of several runtimes: told the runtime, and how many there are."""
    side = console(stderr=True)
    progress = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TimeRemainingColumn(),
        console=side,
        disable=not side.is_terminal,
    )
    with progress:
        bar = progress.add_task(label, total=None)

        def step(name: str, most: int) -> None:
            progress.update(bar, description=f"{label} on {name}", total=most, advance=1)

        yield step


# -- the ring that turns while one waits -----------------------------------------------------------


TERMINAL = "CONOUT$" if sys.platform == "win32" else "/dev/tty"


def ring(seconds: float, log: Path) -> None:
    time.sleep(seconds)
    words = f"the timer of {seconds:g} s is up"
    with log.open("a", encoding="utf-8") as file:
        file.write(f"{datetime.datetime.now():%Y-%m-%d %H:%M:%S} {words}\n")
    try:
        with open(TERMINAL, "w", encoding="utf-8") as terminal:
            terminal.write(f"\a\r\n{words}\r\n")
    except OSError:
        return  # there is no terminal


if __name__ == "__main__":
    ring(float(sys.argv[1]), Path(sys.argv[2]))
