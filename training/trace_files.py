"""What the files of chat traces hold; read and written with numpy alone."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np

EARLY = (1, 4, 8)  # tokens after which the mean state is kept, too
CLIP, STEPS = 8.0, 15.0  # a packed state: fifteenths of a deviation, up to eight deviations


def read_rows(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def pack_states(states: Any) -> dict[str, Any]:
    """Each number as its distance from the mean in deviations, clipped, in a byte."""
    wide = states.astype(np.float32)
    centre, spread = wide.mean(axis=0), wide.std(axis=0)
    spread = np.where(spread > 1e-6, spread, 1.0).astype(np.float32)
    steps = np.clip((wide - centre) / spread, -CLIP, CLIP) * STEPS
    return {"z": np.rint(steps).astype(np.int8), "centre": centre, "spread": spread}
