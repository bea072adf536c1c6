"""Shell completion: the script each shell gets, and the answers it gets back on <Tab>."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from edgewise.cli.main import command_helps
from tests.cli.conftest import SCRIPT, Run


def complete(line: str) -> list[str]:
    """What bash is told when <Tab> is pressed at the end of `line`."""
    words = line.split(" ")
    ran = subprocess.run(
        [SCRIPT],
        env={
            **os.environ,
            "_EDGEWISE_COMPLETE": "bash_complete",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(words) - 1),
        },
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout.splitlines()


def test_commands_are_completed() -> None:
    assert complete("edgewise ") == [f"plain,{name}" for name in sorted(command_helps())]
    assert complete("edgewise au") == ["plain,auth"]
    assert complete("edgewise auth s") == ["plain,set", "plain,status"]


@pytest.mark.parametrize(
    ("line", "answers"),
    [
        ("edgewise ask --pol", ["plain,--policy"]),
        ("edgewise ask --policy prefer_l", ["plain,prefer_local"]),
        ("edgewise auth set open", ["plain,openai", "plain,openrouter"]),
        ("edgewise pull qwen3-0", ["plain,qwen3-0.6b"]),
        ("edgewise pull sta", ["plain,standard"]),
        ("edgewise chat -m smollm2-135", ["plain,smollm2-135m-instruct"]),
        ("edgewise chat -m ./mine", ["file,./mine"]),
        ("edgewise completion f", ["plain,fish"]),
    ],
)
def test_options_and_their_values_are_completed(
    line: str, answers: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGEWISE_CACHE_DIR", str(tmp_path))  # whatever this machine has pulled
    assert complete(line) == answers


def test_completing_a_command_imports_none() -> None:
    program = (
        "import os, sys\n"
        "from edgewise.cli.main import main\n"
        "try:\n    main([])\n"
        "except SystemExit:\n    pass\n"
        "print([name for name in sys.modules if name.startswith(('rich', 'edgewise.cli.'))])"
    )
    env = {**os.environ, "_EDGEWISE_COMPLETE": "bash_complete"}
    env |= {"COMP_WORDS": "edgewise ", "COMP_CWORD": "1"}
    ran = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True)
    assert ran.stdout.splitlines()[-1] == "['edgewise.cli.streams', 'edgewise.cli.main']"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_its_script(run: Run, shell: str) -> None:
    ran = run("completion", shell)
    assert ran.code == 0
    assert "_EDGEWISE_COMPLETE" in ran.out
    assert run("completion", shell, "--json").json == {
        "shell": shell,
        "script": ran.out.removesuffix("\n"),
    }


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
def test_bash_itself_completes_with_the_script() -> None:
    program = (
        'eval "$(edgewise completion bash)"; COMP_WORDS=(edgewise ledg); COMP_CWORD=1; '
        '_edgewise_completion edgewise; echo "${COMPREPLY[@]}"'
    )
    path = f"{Path(SCRIPT).parent}{os.pathsep}{os.environ['PATH']}"
    ran = subprocess.run(
        ["bash", "-c", program], env={**os.environ, "PATH": path}, capture_output=True, text=True
    )
    assert ran.stdout == "ledger\n", ran.stderr


def test_an_unknown_shell_is_refused(run: Run) -> None:
    ran = run("completion", "tcsh")
    assert ran.code == 2
    assert "'bash', 'zsh', 'fish'" in ran.err
