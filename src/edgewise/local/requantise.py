"""Convert slow quantisations to ones with fast kernels, in numpy, with the `gguf` package.

llama.cpp has no repacked AVX2 kernel for Q4_1. Q8_0 holds every Q4_1 value almost exactly (its
rounding is far below that of Q4_1 itself) and runs faster; Q4_0 is smaller and faster still, but
rounds a second time and answers worse.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from edgewise.errors import StoreError
from edgewise.local.checksum import Progress, silent
from edgewise.local.model_row import Requantised

if TYPE_CHECKING:
    from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter, ReaderTensor

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
