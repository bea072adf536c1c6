from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest

from edgewise.record.ledger import Ledger
from edgewise.server.state import MOST_KEPT, Reports
from edgewise.testing import LoopbackCloud, ScriptedBackend, Status
from tests.server.conftest import Serving
from tests.server.served import Served, wait_until


def get(served: Served, path: str, key: str = "") -> Any:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    answer = served.http.get(path, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_the_overview_has_totals_the_chain_and_budgets(
    serving: Serving, cloud: LoopbackCloud
) -> None:
    served = serving(settings={"budgets": ["$1/day"]})
    served.chat()
    served.chat(model="cloud")
    found = get(served, "/edgewise/overview/1h")
    assert found["report"]["by_source"] == {"local": 1, "cloud": 1}
    assert sum(each.get("local", 0) for each in found["timeline"]) == 1
    (provider,) = found["providers"]
    assert (provider["name"], provider["state"], provider["attempts"]) == ("openai", "closed", 1)
    (budget,) = found["budgets"]
    assert budget["limit"] == 1_000_000 > budget["remaining"] > 0
    assert found["device"]["model"] == "scripted-1"


def test_a_circuit_that_is_open_is_said_to_be(serving: Serving, cloud: LoopbackCloud) -> None:
    served = serving()
    cloud.always(Status(429))
    served.chat(model="cloud")
    (provider,) = get(served, "/edgewise/overview/1h")["providers"]
    assert provider["state"] == "open" and provider["seconds_left"] > 0
    assert provider["failures"] > 0


def test_confidences_come_with_what_they_led_to(serving: Serving) -> None:
    served = serving()
    served.chat()
    found = get(served, "/edgewise/confidences/24h")
    (row,) = (dict(zip(found["columns"], row, strict=True)) for row in found["rows"])
    assert row["task"] == "chat" and row["source"] == "local" and row["confidence"] > 0.5
    assert row["threshold"] is not None
    assert row["verified"] is False, "nobody has calibrated the scripted model"


def test_figures_are_read_while_a_request_is_written_and_the_other_way(serving: Serving) -> None:
    served = serving()
    served.chat()
    store = cast("Ledger", served.state.engine.ledger)._store
    with store.writing():
        assert get(served, "/edgewise/overview/1h")["report"]["requests"] == 1
        assert len(get(served, "/edgewise/confidences/1h")["rows"]) == 1
        assert len(get(served, "/edgewise/requests")["requests"]) == 1
    with store.reporting():
        assert served.chat().status_code == 200
        served.settle()
    assert get(served, "/edgewise/overview/1h")["report"]["requests"] == 2


def test_who_waits_for_a_report_shares_the_next_one() -> None:
    """And never one that began before it asked, so that everybody sees what they wrote."""
    looks: list[float] = []
    reading, go_on = threading.Event(), threading.Event()

    def clock() -> float:
        looks.append(float(len(looks)))
        return looks[-1]

    reports = Reports(clock)
    made: list[int] = []

    def make() -> tuple[int, int]:
        made.append(len(made))
        reading.set()
        assert go_on.wait(60)
        return made[-1], 0

    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(reports.get, "day", make)
        assert reading.wait(60)
        others = [pool.submit(reports.get, "day", make) for _ in range(7)]
        wait_until(lambda: len(looks) == 2 + 7)  # all have asked
        go_on.set()
        assert first.result(60) == 0
        assert {each.result(60) for each in others} == {1}
    assert made == [0, 1]


def test_a_large_report_is_shown_for_a_while_and_few_are_kept() -> None:
    now = [100.0]
    reports = Reports(clock=lambda: now[0])
    made: list[str] = []

    def get(key: str, rows: int) -> None:
        def make() -> tuple[str, int]:
            made.append(key)
            return key, rows

        assert reports.get(key, make) == key

    get("small", 3)
    now[0] += 0.001
    get("small", 3)
    get("large", 150_000)
    now[0] += 2.9
    get("large", 150_000)
    now[0] += 0.2
    get("large", 150_000)
    assert made == ["small", "small", "large", "large"]
    for number in range(100):
        get(f"{number}", 150_000)
    assert len(reports._kept) == MOST_KEPT


def test_a_wrong_stretch_of_time_is_refused(served: Served) -> None:
    assert served.http.get("/edgewise/overview/yesterday").status_code == 400
    assert served.http.get("/edgewise/requests/nothing").status_code == 404


@pytest.mark.parametrize("stored", [False, True])
def test_texts_are_shown_only_where_they_are_stored(serving: Serving, stored: bool) -> None:
    served = serving(settings={"store_text": stored})
    answer = served.chat(messages=[{"role": "user", "content": "a very private question"}])
    recent = served.http.get("/edgewise/requests").text
    detail = served.http.get(f"/edgewise/requests/{answer.headers['x-edgewise-id']}").text
    assert "private question" not in recent
    assert ("private question" in detail) is stored
    assert json.loads(detail)["attempts"]


def test_texts_stored_before_are_hidden_once_the_server_stores_none(serving: Serving) -> None:
    before = serving(settings={"store_text": True})
    name = before.chat().headers["x-edgewise-id"]
    detail = serving().http.get(f"/edgewise/requests/{name}").json()
    assert detail["id"] == name and "prompt_text" not in detail
    assert detail["why"]["sentence"].startswith("It ")


def test_a_client_with_a_key_of_its_own_sees_its_own_requests(serving: Serving) -> None:
    keys = {name: {"key_env": f"{name.upper()}_KEY", "budgets": ["$1/day"]} for name in ("a", "b")}
    served = serving(environment={"A_KEY": "key-a", "B_KEY": "key-b"}, keys=keys, key="all")
    name = served.chat(headers={"authorization": "Bearer key-a"}).headers["x-edgewise-id"]
    assert len(get(served, "/edgewise/requests", "key-a")["requests"]) == 1
    assert get(served, "/edgewise/requests", "key-b")["requests"] == []
    assert len(get(served, "/edgewise/requests", "all")["requests"]) == 1
    foreign = served.http.get(
        f"/edgewise/requests/{name}", headers={"authorization": "Bearer key-b"}
    )
    assert foreign.status_code == 404
    budgets = get(served, "/edgewise/overview/1h", "key-b")["budgets"]
    assert [each["key"] for each in budgets] == ["b"]


PATHS = ("/edgewise/overview/1h", "/edgewise/confidences/1h", "/edgewise/requests")


@pytest.mark.parametrize("path", [*PATHS, "/edgewise/requests/x", "/edgewise/events"])
def test_figures_need_the_key_and_the_right_host_and_origin(serving: Serving, path: str) -> None:
    served = serving(key="secret")
    assert served.http.get(path).status_code == 401
    key = {"authorization": "Bearer secret"}
    assert served.http.get(path, headers=key | {"host": "evil.example"}).status_code == 403
    other = key | {"origin": "https://evil.example"}
    assert served.http.get(path, headers=other).status_code == 403


def test_events_tell_each_request_as_it_ends_and_stop_with_their_reader(serving: Serving) -> None:
    served = serving(ScriptedBackend.confident("Paris."))
    with served.http.stream("GET", "/edgewise/events") as response:
        lines = response.iter_lines()
        assert next(lines) == ": listening"
        threading.Thread(target=served.chat).start()
        assert "event: request" in lines
        data = next(lines)
        event = json.loads(data.removeprefix("data: "))
        assert (event["endpoint"], event["source"]) == ("chat.completions", "local")
        assert "Paris" not in data and "capital" not in data
        assert len(served.state.access_log.listeners) == 1
    wait_until(lambda: not served.state.access_log.listeners)
    served.settle()


def test_a_long_list_comes_packed_for_whoever_can_unpack_it(serving: Serving) -> None:
    served = serving()
    for _ in range(40):
        served.chat()
    served.settle()
    plain = served.http.get("/edgewise/requests", headers={"accept-encoding": "identity"})
    packed = served.http.get("/edgewise/requests", headers={"accept-encoding": "gzip"})
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert int(packed.headers["content-length"]) < len(plain.content) / 4
    assert packed.json() == plain.json() and len(plain.json()["requests"]) == 40


def test_an_open_page_does_not_hold_up_a_server_that_stops(served: Served) -> None:
    with served.http.stream("GET", "/edgewise/events") as response:
        lines = response.iter_lines()
        assert next(lines) == ": listening"
        served.state.draining = True
        assert "event: request" not in list(lines)  # and it ends


def test_what_each_key_spent_is_a_table_and_a_key_sees_its_own_row(serving: Serving) -> None:
    keys = {name: {"key_env": name.upper()} for name in ("wiki", "bot")}
    served = serving(keys=keys, key="all", environment={"WIKI": "wiki-key", "BOT": "bot-key"})
    for key in ("wiki-key", "wiki-key", "bot-key"):
        served.chat(headers={"authorization": f"Bearer {key}"})
    served.chat(model="cloud", headers={"authorization": "Bearer bot-key"})
    everything = get(served, "/edgewise/usage/key/all/7d", "all")
    assert everything["by"] == "key"
    found = {row["key"]: (row["requests"], row["kept"], row["cloud"]) for row in everything["rows"]}
    assert found == {"wiki": (2, 2, 0), "bot": (2, 1, 1)}
    (own,) = get(served, "/edgewise/usage/key/day/24h", "wiki-key")["rows"]
    assert (own["key"], own["requests"], len(own["period"])) == ("wiki", 2, 10)
    accept = {"authorization": "Bearer bot-key", "accept": "text/csv"}
    written = served.http.get("/edgewise/usage/user/week/7d", headers=accept)
    assert written.headers["content-type"].startswith("text/csv")
    head, row = written.text.splitlines()
    assert head.startswith("period,key,user") and ",bot,," in row
    assert (
        served.http.get("/edgewise/usage/moon/all/7d", headers={"x-api-key": "all"}).status_code
        == 404
    )
