"""Keys at rest: keyring first, a private file otherwise, and no trace of either in an error."""

from __future__ import annotations

import os
import stat
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path

import keyring
import pytest

from edgewise.credentials import Credentials
from edgewise.errors import SettingsError
from tests.memory_keyring import MemoryKeyring

KEY = "sk-0123456789abcdef"


@pytest.fixture
def memory() -> Iterator[MemoryKeyring]:
    before = keyring.get_keyring()
    ours = MemoryKeyring()
    keyring.set_keyring(ours)
    yield ours
    keyring.set_keyring(before)


def test_nothing_is_stored_until_something_is(tmp_path: Path) -> None:
    credentials = Credentials(tmp_path)
    assert credentials.get("openai") == ""
    assert credentials.places() == {}
    assert credentials.remove("openai") is False
    assert list(tmp_path.iterdir()) == []


def test_without_a_keyring_a_key_goes_into_a_private_file(tmp_path: Path) -> None:
    old_mask = os.umask(0)  # even for users who let everybody read their files
    try:
        credentials = Credentials(tmp_path / "new" / "folder")
        assert credentials.set("openai", KEY) == "file"
    finally:
        os.umask(old_mask)
    assert credentials.get("openai") == KEY
    assert stat.S_IMODE(credentials.path.stat().st_mode) == 0o600
    beside = [path for path in credentials.path.parent.iterdir() if path != credentials.path]
    assert [path.name for path in beside] == ["keys.lock"] and not beside[0].read_bytes()
    assert credentials.open_to_others() is False


def test_a_file_that_others_can_read_is_noticed(tmp_path: Path) -> None:
    credentials = Credentials(tmp_path)
    assert credentials.open_to_others() is False
    credentials.set("openai", KEY)
    credentials.path.chmod(0o640)
    assert credentials.open_to_others() is True
    credentials.set("groq", KEY)
    assert credentials.open_to_others() is False, "writing it again closes it"


def test_with_a_keyring_the_file_only_says_where(tmp_path: Path, memory: MemoryKeyring) -> None:
    credentials = Credentials(tmp_path)
    assert credentials.set("openai", KEY) == "keyring"
    assert credentials.get("openai") == KEY
    assert credentials.places() == {"openai": "keyring"}
    assert KEY not in credentials.path.read_text()


def test_a_key_that_moves_to_the_file_leaves_the_keyring(
    tmp_path: Path, memory: MemoryKeyring
) -> None:
    credentials = Credentials(tmp_path)
    credentials.set("openai", "sk-old")
    credentials.set("openai", KEY, prefer="file")
    assert memory.passwords == {}
    assert credentials.get("openai") == KEY


def test_a_key_that_moves_to_the_keyring_leaves_the_file(
    tmp_path: Path, memory: MemoryKeyring
) -> None:
    credentials = Credentials(tmp_path)
    credentials.set("openai", KEY, prefer="file")
    credentials.set("openai", KEY)
    assert KEY not in credentials.path.read_text()


def test_a_locked_keyring_is_the_same_as_no_key(tmp_path: Path, memory: MemoryKeyring) -> None:
    credentials = Credentials(tmp_path)
    credentials.set("openai", KEY)
    memory.locked = True
    assert credentials.get("openai") == ""
    assert credentials.places() == {"openai": "keyring"}
    assert credentials.set("groq", KEY) == "file"


def test_a_removed_key_leaves_no_trace(tmp_path: Path, memory: MemoryKeyring) -> None:
    credentials = Credentials(tmp_path)
    credentials.set("openai", KEY)
    credentials.set("groq", KEY, prefer="file")
    assert credentials.remove("openai") is True
    assert credentials.remove("groq") is True
    assert memory.passwords == {}
    assert KEY not in credentials.path.read_text()
    assert credentials.places() == {}


def test_spaces_around_a_key_are_not_part_of_it(tmp_path: Path) -> None:
    credentials = Credentials(tmp_path)
    credentials.set("openai", f"  {KEY}\r\n")
    assert credentials.get("openai") == KEY


@pytest.mark.parametrize("key", ["", "  \n", f"{KEY} {KEY}", f"{KEY}é", f"{KEY}\x00", "a\nb"])
def test_what_no_header_can_carry_is_refused_without_quoting_it(tmp_path: Path, key: str) -> None:
    with pytest.raises(SettingsError) as raised:
        Credentials(tmp_path).set("openai", key)
    assert "openai" in str(raised.value)
    assert KEY not in str(raised.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "content",
    [
        f'{{"openai": {{"in": "file", "key": "{KEY}"}}',
        f'["{KEY}"]',
        f'{{"openai": "{KEY}"}}',
        f'{{"openai": {{"in": "elsewhere", "key": "{KEY}"}}}}',
        '{"openai": {"in": "file"}}',
        "\xff\xfe",
        "",
    ],
)
def test_a_damaged_file_is_a_clear_error_that_quotes_no_key(tmp_path: Path, content: str) -> None:
    (tmp_path / "keys.json").write_text(content, encoding="latin-1")
    with pytest.raises(SettingsError, match=r"keys\.json.*delete it") as raised:
        Credentials(tmp_path).get("openai")
    assert KEY not in "".join(traceback.format_exception(raised.value))
    assert raised.value.__suppress_context__, "a parser's error carries the text it parsed"


def test_a_folder_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("a file where the folder should be")
    with pytest.raises(SettingsError, match="cannot be"):
        Credentials(tmp_path / "config").set("openai", KEY)


def test_a_failed_write_leaves_the_old_keys_and_no_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    credentials = Credentials(tmp_path)
    credentials.set("openai", "sk-old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(SettingsError, match="No space left on device"):
        credentials.set("openai", KEY)
    assert credentials.get("openai") == "sk-old"
    assert sorted(tmp_path.iterdir()) == [credentials.path, tmp_path / "keys.lock"]


def test_keys_that_are_stored_at_the_same_moment_are_all_kept(tmp_path: Path) -> None:
    names = [f"provider{number}" for number in range(12)]
    together = threading.Barrier(len(names))

    def store(name: str) -> None:
        together.wait()
        Credentials(tmp_path).set(name, KEY, prefer="file")

    threads = [threading.Thread(target=store, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(Credentials(tmp_path).places()) == sorted(names)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["keys.json", "keys.lock"]
