"""LLaMA, Qwen2 and Gemma 3 as plain functions over torch tensors: weights go in from anywhere.

What is learnt keeps llama.cpp's order of rows and can be written back as it is; only the copies
that enter the forward pass have the rows of q and k reordered where it turns neighbours
(`halves_first`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

from training.base_weights import ModelShape

Tensor = Any  # torch is not installed where types are checked


class LayerWeights(NamedTuple):
    """One layer in the precision of the forward pass; q, k, v and gate, up lie together."""

    attention_norm: Tensor
    qkv: Tensor
    output: Tensor
    feed_forward_norm: Tensor
    gate_up: Tensor
    down: Tensor
    qkv_bias: Tensor | None = None
    q_norm: Tensor | None = None
    k_norm: Tensor | None = None
    attention_post_norm: Tensor | None = None
    feed_forward_post_norm: Tensor | None = None


class Weights(NamedTuple):
    """A whole model; the embedding also reads the answer out."""

    embedding: Tensor
    layers: list[LayerWeights]
    output_norm: Tensor


Turns = list[tuple[Tensor, Tensor]]


def rotary_tables(shape: ModelShape, positions: int, device: Any) -> Turns:
    """Cosines and sines, [positions, half a head], float32; the local layers' come second."""
    half = shape.head_width // 2
    tables = []
    for base in shape.rope_bases:
        frequencies = base ** (-torch.arange(half, device=device, dtype=torch.float32) / half)
        angles = torch.arange(positions, device=device, dtype=torch.float32)[:, None] * frequencies
        tables.append((angles.cos(), angles.sin()))
    return tables


def embed(tokens: Tensor, embedding: Tensor, shape: ModelShape) -> Tensor:
    x = F.embedding(tokens, embedding)
    return x * shape.width**0.5 if shape.gemma else x


def normalise(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    wide = x.float()
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + epsilon)
    return (wide * weight.float()).to(x.dtype)


def rotate(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """x: [batch, heads, time, head]; the tables broadcast to [batch, 1, time, half]."""
    first, second = x.float().chunk(2, dim=-1)
    turned = torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1)
    return turned.to(x.dtype)


def halves_first(stack: Tensor, head_width: int) -> Tensor:
    """Rows of llama.cpp's q or k, [layers, rows, inputs], in the order `rotate` wants.

    llama.cpp turns neighbouring rows together; torch compiles a turn of two halves far better.
    """
    pairs = stack.unflatten(1, (-1, head_width // 2, 2))
    return pairs.transpose(2, 3).flatten(1, 3)


def project_qkv(
    x: Tensor, layer: LayerWeights, cosine: Tensor, sine: Tensor, shape: ModelShape
) -> tuple[Tensor, Tensor, Tensor]:
    batch, time, _ = x.shape
    heads, kv_heads, width = shape.heads, shape.kv_heads, shape.head_width
    x = normalise(x, layer.attention_norm, shape.norm_epsilon)
    mixed = F.linear(x, layer.qkv, layer.qkv_bias)
    mixed = mixed.view(batch, time, heads + 2 * kv_heads, width).transpose(1, 2)
    q, k = mixed[:, :heads], mixed[:, heads : heads + kv_heads]
    if layer.q_norm is not None:
        q = normalise(q, layer.q_norm, shape.norm_epsilon)
        k = normalise(k, layer.k_norm, shape.norm_epsilon)
    return rotate(q, cosine, sine), rotate(k, cosine, sine), mixed[:, heads + kv_heads :]


def finish_layer(x: Tensor, attended: Tensor, layer: LayerWeights, shape: ModelShape) -> Tensor:
    """Everything after attention. attended: [batch, heads, time, head]."""
    added = F.linear(attended.transpose(1, 2).flatten(2), layer.output)
    if layer.attention_post_norm is not None:
        added = normalise(added, layer.attention_post_norm, shape.norm_epsilon)
    x = x + added
    inner = F.linear(normalise(x, layer.feed_forward_norm, shape.norm_epsilon), layer.gate_up)
    gate, up = inner.chunk(2, dim=-1)
    opened = F.gelu(gate, approximate="tanh") if shape.gemma else F.silu(gate)
    added = F.linear(opened * up, layer.down)
    if layer.feed_forward_post_norm is not None:
        added = normalise(added, layer.feed_forward_post_norm, shape.norm_epsilon)
    return x + added


def dense_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """`mask`: boolean, true where a position may be seen; works on every device."""
    share = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(share, dim=1), v.repeat_interleave(share, dim=1)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def run_layer(
    x: Tensor,
    layer: LayerWeights,
    cosine: Tensor,
    sine: Tensor,
    mask: Any,
    attend: Any,
    shape: ModelShape,
) -> Tensor:
    q, k, v = project_qkv(x, layer, cosine, sine, shape)
    # Compiled block-sparse attention read strided q and k wrongly (torch 2.13 on a CPU).
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    return finish_layer(x, attend(q, k, v, mask), layer, shape)


def document_positions(documents: Tensor) -> Tensor:
    """Each token's position within its own example. documents: [rows, time]."""
    time = torch.arange(documents.shape[1], device=documents.device)
    begins = torch.ones_like(documents, dtype=torch.bool)
    begins[:, 1:] = documents[:, 1:] != documents[:, :-1]
    return time - torch.where(begins, time, 0).cummax(dim=1).values


def dense_document_mask(documents: Tensor, window: int = 0) -> Tensor:
    """[rows, 1, time, time]: earlier tokens of the same example, the nearest only in a window."""
    seen = causal_band(documents.shape[1], window, documents.device)
    return ((documents[:, :, None] == documents[:, None, :]) & seen)[:, None]


def causal_band(time: int, window: int, device: Any) -> Tensor:
    seen = torch.ones(time, time, dtype=torch.bool, device=device).tril()
    return seen.triu(1 - window) if window else seen
