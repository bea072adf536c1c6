"""Which GPUs the runtime sees, and how many layers of a model fit into their memory."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_KINDS = ("GPU", "IGPU")  # of ggml's devices; the others are the processor


def find_gpus() -> list[Mapping[str, Any]]:
    """The runtime's GPUs. Its wheel must be built for them; the usual one knows Metal only."""
    xllamacpp: Any = importlib.import_module("xllamacpp")
    devices: Sequence[Mapping[str, Any]] = xllamacpp.get_device_info()
    return [each for each in devices if each["type"].name.rpartition("_")[2] in _KINDS]


def layers_on_gpu(gpu: str, path: Path, *, context_tokens: int, slots: int, batch: int) -> int:
    """`off` is none, a number is that many, `auto` is as many as fit into the memory left."""
    if gpu == "off":
        return 0
    if gpu != "auto":
        return int(gpu)
    gpus = find_gpus()
    if not gpus:
        return 0
    xllamacpp: Any = importlib.import_module("xllamacpp")
    estimate = xllamacpp.estimate_gpu_layers(
        gpus, str(path), [], context_tokens * slots, batch, slots, "f16"
    )
    return int(estimate.layers)
