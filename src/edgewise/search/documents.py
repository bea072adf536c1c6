"""Which files of a folder are read, how they are cut into passages, and how these are cited."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from typing_extensions import override

from edgewise.errors import EdgewiseError, Unreadable
from edgewise.types.embeddings import Hit, Passage

MOST_BYTES = 5_000_000
_PROSE = ".txt .md .markdown .rst .org .adoc .tex .html .htm .xhtml .srt .vtt .log"
_DATA = ".csv .tsv .json .jsonl .toml .yaml .yml .ini .cfg"
_CODE = ".py .pyi .js .ts .jsx .tsx .java .kt .go .rs .c .h .cpp .hpp .cs .rb .php .sh .sql .css"
TEXT = frozenset(f"{_PROSE} {_DATA} {_CODE}".split())
PAGES = frozenset((".html", ".htm", ".xhtml"))
PICTURES = frozenset((".png", ".jpg", ".jpeg", ".webp", ".tif", ".tiff", ".bmp", ".gif"))
_NOT_ENTERED = frozenset(("__pycache__", "node_modules", "build", "dist", "venv"))
NO_PICTURES = "images: reading their text needs pip install 'edgewise[vision]'"
# Reads the text in a picture file; raises an EdgewiseError if it cannot.
PictureReader = Callable[[Path], str]
MOST_WORDS = 180  # about one window of the default model
_Line = tuple[int, str]
SAFE_CHARACTERS_PER_TOKEN = 3.0  # fewer than usual: better a shorter prompt than one too long
LEAST_CHARACTERS = 200  # a shorter rest of a passage says nothing
_TASK = (
    "{passages}\n\nQuestion: {question}\n"
    "Answer from the passages above in a sentence or two, and name those you used, as [1]."
)


def find_documents(folder: Path) -> Iterator[Path]:
    """Files that may be read, in a stable order; without hidden files and links to folders."""
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


def strip_tags(page: str) -> str:
    """The visible text of a page, on its original lines."""
    parser = _Words()
    parser.feed(page)
    parser.close()
    last = max(parser.lines, default=0)
    return "\n".join(
        " ".join(" ".join(parser.lines.get(number, ())).split()) for number in range(1, last + 1)
    )


def cut_into_passages(text: str, most_words: int = MOST_WORDS) -> list[Passage]:
    """Every word of `text` is in exactly one passage, in order. No passage is empty."""
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


def room_for_passages(context_tokens: int, question: str, answer_tokens: int) -> int:
    """How many characters of passages fit the window beside the question and the answer."""
    beside = len(_TASK) + len(question)
    return int((context_tokens - answer_tokens) * SAFE_CHARACTERS_PER_TOKEN) - beside


def cited_prompt(question: str, hits: Sequence[Hit], room: int) -> tuple[str, list[Hit]]:
    """The prompt, and its hits: [1] is the first. The last one may be cut."""
    parts: list[str] = []
    used: list[Hit] = []
    for hit in hits:
        head = f"[{len(used) + 1}] {hit.place}\n"
        left = room - sum(map(len, parts)) - len(head) - 2 * len(parts)
        if left < min(LEAST_CHARACTERS, len(hit.text)):
            break
        parts.append(head + hit.text[:left])
        used.append(hit)
    if not used:
        return question, []
    return _TASK.format(passages="\n\n".join(parts), question=question), used


def sources(hits: Sequence[Hit], answer: str) -> list[dict[str, Any]]:
    """The passages of a prompt for JSON, each with its number and whether the answer cites it."""
    named = cited_numbers(answer, len(hits))
    return [
        {"number": number, "cited": number in named} | hit.to_dict()
        for number, hit in enumerate(hits, start=1)
    ]


def cited_numbers(answer: str, count: int) -> set[int]:
    """Which passages an answer cites, as [1] or [1, 3]."""
    named = re.findall(r"\[(\d{1,3}(?:\s*,\s*\d{1,3})*)\]", answer)
    numbers = {int(number) for group in named for number in group.split(",")}
    return {number for number in numbers if 1 <= number <= count}


def _read_picture(path: Path, pictures: PictureReader | None) -> str:
    if pictures is None:
        raise Unreadable(NO_PICTURES)
    try:
        return pictures(path)
    except EdgewiseError as error:
        raise Unreadable(f"images that cannot be read ({error.code})") from error


class _Words(HTMLParser):
    """Puts text back on its original line."""

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


def _passage(lines: list[_Line]) -> Passage:
    """Blank lines between paragraphs become one."""
    text, before = "", lines[0][0]
    for number, line in lines:
        gap = (
            "" if not text else "\n\n" if number > before + 1 else "\n" if number > before else " "
        )
        text, before = text + gap + line, number
    return Passage(lines[0][0], lines[-1][0], text)


def _blocks(text: str, most_words: int) -> Iterator[list[_Line]]:
    """Paragraphs; long ones as pieces of whole lines."""
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
