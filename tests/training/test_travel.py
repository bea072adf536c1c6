from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from training.base_weights import GgufFile, read_weights
from training.export import write_gguf
from training.travel import write_travelling


def draw(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def test_only_the_finer_of_two_matrices_of_words_travels_and_nothing_else_changes(
    tmp_path: Path,
) -> None:
    words = draw(12, 64)
    tensors = {
        "output.weight": words,
        "token_embd.weight": words,
        "blk.0.attn_q.weight": draw(64, 64, seed=1),
        "output_norm.weight": draw(64, seed=2),
    }
    kinds = {
        "output.weight": "Q8_0",
        "token_embd.weight": "Q4_0",
        "blk.0.attn_q.weight": "Q4_0",
        "output_norm.weight": "F32",
    }
    notes = {"general.architecture": "qwen2", "tokenizer.ggml.tokens": ["a", "b"], "n": 3, "x": 0.5}
    write_gguf(tmp_path / "whole.gguf", notes, tensors, kinds)
    write_travelling(tmp_path / "whole.gguf", tmp_path / "small.gguf")

    whole, small = GgufFile(tmp_path / "whole.gguf"), GgufFile(tmp_path / "small.gguf")
    assert small.metadata == whole.metadata
    assert set(small.entries) == set(tensors) - {"output.weight"}
    assert np.array_equal(small.raw("token_embd.weight"), whole.raw("output.weight"))
    assert np.array_equal(small.raw("blk.0.attn_q.weight"), whole.raw("blk.0.attn_q.weight"))
    ours, theirs = read_weights(small), read_weights(whole)
    assert set(ours) == set(theirs)
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)
