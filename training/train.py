"""Train one run: packed rows in, loss on the answers' tokens only, parameters out.

python -m training.train --base base.gguf --rows ROWS --out DIR --settings '{"name": "a"}'
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from training.adapter import Base, Trainable
from training.attention import MakeMask, RunLayer, choose
from training.base_weights import GgufFile, read_shape, read_weights
from training.model import Tensor, Weights, document_positions, embed, normalise, rotary_tables
from training.rows import ANSWER, DIGIT, VALUE, Rows, concatenate, load_rows
from training.run_settings import RunSettings
from training.save_run import save_run, served_weights

log = logging.getLogger("training")

LOG_EVERY = 10


@dataclass(frozen=True, slots=True)
class Batch:
    tokens: Tensor  # [rows, time]
    documents: Tensor  # [rows, time], rising along a row
    before: Tensor  # flat positions whose next token is an answer's
    targets: Tensor  # those tokens
    weights: Tensor  # and what each counts


@dataclass(frozen=True, slots=True)
class Leader:
    """The weights whose chances are followed, and for which share of the loss."""

    weights: Weights
    share: float


class Machine:
    """A device with the parts that all runs on it share: base, compiled layer, rotary tables."""

    def __init__(self, base_path: Path, device: str, rows: int, time_: int, compiled: bool) -> None:
        file = GgufFile(base_path)
        self.device = torch.device(device)
        self.shape = read_shape(file)
        self.base = Base(read_weights(file), self.shape, self.device)
        self.dtype = torch.bfloat16 if self.device.type == "cuda" else torch.float32
        self.tables = rotary_tables(self.shape, time_, self.device)
        pair = choose(self.shape, self.device, rows, time_, compiled=compiled)
        self.make_mask: MakeMask = pair[0]
        self.run_layer: RunLayer = pair[1]

    def hidden(self, weights: Weights, tokens: Tensor, documents: Tensor) -> Tensor:
        """The last layer's output, before the final norm: [rows, time, width]."""
        positions = document_positions(documents)
        turns = [
            (cosine[positions][:, None], sine[positions][:, None]) for cosine, sine in self.tables
        ]
        masks = [
            self.make_mask(documents, window) for window in (0, self.shape.window)[: len(turns)]
        ]
        x = embed(tokens, weights.embedding, self.shape)
        if torch.is_grad_enabled() and not x.requires_grad:
            x.requires_grad_()  # else the first layer alone would be compiled a second time
        for number, layer in enumerate(weights.layers):
            local = self.shape.is_local(number)
            x = self.run_layer(x, layer, *turns[local], masks[local])
        return x

    def loss(self, weights: Weights, batch: Batch, leader: Leader | None = None) -> Tensor:
        logits = self.logits(weights, batch)
        losses = F.cross_entropy(logits, batch.targets, reduction="none")
        if leader is not None:
            with torch.no_grad():
                wanted = self.logits(leader.weights, batch).log_softmax(-1)
            apart = F.kl_div(logits.log_softmax(-1), wanted, reduction="none", log_target=True)
            losses = leader.share * apart.sum(-1) + (1 - leader.share) * losses
        return (losses * batch.weights).sum() / batch.weights.sum()

    def logits(self, weights: Weights, batch: Batch) -> Tensor:
        x = self.hidden(weights, batch.tokens, batch.documents)
        # Only these positions are read out: the vocabulary is a fifth of all arithmetic.
        x = x.flatten(0, 1).index_select(0, batch.before)
        x = normalise(x, weights.output_norm, self.shape.norm_epsilon)
        return F.linear(x, weights.embedding).float()


def make_batch(rows: Rows, chosen: Any, settings: RunSettings, device: Any) -> Batch:
    """Indices are found on the CPU, so that no step waits for the device."""
    tokens = rows.tokens[chosen].astype(np.int64)
    flags = rows.flags[chosen]
    is_target = (flags & ANSWER).astype(bool)
    is_target[:, 0] = False
    positions = np.flatnonzero(is_target)
    marks = flags.reshape(-1)[positions]
    weights = np.where(marks & VALUE, settings.value_weight, 1.0)
    weights = weights * np.where(marks & DIGIT, settings.digit_weight, 1.0)
    arrays = (
        tokens,
        rows.documents[chosen].astype(np.int32),
        positions - 1,
        tokens.reshape(-1)[positions],
        weights.astype(np.float32),
    )
    return Batch(*(_send(array, device) for array in arrays))


def _send(array: Any, device: Any) -> Tensor:
    tensor = torch.from_numpy(array)
    if device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def row_order(count: int, per_step: int, seed: int) -> Iterator[Any]:
    """Rows for step after step, each epoch in another order."""
    generator = np.random.default_rng(seed)
    while True:
        order = generator.permutation(count)
        for begin in range(0, max(count - per_step, 0) + 1, per_step):
            chosen = order[begin : begin + per_step]
            if len(chosen) < per_step:  # fewer rows than one step takes: a test's data
                chosen = np.resize(order, per_step)
            yield chosen


def rate_at(progress: float, settings: RunSettings) -> float:
    """Linear warm-up, then a cosine down to `final_rate`; as a share of the learning rate."""
    if progress < settings.warmup:
        return max(progress, 0.01 * settings.warmup) / settings.warmup
    along = min(1.0, (progress - settings.warmup) / (1 - settings.warmup))
    return settings.final_rate + (1 - settings.final_rate) * 0.5 * (1 + math.cos(math.pi * along))


@dataclass(slots=True)
class Outcome:
    trainable: Trainable
    losses: list[tuple[int, float]]
    steps: int
    tokens: int
    seconds: float
    status: str


Now = Callable[[], float]


def train(
    machine: Machine, rows: Rows, settings: RunSettings, now: Now = time.monotonic
) -> Outcome:
    """Run until the tokens or the seconds are used up; the schedule follows the nearer end."""
    trainable = Trainable(machine.base, settings)
    leader = _leader(machine, settings)
    parameters = list(trainable.parameters.values())
    optimiser = torch.optim.AdamW(
        parameters,
        lr=settings.learning_rate,
        betas=(0.9, settings.beta2),
        weight_decay=settings.weight_decay,
        fused=machine.device.type == "cuda",
    )
    begin, step, progress = now(), 0, 0.0
    first = begin  # the first steps may compile; the clock of the schedule starts after them
    per_step = settings.rows * rows.tokens.shape[1]
    losses: list[tuple[int, float]] = []
    status = "finished"
    for chosen in row_order(len(rows), settings.rows, settings.seed):
        batch = make_batch(rows, chosen, settings, machine.device)
        for group in optimiser.param_groups:
            group["lr"] = settings.learning_rate * rate_at(progress, settings)
        loss = machine.loss(trainable.weights(machine.dtype), batch, leader)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, settings.clip)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        step += 1
        if step % LOG_EVERY == 1:
            value = float(loss.detach())  # waits for the device
            losses.append((step, round(value, 5)))
            _report(settings, step, per_step, value, now() - begin)
            if not math.isfinite(value):
                status = "diverged"
                break
        if step == 1:
            first = now()
        spent = now() - first
        progress = max(step * per_step / settings.tokens, spent / settings.seconds)
        if progress >= 1:
            break
    if machine.device.type == "cuda":
        torch.cuda.synchronize()
    return Outcome(trainable, losses, step, step * per_step, round(now() - begin, 1), status)


def _leader(machine: Machine, settings: RunSettings) -> Leader | None:
    """The start itself, unrounded: a mean of seeds knows more than the data teach again."""
    if not settings.follow_start:
        return None
    with torch.no_grad():
        weights = served_weights(machine.base, Path(settings.start), "none", machine.dtype)
    return Leader(weights, settings.follow_start)


def _report(settings: RunSettings, step: int, per_step: int, loss: float, seconds: float) -> None:
    if step % (10 * LOG_EVERY) == 1 or step == 1 + LOG_EVERY:
        rate = step * per_step / max(seconds, 1e-9)
        log.info(
            "%s: step %d, loss %.4f, %.0f tokens/s, %.0f s",
            settings.name,
            step,
            loss,
            rate,
            seconds,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--rows", type=Path, required=True, help="folder of .npz files")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--settings", type=json.loads, required=True)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(message)s")
    settings = RunSettings.of(options.settings)
    rows = concatenate([load_rows(path) for path in sorted(options.rows.glob("*.npz"))])
    length = rows.tokens.shape[1]
    machine = Machine(options.base, options.device, settings.rows, length, compiled=True)
    outcome = train(machine, rows, settings)
    options.out.mkdir(parents=True, exist_ok=True)
    save_run(options.out / f"{settings.name}.gguf", outcome.trainable)


if __name__ == "__main__":
    main()
