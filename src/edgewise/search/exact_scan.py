"""Look at every vector: exact, and at the size of a folder quicker than an index of them."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

_ROWS_AT_ONCE = 1024  # as floats they stay in the processor's cache


@dataclass(frozen=True, slots=True)
class Scan:
    """8-bit vectors of length 1 in memory: 40 MB for 100,000 of the default model's."""

    ids: array[int]
    rows: NDArray[numpy.int8]
    scales: NDArray[numpy.float32]

    @classmethod
    def of(cls, ids: array[int], data: bytes, scales: array[float]) -> Scan:
        import numpy  # noqa: PLC0415  # loads with the first search

        rows = numpy.frombuffer(data, numpy.int8)
        shape = (len(ids), len(rows) // max(1, len(ids)))
        return cls(ids, rows.reshape(shape), numpy.frombuffer(scales, numpy.float32))

    def nearest(self, query: array[float], most: int) -> list[tuple[int, float]]:
        """Ids and cosines of the nearest, best first."""
        import numpy  # noqa: PLC0415

        if not self.ids:
            return []
        wanted = numpy.frombuffer(query, numpy.float32)
        scores = numpy.empty(len(self.ids), numpy.float32)
        for start in range(0, len(scores), _ROWS_AT_ONCE):
            block = self.rows[start : start + _ROWS_AT_ONCE]
            scores[start : start + len(block)] = block.astype(numpy.float32) @ wanted
        scores *= self.scales
        most = min(most, len(scores))
        best = numpy.argpartition(scores, -most)[-most:]
        ordered = best[numpy.argsort(-scores[best], kind="stable")]
        return [(self.ids[index], float(scores[index])) for index in ordered.tolist()]
