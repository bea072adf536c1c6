"""Rows of text as people read them, also on a tilted page."""

from __future__ import annotations

import math

from edgewise.types.replies import (
    Box,
    Line,
)
from edgewise.vision.answers import rows_of, tilt


def line(text: str, x: float, y: float, angle: float = 0.0, score: float = 0.9) -> Line:
    """A box of 100 by 20, rotated around the origin."""
    corners = ((x, y), (x + 100, y), (x + 100, y + 20), (x, y + 20))
    cos, sin = math.cos(angle), math.sin(angle)
    box: Box = tuple((a * cos - b * sin, a * sin + b * cos) for a, b in corners)
    return Line(text, score, box)


def test_boxes_side_by_side_are_one_row_from_the_left() -> None:
    rows = rows_of([line("3.50", 300, 42, score=0.7), line("Title", 0, 0), line("Total", 0, 40)])
    assert [row.text for row in rows] == ["Title", "Total  3.50"]
    assert rows[1].score == 0.7


def test_a_tilted_page_is_read_along_its_own_rows() -> None:
    for angle in (-0.15, 0.15):
        lines = [
            line(f"{row}{column}", 200 * column, 40 * row, angle)
            for row in range(3)
            for column in range(3)
        ]
        assert [row.text for row in rows_of(lines[::-1])] == [
            "00  01  02",
            "10  11  12",
            "20  21  22",
        ]
        assert math.isclose(tilt(lines), angle, abs_tol=1e-6)


def test_a_page_on_its_side_or_on_its_head_is_read_along_its_own_rows() -> None:
    for angle in (math.pi / 2, math.pi, -math.pi / 2):
        lines = [
            line(f"{row}{column}", 200 * column, 40 * row, angle + wobble)
            for row, wobble in enumerate((-0.02, 0.0, 0.02))
            for column in range(2)
        ]
        assert [row.text for row in rows_of(lines)] == ["00  01", "10  11", "20  21"]
        assert math.isclose(tilt(lines), 0.0, abs_tol=1e-6)


def test_empty_lines_and_no_lines_make_no_rows() -> None:
    assert rows_of([line("  ", 0, 0)]) == []
    assert rows_of([]) == []
    assert tilt([]) == 0.0


def test_a_letter_that_two_overlapping_boxes_hold_is_told_once() -> None:
    for left, right, joined in (
        ("Danger", "r high voltage", "Danger high voltage"),
        ("Fire door keep s", "shut", "Fire door keep shut"),
        ("Reception 2", "2nd floor", "Reception 2nd floor"),
        ("Keep", "left", "Keep  left"),
    ):
        assert rows_of([line(left, 0, 0), line(right, 90, 0)])[0].text == joined
    apart = rows_of([line("Platform 2", 0, 0), line("2 minutes", 200, 0)])
    assert apart[0].text == "Platform 2  2 minutes"
