"""What `edgewise.testing` promises to its users."""

from __future__ import annotations

import doctest
import subprocess
import sys

import edgewise.testing


def test_the_example_in_the_docstring_runs() -> None:
    results = doctest.testmod(edgewise.testing)
    assert results.attempted > 5
    assert results.failed == 0


def test_the_public_names_are_these() -> None:
    assert edgewise.testing.__all__ == [
        "Answer",
        "Cut",
        "Empty",
        "Fault",
        "LoopbackCloud",
        "Malformed",
        "Recorded",
        "Reply",
        "Scripted",
        "ScriptedBackend",
        "ScriptedEmbedder",
        "ScriptedFunctionModel",
        "ScriptedTranscriber",
        "ScriptedVoice",
        "SeenRequest",
        "Silence",
        "Status",
        "black_hole",
        "heard",
        "refused_url",
        "unresolvable_url",
        "word_tokens",
    ]
    assert all(hasattr(edgewise.testing, name) for name in edgewise.testing.__all__)


def test_importing_it_loads_no_sdk_no_runtime_and_no_numpy() -> None:
    heavy = {"openai", "anthropic", "google.genai", "httpx2", "numpy", "xllamacpp"}
    script = f"import sys, edgewise.testing; print(sorted({heavy!r} & set(sys.modules)))"
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "[]"
