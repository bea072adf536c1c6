"""Which files are read, how they are cut, and how passages are cited."""

from __future__ import annotations

import ctypes
import sys
import zipfile
from itertools import pairwise
from pathlib import Path

import pypdfium2
import pytest
from hypothesis import given
from hypothesis import strategies as some

from edgewise.documents import MOST_BYTES, find_files, read_document, strip_tags
from edgewise.errors import InvalidRequest, Unreadable
from edgewise.folder_search import (
    cited_numbers,
    cited_prompt,
    cut_into_passages,
    room_for_passages,
    sources,
)
from edgewise.types.embeddings import Hit, Passage
from edgewise.types.messages import Image


def test_hidden_and_built_files_are_not_found(tmp_path: Path) -> None:
    for name in ("b.md", "a.txt", ".hidden.txt", "sub/c.PY", "node_modules/d.js", ".git/e.txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("x")
    found = [path.relative_to(tmp_path).as_posix() for path in find_files(tmp_path)]
    assert found == ["a.txt", "b.md", "sub/c.PY"]


def test_links_to_folders_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "a.txt").write_text("x")
    assert len(list(find_files(tmp_path))) == 1


def test_bytes_that_are_no_utf8_are_still_text(tmp_path: Path) -> None:
    path = tmp_path / "old.txt"
    path.write_bytes("caf\xe9 noir".encode("latin-1"))
    assert read_document(path, None).endswith("noir")


@pytest.mark.parametrize(
    ("data", "words"), [(b"MZ\0\0", "not text"), (b"a" * (MOST_BYTES + 1), "larger than 5 MB")]
)
def test_what_is_no_text_or_too_much_is_refused(tmp_path: Path, data: bytes, words: str) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(data)
    with pytest.raises(Unreadable, match=words):
        read_document(path, None)


def test_a_missing_file_is_unreadable(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="cannot be read"):
        read_document(tmp_path / "gone.txt", None)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_text_in_two_or_four_bytes_a_letter_is_text(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "from windows.txt"
    path.write_bytes("The ferry leaves at nine, as Jürgen says.".encode(encoding))
    assert read_document(path, None) == "The ferry leaves at nine, as Jürgen says."


def test_a_file_without_an_ending_is_read_if_it_is_text(tmp_path: Path) -> None:
    for name in ("README", "Minutes 12.05", "To do. Today"):
        (tmp_path / name).write_text("Call the plumber.")
        assert read_document(tmp_path / name, None) == "Call the plumber."
    for data in (bytes(range(1, 32)) * 9, b"\x7fELF\0\0\1", b"\xff\xd9\x80\x81" * 50):
        (tmp_path / "program").write_bytes(data)
        with pytest.raises(Unreadable, match="not text"):
            read_document(tmp_path / "program", None)


def docx(path: Path, *paragraphs: str) -> Path:
    space = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    body = "".join(f"<w:p><w:r><w:t>{one}</w:t></w:r></w:p>" for one in paragraphs)
    page = f'<w:document xmlns:w="{space}"><w:body>{body}</w:body></w:document>'
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("word/document.xml", page)
    return path


def test_each_paragraph_of_a_word_file_is_a_line(tmp_path: Path) -> None:
    path = docx(tmp_path / "letter.docx", "Dear &amp; late,", "", "nine<w:tab/>", "ten")
    assert read_document(path, None) == "Dear & late,\n\nnine\nten"


def test_word_files_that_cannot_be_read_say_so(tmp_path: Path) -> None:
    path = docx(tmp_path / "bomb.docx", "x" * (4 * MOST_BYTES))
    with pytest.raises(Unreadable, match="larger than 5 MB"):
        read_document(path, None)
    path = docx(tmp_path / "open.docx", "<w:p>")
    with pytest.raises(Unreadable, match="damaged or locked"):
        read_document(path, None)
    path.write_bytes(b"PK no zip")
    with pytest.raises(Unreadable, match="damaged or locked"):
        read_document(path, None)


def pdf_of(path: Path, *pages: str) -> Path:
    """A PDF of one line a page; a page without text is as a scanner makes it."""
    document = pypdfium2.PdfDocument.new()
    raw = pypdfium2.raw
    font = raw.FPDFText_LoadStandardFont(document, b"Helvetica")
    for text in pages:
        page = document.new_page(600, 200)
        if text:
            written = raw.FPDFPageObj_CreateTextObj(document, font, 24.0)
            letters = ctypes.create_string_buffer((text + "\0").encode("utf-16-le"))
            raw.FPDFText_SetText(written, ctypes.cast(letters, raw.FPDF_WIDESTRING))
            raw.FPDFPageObj_Transform(written, 1, 0, 0, 1, 40, 100)
            raw.FPDFPage_InsertObject(page, written)
            page.gen_content()
    document.save(path)
    document.close()
    return path


def test_the_pages_of_a_pdf_end_with_form_feeds(tmp_path: Path) -> None:
    path = pdf_of(tmp_path / "manual.PDF", "Press reset once.", "Wait.")
    text = read_document(path, None)
    assert [page.strip() for page in text.split("\f")] == ["Press reset once.", "Wait.", ""]
    first, second = cut_into_passages(text)
    assert (first.page, first.text, second.page) == (1, "Press reset once.", 2)


def test_a_page_that_was_scanned_is_read_as_a_picture(tmp_path: Path) -> None:
    path = pdf_of(tmp_path / "scan.pdf", "One.", "")
    text = read_document(path, lambda image: f"seen on {image.name}")
    assert cut_into_passages(text)[1].text == "seen on scan.pdf, page 2"
    with pytest.raises(Unreadable, match="the extra `vision`"):
        read_document(pdf_of(tmp_path / "all.pdf", ""), None)


def test_a_pdf_that_cannot_be_read_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "broken.pdf"
    path.write_bytes(b"%PDF-1.7 and no more")
    with pytest.raises(Unreadable, match="damaged or locked"):
        read_document(path, None)
    monkeypatch.setitem(sys.modules, "pypdfium2", None)
    with pytest.raises(Unreadable, match="the extra `embed`"):
        read_document(path, None)


def test_pages_lose_their_tags_and_scripts_but_keep_their_lines() -> None:
    page = (
        "<html><style>p {}</style>\n<p>Hello <b>there</b></p>\n<script>\nlet a\n</script>\n&amp; x"
    )
    assert strip_tags(page) == "\nHello there\n\n\n\n& x"


def test_pictures_are_read_by_whoever_can(tmp_path: Path) -> None:
    picture = tmp_path / "sign.png"
    picture.write_bytes(b"")

    def broken(image: Image) -> str:
        raise InvalidRequest("no picture")

    said = read_document(picture, lambda image: f"text of {Path(image.name).name}")
    assert said == "text of sign.png"
    with pytest.raises(Unreadable, match="the extra `vision`"):
        read_document(picture, None)
    with pytest.raises(Unreadable, match="invalid_request"):
        read_document(picture, broken)


lines = some.lists(some.sampled_from(["", "one", "two words", "a b c d e f g h i j k l"]))


def test_short_paragraphs_share_a_passage_with_their_lines() -> None:
    text = "# Title\n\nFirst paragraph\ngoes on.\n\n\nSecond one.\n"
    (passage,) = cut_into_passages(text)
    assert passage == Passage(1, 7, "# Title\n\nFirst paragraph\ngoes on.\n\nSecond one.")


def test_a_paragraph_that_does_not_fit_begins_the_next_passage() -> None:
    found = cut_into_passages("a b c\n\nd e f\n\ng h", most_words=5)
    assert found == [Passage(1, 1, "a b c"), Passage(3, 5, "d e f\n\ng h")]


def test_long_paragraphs_are_cut_at_lines_and_long_lines_at_words() -> None:
    found = cut_into_passages("a b c\nd e f\ng h i j k l m", most_words=3)
    assert [(one.first_line, one.text) for one in found] == [
        (1, "a b c"),
        (2, "d e f"),
        (3, "g h i"),
        (3, "j k l"),
        (3, "m"),
    ]


def test_nothing_but_blanks_is_no_passage() -> None:
    assert cut_into_passages(" \n\n\t\n") == []


@given(lines, some.integers(1, 20))
def test_every_word_is_in_one_passage_in_order_and_none_is_too_long(
    text: list[str], most: int
) -> None:
    whole = "\n".join(text)
    found = cut_into_passages(whole, most_words=most)
    assert " ".join(one.text for one in found).split() == whole.split()
    for one in found:
        assert one.text.strip()
        assert len(one.text.split()) <= most
        assert 1 <= one.first_line <= one.last_line <= len(text)
    assert all(one.last_line <= other.first_line for one, other in pairwise(found))


def hit(path: str, text: str) -> Hit:
    return Hit(path=path, first_line=3, last_line=9, text=text, score=0.5)


def test_passages_are_numbered_with_their_places() -> None:
    prompt, used = cited_prompt("Why?", [hit("a.md", "Because."), hit("b.md", "So.")], 500)
    assert "[1] a.md:3-9\nBecause." in prompt
    assert "[2] b.md:3-9\nSo." in prompt
    assert "Question: Why?" in prompt
    assert len(used) == 2


@pytest.mark.parametrize("room", [0, 100, 250, 500, 1000, 5000])
def test_passages_never_take_more_than_the_room(room: int) -> None:
    bare = len(cited_prompt("Why?", [hit("a", "x")], 100)[0]) - len("[1] a:3-9\nx")
    prompt, used = cited_prompt("Why?", [hit("a.md", "y" * 400), hit("b.md", "z" * 400)], room)
    assert len(prompt) - bare <= room or not used


def test_without_room_the_question_stands_alone() -> None:
    assert cited_prompt("Why?", [hit("a.md", "y" * 900)], 20) == ("Why?", [])


def test_a_larger_answer_leaves_less_room() -> None:
    assert room_for_passages(2048, "Why?", 256) > room_for_passages(2048, "Why?", 1024) > 0
    assert room_for_passages(100, "Why?", 256) < 0


def test_numbers_are_read_back_and_made_up_ones_are_not() -> None:
    assert cited_numbers("So it is [1, 3] and [2]; see [9] and [x].", 3) == {1, 2, 3}
    found = sources([hit("a.md", "A"), hit("b.md", "B")], "It is so [2].")
    assert [(one["number"], one["cited"], one["path"]) for one in found] == [
        (1, False, "a.md"),
        (2, True, "b.md"),
    ]
