"""The `[server]` table: defaults, refusals by name, and no key in any message."""

from __future__ import annotations

from typing import Any

import pytest

from edgewise.errors import SettingsError
from edgewise.settings import (
    KeySettings,
    ServerSettings,
    Settings,
    read_server,
)


def test_a_table_changes_what_it_names() -> None:
    read = read_server({"port": 9000, "total_s": 5, "hosts": ["box.example"]})
    assert (read.port, read.total_s, read.hosts) == (9000, 5.0, ("box.example",))
    assert read.host == "127.0.0.1"
    assert read_server(read) is read


def test_keys_are_tables_of_their_own() -> None:
    read = read_server({"keys": {"app": {"key_env": "APP_KEY", "requests_per_minute": 5}}})
    assert read.keys == {"app": KeySettings(key_env="APP_KEY", requests_per_minute=5)}


def test_settings_take_the_table_from_code_and_file() -> None:
    assert Settings.load({}, server={"port": 1}).server.port == 1
    assert Settings().with_changes(server=ServerSettings(port=2)).server.port == 2


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (5, r"\[server\]: not a table"),
        ({"prot": 5}, "unknown setting 'prot'"),
        ({"port": "x"}, "port must be a whole number"),
        ({"port": True}, "port must be a whole number"),
        ({"port": 70000}, "port = 70000"),
        ({"host": 5}, "host must be text"),
        ({"any_model": 1}, "any_model must be true or false"),
        ({"drain_s": "x"}, "drain_s must be a number"),
        ({"drain_s": 0}, "drain_s = 0"),
        ({"slots": 0}, "slots = 0"),
        ({"hosts": "box"}, "hosts must be a list of texts"),
        ({"hosts": [5]}, "hosts must be a list of texts"),
        ({"keys": []}, r"\[server.keys\]: not a table"),
        ({"keys": {"app": "x"}}, r"\[server.keys.app\]: not a table"),
        ({"keys": {"app": {}}}, r"\[server.keys.app\]: either key_env or key_sha256"),
        ({"keys": {"app": {"key_sha256": "abc"}}}, "64 hexadecimal digits"),
        ({"keys": {"app": {"key_env": "A", "requests_per_minute": -1}}}, "0 or more"),
    ],
)
def test_what_is_wrong_is_named(table: Any, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        read_server(table)


def test_no_message_and_no_repr_quotes_a_key() -> None:
    with pytest.raises(SettingsError) as caught:
        read_server({"keys": {"app": {"key": "sk-very-secret"}}})
    assert "very-secret" not in str(caught.value)
    assert "very-secret" not in repr(ServerSettings(key="sk-very-secret"))
