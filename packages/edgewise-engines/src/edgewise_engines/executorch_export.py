"""Exports a GGUF file as an ExecuTorch program. Run as a process of its own: it loads torch.

    python -m edgewise_engines.executorch_export model.gguf model.pte

Matrices become int8 with one scale for each row, and run on XNNPACK, which rounds what it
multiplies them with to int8 for each token. Keys and values lie in the program's own memory.
Each line that it prints is a list: seconds of work done, and what is being done.
"""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import (
    XnnpackDynamicallyQuantizedPartitioner,
)
from executorch.backends.xnnpack.xnnpack_preprocess import XnnpackBackend
from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.backend.partitioner import DelegationSpec
from executorch.extension.llm.custom_ops import custom_ops  # noqa: F401 - llama::sdpa_with_kv_cache
from executorch.kernels import quantized  # noqa: F401 - quantized_decomposed::embedding_byte
from gguf import GGUFReader, quants
from torch import nn
from torchao.quantization import quant_primitives  # noqa: F401 - torchao::quantize_affine

from edgewise.errors import StoreError
from edgewise_engines.executorch import CHUNK, LARGEST_CONTEXT, Exported
from edgewise_engines.onnx_graph import INTERLEAVED, Shape, open_gguf

_EMBEDDING, _OUTPUT, _FACTORS = "token_embd.weight", "output.weight", "rope_freqs.weight"
_LARGEST = 127  # of int8, the same on both sides of zero
_SMALLEST_SCALE = torch.finfo(torch.float32).eps


def main(source: str, target: str) -> None:
    warnings.simplefilter("ignore")  # of torch, about its own insides
    with _reported() as say, torch.no_grad():
        say("reading the weights")
        model = _Model(_Weights(Path(source))).eval()
        say("tracing the model")
        program = _trace(model)
        say("lowering it to XNNPACK")
        lowered = to_edge_transform_and_lower(
            program,
            partitioner=[_partitioner()],
            compile_config=EdgeCompileConfig(_check_ir_validity=False, _skip_dim_order=True),
            constant_methods=model.exported.methods(),
        )
        say("writing the program")
        with Path(target).open("wb") as file:
            lowered.to_executorch().write_to_file(file)


@contextlib.contextmanager
def _reported() -> Iterator[Any]:
    """Tells every second how long it has worked, and at what."""
    doing, over = [""], threading.Event()

    def tell() -> None:
        print(json.dumps([time.process_time(), doing[0]]), flush=True)  # noqa: T201

    def repeat() -> None:
        while not over.wait(1.0):
            tell()

    def say(what: str) -> None:
        doing[0] = what
        tell()

    threading.Thread(target=repeat, daemon=True).start()
    try:
        yield say
    finally:
        over.set()


def _partitioner() -> Any:
    """Gives XNNPACK the products only, so it need not look for anything else: 22 s, not 30."""
    partitioner = XnnpackDynamicallyQuantizedPartitioner()
    only = CompileSpec("dqlinear_partitioner", b"")
    partitioner.delegation_spec = DelegationSpec(XnnpackBackend.__name__, [only])
    return partitioner


def _trace(model: _Model) -> Any:
    tokens, rows = (torch.export.Dim(name, min=1, max=CHUNK) for name in ("tokens", "rows"))
    example = torch.tensor([[1, 2, 3]]), torch.tensor([0]), torch.tensor([1, 2])
    shapes = {"tokens": {1: tokens}, "position": None, "rows": {0: rows}}
    traced = torch.export.export(model, example, dynamic_shapes=shapes, strict=True)
    return traced.run_decompositions({})


class _Weights:
    """The tensors of the file as floats, each read once."""

    def __init__(self, source: Path) -> None:
        reader: GGUFReader = open_gguf(source)
        self.shape = Shape(reader, source)
        self.room = min(self.shape.context or LARGEST_CONTEXT, LARGEST_CONTEXT)
        self._tensors = {each.name: each for each in reader.tensors}
        self._unused = set(self._tensors)

    def has(self, name: str) -> bool:
        return name in self._tensors

    def take(self, name: str) -> torch.Tensor:
        if name not in self._tensors:
            raise StoreError(f"the model lacks {name!r}")
        self._unused.discard(name)
        tensor = self._tensors[name]
        values = quants.dequantize(tensor.data, tensor.tensor_type)
        return torch.from_numpy(values.astype("f4"))  # a copy: the file is mapped

    def turned(self, name: str, heads: int) -> torch.Tensor:
        """Rows of queries or keys, in each head the first half before the second."""
        rows = self.take(name)
        if not INTERLEAVED[self.shape.family]:
            return rows
        pairs = rows.reshape(heads, self.shape.head // 2, 2, *rows.shape[1:])
        return pairs.transpose(1, 2).reshape(rows.shape)

    def require_all_used(self) -> None:
        if self._unused:
            raise StoreError(
                f"the model holds {min(self._unused)!r}, which the export does not know"
            )


def _rounded(matrix: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """As int8, and one scale for each row."""
    scales = (matrix.abs().amax(1) / _LARGEST).clamp(min=_SMALLEST_SCALE)
    return torch.round(matrix / scales[:, None]).to(torch.int8), scales


class _Linear(nn.Module):  # type: ignore[misc]
    """In the operators that XNNPACK takes as one product of int8 matrices."""

    def __init__(self, matrix: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        super().__init__()
        numbers, scales = _rounded(matrix)
        self.width = matrix.shape[1]
        self.register_buffer("numbers", numbers)
        self.register_buffer("scales", scales)
        self.register_buffer("zeros", torch.zeros(len(scales), dtype=torch.int64))
        self.register_buffer("bias", bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        operators, int8 = torch.ops.torchao, torch.int8
        token = [1] * (x.dim() - 1) + [self.width]
        scale, zero = operators.choose_qparams_affine(
            x, "ASYMMETRIC", token, int8, -128, 127, _SMALLEST_SCALE, torch.float32, int8
        )
        rounded = operators.quantize_affine(x, token, scale, zero, int8, -128, 127)
        x = operators.dequantize_affine(rounded, token, scale, zero, int8, -128, 127)
        row = [1, self.width]
        matrix = operators.dequantize_affine(
            self.numbers, row, self.scales, self.zeros, int8, -_LARGEST, _LARGEST
        )
        return nn.functional.linear(x, matrix, self.bias)


class _Norm(nn.Module):  # type: ignore[misc]
    def __init__(self, weights: torch.Tensor, tolerance: float) -> None:
        super().__init__()
        self.register_buffer("weights", weights)
        self.tolerance = tolerance

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + self.tolerance) * self.weights


class _Layer(nn.Module):  # type: ignore[misc]
    def __init__(self, weights: _Weights, number: int) -> None:
        super().__init__()
        shape, part = weights.shape, f"blk.{number}"
        self.heads, self.kept, self.head = shape.heads, shape.kept_heads, shape.head
        self.before = _Norm(weights.take(f"{part}.attn_norm.weight"), shape.tolerance)
        self.attention = _Linear(
            self._joined(weights, part, "weight"),
            self._joined(weights, part, "bias") if weights.has(f"{part}.attn_q.bias") else None,
        )
        self.out = _Linear(weights.take(f"{part}.attn_output.weight"))
        self.between = _Norm(weights.take(f"{part}.ffn_norm.weight"), shape.tolerance)
        up = [weights.take(f"{part}.ffn_{name}.weight") for name in ("gate", "up")]
        self.up = _Linear(torch.cat(up))
        self.down = _Linear(weights.take(f"{part}.ffn_down.weight"))
        for name in ("keys", "values"):
            room = torch.zeros(1, weights.room, self.kept, self.head)
            self.register_buffer(name, room)

    def _joined(self, weights: _Weights, part: str, kind: str) -> torch.Tensor:
        """Queries, keys and values at once: each row has its own scale, so nothing changes."""
        queries = weights.turned(f"{part}.attn_q.{kind}", self.heads)
        keys = weights.turned(f"{part}.attn_k.{kind}", self.kept)
        return torch.cat([queries, keys, weights.take(f"{part}.attn_v.{kind}")])

    def forward(
        self, x: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor, position: int
    ) -> torch.Tensor:
        count, turned, half = x.shape[1], self.heads + self.kept, self.head // 2
        joined = self.attention(self.before(x)).view(1, count, turned + self.kept, self.head)
        plain = joined[:, :, :turned]
        swapped = torch.cat([plain[..., half:], plain[..., :half]], -1)
        both = plain * cosines + swapped * sines
        seen = torch.ops.llama.sdpa_with_kv_cache(
            both[:, :, : self.heads],
            both[:, :, self.heads :],
            joined[:, :, turned:],
            self.keys,
            self.values,
            position,
            count,
            None,
            0.0,
            True,
            None,
        )
        x = x + self.out(seen.reshape(1, count, self.heads * self.head))
        gate, up = self.up(self.between(x)).chunk(2, -1)
        return x + self.down(nn.functional.silu(gate) * up)


class _Model(nn.Module):  # type: ignore[misc]
    """Reads `tokens` from `position` on; gives the logits after those whose numbers are `rows`."""

    def __init__(self, weights: _Weights) -> None:
        super().__init__()
        shape = weights.shape
        embedding = weights.take(_EMBEDDING)
        numbers, scales = _rounded(embedding)
        self.register_buffer("numbers", numbers)
        self.register_buffer("scales", scales)
        self.layers = nn.ModuleList(_Layer(weights, number) for number in range(shape.layers))
        self.after = _Norm(weights.take("output_norm.weight"), shape.tolerance)
        self.out = _Linear(weights.take(_OUTPUT) if weights.has(_OUTPUT) else embedding)
        factors = weights.take(_FACTORS).numpy() if weights.has(_FACTORS) else None
        frequencies = torch.tensor(shape.frequencies(factors), dtype=torch.float64)
        angles = torch.outer(torch.arange(weights.room, dtype=torch.float64), frequencies)
        # For a whole head: the second half is turned the other way.
        sines = torch.cat([-angles.sin(), angles.sin()], -1)
        cosines = torch.cat([angles.cos(), angles.cos()], -1)
        self.register_buffer("cosines", cosines[:, None].float())
        self.register_buffer("sines", sines[:, None].float())
        weights.require_all_used()
        self.exported = Exported(context_tokens=weights.room, vocabulary=len(numbers))

    def forward(
        self, tokens: torch.Tensor, position: torch.Tensor, rows: torch.Tensor
    ) -> torch.Tensor:
        first, count, room = position.item(), tokens.shape[1], len(self.cosines)
        torch._check(first >= 0)
        torch._check(first < room)
        torch._check(first + count <= room)
        x = torch.ops.quantized_decomposed.embedding_byte(
            self.numbers, self.scales, None, -128, 127, tokens
        )
        cosines = self.cosines.narrow(0, first, count)
        sines = self.sines.narrow(0, first, count)
        for layer in self.layers:
            x = layer(x, cosines, sines, first)
        return self.out(self.after(x.index_select(1, rows)))


if __name__ == "__main__":
    main(*sys.argv[1:])
