"""What a cloud call may cost at most, and what it did cost as far as anyone can know."""

from __future__ import annotations

from dataclasses import replace

from edgewise.cloud.conversation import audio_seconds, most_input_tokens, most_output_tokens
from edgewise.cloud.provider import Prices, ProviderConfig
from edgewise.types.messages import Request
from edgewise.types.replies import Attempt
from edgewise.types.tokens import Finish


def highest(prices: Prices, config: ProviderConfig, request: Request) -> int:
    """What is reserved before anything is sent."""
    finish = Finish(
        input_tokens=most_input_tokens(request),
        output_tokens=most_output_tokens(request),
        # All of it at the rate for sound, which is never the lower one.
        audio_tokens=most_input_tokens(request) if request.task == "transcribe" else 0,
        audio_seconds=audio_seconds(request),
    )
    return _cost(prices, config, finish)


def charged(attempt: Attempt, finish: Finish, prices: Prices, config: ProviderConfig) -> Attempt:
    """The attempt with what it took."""
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
