"""ONNX Runtime: reads tokens, keeps keys and values, gives logits."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgewise.errors import ModelNotFound
from edgewise.local.backend import LocalRuntime
from edgewise.local.store import InstalledModel
from edgewise_engines.logits_loop import PACKAGES, LogitsLoop, require_packages
from edgewise_engines.onnx_graph import quantisation_after, write_graph
from edgewise_engines.vocabulary import with_vocabulary

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]


def open_backend(
    model: InstalledModel,
    *,
    threads: int,
    context_tokens: int,
    slots: int = 1,
) -> LogitsLoop:
    """The entry point `edgewise.local_backends: onnx`."""
    return LogitsLoop(
        model,
        runtime="onnx",
        load=lambda: OnnxSteps(
            model.path, threads=threads, context_tokens=context_tokens, slots=slots
        ),
        vocabulary=model.path.parent,
        threads=threads,
        context_tokens=context_tokens,
        slots=slots,
    )


class OnnxSteps:
    """Implements `Steps`: one session, and a cache of keys and values for each slot.

    A cache is one piece of memory that the runtime takes as the past and writes as the present, so
    nothing is copied, and a token costs the same wherever it stands.
    """

    repeatable = True

    def __init__(self, path: Path, *, threads: int, context_tokens: int, slots: int = 1) -> None:
        import numpy as np  # noqa: PLC0415

        self._np = np
        self._room = context_tokens
        self._session = _open_session(path, threads)
        outputs = {each.name: each.shape for each in self._session.get_outputs()}
        self._vocabulary = int(outputs["logits"][-1])
        facts = self._session.get_modelmeta().custom_metadata_map
        turns = _turns(json.loads(facts["frequencies"]), context_tokens)
        caches = {name: shape for name, shape in outputs.items() if name != "logits"}
        self._slots = [self._bind(caches, turns, context_tokens) for _ in range(slots)]
        self._logits: Floats = np.empty((1, self._vocabulary), np.float32)

    def _bind(self, caches: dict[str, list[Any]], turns: dict[str, Floats], context: int) -> Any:
        import onnxruntime  # noqa: PLC0415

        binding = self._session.io_binding()
        for name, values in turns.items():
            binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(values))
        for name, (batch, heads, _, head) in caches.items():
            # Fresh pages: memory is taken when a token is read into them.
            room = self._np.zeros((batch, heads, context, head), self._np.float32)
            shared = onnxruntime.OrtValue.ortvalue_from_numpy(room)
            binding.bind_ortvalue_input(name.replace("present", "past"), shared)
            binding.bind_ortvalue_output(name, shared)
        return binding

    def read(self, slot: int, position: int, tokens: Sequence[int], answers: int) -> Floats:
        """As in `Steps`. What the slot held from `position` on is overwritten or not looked at.

        The runtime multiplies one row in another way than several, with other last digits. So that
        a token weighs the same alone and in a draft, one is read twice where there is room: the
        second reading is forgotten. That costs a twentieth of the speed.
        """
        np = self._np
        if len(tokens) == 1 and position + 2 <= self._room:
            return self._run(slot, position, [tokens[0]] * 2, np.arange(2))[:answers]
        count = len(tokens)
        return self._run(slot, position, tokens, np.arange(count - answers, count))

    def _run(self, slot: int, position: int, tokens: Sequence[int], rows: Any) -> Floats:
        np, answers, end = self._np, len(rows), position + len(tokens)
        if answers > len(self._logits):
            self._logits = np.empty((answers, self._vocabulary), np.float32)
        logits = self._logits[:answers]
        given = {
            "tokens": np.array([tokens], np.int64),
            "rows": rows.astype(np.int64),
            "last": np.array([end - 1], np.int32),
            "total": np.array(end, np.int32),
        }
        binding = self._slots[slot]
        for name, values in given.items():
            binding.bind_cpu_input(name, values)
        shape = (1, *logits.shape)
        binding.bind_output("logits", "cpu", 0, np.float32, shape, logits.ctypes.data)
        self._session.run_with_iobinding(binding)
        return logits

    def close(self) -> None:
        """Free the weights and the caches."""
        self._slots.clear()
        self._session = None


def _open_session(path: Path, threads: int) -> Any:
    import onnxruntime  # noqa: PLC0415 - a quarter of a second; only who uses it waits

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # Waiting threads must not spin: on shared cores that starves others.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the runtime raises its own classes, without a common base
        raise ModelNotFound(f"{str(path)!r} does not load: {error}") from error


def _turns(frequencies: list[float], context_tokens: int) -> dict[str, Floats]:
    """How each pair of numbers is turned at each position."""
    import numpy as np  # noqa: PLC0415

    angles = np.outer(np.arange(context_tokens), np.array(frequencies))
    return {"cosines": np.cos(angles).astype("f4"), "sines": np.sin(angles).astype("f4")}


RUNTIME = LocalRuntime(
    title="ONNX Runtime",
    package="onnxruntime",
    require=partial(require_packages, "onnx", "onnxruntime", "onnx", *PACKAGES),
    convert=with_vocabulary(write_graph),
    quantisation=quantisation_after,
)
