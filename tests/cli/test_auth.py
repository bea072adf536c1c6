"""`edgewise auth`: keys in, keys out of sight."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keyring
import pytest

from edgewise.cloud.providers import PROVIDERS
from edgewise.testing import LoopbackCloud, Status, refused_url
from tests.cli.conftest import KEY, Open, Run
from tests.memory_keyring import MemoryKeyring


@pytest.fixture
def memory_keyring() -> Iterator[MemoryKeyring]:
    before = keyring.get_keyring()
    ours = MemoryKeyring()
    keyring.set_keyring(ours)
    yield ours
    keyring.set_keyring(before)


@pytest.fixture(autouse=True)
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackCloud]:
    """Stands in for every provider that is asked whether it takes a key."""
    with LoopbackCloud() as server:
        urls = {
            "openai": server.openai_url,
            "gemini": server.gemini_url,
            "anthropic": server.anthropic_url,
            "cactus_cloud": server.cactus_url,
            "systemone": server.openai_url,
        }
        for row in PROVIDERS.values():
            monkeypatch.setenv(f"EDGEWISE_{row.name.upper()}_BASE_URL", urls[row.protocol])
        yield server


def status(run: Run, provider: str) -> dict[str, Any]:
    (row,) = [row for row in run("auth", "status", "--json").json if row["provider"] == provider]
    return dict(row)


def test_without_a_keyring_the_key_is_in_a_file_only_the_user_can_read(
    run: Run, own_home: Path
) -> None:
    ran = run("auth", "set", "openai", stdin=f"{KEY}\n")
    assert (ran.code, ran.out) == (
        0,
        "openai takes the key. The key for openai is in a file only you can read.\n",
    )
    file = own_home / "config" / "keys.json"
    assert KEY in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert status(run, "openai")["key"] == "file"
    assert status(run, "openai")["ready"] is True


def test_with_a_keyring_the_key_is_there_and_nowhere_else(
    run: Run, own_home: Path, memory_keyring: MemoryKeyring
) -> None:
    ran = run("auth", "set", "openai", "--json", stdin=f"{KEY}\n")
    assert ran.json == {
        "success": True,
        "provider": "openai",
        "place": "keyring",
        "overridden_by": "",
        "checked": True,
        "unchecked_because": "",
    }
    assert memory_keyring.passwords == {("edgewise", "openai"): KEY}
    assert KEY not in (own_home / "config" / "keys.json").read_text()
    assert status(run, "openai")["key"] == "keyring"


def test_a_file_can_be_preferred(run: Run, memory_keyring: MemoryKeyring) -> None:
    assert run("auth", "set", "openai", "--file", "--json", stdin=KEY).json["place"] == "file"
    assert memory_keyring.passwords == {}


def test_a_stored_key_is_used(run: Run, cloud: LoopbackCloud, monkeypatch: Any) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    assert run("ask", "--cloud", "hi").code == 4
    run("auth", "set", "openai", stdin="sk-stored")
    assert run("ask", "--cloud", "hi").code == 0
    assert cloud.requests[-1].headers["authorization"] == "Bearer sk-stored"


def test_the_environment_comes_first_and_one_is_told(run: Run, cloud: LoopbackCloud) -> None:
    ran = run("auth", "set", "openai", stdin="sk-stored")
    assert "But OPENAI_API_KEY is set and comes first" in ran.out
    assert status(run, "openai")["key"] == "environment (OPENAI_API_KEY)"
    run("ask", "--cloud", "hi")
    assert cloud.requests[-1].headers["authorization"] == f"Bearer {KEY}"
    assert "But OPENAI_API_KEY is set and is still used." in run("auth", "remove", "openai").out


def test_a_key_that_the_keyring_lost_is_not_called_ready(
    run: Run, memory_keyring: MemoryKeyring
) -> None:
    run("auth", "set", "openai", stdin=KEY)
    memory_keyring.passwords.clear()
    assert status(run, "openai")["key"] == "keyring (locked, or the key is gone)"
    assert status(run, "openai")["ready"] is False


def test_a_removed_key_is_gone(run: Run, own_home: Path, memory_keyring: MemoryKeyring) -> None:
    run("auth", "set", "openai", stdin=KEY)
    run("auth", "set", "groq", "--file", stdin="gsk-other")
    assert run("auth", "remove", "openai", "--json").json["success"] is True
    assert memory_keyring.passwords == {}
    assert run("auth", "remove", "groq").out == "The key for groq is gone.\n"
    assert "gsk-other" not in (own_home / "config" / "keys.json").read_text()
    again = run("auth", "remove", "openai", "--json")
    assert (again.code, again.json["code"]) == (1, "failed")


def test_the_status_lists_every_provider_and_what_it_needs(run: Run) -> None:
    rows = run("auth", "status", "--json").json
    assert {"gemini", "openai", "anthropic", "ollama", "cactus_cloud"} <= {
        row["provider"] for row in rows
    }
    by_name = {row["provider"]: row for row in rows}
    assert by_name["openai"]["key_names"] == ["OPENAI_API_KEY"]
    assert (by_name["openai"]["key"], by_name["openai"]["ready"]) == ("", False)
    assert (by_name["ollama"]["key"], by_name["ollama"]["ready"]) == ("not needed", True)
    words = run("auth", "status").out
    assert "· openai        none\n" in words
    assert "✓ ollama        not needed\n" in words


def test_a_key_on_the_command_line_is_refused_unseen(run: Run, own_home: Path) -> None:
    for words in (["auth", "set", "openai", KEY], ["auth", "set", KEY], ["auth", "remove", KEY]):
        ran = run(*words)
        assert ran.code == 2
        assert KEY not in ran.out + ran.err
    assert not (own_home / "config").exists()


@pytest.mark.parametrize("typed", ["", "\n", "   \n", "sk with spaces", "sk-ключ", "sk-\x1b[A"])
def test_what_cannot_be_a_key_is_refused_unseen(run: Run, typed: str) -> None:
    ran = run("auth", "set", "openai", stdin=typed)
    assert ran.code == 2
    assert "[bad_settings]" in ran.err
    assert not typed.strip() or typed.strip() not in ran.out + ran.err


@pytest.mark.parametrize("name", ["openai", "gemini", "anthropic", "groq"])
def test_a_key_that_its_provider_refuses_is_not_stored(
    run: Run, own_home: Path, provider: LoopbackCloud, name: str
) -> None:
    provider.always(Status(401, message="Incorrect API key provided."))
    ran = run("auth", "set", name, stdin="abcd\n")
    assert ran.code == 4
    assert ran.err == (
        f"edgewise: {name} does not take this key, so it was not stored: {name} answered 401: "
        "Incorrect API key provided. (copy it again, or store it anyway with --no-check) "
        "[cloud_auth_failed]\n"
    )
    assert not (own_home / "config").exists()
    assert len(provider.requests) == 1 and provider.requests[0].method == "GET"
    stored = run("auth", "set", name, "--no-check", "--json", stdin="abcd").json
    assert (stored["checked"], stored["unchecked_because"]) == (False, "--no-check was given")
    assert len(provider.requests) == 1, "nobody was asked"


def test_a_provider_that_cannot_be_reached_does_not_keep_one_from_storing_its_key(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGEWISE_GROQ_BASE_URL", refused_url())
    ran = run("auth", "set", "groq", stdin=KEY)
    assert ran.code == 0
    stored, unchecked = ran.out.splitlines()
    assert stored == "The key for groq is in a file only you can read."
    assert unchecked.startswith("It could not be checked: cannot connect to groq: ")


@pytest.mark.parametrize("fault", [Status(403, message="May not list models."), Status(503)])
def test_a_key_that_may_be_good_is_stored_and_called_unchecked(
    run: Run, provider: LoopbackCloud, fault: Status
) -> None:
    provider.always(fault)
    found = run("auth", "set", "openai", "--json", stdin=KEY).json
    assert (found["place"], found["checked"]) == ("file", False)
    assert f"answered {fault.status}" in found["unchecked_because"]


def test_a_provider_without_a_free_request_is_not_asked(run: Run, provider: LoopbackCloud) -> None:
    ran = run("auth", "set", "cactus_cloud", stdin=KEY)
    assert "It could not be checked: cactus_cloud has no free request for that." in ran.out
    assert provider.connections == 0


def test_a_mistyped_provider_gets_a_suggestion(run: Run) -> None:
    ran = run("auth", "set", "opnai", stdin=KEY)
    assert ran.code == 2
    assert "Did you mean openai?" in ran.err


def test_in_a_terminal_the_key_is_asked_for_and_not_shown(own_home: Path, terminal: Open) -> None:
    shown = terminal("auth", "set", "openai")
    shown.wait_for("Key for openai (not shown):")
    shown.press(f"{KEY}\n")
    assert shown.finish() == 0
    assert KEY not in shown.raw
    assert KEY in (own_home / "config" / "keys.json").read_text()


def test_a_provider_of_ones_own_can_have_a_key(run: Run, own_home: Path) -> None:
    (own_home / "config").mkdir(parents=True)
    (own_home / "config" / "config.toml").write_text(
        '[providers.mine]\nbase_url = "http://127.0.0.1:1/v1"\nmodel = "m"\nkey_env = "MINE_KEY"\n'
    )
    assert run("auth", "set", "mine", stdin=KEY).code == 0
    assert status(run, "mine")["ready"] is True
