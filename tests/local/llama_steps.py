"""llama.cpp as a runtime that only gives logits: what every such one is, on a real model.

It has the two names that a file of `edgewise_engines` has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from edgewise.local.backend import LocalRuntime
from edgewise.local.decoder import SlotPart
from edgewise.local.llama_api import load_api
from edgewise.local.llama_runtime import LlamaRuntime, Weights
from edgewise.local.store import InstalledModel
from edgewise_engines.logits_loop import LogitsLoop
from edgewise_engines.vocabulary import with_vocabulary


class LlamaSteps:
    """One context of llama.cpp, read slot by slot. Its logits are written over by the next read."""

    repeatable = True

    def __init__(self, path: Path, *, threads: int, context_tokens: int, slots: int) -> None:
        weights = Weights(load_api(), path)
        self._runtime = LlamaRuntime(
            weights, threads=threads, context_tokens=context_tokens, slots=slots
        )
        self._logits = np.zeros((0, weights.size), np.float32)

    def read(
        self, slot: int, position: int, tokens: Sequence[int], answers: int
    ) -> npt.NDArray[np.float32]:
        assert self._runtime.cut(slot, position) == position
        self._logits[:] = np.nan
        if len(self._logits) < answers:
            self._logits = np.zeros((answers, self._logits.shape[1]), np.float32)
        (rows,) = self._runtime.read([SlotPart(slot, position, list(tokens), answers)], set())
        for number in range(answers):
            self._logits[number] = rows.logits(number)
        return self._logits[:answers]

    def close(self) -> None:
        self._runtime.close()


def convert(source: Path, folder: Path, progress: Callable[..., None]) -> str:
    (folder / "model.steps").symlink_to(source)
    return "model.steps"


def open_backend(
    model: InstalledModel, *, threads: int, context_tokens: int, slots: int = 1
) -> LogitsLoop:
    return LogitsLoop(
        model,
        runtime="steps",
        load=lambda: LlamaSteps(
            model.path, threads=threads, context_tokens=context_tokens, slots=slots
        ),
        vocabulary=model.path.parent,
        threads=threads,
        context_tokens=context_tokens,
        slots=slots,
    )


RUNTIME = LocalRuntime(title="Steps", package="xllamacpp", convert=with_vocabulary(convert))
