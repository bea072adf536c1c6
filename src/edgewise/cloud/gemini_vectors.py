"""Texts to vectors by Gemini."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from edgewise.cloud.conversation import estimated_finish, texts_to_embed
from edgewise.cloud.faults import reading
from edgewise.cloud.provider import Chunk
from edgewise.cloud.wire import WIRE_ID_HEADER
from edgewise.types.messages import Request
from edgewise.types.tokens import Finish, Vectors

if TYPE_CHECKING:
    from google.genai.types import EmbedContentResponse


def payload(request: Request, provider: str, wire_id: str) -> dict[str, Any]:
    """The request as arguments of the SDK."""
    # One content per text: newer models make a single vector of texts that share a content.
    texts = texts_to_embed(request, provider)
    contents = [{"role": "user", "parts": [{"text": text}]} for text in texts]
    config: dict[str, Any] = {"http_options": {"headers": {WIRE_ID_HEADER: wire_id}}}
    if request.dimensions is not None:
        config["output_dimensionality"] = request.dimensions
    return {"contents": contents, "config": config}


def taken_apart(made: EmbedContentResponse, request: Request, provider: str) -> Iterator[Chunk]:
    with reading(provider):
        rows = [tuple(float(value) for value in row.values or ()) for row in made.embeddings or ()]
        if len(rows) != len(texts_to_embed(request, provider)) or not all(rows):
            raise ValueError("not one vector per text")
        counted = made.usage_metadata.prompt_token_count if made.usage_metadata else None
    yield Vectors(tuple(rows))
    if counted is None:
        yield estimated_finish(request, "stop", 0)
    else:
        yield Finish("stop", input_tokens=counted)
