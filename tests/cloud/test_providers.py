"""The rows of providers, and finding them."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points

import pytest

from edgewise.cloud.provider import ProviderConfig
from edgewise.cloud.providers import (
    PROVIDERS,
    LibraryPrices,
    Provider,
    custom_row,
    find_row,
    is_loopback,
    parse_choice,
    row_for,
)
from edgewise.errors import SettingsError

EVERY_ROW = pytest.mark.parametrize("row", PROVIDERS.values(), ids=lambda row: row.name)


@EVERY_ROW
def test_every_row_is_complete(row: Provider) -> None:
    assert row.description.endswith(".")
    assert row.key_names
    assert all(name.isupper() and name.isascii() for name in row.key_names)
    assert row.needs_key is not row.free
    assert row.base_url.startswith("https://" if row.needs_key else "http://127.0.0.1:")
    assert not row.base_url.endswith("/")


@EVERY_ROW
def test_every_row_speaks_a_protocol_that_is_registered(row: Provider) -> None:
    registered = {entry.name for entry in entry_points(group="edgewise.cloud_providers")}
    assert row.protocol in registered


@EVERY_ROW
def test_the_default_model_of_every_row_has_a_price(row: Provider) -> None:
    config = ProviderConfig(name=row.name, protocol=row.protocol, model=row.default_model)
    prices = LibraryPrices()
    assert prices.known(config) or not row.prices_published
    assert (prices.cost(config, 1_000_000, 0) > 0) is not row.free


def test_these_providers_transcribe_and_these_embed() -> None:
    assert {row.name: row.speech_model for row in PROVIDERS.values() if row.speech_model} == {
        "gemini": "gemini-2.5-flash-lite",
        "openai": "gpt-transcribe",
        "groq": "whisper-large-v3-turbo",
        "together": "openai/whisper-large-v3",
        "mistral": "voxtral-mini-latest",
        "cactus_cloud": "transcribe",
    }
    assert {row.name: row.embedding_model for row in PROVIDERS.values() if row.embedding_model} == {
        "gemini": "gemini-embedding-001",
        "openai": "text-embedding-3-small",
        "mistral": "mistral-embed",
    }


def test_these_providers_have_a_wire_for_decisions() -> None:
    assert {
        row.name: (row.decisions, row.model_for("decide"))
        for row in PROVIDERS.values()
        if row.decisions
    } == {
        "openai": ("decisions", "gpt-6-luna"),
        "openrouter": ("systemone", "typesafe/jev-1.14"),
        "typesafe": ("systemone", "jev-latest"),
    }


def test_a_decision_has_a_price_of_its_own() -> None:
    prices = LibraryPrices()
    for row in PROVIDERS.values():
        model = row.model_for("decide")
        config = ProviderConfig(name=row.name, protocol=row.protocol_for("decide"), model=model)
        if row.decisions:
            assert prices.known(config), row.name
            assert prices.cost(config, 100_000, 0) == prices.cost(config, 100_000, 1000) > 0


# The price list has no whisper of Together's; its sound is charged at the upper price.
@pytest.mark.parametrize(
    "row",
    [
        row
        for row in PROVIDERS.values()
        if row.speech_model and row.prices_published and row.name != "together"
    ],
    ids=lambda row: row.name,
)
def test_speech_and_embedding_models_have_a_price(row: Provider) -> None:
    for model in filter(None, (row.speech_model, row.embedding_model)):
        assert LibraryPrices().known(
            ProviderConfig(name=row.name, protocol=row.protocol, model=model)
        ), model


def test_a_server_that_only_transcribes_needs_no_chat_model() -> None:
    own = custom_row("whisper", "http://127.0.0.1:9/v1", "", speech_model="whisper")
    assert parse_choice("whisper", custom=(own,)) == (own, "")


def test_the_directory_holds_the_promised_providers() -> None:
    assert set(PROVIDERS) == {
        "gemini",
        "openai",
        "anthropic",
        "openrouter",
        "groq",
        "together",
        "mistral",
        "deepseek",
        "ollama",
        "vllm",
        "cactus_cloud",
        "typesafe",
    }


@pytest.mark.parametrize(
    ("text", "name", "model"),
    [
        ("gemini", "gemini", "gemini-2.5-flash-lite"),
        (" openai/gpt-x ", "openai", "gpt-x"),
        ("openrouter/meta-llama/llama-4", "openrouter", "meta-llama/llama-4"),
        ("ollama/qwen3:4b", "ollama", "qwen3:4b"),
    ],
)
def test_a_choice_names_a_provider_and_perhaps_a_model(text: str, name: str, model: str) -> None:
    row, chosen = parse_choice(text)
    assert (row.name, chosen) == (name, model)


@pytest.mark.parametrize(("typed", "meant"), [("opneai", "openai"), ("Gemini/x", "gemini")])
def test_a_misspelt_name_gets_a_hint(typed: str, meant: str) -> None:
    with pytest.raises(SettingsError, match=f"Did you mean '{meant}'"):
        parse_choice(typed)


def test_a_name_like_no_other_gets_the_list() -> None:
    with pytest.raises(SettingsError, match="Known: anthropic") as caught:
        parse_choice("xyzzy")
    assert "Did you mean" not in str(caught.value)


@pytest.mark.parametrize("text", ["vllm", "ollama/"])
def test_a_server_of_ones_own_needs_its_model_named(text: str) -> None:
    with pytest.raises(SettingsError, match="has no default model"):
        parse_choice(text)


def test_a_custom_row_wins_over_the_directory() -> None:
    own = custom_row("openai", "https://gateway.example/v1", "house-model")
    assert parse_choice("openai", custom=(own,)) == (own, "house-model")
    assert find_row("gemini", custom=(own,)) is PROVIDERS["gemini"]


@pytest.mark.parametrize("url", ["", "gateway.example/v1", "ftp://gateway.example", "https://"])
def test_a_custom_row_needs_a_real_base_url(url: str) -> None:
    with pytest.raises(SettingsError, match="base URL"):
        custom_row("mine", url, "m")


@pytest.mark.parametrize("name", ["", "a/b"])
def test_a_custom_row_needs_a_name_a_choice_can_spell(name: str) -> None:
    with pytest.raises(SettingsError, match="name"):
        custom_row(name, "https://gateway.example", "m")


def test_a_custom_row_needs_a_key_where_it_names_one() -> None:
    assert custom_row("mine", "https://a.example", "m", key_names=["MY_KEY"]).needs_key
    assert not custom_row("mine", "https://a.example", "m").needs_key
    assert custom_row("mine", "https://a.example", "m", needs_key=True).needs_key


def test_only_a_keyless_server_on_this_machine_is_free() -> None:
    assert custom_row("mine", "http://localhost:1234/v1", "m").free
    assert not custom_row("mine", "http://localhost:4000/v1", "m", key_names=["PROXY_KEY"]).free
    assert not custom_row("mine", "https://a.example/v1", "m").free


def config(name: str, protocol: str, base_url: str, key: str = "") -> ProviderConfig:
    return ProviderConfig(name=name, protocol=protocol, model="m", base_url=base_url, key=key)


def test_a_known_name_keeps_its_quirks_behind_another_address() -> None:
    row = row_for(config("openai", "openai", "https://gateway.example/v1"))
    assert row is PROVIDERS["openai"]


def test_a_known_address_is_recognised_under_another_name() -> None:
    row = row_for(config("fast", "openai", "https://api.groq.com/openai/v1/"))
    assert row is PROVIDERS["groq"]


def test_a_gateway_takes_after_the_home_of_its_protocol() -> None:
    row = row_for(config("mine", "anthropic", "https://gateway.example"))
    assert not row.traits("claude-haiku-5-5").temperature
    assert (row.name, row.prices_as, row.prices_published) == ("mine", "anthropic", False)


def test_a_custom_openai_server_is_plain_and_free_only_without_a_key() -> None:
    row = row_for(config("mine", "openai", "http://127.0.0.1:9000/v1"))
    assert (row.output_limit, row.models, row.free) == ("max_tokens", (), True)
    assert not row_for(config("mine", "openai", "http://127.0.0.1:9000/v1", key="k")).free


@pytest.mark.parametrize(
    ("provider", "model", "temperature", "effort", "thinking"),
    [
        ("openai", "gpt-6-luna", True, "none", ""),
        ("openai", "gpt-6-astra", False, "", ""),
        ("openai", "gpt-5-mini", False, "", ""),
        ("openai", "gpt-4.1-mini", True, "", ""),
        ("openai", "o3", False, "", ""),
        ("anthropic", "claude-haiku-5-5", False, "", "disabled"),
        ("anthropic", "claude-haiku-4-5", True, "", ""),
        ("anthropic", "claude-opus-4-6", True, "", ""),
        ("anthropic", "claude-opus-4-8", False, "", ""),
        ("anthropic", "claude-of-the-future", False, "", ""),
        ("deepseek", "deepseek-v4-flash", True, "", "disabled"),
        ("groq", "openai/gpt-oss-20b", True, "low", ""),
        ("gemini", "gemini-2.5-flash-lite", True, "", ""),
    ],
)
def test_what_models_refuse_is_known(
    provider: str, model: str, temperature: bool, effort: str, thinking: str
) -> None:
    traits = PROVIDERS[provider].traits(model)
    assert traits.temperature is temperature
    assert (traits.reasoning_effort, traits.thinking) == (effort, thinking)


@pytest.mark.parametrize(
    ("url", "here"),
    [
        ("http://127.0.0.1:8000/v1", True),
        ("http://localhost", True),
        ("http://[::1]:80", True),
        ("http://127.example.com", False),
        ("https://api.openai.com", False),
    ],
)
def test_this_machine_is_told_from_others(url: str, here: bool) -> None:
    assert is_loopback(url) is here


def test_reading_the_directory_loads_no_http_client() -> None:
    program = (
        "import sys\nfrom edgewise.cloud.providers import PROVIDERS\nassert len(PROVIDERS) > 5\n"
        "print(sorted({'httpx2', 'httpcore2', 'pydantic', 'genai_prices'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
