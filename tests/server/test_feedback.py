"""Verdicts over HTTP: whose requests a key may judge, what hostile bodies get, what is shown."""

from __future__ import annotations

import json
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from edgewise.testing import Answer as CloudAnswer
from edgewise.testing import LoopbackCloud, ScriptedBackend
from tests.server.conftest import Serving
from tests.server.served import HELLO, Served
from tests.test_stated_risk import CHAT

ANN, BOB, LEAD = ({"authorization": f"Bearer {name}-key-0123456789"} for name in "abl")
KEYS: dict[str, Any] = {
    "environment": {
        "ANN_KEY": "a-key-0123456789",
        "BOB_KEY": "b-key-0123456789",
        "EDGEWISE_SERVER_KEY": "l-key-0123456789",
    },
    "keys": {"ann": {"key_env": "ANN_KEY"}, "bob": {"key_env": "BOB_KEY"}},
}


def ask(served: Served, headers: dict[str, str] | None = None, **body: Any) -> dict[str, Any]:
    answer = served.chat(headers=headers, **body)
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()["edgewise"]
    return told


def say(served: Served, body: Any, headers: dict[str, str] | None = None) -> Any:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return served.http.post("/edgewise/feedback", content=content, headers=headers or {})


@pytest.fixture
def calibrated(tmp_path: Path) -> dict[str, Any]:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(CHAT))
    return {"calibration": str(path), "max_error": 0.1}


def test_a_key_judges_its_own_requests_and_an_admin_all_of_them(serving: Serving) -> None:
    served = serving(**KEYS)
    told = ask(served, ANN)
    theirs = say(served, {"id": told["id"], "right": False}, BOB)
    nobodys = say(served, {"id": "nobody's", "right": False}, BOB)
    assert theirs.status_code == nobodys.status_code == 404
    assert theirs.json() == nobodys.json(), "not even whether it is there"
    assert say(served, {"id": told["id"], "right": False}).status_code == 401
    assert say(served, {"id": told["id"], "right": True}, ANN).json() == {
        "id": told["id"],
        "right": True,
        "workload": "ann",
    }
    assert say(served, {"id": told["id"], "right": False}, LEAD).status_code == 200
    (said,) = served.state.engine.ledger.verdicts("ann")
    assert not said.right, "the second verdict counts"
    sure = ask(served, ANN)["id"]
    assert say(served, {"id": sure, "right": True, "above": 1}, ANN).status_code == 400
    assert say(served, {"id": sure, "right": True, "above": 0.6}, ANN).status_code == 200
    assert served.state.engine.ledger.verdicts("ann")[-1].above == 0.6


def test_what_one_key_proves_is_promised_to_that_key_only_whole_or_streamed(
    serving: Serving, cloud: LoopbackCloud, calibrated: dict[str, Any]
) -> None:
    served = serving(settings=calibrated, **KEYS)
    cloud.always("Paris.")
    for _ in range(60):
        assert say(served, {"id": ask(served, ANN)["id"], "right": True}, ANN).status_code == 200
    proven = "proven by 60 verdicts of this workload"
    assert proven in ask(served, ANN)["decision"]["reason"]
    with served.http.stream(
        "POST",
        "/v1/chat/completions",
        json={"model": "auto", "messages": [{"role": "user", "content": "Where?"}], "stream": True},
        headers=ANN,
    ) as response:
        assert proven in response.read().decode()
    assert proven not in ask(served, BOB)["decision"]["reason"]

    def workloads(headers: dict[str, str]) -> dict[str, str]:
        found = served.http.get("/edgewise/overview/1h", headers=headers).json()["workloads"]
        return {each["workload"]: each["words"] for each in found}

    assert list(workloads(ANN)) == ["ann"] and list(workloads(BOB)) == ["bob"]
    assert "60 verdicts prove it" in workloads(LEAD)["ann"]
    assert "more right verdicts 10 % can be promised here" in workloads(LEAD)["bob"]


def test_the_list_of_requests_says_what_was_judged(serving: Serving) -> None:
    served = serving()
    first, second = ask(served)["id"], ask(served)["id"]
    say(served, {"id": first, "right": False})
    rows = served.http.get("/edgewise/requests").json()["requests"]
    assert {row["id"]: row["verdict"] for row in rows} == {first: False, second: None}
    assert served.http.get(f"/edgewise/requests/{first}").json()["verdict"] is False


def test_an_answer_is_judged_by_the_id_that_its_api_gave_it(
    serving: Serving, cloud: LoopbackCloud
) -> None:
    served = serving()
    asked = [{"role": "user", "content": "Where?"}]
    for path, body in (
        ("/v1/chat/completions", {"model": "local", "messages": asked}),
        ("/v1/responses", {"model": "local", "input": "Where?"}),
        ("/v1/messages", {"model": "local", "max_tokens": 50, "messages": asked}),
    ):
        answer = served.http.post(path, json=body)
        assert say(served, {"id": answer.json()["id"], "right": True}).status_code == 200, path
    assert len(served.state.engine.ledger.verdicts("")) == 3


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"no json",
        b'{"id": "x", "right": NaN}',
        {"id": "x"},
        {"right": True},
        {"id": "x", "right": "true"},
        {"id": "x", "right": 1},
        {"id": ["x"], "right": True},
        {"id": None, "right": True},
    ],
)
def test_a_hostile_body_is_refused_and_named(serving: Serving, body: Any) -> None:
    served = serving()
    answer = say(served, body)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["message"]


@pytest.mark.parametrize("name", ["", "x" * 100_000, "'; DROP TABLE verdicts; --", "a/b", "\x00"])
def test_no_id_does_any_harm(serving: Serving, name: str) -> None:
    served = serving()
    assert say(served, {"id": name, "right": True}).status_code == 404
    assert say(served, {"id": "\ud800", "right": True}).status_code == 400, "no text"
    assert served.state.engine.ledger.verify() == []


def test_a_private_request_teaches_nothing(serving: Serving) -> None:
    served = serving()
    told = ask(served, metadata={"edgewise_privacy": "private"})
    refused = say(served, {"id": told["id"], "right": True})
    assert refused.status_code == 400 and "learn_from_private" in refused.text


def test_a_ledger_that_cannot_be_written_is_an_error_and_no_silence(serving: Serving) -> None:
    served = serving()
    told = ask(served)
    ledger = served.state.engine.ledger
    ledger.close()
    with sqlite3.connect(ledger.path, isolation_level=None) as other:
        other.execute("DROP TABLE verdicts")
    other.close()
    answer = say(served, {"id": told["id"], "right": True})
    assert answer.status_code == 503, answer.text
    assert "ledger" in answer.json()["error"]["message"]


def test_many_verdicts_at_once_are_all_there(serving: Serving) -> None:
    served = serving()
    names = [ask(served)["id"] for _ in range(12)]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda name: say(served, {"id": name, "right": True}), names * 2))
    assert {answer.status_code for answer in answers} == {200}
    assert {each.id for each in served.state.engine.ledger.verdicts("")} == set(names)


# -- what left, and was answered here afterwards ---------------------------------------------------


def test_what_left_over_http_is_a_verdict_for_the_key_that_asked(
    serving: Serving, cloud: LoopbackCloud, tmp_path: Path
) -> None:
    path = tmp_path / "nothing.json"
    path.write_text(json.dumps(CHAT | {"risk": {"whole": [[0.9, 200, 100]]}}))
    cloud.always(CloudAnswer(text="It is Paris."))
    risk = {"calibration": str(path), "max_error": 0.1, "audit_share": 1.0}
    served = serving(ScriptedBackend.confident("Paris"), settings=risk, **KEYS)
    client = served.openai("a-key-0123456789")

    def of_ann(number: int) -> str:
        if number % 2:
            reply = client.chat.completions.create(model="auto", messages=HELLO)
            return str(reply.choices[0].message.content)
        chunks = client.chat.completions.create(model="auto", messages=HELLO, stream=True)
        return "".join(each.choices[0].delta.content or "" for each in chunks if each.choices)

    with ThreadPoolExecutor(8) as many:
        assert set(many.map(of_ann, range(16))) == {"It is Paris."}
    ask(served, BOB)
    served.settle()
    engine = served.state.engine
    assert engine.parts.auditor is not None and engine.parts.auditor.wait(60)
    said = engine.ledger.verdicts("ann")
    assert [each.right for each in said] == [True] * 16
    assert len(engine.ledger.verdicts("bob")) == 1
    assert len(cloud.requests) == 17, "no question more than the users asked"
