"""Providers' keys: in the operating system's keyring, or in a file only the user can read.

An index file says which providers have a key and where it lies, so that the keyring (which may
ask the user for a password) is opened only for a key that is really there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from edgewise.errors import SettingsError

Place = Literal["keyring", "file"]
SERVICE = "edgewise"


class Credentials:
    """Keys by provider name. Nothing here ever prints or logs one."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "keys.json"

    def places(self) -> dict[str, Place]:
        """Which providers have a stored key, and where; never the keys."""
        return {name: entry["in"] for name, entry in self._read().items()}

    def get(self, name: str) -> str:
        """The stored key, or an empty string."""
        entry = self._read().get(name)
        if entry is None:
            return ""
        if entry["in"] == "file":
            return str(entry["key"])
        return _from_keyring(name)

    def set(self, name: str, key: str, *, prefer: Place = "keyring") -> Place:
        """Store a key; says where it went. The file is used where there is no keyring."""
        if not key.strip():
            raise SettingsError(f"the key for {name} is empty")
        place: Place = "keyring" if prefer == "keyring" and _to_keyring(name, key) else "file"
        entries = self._read()
        entries[name] = {"in": place} if place == "keyring" else {"in": place, "key": key}
        self._write(entries)
        return place

    def remove(self, name: str) -> bool:
        entries = self._read()
        entry = entries.pop(name, None)
        if entry is None:
            return False
        if entry["in"] == "keyring":
            _forget_in_keyring(name)
        self._write(entries)
        return True

    def _read(self) -> dict[str, dict[str, Any]]:
        try:
            data = json.loads(self._path.read_text("utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise SettingsError(f"{self._path} cannot be read: {error}") from error
        return {str(name): dict(entry) for name, entry in data.items()}

    def _write(self, entries: Mapping[str, Mapping[str, Any]]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self._path.with_suffix(".new")
        temporary.unlink(missing_ok=True)
        # Created unreadable to others; a chmod afterwards would leave a moment to read it in.
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(entries, file, indent=2)
        temporary.replace(self._path)


def _to_keyring(name: str, key: str) -> bool:
    import keyring  # noqa: PLC0415 - a tenth of a second, and only `auth` needs it
    from keyring.errors import KeyringError  # noqa: PLC0415

    try:
        keyring.set_password(SERVICE, name, key)
        return keyring.get_password(SERVICE, name) == key
    except (KeyringError, RuntimeError):
        return False  # no keyring on this machine, or it is locked


def _from_keyring(name: str) -> str:
    import keyring  # noqa: PLC0415
    from keyring.errors import KeyringError  # noqa: PLC0415

    try:
        return keyring.get_password(SERVICE, name) or ""
    except (KeyringError, RuntimeError):
        return ""  # locked: the same as no key; `auth status` says so


def _forget_in_keyring(name: str) -> None:
    import keyring  # noqa: PLC0415
    from keyring.errors import KeyringError  # noqa: PLC0415

    try:
        keyring.delete_password(SERVICE, name)
    except (KeyringError, RuntimeError):
        return
