"""Local chat and function calls on llama.cpp, through the pre-built `xllamacpp` wheel.

Our own decode loop drives it (llama_loop.py). Where the wheel's C API cannot be used, or the model
sees pictures, its server API does (llama_server.py).
"""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from edgewise.calls.formats import TOOLS_TEMPLATE, call_format_of
from edgewise.errors import ModelNotFound
from edgewise.local.engines.vocabulary import TEMPLATE
from edgewise.local.llama_api import why_no_api
from edgewise.local.llama_loop import LlamaLoop
from edgewise.local.llama_server import LlamaServer
from edgewise.local.store.catalogue import PROJECTOR
from edgewise.local.store.engines import how_to_convert
from edgewise.local.store.gguf_header import chat_template_of
from edgewise.local.store.store import InstalledModel

Llama = LlamaLoop | LlamaServer


def open_backend(
    model: InstalledModel,
    *,
    threads: int,
    context_tokens: int,
    slots: int = 1,
    gpu: str = "auto",
) -> Llama:
    """The entry point `edgewise.local_backends: llama_cpp`."""
    if find_spec("xllamacpp") is None:
        raise ModelNotFound(
            "llama.cpp is not installed, or has no wheel for this system; "
            f"{how_to_convert(model.name, 'onnx')}, then name the model {model.name}@onnx"
        )
    through_server = model.projector is not None or why_no_api()
    driver = LlamaServer if through_server else LlamaLoop
    return driver(model, threads=threads, context_tokens=context_tokens, slots=slots, gpu=gpu)


def with_projector(model: InstalledModel, path: str) -> InstalledModel:
    """The model with the user's projector, or with the one of its row."""
    if path:
        given = Path(path).expanduser()
        if not given.is_file():
            raise ModelNotFound(f"there is no projector file {str(given)!r}")
        return replace(model, projector=given)
    if model.engine:  # others read text only
        return model
    beside = model.path.parent / PROJECTOR
    named = model.row is not None and any(file.name == PROJECTOR for file in model.row.beside)
    return replace(model, projector=beside) if named else model


def with_call_format(model: InstalledModel) -> InstalledModel:
    """The model with what its file says about how it is asked for calls.

    A row of the catalogue knows the format; of a user's own file its chat template tells.
    """
    if model.row is not None and model.call_format != TOOLS_TEMPLATE:
        return model
    template = _template_of(model)
    found = model.call_format if model.row else call_format_of(template)
    return replace(model, call_format=found, chat_template=template)


def _template_of(model: InstalledModel) -> str:
    """In the header of a GGUF file; a converted model has it beside."""
    if not model.engine or model.path.suffix == ".gguf":
        return chat_template_of(model.path)
    beside = model.path.with_name(TEMPLATE)
    return beside.read_text("utf-8") if beside.is_file() else ""
