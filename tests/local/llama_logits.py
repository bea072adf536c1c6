"""What llama.cpp says to tokens, for engines that are compared with it."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgewise.local.llama_api import Batch, load_api

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Floats = NDArray[numpy.float32]


def llama_logits(path: Path, tokens: Sequence[int]) -> Floats:
    """The logits after every token, one row each, on one thread."""
    import numpy

    api: Any = load_api()
    model = api.model_load_from_file(str(path).encode(), api.model_default_params())
    params = api.context_default_params()
    params.n_ctx, params.n_threads, params.n_threads_batch = 512, 1, 1
    params.n_outputs_max_per_seq = params.n_outputs_max = len(tokens)
    context = api.init_from_model(model, params)
    count = len(tokens)
    kind = ctypes.c_int32 * count
    sequence = ctypes.c_int32(0)
    batch = Batch(
        n_tokens=count,
        token=kind(*tokens),
        pos=kind(*range(count)),
        n_seq_id=kind(*[1] * count),
        seq_id=(ctypes.POINTER(ctypes.c_int32) * count)(*[ctypes.pointer(sequence)] * count),
        logits=(ctypes.c_int8 * count)(*[1] * count),
    )
    try:
        assert api.decode(context, batch) == 0
        size = api.vocab_n_tokens(api.model_get_vocab(model))
        rows: Floats = numpy.stack(
            [
                numpy.ctypeslib.as_array(
                    (ctypes.c_float * size).from_address(api.get_logits_ith(context, row))
                ).copy()
                for row in range(count)
            ]
        )
        return rows
    finally:
        api.free(context)
        api.model_free(model)


def log_probabilities(logits: Floats) -> Floats:
    import numpy

    shifted = logits - logits.max(axis=-1, keepdims=True)
    found: Floats = shifted - numpy.log(numpy.exp(shifted).sum(axis=-1, keepdims=True))
    return found
