"""Greedy answers for many prompts at once, with the log-probability of every token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

from training.base_weights import ModelShape
from training.model import (
    LayerWeights,
    Tensor,
    Weights,
    causal_band,
    embed,
    finish_layer,
    normalise,
    project_qkv,
    rotary_tables,
)

TOKENS_AT_ONCE = 300_000  # prompts and room for answers of one batch
LOOK_EVERY = 8  # steps between looks whether all are finished; each look waits for the device


@dataclass(frozen=True, slots=True)
class Answer:
    tokens: list[int]  # without the end of turn
    logprobs: list[float]  # of those and of the end of turn, if it came
    finished: bool


def decode(
    weights: Weights,
    shape: ModelShape,
    prompts: Sequence[Sequence[int]],
    end: int,
    *,
    batch: int = 512,
    longest_answer: int = 200,
) -> list[Answer]:
    """Answers in the order of the prompts; prompts of similar length share a batch."""
    order = sorted(range(len(prompts)), key=lambda number: len(prompts[number]))
    answers: list[Answer | None] = [None] * len(prompts)
    with torch.inference_mode():
        while order:
            # The longest prompt of the batch sets the width of all.
            widest = len(prompts[order[min(batch, len(order)) - 1]]) + longest_answer
            members = order[: max(1, min(batch, TOKENS_AT_ONCE // widest))]
            order = order[len(members) :]
            state = _Batch(weights, shape, [prompts[number] for number in members], longest_answer)
            for number, answer in zip(members, state.run(end), strict=True):
                answers[number] = answer
    return [answer for answer in answers if answer is not None]


class _Batch:
    """Prompts side by side, padded on the right: causal attention never sees the padding."""

    def __init__(
        self, weights: Weights, shape: ModelShape, prompts: list[Sequence[int]], longest: int
    ) -> None:
        self.weights, self.shape, self.longest = weights, shape, longest
        device, dtype = weights.embedding.device, weights.embedding.dtype
        self.lengths = torch.tensor([len(prompt) for prompt in prompts], device=device)
        widest = max(len(prompt) for prompt in prompts)
        self.tokens = torch.zeros(len(prompts), widest, dtype=torch.long)
        for row, prompt in enumerate(prompts):
            self.tokens[row, : len(prompt)] = torch.tensor(prompt)
        self.tokens = self.tokens.to(device)
        self.room = -(-(widest + longest) // 8) * 8
        size = (len(prompts), shape.kv_heads, self.room, shape.head_width)
        self.keys = [torch.zeros(size, device=device, dtype=dtype) for _ in weights.layers]
        self.values = [torch.zeros(size, device=device, dtype=dtype) for _ in weights.layers]
        self.tables = rotary_tables(shape, self.room, device)
        self.rows = torch.arange(len(prompts), device=device)
        self.slots = torch.arange(self.room, device=device)

    def run(self, end: int) -> list[Answer]:
        chosen, logprobs = [], []
        hidden = self._read_prompts()
        alive = torch.ones(len(self.rows), dtype=torch.bool, device=self.rows.device)
        for step in range(self.longest):
            token, logprob = self._choose(hidden)
            chosen.append(token)
            logprobs.append(logprob)
            alive &= token != end
            if step % LOOK_EVERY == LOOK_EVERY - 1 and not bool(alive.any()):
                break
            if step + 1 < self.longest:
                hidden = self._step(token, self.lengths + step)
        columns = torch.stack(chosen, 1).cpu().tolist(), torch.stack(logprobs, 1).cpu().tolist()
        return [_cut(tokens, logs, end) for tokens, logs in zip(*columns, strict=True)]

    def _choose(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        x = normalise(hidden, self.weights.output_norm, self.shape.norm_epsilon)
        logits = F.linear(x, self.weights.embedding).float()
        best, token = logits.max(dim=-1)
        return token, best - logits.logsumexp(dim=-1)

    def _read_prompts(self) -> Tensor:
        time = self.tokens.shape[1]
        window = self.shape.window
        turns = [
            (cosine[None, None, :time], sine[None, None, :time]) for cosine, sine in self.tables
        ]
        band = causal_band(time, window, self.rows.device) if window else None
        x = embed(self.tokens, self.weights.embedding, self.shape)
        for number, layer in enumerate(self.weights.layers):
            local = self.shape.is_local(number)
            q, k, v = project_qkv(x, layer, *turns[local], self.shape)
            self.keys[number][:, :, :time], self.values[number][:, :, :time] = k, v
            share = self.shape.heads // self.shape.kv_heads
            k, v = k.repeat_interleave(share, dim=1), v.repeat_interleave(share, dim=1)
            attended = F.scaled_dot_product_attention(
                q, k, v, attn_mask=band if local else None, is_causal=not local
            )
            x = finish_layer(x, attended, layer, self.shape)
        return x[self.rows, self.lengths - 1]

    def _step(self, token: Tensor, position: Tensor) -> Tensor:
        turns = [
            (cosine[position][:, None, None], sine[position][:, None, None])
            for cosine, sine in self.tables
        ]
        seen = self.slots <= position[:, None]
        masks = [seen, seen & (self.slots > position[:, None] - self.shape.window)]
        x = embed(token, self.weights.embedding, self.shape)[:, None]
        for number, layer in enumerate(self.weights.layers):
            local = self.shape.is_local(number)
            mask = masks[local][:, None, None]
            x = self._step_layer(x, number, layer, turns[local], position, mask)
        return x[:, 0]

    def _step_layer(
        self,
        x: Tensor,
        number: int,
        layer: LayerWeights,
        tables: tuple[Any, Any],
        position: Tensor,
        mask: Tensor,
    ) -> Tensor:
        q, k, v = project_qkv(x, layer, *tables, self.shape)
        keys, values = self.keys[number], self.values[number]
        keys[self.rows, :, position], values[self.rows, :, position] = k[:, :, 0], v[:, :, 0]
        # The heads that share one key stand as if they were times: no key is copied.
        grouped = q.view(len(self.rows), self.shape.kv_heads, -1, self.shape.head_width)
        attended = F.scaled_dot_product_attention(grouped, keys, values, attn_mask=mask)
        return finish_layer(x, attended.reshape(q.shape), layer, self.shape)


def _cut(tokens: list[int], logprobs: list[float], end: int) -> Answer:
    finished = end in tokens
    length = tokens.index(end) if finished else len(tokens)
    kept = [round(value, 4) for value in logprobs[: length + finished]]
    return Answer(tokens[:length], kept, finished)
