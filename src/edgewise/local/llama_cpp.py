"""Local chat and function calls on llama.cpp, through the pre-built `xllamacpp` wheel.

Our own decode loop drives it (llama_loop.py). Where the wheel's C API cannot be used, or the model
sees pictures, its server API does (llama_server.py).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from edgewise.errors import ModelNotFound
from edgewise.local.llama_api import why_no_api
from edgewise.local.llama_loop import LlamaLoop
from edgewise.local.llama_server import LlamaServer
from edgewise.local.store.catalogue import PROJECTOR
from edgewise.local.store.store import InstalledModel

Llama = LlamaLoop | LlamaServer


def open_backend(
    model: InstalledModel, *, threads: int, context_tokens: int, slots: int = 1
) -> Llama:
    """The entry point `edgewise.local_backends: llama_cpp`."""
    through_server = model.projector is not None or why_no_api()
    driver = LlamaServer if through_server else LlamaLoop
    return driver(model, threads=threads, context_tokens=context_tokens, slots=slots)


def with_projector(model: InstalledModel, path: str) -> InstalledModel:
    """The model with the user's projector, or with the one of its row."""
    if path:
        given = Path(path).expanduser()
        if not given.is_file():
            raise ModelNotFound(f"there is no projector file {str(given)!r}")
        return replace(model, projector=given)
    beside = model.path.parent / PROJECTOR
    named = model.row is not None and any(file.name == PROJECTOR for file in model.row.beside)
    return replace(model, projector=beside) if named else model
