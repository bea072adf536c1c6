"""The extras of an installation: read from metadata, with the line that adds one to it."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from edgewise import extras
from edgewise.errors import ExtraMissing
from tests.cli import conftest as command_line
from tests.cli.conftest import Run

run = command_line.run


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


def test_the_line_names_the_distributions_beside_the_one_it_came_from(came_from: Any) -> None:
    """None of them is on an index under the version of a clone."""
    assert extras.install_command("postgres") == "python -m pip install 'edgewise[postgres]'"
    came_from(url="file:///home/me/clone", dir_info={"editable": True})
    assert extras.install_command("postgres") == (
        "python -m pip install -e '/home/me/clone[postgres]'"
        " -e /home/me/clone/packages/edgewise-cluster"
    )
    came_from(url="https://host.example/e.git", vcs_info={"vcs": "git", "commit_id": "0" * 40})
    assert extras.install_command("postgres").endswith(
        " 'edgewise-cluster @ git+https://host.example/e.git#subdirectory=packages/edgewise-cluster'"
    )


def test_an_extra_lacks_what_our_distribution_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    assert extras.lacking("postgres") == []
    here = extras._is_met
    monkeypatch.setattr(extras, "_is_met", lambda each: each.name != "psycopg" and here(each))
    (lacks,) = extras.lacking("postgres")
    assert lacks.startswith("psycopg")


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
    page = (Path(__file__).parents[1] / "docs" / "guide" / "install.md").read_text("utf-8")
    assert list(extras.FACTS) == extras.extra_names(), "every extra that is for users, and no other"
    for name, facts in extras.FACTS.items():
        assert f"| `{name}` | {facts.purpose} | {facts.megabytes} MB |" in page, json.dumps(name)


# -- the line works in this very installation ------------------------------------------------------


WAYS = {
    "an index": ({}, "", "", "edgewise[onnx]", "edgewise-bench"),
    "a clone": (
        {"url": "file:///c", "dir_info": {}},
        "",
        "",
        "/c[onnx]' /c/packages/edgewise-engines",
        "/c/packages/edgewise-bench",
    ),
    "an editable clone": (
        {"url": "file:///c", "dir_info": {"editable": True}},
        "",
        "-e ",
        "/c[onnx]' -e /c/packages/edgewise-engines",
        "/c/packages/edgewise-bench",
    ),
    "a repository": (
        {"url": "https://h/e.git", "vcs_info": {"vcs": "git", "commit_id": "0" * 40}},
        "",
        "",
        "edgewise[onnx] @ git+https://h/e.git' 'edgewise-engines @ git+https://h/e.git"
        "#subdirectory=packages/edgewise-engines'",
        "edgewise-bench @ git+https://h/e.git#subdirectory=packages/edgewise-bench",
    ),
    "a wheel": (
        {"url": "file:///w/edgewise-0.7.0-py3-none-any.whl", "archive_info": {}},
        "--find-links /w ",
        "",
        "/w/edgewise-0.7.0-py3-none-any.whl[onnx]",
        "edgewise-bench",
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_each_way_to_install_has_its_line(came_from: Any, way: str) -> None:
    origin, links, editable, extra, bench = WAYS[way]
    came_from(**origin)
    begin = f"python -m pip install {links}{editable}"
    assert extras.install_command("onnx").replace("'", "") == f"{begin}{extra}".replace("'", "")
    line = extras.package_command("edgewise-bench")
    assert line.replace("'", "") == f"{begin}{bench}"


@pytest.mark.parametrize(
    ("receipt", "bench", "other", "mend"),
    [
        (
            "uv-receipt.toml",
            "uv tool install '/c[server]' --with /c/packages/edgewise-bench",
            "uv tool install '/c[server]' --with bfcl-eval",
            "uv tool install --reinstall '/c[server]'",
        ),
        (
            "pipx_metadata.json",
            "pipx inject edgewise /c/packages/edgewise-bench",
            "pipx inject edgewise bfcl-eval",
            "pipx reinstall edgewise",
        ),
    ],
)
def test_what_goes_beside_it_goes_through_the_same_program(
    came_from: Any,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    receipt: str,
    bench: str,
    other: str,
    mend: str,
) -> None:
    came_from(url="file:///c", dir_info={})
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    (tmp_path / receipt).touch()
    monkeypatch.setattr(extras, "lacking", lambda name: [] if name == "server" else ["something"])
    assert extras.package_command("edgewise-bench") == bench
    assert extras.pip_command("--no-deps", "bfcl-eval") == other, "neither knows pip's options"
    assert extras.mend_command() == mend


def test_an_extra_that_is_missing_is_told_with_that_line(came_from: Any) -> None:
    came_from(url="file:///c", dir_info={})
    assert str(ExtraMissing("mcp", "mcp")) == (
        "mcp is not installed: it comes with python -m pip install '/c[mcp]' (4 MB)"
    )


HINT = re.compile(r"pip install [^`\n]*edgewise|(uv tool|pipx) (install|inject)[^`\n]*edgewise")
ROOT = Path(__file__).parents[1]


def test_nobody_else_writes_such_a_line() -> None:
    """In code, a line that names edgewise is made where it is known how it was installed. In
    pages it names the clone: no index has edgewise."""
    for folder in ("src", "packages"):
        for path in (ROOT / folder).rglob("*"):
            ours = path.suffix in (".py", ".js", ".html") and "tests" not in path.parts
            if ours and path.name != "extras.py":
                assert not HINT.search(path.read_text("utf-8")), path
    on_an_index = re.compile(
        r"(pip|uv tool|pipx|uv pip) (install|inject) [\"']?edgewise(-|\[|[\"' ])"
    )
    pages = (*ROOT.glob("docs/guide/*.md"), *ROOT.glob("docs/reference/*.md"))
    for path in (*pages, *ROOT.glob("packages/*/README.md"), ROOT / "README.md"):
        assert not on_an_index.search(path.read_text("utf-8")), path
