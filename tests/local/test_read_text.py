"""The real reader on drawn pages: what it reads, and that bad pictures do not stop it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from edgewise.local.vision import TextReader
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
@pytest.mark.parametrize("shape", [(1, 1), (3, 200), (60, 60)], ids=str)
def test_a_picture_without_text_has_no_lines(reader: TextReader, shape: tuple[int, int]) -> None:
    assert reader.look(np.full((*shape, 3), 200, np.uint8)).lines == ()


@pytest.mark.real_model
def test_it_can_be_closed_and_used_again(reader: TextReader) -> None:
    reader.close()
    assert reader.look(np.asarray(page("EXIT", width=160))).lines[0].text == "EXIT"
    assert reader.facts().model == "pp-ocrv6-small"
