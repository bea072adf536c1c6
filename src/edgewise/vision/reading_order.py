"""Arranges the lines of text in a picture into rows, in reading order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from edgewise.types.pictures import Line

_SAME_ROW = 0.5  # of a line's height: centres closer than this are on one row


@dataclass(frozen=True, slots=True)
class Row:
    """Lines side by side. `score` is the lowest of theirs: a row is as good as its worst part."""

    text: str
    score: float
    height: float


def tilt(lines: Sequence[Line]) -> float:
    """The angle of the text in radians: the median of its lines."""
    angles = [
        math.atan2(line.box[1][1] - line.box[0][1], line.box[1][0] - line.box[0][0])
        for line in lines
        if len(line.box) >= 2
    ]
    return median(angles) if angles else 0.0


def text_height(line: Line) -> float:
    if len(line.box) < 4:
        return 0.0
    (x0, y0), (x3, y3) = line.box[0], line.box[3]
    return math.hypot(x3 - x0, y3 - y0)


def rows_of(lines: Sequence[Line]) -> list[Row]:
    """Rows from the top, each from the left, in the text's own direction."""
    written = [line for line in lines if line.text.strip()]
    angle = tilt(written)
    placed = sorted(((_place(line, angle), line) for line in written), key=lambda pair: pair[0][1])
    rows: list[list[tuple[tuple[float, float], Line]]] = []
    for place, line in placed:
        if rows and _same_row(place, line, rows[-1]):
            rows[-1].append((place, line))
        else:
            rows.append([(place, line)])
    return [_row([line for _, line in sorted(row, key=lambda pair: pair[0][0])]) for row in rows]


def _same_row(
    place: tuple[float, float], line: Line, row: Sequence[tuple[tuple[float, float], Line]]
) -> bool:
    middle = sum(found[1] for found, _ in row) / len(row)
    height = max(text_height(line), *(text_height(other) for _, other in row))
    return abs(place[1] - middle) < _SAME_ROW * height


def _place(line: Line, angle: float) -> tuple[float, float]:
    """The middle of a line, rotated so that text runs level."""
    if not line.box:
        return 0.0, 0.0
    x = sum(point[0] for point in line.box) / len(line.box)
    y = sum(point[1] for point in line.box) / len(line.box)
    cos, sin = math.cos(-angle), math.sin(-angle)
    return x * cos - y * sin, x * sin + y * cos


def _row(lines: Sequence[Line]) -> Row:
    text = lines[0].text.strip()
    for left, right in pairwise(lines):
        text = _joined(text, right.text.strip(), shared=_touch(left, right))
    return Row(text, min(line.score for line in lines), min(text_height(line) for line in lines))


def _touch(left: Line, right: Line) -> bool:
    """Whether two boxes of a row overlap: both may then contain the letter between them."""
    if not left.box or not right.box:
        return False
    return max(x for x, _ in left.box) > min(x for x, _ in right.box)


def _joined(left: str, right: str, *, shared: bool) -> str:
    """Join two texts; a piece that both boxes contain is written once."""
    for length in (3, 2, 1):
        bit = right[:length]
        if not shared or len(bit) < length or " " in bit or not left.endswith(bit):
            continue
        if left.endswith(f" {bit}"):  # "keep s" and "shut"
            return f"{left[:-length]}{right}"
        if right[length : length + 1] == " ":  # "Danger" and "r high"
            return f"{left}{right[length:]}"
    return f"{left}  {right}"
