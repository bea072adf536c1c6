"""The other engines that a model can run on, and how a GGUF file becomes what each of them loads.

`NAME@onnx` is the model NAME on ONNX Runtime. What was made for it lies in a folder of that name,
with its own manifest. It is made anew when the weights or the engine's release are others.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import importlib.metadata
import importlib.util
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgewise.errors import ExtraMissing, ModelNotFound
from edgewise.local.store.verify import Manifest, Progress, flush, sha256_of, write_manifest

_ENGINE = re.compile(r"[a-z0-9_-]+")
OWN = "own"  # the quantisation of a file that the user brought


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine that opens models of the store. Its file is `edgewise.local.engines.<name>`.

    package   the distribution whose release made a conversion
    needs     what must be importable to convert; all of it comes with the extra `name`
    revision  counts when the conversion itself changes: then models are converted anew
    converts  False: it loads the GGUF file as it is
    takes     what its own files end with, if `pull --from` takes one instead of converting
    """

    name: str
    title: str
    package: str
    needs: tuple[str, ...]
    revision: int = 1
    converts: bool = True
    takes: str = ""

    @property
    def made_with(self) -> str:
        """Engine and release, as a manifest records it; empty if it is not installed."""
        try:
            release = importlib.metadata.version(self.package)
        except importlib.metadata.PackageNotFoundError:
            return ""
        return f"{self.package} {release}, conversion {self.revision}"

    def require(self) -> None:
        """Raises ExtraMissing with the command that installs what is missing."""
        for module in self.needs:
            if importlib.util.find_spec(module) is None:
                raise ExtraMissing(self.name, module)


ENGINES: Mapping[str, Engine] = {
    engine.name: engine
    for engine in (
        Engine(
            "onnx",
            "ONNX Runtime",
            "onnxruntime",
            ("onnxruntime", "onnx", "tokenizers", "llguidance"),
        ),
        Engine("openvino", "OpenVINO", "openvino", ("openvino", "tokenizers", "llguidance")),
        Engine(
            "executorch",
            "ExecuTorch",
            "executorch",
            ("executorch", "torch", "tokenizers", "llguidance"),
            takes=".pte",
        ),
        Engine("geniex", "GenieX", "geniex", (), converts=False),
        Engine("cactus", "Cactus", "cactus", (), converts=False),
    )
}


def split_engine(name: str) -> tuple[str, str]:
    """A model and its engine: `tiny@onnx` is `tiny` on `onnx`. Without one the engine is empty.

    A path may hold an @ itself: only what follows the last one counts, and only if it is a word.
    """
    base, at, engine = name.rpartition("@")
    if not at or not base or not _ENGINE.fullmatch(engine):
        return name, ""
    return base, engine


def engine_named(name: str) -> Engine:
    """Raises ModelNotFound with the nearest name."""
    if name not in ENGINES:
        near = difflib.get_close_matches(name, ENGINES, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(ENGINES)}"
        raise ModelNotFound(f"there is no engine named {name!r}; {hint}")
    return ENGINES[name]


def taking_engines() -> list[Engine]:
    """Those that take a user's own file with `pull --from`."""
    return [engine for engine in ENGINES.values() if engine.takes]


def runtime_of(engine: str) -> dict[str, str]:
    """The package that runs a model, and its release; without an engine that is llama.cpp."""
    package = ENGINES[engine].package if engine else "xllamacpp"
    try:
        return {package: importlib.metadata.version(package)}
    except importlib.metadata.PackageNotFoundError:
        return {package: ""}


def how_to_convert(base: str, engine: str) -> str:
    return f"run `edgewise pull {base} --engine {engine}`"


def convert_model(
    engine: Engine,
    source: Path,
    manifest: Callable[..., Manifest],
    partial: Path,
    progress: Progress,
    *,
    quantisation: str,
    given: Path | None = None,
) -> Path:
    """Work inside `partial` and return the finished folder in it; if it fails, nothing is left.

    `manifest` makes the record from what is known here. `given` is what the engine loads, made by
    the user: it is checked and copied, and nothing is converted.
    """
    module = importlib.import_module(f"edgewise.local.engines.{engine.name}")
    vocabulary = importlib.import_module("edgewise.local.engines.vocabulary")
    ready = partial / "ready"
    shutil.rmtree(ready, ignore_errors=True)
    ready.mkdir(parents=True)
    try:
        made = {} if given is None else {"given": given}
        file = ready / module.convert(source, ready, progress, **made)
        vocabulary.write_vocabulary(source, ready)
        named = getattr(module, "quantisation", None)
        after = named(source, quantisation) if named else quantisation
        if given is not None:  # nobody knows how it was rounded: no calibration of ours fits it
            after = OWN
        others = sorted(each for each in ready.iterdir() if each != file)
        for each in (file, *others):
            flush(each)
        record = manifest(
            file=file.name,
            quantisation=after,
            bytes=0,
            modified_ns=0,
            sha256=sha256_of(file, progress),
            beside={each.name: sha256_of(each, progress) for each in others},
            converted_with=engine.made_with,
            same_bits=bool(named) and after == quantisation,
        )
        write_manifest(ready, record.seen(file))
    except BaseException:
        with contextlib.suppress(OSError):
            shutil.rmtree(partial)
        raise
    return ready


def stored_name(path: Path) -> str:
    """What a user's own file is called in the store."""
    return re.sub(r"[^a-z0-9._-]+", "-", path.stem.lower()).strip("-._")


def facts_of_file(path: Path) -> dict[str, Any]:
    """By these a user's own file is known again."""
    status = path.stat()
    where = str(path.absolute())
    return {"path": where, "bytes": status.st_size, "modified_ns": status.st_mtime_ns}


def file_changed(facts: Mapping[str, Any]) -> bool:
    """Whether the user's file is another one now. One that is gone is not."""
    path = Path(str(facts.get("path", "")))
    with contextlib.suppress(OSError):
        return "path" in facts and path.is_file() and facts_of_file(path) != dict(facts)
    return False
