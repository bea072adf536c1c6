"""How a request says where it may go: model names, metadata, headers."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from edgewise import shared_engine
from edgewise.server.body import BadField
from edgewise.server.errors import Refusal
from edgewise.server.wire import read_routing, resolve_model
from edgewise.testing import (
    Answer,
    LoopbackCloud,
    ScriptedBackend,
    ScriptedFunctionModel,
    SeenRequest,
    Status,
)
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
    assert read_routing({"user_id": "7", "privacy_notice": "x"}, {"x-other": "1"}) == {}


# -- our words where nobody reads them -----------------------------------------------------------

PRIVATELY: dict[str, Any] = {"privacy": "private"}
SAID = "in the header x-edgewise-"
# Each way to say something that is not read, as it is added to a good body.
MISPLACED: list[dict[str, Any]] = [
    {"private": True},
    {"privacy": "private"},
    {"policy": "local_only"},
    {"local_only": True},
    {"localOnly": True},
    {"private_kinds": ["CARD"]},
    {"privateKinds": "CARD"},
    {"redact": True},
    {"edgewise": PRIVATELY},
    {"edgewise_privacy": "private"},
    {"x-edgewise-privacy": "private"},
    {"metadata": {"private": True}},
    {"metadata": {"Privacy": "private"}},
    {"metadata": {"private-kinds": "CARD"}},
    {"metadata": {"edgewise": PRIVATELY}},
    {"metadata": {"x-edgewise-privacy": "private"}},
    {"options": PRIVATELY},
    {"options": {"metadata": PRIVATELY}},
    {"extra_body": {"metadata": PRIVATELY}},
    {"extra_headers": {"x-edgewise-privacy": "private"}},
]
HI = [{"role": "user", "content": "Hi"}]
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"model": "cloud", "messages": HI},
    "/v1/responses": {"model": "cloud", "input": "Hi"},
    "/v1/messages": {"model": "cloud", "max_tokens": 9, "messages": HI},
    "/v1/embeddings": {"model": "cloud", "input": "Hi"},
    "/api/chat": {"model": "cloud", "messages": HI, "stream": False},
    "/api/generate": {"model": "cloud", "prompt": "Hi", "stream": False},
    "/api/embed": {"model": "cloud", "input": "Hi"},
    "/api/embeddings": {"model": "cloud", "prompt": "Hi"},
}


def words_of(answer: Any) -> str:
    """The message of an error in its API's own form."""
    error = answer.json()["error"]
    path = str(answer.request.url.path)
    assert ("type" in answer.json()) == path.startswith("/v1/messages")
    return str(error if path.startswith("/api/") else error["message"])


@pytest.mark.parametrize("path", BODIES)
def test_our_words_count_where_they_are_read_and_are_refused_elsewhere(
    served: Served, cloud: LoopbackCloud, path: str
) -> None:
    for extra in MISPLACED:
        answer = served.http.post(path, json={**BODIES[path], **extra})
        assert answer.status_code == 400, (extra, answer.text)
        assert SAID in words_of(answer), extra
    assert not cloud.requests
    for extra in ({"metadata": {"user_id": "me", "trace": {"private": 1}}}, {"private": None}):
        assert served.http.post(path, json={**BODIES[path], **extra}).status_code != 400, extra


@pytest.mark.parametrize("path", [*BODIES, "/v1/audio/transcriptions"])
@pytest.mark.parametrize(
    "name", ["privacy", "private", "metadata[privacy]", "edgewise", "policy", "options.privacy"]
)
def test_our_words_in_a_query_are_refused(
    served: Served, cloud: LoopbackCloud, path: str, name: str
) -> None:
    answer = served.http.post(path, json=BODIES.get(path), params={name: "private"})
    assert answer.status_code == 400 and SAID in words_of(answer)
    assert not cloud.requests


@pytest.mark.parametrize("name", ["privacy", "x-privacy", "private", "edgewise-privacy"])
def test_our_words_in_headers_of_another_name_are_refused(
    served: Served, cloud: LoopbackCloud, name: str
) -> None:
    answer = served.chat(model="cloud", headers={name: "private"})
    assert answer.status_code == 400 and SAID in words_of(answer)
    assert served.chat(headers={"x-trace-id": "1", "referrer-policy": "origin"}).status_code == 200
    assert not cloud.requests


def test_our_words_in_messages_are_refused_and_the_client_s_data_is_its_own(
    served: Served, cloud: LoopbackCloud
) -> None:
    said = {"role": "user", "content": "Hi", "metadata": PRIVATELY}
    assert served.chat(model="cloud", messages=[said]).status_code == 400
    part = {"type": "text", "text": "Hi", "private": True}
    refused = served.chat(model="cloud", messages=[{"role": "user", "content": [part]}])
    assert "messages[0].content[0].private: does not count here" in words_of(refused)
    assert not cloud.requests
    schema = {"type": "object", "properties": {"private": {"type": "boolean"}}}
    tool = {"type": "function", "function": {"name": "post", "parameters": schema}}
    arguments = '{"private": true, "private": false}'
    call = {"id": "a", "function": {"name": "post", "arguments": arguments}, "type": "function"}
    good = served.chat(
        messages=[
            *HI,
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "a", "content": '{"privacy": "private"}'},
        ],
        tools=[tool],
        tool_choice="none",
        store=False,
        safety_identifier="x",
        metadata={"context": {"privacy": "our notice"}},
    )
    assert good.status_code == 200, good.text
    ollama = {**BODIES["/api/chat"], "model": "auto", "format": schema, "keep_alive": "5m"}
    ollama["options"] = {"temperature": 0, "num_ctx": 4096, "seed": 1}
    assert served.http.post("/api/chat", json=ollama).status_code == 200


@pytest.mark.parametrize("path", BODIES)
def test_a_name_that_is_given_twice_is_refused(
    served: Served, cloud: LoopbackCloud, path: str
) -> None:
    body = json.dumps(BODIES[path])[:-1]
    for twice in (
        '"metadata": {"privacy": "private"}, "metadata": {}',
        '"metadata": {"privacy": "private", "privacy": "open"}',
        '"metadata": {"privacy": "private", "pr\\u0069vacy": "open"}',
        '"model": "local", "model": "cloud"',
    ):
        answer = served.http.post(path, content=f"{body}, {twice}}}".encode())
        assert answer.status_code == 400 and "is given twice" in words_of(answer), answer.text
    assert not cloud.requests


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
    for name in ("Local", "LOCAL", "edgewise/local", "Edgewise/Local", "local:latest"):
        assert route(name) == ("local_only", ""), name
    assert route("Local/small") == route("edgewise/local/small") == ("local_only", "")
    assert route("Cloud/openai/GPT-6") == ("cloud_only", "openai/GPT-6")
    assert route("edgewise/auto") == route("Auto") == route("edgewise/gpt-4o") == (None, "")


@pytest.mark.parametrize("name", ["private", "Private", "local_only", "local-only", "privacy"])
def test_a_model_that_is_called_like_what_keeps_a_request_in_is_refused(
    served: Served, cloud: LoopbackCloud, name: str
) -> None:
    answer = served.chat(model=name)
    assert answer.status_code == 404 and "x-edgewise-privacy" in answer.json()["error"]["message"]
    assert not cloud.requests


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
    assert answer["model"] == "some-other-model"
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


def test_one_who_had_no_patience_does_not_close_the_cloud_for_another(
    serving: Serving, cloud: LoopbackCloud
) -> None:
    doubtful = ScriptedBackend.doubtful("Lyon.")
    served = serving(doubtful, settings={"patience_s": 0.2, "first_token_s": 60.0})
    cloud.script(Answer(text="Slow.", delay_first_s=60.0), Answer(text="Paris."))
    hurried = served.chat().json()
    assert hurried["edgewise"]["degraded_code"] == "cloud_timeout"
    patient = served.chat(metadata={"policy": "cloud_only"})
    assert patient.status_code == 200, patient.text
    assert patient.json()["choices"][0]["message"]["content"] == "Paris."


@pytest.mark.parametrize("status", [400, 403, 404])
def test_a_named_model_that_fails_closes_itself_alone(
    serving: Serving, cloud: LoopbackCloud, status: int
) -> None:
    served = serving()

    def reply(seen: SeenRequest) -> Answer | Status:
        return Status(status) if seen.body["model"] == "forbidden" else Answer(text="Paris.")

    cloud.always(reply)
    for _ in range(3):
        assert served.chat(model="cloud/openai/forbidden").status_code >= 400
    for model in ("cloud/openai/other", "cloud/openai", "cloud"):
        answer = served.chat(model=model)
        assert answer.status_code == 200, answer.text
    asked = [seen.body["model"] for seen in cloud.requests].count("forbidden")
    assert asked == (1 if status == 403 else 3), "one that is refused for good has a circuit, too"


def test_nonsense_names_take_no_place_from_models_that_answer(
    serving: Serving, cloud: LoopbackCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_engine, "MOST_CHOICES", 3)
    served = serving()

    def reply(seen: SeenRequest) -> Answer | Status:
        return Status(404) if "nonsense" in seen.body["model"] else Answer(text="Paris.")

    cloud.always(reply)
    for number in range(3):
        assert served.chat(model=f"cloud/openai/real-{number}").status_code == 200
    connections = cloud.connections
    for number in range(7):
        assert served.chat(model=f"cloud/openai/nonsense-{number}").status_code == 404
    made = cloud.connections - connections
    for number in range(3):
        assert served.chat(model=f"cloud/openai/real-{number}").status_code == 200
    assert cloud.connections - connections == made, "the real ones kept their connections"
    for number in range(5):
        assert served.chat(model=f"cloud/openai/new-{number}").status_code == 200
    assert len(served.state.engine.parts._named.doors()) == 3
