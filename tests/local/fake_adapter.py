"""What tests of merged models share: small adapters, each in an importable package of its own."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from edgewise.local.catalogue import Adapter, sha256_of

RANK = 32
_numbers = itertools.count()


def write_adapter(
    path: Path,
    sizes: Mapping[str, tuple[int, int]],
    seed: int = 0,
    architecture: str = "llama",
) -> None:
    """A real adapter in GGUF for these weights, each given as (outputs, inputs)."""
    import numpy
    from gguf import GGMLQuantizationType, GGUFWriter, quants

    draw = numpy.random.default_rng(seed)
    writer = GGUFWriter(path, architecture)
    writer.add_string("general.type", "adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", float(RANK))
    for weight, (outputs, inputs) in sizes.items():
        for role, shape in (("lora_a", (RANK, inputs)), ("lora_b", (outputs, RANK))):
            values = draw.standard_normal(shape).astype(numpy.float32) * 0.05
            kind = GGMLQuantizationType.Q8_0
            writer.add_tensor(f"{weight}.{role}", quants.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def install_adapter(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    sizes: Mapping[str, tuple[int, int]],
    seed: int = 0,
    architecture: str = "llama",
) -> Adapter:
    """The adapter as a file of a new package that Python finds in `folder`."""
    package = f"adapter_package_{next(_numbers)}"
    (folder / package).mkdir(parents=True)
    (folder / package / "__init__.py").write_text("")
    file = folder / package / "functions.gguf"
    write_adapter(file, sizes, seed, architecture)
    if str(folder) not in sys.path:
        monkeypatch.syspath_prepend(str(folder))
    return Adapter("functions.gguf", sha256_of(file), package)
