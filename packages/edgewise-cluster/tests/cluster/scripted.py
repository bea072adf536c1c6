"""The engine's parts for deployed tests: scripted models, made anew in every replica."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from edgewise.testing import (
    ScriptedBackend,
    ScriptedEmbedder,
    ScriptedFunctionModel,
    ScriptedTranscriber,
)
from edgewise.testing.scripted import SCRIPTED_FACTS

WORDS = " ".join(f"word{number}" for number in range(40))


def contract() -> dict[str, Any]:
    """What `tests/server/openai_contract.py` expects of the models."""
    facts = replace(SCRIPTED_FACTS, schemas=True, slots=4)
    return {
        "backend": ScriptedBackend.confident('{"city": "Paris"}', facts=facts),
        "function_model": ScriptedFunctionModel(['set_timer {"minutes":5}']),
        "transcriber": ScriptedTranscriber([[]]),
        "embedder": ScriptedEmbedder(),
    }


def slow() -> dict[str, Any]:
    """An answer of forty words that takes some seconds."""
    facts = replace(SCRIPTED_FACTS, slots=8)
    return {"backend": ScriptedBackend.confident(WORDS, facts=facts, delay_s=0.2)}
