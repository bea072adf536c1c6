"""Keys that `edgewise keys` makes: what each may ask and see, for whom, until when."""

from __future__ import annotations

import json
import logging
import os
import stat
import time
from pathlib import Path
from typing import Any

import pytest

from edgewise.errors import SettingsError
from edgewise.server.access import Clients
from edgewise.server.keys import KeyFile
from edgewise.settings import KeySettings, Settings
from edgewise.testing import LoopbackCloud
from tests.server.conftest import Serving
from tests.server.served import HELLO, Served, wait_until

SURE: dict[str, Any] = {"model": "auto", "messages": HELLO}


class Team:
    """A server, and the file of its keys."""

    def __init__(self, serving: Serving, home: Path, **server: Any) -> None:
        self.file = KeyFile(home / "config")
        self._serving, self._server = serving, server

    def serve(self, **settings: Any) -> Served:
        self.served = self._serving(settings=settings, **self._server)
        return self.served

    def looked(self) -> None:
        """A second has passed: the server looks at the file again."""
        self.served.state.clients._looked = -1e9

    def ask(self, key: str, path: str = "/v1/chat/completions", **body: Any) -> Any:
        headers = {"authorization": f"Bearer {key}", **body.pop("headers", {})}
        if body.pop("get", False):
            return self.served.http.get(path, headers=headers)
        return self.served.http.post(path, json={**SURE, **body}, headers=headers)


@pytest.fixture
def team(serving: Serving, tmp_path: Path) -> Team:
    return Team(serving, tmp_path)


def code(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


def test_the_file_has_hashes_and_only_its_user_reads_it(team: Team) -> None:
    secret = team.file.add("wiki", {"budgets": ("$2/day",)})
    assert secret.startswith("ew-") and len(secret) == 51
    assert secret not in team.file.path.read_text("utf-8")
    if os.name == "posix":
        assert stat.S_IMODE(team.file.path.stat().st_mode) == 0o600
    (key,) = team.file.read().values()
    assert (key.name, key.rules.budgets) == ("wiki", ("$2/day",))


def test_a_file_that_is_damaged_is_not_quoted_and_not_written_over(team: Team) -> None:
    team.file.add("wiki", {})
    team.file.path.write_text('{"keys": {"wiki": {"number": "sesame"}}}', "utf-8")
    for action in (team.file.read, lambda: team.file.add("bot", {})):
        with pytest.raises(SettingsError) as caught:
            action()
        assert "sesame" not in str(caught.value)
    assert "sesame" in team.file.path.read_text("utf-8")


@pytest.mark.parametrize(
    ("name", "rules"),
    [
        ("two words", {}),
        ("", {}),
        ("wiki", {"budgets": ("free",)}),
        ("wiki", {"role": "king"}),
        ("wiki", {"expires": "tomorrow"}),
        ("wiki", {"user_budgets": ("$1",)}),
    ],
)
def test_what_makes_no_sense_makes_no_key(team: Team, name: str, rules: dict[str, Any]) -> None:
    with pytest.raises(SettingsError):
        team.file.add(name, rules)
    assert team.file.read() == {}


def test_a_running_server_takes_up_keys_as_they_come_and_go(team: Team) -> None:
    served = team.serve()
    assert served.chat().status_code == 200  # without keys, whoever reaches it may ask
    first = team.file.add("first", {})
    team.looked()
    assert served.chat().status_code == 401
    assert team.ask(first).status_code == 200
    second = team.file.rotate("first", keep_s=3600)
    team.looked()
    assert [team.ask(key).status_code for key in (first, second)] == [200, 200]
    third = team.file.rotate("first")
    team.looked()
    assert [team.ask(key).status_code for key in (first, second, third)] == [401, 401, 200]
    team.file.revoke("first")
    team.looked()
    assert team.ask(third).status_code == 401
    assert served.chat().status_code == 401, "the last key's end opens nothing"


def test_a_running_server_takes_up_other_rules_of_the_same_key(
    team: Team, cloud: LoopbackCloud
) -> None:
    cloud.always("Lyon.")
    key = team.file.add("wiki", {"budgets": ("$0.000001/day",), "policy": "prefer_local"})
    team.serve()
    assert code(team.ask(key, model="cloud")) == (403, "policy_not_allowed")
    team.file.change("wiki", {"policy": ""})
    team.looked()
    assert code(team.ask(key, model="cloud")) == (429, "budget_spent")
    team.file.change("wiki", {"budgets": ("$1/day",), "models": ("cloud",)})
    team.looked()
    assert team.ask(key, model="cloud").status_code == 200
    assert code(team.ask(key)) == (403, "model_not_allowed")


def test_a_file_that_breaks_while_the_server_runs_shuts_nobody_out(team: Team) -> None:
    key = team.file.add("wiki", {})
    team.serve()
    team.file.path.write_text("{", "utf-8")
    team.looked()
    assert team.ask(key).status_code == 200


def test_a_key_ends_when_it_says_so(team: Team) -> None:
    past = team.file.add("past", {"expires": "2020-01-31"})
    later = team.file.add("later", {"expires": "2999-01-31T12:00"})
    team.serve()
    assert code(team.ask(past)) == (401, "key_expired")
    assert team.ask(later).status_code == 200


def test_a_key_may_ask_for_its_models_and_sees_no_others(team: Team, cloud: LoopbackCloud) -> None:
    key = team.file.add("wiki", {"models": ("auto", "local*", "fast")})
    team.serve(models={"fast": "cloud/openai", "slow": "cloud/openai"})
    assert team.ask(key).status_code == 200
    assert team.ask(key, model="local").status_code == 200
    assert team.ask(key, model="fast").status_code == 200
    for name in ("cloud", "cloud/openai/gpt-5", "gpt-5", "slow", "anything"):
        assert code(team.ask(key, model=name)) == (403, "model_not_allowed")
    answer = team.ask(key, "/v1/embeddings", model="cloud", input="a")
    assert code(answer) == (403, "model_not_allowed")
    listed = team.ask(key, "/v1/models", get=True).json()["data"]
    assert {each["id"].partition("/")[0] for each in listed} == {"auto", "local"}
    assert len(cloud.requests) == 1


def test_a_key_s_policy_holds_for_all_that_it_asks(team: Team, cloud: LoopbackCloud) -> None:
    inside = team.file.add("inside", {"policy": "local_only"})
    hybrid = team.file.add("hybrid", {"policy": "prefer_local"})
    team.serve()
    stays = team.ask(inside).json()
    assert stays["edgewise"]["decision"]["code"] == "policy_local_only"
    assert code(team.ask(inside, model="cloud")) == (403, "policy_not_allowed")
    asks = {"x-edgewise-policy": "cloud_only"}
    assert code(team.ask(hybrid, headers=asks)) == (403, "policy_not_allowed")
    stricter = team.ask(hybrid, headers={"x-edgewise-policy": "local_only"})
    assert stricter.json()["edgewise"]["decision"]["code"] == "policy_local_only"
    assert cloud.requests == []


def test_roles_say_who_asks_and_who_sees_what(team: Team) -> None:
    app = team.file.add("wiki", {"budgets": ("$2/day",)})
    other = team.file.add("bot", {"budgets": ("$3/day",)})
    admin = team.file.add("lead", {"role": "admin"})
    metrics = team.file.add("prometheus", {"role": "metrics"})
    team.serve(budgets=["$9/day"])
    for key in (app, app, other, admin):
        assert team.ask(key).status_code == 200
    assert code(team.ask(metrics)) == (403, "role_not_allowed")
    assert code(team.ask(metrics, "/edgewise/requests", get=True)) == (403, "role_not_allowed")
    assert team.ask(metrics, "/edgewise/usage/key/all/1d", get=True).status_code == 200
    every = team.ask(metrics, "/metrics", get=True).text
    assert 'edgewise_key_requests_total{key="wiki"} 2.0' in every
    assert 'edgewise_key_requests_total{key="bot"} 1.0' in every
    assert "edgewise_requests_total{" in every
    own = team.ask(app, "/metrics", get=True).text
    assert 'edgewise_key_requests_total{key="wiki"} 2.0' in own
    assert 'edgewise_budget_remaining_microdollars{key="",window="day"}' in own, "it limits it too"
    assert "bot" not in own and "lead" not in own
    assert "edgewise_requests_total" not in own and "edgewise_resident_bytes" not in own

    def seen(key: str) -> int:
        return len(team.ask(key, "/edgewise/requests", get=True).json()["requests"])

    assert [seen(key) for key in (app, other, admin)] == [2, 1, 4]
    rows = team.ask(admin, "/edgewise/usage/key/all/1d", get=True).json()["rows"]
    assert {row["key"]: row["requests"] for row in rows} == {"wiki": 2, "bot": 1, "lead": 1}


def test_a_new_key_s_budget_counts_at_once(team: Team) -> None:
    first = team.file.add("rich", {})
    team.serve()
    assert team.ask(first, model="cloud").status_code == 200
    poor = team.file.add("poor", {"budgets": ("$0.000001/day",)})
    team.looked()
    assert code(team.ask(poor, model="cloud")) == (429, "budget_spent")
    assert team.ask(first, model="cloud").status_code == 200


def test_when_a_key_was_used_is_written_down(team: Team) -> None:
    key = team.file.add("wiki", {})
    team.file.add("idle", {})
    served = team.serve()
    team.ask(key)
    served.state.clients.close()
    used = team.file.last_used()
    wiki, idle = (team.file.read()[name].secrets[0].sha256 for name in ("wiki", "idle"))
    assert abs(used[wiki] - time.time()) < 600 and idle not in used


def test_rates_of_keys_that_come_later_are_shared_by_workers(tmp_path: Path) -> None:
    settings = Settings.load({}, config_dir=tmp_path, server={"port": 0})
    file = KeyFile(tmp_path)
    file.add("before", {})
    first, second = Clients(settings), Clients(settings)
    counts = [0.0] * first.places()
    for each in (first, second):
        each.share(counts)
    key = file.add("after", {"requests_per_minute": 2})
    taken = []
    for clients in (first, second, first):
        clients._looked = -1e9
        client = clients.admit({"authorization": f"Bearer {key}"}, "here")
        assert client.allowance is not None
        taken.append(client.allowance.take())
    assert taken[:2] == [0, 0] and taken[2] > 0


def test_tables_in_config_and_the_file_count_together_and_never_one_name_twice(
    tmp_path: Path,
) -> None:
    KeyFile(tmp_path).add("wiki", {})
    keys = {"wiki": KeySettings(key_env="WIKI")}
    settings = Settings.load({"WIKI": "w"}, config_dir=tmp_path, server={"port": 0, "keys": keys})
    with pytest.raises(SettingsError, match="wiki"):
        Clients(settings)


# -- the people behind one client ------------------------------------------------------------------

ANN = {"x-openwebui-user-email": "ann@team.example", "x-openwebui-user-role": "admin"}
BOB = {"x-openwebui-user-email": "bob@team.example", "x-openwebui-user-role": "user"}


def test_a_trusted_client_says_for_whom_it_asks_and_each_has_a_cap(
    team: Team, cloud: LoopbackCloud
) -> None:
    rules = {"forwards_users": True, "user_budgets": ("$0.02/day", "ann@team.example: $1/day")}
    webui = team.file.add("webui", rules)
    served = team.serve()
    for person in (ANN, BOB, ANN):
        assert team.ask(webui, headers=person).status_code == 200
    assert team.ask(webui, model="cloud", max_tokens=9, headers=ANN).status_code == 200
    spent = team.ask(webui, model="cloud", max_tokens=100_000, headers=BOB)
    assert code(spent) == (429, "budget_spent")
    assert "bob@team.example" in spent.json()["error"]["message"]
    rows = team.ask(webui, "/edgewise/usage/user/all/1d", get=True).json()["rows"]
    people = {row["user"]: row["requests"] for row in rows}
    assert people == {"ann@team.example": 3, "bob@team.example": 2}
    groups = served.state.engine.ledger.usage(by="group")
    assert {row.group for row in groups} == {"admin", "user"}
    sent = [name for request in cloud.requests for name in request.headers]
    assert not [name for name in sent if "openwebui" in name.lower()], (
        "it is nobody else's business"
    )


def test_whoever_is_not_trusted_must_not_name_a_user(team: Team) -> None:
    webui = team.file.add("webui", {"forwards_users": True})
    bot = team.file.add("bot", {})
    served = team.serve()
    for headers in (ANN, {"x-edgewise-user": "ann"}, {"x-edgewise-group": "admin"}):
        assert code(team.ask(bot, headers=headers)) == (403, "user_not_trusted")
    assert team.ask(webui, headers={"x-edgewise-user": "ann"}).status_code == 200
    twice = [
        ("authorization", f"Bearer {webui}"),
        ("x-openwebui-user-email", "bob@team.example"),
        ("x-openwebui-user-email", "ann@team.example"),
    ]
    slipped = served.http.post("/v1/chat/completions", json=SURE, headers=twice)
    assert code(slipped) == (400, "invalid_header")
    rows = served.state.engine.ledger.usage(by="user")
    assert [(row.key, row.user, row.requests) for row in rows] == [("webui", "ann", 1)]


def test_the_log_names_the_key_that_was_refused(
    team: Team, caplog: pytest.LogCaptureFixture
) -> None:
    team.file.add("webui", {"forwards_users": True})
    bot = team.file.add("bot", {"requests_per_minute": 1})
    figures = team.file.add("prometheus", {"role": "metrics"})
    team.serve()
    with caplog.at_level(logging.INFO, "edgewise.server"):
        team.ask(bot, headers=ANN)  # before its rate is looked at
        team.ask(bot)
        team.ask(bot)
        team.ask(figures)
        team.ask("ew-guessed")
    lines = [json.loads(each.message) for each in caplog.records if "status" in each.message]
    refused = {(each["client"], each["code"]) for each in lines if each["status"] != 200}
    assert refused == {
        ("bot", "user_not_trusted"),
        ("bot", "rate_limit_exceeded"),
        ("prometheus", "role_not_allowed"),
        ("", "invalid_api_key"),
    }


def test_where_nobody_is_trusted_a_client_s_user_headers_mean_nothing(served: Served) -> None:
    assert served.chat(headers=ANN).status_code == 200
    (row,) = served.state.engine.ledger.usage(by="user")
    assert (row.user, row.requests) == ("", 1)
    assert code(served.chat(headers={"x-edgewise-user": "ann"})) == (403, "user_not_trusted")


def test_an_address_can_be_trusted_and_the_header_be_named(serving: Serving) -> None:
    served = serving(user_proxies=["127.0.0.1"], user_headers=["x-bot-user"])
    named = {b"x-bot-user": "Zoë".encode()}
    assert served.http.post("/v1/chat/completions", json=SURE, headers=named).status_code == 200
    assert served.chat(headers={"x-bot-user": "a" * 201}).status_code == 400
    wait_until(lambda: len(served.state.engine.ledger.usage(by="user")) == 1)
    (row,) = served.state.engine.ledger.usage(by="user")
    assert row.user == "Zoë"
