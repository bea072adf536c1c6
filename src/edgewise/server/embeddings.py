"""`/v1/embeddings`: a vector per text, in OpenAI's shape; all of one space, which is named."""

from __future__ import annotations

import base64
import sys
from array import array
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, WithJsonSchema
from typing_extensions import TypedDict

from edgewise.errors import DoesNotFit, EdgewiseError
from edgewise.server.access import Served
from edgewise.server.answer import Incoming, logged, only, routed_options
from edgewise.server.body import BadField, Between, DescribedBy, Model, Text, read_body, read_model
from edgewise.server.chat import ModelName
from edgewise.server.errors import openai_error
from edgewise.server.state import ServerState
from edgewise.server.wire import (
    HEADER,
    JSON,
    PREFIX,
    Count,
    Report,
    Routing,
    Work,
    report,
    report_headers,
    to_json,
    whole,
)
from edgewise.types.embeddings import Embeddings
from edgewise.types.messages import OBJECTIVES

MOST_TEXTS = 2048  # as OpenAI's
MOST_CHARACTERS = 1_200_000  # of all texts together: OpenAI takes 300,000 tokens
MOST_DIMENSIONS = 65_536


def _texts(value: Any) -> list[str]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not texts:
        raise ValueError("expected text or a list of texts")
    if not all(isinstance(text, str) for text in texts):
        # Some clients cut texts into one vendor's tokens first, which mean nothing to a model here.
        raise ValueError(
            "expected texts, not tokens (LangChain: OpenAIEmbeddings("
            "check_embedding_ctx_length=False))"
        )
    return texts


_NOT_EMPTY = {"type": "string", "minLength": 1}


class EmbeddingsMetadata(Routing):
    space: Annotated[Text | None, Field(description="refuse vectors of another space")] = None


class EmbeddingsRequest(Model):
    input: Annotated[
        Any,
        AfterValidator(_texts),
        WithJsonSchema(
            {
                "anyOf": [
                    _NOT_EMPTY,
                    {"type": "array", "items": _NOT_EMPTY, "minItems": 1, "maxItems": MOST_TEXTS},
                ]
            }
        ),
    ]
    model: ModelName | None = None
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Annotated[int, Between(1, MOST_DIMENSIONS)] | None = None
    metadata: Annotated[dict[str, Any], DescribedBy(EmbeddingsMetadata)] | None = None


class Embedding(TypedDict):
    object: Literal["embedding"]
    index: Count
    embedding: Annotated[list[float] | str, Field(description="base64 of 32-bit floats")]


class EmbeddingsUsage(TypedDict):
    prompt_tokens: Count
    total_tokens: Count


class EmbeddingsReport(Report):
    space: Annotated[str, Field(description="vectors of two spaces must not be compared")]
    dimensions: Count
    windows: list[Count]
    codes: list[str]
    text_codes: list[list[str]]


class EmbeddingList(TypedDict):
    object: Literal["list"]
    data: list[Embedding]
    model: str
    usage: EmbeddingsUsage
    edgewise: EmbeddingsReport


def embeddings(state: ServerState, incoming: Incoming) -> Work:
    """The whole of one request, on its own thread."""
    served = Served(endpoint="embeddings", client=incoming.client.name)

    def work() -> Work:
        asked = read_body(EmbeddingsRequest, incoming.body)
        served.model = (asked.model or "auto")[:80]
        options = options_of(state, incoming, asked.model or "auto", asked.metadata or {})
        if asked.dimensions is not None:
            options["dimensions"] = asked.dimensions
        incoming.cancellation.check()
        made = embedded(state, asked.input, options)
        served.reply, served.status, served.code = made, 200, made.decision.code
        served.id = made.id
        answer = to_json(_written(made, asked.encoding_format or "float"))
        yield whole(200, JSON | report_headers(made), answer)

    yield from logged(state, served, incoming.cancellation, work, openai_error)


def options_of(
    state: ServerState, incoming: Incoming, model: str, metadata: Mapping[str, Any]
) -> dict[str, Any]:
    """Engine options for vectors."""
    options = routed_options(state, incoming, model, metadata, state.engine.parts.embedder)
    # Vectors have no confidence.
    options = only(options, without=(*OBJECTIVES, "error_probability", "deadline_ms"))
    space = {"space": metadata.get("space") or metadata.get(PREFIX + "space")}
    own = read_model(EmbeddingsMetadata, space, named="metadata.space").space
    wanted = incoming.headers.get(HEADER + "space") or own
    return options | ({"space": wanted} if wanted else {})


def embedded(state: ServerState, texts: list[str], options: dict[str, Any]) -> Embeddings:
    if len(texts) > MOST_TEXTS:
        raise BadField("input", f"at most {MOST_TEXTS} texts at once, got {len(texts)}")
    if (length := sum(map(len, texts))) > MOST_CHARACTERS:
        raise BadField("input", f"at most {MOST_CHARACTERS:,} characters at once, got {length:,}")
    try:
        return state.engine.embed(texts, **options)
    except DoesNotFit as error:
        if options.get("policy") != "cloud_only":
            # Where a part is missing that can be installed, that is the better answer.
            try:
                state.engine.parts.embedder()
            except EdgewiseError as missing:
                raise missing from error
        raise


def name_of(made: Embeddings) -> str:
    """The model that made the vectors, in the form that asks for it again."""
    if made.source == "cloud":
        return f"cloud/{made.attempts[-1].backend}/{made.model}"
    return f"local/{made.model}" if made.source == "local" else made.model


def embeddings_report(made: Embeddings) -> EmbeddingsReport:
    return {
        **report(made),
        "space": made.space,
        "dimensions": made.dimensions,
        "windows": list(made.windows),
        "codes": list(made.codes),
        "text_codes": [list(codes) for codes in made.text_codes],
    }


def _written(made: Embeddings, style: str) -> EmbeddingList:
    tokens = made.usage.input_tokens
    return {
        "object": "list",
        "data": [
            {"object": "embedding", "index": index, "embedding": _vector(vector, style)}
            for index, vector in enumerate(made.vectors)
        ],
        "model": name_of(made),
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        "edgewise": embeddings_report(made),
    }


def _vector(vector: array[float] | array[int], style: str) -> list[float] | str:
    if style == "float":
        return list(vector)
    floats = array("f", vector)
    if sys.byteorder == "big":  # the form is little-endian everywhere
        floats.byteswap()
    return base64.b64encode(floats.tobytes()).decode("ascii")
