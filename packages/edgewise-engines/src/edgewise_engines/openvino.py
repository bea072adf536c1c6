"""OpenVINO: the GGUF's own weights on Intel's processors, GPUs and NPUs.

`openvino` reads GGUF files itself (llama, qwen2, qwen3 and more). What it makes of one has the
cache of keys and values as inputs and outputs. `convert` turns them into states, which the runtime
keeps and lets grow by what is read, and writes the model as OpenVINO's own files.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgewise.errors import GenerationFailed, ModelNotFound, StoreError
from edgewise.local.backend import LocalRuntime
from edgewise.local.catalogue import Progress
from edgewise.local.gguf import matrix_kinds_of
from edgewise.local.store import InstalledModel
from edgewise_engines.logits_loop import PACKAGES, LogitsLoop, require_packages
from edgewise_engines.vocabulary import with_vocabulary

if TYPE_CHECKING:
    from edgewise_engines.logits_loop import Floats

FILE = "model.xml"  # the graph; its weights lie beside it in model.bin
# Numbers between the layers are not rounded to eight bits. Prompts would be read faster, but then
# logits depend on how many tokens are read at once, and an answer on its drafts.
_ON_CPU = {
    "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0,
    "INFERENCE_PRECISION_HINT": "f32",
    "KV_CACHE_PRECISION": "f16",
}
_KEPT = {0: "F32", 1: "F16", 2: "Q4_0", 6: "Q5_0", 8: "Q8_0", 30: "BF16"}  # by ggml's numbers
_INPUTS = ("inp_tokens", "inp_pos", "inp_out_ids", "self_kq_mask")


def open_backend(
    model: InstalledModel,
    *,
    threads: int,
    context_tokens: int,
    slots: int = 1,
    gpu: str = "auto",
    openvino_device: str = "",
) -> LogitsLoop:
    """The entry point `edgewise.local_backends: openvino`."""
    require_packages("openvino", "openvino")
    return LogitsLoop(
        model,
        runtime="openvino",
        load=lambda: OpenVinoSteps(
            model.path, threads=threads, slots=slots, gpu=gpu, device=openvino_device
        ),
        vocabulary=model.path.parent,
        threads=threads,
        context_tokens=context_tokens,
        slots=slots,
    )


def convert(source: Path, folder: Path, progress: Progress) -> str:
    """Write the model of a GGUF file into `folder`; returns the name of the file to load."""
    openvino = load_openvino()
    size = source.stat().st_size
    progress(0, size, "converting for OpenVINO")
    # The runtime does not say how far it is; the default model takes less than a second.
    openvino.save_model(_read_gguf(openvino, source), folder / FILE, compress_to_fp16=False)
    progress(size, size, "converting for OpenVINO")
    return FILE


def quantisation(source: Path, before: str) -> str:
    """What the weights are called after the conversion: as `before`, if no bit changes.

    `R` means that some were rounded: the smallest number of a block (Q4_1, Q5_1, K-quants) becomes
    a whole multiple of its scale.
    """
    return before if matrix_kinds_of(source) <= _KEPT.keys() else f"{before}R"


def load_openvino() -> Any:
    """The package, without its telemetry: importing it would send an event to its maker.

    It does without `openvino_telemetry` where that cannot be imported.
    """
    require_packages("openvino", "openvino")
    modules: dict[str, Any] = sys.modules
    modules.setdefault("openvino_telemetry", None)
    return importlib.import_module("openvino")


def choose_device(available: Sequence[str], *, gpu: str = "auto", named: str = "") -> str:
    """The device of the setting `openvino_device`; if it is empty, what `gpu` means."""
    kinds = {each.partition(".")[0] for each in available}
    if named and named not in (*kinds, "AUTO"):
        have = ", ".join(sorted(kinds)) or "none"
        raise ModelNotFound(f"OpenVINO finds no {named} here, only {have}: see openvino_device")
    if named:
        return named
    return "GPU" if "GPU" in kinds and gpu not in ("off", "0") else "CPU"


class OpenVinoSteps:
    """One model, compiled for one device. Each slot is a request of the runtime: its own states."""

    repeatable = True

    def __init__(
        self, path: Path, *, threads: int, slots: int = 1, gpu: str = "auto", device: str = ""
    ) -> None:
        import numpy as np  # noqa: PLC0415 - with the first model

        openvino = load_openvino()
        self._np = np
        self._tensor = openvino.Tensor
        core = openvino.Core()
        chosen = choose_device(core.available_devices, gpu=gpu, named=device)
        options: dict[str, Any] = {"PERFORMANCE_HINT": "LATENCY"}
        if chosen == "CPU":
            options |= {**_ON_CPU, "INFERENCE_NUM_THREADS": threads}
        try:
            compiled = core.compile_model(path, chosen, options)
        except RuntimeError as error:
            reason = str(error).strip().splitlines()[-1]
            raise ModelNotFound(f"{str(path)!r} does not load: {reason}") from error
        self._requests = [compiled.create_infer_request() for _ in range(slots)]
        self._held = [0] * slots  # tokens that each slot has read; -1 after a failure

    def read(self, slot: int, position: int, tokens: Sequence[int], answers: int) -> Floats:
        """Read tokens of a sequence, from `position` on; what came after it is forgotten."""
        np, request, count = self._np, self._requests[slot], len(tokens)
        if self._held[slot] != position:
            self._cut(slot, position)
        positions = np.arange(position, position + count, dtype=np.int32)
        seen = np.arange(position + count) <= positions[:, None]
        given = {
            "inp_tokens": np.asarray(tokens, np.int32)[None, None, None],
            "inp_pos": positions[None, None, None],
            "inp_out_ids": np.arange(count - answers, count, dtype=np.int32)[None, None, None],
            "self_kq_mask": np.where(seen, np.float32(0), np.float32("-inf"))[None, None],
            "beam_idx": np.zeros(1, np.int32),
        }
        self._held[slot] = -1
        try:
            request.infer(given, share_inputs=True, share_outputs=True)
        except RuntimeError as error:
            raise GenerationFailed(f"OpenVINO broke off: {error}") from error
        self._held[slot] = position + count
        logits: Floats = request.get_output_tensor(0).data[0, 0]
        return logits

    def close(self) -> None:
        self._requests.clear()

    def _cut(self, slot: int, length: int) -> None:
        """Keep the first `length` tokens of what a slot has read."""
        request = self._requests[slot]
        if length == 0:
            request.reset_state()
            return
        for state in request.query_state():
            kept = state.state.data[:, :length]
            if kept.shape[1] != length:
                raise GenerationFailed(f"OpenVINO has read {kept.shape[1]} tokens, not {length}")
            state.state = self._tensor(self._np.ascontiguousarray(kept))


def _read_gguf(openvino: Any, source: Path) -> Any:
    """The model of a GGUF file, its cache as states of the runtime."""
    import numpy as np  # noqa: PLC0415

    ops = importlib.import_module("openvino.opset13")
    util = importlib.import_module("openvino.op.util")
    reader = openvino.frontend.FrontEndManager().load_by_framework("gguf")
    try:
        model = reader.convert(reader.load(str(source)))
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[-1]
        raise StoreError(f"OpenVINO cannot read {source.name}: {reason}") from error
    beam = ops.parameter([-1], np.int32, name="beam_idx")
    beam.output(0).get_tensor().set_names({"beam_idx"})
    logits, *caches = model.get_results()
    grown = [_as_state(openvino, ops, util, each, beam) for each in caches]
    inputs = [each for each in model.get_parameters() if each.get_friendly_name() in _INPUTS]
    return openvino.Model([logits], grown, [*inputs, beam], source.stem)


def _as_state(openvino: Any, ops: Any, util: Any, result: Any, beam: Any) -> Any:
    """A cache that is an input, written to row by row, becomes a state that grows at its end.

    The gather is of no use to us. The processor's plug-in knows states by it, and then keeps them
    in place.
    """
    import numpy as np  # noqa: PLC0415

    written = result.input_value(0).get_node()
    cache, rows = written.input_value(0).get_node(), written.input_value(2).get_node()
    fresh = rows.input_value(0)  # [1, tokens, heads, width]
    heads, width = (each.get_length() for each in list(cache.get_partial_shape())[2:])
    about = util.VariableInfo()
    about.data_shape = openvino.PartialShape([-1, -1, heads, width])
    about.data_type = openvino.Type.f16
    about.variable_id = cache.get_friendly_name()
    variable = util.Variable(about)
    empty = ops.constant(np.zeros((1, 0, heads, width), np.float16))
    past = ops.gather(ops.read_value(empty, variable), beam, ops.constant(np.int64(0)))
    joined = ops.concat([past, fresh], 1)
    for user in written.output(0).get_target_inputs():
        if user.get_node().get_type_name() != "Result":
            user.replace_source_output(joined.output(0))
    return ops.assign(joined, variable)


RUNTIME = LocalRuntime(
    title="OpenVINO",
    package="openvino",
    require=partial(require_packages, "openvino", "openvino", *PACKAGES),
    convert=with_vocabulary(convert),
    quantisation=quantisation,
)
