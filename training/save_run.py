"""From trained parameters to an adapter file, and from the file to the weights a user will run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from training.adapter import GROUPS, NORMS, OUTPUT_NORM, Base, Trainable, fake_quantise, kinds_of
from training.base_weights import EMBEDDING, GgufFile
from training.dequantise import Floats
from training.export import write_adapter
from training.model import Tensor, Weights


def save_run(path: Path, trainable: Trainable, kind: str | None = None) -> int:
    """Write the adapter; returns its size in bytes."""
    settings = trainable.settings
    low_rank: dict[str, tuple[Floats, Floats]] = {}
    with torch.no_grad():
        for group in GROUPS:
            thin = (
                trainable.thin(group) if settings.method == "lora" else _closest(trainable, group)
            )
            # What was trained through its own rounding would be rounded otherwise once balanced.
            pairs = _as_they_are(*thin) if settings.round_adapter else balance(*thin)
            for layer, pair in enumerate(pairs):
                low_rank[f"blk.{layer}.{group}.weight"] = pair
        if settings.embedding_rank:
            low_rank[EMBEDDING] = balance(*trainable.thin("embedding"))[0]
        deltas = _norm_deltas(trainable)
    notes = {"settings": json.dumps(settings.notes())}
    kind, architecture = kind or settings.export_kind, trainable.base.shape.architecture
    return write_adapter(path, low_rank, kind, notes, deltas, architecture)


def balance(a: Tensor, b: Tensor) -> list[tuple[Floats, Floats]]:
    """The same products B·A with orthonormal columns in B and the sizes in A, largest first.

    Blocks of A lie within one component and adapt to its size; blocks of B run across components,
    so these must be of one size or the small ones are rounded away.
    """
    q_b, r_b = torch.linalg.qr(b.double())
    q_a, r_a = torch.linalg.qr(a.double().transpose(1, 2))
    left, sizes, right = torch.linalg.svd(r_b @ r_a.transpose(1, 2))
    new_a = (sizes[:, :, None] * right) @ q_a.transpose(1, 2)
    new_b = q_b @ left
    return list(zip(_plain(new_a), _plain(new_b), strict=True))


def _as_they_are(a: Tensor, b: Tensor) -> list[tuple[Floats, Floats]]:
    return list(zip(_plain(a), _plain(b), strict=True))


def _plain(stack: Tensor) -> list[Floats]:
    return list(stack.float().cpu().numpy())


def _closest(trainable: Trainable, group: str) -> tuple[Tensor, Tensor]:
    """The best (A, B) of the export's rank for each layer's full difference.

    One side of every matrix has the model's width or less; the eigenvectors of that side's square
    are found faster than the whole decomposition.
    """
    difference = (trainable.whole(group) - trainable.base.stacks[group]).double()
    wide = difference.shape[1] > difference.shape[2]
    tall = difference if wide else difference.transpose(1, 2)  # [layers, long, short]
    rank = trainable.settings.export_rank
    _, vectors = torch.linalg.eigh(tall.transpose(1, 2) @ tall)
    basis = vectors[:, :, -rank:]  # [layers, short, rank], orthonormal
    other = tall @ basis  # [layers, long, rank]
    if wide:
        return basis.transpose(1, 2), other
    return other.transpose(1, 2), basis


def _norm_deltas(trainable: Trainable) -> dict[str, Floats]:
    if not trainable.settings.norms:
        return {}
    deltas: dict[str, Floats] = {
        OUTPUT_NORM: trainable.parameters["output_norm"].detach().cpu().numpy()
    }
    for name in NORMS:
        for layer, delta in enumerate(trainable.parameters[name].detach().cpu().numpy()):
            deltas[f"blk.{layer}.{name}.weight"] = delta
    return deltas


def served_weights(base: Base, adapter: Path | None, served: str, dtype: Any) -> Weights:
    """The base with the written adapter merged in and rounded as users will have it."""
    file = GgufFile(adapter) if adapter else None
    stacks: dict[str, Tensor] = {}
    kinds = kinds_of(served)
    for group in GROUPS:
        names = [f"blk.{layer}.{group}.weight" for layer in range(base.shape.layers)]
        whole = base.stacks[group] + _read_differences(base, file, names)
        stacks[group] = fake_quantise(whole, kinds[group])
    for norm in NORMS:
        names = [f"blk.{layer}.{norm}.weight" for layer in range(base.shape.layers)]
        stacks[norm] = base.stacks[norm] + _read_differences(base, file, names)
    embedding = base.embedding + _read_differences(base, file, [EMBEDDING])
    if served != "none":
        embedding = fake_quantise(embedding, "Q8_0")
    output_norm = base.output_norm + _read_differences(base, file, [OUTPUT_NORM])
    return base.assemble(stacks, embedding.squeeze(0), output_norm.squeeze(0), dtype)


def _read_differences(base: Base, file: GgufFile | None, names: list[str]) -> Tensor:
    """Stacked over `names`; a plain zero where the file has nothing for them."""
    if file is None:
        return torch.zeros(1, device=base.device)
    if f"{names[0]}.delta" in file.entries:
        deltas = [torch.from_numpy(file.tensor(f"{name}.delta")) for name in names]
        return torch.stack(deltas).to(base.device)
    if f"{names[0]}.lora_a" not in file.entries:
        return torch.zeros(1, device=base.device)
    alpha = float(file.metadata["adapter.lora.alpha"])
    products = []
    for name in names:
        a = torch.from_numpy(file.tensor(f"{name}.lora_a")).to(base.device)
        b = torch.from_numpy(file.tensor(f"{name}.lora_b")).to(base.device)
        products.append((b @ a) * (alpha / a.shape[0]))
    return torch.stack(products)
