"""The examples run against a real server, as far as their packages are installed.

The development extra has those of OpenAI and Anthropic. For the rest EDGEWISE_EXAMPLES_PYTHON names
Pythons that have them, with the path separator between two (`make clients` makes both):

    python -m venv more
    more/bin/pip install openai anthropic langchain-openai 'pydantic-ai-slim[openai]' llm
    python -m venv other
    other/bin/pip install instructor
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from edgewise.testing import LoopbackCloud, ScriptedBackend, ScriptedEmbedder
from tests.server.conftest import Serving

EXAMPLES = Path(__file__).parents[2] / "examples"
# Read before tests clear the environment.
PYTHONS = (os.environ.get("EDGEWISE_EXAMPLES_PYTHON") or sys.executable).split(os.pathsep)
ANSWER = "Paris is the capital of France."
NEEDS = {
    "openai_client.py": "openai",
    "anthropic_client.py": "anthropic",
    "langchain_client.py": "langchain_openai",
    "pydantic_ai_client.py": "pydantic_ai",
}


def run(*command: str, **variables: str) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, env={**os.environ, **variables}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def python_with(package: str) -> str:
    """The first of the Pythons that has a package."""
    for python in PYTHONS:
        if not subprocess.run([python, "-c", f"import {package}"], capture_output=True).returncode:
            return python
    pytest.skip(f"{package} is not installed (see EDGEWISE_EXAMPLES_PYTHON in {__name__})")


@pytest.mark.parametrize("name", NEEDS)
def test_an_example_runs(serving: Serving, name: str) -> None:
    python = python_with(NEEDS[name])
    served = serving(embedder=ScriptedEmbedder())
    said = run(python, str(EXAMPLES / name), served.url)
    assert ANSWER in said and "  by " in said


def test_the_example_of_the_quick_start_asks_the_address_that_it_is_given(
    serving: Serving,
) -> None:
    served = serving(embedder=ScriptedEmbedder())
    address = {"OPENAI_BASE_URL": f"{served.url}/v1", "OPENAI_API_KEY": "any"}
    python = python_with("openai")
    assert ANSWER in run(python, str(EXAMPLES / "openai_client.py"), **address)


def test_the_bare_requests_run(serving: Serving) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    said = run("sh", str(EXAMPLES / "curl.sh"), serving().url)
    assert "x-edgewise-source: local" in said and "data: [DONE]" in said and '"auto"' in said


def test_the_plugin_for_llm_asks_the_server(
    serving: Serving, cloud: LoopbackCloud, tmp_path: Path
) -> None:
    python = python_with("llm")
    # The same words a second time would be in doubt.
    served = serving(ScriptedBackend.confident(ANSWER, ANSWER, "So is this."))
    folder = str(EXAMPLES / "llm-edgewise")
    script = (
        "import llm, llm_edgewise\n"
        f"llm.get_key = lambda **given: {served.url!r} if 'url' in given['alias'] else ''\n"
        "model = llm_edgewise.Edgewise('edgewise', 'auto')\n"
        "answer = model.prompt('What is the capital of France?', policy='local_only')\n"
        "print(answer.text(), answer.response_json['edgewise']['decision']['code'])\n"
        "talk = model.conversation()\n"
        "talk.prompt('One?').text(); print(talk.prompt('Two?', system='Be brief.').text())\n"
    )
    said = run(python, "-c", script, PYTHONPATH=folder, LLM_USER_PATH=str(tmp_path))
    assert said.splitlines() == [f"{ANSWER} policy_local_only", "So is this."]
    assert not cloud.requests


def test_every_example_is_listed_and_tested() -> None:
    words = (EXAMPLES / "README.md").read_text("utf-8")
    for path in EXAMPLES.iterdir():
        assert path.name == "README.md" or f"({path.name})" in words
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(NEEDS)
