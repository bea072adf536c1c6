"""Attention over packed rows: block-sparse where torch can, dense where it cannot."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import torch

from training.base_weights import ModelShape
from training.model import LayerWeights, Tensor, dense_attention, dense_document_mask, run_layer

log = logging.getLogger("training")

BLOCK = 128
MakeMask = Callable[[Tensor, int], Any]  # documents, window
RunLayer = Callable[..., Tensor]


def flex_attention(q: Tensor, k: Tensor, v: Tensor, mask: Any) -> Tensor:
    # Missing from older torch; nobody needs it on a CPU.
    from torch.nn.attention.flex_attention import flex_attention as flex  # noqa: PLC0415

    return flex(q, k, v, block_mask=mask, enable_gqa=True)


def flex_document_mask(documents: Tensor, window: int = 0) -> Any:
    """The mask of `dense_document_mask` as blocks. Numbers of documents must rise along a row.

    Built from the first and last document of each block: a few thousand numbers instead of the
    millions that torch's own `create_block_mask` evaluates, and nothing to compile.
    """
    from torch.nn.attention.flex_attention import BlockMask  # noqa: PLC0415

    def same_document(batch: Any, head: Any, query: Any, key: Any) -> Any:
        return (query >= key) & (documents[batch, query] == documents[batch, key])

    def near_in_document(batch: Any, head: Any, query: Any, key: Any) -> Any:
        same = documents[batch, query] == documents[batch, key]
        return (query >= key) & (query - key < window) & same

    rows, time = documents.shape
    blocks = documents.view(rows, time // BLOCK, BLOCK)
    first, last = blocks[:, :, 0], blocks[:, :, -1]
    number = torch.arange(time // BLOCK, device=documents.device)
    earlier = number[:, None] > number[None, :]
    touching = (first[:, :, None] <= last[:, None, :]) & (number[:, None] >= number[None, :])
    one = first == last
    same = one[:, :, None] & one[:, None, :] & (first[:, :, None] == first[:, None, :])
    full = touching & earlier & same
    if window:
        apart = BLOCK * (number[:, None] - number[None, :])
        touching = touching & (apart - BLOCK + 1 < window)
        full = full & (apart + BLOCK <= window)
    mask_mod = near_in_document if window else same_document
    return BlockMask.from_kv_blocks(
        *_ordered(touching & ~full), *_ordered(full), BLOCK_SIZE=BLOCK, mask_mod=mask_mod
    )


def _ordered(dense: Tensor) -> tuple[Tensor, Tensor]:
    """How many blocks each row of blocks has, and which, those first."""
    dense = dense[:, None].to(torch.int32)
    order = torch.argsort(dense, dim=-1, descending=True, stable=True)
    return dense.sum(-1, dtype=torch.int32), order.to(torch.int32)


def choose(
    shape: ModelShape, device: Any, rows: int, time: int, *, compiled: bool
) -> tuple[MakeMask, RunLayer]:
    """The fastest pair of (mask maker, layer) that agrees with dense attention here."""
    if torch.device(device).type == "cuda":
        try:
            pair = flex_pair(shape, compiled)
            _require_agreement(shape, device, rows, time, pair)
        except Exception:  # whatever it is, training must go on
            log.exception("flex attention does not work here; using dense attention")
        else:
            return pair
        return dense_pair(shape, compiled)
    return dense_pair(shape, compiled=False)


def flex_pair(shape: ModelShape, compiled: bool) -> tuple[MakeMask, RunLayer]:
    def layer(x: Tensor, weights: LayerWeights, cosine: Tensor, sine: Tensor, mask: Any) -> Tensor:
        return run_layer(x, weights, cosine, sine, mask, flex_attention, shape)

    return flex_document_mask, torch.compile(layer, dynamic=False) if compiled else layer


def dense_pair(shape: ModelShape, compiled: bool) -> tuple[MakeMask, RunLayer]:
    def layer(x: Tensor, weights: LayerWeights, cosine: Tensor, sine: Tensor, mask: Any) -> Tensor:
        return run_layer(x, weights, cosine, sine, mask, dense_attention, shape)

    return dense_document_mask, torch.compile(layer, dynamic=False) if compiled else layer


def _require_agreement(
    shape: ModelShape, device: Any, rows: int, time: int, pair: tuple[MakeMask, RunLayer]
) -> None:
    """Compare one layer, forward and backward, with the dense one on random numbers.

    At the size of a training step, so that what is compiled here is used again.
    """
    generator = torch.Generator(device="cpu").manual_seed(0)

    def draw(*size: int) -> Tensor:
        return torch.randn(*size, generator=generator).to(device, torch.bfloat16)

    weights = _random_layer(shape, draw)
    documents = (torch.arange(time, device=device) // 700).to(torch.int32)
    documents = documents.expand(rows, time).contiguous()
    tables = [draw(rows, 1, time, shape.head_width // 2).float() for _ in range(2)]
    x, upstream = draw(rows, time, shape.width), draw(rows, time, shape.width)
    for window in {0, shape.window}:
        results = []
        for make_mask, run in (pair, dense_pair(shape, compiled=False)):
            source = x.clone().requires_grad_()
            out = run(source, weights, *tables, make_mask(documents, window))
            out.backward(upstream)
            results.append((out.detach().float(), source.grad.float()))
        _compare(results)


def _random_layer(shape: ModelShape, draw: Callable[..., Tensor]) -> LayerWeights:
    wide = shape.heads * shape.head_width
    mixed = wide + 2 * shape.kv_heads * shape.head_width
    weights = LayerWeights(
        draw(shape.width).float(),
        (draw(mixed, shape.width) * 0.05).requires_grad_(),
        (draw(shape.width, wide) * 0.05).requires_grad_(),
        draw(shape.width).float(),
        (draw(2 * shape.feed_forward, shape.width) * 0.05).requires_grad_(),
        (draw(shape.width, shape.feed_forward) * 0.05).requires_grad_(),
        draw(mixed) if shape.biased else None,
    )
    if not shape.gemma:
        return weights
    return weights._replace(
        q_norm=draw(shape.head_width).float(),
        k_norm=draw(shape.head_width).float(),
        attention_post_norm=draw(shape.width).float(),
        feed_forward_post_norm=draw(shape.width).float(),
    )


def _compare(results: list[tuple[Tensor, Tensor]]) -> None:
    for name, ours, reference in zip(("output", "gradient"), *results, strict=True):
        error = float((ours - reference).norm() / reference.norm())
        log.info("flex attention: relative difference of the %s %.5f", name, error)
        if not error < 0.03:
            raise ValueError(f"flex attention differs from dense in its {name}: {error}")
