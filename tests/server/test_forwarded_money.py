"""What leaves as it came is paid for as it came: nothing in it makes an answer cost more than was
set aside for it."""

from __future__ import annotations

import base64
import io
import json
import re
from dataclasses import replace
from typing import Any

import PIL.Image
import pytest

from edgewise.cloud.door import ready_to_leave
from edgewise.cloud.provider import ProviderConfig
from edgewise.cloud.providers import LibraryPrices, highest
from edgewise.local.backend import DeviceFacts
from edgewise.testing import Answer, LoopbackCloud, Recorded, ScriptedBackend
from edgewise.testing.scripted import SCRIPTED_FACTS
from edgewise.types.messages import Message, Original, Request
from tests.server.conftest import Serving
from tests.server.served import Served

PRICES = LibraryPrices()
OPENAI = ProviderConfig(name="openai", protocol="openai", model="gpt-6-luna", key="k")
ANTHROPIC = ProviderConfig(
    name="anthropic", protocol="anthropic", model="claude-haiku-5-5", key="k"
)
GEMINI = ProviderConfig(name="gemini", protocol="gemini", model="gemini-2.5-flash", key="k")
OPENROUTER = ProviderConfig(
    name="openrouter", protocol="openai", model="google/gemini-2.5-flash-lite", key="k"
)
HI = [{"role": "user", "content": "Hi."}]
CHAT: dict[str, Any] = {"messages": HI, "max_tokens": 1000}


def reserved(config: ProviderConfig, wire: Any, body: dict[str, Any], **more: Any) -> int:
    told = Original(wire=wire, body=body, **more)
    request = Request(messages=(Message("user", "Hi."),), max_tokens=1, original=told)
    return highest(PRICES, config, ready_to_leave(request, config))


@pytest.mark.parametrize("wire", ["responses", "messages"])
@pytest.mark.parametrize("n", [-1000, 0.001, 0, "x"])
def test_a_number_of_answers_counts_only_where_the_protocol_has_it(wire: Any, n: Any) -> None:
    asked = {"messages": HI, "max_tokens": 1000, "max_output_tokens": 1000}
    assert reserved(ANTHROPIC, wire, {**asked, "n": n}) >= reserved(ANTHROPIC, wire, asked)


def test_the_longest_of_two_limits_counts() -> None:
    both = {**CHAT, "max_completion_tokens": 1, "max_tokens": 4000}
    assert reserved(OPENAI, "chat", both) > reserved(OPENAI, "chat", {**CHAT, "max_tokens": 3900})


@pytest.mark.parametrize("kind", ["image", "image_url", "input_image"])
def test_a_text_that_is_dressed_up_as_a_picture_counts(kind: str) -> None:
    dressed = {"type": kind, "source": "x" * 9000, "image_url": "x" * 9000}
    body = {**CHAT, "prediction": dressed}
    assert reserved(OPENAI, "chat", body) >= reserved(OPENAI, "chat", CHAT) + 1800


@pytest.mark.parametrize(
    "brings", [{"mcp_servers": [{"url": "x"}]}, {"web_search_options": {}}, {"plugins": [{}]}]
)
def test_what_a_provider_finds_by_itself_may_fill_its_model(brings: dict[str, Any]) -> None:
    assert reserved(OPENAI, "chat", {**CHAT, **brings}) > PRICES.cost(OPENAI, 1_000_000, 1000)


@pytest.mark.parametrize("name", ["cachedContent", "cached_content"])
def test_what_gemini_keeps_may_fill_its_model(name: str) -> None:
    body: dict[str, Any] = {"contents": [{"role": "user", "parts": [{"text": "Hi."}]}]}
    body["generationConfig"] = {"maxOutputTokens": 10}
    most = PRICES.cost(GEMINI, 1_000_000, 10)
    assert reserved(GEMINI, "gemini", {**body, name: "cachedContents/1"}) > most
    assert reserved(GEMINI, "gemini", body) < most / 100


def test_of_two_spellings_of_gemini_s_options_the_longer_limit_counts() -> None:
    body: dict[str, Any] = {"contents": [{"role": "user", "parts": [{"text": "Hi."}]}]}
    body["generation_config"] = {"maxOutputTokens": 50_000, "candidateCount": 2}
    body["generationConfig"] = {"maxOutputTokens": 5, "candidateCount": 1}
    assert reserved(GEMINI, "gemini", body) > PRICES.cost(GEMINI, 10, 100_000)


def _noise() -> tuple[str, int]:
    """A picture in base64 whose bytes are many more than a provider counts tokens for it."""
    file = io.BytesIO()
    PIL.Image.effect_noise((600, 600), 120).convert("RGB").save(file, "JPEG", quality=95)
    data = base64.b64encode(file.getvalue()).decode()
    return data, len(data)


@pytest.mark.parametrize("place", ["input of a call", "result", "schema", "prediction", "args"])
def test_a_picture_where_a_provider_reads_text_counts_as_text_and_leaves_as_it_came(
    place: str,
) -> None:
    data, size = _noise()
    source = {"type": "base64", "media_type": "image/jpeg", "data": data}
    anthropic_s = {"type": "image", "source": source}
    openai_s = {"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{data}"}}
    google_s = {"inlineData": {"mimeType": "image/jpeg", "data": data}}
    used = {"type": "tool_use", "id": "a", "name": "f", "input": anthropic_s}
    places: dict[str, tuple[ProviderConfig, Any, dict[str, Any]]] = {
        "input of a call": (ANTHROPIC, "messages", {"messages": _by_assistant([used])}),
        "schema": (OPENAI, "chat", {"messages": HI, "tools": [_tool(openai_s)]}),
        "prediction": (OPENAI, "chat", {"messages": HI, "prediction": openai_s}),
        "args": (GEMINI, "gemini", _from_model({"functionCall": {"name": "f", "args": google_s}})),
        "result": (
            GEMINI,
            "gemini",
            _from_model({"functionResponse": {"name": "f", "response": google_s}}),
        ),
    }
    config, wire, body = places[place]
    asked = {**body, "max_tokens": 10}
    assert reserved(config, wire, asked) >= PRICES.cost(config, size, 10)
    told = Original(wire=wire, body=asked)
    request = Request(messages=(Message("user", "Hi."),), original=told)
    left = ready_to_leave(request, config).original
    assert left is not None and left.body == asked


def _by_assistant(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [*HI, {"role": "assistant", "content": blocks}]


def _tool(default: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"a": {"type": "object", "default": default}}}
    return {"type": "function", "function": {"name": "f", "parameters": schema}}


def _from_model(part: dict[str, Any]) -> dict[str, Any]:
    config = {"maxOutputTokens": 10}
    return {"contents": [{"role": "model", "parts": [part]}], "generationConfig": config}


@pytest.mark.parametrize(
    ("name", "model", "tokens"),
    [
        # OpenAI's published rules: eight tiles of 5,667 and a base; 10,000 patches, 2.46 each.
        ("openai", "gpt-4o-mini", 2833 + 8 * 5667),
        ("mine", "gpt-4o-mini", 2833 + 8 * 5667),
        ("openai", "gpt-6-luna", 24_600),
        ("together", "openai/gpt-oss-120b", 8192),
    ],
)
def test_a_picture_that_the_provider_fetches_counts_as_the_largest(
    name: str, model: str, tokens: int
) -> None:
    config = ProviderConfig(name=name, protocol="openai", model=model, key="k")
    picture = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    body = {"messages": _from_user([picture]), "max_tokens": 10}
    assert reserved(config, "chat", body) >= PRICES.cost(config, tokens, 10)


def test_a_predicted_answer_counts_as_written() -> None:
    """What a provider does not take of it is charged as output, beyond any limit."""
    predicted = {"type": "content", "content": "word " * 2000}
    assert reserved(OPENAI, "chat", {**CHAT, "prediction": predicted}) >= PRICES.cost(
        OPENAI, 0, 10_000 + 1000
    )


@pytest.mark.parametrize(
    ("asked", "searches"),
    [
        ({"tools": [{"type": "web_search_20250305", "name": "web_search", "max_uses": 50}]}, 50),
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, 20),
        ({"tools": [{"type": "tool_search_tool_regex_20251119", "name": "find"}]}, 0),
    ],
)
def test_searches_are_reserved(asked: dict[str, Any], searches: int) -> None:
    brought = {**CHAT, "mcp_servers": [{"url": "x"}]}  # a million tokens of what it finds
    more = reserved(ANTHROPIC, "messages", {**CHAT, **asked}) - reserved(
        ANTHROPIC, "messages", brought
    )
    assert more == pytest.approx(10_000 * searches, abs=100)  # $10 for a thousand


@pytest.mark.parametrize(
    ("wire", "asked"),
    [
        ("messages", {"context_management": {"edits": [{"type": "compact_20260112"}]}}),
        ("responses", {"context_management": [{"type": "compaction", "compact_threshold": 9}]}),
    ],
)
def test_a_conversation_that_the_provider_sums_up_is_read_and_written_twice(
    wire: Any, asked: dict[str, Any]
) -> None:
    config = ANTHROPIC if wire == "messages" else OPENAI
    body: dict[str, Any] = {"messages": [{"role": "user", "content": "x" * 90_000}]}
    plain = reserved(config, wire, {**body, "max_tokens": 10, "max_output_tokens": 10})
    both = reserved(config, wire, {**body, "max_tokens": 10, "max_output_tokens": 10, **asked})
    assert both >= 2 * plain
    kept = {"context_management": {"edits": [{"type": "clear_thinking_20251015"}]}}
    usual = reserved(config, wire, {**body, "max_tokens": 10, "max_output_tokens": 10, **kept})
    assert usual < 1.1 * plain


@pytest.mark.parametrize(
    ("asked", "times"),
    [
        ({"service_tier": "priority"}, 2.5),
        ({"service_tier": "flex"}, 1),
        ({"speed": "fast"}, 6),
        ({"inference_geo": "us"}, 1.1),
        ({"speed": "fast", "inference_geo": "us"}, 6.6),
    ],
)
def test_what_costs_more_is_reserved_as_more(asked: dict[str, str], times: float) -> None:
    plain = reserved(ANTHROPIC, "messages", CHAT)
    assert reserved(ANTHROPIC, "messages", {**CHAT, **asked}) == pytest.approx(
        plain * times, rel=0.05
    )


def test_models_that_may_answer_instead_are_paid_for() -> None:
    dear = {**CHAT, "models": ["openai/o1-pro"]}
    named = ProviderConfig(name="openrouter", protocol="openai", model="openai/o1-pro", key="k")
    assert reserved(OPENROUTER, "chat", dear) >= reserved(named, "chat", CHAT)
    many = {**CHAT, "models": ["google/gemini-2.5-flash-lite"] * 9}
    assert reserved(OPENROUTER, "chat", many) > 100 * reserved(OPENROUTER, "chat", CHAT)


@pytest.mark.parametrize(
    "asked",
    [
        {"modalities": ["text", "audio"]},
        {"audio": {"voice": "x", "format": "wav"}},
        {"messages": [*HI, {"role": "assistant", "audio": {"id": "audio_1"}}, *HI]},
    ],
)
def test_sound_is_reserved_at_its_own_price(asked: dict[str, Any]) -> None:
    heard = ProviderConfig(name="openai", protocol="openai", model="gpt-audio", key="k")
    foreign = ("modalities",) if "modalities" in asked else ()
    assert reserved(heard, "chat", {**CHAT, **asked}, foreign=foreign) > 5 * reserved(
        heard, "chat", CHAT
    )


def test_sound_is_booked_at_its_own_price(serving: Serving, cloud: LoopbackCloud) -> None:
    served = _gateway(serving, cloud, "openai/gpt-audio")
    usage = {
        "prompt_tokens": 1000,
        "prompt_tokens_details": {"audio_tokens": 1000},
        "completion_tokens": 1000,
        "completion_tokens_details": {"audio_tokens": 1000},
    }
    choice = {"index": 0, "message": {"role": "assistant", "content": "Yes."}}
    answer = {"choices": [{**choice, "finish_reason": "stop"}], "usage": usage}
    cloud.always(Recorded(pieces=(json.dumps(answer).encode(),)))
    body = {"model": "cloud", "messages": HI, "modalities": ["text", "audio"]}
    told = served.http.post("/v1/chat/completions", json=body).json()["edgewise"]
    assert told["cost_microdollars"] == PRICES.cost(
        ProviderConfig(name="openai", protocol="openai", model="gpt-audio", key="k"),
        1000,
        1000,
        audio_tokens=1000,
        spoken_tokens=1000,
    )
    assert told["cost_microdollars"] == 96_000


def test_what_a_provider_stores_is_reserved_and_booked(
    serving: Serving, cloud: LoopbackCloud
) -> None:
    served = _gateway(serving, cloud, "anthropic/claude-haiku-5-5")
    body = {"model": "cloud", "max_tokens": 100, "messages": _marked(ttl="1h")}
    usage = {
        "input_tokens": 10,
        "cache_creation_input_tokens": 30_000,
        "cache_read_input_tokens": 0,
        "cache_creation": {
            "ephemeral_5m_input_tokens": 20_000,
            "ephemeral_1h_input_tokens": 10_000,
        },
        "server_tool_use": {"web_search_requests": 3},
        "output_tokens": 10,
    }
    message = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "claude-haiku-5-5",
        "content": [{"type": "text", "text": "Yes."}],
        "stop_reason": "end_turn",
        "usage": usage,
    }
    cloud.always(Recorded(pieces=(json.dumps(message).encode(),)))
    told = served.http.post("/v1/messages", json=body).json()["edgewise"]
    # A million tokens cost $0.10 read, 0.125 stored, 0.20 stored for an hour and 0.50 written; a
    # thousand searches $10.
    assert told["cost_microdollars"] == 1 + 2_500 + 2_000 + 5 + 30_000


def test_what_a_provider_reads_to_sum_up_is_booked(serving: Serving, cloud: LoopbackCloud) -> None:
    """It is in no sum of the usage, only in its list of rounds."""
    served = _gateway(serving, cloud, "anthropic/claude-haiku-5-5")
    rounds = [
        {"type": "compaction", "input_tokens": 180_000, "output_tokens": 3500},
        {"type": "message", "input_tokens": 23_000, "output_tokens": 1000},
    ]
    usage = {"input_tokens": 23_000, "output_tokens": 1000, "iterations": rounds}
    message = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "claude-haiku-5-5",
        "content": [{"type": "text", "text": "Yes."}],
        "stop_reason": "end_turn",
        "usage": usage,
    }
    cloud.always(Recorded(pieces=(json.dumps(message).encode(),)))
    body = {"model": "cloud", "max_tokens": 100, "messages": HI}
    told = served.http.post("/v1/messages", json=body).json()["edgewise"]
    assert told["usage"] == {"input_tokens": 203_000, "output_tokens": 4500}
    assert told["cost_microdollars"] == PRICES.cost(ANTHROPIC, 203_000, 4500)


def _marked(ttl: str) -> list[dict[str, Any]]:
    mark = {"type": "ephemeral", "ttl": ttl}
    return [
        {"role": "user", "content": [{"type": "text", "text": "x" * 100, "cache_control": mark}]}
    ]


def test_a_mark_for_an_hour_reserves_twice_as_much_for_what_is_read() -> None:
    def asked(mark: Any) -> int:
        text = {"type": "text", "text": "x" * 90_000, "cache_control": mark}
        body = {"messages": [{"role": "user", "content": [text]}], "max_tokens": 1}
        return reserved(ANTHROPIC, "messages", body)

    plain = asked(None)
    assert asked({"type": "ephemeral"}) == pytest.approx(1.25 * plain, rel=0.01)
    assert asked({"type": "ephemeral", "ttl": "1h"}) == pytest.approx(2 * plain, rel=0.01)


def _gateway(
    serving: Serving, cloud: LoopbackCloud, model: str, facts: DeviceFacts = SCRIPTED_FACTS
) -> Served:
    keys = {
        "ANTHROPIC_API_KEY": "sk-ant-0123456789",
        "ANTHROPIC_BASE_URL": cloud.anthropic_url,
        "DEEPSEEK_API_KEY": "sk-deep-0123456789",
        "EDGEWISE_DEEPSEEK_BASE_URL": cloud.openai_url,
    }
    settings = {"chain": (model,), "policy": "cloud_only"}
    backend = ScriptedBackend.doubtful("No.", facts=facts)
    return serving(backend, environment=keys, settings=settings)


def test_a_provider_is_told_the_limit_in_its_own_word(
    serving: Serving, cloud: LoopbackCloud
) -> None:
    """DeepSeek knows `max_tokens` alone: with the other name it would write without an end."""
    served = _gateway(serving, cloud, "deepseek/deepseek-v4-flash")
    cloud.always(Answer(text="Yes."))
    body = {"model": "deepseek-v4-flash", "messages": HI, "max_completion_tokens": 7}
    assert served.http.post("/v1/chat/completions", json=body).status_code == 200
    left = json.loads(cloud.requests[-1].content)
    assert left["max_tokens"] == 7 and "max_completion_tokens" not in left


@pytest.mark.parametrize("wire", ["chat", "responses", "messages"])
def test_a_picture_leaves_cleaned_where_the_device_sees_too(
    serving: Serving, cloud: LoopbackCloud, wire: str
) -> None:
    """The device is shown a smaller one. What leaves is the client's, without its metadata."""
    provider = "anthropic/claude-haiku-5-5" if wire == "messages" else "openai/gpt-6-luna"
    served = _gateway(serving, cloud, provider, facts=replace(SCRIPTED_FACTS, images=True))
    cloud.always(Answer(text="A wall."))
    file = io.BytesIO()
    pixels = PIL.Image.new("RGB", (1400, 700), (200, 30, 30))
    pixels.save(file, "JPEG", comment=b"taken at home")
    path, body = _with_picture(wire, base64.b64encode(file.getvalue()).decode())
    answer = served.http.post(path, json=body)
    assert answer.status_code == 200, answer.text
    left = cloud.requests[-1].content.decode()
    data = base64.b64decode(max(re.findall(r"[A-Za-z0-9+/=]{200,}", left), key=len))
    assert b"taken at home" in file.getvalue() and b"taken at home" not in data
    assert PIL.Image.open(io.BytesIO(data)).size == (1400, 700)
    assert "keep me" in left


def _with_picture(wire: str, data: str) -> tuple[str, dict[str, Any]]:
    url = f"data:image/jpeg;base64,{data}"
    match wire:
        case "chat":
            parts = [{"type": "image_url", "image_url": {"url": url, "detail": "keep me"}}]
            return "/v1/chat/completions", {"messages": _from_user(parts), "model": "cloud"}
        case "responses":
            parts = [{"type": "input_image", "image_url": url, "detail": "keep me"}]
            return "/v1/responses", {"input": _from_user(parts), "model": "cloud"}
    source = {"type": "base64", "media_type": "image/jpeg", "data": data}
    parts = [{"type": "image", "source": source, "cache_control": {"type": "keep me"}}]
    return "/v1/messages", {"messages": _from_user(parts), "model": "cloud", "max_tokens": 9}


def _from_user(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"role": "user", "content": parts}]


def test_a_picture_inside_of_what_we_do_not_read_is_cleaned_too(
    serving: Serving, cloud: LoopbackCloud
) -> None:
    served = _gateway(serving, cloud, "anthropic/claude-haiku-5-5")
    cloud.always(Answer(text="A wall."))
    file = io.BytesIO()
    PIL.Image.new("RGB", (40, 40)).save(file, "JPEG", comment=b"taken at home")
    _, inner = _with_picture("messages", base64.b64encode(file.getvalue()).decode())
    document = {"type": "document", "source": {"type": "content", **inner["messages"][0]}}
    body = {"model": "cloud", "max_tokens": 9, "messages": _from_user([document])}
    assert served.http.post("/v1/messages", json=body).status_code == 200
    left = cloud.requests[-1].content
    assert base64.b64encode(b"taken at home")[:8] not in left
    assert file.getvalue() not in base64.b64decode(
        max(re.findall(rb"[A-Za-z0-9+/=]{200,}", left), key=len)
    )
