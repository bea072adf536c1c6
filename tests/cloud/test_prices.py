"""Tokens and sound to micro-dollars."""

from __future__ import annotations

import socket
from typing import Any, NoReturn

import pytest
from genai_prices.data_snapshot import get_snapshot
from hypothesis import given
from hypothesis import strategies as st

from edgewise.cloud.conversation import TOKENS_PER_SECOND
from edgewise.cloud.prices import UPPER_HOUR, UPPER_INPUT, UPPER_OUTPUT, LibraryPrices
from edgewise.cloud.provider import ProviderConfig

PRICES = LibraryPrices()


def config(name: str, model: str, base_url: str = "", key: str = "k") -> ProviderConfig:
    return ProviderConfig(name=name, protocol="openai", model=model, base_url=base_url, key=key)


def test_a_known_model_costs_what_its_list_price_says() -> None:
    luna = config("openai", "gpt-6-luna")  # $0.10 and $0.50 per million
    assert PRICES.known(luna)
    assert PRICES.cost(luna, 1_000_000, 0) == 100_000 * 2  # beyond 272 000 tokens it doubles
    assert PRICES.cost(luna, 100_000, 100_000) == 10_000 + 50_000


def test_every_begun_micro_dollar_is_charged() -> None:
    lite = config("gemini", "gemini-2.5-flash-lite")  # $0.10 and $0.40 per million
    assert PRICES.cost(lite, 0, 0) == 0
    assert PRICES.cost(lite, 1, 0) == 1
    assert PRICES.cost(lite, 10, 0) == 1
    assert PRICES.cost(lite, 11, 0) == 2
    assert PRICES.cost(lite, 1000, 100) == 140


def test_a_provider_listed_under_another_name_is_found() -> None:
    assert PRICES.known(config("gemini", "gemini-2.5-flash-lite"))
    assert not PRICES.known(config("gemini", "gpt-6-luna"))


def test_an_unknown_model_costs_as_much_as_the_dearest_of_its_provider() -> None:
    unknown = config("anthropic", "claude-of-the-future")
    dearest = config("anthropic", "claude-opus-4-1")  # $15 and $75 per million
    assert not PRICES.known(unknown)
    assert PRICES.cost(unknown, 1000, 1000) == PRICES.cost(dearest, 1000, 1000) == 90_000


def test_an_unknown_provider_costs_the_upper_price() -> None:
    unknown = config("someone", "some-model", "https://cloud.example/v1")
    assert not PRICES.known(unknown)
    assert PRICES.cost(unknown, 1000, 10) == 1000 * UPPER_INPUT + 10 * UPPER_OUTPUT


@pytest.mark.parametrize("name", ["ollama", "vllm"])
def test_a_server_of_ones_own_is_free(name: str) -> None:
    own = config(name, "any-model")
    assert PRICES.known(own)
    assert PRICES.cost(own, 1_000_000, 1_000_000) == 0


def test_a_keyless_custom_server_on_this_machine_is_free() -> None:
    assert PRICES.cost(config("mine", "m", "http://127.0.0.1:1/v1", key=""), 10**6, 10**6) == 0


def test_a_gateway_on_this_machine_with_a_key_is_not_free() -> None:
    assert PRICES.cost(config("mine", "m", "http://127.0.0.1:1/v1", key="k"), 10**6, 10**6) > 0


def test_a_price_that_is_not_published_is_a_guess() -> None:
    cactus = config("cactus_cloud", "gemini-2.5-flash")
    assert not PRICES.known(cactus)
    assert PRICES.cost(cactus, 1000, 1000) == PRICES.cost(
        config("gemini", "gemini-2.5-flash"), 1000, 1000
    )


def test_the_list_is_read_without_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_network(*arguments: object) -> NoReturn:
        raise AssertionError("prices must come from the installed list")

    monkeypatch.setattr(socket.socket, "connect", no_network)
    monkeypatch.setattr(socket, "getaddrinfo", no_network)
    assert PRICES.cost(config("mistral", "mistral-small-latest"), 1000, 1000) == 750


# -- sound ----------------------------------------------------------------------------------------


def test_sound_is_charged_by_the_second_where_its_price_is_by_the_hour() -> None:
    transcribe = config("openai", "gpt-transcribe")  # $0.27 per hour
    assert PRICES.known(transcribe)
    assert PRICES.cost(transcribe, 0, 0, audio_seconds=3600) == 270_000
    assert PRICES.cost(transcribe, 0, 0, audio_seconds=60) == 4_500
    # Tokens that such a model also counts are not paid for.
    assert PRICES.cost(transcribe, 2000, 300, audio_seconds=60, audio_tokens=2000) == 4_500


def test_sound_is_charged_by_its_tokens_where_those_have_a_price() -> None:
    mini = config("openai", "gpt-4o-mini-transcribe")  # $1.25, $5 and $3 for sound per million
    assert PRICES.cost(mini, 1000, 100, 60, 1000) == 3000 + 500
    assert PRICES.cost(mini, 1000, 100, 60, 800) == 2400 + 250 + 500
    lite = config("gemini", "gemini-2.5-flash-lite")  # $0.10, $0.40 and $0.30 for sound
    assert PRICES.cost(lite, 1000, 100, 30, 960) == 288 + 4 + 40


def test_sound_whose_tokens_nobody_counted_is_not_free() -> None:
    mini = config("openai", "gpt-4o-mini-transcribe")
    assert PRICES.cost(mini, 0, 0, audio_seconds=10) == 10 * TOKENS_PER_SECOND * 3


def test_a_short_sound_costs_as_much_as_the_shortest_that_is_charged_for() -> None:
    groq = config("groq", "whisper-large-v3-turbo")  # $0.04 per hour, ten seconds at least
    assert PRICES.cost(groq, 0, 0, audio_seconds=1) == PRICES.cost(groq, 0, 0, audio_seconds=10)
    assert PRICES.cost(groq, 0, 0, audio_seconds=10) == 112
    assert PRICES.cost(groq, 0, 0, audio_seconds=3600) == 40_000
    assert PRICES.cost(groq, 0, 0, audio_seconds=0) == 0


@pytest.mark.parametrize(
    "unknown",
    [
        config("openai", "gpt-transcribe-of-the-future"),
        config("someone", "some-whisper", "https://cloud.example/v1"),
        config("together", "openai/whisper-large-v3"),
        config("cactus_cloud", "transcribe"),
    ],
    ids=lambda each: each.name,
)
def test_sound_for_an_unknown_model_costs_the_upper_price(unknown: ProviderConfig) -> None:
    assert not PRICES.known(unknown)
    assert PRICES.cost(unknown, 0, 0, audio_seconds=3600) == UPPER_HOUR * 1_000_000


def test_the_upper_price_of_an_hour_is_above_the_whole_list() -> None:
    entries: list[Any] = [
        entry
        for provider in get_snapshot().providers
        for model in provider.models
        for entry in (model.prices if isinstance(model.prices, list) else [model.prices])
    ]
    prices = [getattr(entry, "prices", entry).audio_hours for entry in entries]
    listed = [price for price in prices if price is not None]
    assert listed
    assert max(listed) < UPPER_HOUR


def test_words_for_a_model_that_only_has_a_price_for_sound_are_not_free() -> None:
    assert PRICES.cost(config("openai", "gpt-transcribe"), 1000, 1000) > 0


def test_embeddings_are_charged_by_the_tokens_that_go_in() -> None:
    small = config("openai", "text-embedding-3-small")  # $0.02 per million
    assert PRICES.known(small)
    assert PRICES.cost(small, 1_000_000, 0) == 20_000


@given(
    seconds=st.floats(0.1, 7200),
    tokens=st.integers(0, 100_000),
    sound=st.integers(0, 100_000),
    words=st.integers(0, 10_000),
    model=st.sampled_from(
        [
            ("openai", "gpt-transcribe"),
            ("openai", "gpt-4o-transcribe"),
            ("gemini", "gemini-2.5-flash-lite"),
            ("groq", "whisper-large-v3"),
            ("mistral", "voxtral-mini-latest"),
            ("mistral", "voxtral-small-latest"),
            ("cactus_cloud", "transcribe"),
        ]
    ),
)
def test_no_sound_is_ever_free(
    seconds: float, tokens: int, sound: int, words: int, model: tuple[str, str]
) -> None:
    assert PRICES.cost(config(*model), tokens, words, seconds, sound) > 0
