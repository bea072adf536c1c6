"""Convert weights once, after they were fetched: faster quantisations, adapters merged."""

from __future__ import annotations

import os
from collections.abc import Container, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgewise.errors import StoreError
from edgewise.local.store.catalogue import Requantised
from edgewise.local.store.verify import (
    Progress,
    sha256_of,
    silent,
)

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter, ReaderTensor

    Floats = npt.NDArray[np.float32]


_SLOW = ("Q4_1",)
# general.file_type, as llama.cpp numbers it.
FILE_TYPES = {"q8_0": 7, "q4_0": 2}


def requantise(
    source: Path, destination: Path, to: Requantised, progress: Progress = silent
) -> None:
    """Write `source` to `destination` with its slow tensors as `to`; the same bytes every time.

    `destination` appears only when it is complete: a killed process leaves a `.tmp` file.
    """
    # numpy takes a while to load, and only pulling a model needs it.
    from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter  # noqa: PLC0415

    try:
        reader = GGUFReader(source)
    except (ValueError, IndexError) as error:
        raise StoreError(f"{str(source)!r} is not a readable GGUF file: {error}") from error
    target = GGMLQuantizationType[to.upper()]
    temporary = destination.with_name(f"{destination.name}.tmp")
    writer = GGUFWriter(temporary, str(reader.fields["general.architecture"].contents()))
    copy_header(reader, writer, FILE_TYPES[to])
    for tensor in reader.tensors:
        _announce(tensor, writer, target)
    try:
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        _write_tensors(reader, writer, target, progress)
    finally:
        writer.close()
    os.replace(temporary, destination)


def copy_header(reader: GGUFReader, writer: GGUFWriter, file_type: int) -> None:
    """Everything the file says about itself, except how it is quantised now."""
    from gguf import GGUFValueType  # noqa: PLC0415

    # The writer adds these itself, or they describe the old file.
    replaced = ("general.architecture", "general.file_type")
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name in replaced:
            continue
        kind = field.types[0]
        element = field.types[-1] if kind == GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), kind, sub_type=element)
    writer.data_alignment = reader.alignment
    writer.add_file_type(file_type)


def _announce(tensor: ReaderTensor, writer: GGUFWriter, target: GGMLQuantizationType) -> None:
    """Enter one tensor in the table of contents, which stands before all data."""
    from gguf import GGML_QUANT_SIZES, quants  # noqa: PLC0415

    if tensor.tensor_type.name in _SLOW:
        values = [int(size) for size in reversed(tensor.shape)]
        kind, shape = target, quants.quant_shape_to_byte_shape(values, target)
        block, block_bytes = GGML_QUANT_SIZES[target]
        size = tensor.n_elements // block * block_bytes
    else:
        kind, shape, size = tensor.tensor_type, tensor.data.shape, tensor.n_bytes
    writer.add_tensor_info(tensor.name, shape, tensor.data.dtype, int(size), raw_dtype=kind)


def _write_tensors(
    reader: GGUFReader, writer: GGUFWriter, target: GGMLQuantizationType, progress: Progress
) -> None:
    """One tensor at a time, so that memory holds one tensor and not the model."""
    from gguf import quants  # noqa: PLC0415

    total = sum(int(tensor.n_bytes) for tensor in reader.tensors)
    done = 0
    for tensor in reader.tensors:
        data = tensor.data
        if tensor.tensor_type.name in _SLOW:
            data = quants.quantize(quants.dequantize(data, tensor.tensor_type), target)
        writer.write_tensor_data(data)
        done += int(tensor.n_bytes)
        progress(done, total, "re-quantising")


# Read for every token, both to enter words and to choose the next one: kept at eight bits.
_EMBEDDING = "token_embd.weight"
_OUTPUT = "output.weight"


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

    `one_embedding` as in `model_row.Adapter`. `out` appears only when it is complete: a killed
    process leaves a `.tmp` file. Raises StoreError where the adapter does not fit the base.
    """
    # numpy takes a while to load, and only the first use of a model needs it.
    from gguf import GGUFWriter  # noqa: PLC0415

    reader = _open(base)
    weights = _weights(reader, one_embedding=one_embedding)
    architecture = _field(reader, "general.architecture")
    changes = _Changes(adapter, architecture, weights)
    temporary = out.with_name(f"{out.name}.tmp")
    writer = GGUFWriter(temporary, architecture)
    copy_header(reader, writer, FILE_TYPES[quant])
    writer.add_string("edgewise.adapter.sha256", sha256_of(adapter))
    for name, tensor in weights.items():
        _announce_merged(name, tensor, writer, _target(name, tensor, quant))
    try:
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        _write_merged(weights, changes, writer, quant, progress)
    finally:
        writer.close()
    os.replace(temporary, out)


def _weights(reader: GGUFReader, *, one_embedding: bool) -> dict[str, ReaderTensor]:
    """The base's tensors by the names they get. llama.cpp reads out with the embedding, too,
    where there is no output matrix.
    """
    weights = {tensor.name: tensor for tensor in reader.tensors}
    if one_embedding:
        if _OUTPUT not in weights or _EMBEDDING not in weights:
            raise StoreError("the base does not hold its embedding twice")
        weights[_EMBEDDING] = weights.pop(_OUTPUT)
    return weights


class _Changes:
    """What an adapter adds to each weight: `B·A`, scaled as llama.cpp does, or a plain delta."""

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
        self._tensors = {tensor.name: tensor for tensor in reader.tensors}
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
        product: Floats = (up @ down) * scale
        return product


def _open(path: Path) -> GGUFReader:
    from gguf import GGUFReader  # noqa: PLC0415

    try:
        return GGUFReader(path)
    except (OSError, ValueError, IndexError) as error:
        raise StoreError(f"{str(path)!r} is not a readable GGUF file: {error}") from error


def _field(reader: GGUFReader, name: str) -> str:
    field = reader.fields.get(name)
    return str(field.contents()) if field else ""


def _values(tensor: ReaderTensor) -> Floats:
    from gguf import quants  # noqa: PLC0415

    values: Any = quants.dequantize(tensor.data, tensor.tensor_type)
    floats: Floats = values.astype("f4", copy=False)
    return floats


def _target(name: str, tensor: ReaderTensor, quant: Requantised) -> GGMLQuantizationType:
    from gguf import GGMLQuantizationType  # noqa: PLC0415

    if len(tensor.shape) < 2:
        return GGMLQuantizationType.F32
    return GGMLQuantizationType["Q8_0" if name == _EMBEDDING else quant.upper()]


def _announce_merged(
    name: str, tensor: ReaderTensor, writer: GGUFWriter, kind: GGMLQuantizationType
) -> None:
    """Enter one tensor in the table of contents, which stands before all data."""
    import numpy as np  # noqa: PLC0415
    from gguf import GGML_QUANT_SIZES, quants  # noqa: PLC0415

    values = [int(size) for size in reversed(tensor.shape)]
    block, block_bytes = GGML_QUANT_SIZES[kind]
    plain = kind.name == "F32"
    shape = values if plain else quants.quant_shape_to_byte_shape(values, kind)
    dtype = np.dtype(np.float32 if plain else np.uint8)
    size = tensor.n_elements // block * block_bytes
    writer.add_tensor_info(name, shape, dtype, int(size), raw_dtype=kind)


def _write_merged(
    weights: Mapping[str, ReaderTensor],
    changes: _Changes,
    writer: GGUFWriter,
    quant: Requantised,
    progress: Progress,
) -> None:
    """One tensor at a time, so that memory holds one tensor and not the model."""
    from gguf import quants  # noqa: PLC0415

    total = sum(int(tensor.n_bytes) for tensor in weights.values())
    done = 0
    for name, tensor in weights.items():
        kind, change = _target(name, tensor, quant), changes.of(name)
        data = tensor.data
        if change is not None or tensor.tensor_type != kind:
            values = _values(tensor)
            if change is not None:
                if change.shape != values.shape:
                    raise StoreError(f"the adapter's {name!r} has another shape")
                values = values + change
            data = quants.quantize(values, kind)
        writer.write_tensor_data(data)
        done += int(tensor.n_bytes)
        progress(done, total, "merging the adapter")
