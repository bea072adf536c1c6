"""The shared options: given values count, zero included; contradictions are refused."""

from __future__ import annotations

from typing import Any

import click
import pytest

from edgewise import plugins
from edgewise.cli.options import split
from edgewise.errors import SettingsError
from edgewise.testing import LoopbackCloud
from edgewise.types.messages import POLICIES
from tests.cli.conftest import Run

UNSAID: dict[str, Any] = {
    "policy": None,
    "local": False,
    "cloud": False,
    "private": False,
    "threshold": None,
    "max_error": None,
    "cloud_share": None,
    "model": None,
    "system": None,
    "max_tokens": None,
    "temperature": None,
}


def test_options_not_given_are_left_to_the_settings() -> None:
    settings, request = split(dict(UNSAID))
    assert request == {}
    assert settings.policy == "prefer_local"


@pytest.mark.parametrize("given", ["0.8", "80%", "80 %"])
def test_a_threshold_may_be_said_in_percent(run: Run, cloud: LoopbackCloud, given: str) -> None:
    reply = run("ask", "--cloud", "--threshold", given, "--json", "hi").json
    assert reply["decision"]["threshold"] == 0.8


@pytest.mark.parametrize("given", ["5", "-1", "105%", "sure", "nan"])
def test_what_is_no_confidence_is_no_threshold(run: Run, given: str) -> None:
    ran = run("ask", "--threshold", given, "hi")
    assert ran.code == 2
    assert f"'{given}' is not a confidence between 0 and 1, like 0.8 or 80%" in ran.err


def test_a_threshold_of_zero_counts_as_given() -> None:
    _, request = split(UNSAID | {"threshold": 0.0, "temperature": 0.0, "private": True})
    assert request == {"threshold": 0.0, "temperature": 0.0, "private": True}


def test_short_forms_name_their_policy() -> None:
    assert split(UNSAID | {"local": True})[1] == {"policy": "local_only"}
    assert split(UNSAID | {"cloud": True})[1] == {"policy": "cloud_only"}


def test_the_model_belongs_to_the_settings() -> None:
    settings, request = split(UNSAID | {"model": "qwen3-0.6b"})
    assert (settings.model, request) == ("qwen3-0.6b", {})


def test_two_policies_exclude_each_other() -> None:
    with pytest.raises(click.UsageError, match="exclude each other"):
        split(UNSAID | {"policy": "local_only", "cloud": True})


def test_an_unknown_policy_is_refused_before_anything_is_fetched() -> None:
    with pytest.raises(SettingsError, match=r"local_onyl.*did you mean 'local_only'"):
        split(UNSAID | {"policy": "local_onyl"})


def test_the_help_names_the_policies_that_come_with_edgewise() -> None:
    assert set(POLICIES) <= set(plugins.names("policies"))


@pytest.mark.parametrize(
    "words",
    [
        ("--threshold", "2"),
        ("--threshold", "-0.1"),
        ("--max-tokens", "0"),
        ("--temperature", "-1"),
        ("--deadline-ms", "0"),
        ("--threshold", "high"),
        ("--max-error", "rarely"),
        ("--max-error", "200%"),
        ("--cloud-share", "-1%"),
    ],
)
def test_a_value_out_of_range_names_its_option(run: Run, words: tuple[str, str]) -> None:
    ran = run("ask", *words, "hi")
    assert ran.code == 2
    assert f"'{words[0]}'" in ran.err


@pytest.mark.parametrize("share", ["5%", "5 %", "5", "0.05"])
def test_five_is_five_percent(run: Run, cloud: LoopbackCloud, share: str) -> None:
    ran = run("ask", "--max-error", share, "--json", "hi")
    assert ran.json["decision"]["objective"].startswith("an error of at most 5 %")
    one = run("ask", "--max-error", "1", "--json", "hi")
    assert one.json["decision"]["objective"].startswith("an error of at most 1 %")


@pytest.mark.parametrize("share", ["100%", "100", "1", "1.0"])
def test_a_share_may_be_said_in_percent(run: Run, cloud: LoopbackCloud, share: str) -> None:
    ran = run("ask", "--cloud-share", share, "--json", "hi")
    assert ran.json["decision"]["objective"] == "a cloud share of about 100 %"
    assert ran.json["source"] == "cloud"


@pytest.mark.parametrize("share", ["0.01%", "0.0001"])
def test_a_risk_that_cannot_be_promised_leaves_the_device(
    run: Run, cloud: LoopbackCloud, share: str
) -> None:
    ran = run("ask", "--max-error", share, "--json", "hi")
    assert ran.json["decision"]["code"] == "handoff_risk_unreachable"


@pytest.mark.parametrize("command", ["ask", "chat", "call", "see", "transcribe", "listen", "act"])
def test_every_command_that_routes_takes_a_risk(run: Run, command: str) -> None:
    words = run(command, "--help").out
    assert "--max-error SHARE" in words
    assert "--cloud-share SHARE" in words


def test_two_objectives_exclude_each_other(run: Run) -> None:
    ran = run("ask", "--max-error", "5%", "--threshold", "0.5", "hi")
    assert ran.code == 2
    assert "--threshold and --max-error exclude each other" in ran.err


def test_personal_data_leaves_as_a_placeholder(run: Run, cloud: LoopbackCloud) -> None:
    cloud.always("Yes, [EMAIL_1].")
    ran = run("ask", "--cloud", "--redact", "email", "Is it ann@example.org?")
    assert ran.out.strip() == "Yes, ann@example.org."
    assert cloud.requests[0].body["messages"][0]["content"] == "Is it [EMAIL_1]?"
    kept = run("ask", "--cloud", "--private-kinds", "all", "--json", "Is it ann@example.org?")
    assert (kept.code, kept.json["code"]) == (4, "private_kind")
    wrong = run("ask", "--redact", "e-mail", "hi")
    assert wrong.code == 2 and "--redact" in wrong.err
    assert len(cloud.requests) == 1


def test_two_commands_share_the_time_between_handoffs(run: Run, cloud: LoopbackCloud) -> None:
    assert run("ask", "--cloud", "--cloud-every", "3600", "hi").code == 0
    soon = run("ask", "--cloud", "--cloud-every", "3600", "--json", "hi")
    assert (soon.code, soon.json["code"]) == (4, "cooldown")
    assert run("ask", "--cloud", "hi").code == 0
    assert len(cloud.requests) == 2


@pytest.mark.parametrize("command", ["ask", "chat", "call", "see", "serve"])
def test_every_command_that_asks_can_redact(run: Run, command: str) -> None:
    words = run(command, "--help").out
    for option in ("--redact KINDS", "--private-kinds KINDS", "--cloud-every SECONDS"):
        assert option in words


def test_options_reach_the_request(run: Run, cloud: LoopbackCloud) -> None:
    run("ask", "--cloud", "--system", "Be brief.", "--max-tokens", "7", "hi")
    body = cloud.requests[0].body
    assert body["messages"][0]["content"] == "Be brief."
    assert 7 in (body.get("max_tokens"), body.get("max_completion_tokens"))
