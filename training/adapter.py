"""What is trained: thin matrices beside the base's weights, or the weights themselves.

Either way the forward pass gets whole weights, made anew for each step. That costs less than two
thin products beside every wide one, and the same compiled layer serves every setting.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from edgewise.local.convert import LEVELS, REACHES
from training.base_weights import EMBEDDING, GgufFile, ModelShape
from training.dequantise import Floats
from training.model import LayerWeights, Tensor, Weights, halves_first
from training.run_settings import RunSettings

# Weights of one layer that are adapted, by the middle of their GGUF names.
GROUPS = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
NORMS = ("attn_norm", "ffn_norm")
OUTPUT_NORM = "output_norm.weight"
MORE_NORMS = {
    "q_norm": "attn_q_norm",
    "k_norm": "attn_k_norm",
    "attention_post_norm": "post_attention_norm",
    "feed_forward_post_norm": "post_ffw_norm",
}


class Base:
    """The frozen base on the device, each kind of weight stacked over the layers."""

    def __init__(self, weights: Mapping[str, Floats], shape: ModelShape, device: Any) -> None:
        self.shape, self.device = shape, device
        self.stacks: dict[str, Tensor] = {
            group: self._stack(weights, f"{group}.weight") for group in (*GROUPS, *NORMS)
        }
        self.extras = self._read_extras(weights)
        self.embedding = torch.from_numpy(weights[EMBEDDING]).to(device)
        self.output_norm = torch.from_numpy(weights[OUTPUT_NORM]).to(device)

    def _stack(self, weights: Mapping[str, Floats], name: str) -> Tensor:
        layers = [weights[f"blk.{n}.{name}"] for n in range(self.shape.layers)]
        return torch.from_numpy(np.stack(layers)).to(self.device)

    def _read_extras(self, weights: Mapping[str, Floats]) -> dict[str, Tensor]:
        """What only some architectures have, by its name in `LayerWeights`; never trained."""
        extras: dict[str, Tensor] = {}
        if self.shape.biased:
            q, k, v = (self._stack(weights, f"attn_{part}.bias")[:, :, None] for part in "qkv")
            extras["qkv_bias"] = torch.cat([self._turned(q), self._turned(k), v], dim=1)[:, :, 0]
        if self.shape.gemma:
            extras |= {
                field: self._stack(weights, f"{name}.weight") for field, name in MORE_NORMS.items()
            }
        return extras

    def _turned(self, stack: Tensor) -> Tensor:
        return halves_first(stack, self.shape.head_width) if self.shape.turns_neighbours else stack

    def assemble(
        self, stacks: Mapping[str, Tensor], embedding: Tensor, output_norm: Tensor, dtype: Any
    ) -> Weights:
        """Whole weights in the precision and order of the forward pass."""
        cast = {group: stacks[group].to(dtype) for group in GROUPS}
        q, k = self._turned(cast["attn_q"]), self._turned(cast["attn_k"])
        columns = (
            stacks["attn_norm"],
            torch.cat([q, k, cast["attn_v"]], dim=1),
            cast["attn_output"],
            stacks["ffn_norm"],
            torch.cat([cast["ffn_gate"], cast["ffn_up"]], dim=1),
            cast["ffn_down"],
        )
        layers = [
            LayerWeights(*parts) for parts in zip(*(c.unbind(0) for c in columns), strict=True)
        ]
        for field, stack in self.extras.items():
            parts = (stack.to(dtype) if field == "qkv_bias" else stack).unbind(0)
            layers = [
                layer._replace(**{field: part}) for layer, part in zip(layers, parts, strict=True)
            ]
        return Weights(embedding.to(dtype), layers, output_norm)


class Trainable:
    """The parameters of one run and the weights they stand for."""

    def __init__(self, base: Base, settings: RunSettings) -> None:
        self.base, self.settings = base, settings
        self.parameters: dict[str, Tensor] = {}
        generator = torch.Generator().manual_seed(settings.seed)
        if settings.method == "full":
            for group in GROUPS:
                self.parameters[group] = base.stacks[group].clone()
        elif settings.method == "lora":
            for group in GROUPS:
                self._add_thin(group, base.stacks[group].shape, settings.rank, generator)
        else:
            raise ValueError(f"no method {settings.method!r}")
        if settings.embedding_rank:
            shape = (1, *base.embedding.shape)
            self._add_thin("embedding", shape, settings.embedding_rank, generator)
        if settings.norms:
            for name in NORMS:
                self.parameters[name] = torch.zeros_like(base.stacks[name])
            self.parameters["output_norm"] = torch.zeros_like(base.output_norm)
        if settings.start:
            self._go_on(GgufFile(Path(settings.start)))
        for parameter in self.parameters.values():
            parameter.requires_grad_()

    def _go_on(self, file: GgufFile) -> None:
        """Begin where a written adapter ended."""
        if self.settings.method != "lora":
            raise ValueError("only thin matrices can go on from an adapter")
        for group in GROUPS:
            names = [f"blk.{layer}.{group}.weight" for layer in range(self.base.shape.layers)]
            a, b = (
                np.stack([file.tensor(f"{name}.{role}") for name in names])
                for role in ("lora_a", "lora_b")
            )
            if a.shape[1] != self.settings.rank:
                raise ValueError(f"the start has rank {a.shape[1]}, not {self.settings.rank}")
            scale = float(file.metadata["adapter.lora.alpha"]) / a.shape[1] / self._scale(group)
            for name, value in ((f"{group}.a", a), (f"{group}.b", b * np.float32(scale))):
                self.parameters[name] = torch.from_numpy(value).to(self.base.device)

    def weights(self, dtype: Any) -> Weights:
        settings, base = self.settings, self.base
        stacks = {}
        kinds = kinds_of(settings.quantise_aware or "none")
        for group in GROUPS:
            stacks[group] = rounded_ahead(self.whole(group), kinds[group])
        for name in NORMS:
            stacks[name] = base.stacks[name] + self.parameters.get(name, 0.0)
        embedding = base.embedding
        if settings.embedding_rank:
            embedding = embedding + self._thin_product("embedding")[0]
        output_norm = base.output_norm + self.parameters.get("output_norm", 0.0)
        return base.assemble(stacks, embedding, output_norm, dtype)

    def whole(self, group: str) -> Tensor:
        if self.settings.method == "full":
            return self.parameters[group]
        return self.base.stacks[group] + self._thin_product(group)

    def thin(self, group: str) -> tuple[Tensor, Tensor]:
        """(A, B) with the scale put into B, stacked over the layers."""
        a, b = self.parameters[f"{group}.a"], self.parameters[f"{group}.b"] * self._scale(group)
        if not self.settings.round_adapter:
            return a, b
        kind = self.settings.export_kind
        return rounded_ahead(a, kind), rounded_ahead(b, kind)

    def _thin_product(self, group: str) -> Tensor:
        a, b = self.thin(group)
        return torch.bmm(b, a)

    def _scale(self, group: str) -> float:
        rank: int = self.parameters[f"{group}.a"].shape[1]
        return self.settings.alpha / self.settings.rank if group in GROUPS else 1.0 / rank

    def _add_thin(self, group: str, shape: tuple[int, ...], rank: int, generator: Any) -> None:
        layers, outputs, inputs = shape
        a = torch.randn(layers, rank, inputs, generator=generator) / inputs**0.5
        self.parameters[f"{group}.a"] = a.to(self.base.device)
        self.parameters[f"{group}.b"] = torch.zeros(layers, outputs, rank, device=self.base.device)


def kinds_of(served: str) -> dict[str, str]:
    """How each group is quantised: "IQ4_NL,ffn_down=Q8_0" names one kind and exceptions from it."""
    usual, *exceptions = served.split(",")
    kinds = dict.fromkeys(GROUPS, usual)
    for exception in exceptions:
        group, _, kind = exception.partition("=")
        if group not in kinds:
            raise ValueError(f"no group {group!r} in {served!r}")
        kinds[group] = kind
    return kinds


def rounded_ahead(weights: Tensor, kind: str) -> Tensor:
    """The rounded weights going forward; going back, as if nothing had been rounded."""
    if kind == "none":
        return weights
    return weights + (fake_quantise(weights.detach(), kind) - weights).detach()


def fake_quantise(weights: Tensor, kind: str) -> Tensor:
    """What rounding to `kind` leaves of the weights; blocks of 32 along the last axis.

    Q8_0 and Q4_0 as llama.cpp rounds, IQ4_NL as `edgewise.local.convert` does.
    """
    if kind == "none":
        return weights
    blocks = weights.unflatten(-1, (-1, 32))
    if kind == "Q8_0":
        exact = blocks.abs().amax(-1, keepdim=True) / 127
        stored = exact.half().float()
        inverse = torch.where(exact == 0, 0.0, 1 / exact)
        return (torch.round(blocks * inverse) * stored).flatten(-2)
    if kind == "IQ4_NL":
        return _closest_levels(blocks).flatten(-2)
    if kind != "Q4_0":
        raise ValueError(f"no fake quantisation to {kind!r}")
    largest = blocks.gather(-1, blocks.abs().argmax(-1, keepdim=True))
    exact = largest / -8
    inverse = torch.where(exact == 0, 0.0, 1 / exact)
    numbers = (blocks * inverse + 8.5).trunc().clamp(0, 15) - 8
    return (numbers * exact.half().float()).flatten(-2)


def _closest_levels(blocks: Tensor) -> Tensor:
    levels = torch.tensor(LEVELS, device=blocks.device, dtype=blocks.dtype)
    between = (levels[1:] + levels[:-1]) / 2
    largest = blocks.gather(-1, blocks.abs().argmax(-1, keepdim=True))
    best, kept = torch.full_like(largest, -1.0), torch.zeros_like(blocks)
    for reach in REACHES:
        inverse = torch.where(largest == 0, 0.0, reach / largest)
        tried = levels[torch.bucketize(blocks * inverse, between)]
        product = (blocks * tried).sum(-1, keepdim=True)
        square = (tried * tried).sum(-1, keepdim=True)
        gain = product * product / square
        scale = (product / square).half().float()
        kept = torch.where(gain > best, tried * scale, kept)
        best = torch.maximum(best, gain)
    return kept
