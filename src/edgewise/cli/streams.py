"""Standard streams that do not break: any encoding, closed pipes, piped questions."""

from __future__ import annotations

import codecs
import io
import json
import logging
import os
import re
import select
import shlex
import shutil
import stat
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from typing_extensions import override

from edgewise.children import from_here

# How long a question on the command line waits for more on a pipe. A pipe that nobody closes must
# not hang it; `-` says that there is more, and waits as long as it takes.
PATIENCE_S = 1.0

_PLAIN = {"└": "`-", "→": "->", "…": "...", "·": "-", "✓": "+", "✗": "x", "—": "-"}
_PLAIN |= dict(zip("\u2013\u2018\u2019\u201c\u201d\u2212\u00d7", "-''\"\"-x", strict=True))
# A terminal would obey escape sequences in a model's or a server's text, and show what stands after
# a mark of direction before it.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@contextmanager
def echo(on: bool) -> Iterator[None]:
    """Whether the terminal shows what is typed, until the end of the block.

    What is typed into an answer is not shown in it; the next prompt gets it.
    """
    try:
        import termios  # noqa: PLC0415  # not on Windows

        number = sys.stdin.fileno()
        before = termios.tcgetattr(number)
        if os.tcgetpgrp(number) != os.getpgrp():  # setting it would stop a job in the background
            raise OSError("not in the foreground")
    except Exception:  # noqa: BLE001  # no terminal, or none that can be asked
        yield
        return
    flags = before[3] | termios.ECHO if on else before[3] & ~termios.ECHO
    termios.tcsetattr(number, termios.TCSANOW, [*before[:3], flags, *before[4:]])
    try:
        yield
    finally:
        termios.tcsetattr(number, termios.TCSANOW, before)


def prepare_streams() -> None:
    """Print what the encoding cannot say as something readable; never fail on it."""
    _fill_gaps()
    codecs.register_error("edgewise", _spell_plainly)
    for stream, errors in ((sys.stdout, "edgewise"), (sys.stderr, "edgewise"), (sys.stdin, None)):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=errors or "replace")


def _fill_gaps() -> None:
    """The next opened file would take a closed stream's number: the ledger, or a model's log."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number: this one
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def _spell_plainly(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    unknown = error.object[error.start : error.end]
    return "".join(_PLAIN.get(character) or _ascii(character) for character in unknown), error.end


def _ascii(character: str) -> str:
    """The letter under an accent; a question mark if there is none."""
    return unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode() or "?"


def printable(text: str) -> str:
    """Text from elsewhere, safe for a terminal."""
    return _CONTROLS.sub("", text)


def without_surrogates(text: str) -> str:
    """Arguments may hold bytes that are not text; models and JSON need text."""
    return text.encode("utf-8", "replace").decode("utf-8")


def command(words: str = "") -> str:
    """How this installation is called from where the user is: it may not be on the PATH."""
    script = Path(sys.executable).with_name("edgewise.exe" if os.name == "nt" else "edgewise")
    found = shutil.which("edgewise")
    if found is not None and (not script.exists() or Path(found).samefile(script)):
        name = "edgewise"
    elif not script.exists():
        name = f"{shlex.quote(sys.executable)} -m edgewise"
    else:
        name = from_here(script)
    return f"{name} {words}".rstrip()


def print_json(value: Any) -> None:
    """One line."""
    click.echo(json_text(value))


def json_text(value: Any, *, compact: bool = False) -> str:
    """With escapes where a terminal would obey, and if standard output is not UTF-8: replaced
    characters would be lost."""
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    unicode = codecs.lookup(encoding).name == "utf-8"
    separators = (",", ":") if compact else None
    text = json.dumps(value, ensure_ascii=not unicode, separators=separators, default=str)
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def read_all() -> str:
    """Everything on standard input, to its end."""
    text = sys.stdin.read() if sys.stdin is not None else ""
    return without_surrogates(text.removeprefix("\ufeff")).strip()


def read_if_piped() -> str | None:
    """What is piped in beside a question; None if the pipe stays silent."""
    if sys.stdin is None or sys.stdin.isatty():
        return ""
    return read_all() if _has_something() else None


def _has_something() -> bool:
    """False only for a pipe or socket that sends nothing, not even its end."""
    try:
        descriptor = sys.stdin.fileno()
        kind = os.fstat(descriptor).st_mode
        if not (stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind)):
            return True
        return bool(select.select([descriptor], [], [], PATIENCE_S)[0])
    except (OSError, ValueError):
        return True  # not a real file (in tests), closed, or Windows, which cannot look ahead


def drop_stdout() -> None:
    """The reader left: discard the buffer, or the exit would complain about it."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        return


class _Kept(logging.Handler):
    """Warnings, in the order they came."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    @override
    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.levelname.lower()}: {record.getMessage()}")


@contextmanager
def warnings_last() -> Iterator[None]:
    """Print the engine's warnings after the command, not in the middle of an answer."""
    logger, kept = logging.getLogger("edgewise"), _Kept()
    logger.addHandler(kept)
    try:
        yield
    finally:
        logger.removeHandler(kept)
        for line in kept.lines:
            click.echo(printable(line), err=True)
