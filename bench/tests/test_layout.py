"""The plan of edgewise-bench: no import cycle, docstrings, one version with edgewise."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest

import edgewise
import edgewise_bench

SOURCE = Path(edgewise_bench.__file__).parent
MODULES = {
    ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(SOURCE.rglob("*.py"))
}


def imports(module: str) -> set[str]:
    """Modules of this distribution that this one imports, deferred imports included."""
    found = set()
    for node in ast.walk(ast.parse(MODULES[module].read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                deeper = f"{node.module}.{alias.name}"
                found.add(deeper if deeper in MODULES else node.module)
    return found & MODULES.keys() - {module}


def test_there_is_no_import_cycle() -> None:
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " → ".join((*path[path.index(name) :], name))
        if name not in done:
            for following in imports(name):
                visit(following, (*path, name))
            done.add(name)

    for name in MODULES:
        visit(name, ())


@pytest.mark.parametrize("module", MODULES)
def test_every_module_says_what_it_is_for(module: str) -> None:
    assert ast.get_docstring(ast.parse(MODULES[module].read_text("utf-8"))), module


def test_both_distributions_have_the_same_version() -> None:
    assert edgewise_bench.__version__ == edgewise.__version__
    project = tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text("utf-8"))["project"]
    assert f"edgewise=={edgewise.__version__}" in project["dependencies"]
