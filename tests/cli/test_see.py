"""`edgewise see` and `edgewise ask --image`: answers, the skill behind them, and clear errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.pictures import as_file, page


@pytest.fixture
def sign(tmp_path: Path) -> str:
    path = tmp_path / "sign.png"
    path.write_bytes(as_file(page("NO PARKING", width=280)))
    return str(path)


@pytest.mark.real_model
def test_a_sign_is_read_and_the_skill_is_named(run: Run, sign: str) -> None:
    ran = run("see", "--local", sign, "What does the sign say?")
    assert ran.code == 0
    assert ran.out == "NO PARKING\n"
    assert "device skill: reads text" in ran.err


@pytest.mark.real_model
def test_json_says_what_was_seen(run: Run, sign: str) -> None:
    reply = run("see", "--local", "--json", sign, "What does the sign say?").json
    assert reply["response"] == "NO PARKING"
    assert reply["skill"] == "reads text"
    (line,) = reply["sights"][0]["lines"]
    assert line["text"] == "NO PARKING" and len(line["box"]) == 4


@pytest.mark.real_model
def test_ask_takes_images_too(run: Run, sign: str) -> None:
    ran = run("ask", "--local", "--image", sign, "--image", sign, 'Does it say "parking"?')
    assert ran.code == 0
    assert ran.out == 'Image 1: Yes: "NO PARKING".\nImage 2: Yes: "NO PARKING".\n'


@pytest.mark.real_model
def test_every_page_of_a_pdf_is_a_picture(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "scan.pdf"
    pages = [page("NO PARKING", width=280), page("Total 3.50", width=280)]
    pages[0].save(path, save_all=True, append_images=pages[1:])
    ran = run("see", "--local", str(path), "What does it say?")
    assert ran.out == "Image 1: NO PARKING\nImage 2: Total 3.50\n"
    many = tmp_path / "many.pdf"
    pages[0].save(many, save_all=True, append_images=pages[1:] * 20)
    ran = run("see", "--local", str(many), "What does it say?")
    assert (ran.code, "20 are the most for a question" in ran.err) == (2, True)


def test_a_handoff_that_is_only_signalled_has_its_exit_code(run: Run, sign: str) -> None:
    ran = run("see", "--signal", sign, "Who painted this?")
    assert ran.code == 10
    assert "no device skill answers this question" in ran.err


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("no-such-file.png", "What does it say?"), "cannot be read"),
        (("http://127.0.0.1:9/x.png", "What does it say?"), "private network"),
        (("only.png",), "name an image and a question"),
    ],
)
def test_what_cannot_be_looked_at_is_said(run: Run, words: tuple[str, ...], error: str) -> None:
    ran = run("see", *words)
    assert ran.code == 2
    assert error in ran.err
    assert run("see", "--json", *words).json["success"] is False


def test_a_broken_file_is_named(run: Run, tmp_path: Path) -> None:
    (tmp_path / "broken.jpg").write_bytes(b"\xff\xd8\xff and then nothing")
    ran = run("see", str(tmp_path / "broken.jpg"), "What does it say?")
    assert ran.code == 2
    assert "broken.jpg" in ran.err and "[invalid_request]" in ran.err
