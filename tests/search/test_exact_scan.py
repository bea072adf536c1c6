"""The scan finds what sorting everything finds."""

from __future__ import annotations

from array import array

import numpy

from edgewise.search.index import Scan


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
