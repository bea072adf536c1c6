"""Tokens and sound to money: what is reserved, and what is charged."""

from __future__ import annotations

import socket
from dataclasses import replace
from typing import Any, NoReturn

import pytest
from genai_prices.data_snapshot import get_snapshot
from hypothesis import given
from hypothesis import strategies as st

from edgewise.cloud.conversation import (
    BYTES_PER_PART,
    BYTES_PER_REQUEST,
    BYTES_PER_TEXT,
    TOKENS_PER_SECOND,
    estimated_finish,
)
from edgewise.cloud.provider import ProviderConfig, Rates
from edgewise.cloud.providers import (
    UPPER_HOUR,
    UPPER_INPUT,
    UPPER_OUTPUT,
    LibraryPrices,
    charged,
    highest,
)
from edgewise.types.messages import Audio, Message, Request
from edgewise.types.replies import Attempt, Finish
from tests.cloud.speech_cases import spoken, written

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


def test_what_the_provider_has_cached_costs_what_the_list_says() -> None:
    opus = config("anthropic", "claude-opus-4-8")  # $5, and $0.50 from the cache
    assert PRICES.cost(opus, 21_000, 0) == 105_000
    assert PRICES.cost(opus, 21_000, 0, cached_tokens=20_000) == 5_000 + 10_000
    assert PRICES.cost(opus, 100, 0, cached_tokens=500) == 50, "more than all is all"
    unknown = config("someone", "some-model", "https://cloud.example/v1")
    assert PRICES.cost(unknown, 1000, 0, cached_tokens=900) == PRICES.cost(unknown, 1000, 0)


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


def test_a_known_model_at_a_provider_of_ones_own_costs_what_its_maker_charges() -> None:
    """It is a guess, and a hundred times nearer to the truth than the upper price."""
    for name in ("gpt-5-mini", "openai/gpt-5-mini"):
        own = config("gateway", name, "https://gateway.example/v1")
        assert PRICES.cost(own, 1_000_000, 1_000_000) == 2_250_000  # $0.25 and $2.00
        assert not PRICES.known(own)


def test_the_price_that_its_table_names_is_what_a_provider_costs() -> None:
    own = replace(
        config("gateway", "gpt-5-mini", "https://gateway.example/v1"), rates=Rates(0.1, 0.7, 0.01)
    )
    assert PRICES.known(own)
    assert PRICES.cost(own, 1_000_000, 1_000_000) == 800_000
    assert PRICES.cost(own, 1_000_000, 0, cached_tokens=900_000) == 10_000 + 9_000
    assert PRICES.cost(own, 1, 0) == 1  # rounded up: nothing is free


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


TRIED = Attempt(place="cloud", backend="openai", model="m", outcome="answered")


def charging(name: str, model: str) -> ProviderConfig:
    return ProviderConfig(name=name, protocol="openai", model=model, key="k")


BY_THE_HOUR = charging("openai", "gpt-transcribe")
BY_TOKENS = charging("openai", "gpt-4o-mini-transcribe")


def test_sound_by_the_hour_is_reserved_at_its_seconds() -> None:
    request = spoken(Audio(b"x", seconds=60))
    assert highest(PRICES, BY_THE_HOUR, request) == 4_500


def test_an_embedding_is_reserved_without_an_answer() -> None:
    small = charging("openai", "text-embedding-3-small")
    tokens = 1000 + 2 + BYTES_PER_TEXT + BYTES_PER_PART + BYTES_PER_REQUEST
    assert highest(PRICES, small, written("x" * 1000)) == -(-tokens * 2 // 100)


def test_an_attempt_is_charged_for_what_its_finish_says() -> None:
    finish = Finish("stop", input_tokens=1000, output_tokens=100, audio_tokens=1000)
    attempt = charged(TRIED, finish, PRICES, BY_TOKENS)
    assert (attempt.cost_microdollars, attempt.audio_seconds) == (3500, 0.0)
    by_seconds = charged(TRIED, Finish(audio_seconds=60.0), PRICES, BY_THE_HOUR)
    assert (by_seconds.cost_microdollars, by_seconds.audio_seconds) == (4500, 60.0)
    assert (by_seconds.outcome, by_seconds.input_tokens) == ("answered", 0)


@pytest.mark.parametrize(
    "where",
    [
        BY_THE_HOUR,
        BY_TOKENS,
        charging("gemini", "gemini-2.5-flash-lite"),
        charging("groq", "whisper-large-v3-turbo"),
        charging("mistral", "voxtral-mini-latest"),
        charging("cactus_cloud", "transcribe"),
    ],
    ids=lambda each: each.model,
)
@given(seconds=st.floats(0.0, 3600), words=st.text(max_size=200), heard=st.integers(0, 4000))
def test_a_reservation_covers_what_an_estimate_charges(
    where: ProviderConfig, seconds: float, words: str, heard: int
) -> None:
    """`heard` tokens are cut to what can be said in that time."""
    request = spoken(Audio(b"x" * 1000, seconds=seconds), words)
    said = min(4 * heard, int(60 * (seconds or 0.1)))
    finish = estimated_finish(request, "stop", said)
    paid = charged(TRIED, finish, PRICES, where)
    assert paid.cost_microdollars <= highest(PRICES, where, request)
    assert paid.cost_microdollars > 0


def test_a_chat_is_reserved_at_one_token_for_every_byte() -> None:
    """At the price of what is stored: OpenAI stores a prompt without being asked."""
    luna = charging("openai", "gpt-6-luna")
    request = Request(messages=(Message("user", "x" * 400),), max_tokens=100)
    tokens = 400 + 2 + BYTES_PER_TEXT + BYTES_PER_PART + BYTES_PER_REQUEST
    assert highest(PRICES, luna, request) == PRICES.cost(luna, tokens, 100, stored_tokens=tokens)
