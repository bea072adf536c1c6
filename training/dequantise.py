"""Blocks of llama.cpp's formats to float32, with numpy alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]

F32, F16, Q4_0, Q4_1, Q5_0, Q8_0, Q4_K, Q6_K = 0, 1, 2, 3, 6, 8, 12, 14
# type number: (values per block, bytes per block)
BLOCKS = {
    F32: (1, 4),
    F16: (1, 2),
    Q4_0: (32, 18),
    Q4_1: (32, 20),
    Q5_0: (32, 22),
    Q8_0: (32, 34),
    Q4_K: (256, 144),
    Q6_K: (256, 210),
}


def stored_bytes(values: int, kind: int) -> int:
    """How many bytes so many values take as `kind`."""
    if kind not in BLOCKS:
        raise ValueError(f"tensor type {kind} is not read here")
    per_block, block_bytes = BLOCKS[kind]
    return values // per_block * block_bytes


def dequantise(raw: Bytes, kind: int) -> Floats:
    """The values of the types in `BLOCKS`, as llama.cpp defines them."""
    if kind not in BLOCKS:
        raise ValueError(f"tensor type {kind} is not read here")
    raw = np.ascontiguousarray(raw)
    if kind == F32:
        return raw.view("<f4").astype(np.float32)
    if kind == F16:
        return raw.view("<f2").astype(np.float32)
    blocks = raw.reshape(-1, BLOCKS[kind][1])
    values: Floats = _READERS[kind](blocks).reshape(-1)
    return values


def _half(columns: Bytes) -> Floats:
    return columns.copy().view("<f2").astype(np.float32)


def _nibbles(packed: Bytes) -> Bytes:
    return np.concatenate([packed & 15, packed >> 4], axis=1)


def _q4_0(blocks: Bytes) -> Any:
    return (_nibbles(blocks[:, 2:]).astype(np.float32) - 8) * _half(blocks[:, :2])


def _q4_1(blocks: Bytes) -> Any:
    return _nibbles(blocks[:, 4:]).astype(np.float32) * _half(blocks[:, :2]) + _half(blocks[:, 2:4])


def _q5_0(blocks: Bytes) -> Any:
    fifth = np.unpackbits(blocks[:, 2:6], axis=1, bitorder="little")
    numbers = _nibbles(blocks[:, 6:]) | (fifth << 4)
    return (numbers.astype(np.float32) - 16) * _half(blocks[:, :2])


def _q8_0(blocks: Bytes) -> Any:
    return blocks[:, 2:].view(np.int8).astype(np.float32) * _half(blocks[:, :2])


def _q4_k(blocks: Bytes) -> Any:
    """Eight runs of 32, each with a scale and a lowest value of six bits."""
    packed = blocks[:, 4:16]
    low, middle, high = packed[:, :4], packed[:, 4:8], packed[:, 8:]
    scales = np.concatenate([low & 63, (high & 15) | (low >> 6 << 4)], axis=1)
    lowest = np.concatenate([middle & 63, (high >> 4) | (middle >> 6 << 4)], axis=1)
    halves = blocks[:, 16:].reshape(-1, 4, 1, 32)
    numbers = np.concatenate([halves & 15, halves >> 4], axis=2).reshape(-1, 8, 32)
    steps = (_half(blocks[:, :2]) * scales)[:, :, None]
    return numbers * steps - (_half(blocks[:, 2:4]) * lowest)[:, :, None]


def _q6_k(blocks: Bytes) -> Any:
    """Sixteen runs of 16, each with a scale of eight bits."""
    packed, pairs = blocks[:, :128].reshape(-1, 2, 1, 64), blocks[:, 128:192].reshape(-1, 2, 1, 32)
    low = np.concatenate([packed & 15, packed >> 4], axis=2).reshape(-1, 16, 16)
    high = np.concatenate([pairs >> shift & 3 for shift in (0, 2, 4, 6)], axis=2)
    numbers = (low | (high.reshape(-1, 16, 16) << 4)).astype(np.float32) - 32
    scales = blocks[:, 192:208].view(np.int8).astype(np.float32)
    return numbers * (_half(blocks[:, 208:]) * scales)[:, :, None]


_READERS = {Q4_0: _q4_0, Q4_1: _q4_1, Q5_0: _q5_0, Q8_0: _q8_0, Q4_K: _q4_k, Q6_K: _q6_k}
