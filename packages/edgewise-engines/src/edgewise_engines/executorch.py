"""ExecuTorch: int8 weights on XNNPACK, exported once from the GGUF file.

Its Python package needs torch, also to run a program. Only `executorch_export.py` traces and
lowers models: in a process of its own, because that takes minutes and gigabytes.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgewise.children import child_environment, python_child
from edgewise.errors import GenerationFailed, ModelNotFound, StoreError
from edgewise.local.backend import LocalRuntime
from edgewise.local.catalogue import Progress, silent
from edgewise.local.store import InstalledModel
from edgewise_engines.logits_loop import PACKAGES, LogitsLoop, require_packages
from edgewise_engines.onnx_graph import Shape, open_gguf
from edgewise_engines.vocabulary import with_vocabulary

if TYPE_CHECKING:
    from edgewise_engines.logits_loop import Floats

PROGRAM = "model.pte"
EXPORTED = "exported.json"
CHUNK = 128  # tokens at a time
LARGEST_CONTEXT = (
    4096  # of a program: its keys and values have their place in memory from the start
)
_METHOD = "forward"
# Processor seconds of an export, measured: see docs/guide/runtimes.md.
_FIXED_S, _LAYER_S = 15.0, 6.0
_LIBRARIES = (
    "extension/llm/custom_ops/*custom_ops_aot_lib.*",  # attention with a cache
    "kernels/quantized/*quantized_ops_aot_lib.*",  # the embedding in int8
)


@dataclass(frozen=True, slots=True)
class Exported:
    """What a program was exported for. It says so itself, by methods of these names."""

    context_tokens: int
    vocabulary: int

    def methods(self) -> dict[str, int]:
        return asdict(self)


def open_backend(
    model: InstalledModel,
    *,
    threads: int,
    context_tokens: int,
    slots: int = 1,
    gpu: str = "auto",
) -> LogitsLoop:
    """The entry point `edgewise.local_backends: executorch`."""
    require_packages("executorch", "executorch", "torch")
    try:
        about = json.loads((model.path.parent / EXPORTED).read_text(encoding="utf-8"))
        room = min(context_tokens, Exported(**about).context_tokens)
    except (OSError, ValueError, TypeError) as error:
        raise ModelNotFound(f"{model.name} has no readable {EXPORTED} beside it") from error
    return LogitsLoop(
        model,
        runtime="executorch",
        load=lambda: ExecuTorchSteps(model.path, threads=threads, slots=slots),
        vocabulary=model.path.parent,
        threads=threads,
        context_tokens=room,
        slots=slots,
    )


class ExecuTorchSteps:
    """Implements `Steps`: each slot has a program, because methods of one share their memory."""

    # Tiny differences become large where they decide how something is rounded to int8.
    repeatable = False

    def __init__(self, path: Path, *, threads: int, slots: int = 1) -> None:
        self._torch, self._runtime = _load_runtime()
        self._path = path
        self._torch.set_num_threads(threads)  # of attention, which does not use the runtime's
        with _quiet():
            self._runtime._unsafe_reset_threadpool(threads)
        self.exported = _checked(_open_program(self._runtime, path), path)
        self._methods: list[Any] = [None] * slots
        self._method(0)

    def _method(self, slot: int) -> Any:
        """Loaded when first used: each has its own copy of the weights, as XNNPACK packs them."""
        if self._methods[slot] is None:
            program = _open_program(self._runtime, self._path)
            with _quiet():
                self._methods[slot] = program.load_method(_METHOD)
        return self._methods[slot]

    def read(self, slot: int, position: int, tokens: Sequence[int], answers: int) -> Floats:
        """As in `Steps`. What the slot held from `position` on is overwritten or not looked at."""
        torch, count = self._torch, len(tokens)
        first = count - max(answers, 1)  # a program gives at least one row
        given = (
            torch.tensor([list(tokens)]),
            torch.tensor([position]),
            torch.arange(first, count),
        )
        try:
            (logits,) = self._method(slot).call(given, False)
        except RuntimeError as error:
            raise GenerationFailed(f"ExecuTorch: {error}") from error
        rows: Floats = logits.numpy()[0][:answers]
        return rows

    def close(self) -> None:
        """Free the weights and the caches."""
        self._methods.clear()


def convert(
    source: Path, folder: Path, progress: Progress = silent, *, given: Path | None = None
) -> str:
    """Export `source` into `folder`, or take the program `given`; the name of the program.

    Raises StoreError if the model cannot be exported, or the given program does not fit it.
    """
    require_packages("executorch", "executorch", "torch")
    target = folder / PROGRAM
    if given is None:
        require_packages("executorch", "torchao")
        _export(source, target, progress)
    else:
        _copy(given, target)
    about = _ask_program(target)
    _check_vocabulary(about, source, given or target)
    (folder / EXPORTED).write_text(json.dumps(asdict(about)) + "\n", encoding="utf-8")
    return PROGRAM


def quantisation(source: Path, before: str) -> str:
    """What the weights are called after the export: rounded anew, whatever they were."""
    return "int8"


def _export(source: Path, target: Path, progress: Progress) -> None:
    """In a process of its own, which takes torch with it when it ends."""
    layers = Shape(open_gguf(source), source).layers  # refuses other families at once
    minutes, size = (_FIXED_S + _LAYER_S * layers) / 60, source.stat().st_size
    about = f"exporting for ExecuTorch, about {max(1, round(minutes))} min"
    progress(0, size, about)
    command = python_child("-m", "edgewise_engines.executorch_export")
    with tempfile.TemporaryFile() as noise:
        with subprocess.Popen(
            (*command, str(source), str(target)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=noise,
            env=child_environment(),
        ) as child:
            try:
                for line in child.stdout or ():
                    if (step := _step(line)) is not None:
                        share = min(step[0] / 60 / minutes, 0.99)
                        progress(int(share * size), size, f"{about}: {step[1]}")
            except BaseException:
                child.kill()
                raise
        if child.returncode:
            noise.seek(0)
            raise StoreError(_why(noise.read().decode(errors="replace"), source))
    progress(size, size, f"{about}: done")


def _step(line: bytes) -> tuple[float, str] | None:
    """What a line of the export says; None if a library printed it."""
    try:
        seconds, label = json.loads(line)
        return float(seconds), str(label)
    except (ValueError, TypeError):
        return None


def _why(noise: str, source: Path) -> str:
    """Our own reason if there is one, else the last line that the process wrote."""
    lines = [line for line in noise.splitlines() if line.strip()] or ["it was ended from outside"]
    ours = f"{StoreError.__module__}.{StoreError.__qualname__}: "
    said = next((line for line in reversed(lines) if line.startswith(ours)), "")
    return said.removeprefix(ours) or f"{source.name} cannot be exported: {lines[-1]}"


def _copy(given: Path, target: Path) -> None:
    try:
        shutil.copyfile(given, target)
    except OSError as error:
        raise StoreError(f"{str(given)!r} cannot be read: {error.strerror}") from error


def _ask_program(path: Path) -> Exported:
    """In a process of its own too: torch would stay in this one."""
    found = subprocess.run(
        python_child("-c", _ASK, str(path)),
        capture_output=True,
        check=False,
        env=child_environment(),
        text=True,
    )
    try:
        return Exported(**json.loads(found.stdout))
    except (ValueError, TypeError):
        raise StoreError(_why(found.stderr, path)) from None


_ASK = """
import dataclasses, json, pathlib, sys
from edgewise_engines.executorch import read_program
print(json.dumps(dataclasses.asdict(read_program(pathlib.Path(sys.argv[1])))))
"""


def read_program(path: Path) -> Exported:
    """What a program was exported for. Raises StoreError if the decode loop cannot drive it."""
    _, runtime = _load_runtime()
    try:
        return _checked(_open_program(runtime, path), path)
    except ModelNotFound as error:
        raise StoreError(str(error)) from error


def _check_vocabulary(about: Exported, source: Path, program: Path) -> None:
    from gguf import GGUFReader  # noqa: PLC0415 - brings numpy

    words = next(each for each in GGUFReader(source).tensors if each.name == "token_embd.weight")
    if about.vocabulary != int(words.shape[-1]):
        raise StoreError(
            f"{program.name} has {about.vocabulary} tokens and {source.name} has "
            f"{int(words.shape[-1])}: it was exported from another model"
        )


def _open_program(runtime: Any, path: Path) -> Any:
    try:
        with _quiet():
            return runtime._load_program(str(path))
    except RuntimeError as error:
        raise ModelNotFound(f"{str(path)!r} is not an ExecuTorch program: {error}") from error


def _checked(program: Any, path: Path) -> Exported:
    names = {program.get_method_name(number) for number in range(program.num_methods())}
    wanted = {_METHOD, *Exported.__slots__}
    if missing := sorted(wanted - names):
        raise ModelNotFound(f"{path.name} has no method {missing[0]!r}: {_SHAPE}")
    with _quiet():
        said = {name: program.load_method(name).call(())[0] for name in Exported.__slots__}
    about = Exported(**{name: int(value) for name, value in said.items()})
    meta = program.method_meta(_METHOD)
    inputs = [meta.input_tensor_meta(number).sizes() for number in range(meta.num_inputs())]
    outputs = [meta.output_tensor_meta(number).sizes() for number in range(meta.num_outputs())]
    if inputs != [(1, CHUNK), (1,), (CHUNK,)] or outputs != [(1, CHUNK, about.vocabulary)]:
        raise ModelNotFound(f"{path.name} takes {inputs} and gives {outputs}: {_SHAPE}")
    return about


_SHAPE = (
    f"edgewise drives {_METHOD}(tokens [1, n], position [1], rows [k]) → logits [1, k, vocabulary] "
    f"with n and k up to {CHUNK}, and asks for context_tokens and vocabulary"
)


def _load_runtime() -> tuple[Any, Any]:
    """torch, and the runtime's extension.

    `executorch.runtime` would load the exporter as well: four seconds more, and its warnings.
    """
    require_packages("executorch", "executorch", "torch")
    import torch  # noqa: PLC0415 - a second; and the extension is linked to it

    runtime = importlib.import_module("executorch.extension.pybindings._C")
    known = runtime._get_operator_names()
    if not any(name.startswith("llama::sdpa_with_kv_cache") for name in known):
        package = Path(next(iter(importlib.import_module("executorch").__path__)))
        for pattern in _LIBRARIES:
            for library in package.glob(pattern):
                torch.ops.load_library(library)
    return torch, runtime


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The runtime writes on standard error: through Python, and past it."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


RUNTIME = LocalRuntime(
    title="ExecuTorch",
    package="executorch",
    require=partial(require_packages, "executorch", "executorch", "torch", *PACKAGES),
    convert=with_vocabulary(convert),
    quantisation=quantisation,
    takes=".pte",
)
