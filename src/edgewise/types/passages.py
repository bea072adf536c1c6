"""What a search finds: passages of files, with their lines."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Passage:
    """Some lines of a file, counted from 1."""

    first_line: int
    last_line: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A passage that was found; `path` is relative to the folder. `score` is the cosine."""

    path: str
    first_line: int
    last_line: int
    text: str
    score: float

    @property
    def place(self) -> str:
        return f"{self.path}:{self.first_line}-{self.last_line}"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexReport:
    """What bringing an index up to date has done. `skipped` says how many files, and why."""

    added: int = 0
    changed: int = 0
    removed: int = 0
    unchanged: int = 0
    skipped: tuple[tuple[str, int], ...] = ()
    files: int = 0
    passages: int = 0
    space: str = ""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"skipped": dict(self.skipped)}
