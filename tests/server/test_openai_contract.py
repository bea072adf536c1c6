"""OpenAI's client, in every version that is to be had, gets what it expects.

The installed version always; the major before it where EDGEWISE_OLD_OPENAI names a Python that
has it, as old/bin/python after: python -m venv old && old/bin/pip install 'openai<3'
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from edgewise.testing import (
    ScriptedBackend,
    ScriptedEmbedder,
    ScriptedFunctionModel,
    ScriptedTranscriber,
)
from edgewise.testing.scripted import SCRIPTED_FACTS
from tests.server.conftest import Serving

SCRIPT = Path(__file__).with_name("openai_contract.py")
OLD = os.environ.get("EDGEWISE_OLD_OPENAI", "")  # read before tests clear the environment
PYTHONS = [sys.executable, *([str(Path(OLD).absolute())] if OLD else [])]


@pytest.mark.parametrize("python", PYTHONS, ids=["installed", "old"][: len(PYTHONS)])
def test_the_official_client_gets_what_it_expects(serving: Serving, python: str) -> None:
    served = serving(
        ScriptedBackend.confident('{"city": "Paris"}', facts=replace(SCRIPTED_FACTS, schemas=True)),
        function_model=ScriptedFunctionModel(['set_timer {"minutes":5}']),
        transcriber=ScriptedTranscriber([[]]),
        embedder=ScriptedEmbedder(),
    )
    done = subprocess.run(
        [python, str(SCRIPT), served.url], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "all good" in done.stdout
