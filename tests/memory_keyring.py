"""A keyring in memory: what a desktop has and a test machine has not."""

from __future__ import annotations

from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked, PasswordDeleteError
from typing_extensions import override


class MemoryKeyring(KeyringBackend):
    priority = 1.0

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.passwords: dict[tuple[str, str], str] = {}
        self.locked = False

    @override
    def get_password(self, service: str, username: str) -> str | None:
        self._check()
        return self.passwords.get((service, username))

    @override
    def set_password(self, service: str, username: str, password: str) -> None:
        self._check()
        self.passwords[service, username] = password

    @override
    def delete_password(self, service: str, username: str) -> None:
        self._check()
        if self.passwords.pop((service, username), None) is None:
            raise PasswordDeleteError(username)

    def _check(self) -> None:
        if self.locked:
            raise KeyringLocked
