"""Tokens and sound to micro-dollars, from the price list of the installed genai-prices package.

Nothing is fetched. A model that is not on the list is never free, or a budget would mean nothing.
It is charged at the highest rates of its provider. If the provider is unknown too, the rates are
`UPPER_INPUT` and `UPPER_OUTPUT`, and for sound `UPPER_HOUR`. `known` tells such a guess from a
price.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from edgewise.cloud.conversation import (
    TOKENS_PER_SECOND,
    audio_seconds,
    most_input_tokens,
    most_output_tokens,
)
from edgewise.cloud.provider import Prices, ProviderConfig
from edgewise.cloud.providers import Provider, row_for
from edgewise.types.messages import Request
from edgewise.types.replies import Attempt
from edgewise.types.tokens import Finish

if TYPE_CHECKING:
    from genai_prices.types import PriceCalculation
    from genai_prices.types import Provider as ListedProvider

# Dollars per million tokens: the most expensive general chat models of 2026.
UPPER_INPUT = Decimal(30)
UPPER_OUTPUT = Decimal(180)
# Dollars per hour of sound: more than anything on the list, spoken conversation included.
UPPER_HOUR = Decimal(5)

_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class _Used:
    """What is paid for. `audio_tokens` are part of `input_tokens`."""

    input_tokens: int
    output_tokens: int
    audio_seconds: float
    audio_tokens: int


class LibraryPrices:
    """Implements `Prices`. Rounds up to whole micro-dollars; cached tokens cost the full price."""

    def cost(
        self,
        config: ProviderConfig,
        input_tokens: int,
        output_tokens: int,
        audio_seconds: float = 0.0,
        audio_tokens: int = 0,
    ) -> int:
        row = row_for(config)
        if row.free:
            return 0
        if audio_seconds:
            audio_seconds = max(audio_seconds, row.least_audio_s)
        used = _Used(input_tokens, output_tokens, audio_seconds, min(audio_tokens, input_tokens))
        dollars = _listed_price(row, config.model, used)
        if dollars is None:
            dollars = _guessed_price(row, used)
        return math.ceil(dollars * _MILLION)

    def known(self, config: ProviderConfig) -> bool:
        """False if `cost` is a cautious guess."""
        row = row_for(config)
        if row.free:
            return True
        return row.prices_published and _listed(row, config.model) is not None


def highest(prices: Prices, config: ProviderConfig, request: Request) -> int:
    """What is reserved before anything is sent."""
    finish = Finish(
        input_tokens=most_input_tokens(request),
        output_tokens=most_output_tokens(request),
        # All of it at the rate for sound, which is never lower.
        audio_tokens=most_input_tokens(request) if request.task == "transcribe" else 0,
        audio_seconds=audio_seconds(request),
    )
    return _cost(prices, config, finish)


def charged(attempt: Attempt, finish: Finish, prices: Prices, config: ProviderConfig) -> Attempt:
    """The attempt with its usage and cost."""
    return replace(
        attempt,
        input_tokens=finish.input_tokens,
        output_tokens=finish.output_tokens,
        cached_tokens=finish.cached_tokens,
        estimated=finish.estimated,
        audio_seconds=finish.audio_seconds,
        cost_microdollars=_cost(prices, config, finish),
    )


def _cost(prices: Prices, config: ProviderConfig, finish: Finish) -> int:
    return prices.cost(
        config,
        finish.input_tokens,
        finish.output_tokens,
        audio_seconds=finish.audio_seconds,
        audio_tokens=finish.audio_tokens,
    )


def _listed_as(row: Provider) -> str:
    return row.prices_as or row.name


def _listed(row: Provider, model: str, **used: float) -> PriceCalculation | None:
    import genai_prices  # noqa: PLC0415 - the list is large; only those who pay load it

    try:
        return genai_prices.calc_price(
            genai_prices.Usage(**used), model, provider_id=_listed_as(row)
        )
    except LookupError:
        return None


def _listed_price(row: Provider, model: str, used: _Used) -> Decimal | None:
    """None if the list does not know the model, or the price of this use."""
    listed = _listed(row, model)
    if listed is None:
        return None
    rates = listed.model_price
    by_the_hour = used.audio_seconds > 0 and rates.audio_hours is not None
    if rates.input_mtok is None and not by_the_hour:
        return None  # its price is for sound or pictures, and this was neither
    if by_the_hour:
        counted = {"audio_seconds": used.audio_seconds}
    else:
        sound = used.audio_tokens or math.ceil(used.audio_seconds * TOKENS_PER_SECOND)
        counted = {"input_audio_tokens": sound}
    total = max(used.input_tokens, int(counted.get("input_audio_tokens", 0)))
    found = _listed(row, model, input_tokens=total, output_tokens=used.output_tokens, **counted)
    return None if found is None else found.total_price


def _guessed_price(row: Provider, used: _Used) -> Decimal:
    if used.audio_seconds:
        return Decimal(used.audio_seconds) * UPPER_HOUR / 3600
    dearest_input, dearest_output = _dearest(_listed_as(row))
    return (used.input_tokens * dearest_input + used.output_tokens * dearest_output) / _MILLION


@functools.cache
def _dearest(provider_id: str) -> tuple[Decimal, Decimal]:
    """The highest input and output rates of a provider's chat models, tiers included."""
    listed = _provider(provider_id)
    if listed is None:
        return UPPER_INPUT, UPPER_OUTPUT
    rates = [
        (max(_rates(price.input_mtok)), max(_rates(price.output_mtok)))
        for model in listed.models
        for price in _prices_of(model.prices)
        if price.input_mtok is not None and price.output_mtok is not None
    ]
    if not rates:
        return UPPER_INPUT, UPPER_OUTPUT
    return max(rate for rate, _ in rates), max(rate for _, rate in rates)


def _provider(provider_id: str) -> ListedProvider | None:
    from genai_prices.data_snapshot import get_snapshot  # noqa: PLC0415

    providers = get_snapshot().providers
    return next((listed for listed in providers if listed.id == provider_id), None)


def _prices_of(prices: Any) -> Iterator[Any]:
    """A model has one price, or several for different times."""
    for entry in prices if isinstance(prices, list) else [prices]:
        yield getattr(entry, "prices", entry)


def _rates(rate: Any) -> Iterator[Decimal]:
    """A rate is a number, or a base and tiers by length."""
    if isinstance(rate, Decimal | int | float):
        yield Decimal(rate)
    else:
        yield Decimal(rate.base)
        yield from (Decimal(tier.price) for tier in rate.tiers)
