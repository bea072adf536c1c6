"""Text and objects in real pictures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from edgewise.errors import ModelNotFound
from edgewise.local.catalogue import GRAPH_TEXT, OBJECT_FINDER
from edgewise.local.store import InstalledModel, ModelStore
from edgewise.local.vision import LEAST_SCORE, ObjectFinder, TextReader, _Reading
from edgewise.types.replies import Line
from edgewise.vision.answers import rows_of
from edgewise.vision.question import CLASSES
from tests.conftest import MODELS_DIR
from tests.pictures import page


@pytest.fixture(scope="module")
def reader() -> Iterator[TextReader]:
    vision_skill = TextReader(threads=1)
    yield vision_skill
    vision_skill.close()


@pytest.mark.real_model
def test_rows_are_read_with_scores_and_places(reader: TextReader) -> None:
    sight = reader.look(np.asarray(page("NO PARKING", "Open 24 hours", width=360)))
    assert [line.text for line in sight.lines] == ["NO PARKING", "Open 24 hours"]
    assert all(line.score > 0.9 and len(line.box) == 4 for line in sight.lines)
    assert (sight.width, sight.height) == (360, 140)


@pytest.mark.real_model
@pytest.mark.parametrize("turns", [1, 2, 3])
def test_a_turned_page_is_read_in_its_own_order(reader: TextReader, turns: int) -> None:
    upright = np.asarray(page("Invoice No 17", "Bill to Anna Berg", "Total 59.49", width=420))
    first = reader.look(upright).lines[0]
    sight = reader.look(np.rot90(upright, turns))
    assert sight.upright
    rows = [row.text for row in rows_of(sight.lines)]
    assert rows == ["Invoice No 17", "Bill to Anna Berg", "Total 59.49"]
    # The first corner is where the text begins, in the picture as it was given.
    x, y = first.box[0]
    height, width = upright.shape[:2]
    begins = {1: (y, width - x), 2: (width - x, height - y), 3: (height - y, x)}[turns]
    assert sight.lines[0].box[0] == pytest.approx(begins, abs=6)


def test_a_page_is_turned_as_its_lines_say_and_not_without_need() -> None:
    two = (Line("Thank you", 0.9), Line("Total 36.68", 0.9))
    assert _Reading(0, two, (98.0, 0.0, 2.0, 0.0)).turns_to_try() == ()
    assert _Reading(0, two, (52.0, 0.0, 46.0, 0.0)).turns_to_try() == (2,)
    assert _Reading(0, two, (0.0, 40.0, 0.0, 58.0)).turns_to_try() == (1, 3)
    assert _Reading(0, two, (0.0,) * 4).turns_to_try() == ()
    letters = tuple(Line(letter, 0.9) for letter in "EXIT")
    assert _Reading(0, letters, (0.0,) * 4).turns_to_try() == (1, 3, 2)
    assert not _Reading(0, two, (40.0, 0.0, 58.0, 0.0)).is_upright()
    alone = _Reading(0, (Line("EXIT", 0.95),), (1.0, 0.0, 3.0, 0.0))
    assert (alone.is_upright(), alone.turns_to_try()) == (True, ())


@pytest.mark.real_model
def test_one_short_word_is_taken_as_it_stands(reader: TextReader) -> None:
    sight = reader.look(np.asarray(page("30", width=120)))
    assert (sight.upright, [line.text for line in sight.lines]) == (True, ["30"])


@pytest.mark.real_model
@pytest.mark.parametrize("shape", [(1, 1), (3, 200), (60, 60)], ids=str)
def test_a_picture_without_text_has_no_lines(reader: TextReader, shape: tuple[int, int]) -> None:
    assert reader.look(np.full((*shape, 3), 200, np.uint8)).lines == ()


@pytest.mark.real_model
def test_it_can_be_closed_and_used_again(reader: TextReader) -> None:
    reader.close()
    assert reader.look(np.asarray(page("EXIT", width=160))).lines[0].text == "EXIT"
    assert reader.facts().model == "pp-ocrv6-small"


@pytest.fixture(scope="module")
def finder() -> ObjectFinder:
    try:
        return ObjectFinder(ModelStore(MODELS_DIR).find(OBJECT_FINDER), threads=1)
    except ModelNotFound as error:
        pytest.fail(f"{error} (make test does that)")


@pytest.mark.real_model
def test_what_it_finds_has_a_name_a_score_and_a_place_inside(finder: ObjectFinder) -> None:
    grain = np.random.default_rng(0).integers(0, 255, (240, 320, 3), np.uint8)
    stripes = np.tile(np.repeat(np.array([20, 220], np.uint8), 20)[None, :, None], (240, 8, 3))
    for pixels in (grain, stripes):
        sight = finder.look(pixels)
        scores = [thing.score for thing in sight.things]
        assert scores == sorted(scores, reverse=True)
        for thing in sight.things:
            assert thing.name in CLASSES.values()
            assert LEAST_SCORE <= thing.score <= 1
            assert len(thing.box) == 4


@pytest.mark.real_model
def test_a_picture_of_one_colour_holds_nothing_that_is_sure(finder: ObjectFinder) -> None:
    for size in ((1, 1), (300, 300)):
        sight = finder.look(np.full((*size, 3), 128, np.uint8))
        assert all(thing.score < 0.6 for thing in sight.things)


def test_a_file_that_is_no_network_is_named(tmp_path: Path) -> None:
    (tmp_path / "graph.pb").write_bytes(b"not a graph")
    (tmp_path / GRAPH_TEXT).write_text("nor this")
    model = InstalledModel("x", tmp_path / "graph.pb", "FP32", "", 11)
    with pytest.raises(ModelNotFound, match="no object finder"):
        ObjectFinder(model, threads=1).look(np.zeros((40, 40, 3), np.uint8))
