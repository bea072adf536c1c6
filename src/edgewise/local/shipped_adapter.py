"""Find an adapter that was installed with edgewise, and refuse one that was changed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

from edgewise.errors import StoreError
from edgewise.local.checksum import sha256_of
from edgewise.local.model_row import Adapter

_MEND = "install it again: `pip install --force-reinstall --no-deps edgewise`"


@contextlib.contextmanager
def shipped_adapter(adapter: Adapter) -> Iterator[Path]:
    """The adapter as a file, verified. It lies beside the code, so no network is needed."""
    try:
        found = resources.files(adapter.package) / adapter.file
    except ModuleNotFoundError as error:
        raise StoreError(_missing(adapter)) from error
    if not found.is_file():
        raise StoreError(_missing(adapter))
    with resources.as_file(found) as path:  # also out of a zip
        digest = sha256_of(path)
        if digest != adapter.sha256:
            raise StoreError(
                f"the adapter {adapter.file} of this installation of edgewise is damaged, or from "
                f"another release: SHA-256 {digest}, not {adapter.sha256}; {_MEND}"
            )
        yield path


def _missing(adapter: Adapter) -> str:
    return f"this installation of edgewise lacks the adapter {adapter.file}; {_MEND}"
