from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from training.base_weights import GgufFile
from training.export import write_adapter, write_gguf
from training.quantise import quantise, round_trip


def draw(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("kind", ["F16", "Q8_0", "Q4_0"])
def test_our_rounding_is_that_of_the_gguf_package(kind: str) -> None:
    from gguf import GGMLQuantizationType, quants

    values = draw(40, 96)
    theirs = quants.quantize(values, GGMLQuantizationType[kind])
    ours = quantise(values, kind)
    assert np.mean(ours != np.ascontiguousarray(theirs).reshape(-1).view(np.uint8)) < 1e-3


def test_what_is_written_is_read_back_by_us_and_by_the_gguf_package(tmp_path: Path) -> None:
    from gguf import GGUFReader, quants

    path = tmp_path / "a.gguf"
    tensors = {"x.weight": draw(3, 64), "norm.weight": draw(64, seed=1)}
    notes = {"general.architecture": "llama", "a": 7, "b": 0.5, "c": ["x", "yz"], "d": [1, -2]}
    write_gguf(path, notes, tensors, {"x.weight": "Q8_0", "norm.weight": "F32"})

    ours = GgufFile(path)
    assert ours.metadata == notes
    assert np.array_equal(ours.tensor("x.weight"), round_trip(tensors["x.weight"], "Q8_0"))
    theirs = {t.name: quants.dequantize(t.data, t.tensor_type) for t in GGUFReader(path).tensors}
    for name in tensors:
        assert np.array_equal(theirs[name], ours.tensor(name))


def test_an_adapter_holds_the_product_whatever_the_ranks(tmp_path: Path) -> None:
    pairs = {
        "blk.0.attn_q.weight": (draw(32, 64), draw(96, 32, seed=1)),
        "token_embd.weight": (draw(64, 64, seed=2), draw(96, 64, seed=3)),
    }
    write_adapter(tmp_path / "a.gguf", pairs, "F16", {"settings": "{}"})
    file = GgufFile(tmp_path / "a.gguf")
    assert file.metadata["general.type"] == "adapter"
    for name, (a, b) in pairs.items():
        stored_a, stored_b = file.tensor(f"{name}.lora_a"), file.tensor(f"{name}.lora_b")
        scale = file.metadata["adapter.lora.alpha"] / stored_a.shape[0]
        assert np.abs(scale * (stored_b @ stored_a) - b @ a).max() < 0.1
