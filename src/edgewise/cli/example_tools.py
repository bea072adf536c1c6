"""Tools to try `edgewise act` with: each really does something, and nothing that could hurt."""

from __future__ import annotations

import datetime
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from edgewise.settings import Settings

POWER = Path("/sys/class/power_supply")
LONGEST_TIMER_S = 24 * 3600
_TIMERS: list[subprocess.Popen[bytes]] = []  # held, or Python complains that they still run


def set_timer(minutes: float = 0, seconds: float = 0) -> str:
    """Set a timer or a countdown that rings in this terminal when the time is up.

    Args:
        minutes: How many minutes until it rings
        seconds: How many seconds until it rings
    """
    total = 60 * minutes + seconds
    if not 0 < total <= LONGEST_TIMER_S:
        raise ValueError("a timer runs for more than nothing and at most a day")
    _TIMERS[:] = [timer for timer in _TIMERS if timer.poll() is None]
    # On its own, so that neither this command nor its pipes have to wait for it.
    timer = subprocess.Popen(
        [sys.executable, "-m", "edgewise.cli.ring", str(total), str(_folder() / "timers.txt")],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    _TIMERS.append(timer)
    rings = datetime.datetime.now() + datetime.timedelta(seconds=total)
    return f"rings at {rings:%H:%M:%S}"


def add_note(text: str) -> str:
    """Write down a note, a reminder or something to remember.

    Args:
        text: What to write down
    """
    with _notes().open("a", encoding="utf-8") as file:
        file.write(f"{datetime.datetime.now():%Y-%m-%d %H:%M} {' '.join(text.split())}\n")
    return f"noted in {_notes()}"


def list_notes() -> list[str]:
    """Read out all notes that were written down."""
    path = _notes()
    return path.read_text("utf-8").splitlines() if path.is_file() else []


def find_notes(word: str) -> list[str]:
    """Search the notes for those with a word in them.

    Args:
        word: The word to look for in the notes
    """
    return [note for note in list_notes() if word.casefold() in note.casefold()]


def get_time() -> str:
    """Get the current time and date."""
    return f"{datetime.datetime.now().astimezone():%A %d %B %Y, %H:%M %Z}"


def get_disk_space() -> str:
    """Get how much disk space is free on this computer."""
    usage = shutil.disk_usage(Path.home())
    return f"{usage.free / 1e9:.1f} GB free of {usage.total / 1e9:.1f} GB"


def get_battery_level() -> str:
    """Get how full the battery of this computer is, in percent."""
    levels = [path.read_text().strip() for path in sorted(POWER.glob("BAT*/capacity"))]
    return f"{levels[0]} %" if levels else "no battery was found"


EXAMPLES: tuple[Callable[..., Any], ...] = (
    set_timer,
    add_note,
    list_notes,
    find_notes,
    get_time,
    get_disk_space,
    get_battery_level,
)


def _folder() -> Path:
    folder = Settings.load().data_dir
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _notes() -> Path:
    return _folder() / "notes.txt"
