from __future__ import annotations

import numpy as np
import pytest
from training.dequantise import BLOCKS, dequantise, stored_bytes


@pytest.mark.parametrize("kind", sorted(BLOCKS))
def test_we_read_every_format_as_the_gguf_package_does(kind: int) -> None:
    from gguf import GGMLQuantizationType, quants

    size = stored_bytes(256 * 50, kind)
    raw = np.random.default_rng(kind).integers(0, 256, size, dtype=np.uint8)
    if kind > 1:  # scales of random bits may be no number at all
        blocks = raw.reshape(-1, BLOCKS[kind][1])
        for scale in {12: (0, 2), 14: (208,), 3: (0, 2)}.get(kind, (0,)):
            blocks[:, scale + 1] &= 0b10111111
    else:
        raw = np.random.default_rng(kind).standard_normal(256 * 50).astype("<f4")
        raw = (raw.astype("<f2") if kind == 1 else raw).view(np.uint8)
    theirs = quants.dequantize(
        raw.view({0: "<f4", 1: "<f2"}.get(kind, np.uint8)), GGMLQuantizationType(kind)
    )
    ours = dequantise(raw, kind)
    assert ours.dtype == np.float32
    assert np.allclose(ours, theirs.reshape(-1), rtol=1e-6, atol=1e-7)


def test_a_format_that_is_not_read_is_named() -> None:
    with pytest.raises(ValueError, match="type 13"):
        dequantise(np.zeros(176, np.uint8), 13)
