"""A folder of pulled models that take no room, and scripted runtimes that open them by name."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from edgewise import parts
from edgewise.local.store import ModelStore
from edgewise.settings import Settings
from edgewise.testing import ScriptedBackend
from edgewise.testing.scripted import SCRIPTED_FACTS


def pull(root: Path, name: str, *, quantisation: str = "Q4_K_M", size: int = 10) -> None:
    """As if `edgewise pull` had put it there; `size` bytes of weights."""
    folder = root / name
    folder.mkdir(parents=True)
    weights = folder / "model.gguf"
    weights.write_bytes(b"x" * size)
    manifest = {
        "format": 1,
        "name": name,
        "file": weights.name,
        "bytes": size,
        "sha256": hashlib.sha256(weights.read_bytes()).hexdigest(),
        "quantisation": quantisation,
        "modified_ns": weights.stat().st_mtime_ns,
        "source": {},
        "source_sha256": "",
        "vouched_by": "edgewise",
        "beside": {},
        "converted_with": None,
    }
    (folder / "manifest.json").write_text(json.dumps(manifest), "utf-8")
    assert ModelStore(root).find(name).name == name


class Opened:
    """What opens models here: every one says its own name. `backends` are all that were opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.backends: list[ScriptedBackend] = []
        monkeypatch.setattr(parts, "open_backend", self._open)

    def _open(self, settings: Settings) -> ScriptedBackend:
        found = ModelStore(settings.models_dir).find(settings.model)
        facts = replace(
            SCRIPTED_FACTS,
            backend="llama_cpp",  # the runtime that the shipped calibrations are for
            model=found.name,
            quantisation=found.quantisation,
        )
        self.backends.append(ScriptedBackend.confident(f"I am {found.name}.", facts=facts))
        return self.backends[-1]

    def named(self, name: str) -> list[ScriptedBackend]:
        return [each for each in self.backends if each.facts().model == name]
