"""Makes sure the model is there before a command that needs it: fetched on first use."""

from __future__ import annotations

from edgewise.cli.render import console, download_bar, megabytes
from edgewise.errors import ModelNotFound, StoreError
from edgewise.local.model_directory import row_named
from edgewise.local.model_store import ModelStore
from edgewise.settings import Settings


def ensure_model(settings: Settings, policy: str | None = None) -> Settings:
    """Pull a known model that is missing, with a progress bar; the settings to go on with.

    One that cannot be had is not tried again in this command, and one that `policy` has no use
    for is not fetched at all. Raises ModelNotFound for a name nobody knows and for a file that is
    not there.
    """
    if (policy or settings.policy) == "cloud_only":
        return settings.with_changes(fetch_default_model=False)
    store = ModelStore(settings.models_dir)
    row = row_named(settings.model.strip().lower())
    try:
        store.find(settings.model)
        return settings
    except ModelNotFound:
        if row is None:
            raise
    if not settings.fetch_default_model:
        return settings
    side = console(stderr=True)
    side.say(f"Getting {row.name}, {megabytes(row.bytes)} (once; kept in the cache) …")
    try:
        with download_bar() as progress:
            store.pull(row.name, progress)
        return settings
    except StoreError as error:
        side.say(("No local model: ", "yellow"), str(error))
        return settings.with_changes(fetch_default_model=False)
