"""`edgewise index`, `edgewise find` and `edgewise ask --context` with the real embedder."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgewise.local.store import InstalledModel
from edgewise.testing import Answer, LoopbackCloud
from tests.cli.conftest import Run

pytestmark = pytest.mark.real_model


@pytest.fixture
def folder(tmp_path: Path, default_embedder: InstalledModel) -> Path:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "ferry.md").write_text("# Ferry\n\nThe ferry leaves the harbour at nine.\n")
    (notes / "bread.html").write_text("<p>Bread needs flour, water, salt and yeast.</p>\n")
    return notes


def test_index_says_what_it_read_and_is_quick_the_second_time(run: Run, folder: Path) -> None:
    first = run("index", str(folder))
    assert "2 files, 2 passages in the space all-minilm-l6-v2@int8-384: 2 new" in first.out
    second = run("index", str(folder), "--json").json
    assert (second["added"], second["unchanged"], second["files"]) == (0, 2, 2)
    assert Path(second["index"]).is_file()


def test_images_are_said_to_be_skipped_or_are_read(run: Run, folder: Path) -> None:
    (folder / "sign.png").write_bytes(b"no picture")
    ran = run("index", str(folder))
    assert ran.code == 0
    assert "skipped 1: images" in ran.err


def test_find_reads_first_and_shows_places(run: Run, folder: Path) -> None:
    ran = run("find", "what time can I take the boat", "--in", str(folder), "-n", "1")
    assert ran.out.startswith("ferry.md:1-3")
    assert "at nine" in ran.out
    found = run("find", "baking", "--in", str(folder), "--no-update", "--json").json
    assert found["hits"][0]["path"] == "bread.html"
    assert found["space"] == "all-minilm-l6-v2@int8-384"


def test_find_without_an_index_says_so(run: Run, folder: Path) -> None:
    ran = run("find", "boat", "--in", str(folder), "--no-update")
    assert (ran.out, ran.code) == ("", 1)
    assert ran.err.strip() == f"the folder {folder} is not indexed yet: leave out --no-update"


def test_find_in_an_empty_folder_says_what_is_the_matter(run: Run, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    ran = run("find", "boat", "--in", str(empty))
    assert (ran.out, ran.code) == ("", 1)
    assert ran.err.strip().endswith(f"the folder {empty} holds no file that can be searched")


def test_questions_are_answered_from_the_folder_with_citations(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LoopbackCloud() as cloud:
        cloud.always(Answer(text="It leaves at nine [1]."))
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        monkeypatch.setenv("OPENAI_BASE_URL", cloud.openai_url)
        asked = ("ask", "--cloud", "--context", str(folder), "When does the ferry leave?")
        found = run(*asked, "--json").json
        assert [(one["path"], one["cited"]) for one in found["sources"]] == [
            ("ferry.md", True),
            ("bread.html", False),
        ]
        ran = run(*asked)
        assert ran.out == "It leaves at nine [1].\n"
        assert "[1] ferry.md:1-3" in ran.err
        sent = str(cloud.requests[0].body)
    assert "[1] ferry.md:1-3" in sent
    assert "The ferry leaves the harbour at nine." in sent


def test_private_questions_stay_here_with_their_passages(
    run: Run, folder: Path, default_model: InstalledModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LoopbackCloud() as cloud:
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        monkeypatch.setenv("OPENAI_BASE_URL", cloud.openai_url)
        found = run(
            "ask", "--private", "--context", str(folder), "--max-tokens", "8", "--json", "When?"
        ).json
        assert not cloud.requests
    assert found["source"] == "local"
    assert len(found["sources"]) == 2
