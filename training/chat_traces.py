"""Let a chat model answer many questions at once, and keep its evidence and hidden states.

    python -m training.chat_traces --model MODEL.gguf --rows MODEL.rows.jsonl.gz --out FOLDER

The weights are those of the GGUF file, dequantised; the rows come from `training.chat_prompts` and
hold the tokens of the whole prompt, so nothing but torch and numpy is needed. Greedy. Everything is
float32 (TF32 on a GPU); bfloat16 is too coarse to answer as llama.cpp does.

A state is the residual stream that enters a layer, read where a token enters the model:
  before   at the last token of the prompt, when nothing has been answered yet
  mean     the mean over the answer's tokens, without the end token and without a last one that
           was cut off
  early    that mean after 1, 4 and 8 tokens, of one layer
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F

from training.base_weights import EMBEDDING, READ_OUT, GgufFile, ModelShape, read_shape
from training.model import (
    LayerWeights,
    Tensor,
    embed,
    finish_layer,
    halves_first,
    normalise,
    project_qkv,
    rotary_tables,
)
from training.trace_files import EARLY, pack_states, read_rows

LONGEST_ANSWER = 64
ALTERNATIVES = 5  # the entropy is that of the five best and one for the rest, as llama.cpp gives
LAYERS_OF_28 = (12, 15, 17, 19, 21, 24)
GUESS = 3  # the place of 19 among them: the best of a model with 28 layers
TOKENS_AT_ONCE = 400_000  # prompts and room for answers of one batch
LOOK_EVERY = 8
EVIDENCE = ("logprobs", "margins", "entropies")


class ChatModel(NamedTuple):
    """All weights as float32. Unlike the trainer's, words come in and go out by two matrices."""

    embedding: Tensor
    read_out: Tensor
    layers: list[LayerWeights]
    output_norm: Tensor


def watched_layers(layers: int) -> tuple[int, ...]:
    """The layers whose input is kept: for 28 of them 12, 15, 17, 19, 21 and 24."""
    return tuple(round(layer * layers / 28) for layer in LAYERS_OF_28)


def load_model(file: GgufFile, device: str) -> tuple[ChatModel, ModelShape]:
    shape = read_shape(file)

    def tensor(name: str) -> Tensor:
        return torch.from_numpy(file.tensor(name)).to(device)

    def layer(number: int) -> LayerWeights:
        def named(name: str) -> Tensor:
            return tensor(f"blk.{number}.{name}")

        def turned(name: str) -> Tensor:
            found = named(name)
            if not shape.turns_neighbours:
                return found
            rows = halves_first(found.reshape(1, len(found), -1), shape.head_width)
            return rows.reshape(found.shape)

        q, k = turned("attn_q.weight"), turned("attn_k.weight")
        biases = (
            [turned("attn_q.bias"), turned("attn_k.bias"), named("attn_v.bias")]
            if shape.biased
            else None
        )
        return LayerWeights(
            attention_norm=named("attn_norm.weight"),
            qkv=torch.cat([q, k, named("attn_v.weight")]),
            output=named("attn_output.weight"),
            feed_forward_norm=named("ffn_norm.weight"),
            gate_up=torch.cat([named("ffn_gate.weight"), named("ffn_up.weight")]),
            down=named("ffn_down.weight"),
            qkv_bias=torch.cat(biases) if biases else None,
        )

    embedding = tensor(EMBEDDING)
    read_out = tensor(READ_OUT) if READ_OUT in file.entries else embedding
    layers = [layer(number) for number in range(shape.layers)]
    return ChatModel(embedding, read_out, layers, tensor("output_norm.weight")), shape


def answer(
    model: ChatModel,
    shape: ModelShape,
    prompts: Sequence[Sequence[int]],
    ends: Sequence[int],
    *,
    batch: int = 512,
    longest: int = LONGEST_ANSWER,
) -> dict[str, Any]:
    """Arrays in the order of the prompts; prompts of similar length share a batch."""
    order = sorted(range(len(prompts)), key=lambda number: len(prompts[number]))
    parts: list[dict[str, Any]] = []
    numbers: list[int] = []
    begin = time.monotonic()
    with torch.inference_mode():
        left = order
        while left:
            widest = len(prompts[left[min(batch, len(left)) - 1]]) + longest
            members = left[: max(1, min(batch, TOKENS_AT_ONCE // widest))]
            left = left[len(members) :]
            running = _Batch(model, shape, [prompts[number] for number in members], longest)
            parts.append(running.run(ends))
            numbers += members
            sys.stdout.write(f"{len(numbers)}/{len(order)} {time.monotonic() - begin:.0f} s\n")
            sys.stdout.flush()
    back = np.argsort(numbers)
    return {name: np.concatenate([part[name] for part in parts])[back] for name in parts[0]}


class _Batch:
    """Prompts side by side, padded on the right: causal attention never sees the padding."""

    def __init__(
        self, model: ChatModel, shape: ModelShape, prompts: list[Sequence[int]], longest: int
    ) -> None:
        self.model, self.shape, self.longest = model, shape, longest
        self.watched = watched_layers(shape.layers)
        device = model.embedding.device
        self.lengths = torch.tensor([len(prompt) for prompt in prompts], device=device)
        widest = max(len(prompt) for prompt in prompts)
        tokens = torch.zeros(len(prompts), widest, dtype=torch.long)
        for row, prompt in enumerate(prompts):
            tokens[row, : len(prompt)] = torch.tensor(prompt)
        self.tokens = tokens.to(device)
        self.room = -(-(widest + longest) // 8) * 8
        size = (len(prompts), shape.kv_heads, self.room, shape.head_width)
        self.keys = [torch.zeros(size, device=device) for _ in model.layers]
        self.values = [torch.zeros(size, device=device) for _ in model.layers]
        self.cosine, self.sine = rotary_tables(shape, self.room, device)[0]
        self.rows = torch.arange(len(prompts), device=device)
        self.slots = torch.arange(self.room, device=device)

    def run(self, ends: Sequence[int]) -> dict[str, Any]:
        hidden, before = self._read_prompts()
        total, early = torch.zeros_like(before), []
        count = torch.zeros(len(self.rows), device=hidden.device)
        alive = torch.ones(len(self.rows), dtype=torch.bool, device=hidden.device)
        stops = torch.tensor(list(ends), device=hidden.device)
        columns: list[Tensor] = []  # token, log-probability, margin, entropy of each step
        lengths = torch.zeros_like(self.lengths)
        for step in range(self.longest):
            token, *evidence = self._choose(hidden)
            alive = alive & ~torch.isin(token, stops)
            lengths += alive
            columns.append(torch.stack([token.double(), *(each.double() for each in evidence)]))
            if step % LOOK_EVERY == LOOK_EVERY - 1 and not bool(alive.any()):
                break
            if step + 1 < self.longest:
                hidden, states = self._step(token, self.lengths + step)
                total += states * alive[:, None, None]
                count += alive
            if step + 1 in EARLY:
                early.append(total[:, GUESS] / count.clamp(min=1)[:, None])
        mean = total / count.clamp(min=1)[:, None, None]
        while len(early) < len(EARLY):  # all had ended before
            early.append(mean[:, GUESS])
        steps = torch.stack(columns, 2).cpu().numpy()
        padded = np.zeros((4, len(self.rows), self.longest))
        padded[:, :, : steps.shape[2]] = steps
        return {
            "tokens": padded[0].astype(np.int32),
            "logprobs": padded[1].astype(np.float32),
            "margins": padded[2].astype(np.float32),
            "entropies": padded[3].astype(np.float32),
            "lengths": lengths.cpu().numpy().astype(np.int32),
            "ended": (~alive).cpu().numpy(),
            "before": before.cpu().numpy(),
            "mean": mean.cpu().numpy(),
            "early": torch.stack(early, 1).cpu().numpy(),
        }

    def _choose(self, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The best token, its log-probability, the margin, and the entropy as edgewise has it."""
        x = normalise(hidden, self.model.output_norm, self.shape.norm_epsilon)
        logits = F.linear(x, self.model.read_out)
        best, tokens = logits.topk(ALTERNATIVES, dim=-1)
        logs = (best - logits.logsumexp(dim=-1, keepdim=True)).double()
        chances = logs.exp()
        rest = 1.0 - chances.sum(dim=-1)
        entropy = -(chances * logs).sum(dim=-1)
        entropy = entropy - torch.where(rest > 1e-9, rest * rest.clamp(min=1e-12).log(), 0.0)
        return tokens[:, 0], logs[:, 0], logs[:, 0] - logs[:, 1], entropy

    def _read_prompts(self) -> tuple[Tensor, Tensor]:
        time_, share = self.tokens.shape[1], self.shape.heads // self.shape.kv_heads
        cosine, sine = self.cosine[None, None, :time_], self.sine[None, None, :time_]
        x = embed(self.tokens, self.model.embedding, self.shape)
        states = []
        for number, layer in enumerate(self.model.layers):
            if number in self.watched:
                states.append(x[self.rows, self.lengths - 1])
            q, k, v = project_qkv(x, layer, cosine, sine, self.shape)
            self.keys[number][:, :, :time_], self.values[number][:, :, :time_] = k, v
            k, v = k.repeat_interleave(share, dim=1), v.repeat_interleave(share, dim=1)
            attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = finish_layer(x, attended, layer, self.shape)
        return x[self.rows, self.lengths - 1], torch.stack(states, 1)

    def _step(self, token: Tensor, position: Tensor) -> tuple[Tensor, Tensor]:
        cosine, sine = self.cosine[position][:, None, None], self.sine[position][:, None, None]
        mask = (self.slots <= position[:, None])[:, None, None]
        x = embed(token, self.model.embedding, self.shape)[:, None]
        states = []
        for number, layer in enumerate(self.model.layers):
            if number in self.watched:
                states.append(x[:, 0])
            q, k, v = project_qkv(x, layer, cosine, sine, self.shape)
            keys, values = self.keys[number], self.values[number]
            keys[self.rows, :, position], values[self.rows, :, position] = k[:, :, 0], v[:, :, 0]
            # The heads that share one key stand as if they were times: no key is copied.
            grouped = q.view(len(self.rows), self.shape.kv_heads, -1, self.shape.head_width)
            attended = F.scaled_dot_product_attention(grouped, keys, values, attn_mask=mask)
            x = finish_layer(x, attended.reshape(q.shape), layer, self.shape)
        return x[:, 0], torch.stack(states, 1)


def end_tokens(metadata: Mapping[str, Any]) -> list[int]:
    """What ends an answer: the file's own end tokens, and the marks of a turn and of a text."""
    tokens = metadata["tokenizer.ggml.tokens"]
    named = {"<|im_end|>", "<|endoftext|>"}
    ends = {number for number, token in enumerate(tokens) if token in named}
    keys = ("tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id")
    return sorted(ends | {int(metadata[key]) for key in keys if key in metadata})


def token_bytes(metadata: Mapping[str, Any]) -> list[bytes]:
    """What each token of a byte-level vocabulary spells."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    spelt = {chr(byte): byte for byte in plain}
    spelt |= {chr(256 + place): byte for place, byte in enumerate(others)}
    return [
        bytes(spelt[letter] for letter in token)
        if all(letter in spelt for letter in token)
        else token.encode()
        for token in metadata["tokenizer.ggml.tokens"]
    ]


def trace(
    model_path: Path, rows_path: Path, out: Path, *, device: str, batch: int, longest: int
) -> None:
    """Answer all rows. The folder `out` appears only when all of it is there."""
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True
    file = GgufFile(model_path)
    model, shape = load_model(file, device)
    prompts = [row["tokens"] for row in read_rows(rows_path)]
    found = answer(model, shape, prompts, end_tokens(file.metadata), batch=batch, longest=longest)
    layers = watched_layers(shape.layers)
    spelt = token_bytes(file.metadata)
    answers = [
        [spelt[token] for token in tokens[:length]]
        for tokens, length in zip(found["tokens"], found["lengths"], strict=True)
    ]
    pieces = [[piece.decode("utf-8", "replace") for piece in each] for each in answers]
    texts = [b"".join(each).decode("utf-8", "replace") for each in answers]
    folder = out.with_name(f".{out.name}")
    folder.mkdir(parents=True, exist_ok=True)
    evidence = {name: found[name] for name in ("tokens", "lengths", "ended", *EVIDENCE)}
    evidence |= {"pieces": json.dumps(pieces), "texts": json.dumps(texts)}
    np.savez_compressed(folder / "answers.npz", **evidence)
    for place, layer in enumerate(layers):
        for name in ("before", "mean"):
            np.savez(folder / f"{name}-{layer}.npz", **pack_states(found[name][:, place]))
    for place, count in enumerate(EARLY):
        packed = pack_states(found["early"][:, place])
        np.savez(folder / f"early{count}-{layers[GUESS]}.npz", **packed)
    os.replace(folder, out)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--rows", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--longest", type=int, default=LONGEST_ANSWER, help="tokens of an answer")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args(arguments)
    if options.out.exists():
        sys.stdout.write(f"{options.out.name} is there already\n")
        return 0
    trace(
        options.model,
        options.rows,
        options.out,
        device=options.device,
        batch=options.batch,
        longest=options.longest,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
