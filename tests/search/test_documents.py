"""Which files are read, and what becomes of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgewise.errors import InvalidRequest, Unreadable
from edgewise.search.documents import MOST_BYTES, find_documents, read_document, strip_tags


def test_hidden_built_and_unknown_files_are_not_found(tmp_path: Path) -> None:
    for name in ("b.md", "a.txt", ".hidden.txt", "sub/c.PY", "node_modules/d.js", ".git/e.txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("x")
    (tmp_path / "program.exe").write_bytes(b"x")
    found = [path.relative_to(tmp_path).as_posix() for path in find_documents(tmp_path)]
    assert found == ["a.txt", "b.md", "sub/c.PY"]


def test_links_to_folders_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "a.txt").write_text("x")
    assert len(list(find_documents(tmp_path))) == 1


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


def test_pages_lose_their_tags_and_scripts_but_keep_their_lines() -> None:
    page = (
        "<html><style>p {}</style>\n<p>Hello <b>there</b></p>\n<script>\nlet a\n</script>\n&amp; x"
    )
    assert strip_tags(page) == "\nHello there\n\n\n\n& x"


def test_pictures_are_read_by_whoever_can(tmp_path: Path) -> None:
    picture = tmp_path / "sign.png"
    picture.write_bytes(b"")

    def broken(path: Path) -> str:
        raise InvalidRequest("no picture")

    assert read_document(picture, lambda path: f"text of {path.name}") == "text of sign.png"
    with pytest.raises(Unreadable, match=r"edgewise\[vision\]"):
        read_document(picture, None)
    with pytest.raises(Unreadable, match="invalid_request"):
        read_document(picture, broken)
