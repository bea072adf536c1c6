"""Every backend that the contract suite holds (test_backend_contract.py), by name.

A new runtime is one line: its name, and `on_runtime` of its file.
"""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from edgewise.errors import ModelNotFound
from edgewise.local.catalogue import silent
from edgewise.local.llama_cpp import LlamaLoop
from edgewise.local.llama_server import LlamaServer
from edgewise.local.store import InstalledModel, ModelStore
from edgewise_engines import executorch, onnx, openvino
from tests.local import llama_steps
from tests.local.served_llama import serve_llama

Driver = Callable[..., Any]  # opens a model: (model, threads=…, context_tokens=…, slots=…)


def on_runtime(module: ModuleType) -> Driver:
    """Opens a GGUF model on a runtime, converted once for all tests."""

    def opened(model: InstalledModel, **options: Any) -> Any:
        return module.open_backend(converted(module, model), **options)

    return opened


@functools.cache
def converted(module: ModuleType, model: InstalledModel) -> InstalledModel:
    """As the store would have it: the runtime's file, and its vocabulary beside it."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    name = module.RUNTIME.convert(model.path, folder, silent)
    return replace(model, path=folder / name, runtime=_name(module))


def pulled(module: ModuleType) -> Driver:
    """Opens a model that was pulled for a runtime: converting it takes minutes."""

    def opened(model: InstalledModel, **options: Any) -> Any:
        try:
            found = ModelStore(model.path.parents[1]).find(f"{model.name}@{_name(module)}")
        except ModelNotFound as error:
            pytest.fail(f"{error} (make test does that)")
        return module.open_backend(found, **options)

    return opened


def _name(module: ModuleType) -> str:
    return module.__name__.rpartition(".")[2].removeprefix("llama_")


DRIVERS: dict[str, Driver] = {
    "llama_cpp": LlamaLoop,
    "llama_cpp_server": LlamaServer,  # where the C API cannot be used
    "llama-server": serve_llama,  # over HTTP
    "steps": on_runtime(llama_steps),  # llama.cpp as a runtime that only gives logits
    "onnx": on_runtime(onnx),
    "openvino": on_runtime(openvino),
    "executorch": pulled(executorch),
}
# How far log-probabilities may be apart that were computed in other pieces: int8 makes small
# differences larger.
NEAR = {"executorch": 0.5}
OUR_LOOP = [name for name in DRIVERS if name not in ("llama_cpp_server", "llama-server")]
IN_PROCESS = [name for name in DRIVERS if name != "llama-server"]
