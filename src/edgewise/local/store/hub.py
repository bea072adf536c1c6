"""Fetches weights from the Hugging Face Hub, and resumes an interrupted download.

The hub's own client finds the file, sends the user's login and reads the declared SHA-256. The loop
below fetches the bytes, not `hf_hub_download`: huggingface_hub 2 writes to a new temporary file
every time and deletes it on failure, so a broken download of a gigabyte would start again from
nothing."""

from __future__ import annotations

import contextlib
import hashlib
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgewise.errors import StoreError
from edgewise.local.store.catalogue import HubSource
from edgewise.local.store.verify import Progress, require_sha256, silent

if TYPE_CHECKING:
    import httpx2
    from huggingface_hub import HfFileMetadata


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
    from huggingface_hub import (  # noqa: PLC0415
        constants,
        get_hf_file_metadata,
        get_token,
        hf_hub_url,
    )

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
