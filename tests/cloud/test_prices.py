"""Tokens to micro-dollars."""

from __future__ import annotations

import socket
from typing import NoReturn

import pytest

from edgewise.cloud.prices import UPPER_INPUT, UPPER_OUTPUT, LibraryPrices
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
