"""The extras of an installation: read from metadata, with the line that adds one to it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from edgewise.cli import extras
from tests.cli.conftest import Run


@pytest.fixture
def came_from(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Pretend that the package was installed from somewhere."""

    def pretend(**direct_url: object) -> None:
        monkeypatch.setattr(extras, "_direct_url", lambda: direct_url)

    pretend()
    monkeypatch.setattr(extras, "python", lambda words: f"python {words}")
    return pretend


def test_the_line_names_the_package_or_the_folder_it_came_from(came_from: Any) -> None:
    assert extras.install_command("mcp") == "python -m pip install 'edgewise[mcp]'"
    came_from(url="file:///home/me/my%20clone", dir_info={"editable": True})
    assert extras.install_command("mcp") == "python -m pip install -e '/home/me/my clone[mcp]'"
    came_from(url="file:///home/me/clone", dir_info={})
    assert extras.install_command("mcp") == "python -m pip install '/home/me/clone[mcp]'"
    came_from(
        url="https://host.example/edgewise.git", vcs_info={"vcs": "git", "commit_id": "0" * 40}
    )
    assert extras.install_command("mcp") == (
        "python -m pip install 'edgewise[mcp] @ git+https://host.example/edgewise.git'"
    )


def test_uv_and_pipx_get_their_own_line(
    came_from: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    line = f"uv pip install --python {sys.executable} 'edgewise[mcp]'"
    assert extras.install_command("mcp") == line, "no pip in the environment"
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    (tmp_path / "uv-receipt.toml").touch()
    # Both install afresh, so the line names what is here already.
    monkeypatch.setattr(extras, "lacking", lambda name: [] if name == "server" else ["something"])
    assert extras.install_command("mcp") == "uv tool install 'edgewise[mcp,server]'"
    (tmp_path / "uv-receipt.toml").rename(tmp_path / "pipx_metadata.json")
    assert extras.install_command("mcp") == "pipx install --force 'edgewise[mcp,server]'"


def test_a_command_without_its_extra_says_the_line_that_works_here(
    came_from: Any, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    ran = run("listen")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.splitlines()[-1] == (
        "edgewise: sounddevice is not installed: it comes with "
        "python -m pip install 'edgewise[microphone]' (1 MB) [missing_extra]"
    )


def test_the_size_of_an_extra_leaves_out_what_the_bare_package_needs_anyway() -> None:
    """numpy belongs to `embed`, but gguf brings it to everybody."""
    assert "numpy" in set(extras._closure("edgewise", "embed"))
    assert "numpy" in set(extras._closure("edgewise"))
    both = extras.installed_size("embed", "speech")
    assert 0 < extras.installed_size("embed") < both
    assert both < extras.installed_size("embed") + extras.installed_size("speech"), "they share"


def test_the_page_of_extras_has_the_figures_of_the_code() -> None:
    page = (Path(__file__).parents[2] / "docs" / "extras.md").read_text("utf-8")
    assert list(extras.FACTS) == extras.extra_names(), "every extra that is for users, and no other"
    for name, facts in extras.FACTS.items():
        assert f"| `{name}` | {facts.purpose} | {facts.megabytes} MB |" in page, json.dumps(name)
