"""Providers' keys: in the operating system's keyring, or in a file only the user can read.

An index file says which providers have a key and where it is. The keyring may ask the user for a
password, so it is opened only if it really holds the key.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from edgewise.errors import SettingsError

Place = Literal["keyring", "file"]
SERVICE = "edgewise"
LOCK_S = 10.0  # for another process to write the file


class Credentials:
    """Keys by provider name. Nothing here ever prints or logs one."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "keys.json"

    def places(self) -> dict[str, Place]:
        """Which providers have a stored key, and where. Never the keys themselves."""
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
        """Store a key and return where it went. Without a keyring, the file is used."""
        key = plausible_key(name, key)
        place: Place = "keyring" if prefer == "keyring" and _to_keyring(name, key) else "file"
        with alone(self.path):
            entries = self._read()
            before = entries.get(name, {}).get("in")
            entries[name] = {"in": place} if place == "keyring" else {"in": place, "key": key}
            write_private(self.path, entries)
        if place == "file" and before == "keyring":
            _forget_in_keyring(name)  # the old key must not outlive the new one
        return place

    def remove(self, name: str) -> bool:
        if name not in self._read():
            return False
        with alone(self.path):
            entries = self._read()
            entry = entries.pop(name, None)
            if entry is None:
                return False
            write_private(self.path, entries)
        if entry["in"] == "keyring":
            _forget_in_keyring(name)
        return True

    def open_to_others(self) -> bool:
        """Whether other users of this machine may read the file."""
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
        # The file holds keys: do not quote it, and do not chain an error that quotes it.
        except (ValueError, AttributeError, KeyError, TypeError):
            raise SettingsError(
                f"{self.path} is not a list of keys as `edgewise auth` writes it; "
                "delete it and store the keys again"
            ) from None


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Between reading the file and writing it, no other process does."""
    from filelock import FileLock, Timeout  # noqa: PLC0415 - only who writes needs it

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_suffix(".lock"), timeout=LOCK_S, mode=0o600):
            yield
    except Timeout as error:
        raise SettingsError(f"{path} is being written by another process") from error
    except OSError as error:
        raise SettingsError(f"{path} cannot be written: {error.strerror}") from error


def write_private(path: Path, data: Mapping[str, Any]) -> None:
    """All of it or nothing, in a file that only its user can read. For who is `alone`."""
    # Created unreadable to others: a chmod afterwards would come a moment too late.
    descriptor, temporary = tempfile.mkstemp(prefix=f"{path.stem}-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(data, file, indent=2)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        Path(temporary).unlink(missing_ok=True)


def plausible_key(name: str, key: str) -> str:
    """The key without the space around it. Odd characters are copying mistakes: a header cannot
    carry them. Never quotes the key."""
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
        return ""  # locked: the same as no key; `auth status` reports it


def _forget_in_keyring(name: str) -> None:
    import keyring  # noqa: PLC0415
    from keyring.errors import KeyringError  # noqa: PLC0415

    try:
        keyring.delete_password(SERVICE, name)
    except (KeyringError, RuntimeError):
        return
