"""What all adapters that transcribe promise alike."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgewise.cloud.provider import CloudProvider
from edgewise.errors import (
    CloudAuthFailed,
    CloudCut,
    CloudError,
    CloudFailed,
    CloudMalformed,
    CloudRateLimited,
    CloudRejected,
    CloudTimeout,
    CloudUnreachable,
)
from edgewise.testing import (
    Answer,
    Cut,
    Empty,
    LoopbackCloud,
    Malformed,
    Scripted,
    Silence,
    Status,
    black_hole,
    refused_url,
)
from edgewise.types.messages import Audio, Message, Request
from tests.cloud.adapter_cases import Reader, address, finish_of, open_adapter, passed_on, text_of
from tests.cloud.speech_cases import HEARING, SOUND, WAVE, speech_model, spoken


@pytest.fixture
def cloud() -> Iterator[LoopbackCloud]:
    with LoopbackCloud() as running:
        yield running


@pytest.fixture(params=HEARING)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@contextlib.contextmanager
def opened(name: str, base_url: str, **limits: float) -> Iterator[CloudProvider]:
    provider = open_adapter(name, base_url, model=speech_model(name), **limits)  # type: ignore[arg-type]
    try:
        yield provider
    finally:
        provider.close()


@pytest.fixture
def provider(cloud: LoopbackCloud, name: str) -> Iterator[CloudProvider]:
    with opened(name, address(cloud, name)) as made:
        yield made


def test_what_was_said_comes_back_with_one_finish(
    cloud: LoopbackCloud, provider: CloudProvider
) -> None:
    cloud.script("Pack my box with five dozen jugs.")
    chunks = list(provider.stream(spoken(), "try-1"))
    assert text_of(chunks) == "Pack my box with five dozen jugs."
    finish = finish_of(chunks)
    assert (finish.reason, finish.audio_seconds) == ("stop", 4.0)


def test_the_bytes_that_arrive_are_the_ones_sent(
    cloud: LoopbackCloud, provider: CloudProvider
) -> None:
    list(provider.stream(spoken(), "try-1"))
    (seen,) = cloud.requests
    assert seen.audio == WAVE
    assert seen.headers["x-client-request-id"] == "try-1"


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.binary(min_size=1, max_size=3000))
def test_no_byte_of_any_sound_is_changed_on_the_way(
    cloud: LoopbackCloud, provider: CloudProvider, data: bytes
) -> None:
    list(provider.stream(spoken(Audio(data, "audio/ogg", 1.0)), "try-1"))
    assert cloud.requests[-1].audio == data


def test_a_script_may_hear_for_itself(cloud: LoopbackCloud, provider: CloudProvider) -> None:
    cloud.always(lambda seen: f"{len(seen.audio)} bytes")
    for size in (10, 700):
        chunks = list(provider.stream(spoken(Audio(b"x" * size, seconds=1.0)), f"try-{size}"))
        assert text_of(chunks) == f"{size} bytes"


def test_silence_is_an_answer_too(cloud: LoopbackCloud, provider: CloudProvider) -> None:
    cloud.script(Empty())
    chunks = list(provider.stream(spoken(), "try-1"))
    assert passed_on(chunks) == ["", finish_of(chunks)]


@pytest.mark.parametrize("sounds", [0, 2])
def test_one_sound_is_sent_or_nothing(
    cloud: LoopbackCloud, provider: CloudProvider, sounds: int
) -> None:
    request = Request(messages=(Message("user", "hm", audio=(SOUND,) * sounds),), task="transcribe")
    with pytest.raises(CloudRejected, match=f"one sound per request, this one has {sounds}"):
        list(provider.stream(request, "try-1"))
    assert cloud.requests == []


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Status(400), CloudRejected),
        (Status(401), CloudAuthFailed),
        (Status(429, retry_after_s=3), CloudRateLimited),
        (Status(500), CloudFailed),
        (Malformed(), CloudMalformed),
        (Cut(how="reset"), CloudCut),
        (Cut(how="close"), CloudCut),
    ],
)
def test_a_fault_is_told_by_its_own_name(
    cloud: LoopbackCloud, provider: CloudProvider, fault: Scripted, error: type[CloudError]
) -> None:
    cloud.script(fault)
    with pytest.raises(error) as caught:
        list(provider.stream(spoken(), "try-1"))
    assert caught.value.provider == provider.config.name
    assert len(cloud.requests) == 1, "the SDK must not try again behind our back"


def test_a_provider_that_asks_for_a_pause_is_heard(
    cloud: LoopbackCloud, provider: CloudProvider
) -> None:
    cloud.script(Status(429, retry_after_s=3))
    with pytest.raises(CloudRateLimited) as caught:
        list(provider.stream(spoken(), "try-1"))
    assert caught.value.retry_after_s == 3


def test_waiting_for_a_silent_provider_has_an_end(cloud: LoopbackCloud, name: str) -> None:
    cloud.script(Silence())
    with (
        opened(name, address(cloud, name), first_token_s=0.3) as provider,
        pytest.raises(CloudTimeout),
    ):
        list(provider.stream(spoken(), "try-1"))


def test_an_unreachable_provider_is_noticed(name: str) -> None:
    with opened(name, refused_url()) as provider, pytest.raises(CloudUnreachable) as caught:
        list(provider.stream(spoken(), "try-1"))
    assert caught.value.code == "cloud_refused"


def test_a_black_hole_is_left_after_the_connect_limit(name: str) -> None:
    with (
        black_hole() as url,
        opened(name, url, connect_s=0.3) as provider,
        pytest.raises(CloudUnreachable) as caught,
    ):
        list(provider.stream(spoken(), "try-1"))
    assert caught.value.code == "cloud_connect_timeout"


def test_an_abort_from_another_thread_ends_the_wait(
    cloud: LoopbackCloud, provider: CloudProvider
) -> None:
    cloud.script(Silence())
    reader = Reader(lambda: provider.stream(spoken(), "try-1"))
    cloud.wait_for(lambda server: len(server.requests) == 1)
    provider.abort("try-1")
    assert reader.ended_within(5)
    assert isinstance(reader.error, CloudCut)
    cloud.wait_for(lambda server: server.disconnects == 1)


def test_answers_find_their_own_sounds_whatever_the_order(
    cloud: LoopbackCloud, provider: CloudProvider
) -> None:
    slow = {b"first": 0.3, b"second": 0.15, b"third": 0.0}
    cloud.always(lambda seen: Answer(text=seen.audio.decode(), delay_first_s=slow[seen.audio]))
    readers = {
        data: Reader(
            lambda data=data: provider.stream(spoken(Audio(data, seconds=1.0)), data.decode())  # type: ignore[misc]
        )
        for data in slow
    }
    for data, reader in readers.items():
        assert reader.ended_within(10)
        assert text_of(reader.chunks) == data.decode()


def test_a_translation_is_asked_for_where_translations_are(cloud: LoopbackCloud) -> None:
    cloud.always("Turn on the light.")
    with opened("openai", address(cloud, "openai")) as provider:
        chunks = list(provider.stream(spoken(words="Good morning.", translate=True), "try-1"))
    (seen,) = cloud.requests
    assert (seen.path, seen.body["prompt"]) == ("/v1/audio/translations", "Good morning.")
    assert text_of(chunks) == "Turn on the light."
    assert finish_of(chunks).estimated and finish_of(chunks).audio_seconds == 4.0
    with opened("gemini", address(cloud, "gemini")) as provider:
        list(provider.stream(spoken(translate=True), "try-2"))
    said = str(cloud.requests[-1].body["systemInstruction"])
    assert "into English" in said and "Do not translate" not in said


def test_a_translation_with_a_language_does_not_name_it(cloud: LoopbackCloud) -> None:
    with opened("openai", address(cloud, "openai")) as provider:
        list(provider.stream(spoken(language="de", translate=True), "try-1"))
    assert "language" not in cloud.requests[0].body
