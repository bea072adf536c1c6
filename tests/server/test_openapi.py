"""The description is true: every route is in it, and requests made from it find no 5xx."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from starlette.routing import Route

from edgewise.server.app import make_app
from edgewise.server.openapi import document
from edgewise.server.wire import HEADER, Routing
from edgewise.settings import Settings
from edgewise.testing import (
    LoopbackCloud,
    ScriptedBackend,
    ScriptedEmbedder,
    ScriptedFunctionModel,
    ScriptedTranscriber,
    ScriptedVoice,
    heard,
)
from edgewise.testing.scripted import SCRIPTED_TRANSCRIBER_FACTS
from tests.server.conftest import Serving
from tests.server.served import Served
from tests.speech.made_voice import silence, voice, wav

DESCRIBED = document()
OPERATIONS = [
    (method, path)
    for path, operations in DESCRIBED["paths"].items()
    for method in operations
    if path != "/edgewise/events"  # does not end: looked at by itself
]
# Which nobody can guess.
NAMES = ("/v1/models/{model}", "/v1beta/models/{model}", "/edgewise/requests/{id}")
TALK = wav(silence(0.3), voice(1.0))
EXAMPLES = 40
CHECKS: list[Any] = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
]
DERANDOMISED = settings(
    max_examples=EXAMPLES,
    derandomize=True,  # the same requests every time, everywhere
    database=None,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


ASKED = "a-request-that-was-answered"


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with a scripted model for every endpoint, and a cloud that always answers."""
    with LoopbackCloud() as cloud:
        loaded = Settings.load(
            {"OPENAI_API_KEY": "sk-cloud-key-0123456789", "OPENAI_BASE_URL": cloud.openai_url},
            data_dir=tmp_path_factory.mktemp("data"),
            server={"port": 0},
        )
        parts = {
            "function_model": ScriptedFunctionModel(['set_timer {"minutes":5}']),
            "transcriber": ScriptedTranscriber(
                [[heard("the first part", 0.2, 2.0, 0.97)]],
                facts=replace(SCRIPTED_TRANSCRIBER_FACTS, translates=True),
            ),
            "voice": ScriptedVoice(),
            "embedder": ScriptedEmbedder(),
        }
        with Served.started(loaded, ScriptedBackend.confident("Paris."), **parts) as served:
            served.state.engine.complete("Where?", request_id=ASKED)
            yield served


@pytest.fixture(scope="module")
def schema(described: Served) -> Any:
    return schemathesis.openapi.from_url(f"{described.url}/openapi.json")


def served_routes(served: Served) -> set[tuple[str, str]]:
    routes = [each for each in make_app(served.state).routes if isinstance(each, Route)]
    return {
        (method.lower(), re.sub(r":\w+}", "}", route.path))
        for route in routes
        for method in (route.methods or ())
        if method != "HEAD"
    }


def test_every_route_is_described_and_every_described_one_exists(described: Served) -> None:
    written = {
        (method, path) for path, operations in DESCRIBED["paths"].items() for method in operations
    }
    assert written == served_routes(described)
    assert described.http.get("/openapi.json").json() == DESCRIBED


def test_every_way_to_route_a_request_is_described() -> None:
    headers = {
        each["name"] for each in DESCRIBED["paths"]["/v1/chat/completions"]["post"]["parameters"]
    }
    assert headers == {HEADER + name.replace("_", "-") for name in Routing.model_fields}


def test_the_description_is_a_valid_one(schema: Any) -> None:
    schema.validate()


def make_answerable(path: str, body: dict[str, Any]) -> None:
    """What the description says in words only: words to answer, tools that exist, real sound."""
    turns = {
        "/v1/chat/completions": "messages",
        "/v1/messages": "messages",
        "/v1/messages/count_tokens": "messages",
        "/v1/responses": "input",
        "/api/chat": "messages",
    }
    if "/models/" in path:
        body["contents"] = [{"role": "user", "parts": [{"text": "Hello?"}]}, *body["contents"]]
        body.pop("toolConfig", None)  # which needs tools that exist
    if path in turns and isinstance(body.get(turns[path]), list):
        body[turns[path]] = [*body[turns[path]], {"role": "user", "content": "Hello?"}]
    if body.get("tool_choice") not in ("auto", "none"):
        body.pop("tool_choice", None)
    if path == "/v1/chat/completions" and body.get("top_logprobs") is not None:
        body["logprobs"] = True
    if path == "/v1/decisions":  # options that differ, and no pictures
        listed = [{"type": "predicate", "instructions": "Is it so?"}]
        named = {"so": {"type": "noul", "instructions": "Is it so?"}}
        body["questions"] = listed if "input" in body else named
    if path == "/api/show":
        body["model"] = "auto"
    if path == "/edgewise/feedback":
        body["id"] = ASKED
    if path == "/edgewise/models":
        body["model"] = "auto"  # which was given to the server
    if path.startswith("/v1/audio/trans") and "file" in body:
        body["file"] = TALK


@pytest.mark.parametrize(
    ("mode", "method", "path"),
    [(GenerationMode.POSITIVE, *each) for each in OPERATIONS]
    # Only a body can be wrong: a path that is not what it should be is another path.
    + [(GenerationMode.NEGATIVE, *each) for each in OPERATIONS if each[0] == "post"],
    ids=str,
)
def test_requests_made_from_the_description_are_answered_as_it_says(
    described: Served, schema: Any, mode: GenerationMode, method: str, path: str
) -> None:
    operation = schema[path][method]
    told = DESCRIBED["paths"][path][method]["responses"]
    seen: set[str] = set()

    @DERANDOMISED
    @given(data=st.data())
    def ask(data: st.DataObject) -> None:
        case = data.draw(operation.as_strategy(generation_mode=mode))
        if mode is GenerationMode.POSITIVE and method == "post":
            make_answerable(path, case.body)
        answer = case.call_and_validate(base_url=described.url, checks=CHECKS, timeout=30)
        seen.add(str(answer.status_code))
        if answer.headers["content-type"][0].startswith("text/event-stream"):
            check_events(answer.text)

    ask()
    assert seen <= set(told), "each by its own number: the cloud here refuses nothing"
    if mode is GenerationMode.POSITIVE and path not in NAMES:
        assert "200" in seen


def check_events(text: str) -> None:
    for line in text.splitlines():
        field, _, value = line.partition(": ")
        assert field in ("", "event", "data"), line
        assert field != "data" or value == "[DONE]" or "error" not in json.loads(value), line


def test_the_events_are_described_too_and_never_end(described: Served) -> None:
    told = DESCRIBED["paths"]["/edgewise/events"]["get"]["responses"]
    with described.http.stream("GET", "/edgewise/events") as answer:
        assert str(answer.status_code) in told
        assert answer.headers["content-type"].partition(";")[0] in told["200"]["content"]
        assert next(answer.iter_lines()) == ": listening"


def test_a_wrong_method_is_told_which_are_right(described: Served) -> None:
    for path in ("/v1/chat/completions", "/v1/messages", "/openapi.json"):
        answer = described.http.delete(path)
        assert (answer.status_code, answer.json()["error"]["code"]) == (405, "method_not_allowed")
        assert answer.headers["allow"].partition(",")[0] in ("POST", "GET", "HEAD")


def test_a_server_with_a_key_shows_its_description_to_anybody(serving: Serving) -> None:
    served = serving(key="secret")
    assert served.http.get("/openapi.json").status_code == 200
    assert served.http.get("/v1/models").status_code == 401
