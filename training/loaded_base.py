"""One base on the device, with its tokenizer and the rows of its data so far."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from training.base_tokenizer import build_tokenizer
from training.base_weights import GgufFile
from training.feed import rows_folder
from training.rows import Rows, concatenate, load_rows
from training.train import Machine

log = logging.getLogger("training")


class LoadedBase:
    """What all runs on a base share; dropped as a whole when the next run wants another."""

    def __init__(self, keep: Path, name: str, plan: Mapping[str, Any], rows: int) -> None:
        self.name, self._folder = name, rows_folder(keep, name)
        device = str(plan.get("device", "cuda" if torch.cuda.is_available() else "cpu"))
        length = int(plan["data"].get("length", 2048))
        compiled, begin = bool(plan.get("compile", True)), time.monotonic()
        self.machine = Machine(keep / name, device, rows, length, compiled=compiled)
        self.tokenizer = build_tokenizer(GgufFile(keep / name).metadata)
        self._pool: Rows | None = None
        self._read: set[str] = set()
        seconds = time.monotonic() - begin
        log.info("%s on torch %s, %s: ready after %.0f s", name, torch.__version__, device, seconds)

    def rows(self) -> Rows:
        """All rows that are finished by now."""
        paths = sorted(self._folder.glob("round-*.npz"))
        fresh = [path for path in paths if path.name not in self._read and _finished(path)]
        if fresh:
            parts = [load_rows(path) for path in fresh]
            self._pool = concatenate([self._pool, *parts] if self._pool else parts)
            self._read |= {path.name for path in fresh}
        if self._pool is None:
            raise ValueError("no training rows")
        return self._pool


def _finished(path: Path) -> bool:
    return path.with_name(f"round-{path.name.split('-')[1]}.done").exists()
