"""Typed questions over HTTP: TypeSafe's wire, OpenAI's, and the path that both share."""

from __future__ import annotations

import gzip
import json
from typing import Any

import httpx2
import pytest

from edgewise.record.ledger import Ledger
from edgewise.server.decisions import wire_confidence
from edgewise.testing import Answer, LoopbackCloud, ScriptedBackend
from edgewise.types.messages import Choice, Score, YesNo
from tests.server.conftest import Serving
from tests.server.served import Served

STATE = {"message": "Charged twice, fix it today"}
BY_NAME: dict[str, Any] = {
    "refund": {"type": "noul", "instructions": "Does the customer want money back?"},
    "team": {
        "type": "choice",
        "instructions": "Who should take it?",
        "criteria": {"billing": "payments", "tech": None},
    },
    "anger": {"type": "score", "instructions": "How angry?", "criteria": ["calm", "furious"]},
}
LISTED: list[dict[str, Any]] = [
    {"type": "predicate", "name": "refund", "instructions": "The customer wants money back."},
    {
        "type": "choice",
        "name": "team",
        "instructions": [{"type": "input_text", "text": "Who should take it?"}],
        "choices": [{"value": "billing", "description": "payments"}, {"value": "tech"}],
    },
    {
        "type": "score",
        "instructions": "How angry?",
        "levels": [{"label": "calm"}, {"label": "furious", "description": "shouts"}],
    },
]
CHANCES: dict[str, float | dict[str, float]] = {
    "refund": 0.96,
    "team": {"billing": 0.9, "tech": 0.1},
    "anger": {"0": 0.2, "1": 0.8},
    "question 3": {"0": 0.2, "1": 0.8},
}
SURE = {"threshold": 0.0}


@pytest.fixture
def served(serving: Serving) -> Served:
    """A device that decides, and keeps whatever it says."""
    return serving(ScriptedBackend.deciding(CHANCES), settings=SURE)


def by_name(served: Served, path: str = "/v1/systemone", **more: Any) -> httpx2.Response:
    headers = more.pop("headers", {})
    whole = {"model": "auto", "state": STATE, "questions": BY_NAME, **more}
    return served.http.post(path, json=whole, headers=headers)


def listed(served: Served, **more: Any) -> httpx2.Response:
    headers = more.pop("headers", {})
    whole = {"model": "auto", "input": "Charged twice", "questions": LISTED, **more}
    return served.http.post("/v1/decisions", json=whole, headers=headers)


# -- answers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/v1/systemone", "/v1/decisions"])
def test_questions_by_name_are_answered_by_name(served: Served, path: str) -> None:
    answer = by_name(served, path)
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert body["answers"]["refund"] == {"type": "noul", "noul": pytest.approx(0.96)}
    team, anger = body["answers"]["team"], body["answers"]["anger"]
    assert team["choice"] == "billing" and team["confidence"] == pytest.approx(0.8)
    assert team["probabilities"] == pytest.approx({"billing": 0.9, "tech": 0.1})
    assert anger["score"] == pytest.approx(0.8)
    assert anger["legend"] == {"0": "calm", "1": "furious"}
    assert body["model"] == "local/scripted-1"
    assert set(body["usage"]) == {"input_tokens", "output_tokens"}
    assert answer.headers["x-typesafe-request-id"] == body["edgewise"]["id"]
    assert answer.headers["x-edgewise-source"] == "local"


def test_a_list_of_questions_is_answered_in_its_order(served: Served) -> None:
    answer = listed(served)
    assert answer.status_code == 200, answer.text
    refund, team, anger = answer.json()["answers"]
    assert refund == {"type": "predicate", "name": "refund", "probability": pytest.approx(0.96)}
    assert (team["name"], team["choice"]) == ("team", "billing")
    assert [row["value"] for row in team["probabilities"]] == ["billing", "tech"]
    assert anger["name"] is None and anger["score"] == pytest.approx(0.8)
    assert [(row["value"], row["label"]) for row in anger["probabilities"]] == [
        (0, "calm"),
        (1, "furious"),
    ]
    assert answer.headers["x-request-id"] == answer.json()["edgewise"]["id"]


def test_each_answer_says_who_gave_it_and_why(served: Served) -> None:
    told = by_name(served).json()["edgewise"]
    assert set(told["answers"]) == set(BY_NAME)
    assert told["answers"]["team"]["source"] == "local"
    assert told["answers"]["team"]["code"] == "kept_confident"
    assert 0 <= told["answers"]["team"]["confidence"] <= 1
    assert [each["source"] for each in listed(served).json()["edgewise"]["answers"]] == [
        "local"
    ] * 3


def test_a_boolean_is_another_choice_than_its_word(served: Served) -> None:
    values = [{"value": True}, {"value": "true"}, {"value": False}]
    question = {"type": "choice", "instructions": "Which?", "choices": values}
    answer = listed(served, questions=[question])
    (found,) = answer.json()["answers"]
    assert [row["value"] for row in found["probabilities"]] == [True, "true", False]


def test_a_conversation_can_be_asked_about(served: Served) -> None:
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "Was it paid twice?"}]},
        {"type": "function_call", "call_id": "1", "name": "look_up", "arguments": '{"id": 7}'},
        {"type": "function_call_output", "call_id": "1", "output": "paid twice"},
        {"role": "assistant", "content": "Yes."},
    ]
    assert listed(served, input=items).status_code == 200
    for part in ({"type": "input_json", "data": {"paid": 2}}, items[0]["content"][0]):  # type: ignore[index]
        assert listed(served, input=[{"role": "user", "content": [part]}]).status_code == 200


@pytest.mark.parametrize("name", ["jev-latest", "gpt-6-luna", "auto"])
def test_the_names_that_clients_ask_for_by_themselves_mean_auto(served: Served, name: str) -> None:
    assert by_name(served, model=name).json()["edgewise"]["source"] == "local"
    assert listed(served, model=name).json()["edgewise"]["source"] == "local"


def test_a_model_of_a_cloud_can_be_named(serving: Serving, cloud: LoopbackCloud) -> None:
    served = serving(ScriptedBackend.deciding(CHANCES), settings=SURE)
    answer = by_name(served, model="cloud/openai/gpt-6-luna").json()
    assert answer["model"] == "cloud/openai/gpt-6-luna"
    assert [seen.path for seen in cloud.requests] == ["/v1/decisions"]


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_a_packed_body_is_unpacked(served: Served, encoding: str) -> None:
    plain = json.dumps({"model": "auto", "state": "x" * 2000, "questions": BY_NAME}).encode()
    zstd: Any = pytest.importorskip("backports.zstd") if encoding == "zstd" else None
    packed = zstd.compress(plain) if zstd else gzip.compress(plain)
    headers = {"content-type": "application/json", "content-encoding": encoding}
    answer = served.http.post("/v1/systemone", content=packed, headers=headers)
    assert answer.status_code == 200, answer.text


def test_the_models_are_listed_for_both_kinds_of_clients(served: Served) -> None:
    found = served.http.get("/v1/models").json()
    assert [row["name"] for row in found["models"]] == [row["id"] for row in found["data"]]
    assert set(found["models"][0]) == {"name", "description", "release_date"}


def test_what_a_wire_calls_confidence_is_how_far_from_even_the_chances_are() -> None:
    assert wire_confidence(Choice(["a"]), {"a": 1.0}) == 1.0
    assert wire_confidence(Choice(["a", "b"]), {"a": 0.93, "b": 0.07}) == pytest.approx(0.86)
    even = {"0": 1 / 3, "1": 1 / 3, "2": 1 / 3}
    assert wire_confidence(Score(["a", "b", "c"]), even) == pytest.approx(0.0)
    assert wire_confidence(Score(["a", "b", "c"]), {"0": 0, "1": 1, "2": 0}) == 1.0
    assert wire_confidence(Score(["a", "b"]), {"0": 0.5, "1": 0.5}) == pytest.approx(0.0)
    assert wire_confidence(YesNo("?"), {"true": 0.5, "false": 0.5}) == 0.0


# -- where a question may go -----------------------------------------------------------------------


def test_the_doubtful_question_alone_leaves_and_says_so(
    serving: Serving, cloud: LoopbackCloud
) -> None:
    served = serving(
        ScriptedBackend.deciding({**CHANCES, "refund": 0.5}), settings={"threshold": 0.4}
    )
    cloud.script(Answer(chances=({"true": 0.25},)))
    body = by_name(served, headers={"x-edgewise-threshold": "0.52"}).json()
    (asked,) = cloud.requests
    assert asked.path == "/v1/decisions" and len(asked.body["questions"]) == 1
    assert body["answers"]["refund"]["noul"] == pytest.approx(0.25)
    sources = {name: each["source"] for name, each in body["edgewise"]["answers"].items()}
    assert sources == {"refund": "cloud", "team": "local", "anger": "local"}
    assert body["edgewise"]["source"] == "mixed"


def test_a_question_that_the_cloud_refuses_is_a_refusal_in_a_list(
    serving: Serving, cloud: LoopbackCloud
) -> None:
    served = serving(settings={"policy": "cloud_only"})
    cloud.always(Answer(chances=({"true": 0.75}, None, {"0": 1.0})))
    refund, team, anger = listed(served).json()["answers"]
    assert (refund["probability"], anger["score"]) == (pytest.approx(0.75), 0.0)
    assert team == {"type": "refusal", "name": "team"}
    assert set(by_name(served).json()["answers"]) == {"refund", "anger"}


@pytest.mark.parametrize(
    "said", [{"headers": {"x-edgewise-privacy": "private"}}, {"metadata": {"privacy": "private"}}]
)
def test_a_private_question_never_leaves(
    serving: Serving, cloud: LoopbackCloud, said: dict[str, Any]
) -> None:
    served = serving(ScriptedBackend.deciding({}), settings={"threshold": 1.0})
    for answer in (by_name(served, **said), listed(served, **said)):
        assert answer.status_code == 200, answer.text
        assert answer.json()["edgewise"]["source"] == "local"
        assert answer.json()["edgewise"]["degraded_code"] == "private"
    assert not cloud.requests


def test_redacted_data_does_not_leave_and_comes_back(
    serving: Serving, cloud: LoopbackCloud
) -> None:
    served = serving(settings={"policy": "cloud_only"})
    questions = {"who": {"type": "choice", "criteria": {"ann@example.com": None, "other": None}}}
    cloud.script(Answer(chances=({"[EMAIL_1]": 0.75, "other": 0.25},)))
    answer = by_name(
        served,
        state="ann@example.com wrote",
        questions=questions,
        headers={"x-edgewise-redact": "EMAIL"},
    )
    assert b"example.com" not in cloud.requests[0].content
    assert answer.json()["answers"]["who"]["choice"] == "ann@example.com"


def test_a_budget_that_is_spent_keeps_the_questions_here(
    serving: Serving, cloud: LoopbackCloud
) -> None:
    served = serving(settings={"policy": "cloud_only", "budgets": ["$0.000001/day"]})
    answer = by_name(served)
    assert (answer.status_code, answer.json()["code"]) == (429, "budget_spent")
    answer = listed(served)
    assert (answer.status_code, answer.json()["error"]["code"]) == (429, "budget_spent")
    assert not cloud.requests


def test_the_bill_is_no_higher_than_what_was_reserved(
    serving: Serving, cloud: LoopbackCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserved: list[int] = []
    reserve = Ledger.reserve

    def noted(self: Ledger, attempt_id: str, request: Any, config: Any, micro: int) -> None:
        reserved.append(micro)
        reserve(self, attempt_id, request, config, micro)

    monkeypatch.setattr(Ledger, "reserve", noted)
    served = serving(settings={"policy": "cloud_only", "budgets": ["$1/day"]})
    # What is read once for each question, every character of it a token.
    cloud.script(Answer(input_tokens=3 * len(json.dumps(STATE))))
    cost = by_name(served).json()["edgewise"]["cost_microdollars"]
    assert 0 < cost <= reserved[0]


def test_a_question_called_policy_is_no_setting_of_ours(served: Served) -> None:
    questions = {"policy": BY_NAME["refund"], "privacy": BY_NAME["refund"]}
    answer = by_name(served, state={"private": "no"}, questions=questions)
    assert answer.status_code == 200, answer.text
    private = {"privacy": "private"}
    wrong: list[dict[str, Any]] = [private, {"options": private}]
    wrong.append({"extra_body": {"metadata": private}})
    for misplaced in wrong:
        assert by_name(served, **misplaced).status_code == 422, "there it would be passed over"
        assert listed(served, **misplaced).status_code == 400
    hidden = [{**LISTED[0], **private}]
    assert listed(served, questions=hidden).status_code == 400


# -- what is wrong ---------------------------------------------------------------------------------

WRONG: list[tuple[dict[str, Any], list[str | int], str]] = [
    ({"state": None}, ["state"], "expected text, an object or a list"),
    ({"state": 7}, ["state"], "expected text, an object or a list"),
    ({"questions": {}}, ["questions"], "is empty"),
    ({"questions": {"a": {"type": "box"}}}, ["questions", "a", "type"], "noul, choice, score"),
    (
        {"questions": {"a.b": {"type": "score", "instructions": "?"}}},
        ["questions", "a.b", "criteria"],
        "is required",
    ),
    ({"questions": {"a": {"type": "choice", "criteria": {}}}}, ["questions"], "is empty"),
    ({"assets": {"p": {"type": "image"}}}, ["assets"], "no model here decides about pictures"),
]


@pytest.mark.parametrize(("change", "place", "words"), WRONG, ids=lambda each: str(each)[:40])
@pytest.mark.parametrize("path", ["/v1/systemone", "/v1/decisions"])
def test_what_is_wrong_by_name_is_told_as_fastapi_would(
    served: Served, path: str, change: dict[str, Any], place: list[str | int], words: str
) -> None:
    answer = by_name(served, path, **change)
    assert answer.status_code == 422, answer.text
    (found,) = answer.json()["detail"]
    assert found["loc"][: 1 + len(place)] == ["body", *place]
    assert words in found["msg"]
    assert found["type"] == ("missing" if words == "is required" else "value_error")


def test_a_noul_that_asks_nothing_is_refused(served: Served) -> None:
    answer = by_name(served, questions={"a": {"type": "noul", "criteria": None}})
    assert answer.status_code == 422
    assert "questions['a']: there is no question" in answer.json()["detail"][0]["msg"]


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"input": None}, "input"),
        ({"questions": []}, "questions"),
        ({"questions": [{"type": "predicate"}]}, "questions[0].instructions"),
        ({"questions": [{"type": "noul", "instructions": "?"}]}, "questions[0].type"),
        (
            {"questions": [{**LISTED[1], "choices": [{"value": "a"}, {"value": "a"}]}]},
            "questions[0].choices[1].value",
        ),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image"}]}]},
            "input[0].content[0]",
        ),
    ],
)
def test_what_is_wrong_in_a_list_is_openais_error(
    served: Served, change: dict[str, Any], param: str
) -> None:
    answer = listed(served, **change)
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert (error["type"], error["param"]) == ("invalid_request_error", param)


def test_pictures_in_a_form_are_refused_clearly(served: Served) -> None:
    answer = served.http.post("/v1/systemone", files={"request": ("r", b"{}"), "asset-0": b"png"})
    assert answer.status_code == 422
    assert "no model here decides about pictures" in answer.json()["detail"][0]["msg"]


def test_a_key_is_asked_for_in_the_words_of_the_wire(serving: Serving) -> None:
    device = ScriptedBackend.deciding(CHANCES)
    served = serving(device, settings=SURE, environment={"EDGEWISE_SERVER_KEY": "secret-key-0123"})
    refused = by_name(served)
    assert (refused.status_code, refused.json()["code"]) == (401, "invalid_api_key")
    assert listed(served).json()["error"]["code"] == "invalid_api_key"
    for name, value in (("x-api-key", ""), ("authorization", "Bearer ")):
        assert by_name(served, headers={name: f"{value}secret-key-0123"}).status_code == 200


def test_a_path_that_only_one_wire_has_refuses_in_its_words(served: Served) -> None:
    answer = served.http.get("/v1/systemone")
    assert (answer.status_code, set(answer.json())) == (405, {"detail", "code"})


def test_a_device_that_cannot_decide_without_a_cloud_says_so(serving: Serving) -> None:
    served = serving(environment={"OPENAI_API_KEY": ""})
    answer = by_name(served)
    assert answer.status_code in (400, 503), answer.text
    assert answer.json()["code"]


def test_a_decision_is_in_the_metrics_and_in_the_ledger(served: Served) -> None:
    made = by_name(served).json()["edgewise"]["id"]
    served.settle()
    assert served.metric("edgewise_requests_total{") >= 1
    row = served.http.get(f"/edgewise/requests/{made}").json()
    assert row["task"] == "decide"
