"""Rounds weights to IQ4_NL: sixteen uneven levels, four bits each, one scale for 32 values.

llama.cpp reads these blocks as fast as those of Q4_0 (it repacks both for AVX2 and NEON), and they
are closer to the weights by a quarter. `gguf` can read them but not write them.

Every operation here is one IEEE 754 operation on single numbers in a fixed order, so the same
weights give the same bytes on every machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]

BLOCK = 32
# llama.cpp's `kvalues_iq4nl`; a value is its level times the scale of its block.
LEVELS = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
# Where the largest value of a block may lie among the levels; the closest of these tries is kept.
REACHES = (-127.0, -118.0, 113.0, 104.0)


def round_to_levels(weights: Floats) -> npt.NDArray[np.uint8]:
    """The blocks of `weights`, whose rows must be multiples of 32 long; rows stay rows."""
    import numpy as np  # noqa: PLC0415

    levels = np.array(LEVELS, np.float32)
    between = (levels[1:] + levels[:-1]) / 2
    blocks = np.ascontiguousarray(weights, np.float32).reshape(-1, BLOCK)
    largest = np.take_along_axis(blocks, np.abs(blocks).argmax(axis=1)[:, None], axis=1)
    best = np.full_like(largest, -1)
    scales, codes = np.zeros_like(largest), np.zeros(blocks.shape, np.uint8)
    for reach in REACHES:
        inverse = np.divide(
            np.float32(reach), largest, out=np.zeros_like(largest), where=largest != 0
        )
        tried = np.searchsorted(between, blocks * inverse).astype(np.uint8)
        values = levels[tried]
        product, square = _sum(blocks * values), _sum(values * values)
        gain = product * product / square
        closer = gain > best
        best = np.where(closer, gain, best)
        scales = np.where(closer, product / square, scales)
        codes = np.where(closer, tried, codes)
    half = BLOCK // 2
    packed = codes[:, :half] | (codes[:, half:] << 4)
    stored = np.concatenate([scales.astype("<f2").view(np.uint8), packed], axis=1)
    return stored.reshape(*weights.shape[:-1], -1)


def _sum(blocks: Floats) -> Floats:
    """Sums of rows, always in the same order: halves are added until one column is left."""
    while blocks.shape[1] > 1:
        half = blocks.shape[1] // 2
        blocks = blocks[:, :half] + blocks[:, half:]
    return blocks
