"""The distributions beside edgewise: one version, entry points that load, the plan inside each."""

from __future__ import annotations

import ast
import importlib
import tomllib
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import edgewise
from edgewise import plugins
from tests.every import every

ROOT = Path(__file__).parents[1]
PACKAGES = sorted(path.parent for path in ROOT.glob("packages/*/src/*/__init__.py"))


def project(folder: Path) -> Any:
    return tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]


def modules(package: Path) -> dict[str, ast.Module]:
    found = {}
    for path in sorted(package.rglob("*.py")):
        name = ".".join(path.relative_to(package.parent).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = ast.parse(path.read_text("utf-8"))
    return found


def imports(tree: ast.Module, among: set[str]) -> set[str]:
    """Deferred imports included."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                deeper = f"{node.module}.{alias.name}"
                found.add(deeper if deeper in among else node.module)
    return found & among


@every(PACKAGES)
def test_there_is_no_import_cycle(package: Path) -> None:
    trees = modules(package)
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " → ".join((*path[path.index(name) :], name))
        if name not in done:
            for following in imports(trees[name], set(trees)) - {name}:
                visit(following, (*path, name))
            done.add(name)

    for name in trees:
        visit(name, ())


@every(PACKAGES)
def test_every_module_says_what_it_is_for(package: Path) -> None:
    silent = [name for name, tree in modules(package).items() if not ast.get_docstring(tree)]
    assert not silent


@every(PACKAGES)
def test_all_distributions_have_one_version(package: Path) -> None:
    assert importlib.import_module(package.name).__version__ == edgewise.__version__
    facts = project(package.parents[1])
    assert facts["name"] == package.parents[1].name == package.name.replace("_", "-")
    assert f"edgewise=={edgewise.__version__}" in facts["dependencies"]


@every(PACKAGES)
def test_no_distribution_imports_another(package: Path) -> None:
    others = {each.name for each in PACKAGES} - {package.name, "edgewise_bench"}
    if package.name == "edgewise_bench":
        return  # it measures all of them
    for name, tree in modules(package).items():
        roots = {
            str(node.module).partition(".")[0]
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
        }
        assert not roots & (others | {"edgewise_bench"}), name


@every(PACKAGES)
def test_every_entry_point_of_ours_loads(package: Path) -> None:
    for group, points in project(package.parents[1]).get("entry-points", {}).items():
        for name in points:
            (point,) = entry_points(group=group, name=name)
            assert point.load() is not None


def test_what_is_offered_without_its_distribution_is_what_it_brings() -> None:
    """Whoever lacks one is told the extra that brings it."""
    extras = project(ROOT)["optional-dependencies"]
    brought = {
        (group.removeprefix("edgewise."), name): folder.parents[1].name
        for folder in PACKAGES
        for group, points in project(folder.parents[1]).get("entry-points", {}).items()
        for name in points
    }
    told = {
        (str(group), name): distribution
        for group, names in plugins.OURS.items()
        for name, (extra, distribution) in names.items()
        if any(each.startswith(distribution) for each in extras[extra])
    }
    assert told | {("commands", "bench"): "edgewise-bench"} == brought


@every(project(ROOT)["optional-dependencies"].items())
def test_an_extra_brings_our_distributions_in_our_version(extra: tuple[str, list[str]]) -> None:
    for each in extra[1]:
        if each.startswith("edgewise-"):
            assert each.endswith(f"=={edgewise.__version__}")
