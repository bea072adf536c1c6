"""What a call may cost at most, and what it did cost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.cloud.conversation import estimated_finish
from edgewise.cloud.prices import LibraryPrices, charged, highest
from edgewise.cloud.provider import ProviderConfig
from edgewise.types.messages import Audio, Message, Request
from edgewise.types.replies import Attempt
from edgewise.types.tokens import Finish
from tests.cloud.speech_cases import spoken, written

PRICES = LibraryPrices()
TRIED = Attempt(place="cloud", backend="openai", model="m", outcome="answered")


def config(name: str, model: str) -> ProviderConfig:
    return ProviderConfig(name=name, protocol="openai", model=model, key="k")


BY_THE_HOUR = config("openai", "gpt-transcribe")
BY_TOKENS = config("openai", "gpt-4o-mini-transcribe")


def test_sound_by_the_hour_is_reserved_at_its_seconds() -> None:
    request = spoken(Audio(b"x", seconds=60))
    assert highest(PRICES, BY_THE_HOUR, request) == 4_500


def test_an_embedding_is_reserved_without_an_answer() -> None:
    small = config("openai", "text-embedding-3-small")
    tokens = 2 * 250 + 64
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
        config("gemini", "gemini-2.5-flash-lite"),
        config("groq", "whisper-large-v3-turbo"),
        config("mistral", "voxtral-mini-latest"),
        config("cactus_cloud", "transcribe"),
    ],
    ids=lambda each: each.model,
)
@given(seconds=st.floats(0.0, 3600), words=st.text(max_size=200), heard=st.integers(0, 4000))
def test_what_is_reserved_covers_what_an_estimate_charges(
    where: ProviderConfig, seconds: float, words: str, heard: int
) -> None:
    """`heard` tokens are more than anybody can say in a second, and are cut to what can be said."""
    request = spoken(Audio(b"x" * 1000, seconds=seconds), words)
    said = min(4 * heard, int(60 * (seconds or 0.1)))
    finish = estimated_finish(request, "stop", said)
    paid = charged(TRIED, finish, PRICES, where)
    assert paid.cost_microdollars <= highest(PRICES, where, request)
    assert paid.cost_microdollars > 0


def test_a_chat_is_reserved_as_before() -> None:
    luna = config("openai", "gpt-6-luna")
    request = Request(messages=(Message("user", "x" * 400),), max_tokens=100)
    assert highest(PRICES, luna, request) == PRICES.cost(luna, 2 * 100 + 64, 100)
