"""Who gets in: names, origins, keys, and how often."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import openai
import pytest

from edgewise.errors import SettingsError
from edgewise.server import serve
from edgewise.server.access import (
    Allowance,
    Clients,
)
from edgewise.server.keys import KeyFile
from edgewise.settings import Settings
from edgewise.testing import Answer, LoopbackCloud
from tests.server.conftest import Serving
from tests.server.served import HELLO, Served, body_of, read_all, wait_until


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.0.0.1:8484", "localhost:99", "[::1]:8484", "192.168.1.20", "LOCALHOST"],
)
def test_addresses_and_localhost_are_good_names(session_served: Served, host: str) -> None:
    assert session_served.http.get("/v1/models", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost.evil.example", "", "127.0.0.1.nip.io", "127.0.0.1%.evil.com"],
)
def test_other_names_are_refused_so_that_a_page_cannot_rebind_one(
    session_served: Served, host: str
) -> None:
    response = session_served.http.get("/v1/models", headers={"host": host})
    assert response.status_code in (400, 403)


def test_a_name_can_be_allowed(serving: Serving) -> None:
    served = serving(hosts=["box.example"])
    assert served.http.get("/v1/models", headers={"host": "box.example:8484"}).status_code == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1"])
def test_pages_of_other_origins_may_not_ask(session_served: Served, origin: str) -> None:
    response = session_served.chat(headers={"origin": origin})
    assert response.status_code == 403
    assert response.json()["error"]["code"] == "origin_not_allowed"
    asked = session_served.http.options(
        "/v1/chat/completions",
        headers={"origin": origin, "access-control-request-method": "POST"},
    )
    assert asked.status_code == 403
    assert "access-control-allow-origin" not in asked.headers


def test_the_server_s_own_page_may_ask(served: Served) -> None:
    assert served.chat(headers={"origin": served.url}).status_code == 200


def test_an_allowed_origin_gets_its_headers(serving: Serving) -> None:
    served = serving(origins=["https://app.example"])
    origin = {"origin": "https://app.example"}
    asked = served.http.options(
        "/v1/chat/completions",
        headers=origin
        | {
            "access-control-request-method": "POST",
            "access-control-request-headers": "authorization,x-edgewise-policy",
        },
    )
    assert asked.status_code == 200
    assert asked.headers["access-control-allow-origin"] == "https://app.example"
    assert "authorization" in asked.headers["access-control-allow-headers"]
    answer = served.chat(headers=origin)
    assert answer.headers["access-control-allow-origin"] == "https://app.example"
    assert answer.headers["access-control-expose-headers"] == "*"
    assert "access-control-allow-origin" not in served.chat().headers


def test_a_preflight_needs_no_key_and_what_follows_does(serving: Serving) -> None:
    served = serving(key="k", origins=["https://app.example"])
    origin = {"origin": "https://app.example"}
    asking = origin | {"access-control-request-method": "POST"}
    asked = served.http.options("/v1/chat/completions", headers=asking)
    assert asked.headers["access-control-allow-origin"] == "https://app.example"
    assert served.http.options("/v1/chat/completions", headers=origin).status_code == 401
    assert served.http.post("/v1/chat/completions", headers=asking, json={}).status_code == 401


def test_a_key_is_asked_for_everywhere_but_for_health(serving: Serving) -> None:
    served = serving(key="the-right-key")
    for path in ("/v1/models", "/metrics", "/v1/nothing"):
        assert served.http.get(path).status_code == 401
    wrong = {"authorization": "Bearer the-wrong-key"}
    assert served.chat(headers=wrong).json()["error"]["code"] == "invalid_api_key"
    assert served.chat(headers={"authorization": "Basic dGhl"}).status_code == 401
    right = {"authorization": "bearer the-right-key"}
    assert served.chat(headers=right).status_code == 200
    assert served.http.get("/healthz").status_code == 200
    assert served.http.get("/readyz").status_code == 200


def test_the_official_client_says_authentication_error(serving: Serving) -> None:
    served = serving(environment={"EDGEWISE_SERVER_KEY": "from-the-environment"})
    with pytest.raises(openai.AuthenticationError):
        served.openai("nonsense").models.list()
    assert served.openai("from-the-environment").models.list().data


def test_without_a_key_any_will_do_on_this_machine(served: Served) -> None:
    assert served.openai("whatever").models.list().data


def test_listening_elsewhere_needs_a_key(tmp_path: Path) -> None:
    for host in ("0.0.0.0", "::", "192.168.1.20", "box.example"):
        settings = Settings.load({}, data_dir=tmp_path, server={"host": host, "port": 0})
        with pytest.raises(SettingsError, match="key"), serve.running(settings):
            pass


def test_listening_elsewhere_says_to_whom_it_is_open(tmp_path: Path) -> None:
    def loaded(**server: object) -> Settings:
        return Settings.load({}, config_dir=tmp_path, server={"port": 0, **server})

    assert serve.who_may_ask(loaded()) == ""
    serve.require_key(loaded(host="0.0.0.0", open=True))
    told = serve.who_may_ask(loaded(host="0.0.0.0", open=True))
    assert "every network" in told and "WITHOUT A KEY" in told
    KeyFile(tmp_path).add("wiki", {})
    serve.require_key(loaded(host="192.168.1.20"))
    told = serve.who_may_ask(loaded(host="192.168.1.20"))
    assert "192.168.1.20, with a key" in told and "--allow-host" in told
    assert "--allow-host" not in serve.who_may_ask(loaded(host="192.168.1.20", hosts=("box",)))


def test_each_key_has_its_own_budget_and_cannot_choose_another(
    serving: Serving, cloud: LoopbackCloud
) -> None:
    served = serving(
        keys={
            "poor": {
                "key_sha256": hashlib.sha256(b"poor-key").hexdigest(),
                "budgets": ["$0.000001/day"],
            },
            "rich": {"key_env": "RICH_KEY"},
        },
        environment={"RICH_KEY": "rich-key"},
    )
    poor = {"authorization": "Bearer poor-key", "x-edgewise-budget-key": "rich"}
    spent = served.chat(model="cloud/openai", headers=poor)
    assert (spent.status_code, spent.json()["error"]["code"]) == (429, "budget_spent")
    rich = {"authorization": "Bearer rich-key"}
    assert served.chat(model="cloud/openai", headers=rich).status_code == 200
    assert len(cloud.requests) == 1


def test_a_key_redacts_whatever_its_requests_say(serving: Serving, cloud: LoopbackCloud) -> None:
    cloud.always(Answer(text="Sent to [EMAIL_1].", chunk_size=3))
    served = serving(
        keys={"app": {"key_env": "APP_KEY", "redact": ["EMAIL"], "private_kinds": ["CARD"]}},
        environment={"APP_KEY": "app-key"},
    )
    headers = {"authorization": "Bearer app-key", "x-edgewise-redact": "false"}
    asked: Any = [{"role": "user", "content": "Mail ann@example.org from 10.1.2.3"}]
    answer = served.chat(model="cloud/openai", messages=asked, headers=headers).json()
    assert answer["choices"][0]["message"]["content"] == "Sent to ann@example.org."
    assert answer["edgewise"]["attempts"][-1]["redacted"] == {"EMAIL": 1}
    assert cloud.requests[0].body["messages"][0]["content"] == "Mail [EMAIL_1] from 10.1.2.3"
    more = headers | {"x-edgewise-redact": "IP"}
    served.chat(model="cloud/openai", messages=asked, headers=more)
    assert cloud.requests[1].body["messages"][0]["content"] == "Mail [EMAIL_1] from [IP_1]"
    card: Any = [{"role": "user", "content": "Is 4111 1111 1111 1111 mine?"}]
    refused = served.chat(model="cloud/openai", messages=card, headers=headers)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "private_kind")
    assert len(cloud.requests) == 2


def test_each_key_has_its_own_time_between_handoffs(serving: Serving, cloud: LoopbackCloud) -> None:
    served = serving(
        keys={
            "slow": {"key_env": "SLOW_KEY", "cloud_every_s": 3600},
            "free": {"key_env": "FREE_KEY"},
        },
        environment={"SLOW_KEY": "slow-key", "FREE_KEY": "free-key"},
    )
    slow, free = ({"authorization": f"Bearer {name}-key"} for name in ("slow", "free"))
    assert served.chat(model="cloud/openai", headers=slow).status_code == 200
    soon = served.chat(model="cloud/openai", headers=slow)
    assert (soon.status_code, soon.json()["error"]["code"]) == (429, "cooldown")
    assert soon.headers["x-should-retry"] == "false"
    assert served.chat(model="cloud/openai", headers=free).status_code == 200
    assert len(cloud.requests) == 2


def test_a_key_whose_variable_is_missing_stops_the_server_from_starting(serving: Serving) -> None:
    with pytest.raises(SettingsError, match="NO_SUCH_KEY"):
        serving(keys={"app": {"key_env": "NO_SUCH_KEY"}})


def test_a_client_that_asks_too_often_is_told_when_to_come_again(serving: Serving) -> None:
    served = serving(
        keys={"app": {"key_env": "APP_KEY", "requests_per_minute": 2}},
        environment={"APP_KEY": "app-key"},
    )
    headers = {"authorization": "Bearer app-key"}
    statuses = [served.chat(headers=headers).status_code for _ in range(3)]
    assert statuses == [200, 200, 429]
    refused = served.chat(headers=headers)
    assert 1 <= int(refused.headers["retry-after"]) <= 30
    assert served.http.get("/v1/models", headers=headers).status_code == 200


@pytest.mark.parametrize("path", ["/metrics", "/edgewise/overview/1h", "/v1/models"])
def test_who_reads_too_often_is_told_so_and_may_still_ask(serving: Serving, path: str) -> None:
    served = serving(
        keys={"app": {"key_env": "APP_KEY", "requests_per_minute": 2}},
        environment={"APP_KEY": "app-key"},
    )
    headers = {"authorization": "Bearer app-key"}
    read = [served.http.get(path, headers=headers) for _ in range(3)]
    assert [each.status_code for each in read] == [200, 200, 429]
    assert 1 <= int(read[-1].headers["retry-after"]) <= 30
    assert [served.chat(headers=headers).status_code for _ in range(2)] == [200, 200]


def test_an_allowance_fills_up_again_but_not_beyond_a_minute() -> None:
    now = [100.0]
    allowance = Allowance(60, clock=lambda: now[0])
    assert [allowance.take() for _ in range(60)] == [0.0] * 60
    assert allowance.take() == pytest.approx(1.0)
    now[0] += 2
    assert [allowance.take() == 0 for _ in range(3)] == [True, True, False]
    now[0] += 10_000
    assert [allowance.take() == 0 for _ in range(61)].count(True) == 60


def test_every_key_is_compared_whole(tmp_path: Path) -> None:
    settings = Settings.load({}, data_dir=tmp_path, server={"key": "abc"})
    clients = Clients(settings)
    assert clients.admit({"authorization": "Bearer abc"}, "here").name == "key"
    for shown in ("ab", "abcd", "", "ABC", "абв", "\udcff"):
        with pytest.raises(Exception, match="key"):
            clients.admit({"authorization": f"Bearer {shown}"}, "here")


def test_a_header_sent_twice_is_not_passed_over(served: Served) -> None:
    with served.raw() as connection:
        body = b'{"model": "auto", "messages": [{"role": "user", "content": "Hello?"}]}'
        connection.sendall(
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
            b"x-edgewise-privacy: private\r\nx-edgewise-privacy: open\r\n"
            b"content-length: %d\r\n\r\n%s" % (len(body), body)
        )
        assert body_of(read_all(connection))[0] == 400


def test_a_chain_that_cannot_be_read_stops_the_server_from_starting(serving: Serving) -> None:
    with pytest.raises(SettingsError, match="nosuch"):
        serving(settings={"chain": ["nosuch"]})


def test_messages_of_the_guard_have_the_shape_of_their_api(serving: Serving) -> None:
    served = serving(key="k")
    body = {"model": "auto", "max_tokens": 5, "messages": HELLO}
    refused = served.http.post("/v1/messages", json=body).json()
    assert refused["type"] == "error" and refused["error"]["type"] == "authentication_error"


def test_what_is_not_there_is_404_and_a_wrong_method_405(session_served: Served) -> None:
    assert session_served.http.post("/v1/nothing").status_code == 404
    wrong = session_served.http.get("/v1/chat/completions")
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (405, "method_not_allowed")


@pytest.mark.parametrize(
    ("path", "status"), [("/healthz", 200), ("/readyz", 200), ("/v1/models", 403)]
)
def test_a_load_balancer_may_ask_without_a_name_how_it_is(
    served: Served, path: str, status: int
) -> None:
    with served.raw() as connection:
        connection.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
        assert body_of(read_all(connection))[0] == status


def test_only_a_trusted_proxy_says_who_asks(serving: Serving) -> None:
    def names(served: Served, *forwarded: str) -> list[str]:
        seen: list[str] = []
        served.state.access_log.listeners.append(lambda each: seen.append(each.client))
        for text in forwarded:
            served.chat(headers={"x-forwarded-for": text})
        wait_until(lambda: len(seen) == len(forwarded))
        return seen

    # The last one that is no proxy counts: what stands before it, a client may have made up.
    trusting = serving(proxies=["127.0.0.1", "10.0.0.9"])
    assert names(trusting, "10.1.1.1", "6.6.6.6, 10.2.2.2", "10.3.3.3, 10.0.0.9", "nonsense") == [
        "10.1.1.1",
        "10.2.2.2",
        "10.3.3.3",
        "127.0.0.1",
    ]
    assert names(serving(), "10.1.1.1") == ["127.0.0.1"]
