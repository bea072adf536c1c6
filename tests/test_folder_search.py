"""Indexing a folder and finding in it, with a scripted embedder and with the real one."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from PIL import Image as Pillow
from PIL import ImageDraw, ImageFont

from edgewise import Engine, Settings
from edgewise.documents import NO_PICTURES, picture_reader
from edgewise.errors import InvalidRequest, ModelNotFound, SpaceMismatch
from edgewise.folder_search import FolderIndex, index_path
from edgewise.local.store import InstalledModel
from edgewise.testing import LoopbackCloud, ScriptedEmbedder
from edgewise.types.embeddings import Embedded


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "ferry.md").write_text("# Ferry\n\nThe ferry leaves the harbour at nine.\n")
    (notes / "bread.txt").write_text("Bread needs flour, water, salt and yeast.\n")
    return notes


@pytest.fixture
def embedder() -> ScriptedEmbedder:
    return ScriptedEmbedder()


@pytest.fixture
def engine(embedder: ScriptedEmbedder) -> Iterator[Engine]:
    with Engine(Settings.load(), embedder=embedder) as made:
        yield made


@pytest.fixture
def index(engine: Engine, folder: Path) -> Iterator[FolderIndex]:
    with FolderIndex(engine, folder) as opened:
        yield opened


def test_what_was_read_is_found_with_its_lines(index: FolderIndex) -> None:
    report = index.update()
    assert (report.added, report.files, report.passages) == (2, 2, 2)
    best = index.find("when leaves the ferry")[0]
    assert (best.path, best.first_line, best.last_line) == ("ferry.md", 1, 3)
    assert best.place == "ferry.md:1-3"


def test_only_what_changed_is_read_again(
    index: FolderIndex, folder: Path, embedder: ScriptedEmbedder
) -> None:
    index.update()
    assert index.update().unchanged == 2
    embedder.texts.clear()
    (folder / "ferry.md").write_text("The ferry leaves at ten.")
    (folder / "new.txt").write_text("Something new.")
    os.utime(folder / "bread.txt", ns=(1, 1))  # another time, the same bytes
    report = index.update()
    assert (report.added, report.changed, report.unchanged) == (1, 1, 1)
    assert sorted(embedder.texts) == ["Something new.", "The ferry leaves at ten."]
    assert index.find("ten ferry")[0].text == "The ferry leaves at ten."


def test_what_is_gone_is_not_found(index: FolderIndex, folder: Path) -> None:
    index.update()
    (folder / "ferry.md").unlink()
    assert index.update().removed == 1
    assert [hit.path for hit in index.find("ferry")] == ["bread.txt"]


def test_an_update_that_is_stopped_goes_on_where_it_was(
    index: FolderIndex, folder: Path, embedder: ScriptedEmbedder
) -> None:
    def stop(done: int, total: int, name: str) -> None:
        if done == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        index.update(stop)
    assert index._store.count() == 1
    report = index.update()
    assert (report.added, report.unchanged) == (1, 1)


def test_a_second_process_sees_what_the_first_wrote(
    index: FolderIndex, engine: Engine, folder: Path
) -> None:
    index.update()
    index.find("ferry")
    with FolderIndex(engine, folder) as other:
        (folder / "zebra.txt").write_text("A zebra crossing.")
        other.update()
    assert index.find("zebra crossing")[0].path == "zebra.txt"


def test_files_of_other_kinds_are_named_in_the_report(index: FolderIndex, folder: Path) -> None:
    for name in ("film.mp4", "archive.zip", "second.zip", "README"):
        (folder / name).write_text("Something.")
    report = index.update()
    assert dict(report.skipped) == {"of kinds that are not read: .mp4, .zip": 3}
    assert report.added == 3


def test_a_query_of_a_rare_word_finds_the_file_that_has_it(
    index: FolderIndex, folder: Path
) -> None:
    for number in range(30):
        (folder / f"bill{number}.txt").write_text(f"Bill NR-{number + 200} of the year was paid.")
    index.update()
    best = index.find("which bill was NR-217", 1)[0]
    assert (best.path, best.words > 0.5) == ("bill17.txt", True)
    assert index.find('"; DROP TABLE words; --')


def test_an_index_of_before_gets_its_words_when_it_is_opened(engine: Engine, folder: Path) -> None:
    (folder / "wide.txt").write_bytes("A gate of oak.".encode("utf-16"))
    with FolderIndex(engine, folder) as index:
        index.update()
        path = index.path
    with contextlib.closing(sqlite3.connect(path)) as old:
        old.executescript(
            "DROP TRIGGER words_of_new; DROP TRIGGER words_of_gone; DROP TABLE words;"
            "ALTER TABLE passages DROP COLUMN page;"
            "DELETE FROM passages WHERE text LIKE 'A gate%';"
            "UPDATE files SET note = 'not text' WHERE path = 'wide.txt'"
        )
    with FolderIndex(engine, folder) as index:
        assert index.update().added == 1
        assert index.find("yeast", 1)[0].words == 1.0
        assert index.find("oak", 1)[0].path == "wide.txt"
        (folder / "bread.txt").unlink()
        index.update()
        assert not any(hit.words for hit in index.find("yeast"))


def test_files_without_text_are_counted_and_not_tried_again(
    index: FolderIndex, folder: Path
) -> None:
    (folder / "binary.txt").write_bytes(b"\0\1\2")
    (folder / "empty.txt").write_text("")
    for _ in range(2):
        report = index.update()
        assert dict(report.skipped) == {"not text": 1}
        assert report.files == 3


def test_images_are_skipped_with_a_note_until_somebody_reads_them(
    engine: Engine, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "sign.png").write_bytes(b"a picture")
    with monkeypatch.context() as without:
        without.setattr("edgewise.folder_search.picture_reader", lambda threads: None)
        with FolderIndex(engine, folder) as blind:
            assert dict(blind.update().skipped) == {NO_PICTURES: 1}
    with FolderIndex(engine, folder, pictures=lambda path: "No parking on Sundays") as seeing:
        assert seeing.update().added == 1
        assert seeing.find("parking on Sundays")[0].path == "sign.png"
        assert seeing.update().unchanged == 3


def test_another_space_is_refused_until_it_is_rebuilt(folder: Path, index: FolderIndex) -> None:
    index.update()
    (folder / "new.txt").write_text("Something new.")
    with (
        Engine(Settings.load(), embedder=ScriptedEmbedder("other@none-32")) as engine,
        FolderIndex(engine, folder) as other,
    ):
        with pytest.raises(SpaceMismatch, match="scripted@none-32"):
            other.find("ferry")
        with pytest.raises(SpaceMismatch, match="scripted@none-32"):
            other.update()
        report = other.update(rebuild=True)
    assert (report.space, report.added) == ("other@none-32", 3)


def test_files_do_not_leave_the_device_unless_somebody_says_so(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LoopbackCloud() as cloud:
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        monkeypatch.setenv("OPENAI_BASE_URL", cloud.openai_url)
        settings = Settings.load(embed_model="no-such-model")
        with Engine(settings) as engine, FolderIndex(engine, folder) as index:
            with pytest.raises(ModelNotFound):
                index.update()
            assert not cloud.requests
        with Engine(settings) as engine, FolderIndex(engine, folder, policy="cloud_only") as index:
            assert index.update().space.startswith("openai/")
            assert cloud.requests


def test_an_empty_folder_has_nothing_to_find(engine: Engine, tmp_path: Path) -> None:
    with FolderIndex(engine, tmp_path) as index:
        assert index.update().files == 0
        assert index.find("anything") == []


def test_questions_get_passages_that_fit(index: FolderIndex) -> None:
    index.update()
    prompt, used = index.cite("When does the ferry leave?", context_tokens=2048, answer_tokens=64)
    assert "The ferry leaves the harbour at nine." in prompt
    assert len(used) == 2
    prompt, used = index.cite("When does the ferry leave?", context_tokens=70, answer_tokens=64)
    assert (prompt, used) == ("When does the ferry leave?", [])


def test_wrong_folders_and_empty_queries_are_refused(engine: Engine, index: FolderIndex) -> None:
    with pytest.raises(InvalidRequest, match="not a folder"):
        FolderIndex(engine, "no/such/folder")
    with pytest.raises(InvalidRequest, match="nothing to look for"):
        index.find(" ")


def test_the_index_is_kept_with_the_users_data(index: FolderIndex, engine: Engine) -> None:
    assert index._store.path.is_relative_to(engine.settings.data_dir)
    assert index._store.path == index_path(engine.settings, index.folder)
    assert sorted(path.name for path in index.folder.iterdir()) == ["bread.txt", "ferry.md"]


def test_a_file_with_many_passages_is_embedded_in_parts(
    engine: Engine, folder: Path, embedder: ScriptedEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    real = embedder.embed

    def noting(texts: Sequence[str]) -> Embedded:
        sizes.append(len(texts))
        return real(texts)

    monkeypatch.setattr(embedder, "embed", noting)
    (folder / "long.txt").write_text("word " * 180 * 300)
    with FolderIndex(engine, folder) as index:
        assert index.update().passages == 302
    assert max(sizes) == 256


SLOW_INDEXING = """
import sys, time
from edgewise import Engine, Settings
from edgewise.documents import NO_PICTURES, picture_reader
from edgewise.folder_search import FolderIndex
from edgewise.testing import ScriptedEmbedder

def progress(done, total, name):
    print(done, flush=True)
    time.sleep(0.02)

with Engine(Settings.load(), embedder=ScriptedEmbedder()) as engine:
    FolderIndex(engine, sys.argv[1]).update(progress)
"""


def test_a_killed_update_loses_nothing_that_was_done_and_is_continued(
    engine: Engine, folder: Path
) -> None:
    for number in range(200):
        (folder / f"{number:03}.txt").write_text(f"note number {number}")
    with subprocess.Popen(
        [sys.executable, "-c", SLOW_INDEXING, str(folder)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if int(line) >= 20:
                process.kill()
                break
    with FolderIndex(engine, folder) as index:
        done = index._store.count()
        assert 20 <= done < 202
        report = index.update()
        assert (report.added, report.unchanged) == (202 - done, done)
        assert index.find("note number 150", 1)[0].path == "150.txt"


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_nobody_else_may_read_the_index(index: FolderIndex) -> None:
    index.update()
    assert index._store.path.stat().st_mode & 0o077 == 0


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_a_data_folder_that_the_index_makes_first_is_closed_to_others(
    folder: Path, tmp_path: Path
) -> None:
    data = tmp_path / "new" / "data"
    with Engine(Settings(data_dir=data), embedder=ScriptedEmbedder()) as engine:
        FolderIndex(engine, folder).close()
    assert data.stat().st_mode & 0o077 == (data / "indexes").stat().st_mode & 0o077 == 0


@pytest.mark.real_model
def test_the_real_model_finds_by_meaning(default_embedder: InstalledModel, folder: Path) -> None:
    with Engine(Settings.load(threads=1)) as engine, FolderIndex(engine, folder) as index:
        index.update()
        assert index.find("What time can I take the boat?", 1)[0].path == "ferry.md"
        assert index.find("baking ingredients", 1)[0].path == "bread.txt"


@pytest.mark.real_model
def test_a_sign_in_a_picture_is_found_by_its_meaning(
    tmp_path: Path, default_embedder: InstalledModel
) -> None:
    picture = Pillow.new("RGB", (700, 160), "white")
    font = ImageFont.load_default(44)
    ImageDraw.Draw(picture).text((20, 50), "Parking forbidden on Sundays", "black", font)
    picture.save(tmp_path / "sign.png")
    (tmp_path / "broken.png").write_bytes(b"no picture")
    (tmp_path / "bread.txt").write_text("Bread needs flour, water, salt and yeast.")
    with (
        Engine(Settings.load(threads=1)) as engine,
        FolderIndex(engine, tmp_path) as index,
    ):
        report = index.update()
        assert dict(report.skipped) == {"images that cannot be read (invalid_request)": 1}
        best = index.find("Where may I leave my car at the weekend?", 1)[0]
        assert index.update().unchanged == 2
    assert best.path == "sign.png"
    assert "Sunday" in best.text


def test_without_a_reader_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert picture_reader(1) is None
