"""What `make dist` made, looked into: `python -m scripts.distributions dist`.

Two builds must be the same bytes, and an installation must run no code of ours. Beside the files it
writes what is in them (an SBOM in the form of CycloneDX for each distribution) and what they were
built from (one statement in the form of in-toto and SLSA). The statement is not signed: whoever
builds the same commit gets the same hashes, which is what it says.
"""

from __future__ import annotations

import base64
import csv
import datetime
import email
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import uuid
import zipfile
from collections.abc import Iterator, Sequence
from email.message import Message
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

TOOLS = ("build", "hatchling", "twine")


def compare(one: Path, other: Path) -> Iterator[str]:
    """How two builds differ."""
    names = sorted({each.name for folder in (one, other) for each in _files(folder)})
    if not names:
        yield f"there is nothing in {one}"
    for name in names:
        first, second = one / name, other / name
        if not (first.is_file() and second.is_file()):
            yield f"{name}: only one of two builds has it"
        elif sha256(first) != sha256(second):
            yield f"{name}: two builds, two hashes"


def look_into(file: Path) -> Iterator[str]:
    """What would run at an installation or at the start of Python, or is not what it says."""
    if file.suffix == ".whl":
        yield from _look_into_wheel(file)
    else:
        yield from _look_into_sdist(file)


def _look_into_wheel(file: Path) -> Iterator[str]:
    with zipfile.ZipFile(file) as wheel:
        names = [each for each in wheel.namelist() if not each.endswith("/")]
        record = next(each for each in names if each.endswith(".dist-info/RECORD"))
        told = {name: digest for name, digest, _ in csv.reader(io.StringIO(_text(wheel, record)))}
        for name in names:
            top = name.partition("/")[0]
            if name.endswith(".pth") or name in ("sitecustomize.py", "usercustomize.py"):
                yield f"{file.name}: {name} would run at every start of Python"
            elif top.endswith(".data") or not (
                top.endswith(".dist-info") or top.startswith("edgewise")
            ):
                yield f"{file.name}: {name} would be put elsewhere"
            elif name != record and told.get(name) != _as_recorded(wheel.read(name)):
                yield f"{file.name}: {name} is not what RECORD says"


def _look_into_sdist(file: Path) -> Iterator[str]:
    with tarfile.open(file) as archive:
        for name in archive.getnames():
            top = name.partition("/")[2]
            if name.endswith(".pth") or top in ("setup.py", "setup.cfg"):
                yield f"{file.name}: {name} would run"
            if top == "pyproject.toml":
                found = archive.extractfile(name)
                assert found is not None
                yield from _look_into_project(file.name, tomllib.loads(found.read().decode()))


def _look_into_project(name: str, project: dict[str, Any]) -> Iterator[str]:
    system, tool = project["build-system"], project.get("tool", {}).get("hatch", {})
    if system["build-backend"] != "hatchling.build" or system.get("backend-path"):
        yield f"{name}: it is built by code of its own"
    if "hooks" in json.dumps(tool.get("build", {})) or tool.get("metadata", {}).get("hooks"):
        yield f"{name}: it has a hook, which is code that runs at a build"


def sbom(file: Path, seconds: int) -> dict[str, Any]:
    """What a wheel brings, in the form of CycloneDX: the distribution, and what it requires."""
    told = _metadata(file)
    named = f"pkg:pypi/{told['Name']}@{told['Version']}"
    required = [Requirement(each) for each in told.get_all("Requires-Dist") or ()]
    parts = {_purl(each): _component(each, required) for each in required}
    seed = uuid.uuid5(uuid.NAMESPACE_URL, f"{named}#{sha256(file)}")
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{seed}",
        "version": 1,
        "metadata": {
            "timestamp": _utc(seconds),
            "component": {
                "type": "library",
                "bom-ref": named,
                "name": told["Name"],
                "version": told["Version"],
                "purl": named,
                "licenses": [{"expression": told["License-Expression"]}],
                "hashes": [{"alg": "SHA-256", "content": sha256(file)}],
            },
        },
        "components": [parts[name] for name in sorted(parts)],
        "dependencies": [{"ref": named, "dependsOn": sorted(parts)}],
    }


def _component(wanted: Requirement, required: Sequence[Requirement]) -> dict[str, Any]:
    same = [each for each in required if _purl(each) == _purl(wanted)]
    needed = any("extra" not in str(each.marker or "") for each in same)
    return {
        "type": "library",
        "bom-ref": _purl(wanted),
        "name": wanted.name,
        "purl": _purl(wanted),
        "scope": "required" if needed else "optional",
        "properties": [
            {"name": "edgewise:requires", "value": value} for value in sorted({*map(str, same)})
        ],
    }


def provenance(files: Sequence[Path], commit: str) -> dict[str, Any]:
    """What was built from what, by which tools."""
    tools = [{"uri": f"pkg:pypi/{name}@{version}"} for name in TOOLS if (version := _version(name))]
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": each.name, "digest": {"sha256": sha256(each)}} for each in files],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "urn:edgewise:make-dist",
                "externalParameters": {"command": "make dist"},
                "resolvedDependencies": [
                    {"uri": "urn:edgewise:source", "digest": {"gitCommit": commit}},
                    *tools,
                ],
            },
            "runDetails": {"builder": {"id": "urn:edgewise:make-dist"}},
        },
    }


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _files(folder: Path) -> list[Path]:
    return sorted((*folder.glob("*.whl"), *folder.glob("*.tar.gz")))


def _metadata(file: Path) -> Message:
    with zipfile.ZipFile(file) as wheel:
        (name,) = (each for each in wheel.namelist() if each.endswith(".dist-info/METADATA"))
        return email.message_from_string(_text(wheel, name))


def _text(wheel: zipfile.ZipFile, name: str) -> str:
    return wheel.read(name).decode("utf-8")


def _as_recorded(data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
    return f"sha256={digest}"


def _purl(wanted: Requirement) -> str:
    return "pkg:pypi/" + re.sub(r"[-_.]+", "-", wanted.name).lower()


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:  # built in an environment of its own
        return ""


def _utc(seconds: int) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], check=True, capture_output=True, text=True).stdout


def main(folder: Path) -> int:
    files = _files(folder)
    wrong = [*compare(folder, folder / "again")]
    wrong += [problem for file in files for problem in look_into(file)]
    if wrong:
        sys.stderr.write("\n".join([*wrong, ""]))
        return 1
    # As the builds have it, so that what is written beside them is the same twice, too.
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH") or _git("log", "-1", "--format=%ct"))  # noqa: TID251
    for file in files:
        if file.suffix == ".whl":
            name = "-".join(file.name.split("-")[:2])
            _write(folder / f"{name}.cdx.json", sbom(file, seconds))
    _write(folder / "provenance.json", provenance(files, _git("rev-parse", "HEAD").strip()))
    for file in files:
        sys.stdout.write(f"{sha256(file)}  {file.name}\n")
    return 0


def _write(file: Path, value: dict[str, Any]) -> None:
    file.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n", "utf-8")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
