"""Scripted models for deployed measurements: `parts = "edgewise_bench.scale.parts:…"`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from edgewise.testing import ScriptedBackend
from edgewise.testing.scripted import SCRIPTED_FACTS
from edgewise_bench.scale.scripted_server import InstantBackend

WORDS = " ".join(f"word{number}" for number in range(24))


def instant() -> dict[str, Any]:
    """An answer that is ready: what is measured is the way to it."""
    return {"backend": InstantBackend()}


def paced() -> dict[str, Any]:
    """An answer that takes about half a second, so that most kills hit one in the middle."""
    facts = replace(SCRIPTED_FACTS, slots=16)
    return {"backend": ScriptedBackend.confident(WORDS, facts=facts, delay_s=0.02)}
