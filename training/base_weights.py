"""Read the base model's GGUF file with numpy alone: metadata, float32 weights and tokenizer.

The machine that trains has no `gguf` package, and the base comes only as Q4_1.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]

END_OF_TURN = "<|im_end|>"

_PLAIN = {
    0: "<u1",
    1: "<i1",
    2: "<u2",
    3: "<i2",
    4: "<u4",
    5: "<i4",
    6: "<f4",
    7: "?",
    10: "<u8",
    11: "<i8",
    12: "<f8",
}
_STRING, _ARRAY = 8, 9
_CONTROL_TOKEN = 3
# type number: (values per block, bytes per block)
_BLOCKS = {0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 8: (32, 34)}


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The numbers that make a LLaMA."""

    layers: int
    width: int
    feed_forward: int
    heads: int
    kv_heads: int
    vocabulary: int
    rope_base: float
    norm_epsilon: float

    @property
    def head_width(self) -> int:
        return self.width // self.heads


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """Where a tensor lies. `shape` is row-major: outputs first, as numpy and torch have it."""

    shape: tuple[int, ...]
    kind: int
    offset: int


class GgufFile:
    """A GGUF file: `metadata`, the table of tensors, and `tensor(name)` as float32."""

    def __init__(self, path: Path) -> None:
        self._data: Bytes = np.memmap(path, dtype=np.uint8, mode="r")
        self._at = 0
        if bytes(self._data[:4]) != b"GGUF":
            raise ValueError(f"{path} is not a GGUF file")
        self._at = 8
        tensors, keys = self._number("<u8"), self._number("<u8")
        self.metadata: dict[str, Any] = {}
        for _ in range(keys):
            name = self._string()
            self.metadata[name] = self._value(self._number("<u4"))
        self.entries: dict[str, TensorEntry] = {}
        for _ in range(tensors):
            name = self._string()
            sizes = [self._number("<u8") for _ in range(self._number("<u4"))]
            kind, offset = self._number("<u4"), self._number("<u8")
            self.entries[name] = TensorEntry(tuple(reversed(sizes)), kind, offset)
        alignment = int(self.metadata.get("general.alignment", 32))
        self._start = -(-self._at // alignment) * alignment

    def tensor(self, name: str) -> Floats:
        entry = self.entries[name]
        count = int(np.prod(entry.shape))
        per_block, block_bytes = _BLOCKS[entry.kind]
        begin = self._start + entry.offset
        raw = self._data[begin : begin + count // per_block * block_bytes]
        return dequantise(raw, entry.kind).reshape(entry.shape)

    def _number(self, dtype: str) -> int:
        kind = np.dtype(dtype)
        value = np.frombuffer(bytes(self._data[self._at : self._at + kind.itemsize]), kind)[0]
        self._at += kind.itemsize
        return int(value)

    def _string(self) -> str:
        length = self._number("<u8")
        text = bytes(self._data[self._at : self._at + length]).decode()
        self._at += length
        return text

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._string()
        if kind == _ARRAY:
            element, count = self._number("<u4"), self._number("<u8")
            return [self._value(element) for _ in range(count)]
        dtype = np.dtype(_PLAIN[kind])
        value = np.frombuffer(bytes(self._data[self._at : self._at + dtype.itemsize]), dtype)[0]
        self._at += dtype.itemsize
        return value.item()


def dequantise(raw: Bytes, kind: int) -> Floats:
    """F32, F16, Q4_0, Q4_1 and Q8_0 to float32, as llama.cpp defines them."""
    raw = np.ascontiguousarray(raw)
    if kind == 0:
        return raw.view("<f4").astype(np.float32)
    if kind == 1:
        return raw.view("<f2").astype(np.float32)
    if kind not in _BLOCKS:
        raise ValueError(f"tensor type {kind} is not read here")
    blocks = raw.reshape(-1, _BLOCKS[kind][1])
    scale = blocks[:, :2].copy().view("<f2").astype(np.float32)
    if kind == 8:
        return (blocks[:, 2:].view(np.int8).astype(np.float32) * scale).reshape(-1)
    packed = blocks[:, -16:]
    values = np.concatenate([packed & 15, packed >> 4], axis=1).astype(np.float32)
    if kind == 2:
        return ((values - 8) * scale).reshape(-1)
    lowest = blocks[:, 2:4].copy().view("<f2").astype(np.float32)
    return (values * scale + lowest).reshape(-1)


def read_shape(file: GgufFile) -> ModelShape:
    meta = file.metadata
    if meta["general.architecture"] != "llama":
        raise ValueError(f"not a LLaMA: {meta['general.architecture']}")
    return ModelShape(
        layers=meta["llama.block_count"],
        width=meta["llama.embedding_length"],
        feed_forward=meta["llama.feed_forward_length"],
        heads=meta["llama.attention.head_count"],
        kv_heads=meta["llama.attention.head_count_kv"],
        vocabulary=len(meta["tokenizer.ggml.tokens"]),
        rope_base=meta["llama.rope.freq_base"],
        norm_epsilon=meta["llama.attention.layer_norm_rms_epsilon"],
    )


def read_weights(file: GgufFile) -> dict[str, Floats]:
    """Every tensor as float32, under its GGUF name; q and k stay in llama.cpp's row order."""
    return {name: file.tensor(name) for name in file.entries}


def build_tokenizer(metadata: Mapping[str, Any]) -> Any:
    """The `tokenizers` object that splits text exactly as llama.cpp does for this file."""
    # Only preparing data needs the library.
    from tokenizers import (  # noqa: PLC0415
        AddedToken,
        Tokenizer,
        decoders,
        models,
        pre_tokenizers,
    )

    if metadata["tokenizer.ggml.pre"] != "smollm":
        raise ValueError(f"unknown pre-tokenizer {metadata['tokenizer.ggml.pre']}")
    tokens: list[str] = metadata["tokenizer.ggml.tokens"]
    merges = [tuple(pair.split(" ", 1)) for pair in metadata["tokenizer.ggml.merges"]]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    kinds = metadata["tokenizer.ggml.token_type"]
    special = [token for token, kind in zip(tokens, kinds, strict=True) if kind == _CONTROL_TOKEN]
    tokenizer.add_special_tokens([AddedToken(token, normalized=False) for token in special])
    return tokenizer


def write_tiny_gguf(path: Path, source: GgufFile, layers: int) -> None:
    """A GGUF with the first `layers` layers of `source`: rehearsals and tests on one core."""
    names = [
        name
        for name in source.entries
        if not name.startswith("blk.") or int(name.split(".")[1]) < layers
    ]
    metadata = source.metadata | {"llama.block_count": layers}
    _write_f16_gguf(path, metadata, {name: source.tensor(name) for name in names})


def _write_f16_gguf(path: Path, metadata: Mapping[str, Any], tensors: Mapping[str, Floats]) -> None:
    # Imported here: export builds on this module.
    from training.export import write_gguf  # noqa: PLC0415

    kinds = {name: "F32" if value.ndim == 1 else "F16" for name, value in tensors.items()}
    write_gguf(path, dict(metadata) | {"general.file_type": 1}, tensors, kinds)


def pack_string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data
