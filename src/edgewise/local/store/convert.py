"""Converts weights once after they are fetched.

Faster quantisations, merged adapters, and Qwen2 files that llama.cpp runs as `llama`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgewise.errors import StoreError
from edgewise.local.store.catalogue import Requantised
from edgewise.local.store.rounding import round_to_levels
from edgewise.local.store.verify import Progress, sha256_of, silent

# gguf brings numpy, which loads slowly: only pulling a model loads them, below.
if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter, ReaderTensor

    Floats = npt.NDArray[np.float32]

_SLOW = ("Q4_1",)
_FILE_TYPES = {"q8_0": 7, "q4_0": 2, "iq4_nl": 25}  # general.file_type, by llama.cpp's numbers
# Used for every token, at both ends: kept at eight bits.
_EMBEDDING = "token_embd.weight"
_OUTPUT = "output.weight"


def requantise(
    source: Path, destination: Path, to: Requantised, progress: Progress = silent
) -> None:
    """Write `source` to `destination` with its slow tensors as `to`; the same bytes every time.

    `destination` appears only when it is complete: a killed process leaves a `.tmp` file.
    """
    from gguf import GGMLQuantizationType  # noqa: PLC0415

    reader = _open(source)
    target = GGMLQuantizationType[to.upper()]
    kinds = {
        tensor.name: target if tensor.tensor_type.name in _SLOW else tensor.tensor_type
        for tensor in reader.tensors
    }
    writer = _writer(reader, destination)
    writer.add_file_type(_FILE_TYPES[to])

    def data_of(name: str, tensor: ReaderTensor) -> Any:
        return _converted(name, tensor, kinds[name])

    _write(writer, destination, _tensors(reader), kinds, data_of, progress, "re-quantising")


def merge_adapter(
    base: Path,
    adapter: Path,
    out: Path,
    quant: Requantised,
    progress: Progress = silent,
    *,
    one_embedding: bool = False,
) -> None:
    """Write base + adapter to `out` with its matrices as `quant`; the same bytes every time.

    `one_embedding` as in `catalogue.Adapter`. `out` appears only when it is complete: a killed
    process leaves a `.tmp` file. Raises StoreError if the adapter does not fit the base.
    """
    reader = _open(base)
    weights = _tensors(reader)
    if one_embedding:  # without an output matrix, llama.cpp uses the embedding for both
        if _OUTPUT not in weights or _EMBEDDING not in weights:
            raise StoreError("the base does not hold its embedding twice")
        weights[_EMBEDDING] = weights.pop(_OUTPUT)
    kinds = {name: _merged_kind(name, tensor, quant) for name, tensor in weights.items()}
    changes = _Changes(adapter, _field(reader, "general.architecture"), weights)
    writer = _writer(reader, out)
    writer.add_file_type(_FILE_TYPES[quant])
    writer.add_string("edgewise.adapter.sha256", sha256_of(adapter))

    def data_of(name: str, tensor: ReaderTensor) -> Any:
        return _converted(name, tensor, kinds[name], changes.of(name))

    _write(writer, out, weights, kinds, data_of, progress, "merging the adapter")


def qwen2_as_llama(source: Path, destination: Path, progress: Progress = silent) -> None:
    """Write a Qwen2 file as one of the architecture `llama`, which computes the same.

    llama.cpp gives the hidden states of `llama` files only. The two architectures differ in names,
    and in which rows of a head are turned together: halves in Qwen2, neighbours in Llama. So the
    rows of queries and keys change places; no number changes, whatever its quantisation.
    `destination` appears only when it is complete: a killed process leaves a `.tmp` file.
    Raises StoreError if `source` is not a Qwen2 file.
    """
    reader = _open(source)
    if (found := _field(reader, "general.architecture")) != "qwen2":
        raise StoreError(f"{str(source)!r} is not a qwen2 file: its architecture is {found!r}")
    heads = {
        "attn_q": int(_field(reader, "qwen2.attention.head_count")),
        "attn_k": int(_field(reader, "qwen2.attention.head_count_kv")),
    }
    weights = _tensors(reader)

    def data_of(name: str, tensor: ReaderTensor) -> Any:
        part = name.split(".")[-2]
        return _neighbours(tensor.data, heads[part]) if part in heads else tensor.data

    writer = _writer(reader, destination, renamed=("qwen2", "llama"))
    writer.add_file_type(int(_field(reader, "general.file_type") or 0))
    kinds = {name: tensor.tensor_type for name, tensor in weights.items()}
    _write(writer, destination, weights, kinds, data_of, progress, "rearranging")


def _neighbours(rows: Any, heads: int) -> Any:
    """In each head, put row i of the second half behind row i of the first."""
    import numpy as np  # noqa: PLC0415

    halves = rows.reshape(heads, 2, len(rows) // heads // 2, *rows.shape[1:])
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(rows.shape))


class _Changes:
    """What an adapter adds to each weight: `B·A`, scaled as in llama.cpp, or a plain delta."""

    def __init__(self, path: Path, architecture: str, known: Container[str]) -> None:
        reader = _open(path)
        if _field(reader, "general.type") != "adapter":
            raise StoreError(f"{str(path)!r} is not an adapter")
        if (made_for := _field(reader, "general.architecture")) != architecture:
            raise StoreError(
                f"{str(path)!r} does not fit its base: "
                f"it was made for {made_for}, and the base is {architecture}"
            )
        alpha = reader.fields.get("adapter.lora.alpha")
        self._alpha = float(alpha.contents()) if alpha else 0.0
        self._tensors = _tensors(reader)
        for name in self._tensors:
            weight, _, role = name.rpartition(".")
            if weight not in known or role not in ("lora_a", "lora_b", "delta"):
                raise StoreError(f"{str(path)!r} does not fit its base: it holds {name!r}")
            other = {"lora_a": "lora_b", "lora_b": "lora_a"}.get(role, role)
            if f"{weight}.{other}" not in self._tensors:
                raise StoreError(f"{str(path)!r} is incomplete: it lacks '{weight}.{other}'")

    def of(self, name: str) -> Floats | None:
        if (delta := self._tensors.get(f"{name}.delta")) is not None:
            return _values(delta)
        a, b = self._tensors.get(f"{name}.lora_a"), self._tensors.get(f"{name}.lora_b")
        if a is None or b is None:
            return None
        down, up = _values(a), _values(b)
        if up.shape[-1] != down.shape[0]:
            raise StoreError(f"the adapter's {name!r} has two ranks: {a.shape} and {b.shape}")
        scale = self._alpha / down.shape[0] if self._alpha else 1.0
        # Shipped adapters are Q4_0: the products of their values, and the sums of these, fit into
        # 53 bits. So no sum is rounded, and every machine gets the same one in any order.
        product: Floats = ((up.astype("f8") @ down.astype("f8")) * scale).astype("f4")
        return product


def _open(path: Path) -> GGUFReader:
    from gguf import GGUFReader  # noqa: PLC0415

    try:
        return GGUFReader(path)
    except Exception as error:  # of a damaged file the package raises whatever its arrays do
        raise StoreError(f"{str(path)!r} is not a readable GGUF file: {error}") from error


def _tensors(reader: GGUFReader) -> dict[str, ReaderTensor]:
    return {tensor.name: tensor for tensor in reader.tensors}


def _field(reader: GGUFReader, name: str) -> str:
    field = reader.fields.get(name)
    return str(field.contents()) if field else ""


def _values(tensor: ReaderTensor) -> Floats:
    from gguf import quants  # noqa: PLC0415

    values: Any = quants.dequantize(tensor.data, tensor.tensor_type)
    floats: Floats = values.astype("f4", copy=False)
    return floats


def _merged_kind(name: str, tensor: ReaderTensor, quant: Requantised) -> GGMLQuantizationType:
    from gguf import GGMLQuantizationType  # noqa: PLC0415

    if len(tensor.shape) < 2:
        return GGMLQuantizationType.F32
    return GGMLQuantizationType["Q8_0" if name == _EMBEDDING else quant.upper()]


def _writer(reader: GGUFReader, path: Path, renamed: tuple[str, str] | None = None) -> GGUFWriter:
    """A writer with the metadata of a file, except its quantisation.

    `renamed`: its architecture, and what that is called in the new file.
    """
    from gguf import GGUFValueType, GGUFWriter  # noqa: PLC0415

    old = _field(reader, "general.architecture")
    old, new = renamed or (old, old)
    writer = GGUFWriter(_temporary(path), new)
    # The writer adds these itself, or they describe the old file.
    replaced = ("general.architecture", "general.file_type")
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name in replaced:
            continue
        kind = field.types[0]
        element = field.types[-1] if kind == GGUFValueType.ARRAY else None
        room, dot, key = field.name.partition(".")
        name = f"{new}{dot}{key}" if room == old else field.name
        writer.add_key_value(name, field.contents(), kind, sub_type=element)
    writer.data_alignment = reader.alignment
    return writer


def _temporary(path: Path) -> Path:
    return path.with_name(f"{path.name}.tmp")


def _write(
    writer: GGUFWriter,
    path: Path,
    weights: Mapping[str, ReaderTensor],
    kinds: Mapping[str, GGMLQuantizationType],
    data_of: Callable[[str, ReaderTensor], Any],
    progress: Progress,
    label: str,
) -> None:
    """Write the file, and give it its name when it is complete. Only one tensor is in memory."""
    for name, tensor in weights.items():
        _announce(writer, name, tensor, kinds[name])
    try:
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        total, done = sum(int(tensor.n_bytes) for tensor in weights.values()), 0
        for name, tensor in weights.items():
            writer.write_tensor_data(data_of(name, tensor))
            done += int(tensor.n_bytes)
            progress(done, total, label)
    finally:
        writer.close()
    os.replace(_temporary(path), path)


def _converted(
    name: str, tensor: ReaderTensor, kind: GGMLQuantizationType, change: Floats | None = None
) -> Any:
    """A tensor's data as `kind`, with a change added; as it is, if it is so already."""
    if change is None and tensor.tensor_type == kind:
        return tensor.data
    values = _values(tensor)
    if change is not None:
        if change.shape != values.shape:
            raise StoreError(f"the adapter's {name!r} has another shape")
        values = values + change
    return _rounded(values, kind)


def _rounded(values: Floats, kind: GGMLQuantizationType) -> Any:
    from gguf import quants  # noqa: PLC0415

    return round_to_levels(values) if kind.name == "IQ4_NL" else quants.quantize(values, kind)


def _announce(
    writer: GGUFWriter, name: str, tensor: ReaderTensor, kind: GGMLQuantizationType
) -> None:
    """Enter one tensor in the table of contents, which comes before all data."""
    import numpy as np  # noqa: PLC0415
    from gguf import GGML_QUANT_SIZES, quants  # noqa: PLC0415

    shape, dtype, size = tensor.data.shape, tensor.data.dtype, tensor.n_bytes
    if tensor.tensor_type != kind:
        plain = kind.name == "F32"
        values = tuple(int(length) for length in reversed(tensor.shape))
        shape = values if plain else quants.quant_shape_to_byte_shape(values, kind)
        dtype = np.dtype(np.float32 if plain else np.uint8)
        block, block_bytes = GGML_QUANT_SIZES[kind]
        size = tensor.n_elements // block * block_bytes
    writer.add_tensor_info(name, shape, dtype, int(size), raw_dtype=kind)
