"""Every backend that the contract suite holds (test_backend_contract.py), by name.

A new engine is one line: its name, and `on_engine` of its file.
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
from edgewise.local.engines import executorch, onnx, openvino
from edgewise.local.engines.vocabulary import write_vocabulary
from edgewise.local.llama_loop import LlamaLoop
from edgewise.local.llama_server import LlamaServer
from edgewise.local.store.store import InstalledModel, ModelStore
from edgewise.local.store.verify import silent
from tests.local import llama_steps
from tests.local.served_llama import serve_llama

Driver = Callable[..., Any]  # opens a model: (model, threads=…, context_tokens=…, slots=…)


def on_engine(engine: ModuleType) -> Driver:
    """Opens a GGUF model on an engine, converted once for all tests."""

    def opened(model: InstalledModel, **options: Any) -> Any:
        return engine.open_backend(converted(engine, model), **options)

    return opened


@functools.cache
def converted(engine: ModuleType, model: InstalledModel) -> InstalledModel:
    """As the store would have it: the engine's file, and its vocabulary beside it."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    write_vocabulary(model.path, folder)
    name = engine.convert(model.path, folder, silent)
    return replace(
        model, path=folder / name, engine=engine.__name__.rpartition(".")[2].removeprefix("llama_")
    )


def pulled(engine: ModuleType) -> Driver:
    """Opens a model that was pulled for an engine: converting it takes minutes."""

    def opened(model: InstalledModel, **options: Any) -> Any:
        name = f"{model.name}@{engine.__name__.rpartition('.')[2]}"
        try:
            found = ModelStore(model.path.parents[1]).find(name)
        except ModelNotFound as error:
            pytest.fail(f"{error} (make test does that)")
        return engine.open_backend(found, **options)

    return opened


DRIVERS: dict[str, Driver] = {
    "llama_cpp": LlamaLoop,
    "llama_cpp_server": LlamaServer,  # where the C API cannot be used
    "llama-server": serve_llama,  # over HTTP
    "steps": on_engine(llama_steps),  # llama.cpp as an engine that only gives logits
    "onnx": on_engine(onnx),
    "openvino": on_engine(openvino),
    "executorch": pulled(executorch),
}
# How far log-probabilities may be apart that were computed in other pieces: int8 makes small
# differences larger.
NEAR = {"executorch": 0.5}
OUR_LOOP = [name for name in DRIVERS if name not in ("llama_cpp_server", "llama-server")]
IN_PROCESS = [name for name in DRIVERS if name != "llama-server"]
