"""What all adapters that embed promise alike."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from edgewise.cloud.provider import Chunk, CloudProvider
from edgewise.errors import (
    CloudAuthFailed,
    CloudCut,
    CloudError,
    CloudFailed,
    CloudMalformed,
    CloudRateLimited,
    CloudRejected,
)
from edgewise.testing import Answer, Cut, Empty, LoopbackCloud, Malformed, Scripted, Silence, Status
from edgewise.types.messages import Message, Request
from edgewise.types.replies import Vectors
from tests.cloud.adapter_cases import Reader, address, finish_of, open_adapter
from tests.cloud.speech_cases import EMBEDDING, embedding_model, written

PAIR = ((0.25, -1.0), (0.5, 0.125))


@pytest.fixture
def cloud() -> Iterator[LoopbackCloud]:
    with LoopbackCloud() as running:
        yield running


@pytest.fixture(params=EMBEDDING)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@contextlib.contextmanager
def opened(name: str, base_url: str) -> Iterator[CloudProvider]:
    provider = open_adapter(name, base_url, model=embedding_model(name))
    try:
        yield provider
    finally:
        provider.close()


@pytest.fixture
def provider(cloud: LoopbackCloud, name: str) -> Iterator[CloudProvider]:
    with opened(name, address(cloud, name)) as made:
        yield made


def vectors_of(chunks: list[Chunk]) -> tuple[tuple[float, ...], ...]:
    (vectors,) = [chunk for chunk in chunks if isinstance(chunk, Vectors)]
    return vectors.values


def test_each_text_gets_its_vector_in_order(cloud: LoopbackCloud, provider: CloudProvider) -> None:
    cloud.script(Answer(vectors=PAIR, input_tokens=5))
    chunks = list(provider.stream(written("one", "two"), "try-1"))
    assert vectors_of(chunks) == PAIR
    finish = finish_of(chunks)
    assert (finish.input_tokens, finish.output_tokens, finish.estimated) == (5, 0, False)


def test_a_text_has_the_same_vector_wherever_it_stands(provider: CloudProvider) -> None:
    there = vectors_of(list(provider.stream(written("sea", "hill"), "try-1")))
    back = vectors_of(list(provider.stream(written("hill", "sea"), "try-2")))
    assert there == back[::-1]


def test_fewer_dimensions_can_be_asked_for(provider: CloudProvider) -> None:
    chunks = list(provider.stream(written("one", "two", dimensions=3), "try-1"))
    assert [len(vector) for vector in vectors_of(chunks)] == [3, 3]


def test_only_the_users_words_are_embedded(provider: CloudProvider) -> None:
    messages = (Message("system", "Be brief."), Message("user", "one"))
    chunks = list(provider.stream(Request(messages=messages, task="embed"), "try-1"))
    assert len(vectors_of(chunks)) == 1


@pytest.mark.parametrize("texts", [(), ("one", "")])
def test_an_empty_text_is_refused_before_anything_is_sent(
    cloud: LoopbackCloud, provider: CloudProvider, texts: tuple[str, ...]
) -> None:
    with pytest.raises(CloudRejected, match="empty text"):
        list(provider.stream(written(*texts), "try-1"))
    assert cloud.requests == []


@pytest.mark.parametrize("vectors", [(), PAIR[:1], (*PAIR, (0.0, 0.0)), (PAIR[0], ())])
def test_vectors_too_few_too_many_or_empty_are_malformed(
    cloud: LoopbackCloud, provider: CloudProvider, vectors: tuple[tuple[float, ...], ...]
) -> None:
    cloud.script(Answer(vectors=vectors))
    with pytest.raises(CloudMalformed):
        list(provider.stream(written("one", "two"), "try-1"))


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Status(400), CloudRejected),
        (Status(401), CloudAuthFailed),
        (Status(429), CloudRateLimited),
        (Status(500), CloudFailed),
        (Malformed(), CloudMalformed),
        (Empty(), CloudMalformed),
        (Cut(how="reset"), CloudCut),
    ],
)
def test_a_fault_is_told_by_its_own_name(
    cloud: LoopbackCloud, provider: CloudProvider, fault: Scripted, error: type[CloudError]
) -> None:
    cloud.script(fault)
    with pytest.raises(error):
        list(provider.stream(written("one"), "try-1"))
    assert len(cloud.requests) == 1


def test_an_abort_from_another_thread_ends_the_wait(
    cloud: LoopbackCloud, provider: CloudProvider
) -> None:
    cloud.script(Silence())
    reader = Reader(lambda: provider.stream(written("one"), "try-1"))
    cloud.wait_for(lambda server: len(server.requests) == 1)
    provider.abort("try-1")
    assert reader.ended_within(5)
    assert isinstance(reader.error, CloudCut)


@pytest.mark.parametrize(
    ("name", "task"),
    [("anthropic", "transcribe"), ("anthropic", "embed"), ("cactus_cloud", "embed")],
)
def test_a_protocol_that_cannot_do_it_says_so_and_sends_nothing(
    cloud: LoopbackCloud, name: str, task: str
) -> None:
    request = Request(messages=(Message("user", "one"),), task=task)  # type: ignore[arg-type]
    provider = open_adapter(name, address(cloud, name))
    with pytest.raises(CloudRejected, match=f"{name} does not {task}"):
        list(provider.stream(request, "try-1"))
    provider.close()
    assert cloud.connections == 0
