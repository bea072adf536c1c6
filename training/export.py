"""Write weights and LoRA adapters as GGUF files, with numpy alone.

An adapter holds, for every weight W it changes, two thin matrices: W + B·A. It is stored as
llama.cpp's own adapter format wants it (alpha equals the rank, so that no scale is left to apply),
hence llama.cpp can also load it beside the base.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from training.base_weights import pack_string
from training.dequantise import Bytes, Floats
from training.quantise import KIND_NUMBERS, quantise

ALIGNMENT = 32
LowRank = Mapping[str, tuple[Floats, Floats]]  # name of the weight: (A, B), rank first and last


class StoredTensor(NamedTuple):
    """A tensor as it lies in a file: row-major shape, number of its type, bytes."""

    name: str
    shape: tuple[int, ...]
    kind: int
    data: Bytes


def write_gguf(
    path: Path, metadata: Mapping[str, Any], tensors: Mapping[str, Floats], kinds: Mapping[str, str]
) -> None:
    """A GGUF file of float32 values, stored as `kinds` say."""
    stored = [
        StoredTensor(name, value.shape, KIND_NUMBERS[kinds[name]], quantise(value, kinds[name]))
        for name, value in tensors.items()
    ]
    keys = b"".join(pack_string(key) + _typed(value) for key, value in metadata.items())
    write_stored(path, len(metadata), keys, stored)


def write_stored(path: Path, count: int, keys: bytes, tensors: Sequence[StoredTensor]) -> None:
    """A GGUF (version 3) file from packed keys and bytes; it appears only when it is complete."""
    head = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), count), keys]
    offset = 0
    for tensor in tensors:
        sizes = tuple(reversed(tensor.shape))
        head.append(pack_string(tensor.name) + struct.pack("<I", len(sizes)))
        head.append(struct.pack(f"<{len(sizes)}Q", *sizes))
        head.append(struct.pack("<IQ", tensor.kind, offset))
        offset += _padded(len(tensor.data))
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("wb") as file:
        header = b"".join(head)
        file.write(header.ljust(_padded(len(header)), b"\0"))
        for tensor in tensors:
            file.write(_pad(tensor.data))
    os.replace(temporary, path)


def write_adapter(
    path: Path,
    low_rank: LowRank,
    kind: str,
    notes: Mapping[str, Any],
    deltas: Mapping[str, Floats] | None = None,
    architecture: str = "llama",
) -> int:
    """Write the adapter with both matrices as `kind`; returns its size in bytes.

    `deltas` are small full differences (of norms), which only our own merging understands.
    """
    rank = min(pair[0].shape[0] for pair in low_rank.values())
    metadata = {
        "general.architecture": architecture,
        "general.type": "adapter",
        "adapter.type": "lora",
        "adapter.lora.alpha": float(rank),
        "general.name": "edgewise function caller",
    }
    metadata |= {f"edgewise.{key}": value for key, value in notes.items()}
    tensors: dict[str, Floats] = {}
    for name, (a, b) in low_rank.items():
        # llama.cpp divides alpha by each tensor's own rank; undo that where ranks differ.
        tensors[f"{name}.lora_a"] = a
        tensors[f"{name}.lora_b"] = b * (a.shape[0] / rank)
    kinds = {name: _adapter_kind(value, kind) for name, value in tensors.items()}
    for name, value in (deltas or {}).items():
        tensors[f"{name}.delta"], kinds[f"{name}.delta"] = value, "F32"
    write_gguf(path, metadata, tensors, kinds)
    return path.stat().st_size


def _adapter_kind(value: Floats, kind: str) -> str:
    return kind if value.shape[-1] % 32 == 0 else "F16"


def _typed(value: Any) -> bytes:
    number, body = _body(value)
    return struct.pack("<I", number) + body


def _body(value: Any) -> tuple[int, bytes]:
    if isinstance(value, str):
        return 8, pack_string(value)
    if isinstance(value, bool):
        return 7, struct.pack("<?", value)
    if isinstance(value, int):
        return 4, struct.pack("<I", value)
    if isinstance(value, float):
        return 6, struct.pack("<f", value)
    if not isinstance(value, list) or not value:
        raise TypeError(f"no GGUF value: {value!r}")
    if isinstance(value[0], int):
        return 9, struct.pack("<IQ", 5, len(value)) + np.asarray(value, dtype="<i4").tobytes()
    bodies = [_body(element) for element in value]
    return 9, struct.pack("<IQ", bodies[0][0], len(value)) + b"".join(b for _, b in bodies)


def _padded(length: int) -> int:
    return -(-length // ALIGNMENT) * ALIGNMENT


def _pad(raw: Bytes) -> bytes:
    return raw.tobytes().ljust(_padded(len(raw)), b"\0")
