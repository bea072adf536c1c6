"""`edgewise keys`: a key is made, shown once, listed, rotated and revoked."""

from __future__ import annotations

import time

from edgewise import Settings, parts
from edgewise.server.keys import KeyFile
from tests.cli.conftest import Run
from tests.record.ledger_cases import PROVIDER, asking


def test_a_key_is_shown_once_and_listed_with_its_rules(run: Run) -> None:
    assert run("keys", "list").out == "No keys yet. Make one: edgewise keys add NAME\n"
    made = run("keys", "add", "wiki", "--budget", "$2/day", "--model", "auto", "--per-minute", "60")
    assert made.code == 0 and "shown this once" in made.out
    secret = made.out.splitlines()[-1]
    assert secret.startswith("ew-")
    shown = run("keys", "list").out
    assert "wiki" in shown and "budgets $2/day" in shown and secret not in shown
    assert "60 a minute" in shown
    (row,) = run("keys", "list", "--json").json
    assert (row["name"], row["role"], row["last_used"]) == ("wiki", "app", None)
    assert abs(row["made_at"] - time.time()) < 600
    assert row["rules"] == {
        "models": ["auto"],
        "budgets": ["$2/day"],
        "requests_per_minute": 60,
    }


def test_a_key_ends_and_is_rotated_and_revoked(run: Run) -> None:
    first = run("keys", "add", "wiki", "--expires", "90d", "--json").json["key"]
    second = run("keys", "rotate", "wiki", "--keep-old", "24h", "--json").json["key"]
    (row,) = run("keys", "list", "--json").json
    assert first != second and row["old_until"] is not None
    assert row["expires"].startswith("2")
    assert run("keys", "add", "wiki").code == 2, "the name is taken"
    assert run("keys", "revoke", "wiki", "--json").json == {"revoked": "wiki"}
    assert run("keys", "revoke", "wiki").code == 2
    assert run("keys", "list", "--json").json == []


def test_a_key_gets_other_rules_and_stays_the_same_key(run: Run) -> None:
    run("keys", "add", "wiki", "--budget", "$2/day", "--model", "auto", "--policy", "local_only")
    file = KeyFile(Settings.load().config_dir)
    before = file.read()["wiki"]
    changed = run("keys", "change", "wiki", "--budget", "$5/day", "--clear", "models")
    assert changed.out == "The rules of wiki: policy local_only · budgets $5/day\n"
    run("keys", "change", "wiki", "--per-minute", "9", "--cloud-every", "2")
    shown = run("keys", "change", "wiki", "--role", "admin", "--per-minute", "0", "--json").json
    assert shown["rules"] == {
        "policy": "local_only",
        "budgets": ["$5/day"],
        "cloud_every_s": 2.0,
    }
    after = file.read()["wiki"]
    assert (after.secrets, after.number) == (before.secrets, before.number)
    assert after.rules.role == "admin"
    for words in (["wiki"], ["nobody", "--per-minute", "1"], ["wiki", "--budget", "much"]):
        assert run("keys", "change", *words).code == 2
    assert file.read()["wiki"] == after


def test_what_nobody_knows_is_refused_before_there_is_a_key(run: Run) -> None:
    for words in (["--policy", "prefer_lokal"], ["--redact", "EMIAL"], ["--expires", "2020-01-01"]):
        assert run("keys", "add", "wiki", *words).code == 2
        assert run("keys", "list", "--json").json == []
    assert "did you mean 'EMAIL'" in run("keys", "add", "wiki", "--redact", "EMIAL").err


def test_what_cannot_be_read_makes_no_key(run: Run) -> None:
    assert run("keys", "add", "wiki", "--budget", "much").code == 2
    assert run("keys", "add", "wiki", "--expires", "tomorrow").code == 2
    assert run("keys", "rotate", "wiki", "--keep-old", "long").code == 2
    assert run("keys", "list", "--json").json == []


def test_the_ledger_s_page_shows_the_budgets_of_keys_and_of_their_users(run: Run) -> None:
    run("keys", "add", "webui", "--budget", "$2/day", "--user-budget", "$0.50/day")
    settings = Settings.load()
    (key,) = KeyFile(settings.config_dir).read().values()
    assert key.rules.forwards_users, "a budget for each user means that it names them"
    book = parts.open_ledger(settings)
    book.reserve("r/0", asking("r", budget_key="webui", user="ann"), PROVIDER, 100_000)
    book.close()
    out = run("ledger").out
    assert "budget $2.00 per day for key 'webui': $1.90 left" in out
    assert "budget $0.50 per day for user 'ann' for key 'webui': $0.4" in out


def test_of_many_people_those_with_the_least_left_are_listed(run: Run) -> None:
    run("keys", "add", "webui", "--user-budget", "$0.50/day", "--user-budget", "u7: $9/day")
    book = parts.open_ledger(Settings.load())
    for number in range(30):
        asked = asking(f"r{number}", budget_key="webui", user=f"u{number}")
        book.reserve(f"r{number}/0", asked, PROVIDER, 1_000 * (number + 1))
    book.close()
    lines = [line for line in run("ledger").out.splitlines() if line.startswith("budget")]
    assert len(lines) == 10 and "user 'u29'" in lines[0]
    assert "20 more users and groups have more left" in run("ledger").out
    found = [each for each in run("ledger", "--json").json["budgets"] if each["budget"]["of"]]
    assert [each["budget"]["name"] for each in found].count("u7") == 1, "she has a rule of her own"
