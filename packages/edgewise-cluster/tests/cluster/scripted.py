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

# Three times as long as the gate holds one: a stream has begun long before it ends.
WORDS = " ".join(f"word{number}" for number in range(120))


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
    """An answer that takes twelve seconds, eight of them in words that are shown."""
    facts = replace(SCRIPTED_FACTS, slots=8)
    return {"backend": ScriptedBackend.confident(WORDS, facts=facts, delay_s=0.1)}
