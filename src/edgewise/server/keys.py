"""The clients' keys that `edgewise keys` makes: a file of hashes, rules, and when each was used.

A key is shown once, when it is made. The file holds its SHA-256 and can be read by its user alone.
A running server sees a change of the file within a second.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from edgewise.credentials import alone, write_private
from edgewise.errors import SettingsError
from edgewise.record.rows import Budget, Interval, People, parse_budget
from edgewise.settings import KeySettings, Settings

FILE = "server-keys.json"
LOOK_S = 1.0  # between two looks at the file
NOTE_S = 5.0  # from the first use of a key until it is written down
MOST_KEYS = 1_000  # whose rates the workers of one server count together
START = "ew-"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_RULES = tuple(
    each.name for each in fields(KeySettings) if each.name not in ("key_env", "key_sha256")
)


@dataclass(frozen=True, slots=True)
class Secret:
    """A key as it is kept. An old one counts until `until`; None: until it is rotated."""

    sha256: str
    until: float | None = None
    made_at: float = 0.0


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A client's key in the file. The newest secret comes first; `number` is given once."""

    name: str
    number: int
    created_at: float
    secrets: tuple[Secret, ...]
    rules: KeySettings

    def to_dict(self) -> dict[str, Any]:
        """As it is written: rules that are defaults are left out."""
        rules = {name: getattr(self.rules, name) for name in _RULES}
        plain = KeySettings(key_sha256="0" * 64)
        return {
            "number": self.number,
            "created_at": self.created_at,
            "secrets": [asdict(each) for each in self.secrets],
            **{name: value for name, value in rules.items() if value != getattr(plain, name)},
        }


class KeyFile:
    """The keys of this user's servers. Every method raises SettingsError with the reason."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self._used = folder / "server-keys-used.json"

    def read(self) -> dict[str, StoredKey]:
        """By name. Nothing of the file is quoted if it is not what it should be."""
        data = self._data()
        try:
            return {str(name): _stored(str(name), row) for name, row in data["keys"].items()}
        except SettingsError as error:
            raise SettingsError(f"{self.path}: {error}") from None
        except (ValueError, AttributeError, KeyError, TypeError):
            raise SettingsError(f"{self.path} is not as `edgewise keys` writes it") from None

    def stamp(self) -> tuple[int, int, int]:
        """Changes with the file."""
        try:
            found = self.path.stat()
        except OSError:
            return (0, 0, 0)
        return (found.st_mtime_ns, found.st_size, found.st_ino)

    def add(self, name: str, rules: Mapping[str, Any], now: float | None = None) -> str:
        """Make a key and return its secret, which is kept nowhere."""
        if not _NAME.fullmatch(name):
            raise SettingsError(f"a key's name is up to 64 letters, digits and .-_, not {name!r}")
        secret = START + secrets.token_hex(24)
        rules_of = KeySettings(key_sha256=_hash(secret), **rules)
        budgets_of(name, rules_of)  # what cannot be read is said now
        with self._changing() as data:
            if name in data["keys"]:
                raise SettingsError(
                    f"there is a key {name!r}: rotate it, revoke it, or take another name"
                )
            number = int(data.get("next", 0))
            data["next"] = number + 1
            made = StoredKey(
                name, number, _now(now), (Secret(rules_of.key_sha256, None, _now(now)),), rules_of
            ).to_dict()
            data["keys"][name] = made
        return secret

    def change(self, name: str, rules: Mapping[str, Any]) -> None:
        """Other rules for the same key: each that is named replaces what it was."""
        with self._changing() as data:
            key = _stored(name, _known(data, name))
            changed = replace(key, rules=replace(key.rules, **rules))
            budgets_of(name, changed.rules)  # what cannot be read is said now
            data["keys"][name] = changed.to_dict()

    def rotate(self, name: str, keep_s: float = 0.0, now: float | None = None) -> str:
        """Another secret for the same key. The old one still counts for `keep_s` seconds."""
        secret, until = START + secrets.token_hex(24), _now(now) + keep_s
        with self._changing() as data:
            row = _known(data, name)
            kept = [
                {**each, "until": min(until, each["until"] or until)}
                for each in row["secrets"]
                if keep_s and (each["until"] is None or each["until"] > _now(now))
            ]
            made = asdict(Secret(_hash(secret), None, _now(now)))
            row["secrets"] = [made, *kept]
        return secret

    def revoke(self, name: str) -> None:
        """What it asked and spent stays in the ledger."""
        with self._changing() as data:
            _known(data, name)
            del data["keys"][name]

    def last_used(self) -> dict[str, float]:
        """Unix seconds by the SHA-256 of a secret; to a few seconds."""
        try:
            found = json.loads(self._used.read_text("utf-8"))
            return {str(name): float(at) for name, at in found.items()}
        except (OSError, ValueError, AttributeError, TypeError):
            return {}  # not worth an error: the next use writes it anew

    def note_used(self, used: Mapping[str, float]) -> None:
        """Several servers may write: the later use counts."""
        known = {each.sha256 for key in self.read().values() for each in key.secrets}
        with alone(self.path):
            before = self.last_used()
            latest = {
                name: max(before.get(name, 0.0), used.get(name, 0.0))
                for name in (*before, *used)
                if name in known
            }
            write_private(self._used, latest)

    def _data(self) -> dict[str, Any]:
        try:
            data = json.loads(self.path.read_text("utf-8"))
        except FileNotFoundError:
            return {"next": 0, "keys": {}}
        except OSError as error:
            raise SettingsError(f"{self.path} cannot be read: {error.strerror}") from error
        except ValueError:
            raise SettingsError(f"{self.path} is not as `edgewise keys` writes it") from None
        if not (isinstance(data, dict) and isinstance(data.get("keys"), dict)):
            raise SettingsError(f"{self.path} is not as `edgewise keys` writes it")
        return data

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Any]]:
        """All or nothing, alone among all processes."""
        with alone(self.path):
            self.read()  # a file that cannot be read whole is not written over
            data = self._data()
            yield data
            write_private(self.path, data)


class LastUse:
    """Writes down when keys were used, a few seconds later and on a thread of its own."""

    def __init__(self, file: KeyFile, clock: Callable[[], float] = time.time) -> None:
        self._file, self._clock = file, clock
        self._lock = threading.Lock()
        self._used: dict[str, float] = {}
        self._writing: threading.Timer | None = None

    def note(self, sha256: str) -> None:
        with self._lock:
            self._used[sha256] = self._clock()
            if self._writing is None:
                self._writing = threading.Timer(NOTE_S, self.write)
                self._writing.daemon = True
                self._writing.start()

    def write(self) -> None:
        """What was not written yet."""
        with self._lock:
            used, self._used = self._used, {}
            if self._writing is not None:
                self._writing.cancel()
            self._writing = None
        if used:
            with contextlib.suppress(SettingsError):  # a request matters more than its time
                self._file.note_used(used)


def _stored(name: str, row: Mapping[str, Any]) -> StoredKey:
    created_at = float(row["created_at"])
    made = tuple(
        Secret(str(each["sha256"]), each["until"], float(each.get("made_at", created_at)))
        for each in row["secrets"]
    )
    given: dict[str, Any] = {
        rule: tuple(row[rule]) if isinstance(row[rule], list) else row[rule]
        for rule in _RULES
        if rule in row
    }
    rules = KeySettings(key_sha256=made[0].sha256, **given)
    return StoredKey(name, int(row["number"]), created_at, made, rules)


def _known(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    if name not in data["keys"]:
        known = ", ".join(sorted(data["keys"])) or "none yet"
        raise SettingsError(
            f"there is no key {name!r} (known: {known}); edgewise keys add makes one"
        )
    row: dict[str, Any] = data["keys"][name]
    return row


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _now(now: float | None) -> float:
    return time.time() if now is None else now


# -- what the rules of keys mean for the ledger ----------------------------------------------------


def expires_at(rules: KeySettings) -> float | None:
    """Unix seconds, from a date or time; None: never. `KeySettings` has checked it."""
    if not rules.expires:
        return None
    moment = datetime.fromisoformat(rules.expires)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def budgets_of(name: str, rules: KeySettings) -> list[Budget]:
    """Of the key itself, and of each of the people behind it."""
    key = rules.budget_key or name
    found = [parse_budget(text, key=key) for text in rules.budgets]
    people: tuple[tuple[People, tuple[str, ...]], ...] = (
        ("user", rules.user_budgets),
        ("group", rules.group_budgets),
    )
    for of, texts in people:
        for text in texts:
            who, _, amount = text.rpartition(":")
            found.append(replace(parse_budget(amount, key=key), of=of, name=who.strip()))
    return found


def all_keys(settings: Settings) -> dict[str, KeySettings]:
    """Those of config.toml and those of the file, by name. Raises SettingsError."""
    stored = KeyFile(settings.config_dir).read()
    if both := sorted(set(stored) & set(settings.server.keys)):
        raise SettingsError(f"{both[0]!r} is a key of `edgewise keys` and one of [server.keys]")
    return {**settings.server.keys, **{name: each.rules for name, each in stored.items()}}


def limits_of(keys: Mapping[str, KeySettings]) -> tuple[list[Budget], list[Interval]]:
    """What keys add to the budgets of the settings, and to the times between handoffs."""
    budgets = [each for name, rules in keys.items() for each in budgets_of(name, rules)]
    intervals = [
        Interval(rules.cloud_every_s, key=rules.budget_key or name)
        for name, rules in keys.items()
        if rules.cloud_every_s
    ]
    return budgets, intervals
