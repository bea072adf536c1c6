"""docs/reference/cli.md: its help texts are the commands' own, and its tables are true."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from edgewise.cli.chat import HELP
from edgewise.cli.main import command_helps

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "write_cli_help.py"
PAGE = ROOT / "docs" / "reference" / "cli.md"


@pytest.fixture
def writer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("write_cli_help", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_not_stale() -> None:
    ran = subprocess.run([sys.executable, SCRIPT, "--check"], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


def test_a_changed_help_makes_the_page_stale(writer: ModuleType) -> None:
    page = PAGE.read_text("utf-8")
    assert writer.renewed(page) == page
    older = page.replace("Never leaves the device.", "Stays here.", 1)
    assert older != page
    assert writer.renewed(older) == page


def test_a_command_that_is_not_on_the_page_is_noticed(writer: ModuleType) -> None:
    page = PAGE.read_text("utf-8").replace("<!-- help: edgewise pull -->", "")
    with pytest.raises(SystemExit, match="edgewise pull"):
        writer.renewed(page)


def test_every_command_has_its_heading() -> None:
    headings = re.findall(r"^## (.*)$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert {heading.lower() for heading in headings} >= command_helps().keys()


def test_the_commands_of_a_conversation_are_on_the_page() -> None:
    page = PAGE.read_text("utf-8")
    commands = re.findall(r"^/\w+", HELP, re.MULTILINE)
    assert len(commands) >= 6
    for command in commands:
        assert f"`{command}" in page
