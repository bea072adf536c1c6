"""`python -m edgewise.cli.ring SECONDS FILE`: waits, rings the terminal's bell, and records it.

A separate process: the example timer outlives the command that set it.
"""

from __future__ import annotations

import datetime
import sys
import time
from pathlib import Path

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
