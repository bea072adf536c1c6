"""Questions that are text: files of sections, each line a question, or one and its answers."""

from __future__ import annotations

from functools import cache
from importlib import resources

FILES = ("life.txt", "daily.txt")


@cache
def _sections() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in FILES:
        text = (resources.files("edgewise_bench.questions.kinds") / name).read_text("utf-8")
        for line in text.splitlines():
            if line.startswith("["):
                lines = found.setdefault(line.strip("[]"), [])
            elif line:
                lines.append(line)
    return found


def lines_of(section: str) -> tuple[str, ...]:
    return tuple(_sections()[section])


def pairs_of(section: str) -> list[tuple[str, tuple[str, ...]]]:
    """A question, and all of its answers."""
    split = (line.rpartition(" = ") for line in lines_of(section))
    return [(question, tuple(answers.split(" / "))) for question, _, answers in split]
