"""Average several adapters of one base into one of a smaller rank.

    python -m training.soup --rank 64 --kind Q4_0 --out caller.gguf seed1.gguf seed2.gguf seed3.gguf

Runs that differ only by their seed make different mistakes; the mean of their differences from
the base makes fewer, above all on tools of another manner than the training's (README.md). The
mean of three rank-64 differences has rank 192; the best approximation of a lower rank is written.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from training.base_weights import GgufFile
from training.dequantise import Floats
from training.export import write_adapter

Pair = tuple[Floats, Floats]


def mean_pair(files: Sequence[GgufFile], name: str) -> Pair:
    """(A, B) with B·A the mean of the files' differences for one weight."""
    lows, highs = [], []
    for file in files:
        a, b = file.tensor(f"{name}.lora_a"), file.tensor(f"{name}.lora_b")
        scale = float(file.metadata["adapter.lora.alpha"]) / a.shape[0] / len(files)
        lows.append(a * scale)
        highs.append(b)
    return np.concatenate(lows), np.concatenate(highs, axis=1)


def reduce_rank(pair: Pair, rank: int) -> tuple[Pair, float]:
    """The closest pair of this rank, and the share of the squares it keeps.

    B has orthonormal columns and A the sizes, largest first, as `save_run.balance` leaves them.
    """
    a, b = (matrix.astype(np.float64) for matrix in pair)
    q_b, r_b = np.linalg.qr(b)
    q_a, r_a = np.linalg.qr(a.T)
    left, sizes, right = np.linalg.svd(r_b @ r_a.T)
    kept = float((sizes[:rank] ** 2).sum() / max(float((sizes**2).sum()), 1e-300))
    new_a = (sizes[:rank, None] * right[:rank]) @ q_a.T
    new_b = q_b @ left[:, :rank]
    return (new_a.astype(np.float32), new_b.astype(np.float32)), kept


def soup(paths: Sequence[Path], out: Path, rank: int, kind: str) -> tuple[int, float]:
    """Write the averaged adapter; returns its bytes and the mean share that was kept."""
    files = [GgufFile(path) for path in paths]
    names = [name[:-7] for name in files[0].entries if name.endswith(".lora_a")]
    reduced: dict[str, Pair] = {}
    shares = []
    for name in names:
        reduced[name], kept = reduce_rank(mean_pair(files, name), rank)
        shares.append(kept)
    architecture = files[0].metadata["general.architecture"]
    if any(file.metadata["general.architecture"] != architecture for file in files):
        raise ValueError("the adapters belong to different bases")
    size = write_adapter(out, reduced, kind, {}, architecture=architecture)
    return size, sum(shares) / len(shares)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("adapters", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rank", type=int, default=64)
    parser.add_argument("--kind", default="Q4_0", help="Q4_0, Q8_0 or F32")
    options = parser.parse_args(arguments)
    size, kept = soup(options.adapters, options.out, options.rank, options.kind)
    sys.stdout.write(f"{options.out.name}: {size:,} bytes, {kept:.3f} of the squares kept\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
