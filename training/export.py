"""Write weights and LoRA adapters as GGUF files, with numpy alone.

An adapter holds, for every weight W it changes, two thin matrices: W + B·A. It is stored as
llama.cpp's own adapter format wants it (alpha equals the rank, so that no scale is left to apply),
hence llama.cpp can also load it beside the base.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from training.base_weights import Bytes, Floats, pack_string
from training.quantise import KIND_NUMBERS, quantise

ALIGNMENT = 32
LowRank = Mapping[str, tuple[Floats, Floats]]  # name of the weight: (A, B), rank first and last


def write_gguf(
    path: Path, metadata: Mapping[str, Any], tensors: Mapping[str, Floats], kinds: Mapping[str, str]
) -> None:
    """A GGUF (version 3) file; it appears only when it is complete."""
    data = {name: quantise(value, kinds[name]) for name, value in tensors.items()}
    head = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), len(metadata))]
    for key, value in metadata.items():
        head.append(pack_string(key) + _typed(value))
    offset = 0
    for name, value in tensors.items():
        sizes = tuple(reversed(value.shape))
        head.append(pack_string(name) + struct.pack("<I", len(sizes)))
        head.append(struct.pack(f"<{len(sizes)}Q", *sizes))
        head.append(struct.pack("<IQ", KIND_NUMBERS[kinds[name]], offset))
        offset += _padded(len(data[name]))
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("wb") as file:
        header = b"".join(head)
        file.write(header.ljust(_padded(len(header)), b"\0"))
        for raw in data.values():
            file.write(_pad(raw))
    os.replace(temporary, path)


def write_adapter(
    path: Path,
    low_rank: LowRank,
    kind: str,
    notes: Mapping[str, Any],
    deltas: Mapping[str, Floats] | None = None,
) -> int:
    """Write the adapter with both matrices as `kind`; returns its size in bytes.

    `deltas` are small full differences (of norms), which only our own merging understands.
    """
    rank = min(pair[0].shape[0] for pair in low_rank.values())
    metadata = {
        "general.architecture": "llama",
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
