"""Averaging adapters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from training.base_weights import GgufFile
from training.export import write_adapter
from training.soup import reduce_rank, soup

NAME = "blk.0.attn_q.weight"


def product(path: Path) -> Any:
    file = GgufFile(path)
    a, b = file.tensor(f"{NAME}.lora_a"), file.tensor(f"{NAME}.lora_b")
    return b @ a * (float(file.metadata["adapter.lora.alpha"]) / a.shape[0])


def random_adapter(path: Path, seed: int, rank: int, architecture: str = "qwen2") -> Path:
    generator = np.random.default_rng(seed)
    a = generator.normal(size=(rank, 64)).astype(np.float32)
    b = generator.normal(size=(96, rank)).astype(np.float32)
    write_adapter(path, {NAME: (a, b)}, "F32", {}, architecture=architecture)
    return path


def test_the_soup_is_the_mean_of_its_parts_where_the_rank_suffices(tmp_path: Path) -> None:
    parts = [random_adapter(tmp_path / f"{seed}.gguf", seed, rank=8) for seed in (1, 2, 3)]
    _, kept = soup(parts, tmp_path / "soup.gguf", rank=32, kind="F32")
    wanted = sum(product(part) for part in parts) / 3
    assert kept == pytest.approx(1.0)
    assert np.allclose(product(tmp_path / "soup.gguf"), wanted, atol=0.02)
    assert GgufFile(tmp_path / "soup.gguf").metadata["general.architecture"] == "qwen2"


def test_adapters_of_different_bases_have_no_mean(tmp_path: Path) -> None:
    parts = [
        random_adapter(tmp_path / f"{name}.gguf", 1, rank=8, architecture=name)
        for name in ("llama", "qwen2")
    ]
    with pytest.raises(ValueError, match="different bases"):
        soup(parts, tmp_path / "soup.gguf", rank=8, kind="F32")


def test_a_lower_rank_keeps_the_largest_directions() -> None:
    generator = np.random.default_rng(0)
    a = generator.normal(size=(8, 64)).astype(np.float32)
    b = generator.normal(size=(96, 8)).astype(np.float32)
    a[0] *= 100
    (new_a, new_b), kept = reduce_rank((a, b), 1)
    assert new_a.shape == (1, 64)
    assert kept > 0.95
    assert np.linalg.norm(new_b @ new_a - b @ a) < 0.25 * np.linalg.norm(b @ a)
