"""Which files of a folder are read, and how they become text with the lines they had."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path

from typing_extensions import override

from edgewise.errors import EdgewiseError

MOST_BYTES = 5_000_000
_PROSE = ".txt .md .markdown .rst .org .adoc .tex .html .htm .xhtml .srt .vtt .log"
_DATA = ".csv .tsv .json .jsonl .toml .yaml .yml .ini .cfg"
_CODE = ".py .pyi .js .ts .jsx .tsx .java .kt .go .rs .c .h .cpp .hpp .cs .rb .php .sh .sql .css"
TEXT = frozenset(f"{_PROSE} {_DATA} {_CODE}".split())
PAGES = frozenset((".html", ".htm", ".xhtml"))
PICTURES = frozenset((".png", ".jpg", ".jpeg", ".webp", ".tif", ".tiff", ".bmp", ".gif"))
_NOT_ENTERED = frozenset(("__pycache__", "node_modules", "build", "dist", "venv"))
NO_PICTURES = "images: reading their text needs pip install 'edgewise[vision]'"

# Reads the text in a picture's file; raises an EdgewiseError where it cannot.
PictureReader = Callable[[Path], str]


class Unreadable(EdgewiseError):
    """Never leaves the index: counted among the skipped files, with its words."""

    code = "unreadable"


def find_documents(folder: Path) -> Iterator[Path]:
    """Files that may be read, in a stable order. Hidden ones, and links to folders, are not."""
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(
            name for name in folders if not name.startswith(".") and name not in _NOT_ENTERED
        )
        for name in sorted(names):
            suffix = Path(name).suffix.lower()
            if not name.startswith(".") and (suffix in TEXT or suffix in PICTURES):
                yield Path(parent) / name


def sha256_of_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_document(path: Path, pictures: PictureReader | None) -> str:
    """The text of a file. Raises Unreadable with words for the report."""
    if path.suffix.lower() in PICTURES:
        return _read_picture(path, pictures)
    try:
        data = path.read_bytes() if path.stat().st_size <= MOST_BYTES else None
    except OSError as error:
        raise Unreadable(f"cannot be read: {error.strerror}") from error
    if data is None:
        raise Unreadable(f"larger than {MOST_BYTES / 1e6:.0f} MB")
    if b"\0" in data[:8192]:
        raise Unreadable("not text")
    text = data.decode("utf-8-sig", errors="replace")
    return strip_tags(text) if path.suffix.lower() in PAGES else text


def _read_picture(path: Path, pictures: PictureReader | None) -> str:
    if pictures is None:
        raise Unreadable(NO_PICTURES)
    try:
        return pictures(path)
    except EdgewiseError as error:
        raise Unreadable(f"images that cannot be read ({error.code})") from error


class _Words(HTMLParser):
    """Text goes back to the line it stood on."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.lines: dict[int, list[str]] = {}
        self._silent = 0

    @override
    def handle_starttag(self, tag: str, attributes: object) -> None:
        self._silent += tag in ("script", "style", "template")

    @override
    def handle_endtag(self, tag: str) -> None:
        self._silent -= tag in ("script", "style", "template") and self._silent > 0

    @override
    def handle_data(self, data: str) -> None:
        if not self._silent:
            for offset, part in enumerate(data.splitlines()):
                self.lines.setdefault(self.getpos()[0] + offset, []).append(part)


def strip_tags(page: str) -> str:
    """What a reader of the page sees, on the lines it had."""
    parser = _Words()
    parser.feed(page)
    parser.close()
    last = max(parser.lines, default=0)
    return "\n".join(
        " ".join(" ".join(parser.lines.get(number, ())).split()) for number in range(1, last + 1)
    )
