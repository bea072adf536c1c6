"""Makes sure the model is there before a command that needs it: fetched on first use."""

from __future__ import annotations

from edgewise.cli.render import console, download_bar, megabytes
from edgewise.errors import ModelNotFound, StoreError
from edgewise.local.model_directory import row_named
from edgewise.local.model_store import ModelStore
from edgewise.settings import Settings


def ensure_model(settings: Settings) -> bool:
    """Pull a known model that is missing. False when it cannot be had; the cloud still may.

    Raises ModelNotFound for a name nobody knows and for a file that is not there.
    """
    store = ModelStore(settings.models_dir)
    row = row_named(settings.model.strip().lower())
    try:
        store.find(settings.model)
        return True
    except ModelNotFound:
        if row is None:
            raise
    side = console(stderr=True)
    side.say(f"Getting {row.name}, {megabytes(row.bytes)} (once; kept in the cache) …")
    try:
        with download_bar() as progress:
            store.pull(row.name, progress)
        return True
    except StoreError as error:
        side.say(("No local model: ", "yellow"), str(error))
        return False
