"""Providers' keys: in the operating system's keyring, or in a file only the user can read.

An index file says which providers have a key and where it lies, so that the keyring (which may
ask the user for a password) is opened only for a key that is really there.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from edgewise.errors import SettingsError

Place = Literal["keyring", "file"]
SERVICE = "edgewise"


class Credentials:
    """Keys by provider name. Nothing here ever prints or logs one."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "keys.json"

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
        key = _checked(name, key)
        entries = self._read()
        place: Place = "keyring" if prefer == "keyring" and _to_keyring(name, key) else "file"
        before = entries.get(name, {}).get("in")
        entries[name] = {"in": place} if place == "keyring" else {"in": place, "key": key}
        self._write(entries)
        if place == "file" and before == "keyring":
            _forget_in_keyring(name)  # an old key must not outlive the one that replaced it
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

    def open_to_others(self) -> bool:
        """Whether other users of this machine may read the file, as after a careless copy."""
        try:
            return os.name == "posix" and bool(self.path.stat().st_mode & 0o077)
        except OSError:
            return False

    def _read(self) -> dict[str, dict[str, Any]]:
        try:
            data = json.loads(self.path.read_text("utf-8"))
            return {str(name): _entry(entry) for name, entry in data.items()}
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise SettingsError(f"{self.path} cannot be read: {error.strerror}") from error
        # Its content is not quoted, and no error that does is chained: there are keys in it.
        except (ValueError, AttributeError, KeyError, TypeError):
            raise SettingsError(
                f"{self.path} is not a list of keys as `edgewise auth` writes it; "
                "delete it and store the keys again"
            ) from None

    def _write(self, entries: Mapping[str, Mapping[str, Any]]) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # Unreadable to others from the start; a chmod later would leave a moment to read it in.
            descriptor, temporary = tempfile.mkstemp(prefix="keys-", dir=self.path.parent)
            try:
                with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                    json.dump(entries, file, indent=2)
                os.replace(temporary, self.path)
            finally:
                Path(temporary).unlink(missing_ok=True)
        except OSError as error:
            raise SettingsError(f"{self.path} cannot be written: {error.strerror}") from error


def _checked(name: str, key: str) -> str:
    """Keys travel in HTTP headers; what cannot is a mistake in copying. Never quotes the key."""
    key = key.strip()
    if not key:
        raise SettingsError(f"the key for {name} is empty")
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise SettingsError(
            f"the key for {name} has spaces or characters that no key has; copy it again"
        )
    return key


def _entry(entry: dict[str, Any]) -> dict[str, Any]:
    if entry["in"] not in ("keyring", "file") or (entry["in"] == "file" and not entry["key"]):
        raise ValueError
    return dict(entry)


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
