"""The text of the files in a folder: prose, data, code, web pages, Word, PDF and pictures."""

from __future__ import annotations

import importlib.util
import io
import os
import re
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from typing_extensions import override

from edgewise.errors import EdgewiseError, ExtraMissing, InvalidRequest, Unreadable
from edgewise.local.vision import TextReader
from edgewise.types.messages import Image
from edgewise.vision.answers import rows_of
from edgewise.vision.pictures import MOST_PICTURES, open_picture

MOST_BYTES = 5_000_000  # of text, in a file or unpacked from it
MOST_PACKED_BYTES = 50_000_000  # of a file that holds more than its text
_PROSE = ".txt .md .markdown .rst .org .adoc .tex .html .htm .xhtml .srt .vtt .log"
_DATA = ".csv .tsv .json .jsonl .toml .yaml .yml .ini .cfg"
_CODE = ".py .pyi .js .ts .jsx .tsx .java .kt .go .rs .c .h .cpp .hpp .cs .rb .php .sh .sql .css"
TEXT = frozenset(f"{_PROSE} {_DATA} {_CODE}".split())
PAGES = frozenset((".html", ".htm", ".xhtml"))
PICTURES = frozenset((".png", ".jpg", ".jpeg", ".webp", ".tif", ".tiff", ".bmp", ".gif"))
WORD, PDF = ".docx", ".pdf"
PDFIUM = "pypdfium2"
_PACKED = PICTURES | {WORD, PDF}
READ = TEXT | _PACKED
_NOT_ENTERED = frozenset(("__pycache__", "node_modules", "build", "dist", "venv"))
NO_PICTURES = "images: reading their text needs the extra `vision`; `edgewise doctor` says how"
NO_PDF = "PDF files: reading them needs the extra `embed`, anew; `edgewise doctor` says how"
NOT_TEXT = "not text"
LONGEST_SIDE = 2000  # pixels; more detail does not help the text reader, and costs seconds
MOST_BROKEN = 0.3  # of the characters; above it, a file without an ending is no text

# Reads the text in a picture; raises an EdgewiseError if it cannot.
PictureReader = Callable[[Image], str]


def picture_reader(threads: int) -> PictureReader | None:
    """None if this installation cannot read images. They are skipped, and the report says so."""
    if any(importlib.util.find_spec(package) is None for package in ("rapidocr", "PIL")):
        return None
    reader = TextReader(threads=threads)

    def read(image: Image) -> str:
        import numpy  # noqa: PLC0415  # only pictures need it

        picture = open_picture(image, side=LONGEST_SIDE)
        sight = reader.look(numpy.asarray(picture.pixels, dtype=numpy.uint8))
        return "\n".join(row.text for row in rows_of(sight.lines))

    return read


def reasons_of_installation(pictures: PictureReader | None) -> set[str]:
    """Why files cannot be read that could be elsewhere: they are tried again once it is mended."""
    reasons = {NO_PICTURES} if pictures is None else set[str]()
    return reasons if importlib.util.find_spec(PDFIUM) else {*reasons, NO_PDF}


def find_files(folder: Path) -> Iterator[Path]:
    """All files, in a stable order; without hidden ones, build output and links to folders."""
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(
            name for name in folders if not name.startswith(".") and name not in _NOT_ENTERED
        )
        yield from (Path(parent) / name for name in sorted(names) if not name.startswith("."))


def ending(path: Path) -> str:
    """In small letters; empty if what follows the dot is no ending, as in `Minutes 12.05`."""
    suffix = path.suffix.lower()
    return suffix if re.fullmatch(r"\.(?=.*[a-z])[a-z0-9_-]{1,12}", suffix) else ""


def most_bytes(path: Path) -> int:
    return MOST_PACKED_BYTES if ending(path) in _PACKED else MOST_BYTES


def read_document(path: Path, pictures: PictureReader | None) -> str:
    """The text of a file; a form feed ends each page, if it has pages.

    Raises Unreadable with words for the report.
    """
    try:
        size, most = path.stat().st_size, most_bytes(path)
        data = path.read_bytes() if size <= most else None
    except OSError as error:
        raise Unreadable(f"cannot be read: {error.strerror}") from error
    if data is None:
        raise Unreadable(f"larger than {most / 1e6:.0f} MB")
    kind = ending(path)
    if kind in PICTURES:
        return _read_picture(Image.from_bytes(data, str(path)), pictures)
    if kind == PDF:
        return _read_pdf(data, path.name, pictures)
    if kind == WORD:
        return _read_word(data)
    text = _decoded(data)
    if not kind and _broken(text) > MOST_BROKEN:
        raise Unreadable(NOT_TEXT)
    return strip_tags(text) if kind in PAGES else text


def strip_tags(page: str) -> str:
    """The visible text of a page, on its original lines."""
    parser = _Words()
    parser.feed(page)
    parser.close()
    last = max(parser.lines, default=0)
    return "\n".join(
        " ".join(" ".join(parser.lines.get(number, ())).split()) for number in range(1, last + 1)
    )


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


# -- text ------------------------------------------------------------------------------------------


_MARKS = (  # the longer first: that of UTF-32 begins with that of UTF-16
    (b"\xff\xfe\0\0", "utf-32"), (b"\0\0\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"),
)  # fmt: skip
_MOSTLY = 0.7  # of every second byte are zero in UTF-16 of Latin letters, and none of the others


def _decoded(data: bytes) -> str:
    """UTF-8, or what its first bytes say; without a mark, UTF-16 shows in its zeros."""
    encoding = next((name for mark, name in _MARKS if data.startswith(mark)), "")
    if not encoding and b"\0" in data[:8192]:
        encoding = _by_zeros(data[:8192])
        if not encoding:
            raise Unreadable(NOT_TEXT)
    return data.decode(encoding or "utf-8-sig", errors="replace")


def _by_zeros(head: bytes) -> str:
    zeros = [head[start::2].count(0) / max(1, len(head[start::2])) for start in (0, 1)]
    if zeros[0] == 0 and zeros[1] > _MOSTLY:
        return "utf-16-le"
    return "utf-16-be" if zeros[1] == 0 and zeros[0] > _MOSTLY else ""


def _broken(text: str) -> float:
    """The share of the first characters that no text has."""
    head = text[:8192]
    odd = sum(one == "\ufffd" or (one < " " and one not in "\t\n\r\f\x1b") for one in head)
    return odd / max(1, len(head))


# -- files that hold more than their text ----------------------------------------------------------


_SPACE = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_STANDS_FOR = {f"{_SPACE}tab": "\t", f"{_SPACE}br": "\n", f"{_SPACE}cr": "\n"}


def _read_word(data: bytes) -> str:
    """A .docx is a zip of XML. Each paragraph is a line; the cells of a table are too."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as packed, packed.open("word/document.xml") as part:
            page = part.read(4 * MOST_BYTES + 1)  # most of it is about looks
    except (zipfile.BadZipFile, KeyError, NotImplementedError, RuntimeError, OSError) as error:
        raise Unreadable("Word files that are damaged or locked") from error
    if len(page) > 4 * MOST_BYTES:
        raise Unreadable(f"larger than {MOST_BYTES / 1e6:.0f} MB")
    try:
        return "\n".join(_paragraphs(ElementTree.fromstring(page)))
    except ElementTree.ParseError as error:
        raise Unreadable("Word files that are damaged or locked") from error


def _paragraphs(page: ElementTree.Element) -> Iterator[str]:
    """An empty one is a blank line. What was struck out in a revision is no text of this kind."""
    for paragraph in page.iter(f"{_SPACE}p"):
        parts = (
            one.text or "" if one.tag == f"{_SPACE}t" else _STANDS_FOR.get(one.tag, "")
            for one in paragraph.iter()
        )
        yield "".join(parts).strip()


def _read_pdf(data: bytes, name: str, pictures: PictureReader | None) -> str:
    try:
        texts = page_texts(data, name)
    except EdgewiseError as error:
        missing = error.code == "missing_extra"
        raise Unreadable(NO_PDF if missing else "PDF files that are damaged or locked") from error
    if pictures is None and not any(text.strip() for text in texts):
        raise Unreadable(NO_PICTURES)
    for number, text in enumerate(texts, 1):
        if pictures is not None and not text.strip():  # a scan
            picture = page_picture(data, name, number, LONGEST_SIDE)
            texts[number - 1] = _read_picture(picture, pictures)
    return "".join(f"{text}\f" for text in texts)


def _read_picture(image: Image, pictures: PictureReader | None) -> str:
    if pictures is None:
        raise Unreadable(NO_PICTURES)
    try:
        return pictures(image)
    except EdgewiseError as error:
        raise Unreadable(f"images that cannot be read ({error.code})") from error


# -- PDF -------------------------------------------------------------------------------------------


DOTS_PER_POINT = 200 / 72  # as scanners do it; larger letters are read worse
MOST_PAGES = 2000  # of a PDF; a longer one is refused before any page is read
# Where a word is divided at the end of a line, PDFium writes one of these for its hyphen.
_DIVIDED = re.compile("[\x02\ufffe]\\s*")

# PDFium keeps things of its own for the whole process: two threads in it end the process.
_one_at_a_time = threading.Lock()


def page_texts(data: bytes, name: str) -> list[str]:
    """The text of every page; empty for a page that is a picture only, as scanners make them."""
    with _opened(data, name) as pages:
        texts = [page.get_textpage().get_text_bounded() for page in pages]
    return [_DIVIDED.sub("", text).replace("\r\n", "\n").replace("\r", "\n") for text in texts]


def pages_as_pictures(data: bytes, name: str) -> list[Image]:
    """Every page of a PDF, for a question about it. Raises InvalidRequest for too many."""
    with _opened(data, name, "vision") as pages:
        count = len(pages)
    if count > MOST_PICTURES:
        raise InvalidRequest(
            f"{name} has {count:,} pages; {MOST_PICTURES} are the most for a question: "
            "`edgewise index` reads longer ones"
        )
    return [page_picture(data, name, number, LONGEST_SIDE) for number in range(1, count + 1)]


def page_picture(data: bytes, name: str, number: int, side: int) -> Image:
    """A page, counted from 1, as a picture of 200 dots per inch, no side longer than `side`."""
    with _opened(data, name) as pages:
        page = pages[number - 1]
        scale = min(DOTS_PER_POINT, side / max(1.0, *page.get_size()))
        pixels = page.render(scale=scale).to_pil()
    file = io.BytesIO()
    pixels.convert("RGB").save(file, "PNG")
    return Image(file.getvalue(), "image/png", name=f"{name}, page {number}")


@contextmanager
def _opened(data: bytes, name: str, extra: str = "embed") -> Iterator[Any]:
    """Raises InvalidRequest for what is no PDF, damaged, locked or too long."""
    try:
        library = importlib.import_module(PDFIUM)
    except ImportError as error:
        raise ExtraMissing(extra, PDFIUM) from error
    with _one_at_a_time:
        try:
            pages = library.PdfDocument(data)
        except library.PdfiumError as error:
            locked = "password" in str(error).lower()
            why = "it wants a password" if locked else "it is damaged, or no PDF"
            raise InvalidRequest(f"{name}: {why}") from error
        try:
            if len(pages) > MOST_PAGES:
                raise InvalidRequest(
                    f"{name} has {len(pages):,} pages; {MOST_PAGES:,} are the most"
                )
            yield pages
        except library.PdfiumError as error:
            raise InvalidRequest(f"{name}: a page of it is damaged") from error
        finally:
            pages.close()
