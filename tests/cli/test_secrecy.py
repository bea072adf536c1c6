"""No command prints a key, or writes it to any file but its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgewise.testing import LoopbackCloud, Status
from tests.cli.conftest import KEY, Run

STORED = "gsk-stored-9d21c0ffee"

COMMANDS: tuple[tuple[str, ...], ...] = (
    ("auth", "set", "groq"),
    ("auth", "set", "groq", "--json"),
    ("auth", "set", "groq", "--no-check"),
    ("auth", "set", "groq", STORED),
    ("auth", "set", KEY),
    ("auth", "status"),
    ("auth", "status", "--json"),
    ("ask", "--cloud", "hi"),
    ("ask", "--cloud", "hi", "--json"),
    ("ask", "--cloud", "--why", "--store-text", "hi"),
    ("chat", "--cloud"),
    ("chat", "--cloud", "--json"),
    ("models",),
    ("doctor", "--quick"),
    ("doctor", "--quick", "--json"),
    ("ledger",),
    ("ledger", "--json"),
    ("ledger", "--last", "20", "--json"),
    ("completion", "bash"),
    ("auth", "remove", "groq"),
    ("auth", "remove", "groq", "--json"),
    ("--help",),
)


@pytest.mark.parametrize("answer", ["right", "refused", "unreachable"])
def test_no_command_prints_or_keeps_a_key(
    run: Run,
    cloud: LoopbackCloud,
    own_home: Path,
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
) -> None:
    if answer == "refused":  # some providers repeat the key they were given
        cloud.always(
            lambda seen: Status(401, message=f"Wrong key: {seen.headers['authorization']}")
        )
    elif answer == "unreachable":
        monkeypatch.setenv("EDGEWISE_OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    monkeypatch.setenv("EDGEWISE_CHAIN", "openai, groq")
    monkeypatch.setenv("EDGEWISE_GROQ_BASE_URL", cloud.openai_url)
    for words in COMMANDS:
        stdin = f"{STORED}\n" if words[:2] == ("auth", "set") else "hello\n/why\n/history\n"
        ran = run(*words, stdin=stdin)
        for key in (KEY, STORED):
            assert key not in ran.out, words
            assert key not in ran.err, words
    assert run("ledger", "--json").json["requests"] >= 5
    for path in own_home.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert KEY.encode() not in content, path
            assert STORED.encode() not in content, path


def test_the_file_that_holds_the_key_is_the_only_one(run: Run, own_home: Path) -> None:
    run("auth", "set", "groq", "--no-check", stdin=STORED)
    run("ask", "--cloud", "--store-text", "hi")
    holders = [
        path.name
        for path in own_home.rglob("*")
        if path.is_file() and STORED.encode() in path.read_bytes()
    ]
    assert holders == ["keys.json"]
