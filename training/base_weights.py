"""Read a base model's GGUF file with numpy alone: metadata, shape and float32 weights.

The machine that trains has no `gguf` package, and the bases come quantised.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from training.dequantise import Bytes, Floats, dequantise, stored_bytes

EMBEDDING, READ_OUT = "token_embd.weight", "output.weight"
ARCHITECTURES = ("llama", "qwen2", "gemma3")
_GLOBAL_EVERY, _LOCAL_ROPE_BASE = 6, 10_000.0  # Gemma 3; its files do not say

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
_KEYS_BEGIN = 24


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The numbers that make a model of LLaMA's family."""

    architecture: str
    layers: int
    width: int
    feed_forward: int
    heads: int
    kv_heads: int
    vocabulary: int
    rope_base: float
    norm_epsilon: float
    head_width: int
    biased: bool  # q, k and v have biases
    window: int  # how far local layers look back; 0: there are none

    @property
    def gemma(self) -> bool:
        """Embeddings enlarged, more norms, another activation."""
        return self.architecture == "gemma3"

    def is_local(self, layer: int) -> bool:
        return self.window > 0 and layer % _GLOBAL_EVERY != _GLOBAL_EVERY - 1

    @property
    def rope_bases(self) -> tuple[float, ...]:
        """Of the global layers and, where there are any, of the local ones."""
        return (self.rope_base, _LOCAL_ROPE_BASE) if self.window else (self.rope_base,)

    @property
    def turns_neighbours(self) -> bool:
        """Whether llama.cpp turns neighbouring rows of q and k together, or two halves."""
        return self.architecture == "llama"


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
        self._keys_end = self._at
        self.entries: dict[str, TensorEntry] = {}
        for _ in range(tensors):
            name = self._string()
            sizes = [self._number("<u8") for _ in range(self._number("<u4"))]
            kind, offset = self._number("<u4"), self._number("<u8")
            self.entries[name] = TensorEntry(tuple(reversed(sizes)), kind, offset)
        alignment = int(self.metadata.get("general.alignment", 32))
        self._start = -(-self._at // alignment) * alignment

    def packed_keys(self) -> bytes:
        """The metadata as it lies in the file."""
        return bytes(self._data[_KEYS_BEGIN : self._keys_end])

    def raw(self, name: str) -> Bytes:
        """A tensor's bytes as they are stored."""
        entry = self.entries[name]
        begin = self._start + entry.offset
        return self._data[begin : begin + stored_bytes(int(np.prod(entry.shape)), entry.kind)]

    def tensor(self, name: str) -> Floats:
        entry = self.entries[name]
        return dequantise(self.raw(name), entry.kind).reshape(entry.shape)

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


def read_shape(file: GgufFile) -> ModelShape:
    meta = file.metadata
    architecture = meta["general.architecture"]
    if architecture not in ARCHITECTURES:
        raise ValueError(f"not one of {ARCHITECTURES}: {architecture}")
    width, heads = meta[f"{architecture}.embedding_length"], f"{architecture}.attention.head_count"
    return ModelShape(
        architecture=architecture,
        layers=meta[f"{architecture}.block_count"],
        width=width,
        feed_forward=meta[f"{architecture}.feed_forward_length"],
        heads=meta[heads],
        kv_heads=meta[f"{heads}_kv"],
        vocabulary=len(meta["tokenizer.ggml.tokens"]),
        rope_base=meta[f"{architecture}.rope.freq_base"],
        norm_epsilon=meta[f"{architecture}.attention.layer_norm_rms_epsilon"],
        head_width=meta.get(f"{architecture}.attention.key_length", width // meta[heads]),
        biased="blk.0.attn_q.bias" in file.entries,
        window=meta.get("gemma3.attention.sliding_window", 0),
    )


def tied_names(file: GgufFile) -> dict[str, str]:
    """The tensors a model with one matrix for words in and out needs: {its name: the file's}.

    Some files hold that matrix twice, rounded differently: the one that reads out is finer.
    """
    names = {name: name for name in file.entries if name != READ_OUT}
    if READ_OUT in file.entries:
        names[EMBEDDING] = READ_OUT
    return names


def read_weights(file: GgufFile) -> dict[str, Floats]:
    """Every tensor as float32; q and k stay in llama.cpp's row order."""
    return {name: file.tensor(stored) for name, stored in tied_names(file).items()}


def write_tiny_gguf(path: Path, source: GgufFile, layers: int) -> None:
    """A GGUF with the first `layers` layers of `source`: rehearsals and tests on one core."""
    # Imported here: export builds on this module.
    from training.export import write_gguf  # noqa: PLC0415

    tensors = {
        name: source.tensor(stored)
        for name, stored in tied_names(source).items()
        if not name.startswith("blk.") or int(name.split(".")[1]) < layers
    }
    kinds = {name: "F32" if value.ndim == 1 else "F16" for name, value in tensors.items()}
    architecture = source.metadata["general.architecture"]
    metadata = source.metadata | {f"{architecture}.block_count": layers, "general.file_type": 1}
    write_gguf(path, metadata, tensors, kinds)


def pack_string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data
