"""A deploy file is read, and what is wrong with it is said in one line."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from edgewise.cli.main import cli
from edgewise.errors import SettingsError
from edgewise_cluster.launch import ray_variables
from edgewise_cluster.plan import EXAMPLE, Plan, Share, check_plan, notes, read_plan


def planned(text: str) -> Plan:
    return check_plan(tomllib.loads(text), "deploy.toml")


def test_the_example_is_a_file_that_works() -> None:
    plan = planned(EXAMPLE)
    assert plan.models["chat"] == Share(replicas=1, max_replicas=2, target_ongoing=4.0)
    assert notes(plan) == []
    named = {name for name in tomllib.loads(EXAMPLE) if name not in ("settings", "models")}
    assert named == set(Plan.model_fields) - {"parts", "settings", "models"}
    assert set(tomllib.loads(EXAMPLE)["models"]["chat"]) == set(Share.model_fields)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("prot = 1", "there is no prot; did you mean 'port'?"),
        ("port = 0", "port = 0: input should be greater than or equal to 1"),
        ("[models.chatt]", "there is no models.chatt; did you mean 'chat'?"),
        ("[models.chat]\nreplica = 2", "there is no models.chat.replica; did you mean 'replicas'?"),
        (
            "[fronts]\nreplicas = 3\nmax_replicas = 2",
            "fronts: max_replicas = 2: less than replicas",
        ),
        ('[settings]\nmodl = "tiny"', "there is no settings.modl; did you mean 'model'?"),
        ("[settings]\nthreads = 0", "threads = 0: must be at least 1"),
        ("[settings.server]\nslot = 1", "there is no settings.server.slot; did you mean 'slots'?"),
        ("[settings.server]\nport = 1", "settings.server.port: port is at the top of the file"),
        ("[settings.server]\nslots = 0", "[server]: slots = 0: at least 1"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(text: str, words: str) -> None:
    with pytest.raises(SettingsError) as raised:
        planned(text)
    assert str(raised.value) == f"deploy.toml: {words}"


def test_keys_and_passwords_are_refused_and_never_quoted() -> None:
    for text in (
        '[settings.server]\nkey = "hush"',
        '[settings]\nledger = "postgresql://me:hush@db/edgewise"',
    ):
        with pytest.raises(SettingsError, match="keys_file") as raised:
            planned(text)
        assert "hush" not in str(raised.value)


def test_a_replica_takes_the_file_over_its_machine_and_keys_from_there(tmp_path: Path) -> None:
    keys = tmp_path / "keys.env"
    keys.write_text("OPENAI_API_KEY=from-the-file\n", "utf-8")
    plan = planned(
        f'host = "10.0.0.1"\nkeys_file = "{keys}"\n[settings]\nmax_tokens = 7\n'
        '[settings.server]\nslots = 2\norigins = ["https://app.example"]'
    )
    machine = {
        "EDGEWISE_MAX_TOKENS": "9",
        "EDGEWISE_SERVER_SLOTS": "8",
        "EDGEWISE_SERVER_QUEUE": "5",
        "EDGEWISE_SERVER_KEY": "from-the-machine",
        "EDGEWISE_HOME": str(tmp_path),
    }
    settings = plan.load_settings(machine)
    server = settings.server
    assert (settings.max_tokens, server.slots, server.queue) == (7, 2, 5)
    assert (server.host, server.origins) == ("10.0.0.1", ("https://app.example",))
    assert server.key == "from-the-machine"
    assert settings.environment["OPENAI_API_KEY"] == "from-the-file"
    assert "from-the" not in plan.model_dump_json()  # which is all that Ray gets


def test_ray_says_nothing_home_and_lets_the_longest_stream_end() -> None:
    plan = planned("[settings.server]\ntotal_s = 100.0")
    variables = ray_variables(plan, {"RAY_USAGE_STATS_ENABLED": "1", "PATH": "/bin"}, "/tmp/x")
    assert variables["RAY_USAGE_STATS_ENABLED"] == "0"
    assert variables["RAY_SERVE_HAPROXY_HARD_STOP_AFTER_S"] == "130"
    assert variables["PATH"] == "/bin"


def test_notes_say_what_an_operator_may_regret() -> None:
    (one,) = notes(planned("[fronts]\nreplicas = 1"))
    assert "while an upgrade" in one
    (alone,) = notes(planned('address = "auto"'))
    assert "settings.ledger" in alone


def run(*words: str) -> Any:
    return CliRunner().invoke(cli, ["deploy", *words])


def test_the_command_prints_checks_and_says_what_runs(tmp_path: Path) -> None:
    file = tmp_path / "deploy.toml"
    file.write_text(run("--example").output, "utf-8")
    assert read_plan(file) == planned(EXAMPLE)
    assert run(str(file), "--check").output == "The file is right.\n"
    assert json.loads(run(str(file), "--check", "--json").output)["notes"] == []
    told = json.loads(run(str(file), "--status", "--json").output)
    assert (told["status"], told["url"]) == ("not_running", "http://127.0.0.1:8484")
    assert json.loads(run(str(file), "--stop", "--json").output) == {"stopped": False}
    assert "which file?" in run().output
