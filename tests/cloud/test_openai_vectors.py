"""Embeddings in OpenAI's words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from edgewise.cloud.provider import Chunk
from edgewise.errors import CloudMalformed
from edgewise.testing import LoopbackCloud
from edgewise.types.tokens import Vectors
from tests.cloud.adapter_cases import finish_of, open_adapter
from tests.cloud.raw_server import RawServer, reply
from tests.cloud.speech_cases import written


def made_of(value: Any) -> list[Chunk]:
    with RawServer(reply(json.dumps(value), kind="application/json")) as server:
        provider = open_adapter("openai", server.url)
        try:
            return list(provider.stream(written("one", "two"), "try-1"))
        finally:
            provider.close()


def row(index: int, *values: float) -> dict[str, object]:
    return {"object": "embedding", "index": index, "embedding": list(values)}


def test_floats_are_asked_for_and_dimensions_only_where_wanted() -> None:
    with LoopbackCloud() as cloud:
        provider = open_adapter("openai", cloud.openai_url, model="text-embedding-3-small")
        list(provider.stream(written("one"), "try-1"))
        list(provider.stream(written("one", dimensions=64), "try-2"))
        provider.close()
        first, second = cloud.requests
    body = {"input": ["one"], "model": "text-embedding-3-small", "encoding_format": "float"}
    assert (first.path, first.body) == ("/v1/embeddings", body)
    assert second.body == {**body, "dimensions": 64}


def test_vectors_out_of_order_are_put_in_order() -> None:
    chunks = made_of({"data": [row(1, 2.0), row(0, 1.0)], "usage": {"prompt_tokens": 3}})
    assert chunks[0] == Vectors(((1.0,), (2.0,)))


def test_without_usage_the_tokens_are_an_estimate() -> None:
    finish = finish_of(made_of({"data": [row(0, 1.0), row(1, 2.0)]}))
    assert (finish.input_tokens, finish.estimated) == (2, True)


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"data": None},
        {"data": [row(0, 1.0), row(0, 2.0)]},
        {"data": [row(0, 1.0), row(2, 2.0)]},
        {"data": [row(0, 1.0), {"index": 1, "embedding": "AAAA"}]},
        {"data": [row(0, 1.0), {"index": 1, "embedding": [None]}]},
    ],
)
def test_json_of_another_shape_is_malformed(value: Any) -> None:
    with pytest.raises(CloudMalformed):
        made_of(value)
