"""The index of a folder: its file, and the exact scan."""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Iterator
from pathlib import Path

import numpy
import pytest

from edgewise.errors import IndexUnavailable, SpaceMismatch
from edgewise.folder_search import IndexStore, KnownFile, Scan
from edgewise.types.embeddings import Embeddings, Passage
from edgewise.types.replies import Decision

DECISION = Decision(policy="local_only", handoff="automatic", code="", reason="")


def made(*rows: tuple[int, ...], space: str = "here") -> Embeddings:
    return Embeddings(
        id="",
        text="",
        source="local",
        decision=DECISION,
        space=space,
        vectors=tuple(array("b", row) for row in rows),
        scales=(1 / 127,) * len(rows),
    )


def file(path: str, note: str = "") -> KnownFile:
    return KnownFile(path, 1, 2, "hash", note)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[IndexStore]:
    opened = IndexStore(tmp_path / "folder" / "index.sqlite3")
    yield opened
    opened.close()


def test_files_come_back_with_their_passages(store: IndexStore) -> None:
    store.put(file("a.md"), [Passage(1, 2, "one"), Passage(4, 5, "two")], made((127, 0), (0, 127)))
    store.put(file("b.bin", "not text"), (), None)
    assert store.files() == {"a.md": file("a.md"), "b.bin": file("b.bin", "not text")}
    assert store.count() == 2
    ids, data, scales = store.vectors()
    ((best, score),) = Scan.of(ids, data, scales).nearest(array("f", (0.0, 1.0)), 1)
    assert score == pytest.approx(1.0)
    assert store.passage(best) == ("a.md", Passage(4, 5, "two"))


def test_putting_a_file_again_replaces_its_passages(store: IndexStore) -> None:
    store.put(file("a.md"), [Passage(1, 1, "old")], made((127, 0)))
    before = store.generation
    store.put(file("a.md"), [Passage(1, 1, "new")], made((0, 127)))
    assert store.count() == 1
    assert store.generation > before


def test_vectors_of_another_space_are_refused_and_nothing_changes(store: IndexStore) -> None:
    store.put(file("a.md"), [Passage(1, 1, "old")], made((127, 0)))
    with pytest.raises(SpaceMismatch, match="edgewise index --rebuild"):
        store.put(file("a.md"), [Passage(1, 1, "new")], made((0, 127), space="there"))
    ids, _, _ = store.vectors()
    assert store.passage(ids[0]) == ("a.md", Passage(1, 1, "old"))
    store.clear()
    store.put(file("a.md"), [Passage(1, 1, "new")], made((0, 127), space="there"))
    assert store.space == "there"


def test_removed_files_take_their_passages_along(store: IndexStore) -> None:
    store.put(file("a.md"), [Passage(1, 1, "x")], made((127, 0)))
    (number,) = store.vectors()[0]
    store.remove(["a.md"])
    assert (store.count(), store.files(), store.passage(number)) == (0, {}, None)


def test_a_put_that_breaks_off_leaves_the_old_passages(store: IndexStore) -> None:
    store.put(file("a.md"), [Passage(1, 1, "old")], made((127, 0)))
    with pytest.raises(ValueError, match="shorter"):
        store.put(file("a.md"), [Passage(1, 1, "new"), Passage(2, 2, "lost")], made((0, 127)))
    assert store.count() == 1
    assert store.passage(store.vectors()[0][0]) == ("a.md", Passage(1, 1, "old"))


def test_a_file_that_is_no_index_is_refused_with_words(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite3"
    path.write_bytes(b"this is no database at all" * 10)
    with pytest.raises(IndexUnavailable, match="not a database"):
        IndexStore(path)


def test_an_index_of_another_release_is_refused(store: IndexStore) -> None:
    with sqlite3.connect(store.path) as other:
        other.execute("UPDATE facts SET value = '99' WHERE name = 'format'")
    other.close()
    with pytest.raises(IndexUnavailable, match="another release"):
        IndexStore(store.path)


def test_a_folder_that_cannot_be_made_is_our_error(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(IndexUnavailable, match="cannot be used"):
        IndexStore(tmp_path / "taken" / "index.sqlite3")


def test_another_writer_that_does_not_end_is_our_error(
    store: IndexStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgewise.folder_search._BUSY_S", 0.05)
    waiting = IndexStore(store.path)
    with store._change(), pytest.raises(IndexUnavailable, match="locked"):
        waiting.remove(["a.md"])
    waiting.remove(["a.md"])
    waiting.close()


def test_the_nearest_are_those_of_a_full_sort_across_blocks() -> None:
    chance = numpy.random.default_rng(0)
    rows = chance.integers(-127, 128, (2500, 16), numpy.int8)
    scales = chance.random(2500, numpy.float32)
    query = chance.standard_normal(16).astype(numpy.float32)
    scores = (rows.astype(numpy.float64) @ query) * scales
    scan = Scan.of(array("q", range(2500)), rows.tobytes(), array("f", scales))
    found = scan.nearest(array("f", query), 20)
    assert [number for number, _ in found] == numpy.argsort(-scores)[:20].tolist()
    assert numpy.allclose([score for _, score in found], sorted(scores)[::-1][:20], atol=1e-3)


def test_asking_for_more_than_there_is_gives_all_and_nothing_gives_nothing() -> None:
    empty = Scan.of(array("q"), b"", array("f"))
    assert empty.nearest(array("f", (1.0,)), 3) == []
    one = Scan.of(array("q", [7]), array("b", [127]).tobytes(), array("f", [1 / 127]))
    assert [number for number, _ in one.nearest(array("f", (1.0,)), 3)] == [7]
