"""A conversation's history: what may leave the device with it, and what a turn can carry."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from edgewise import CloudError, Conversation, Engine, Image, Settings
from edgewise.testing import Answer, LoopbackCloud, ScriptedBackend


@pytest.fixture
def cloud() -> Iterator[LoopbackCloud]:
    with LoopbackCloud() as server:
        server.always(Answer(text="The cloud knows."))
        yield server


@pytest.fixture
def engine(cloud: LoopbackCloud) -> Iterator[Engine]:
    environment = {**os.environ, "OPENAI_API_KEY": "k", "OPENAI_BASE_URL": cloud.openai_url}
    backend = ScriptedBackend.confident("Noted.")
    with Engine(Settings.load(environment), backend=backend) as made:
        yield made


def test_a_private_turn_keeps_every_later_turn_on_the_device(
    engine: Engine, cloud: LoopbackCloud
) -> None:
    talk = Conversation(engine, policy="prefer_cloud")
    assert talk.ask("Hello.").source == "cloud"
    assert not talk.private
    talk.ask("My PIN is 1234.", private=True)
    assert talk.private
    later = talk.ask("What is the weather?", private=False)
    assert (later.source, later.decision.degraded_code) == ("local", "private")
    with pytest.raises(CloudError) as refused:
        talk.ask("And now?", policy="cloud_only")
    assert refused.value.code == "private"
    assert len(cloud.requests) == 1
    assert not any("1234" in str(seen.body) for seen in cloud.requests)


def test_a_history_without_its_private_turns_may_leave_again(
    engine: Engine, cloud: LoopbackCloud
) -> None:
    talk = Conversation(engine, system="Be brief.", policy="prefer_cloud")
    list(talk.stream("My PIN is 1234.", private=True))
    answer = talk.messages[-1]
    talk.messages[:] = [talk.messages[0], answer]
    assert talk.private, "the answer to a private turn may repeat it"
    talk.messages[:] = talk.messages[:1]
    assert talk.ask("Hello.").source == "cloud"


def test_pictures_travel_in_the_turn_they_were_asked_with(
    engine: Engine, cloud: LoopbackCloud
) -> None:
    talk = Conversation(engine, policy="prefer_cloud")
    talk.ask("What is this?", images=[Image(b"\x89PNG")])
    talk.ask("Is it blue?")
    told: Any = cloud.requests[-1].body["messages"]
    assert "image_url" in str(told[0])
    assert "image_url" not in str(told[2])
