"""What `make dist` looks into: nothing runs at an installation, and two builds have one hash."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import tarfile
import zipfile
from pathlib import Path

import pytest
from scripts import distributions

ROOT = Path(__file__).parents[1]
METADATA = """Metadata-Version: 2.4
Name: edgewise
Version: 0.7.0
License-Expression: Apache-2.0
Requires-Dist: click>=8.1
Requires-Dist: pillow>=11; extra == 'vision'
Requires-Dist: Pillow>=11; extra == 'speech'
"""


def wheel(
    folder: Path, more: dict[str, str] | None = None, told: dict[str, str] | None = None
) -> Path:
    """A wheel of ours with these files besides; `told` is what its RECORD says instead."""
    files = {"edgewise/__init__.py": "", "edgewise-0.7.0.dist-info/METADATA": METADATA}
    files |= more or {}
    record = "edgewise-0.7.0.dist-info/RECORD"
    lines = [f"{name},{digest(text)}," for name, text in {**files, **(told or {})}.items()]
    folder.mkdir(exist_ok=True)
    path = folder / "edgewise-0.7.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in {**files, record: "\n".join([*lines, f"{record},,"])}.items():
            archive.writestr(zipfile.ZipInfo(name), text)
    return path


def digest(text: str) -> str:
    found = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest())
    return "sha256=" + found.decode().rstrip("=")


def sdist(folder: Path, **files: str) -> Path:
    path = folder / "edgewise-0.7.0.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(f"edgewise-0.7.0/{name}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return path


@pytest.mark.parametrize(
    "name",
    ["edgewise.pth", "sitecustomize.py", "edgewise-0.7.0.data/scripts/go", "other/__init__.py"],
)
def test_what_would_run_or_lie_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    assert not [*distributions.look_into(wheel(tmp_path))]
    (wrong,) = distributions.look_into(wheel(tmp_path, {name: "import os"}))
    assert name in wrong


def test_a_file_that_is_not_what_the_record_says_is_refused(tmp_path: Path) -> None:
    changed = wheel(tmp_path, told={"edgewise/__init__.py": "import os"})
    assert "not what RECORD says" in " ".join(distributions.look_into(changed))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("setup.py", ""),
        ("pyproject.toml", '[build-system]\nbuild-backend = "own"\nbackend-path = ["."]'),
        (
            "pyproject.toml",
            '[build-system]\nbuild-backend = "hatchling.build"\n'
            "[tool.hatch.build.targets.wheel.hooks.custom]",
        ),
    ],
)
def test_an_sdist_that_is_built_by_its_own_code_is_refused(
    tmp_path: Path, name: str, text: str
) -> None:
    assert [*distributions.look_into(sdist(tmp_path, **{name: text}))]


def test_ours_are_built_by_no_code_of_their_own(tmp_path: Path) -> None:
    projects = [ROOT / "pyproject.toml", *ROOT.glob("packages/*/pyproject.toml")]
    assert len(projects) == 4
    for project in projects:
        made = sdist(tmp_path, **{"pyproject.toml": project.read_text("utf-8")})
        assert [*distributions.look_into(made)] == [], project


def test_two_builds_that_differ_are_told(tmp_path: Path) -> None:
    wheel(tmp_path / "one")
    wheel(tmp_path / "other")
    assert not [*distributions.compare(tmp_path / "one", tmp_path / "other")]
    wheel(tmp_path / "other", {"edgewise/new.py": ""})
    (wrong,) = distributions.compare(tmp_path / "one", tmp_path / "other")
    assert "two builds, two hashes" in wrong
    assert [*distributions.compare(tmp_path / "one", tmp_path / "none")]
    assert [*distributions.compare(tmp_path / "none", tmp_path / "none")]


def test_the_sbom_names_what_is_required_and_what_is_optional(tmp_path: Path) -> None:
    made = wheel(tmp_path)
    told = distributions.sbom(made, 0)
    assert told == distributions.sbom(made, 0), "the same twice"
    assert told["metadata"]["component"]["hashes"][0]["content"] == distributions.sha256(made)
    parts = {each["name"].lower(): each for each in told["components"]}
    assert (parts["click"]["scope"], parts["pillow"]["scope"]) == ("required", "optional")
    assert len(parts["pillow"]["properties"]) == 2
    assert told["dependencies"][0]["dependsOn"] == ["pkg:pypi/click", "pkg:pypi/pillow"]


def test_the_statement_names_every_file_by_its_hash_and_the_commit(tmp_path: Path) -> None:
    made = wheel(tmp_path)
    told = json.loads(json.dumps(distributions.provenance([made], "abc")))
    assert told["subject"] == [
        {"name": made.name, "digest": {"sha256": distributions.sha256(made)}}
    ]
    source = told["predicate"]["buildDefinition"]["resolvedDependencies"][0]
    assert source["digest"] == {"gitCommit": "abc"}
