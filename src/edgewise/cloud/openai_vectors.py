"""Texts to vectors in OpenAI's words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from edgewise.cloud.conversation import estimated_finish, texts_to_embed
from edgewise.cloud.faults import reading
from edgewise.cloud.provider import Chunk, ProviderConfig
from edgewise.types.messages import Request
from edgewise.types.tokens import Finish, Vectors

if TYPE_CHECKING:
    import openai


def payload(request: Request, config: ProviderConfig) -> dict[str, Any]:
    """The request as arguments of the SDK."""
    body: dict[str, Any] = {
        "input": texts_to_embed(request, config.name),
        "model": config.model,
        # Said aloud, or the SDK asks for base64, which not every server speaks.
        "encoding_format": "float",
    }
    if request.dimensions is not None:
        body["dimensions"] = request.dimensions
    return body


def embed(
    client: openai.OpenAI, request: Request, config: ProviderConfig, headers: Mapping[str, str]
) -> Iterator[Chunk]:
    body = payload(request, config)
    made = client.embeddings.create(**body, extra_headers=headers)
    with reading(config.name):
        rows = sorted(made.data, key=lambda row: row.index)
        # A vector too few or twice the same place would put another text's in its stead.
        if [row.index for row in rows] != list(range(len(body["input"]))):
            raise ValueError("not one vector per text")
        vectors = Vectors(tuple(tuple(float(value) for value in row.embedding) for row in rows))
        if not all(vectors.values):
            raise ValueError("an empty vector")
        usage: Any = made.usage
        if usage is None or usage.prompt_tokens is None:
            finish = estimated_finish(request, "stop", 0)
        else:
            finish = Finish("stop", input_tokens=int(usage.prompt_tokens))
    yield vectors
    yield finish
