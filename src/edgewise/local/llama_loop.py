"""llama.cpp driven by our own decode loop: chat and function calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import override

from edgewise.local.gpu import layers_on_gpu
from edgewise.local.llama_api import LAYER_ARCHITECTURES, load_api
from edgewise.local.loop_backend import LoopBackend
from edgewise.local.store.gguf_header import architecture_of, layers_of, spelt_bytes
from edgewise.local.store.store import InstalledModel

if TYPE_CHECKING:  # brings numpy, which loads slowly: with the first model
    from edgewise.local.decoder import Runtime


class LlamaLoop(LoopBackend):
    """One GGUF file. Its slots share each pass through the weights."""

    def __init__(
        self,
        model: InstalledModel,
        *,
        threads: int,
        context_tokens: int,
        slots: int = 1,
        gpu: str = "auto",
    ) -> None:
        super().__init__(
            model,
            engine="llama_cpp",
            threads=threads,
            context_tokens=context_tokens,
            slots=slots,
            layers=_layers_given(model),
        )
        self._path = model.path
        self._gpu = gpu

    @override
    def _open(self) -> Runtime:
        from edgewise.local.decoder import BATCH  # noqa: PLC0415
        from edgewise.local.llama_runtime import LlamaRuntime, Weights  # noqa: PLC0415

        tokens, slots = self._facts.context_tokens, self._facts.slots
        layers = layers_on_gpu(
            self._gpu, self._path, context_tokens=tokens, slots=slots, batch=BATCH
        )
        weights = Weights(load_api(), self._path, gpu_layers=layers)
        try:
            return LlamaRuntime(weights, threads=self._threads, context_tokens=tokens, slots=slots)
        except BaseException:
            weights.close()
            raise

    @override
    def _spelt_bytes(self) -> frozenset[int]:
        return spelt_bytes(self._path)


def _layers_given(model: InstalledModel) -> int:
    """How many layers a file has whose inputs llama.cpp can give; 0 if it cannot."""
    given = architecture_of(model.path) in LAYER_ARCHITECTURES
    return layers_of(model.path) if given else 0
