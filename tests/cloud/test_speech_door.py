"""Speech through the door: privacy, budgets, breakers, time limits and what is written down."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from edgewise import Engine, Settings
from edgewise.cloud.breaker import Breaker
from edgewise.cloud.door import Door, Lane
from edgewise.cloud.openai import open_provider
from edgewise.cloud.prices import LibraryPrices
from edgewise.cloud.provider import Chunk, ProviderConfig, Stop, TimeLimits
from edgewise.errors import CloudClosed, CloudError, CloudFailed, CloudMalformed, CloudTimeout
from edgewise.record.budget import parse_budget
from edgewise.record.ledger import Ledger
from edgewise.testing import Answer, Cut, Empty, LoopbackCloud, Malformed, Silence, Status
from edgewise.types.messages import Audio, Request
from edgewise.types.replies import Attempt
from edgewise.types.tokens import Finish, Vectors
from tests.cloud.adapter_cases import KEY, address
from tests.cloud.speech_cases import HEARING, SOUND, WAVE, speech_model, spoken, written

MINUTE = Audio(WAVE, "audio/wav", seconds=60.0)  # $0.0045 at gpt-transcribe
LIMITS = TimeLimits(connect_s=0.4, first_token_s=0.6, total_s=2.0, patience_s=0.6)


@pytest.fixture
def cloud() -> Iterator[LoopbackCloud]:
    with LoopbackCloud() as running:
        yield running


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    book = Ledger(tmp_path / "ledger.sqlite3", budgets=[parse_budget("$0.01/day")])
    yield book
    book.close()


def lane(url: str, model: str = "gpt-transcribe") -> Lane:
    config = ProviderConfig(
        name="openai", protocol="openai", model=model, base_url=url, key=KEY, limits=LIMITS
    )
    return Lane(config, open_provider, Breaker(30.0))


@pytest.fixture
def door(cloud: LoopbackCloud, ledger: Ledger) -> Iterator[Door]:
    made = Door([lane(cloud.openai_url)], ledger, LibraryPrices(), LIMITS)
    yield made
    made.close()


def hear(door: Door, request: Request) -> tuple[str, Attempt]:
    journal: list[Attempt] = []
    chunks = list(door.stream(request, journal, live=False, patience_s=None))
    assert isinstance(chunks[-1], Finish)
    (attempt,) = journal
    return "".join(chunk for chunk in chunks if isinstance(chunk, str)), attempt


def failed(door: Door, request: Request, error: type[CloudError]) -> Attempt:
    journal: list[Attempt] = []
    with pytest.raises(error):
        list(door.stream(request, journal, live=False, patience_s=None))
    (attempt,) = journal
    return attempt


@pytest.mark.parametrize("name", HEARING)
def test_an_engine_opens_a_door_for_speech_with_the_speech_models(
    cloud: LoopbackCloud, tmp_path: Path, name: str
) -> None:
    tables = {name: {"base_url": address(cloud, name), "key_env": "THE_KEY"}}
    settings = Settings.load(
        {"THE_KEY": KEY}, chain=[name], providers=tables, data_dir=tmp_path, config_dir=tmp_path
    )
    cloud.always("Right in the middle.")
    with Engine(settings) as engine:
        door = engine.cloud_for("transcribe")
        journal: list[Attempt] = []
        request = spoken(MINUTE)
        chunks = list(door.stream(request, journal, live=False, patience_s=None))
        assert chunks[0] == "Right in the middle."
        (attempt,) = journal
        assert (attempt.backend, attempt.model) == (name, speech_model(name))
        assert (attempt.audio_seconds, attempt.outcome) == (60.0, "answered")
        assert attempt.cost_microdollars > 0
        assert engine.ledger.report().spent_microdollars == attempt.cost_microdollars
    assert [seen.audio for seen in cloud.requests] == [WAVE]


def test_sound_is_paid_by_its_seconds(door: Door, cloud: LoopbackCloud, ledger: Ledger) -> None:
    cloud.script(Answer(text="All of it.", audio_seconds=60.0))
    text, attempt = hear(door, spoken(MINUTE))
    assert text == "All of it."
    assert (attempt.cost_microdollars, attempt.audio_seconds) == (4_500, 60.0)
    assert not attempt.estimated
    assert ledger.report().spent_microdollars == 4_500


def test_silence_is_answered_and_not_an_empty_answer(door: Door, cloud: LoopbackCloud) -> None:
    cloud.script(Empty())
    text, attempt = hear(door, spoken(SOUND))
    assert (text, attempt.outcome) == ("", "answered")


def test_private_sound_never_reaches_the_socket(
    door: Door, cloud: LoopbackCloud, ledger: Ledger
) -> None:
    request = replace(spoken(SOUND), private=True)
    with pytest.raises(CloudClosed) as caught:
        list(door.stream(request, [], live=False, patience_s=None))
    assert caught.value.code == "private"
    assert (cloud.connections, ledger.seen(request.id)) == (0, False)


def test_a_budget_that_does_not_cover_the_seconds_sends_nothing(
    door: Door, cloud: LoopbackCloud
) -> None:
    """A cent a day: two minutes at $0.0045 each, not three."""
    cloud.always(Answer(text="Yes.", audio_seconds=60.0))
    for _ in range(2):
        hear(door, spoken(MINUTE))
    with pytest.raises(CloudClosed) as caught:
        list(door.stream(spoken(MINUTE), [], live=False, patience_s=None))
    assert caught.value.code == "budget_spent"
    assert len(cloud.requests) == 2
    text, _ = hear(door, spoken(Audio(WAVE, seconds=10.0)))
    assert text == "Yes.", "a shorter sound still fits"


def test_a_sound_that_does_not_say_how_long_it_is_is_not_free(
    door: Door, cloud: LoopbackCloud
) -> None:
    unsaid = Audio(bytes(8000 * 360), "audio/wav")  # perhaps six minutes of a telephone call
    with pytest.raises(CloudClosed) as caught:
        list(door.stream(spoken(unsaid), [], live=False, patience_s=None))
    assert (caught.value.code, cloud.connections) == ("budget_spent", 0)


def test_a_refusal_costs_nothing_and_has_no_seconds(door: Door, cloud: LoopbackCloud) -> None:
    cloud.always(Status(500))
    attempt = failed(door, spoken(MINUTE), CloudFailed)
    assert (attempt.cost_microdollars, attempt.audio_seconds, attempt.tries) == (0, 0.0, 2)


@pytest.mark.parametrize(
    ("fault", "error"),
    [(Silence(), CloudTimeout), (Malformed(), CloudMalformed), (Cut(), CloudError)],
)
def test_what_may_have_been_transcribed_is_taken_for_paid(
    door: Door, cloud: LoopbackCloud, fault: Silence | Malformed | Cut, error: type[CloudError]
) -> None:
    cloud.script(fault)
    attempt = failed(door, spoken(MINUTE), error)
    assert (attempt.cost_microdollars, attempt.audio_seconds) == (4_500, 60.0)
    assert attempt.estimated


def test_the_breaker_turns_the_next_sound_back_at_once(
    cloud: LoopbackCloud, door: Door, ledger: Ledger
) -> None:
    cloud.stop()
    failed(door, spoken(SOUND), CloudError)
    with pytest.raises(CloudClosed) as caught:
        list(door.stream(spoken(SOUND), [], live=False, patience_s=None))
    assert caught.value.code == "breaker_open"


def test_a_stop_from_another_thread_ends_the_wait_and_is_settled(
    door: Door, cloud: LoopbackCloud
) -> None:
    cloud.script(Silence())
    journal: list[Attempt] = []
    chunks: list[Chunk] = []
    stop = Stop()
    request = spoken(MINUTE)
    reader = threading.Thread(
        target=lambda: chunks.extend(
            door.stream(request, journal, live=False, patience_s=None, stop=stop)
        )
    )
    reader.start()
    cloud.wait_for(lambda server: len(server.requests) == 1)
    stop.ask()
    reader.join(5)
    assert not reader.is_alive()
    assert chunks == []
    assert [(each.outcome, each.audio_seconds) for each in journal] == [("cancelled", 60.0)]
    cloud.wait_for(lambda server: server.disconnects == 1)


def test_a_door_without_ears_says_what_is_missing(ledger: Ledger) -> None:
    shut = Door([], ledger, LibraryPrices()).closed(spoken(SOUND))
    assert shut is not None
    assert shut.code == "no_key" and "no cloud provider that transcribes" in str(shut)


def test_a_provider_that_cannot_hear_has_no_lane(tmp_path: Path) -> None:
    settings = Settings.load(
        {"ANTHROPIC_API_KEY": KEY, "DEEPSEEK_API_KEY": KEY}, data_dir=tmp_path, config_dir=tmp_path
    )
    with Engine(settings) as engine:
        shut = engine.cloud_for("transcribe").closed(spoken(SOUND))
        assert shut is not None and shut.code == "no_key"
        assert engine.cloud_for("chat").closed(replace(spoken(SOUND), task="chat")) is None


def test_vectors_come_through_the_door_and_are_paid_by_their_tokens(
    cloud: LoopbackCloud, ledger: Ledger
) -> None:
    door = Door([lane(cloud.openai_url, "text-embedding-3-large")], ledger, LibraryPrices(), LIMITS)
    cloud.script(Answer(vectors=((1.0, 2.0),), input_tokens=1000))
    journal: list[Attempt] = []
    chunks = list(door.stream(written("a text"), journal, live=False, patience_s=None))
    door.close()
    assert chunks[0] == Vectors(((1.0, 2.0),))
    (attempt,) = journal
    assert (attempt.outcome, attempt.input_tokens, attempt.cost_microdollars) == (
        "answered",
        1000,
        130,
    )
