"""Quantise float32 rows to llama.cpp's block formats, in numpy: F16, Q8_0 and Q4_0."""

from __future__ import annotations

import numpy as np

from training.dequantise import Bytes, Floats, dequantise

BLOCK = 32
KIND_NUMBERS = {"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q8_0": 8}


def quantise(values: Floats, kind: str) -> Bytes:
    """The bytes of `values` as `kind`; blocks run along the last axis."""
    flat = np.ascontiguousarray(values, dtype=np.float32)
    if kind == "F32":
        return flat.reshape(-1).view(np.uint8)
    if kind == "F16":
        return flat.astype("<f2").reshape(-1).view(np.uint8)
    if flat.shape[-1] % BLOCK:
        raise ValueError(f"{kind} needs rows of a multiple of {BLOCK}, not {flat.shape[-1]}")
    blocks = flat.reshape(-1, BLOCK)
    if kind == "Q8_0":
        return _q8_0(blocks).reshape(-1)
    if kind == "Q4_0":
        return _q4_0(blocks).reshape(-1)
    raise ValueError(f"no way to write {kind}")


def round_trip(values: Floats, kind: str) -> Floats:
    """What is left of `values` after being stored as `kind`."""
    return dequantise(quantise(values, kind), KIND_NUMBERS[kind]).reshape(values.shape)


def _q8_0(blocks: Floats) -> Bytes:
    scale = np.abs(blocks).max(axis=1, keepdims=True) / 127
    inverse = np.divide(1, scale, out=np.zeros_like(scale), where=scale != 0)
    numbers = np.rint(blocks * inverse).astype(np.int8)
    return np.concatenate([scale.astype("<f2").view(np.uint8), numbers.view(np.uint8)], axis=1)


def _q4_0(blocks: Floats) -> Bytes:
    largest = np.take_along_axis(blocks, np.abs(blocks).argmax(axis=1)[:, None], axis=1)
    scale = largest / -8
    inverse = np.divide(1, scale, out=np.zeros_like(scale), where=scale != 0)
    numbers = np.clip(np.trunc(blocks * inverse + 8.5), 0, 15).astype(np.uint8)
    packed = numbers[:, :16] | (numbers[:, 16:] << 4)
    return np.concatenate([scale.astype("<f2").view(np.uint8), packed], axis=1)
