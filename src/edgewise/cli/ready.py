"""Makes sure the default model is there before a command that needs it: fetched on first use."""

from __future__ import annotations

from pathlib import Path

from edgewise.cli.render import console, download_bar
from edgewise.errors import ModelNotFound, StoreError
from edgewise.local.model_store import ModelStore
from edgewise.settings import Settings


def ensure_model(settings: Settings, *, quiet: bool = False) -> bool:
    """Pull a known model that is missing. False when it cannot be had; the cloud still may."""
    store = ModelStore(settings.models_dir)
    try:
        store.find(settings.model)
        return True
    except ModelNotFound:
        if Path(settings.model).suffix == ".gguf":
            raise
    screen = console(stderr=True)
    if not quiet:
        screen.print(f"Getting {settings.model} (once; kept in the cache) …")
    try:
        with download_bar() as progress:
            store.pull(settings.model, progress)
        return True
    except StoreError as error:
        screen.print(f"[yellow]No local model:[/yellow] {error}")
        return False
