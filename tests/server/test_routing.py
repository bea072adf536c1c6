"""How a request says where it may go: model names, metadata, headers."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from edgewise.server.body import BadField
from edgewise.server.errors import Refusal
from edgewise.server.routing import read_routing, resolve_model
from edgewise.testing import LoopbackCloud, ScriptedBackend, ScriptedFunctionModel, Status
from edgewise.testing.scripted import SCRIPTED_FUNCTION_MODEL_FACTS
from tests.server.conftest import Serving
from tests.server.served import HELLO, Served


def test_metadata_and_headers_are_read_and_headers_win() -> None:
    metadata = {"policy": "prefer_local", "threshold": 0.1, "edgewise_threshold": "0.4"}
    headers = {"x-edgewise-policy": "cloud_only", "x-edgewise-privacy": "private"}
    assert read_routing(metadata, headers) == {
        "policy": "cloud_only",
        "threshold": 0.4,
        "private": True,
    }


@pytest.mark.parametrize("strict", ["privacy", "edgewise_privacy", "x-edgewise-privacy"])
def test_private_stays_private_whatever_else_is_said(strict: str) -> None:
    places = ("privacy", "edgewise_privacy", "x-edgewise-privacy")
    said = {place: "private" if place == strict else "open" for place in places}
    headers = {"x-edgewise-privacy": said.pop("x-edgewise-privacy")}
    assert read_routing(said, headers) == {"private": True}


def test_what_keeps_a_request_in_adds_up() -> None:
    metadata = {"redact": "EMAIL", "edgewise_redact": "CARD", "private_kinds": "all"}
    headers = {"x-edgewise-redact": "false", "x-edgewise-private-kinds": "EMAIL"}
    found = read_routing({**metadata, "policy": "local_only"}, {"x-edgewise-policy": "cloud_only"})
    assert found["policy"] == "local_only"
    found = read_routing(metadata, headers)
    assert found == {"redact": ("EMAIL", "CARD"), "private_kinds": ("ALL", "EMAIL")}


def test_a_model_in_the_cloud_does_not_let_out_what_must_stay(
    served: Served, cloud: LoopbackCloud
) -> None:
    for extra in ({"metadata": {"policy": "local_only"}}, {"metadata": {"privacy": "private"}}):
        served.chat(model="cloud/openai", **extra)
    told = served.chat(model="cloud/openai", headers={"x-edgewise-policy": "local_only"}).json()
    assert told["edgewise"]["decision"]["code"] == "policy_local_only"
    assert not cloud.requests


@pytest.mark.parametrize(
    ("headers", "metadata", "words"),
    [
        ({"x-edgewise-private": "true"}, {}, "x-edgewise-private: .*x-edgewise-privacy"),
        ({"x-edgewise_privacy": "private"}, {}, "x-edgewise_privacy: .*x-edgewise-privacy"),
        ({"x-edgewise-": "x"}, {}, "x-edgewise-… is policy, privacy"),
        ({}, {"edgewise_private": True}, "metadata.edgewise_private: .*edgewise_privacy"),
        ({}, {"edgewise_zzz": 1}, "edgewise_… is policy, privacy"),
    ],
    ids=str,
)
def test_a_name_of_ours_that_is_misspelt_is_refused_with_the_nearest(
    served: Served, headers: dict[str, str], metadata: dict[str, Any], words: str
) -> None:
    with pytest.raises(BadField, match=words):
        read_routing(metadata, headers)
    answer = served.chat(headers=headers, metadata=metadata)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"].endswith(next(iter({**headers, **metadata})))


def test_other_names_in_metadata_are_the_client_s_own() -> None:
    assert read_routing({"user_id": "7", "private": True}, {"x-other": "1"}) == {}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("threshold", "2"),
        ("threshold", True),
        ("threshold", "nan"),
        ("max_error", "0"),
        ("max_error", "5"),
        ("max_error", "100%"),
        ("error_probability", "1"),
        ("cloud_share", "120%"),
        ("cloud_share", True),
        ("deadline_ms", "0"),
        ("privacy", "secret"),
        ("handoff", 5),
        ("policy", ""),
        ("budget_key", ["x"]),
        ("redact", 5),
        ("redact", "e-mail"),
        ("redact", " "),
        ("redact", ["EMAIL", 5]),
        ("private_kinds", {}),
        ("context", "Oslo"),
        ("context", "[" * 20_000),
        ("context", ["Oslo"]),
        ("context", {"place": {"a": {"b": {"c": 1}}}}),
    ],
)
def test_a_wrong_value_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(BadField) as caught:
        read_routing({name: value}, {})
    assert caught.value.path == f"metadata.{name}"


@pytest.mark.parametrize("value", ["email, card", ["EMAIL", "CARD"]])
def test_kinds_come_as_a_list_or_as_its_text(value: Any) -> None:
    assert read_routing({"redact": value}, {}) == {"redact": ("EMAIL", "CARD")}
    assert read_routing({"private_kinds": value}, {}) == {"private_kinds": ("EMAIL", "CARD")}


@pytest.mark.parametrize("value", [True, "true", "all"])
def test_all_kinds_may_be_said_in_one_word(value: Any) -> None:
    assert read_routing({"edgewise_redact": value}, {}) == {"redact": ("ALL",)}


def test_a_kind_that_nothing_finds_is_a_bad_request(served: Served, cloud: LoopbackCloud) -> None:
    refused = served.chat(model="cloud/openai", headers={"x-edgewise-redact": "EMIAL"})
    assert refused.status_code == 400 and "EMIAL" in refused.json()["error"]["message"]
    assert not cloud.requests


@pytest.mark.parametrize("value", ["5%", "5 %", "0.05", 0.05])
def test_a_share_of_errors_may_be_said_in_percent(value: Any) -> None:
    assert read_routing({"max_error": value}, {}) == {"max_error": 0.05}
    assert read_routing({}, {"x-edgewise-cloud-share": "20%"}) == {"cloud_share": 0.2}
    headers = {"x-edgewise-max-error": "0.2", "x-edgewise-error-probability": "1%"}
    assert read_routing({}, headers) == {"max_error": 0.2, "error_probability": 0.01}


def test_facts_come_as_an_object_or_as_its_text() -> None:
    facts = {"place": "Oslo", "entities": [{"name": "Lamp", "area": None}], "floors": [1, 2]}
    assert read_routing({"context": facts}, {}) == {"context": facts}
    assert read_routing({"edgewise_context": json.dumps(facts)}, {}) == {"context": facts}
    assert read_routing({}, {"x-edgewise-context": '{"place": "Oslo"}'})["context"] == {
        "place": "Oslo"
    }


def test_a_question_of_the_device_is_content_with_what_it_needs(serving: Serving) -> None:
    facts = replace(SCRIPTED_FUNCTION_MODEL_FACTS, call_format="conversation")
    device = ScriptedFunctionModel(["ask set_timer: minutes"], logprobs=[[-0.001]], facts=facts)
    served = serving(function_model=device)
    schema = {"type": "object", "properties": {"minutes": {"type": "integer"}}}
    tool = {"name": "set_timer", "parameters": {**schema, "required": ["minutes"]}}
    answer = served.chat(
        messages=[{"role": "user", "content": "Set a timer"}],
        tools=[{"type": "function", "function": tool}],
        metadata={"context": {"place": "Bodø"}},
    ).json()
    assert answer["choices"][0]["message"]["content"] == "How many minutes?"
    assert answer["edgewise"]["needs"] == ["minutes"]
    assert "place: Bodø" in device.asked[0].prompt


def test_names_of_models() -> None:
    def route(name: str, any_model: bool = True) -> tuple[object, str]:
        found = resolve_model(name, local_model="small", any_model=any_model)
        return found.options.get("policy"), found.cloud

    assert route("auto") == (None, "")
    assert route("gpt-4o") == (None, "")
    assert route("local") == route("local/small") == ("local_only", "")
    assert route("cloud") == route("cloud/auto") == ("cloud_only", "")
    assert route("cloud/openai/gpt-6-luna") == ("cloud_only", "openai/gpt-6-luna")


def test_a_name_nobody_knows_is_404_where_names_are_strict(serving: Serving) -> None:
    served = serving(any_model=False)
    response = served.chat(model="gpt-4o")
    assert response.status_code == 404
    assert response.json()["error"]["code"] == "model_not_found"
    assert served.chat(model="local/other").status_code == 404
    assert served.chat(model="local/scripted-1").status_code == 200


def test_a_provider_nobody_knows_is_the_request_s_fault(served: Served) -> None:
    response = served.chat(model="cloud/nosuch/model")
    assert response.status_code == 400
    assert "nosuch" in response.json()["error"]["message"]


def test_a_named_cloud_model_is_the_one_that_is_asked(
    serving: Serving, cloud: LoopbackCloud
) -> None:
    served = serving()
    answer = served.chat(model="cloud/openai/some-other-model").json()
    assert answer["model"] == "cloud/openai/some-other-model"
    assert cloud.requests[0].body["model"] == "some-other-model"


def test_a_private_request_never_leaves_through_either_way(
    serving: Serving, cloud: LoopbackCloud
) -> None:
    served = serving(ScriptedBackend.doubtful("Perhaps Lyon."))
    by_metadata = served.chat(metadata={"privacy": "private"}).json()
    by_header = served.chat(headers={"x-edgewise-privacy": "private"}).json()
    for body in (by_metadata, by_header):
        assert body["edgewise"]["source"] == "local"
        assert body["edgewise"]["degraded_code"] == "private"
    refused = served.chat(model="cloud/openai", metadata={"privacy": "private"})
    assert refused.status_code == 400
    assert refused.json()["error"]["code"] == "private"
    assert not cloud.requests


def test_the_signal_works_over_http(serving: Serving, cloud: LoopbackCloud) -> None:
    served = serving(ScriptedBackend.doubtful("Perhaps Lyon."))
    response = served.chat(metadata={"handoff": "signal"})
    body = response.json()
    assert response.status_code == 200
    assert body["choices"][0]["message"]["content"] is None
    said = body["edgewise"]
    assert (said["success"], said["cloud_handoff"], said["response"]) == (True, True, None)
    assert said["decision"]["code"] == "signalled_low_confidence"
    assert response.headers["x-edgewise-handoff"] == "signal"
    chunks = served.chunks(metadata={"handoff": "signal"})
    assert chunks[-1]["edgewise"]["cloud_handoff"] is True
    for path, body in (
        ("/v1/responses", {"input": "Hello?"}),
        ("/v1/messages", {"messages": HELLO, "max_tokens": 9}),
    ):
        asked = {"model": "auto", "metadata": {"edgewise_handoff": "signal"}, **body}
        assert served.http.post(path, json=asked).json()["edgewise"]["cloud_handoff"] is True
    assert not cloud.requests


def test_a_risk_that_cannot_be_promised_goes_to_the_cloud(
    serving: Serving, cloud: LoopbackCloud
) -> None:
    served = serving(backend=ScriptedBackend.confident("Paris."))
    told = served.chat(headers={"x-edgewise-max-error": "5%"}).json()["edgewise"]
    assert told["decision"]["code"] == "handoff_risk_unreachable"
    assert told["decision"]["objective"].startswith("an error of at most 5 % with probability 90 %")


def test_two_aims_are_a_bad_request(serving: Serving) -> None:
    served = serving(backend=ScriptedBackend.confident("Paris."))
    both = {"x-edgewise-max-error": "5%", "x-edgewise-threshold": "0.5"}
    answer = served.chat(headers=both)
    assert answer.status_code == 400
    assert "threshold and max_error" in answer.json()["error"]["message"]


def test_a_threshold_decides(serving: Serving, cloud: LoopbackCloud) -> None:
    served = serving()
    assert served.chat(metadata={"threshold": "0.999"}).json()["edgewise"]["source"] == "cloud"
    low = served.chat(headers={"x-edgewise-threshold": "0"}).json()
    assert low["edgewise"]["source"] == "local"


def test_a_budget_key_is_counted_and_a_spent_budget_is_not_retried(
    serving: Serving, cloud: LoopbackCloud
) -> None:
    served = serving(settings={"budgets": ["app: $0.000001/day"]})
    free = served.chat(model="cloud/openai", metadata={"budget_key": "other"})
    assert free.status_code == 200
    spent = served.chat(model="cloud/openai", metadata={"budget_key": "app"})
    assert spent.status_code == 429
    assert spent.json()["error"]["code"] == "budget_spent"
    assert spent.json()["error"]["type"] == "insufficient_quota"
    assert spent.headers["x-should-retry"] == "false"


def test_a_degraded_answer_says_why(serving: Serving, cloud: LoopbackCloud) -> None:
    served = serving(ScriptedBackend.doubtful("Perhaps Lyon."))
    cloud.always(Status(503))
    response = served.chat()
    assert response.headers["x-edgewise-degraded"] == "cloud_server_error"
    assert response.json()["edgewise"]["degraded"] is True


def test_the_local_model_may_be_named_by_its_rung() -> None:
    device = "smollm2-135m-instruct"
    found = resolve_model("local/tiny", local_model=device, any_model=False)
    assert found.options == {"policy": "local_only"}
    with pytest.raises(Refusal, match="the local model is local/smollm2-135m-instruct"):
        resolve_model("local/standard", local_model=device, any_model=False)
