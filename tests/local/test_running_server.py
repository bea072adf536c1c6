"""Servers of others as the device. llama-server is the real one; Ollama and the rest are fakes."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from edgewise.errors import ContextExceeded, GenerationFailed, ModelNotFound
from edgewise.local.running_server import open_backend
from edgewise.local.store import InstalledModel
from edgewise.types.messages import Message, Request, ResponseFormat
from edgewise.types.replies import Finish, Token
from tests.local.fake_servers import FakeServer, fake_ollama, fake_openai
from tests.local.served_llama import serve_llama

ASK = Request(messages=(Message("user", "What is the chemical symbol for gold?"),))
COLOUR = ResponseFormat({"type": "object", "properties": {"colour": {"type": "string"}}})


def read(server: FakeServer, request: Request = ASK, *, model: str = "") -> list[Token | Finish]:
    backend = open_backend(server.url, model=model)
    try:
        return list(backend.generate(request))
    finally:
        backend.close()


def text_of(items: list[Token | Finish]) -> str:
    return "".join(item.text for item in items if isinstance(item, Token))


@pytest.mark.real_model
def test_llama_server_says_what_it_is(default_model: InstalledModel) -> None:
    server = serve_llama(default_model, context_tokens=256, slots=2)
    try:
        facts = server.facts()
    finally:
        server.close()
    assert (facts.backend, facts.quantisation) == ("llama-server", "Q8_0")
    assert facts.model.startswith("smollm2-135m-instruct")
    assert (facts.context_tokens, facts.slots, facts.evidence) == (256, 2, True)


def test_ollama_is_read_line_by_line_with_its_log_probabilities() -> None:
    with fake_ollama() as server:
        items = read(server, model="qwen3:4b")
        asked = dict(server.asked)["/api/chat"]
    assert text_of(items) == "The symbol is Au."
    assert all(item.has_evidence and item.margin > 2 for item in items if isinstance(item, Token))
    assert items[-1] == Finish("stop", 20, 6)
    # Otherwise it cuts long prompts without a word, and thinks aloud.
    assert (asked["truncate"], asked["shift"], asked["think"]) == (False, False, False)
    assert asked["options"]["num_ctx"] == 4096


def test_an_old_ollama_gives_no_evidence_and_says_so() -> None:
    with fake_ollama(version="0.11.4") as server:
        backend = open_backend(server.url, model="qwen3:4b")
        assert not backend.facts().evidence
        tokens = [item for item in backend.generate(ASK) if isinstance(item, Token)]
        backend.close()
    assert tokens and not any(token.has_evidence for token in tokens)


@pytest.mark.parametrize("told", [{"remote_host": "cloud.example"}, {"late": "cloud.example"}])
def test_a_model_that_ollama_sends_to_a_cloud_is_no_device(told: dict[str, str]) -> None:
    with (
        fake_ollama(**told) as server,
        pytest.raises(ModelNotFound, match=r"to cloud\.example, so it is not on the device"),
    ):
        read(server, model="qwen3:4b")


def test_a_model_that_ollama_lacks_comes_with_the_command_that_gets_it() -> None:
    with fake_ollama() as server, pytest.raises(ModelNotFound, match="ollama pull mistral"):
        read(server, model="mistral")


def test_a_prompt_that_ollama_refuses_as_too_long_does_not_fit() -> None:
    long = Request(messages=(Message("user", "word " * 9000),))
    with fake_ollama() as server, pytest.raises(ContextExceeded):
        read(server, long, model="qwen3:4b")


def test_a_schema_is_sent_as_each_server_takes_it() -> None:
    request = Request(messages=ASK.messages, response_format=COLOUR)
    with fake_ollama() as ollama, fake_openai(tells=True) as other:
        read(ollama, request, model="qwen3:4b")
        read(other, request)
        assert dict(ollama.asked)["/api/chat"]["format"] == COLOUR.schema
        sent = dict(other.asked)["/v1/chat/completions"]["response_format"]
    assert sent["json_schema"]["schema"] == COLOUR.schema


@pytest.mark.parametrize("tells", [True, False])
def test_whether_a_server_sends_log_probabilities_is_tried_once(tells: bool) -> None:
    with fake_openai(tells=tells) as server:
        backend = open_backend(server.url)
        items = list(backend.generate(ASK))
        assert backend.facts().evidence is tells
        assert (backend.facts().model, backend.facts().context_tokens) == ("model-7b", 2048)
        backend.close()
    tokens = [item for item in items if isinstance(item, Token)]
    assert all(token.has_evidence is tells for token in tokens)
    assert text_of(items) == "The symbol is Au." and items[-1] == Finish("stop", 9, 6)


def test_a_second_client_is_not_told_what_the_server_has_read_before() -> None:
    with fake_openai(tells=True, cached=7) as server:
        backend = open_backend(server.url)
        found = [list(backend.generate(replace(ASK, owner=name)))[-1] for name in "aaba"]
        backend.close()
    # While one asks alone, it is told of its own prompts.
    assert [each.cached_tokens for each in found if isinstance(each, Finish)] == [7, 7, 0, 0]


def test_an_edgewise_server_is_not_its_own_device() -> None:
    with fake_openai(tells=True, owner="edgewise") as server, pytest.raises(ModelNotFound):
        read(server)


def test_no_server_is_a_clear_error() -> None:
    with pytest.raises(ModelNotFound, match="no server for models answers at"):
        open_backend("http://127.0.0.1:9")
    with pytest.raises(ModelNotFound, match="is no address of a server"):
        open_backend("http://127.0.0.1:port")


def test_a_llama_server_that_says_too_little_is_a_clear_error() -> None:
    listed = {"data": [{"id": "a", "owned_by": "llamacpp"}]}
    with (
        FakeServer({"/v1/models": listed, "/props": {}}) as server,
        pytest.raises(ModelNotFound, match="no server for models answers at"),
    ):
        open_backend(server.url)


@pytest.mark.parametrize(
    "line",
    ["no json", '{"choices": [{"delta": 7}]}', '{"choices": 3}', '{"error": {"message": "oom"}}'],
)
def test_a_server_that_sends_nonsense_has_failed(line: str) -> None:
    with fake_openai(tells=True) as server:
        backend = open_backend(server.url)
        server.paths["/v1/chat/completions"] = lambda _: (200, iter([f"data: {line}\n"]))
        with pytest.raises(GenerationFailed):
            list(backend.generate(ASK))
        server.paths["/v1/chat/completions"] = lambda _: (500, iter([json.dumps({"error": line})]))
        with pytest.raises(GenerationFailed):
            list(backend.generate(ASK))
        backend.close()


def test_a_stream_that_breaks_off_is_no_answer() -> None:
    with fake_openai(tells=True) as server:
        backend = open_backend(server.url)
        part = 'data: {"choices": [{"delta": {"content": "The"}}]}\n'
        server.paths["/v1/chat/completions"] = lambda _: (200, iter([part]))
        with pytest.raises(GenerationFailed, match="before the answer was finished"):
            list(backend.generate(ASK))
        backend.close()
