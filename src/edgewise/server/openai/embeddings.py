"""`/v1/embeddings`: a vector per text, in OpenAI's shape; all of one space, which is named."""

from __future__ import annotations

import base64
import sys
from array import array
from typing import Any

from edgewise.errors import DoesNotFit, EdgewiseError
from edgewise.server import report
from edgewise.server.access_log import Served
from edgewise.server.answer import JSON, Incoming, noted, only, routed_options
from edgewise.server.fields import Fields, parse_body
from edgewise.server.openai.chat import openai_error
from edgewise.server.routing import HEADER
from edgewise.server.state import ServerState
from edgewise.server.wire import Head, Work, to_json
from edgewise.types.embeddings import Embeddings
from edgewise.types.objectives import OBJECTIVES

MOST_TEXTS = 2048  # as OpenAI's
MOST_DIMENSIONS = 65_536


def embeddings(state: ServerState, incoming: Incoming) -> Work:
    """The whole of one request, on its own thread."""
    served = Served(endpoint="embeddings", client=incoming.client.name)

    def work() -> Work:
        body = parse_body(incoming.body)
        served.model = body.text("model", "auto")[:80]
        texts = _texts(body)
        style = body.choice("encoding_format", "float", ("float", "base64"))
        options = _options(state, incoming, body)
        incoming.cancellation.check()
        made = _embedded(state, texts, options)
        served.reply, served.status, served.code = made, 200, made.decision.code
        served.id = made.id
        answer = to_json(_written(made, style))
        yield Head(200, JSON | report.headers(made) | {"content-length": str(len(answer))})
        yield answer

    yield from noted(state, served, incoming.cancellation, work, openai_error)


def _texts(body: Fields) -> list[str]:
    value = body.values.get("input")
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not texts:
        raise body.bad("input", "expected text or a list of texts")
    if not all(isinstance(text, str) for text in texts):
        # Some clients cut texts into one vendor's tokens first, which mean nothing to a model here.
        raise body.bad(
            "input",
            "expected texts, not tokens (LangChain: OpenAIEmbeddings("
            "check_embedding_ctx_length=False))",
        )
    if len(texts) > MOST_TEXTS:
        raise body.bad("input", f"at most {MOST_TEXTS} texts at once, got {len(texts)}")
    return texts


def _options(state: ServerState, incoming: Incoming, body: Fields) -> dict[str, Any]:
    metadata = body.inner("metadata")
    model = body.text("model", "auto")
    options = routed_options(state, incoming, model, metadata, state.engine._open_embedder)
    # Vectors have no confidence.
    options = only(options, without=(*OBJECTIVES, "error_probability", "deadline_ms"))
    if body.has("dimensions"):
        options["dimensions"] = body.whole("dimensions", low=1, high=MOST_DIMENSIONS)
    space = incoming.headers.get(HEADER + "space") or metadata.text("space", "")
    return options | ({"space": space} if space else {})


def _embedded(state: ServerState, texts: list[str], options: dict[str, Any]) -> Embeddings:
    try:
        return state.engine.embed(texts, **options)
    except DoesNotFit as error:
        if options.get("policy") != "cloud_only":
            # Where a part is missing that can be installed, that is the better answer.
            try:
                state.engine._open_embedder()
            except EdgewiseError as missing:
                raise missing from error
        raise


def _written(made: Embeddings, style: str) -> dict[str, Any]:
    name = f"local/{made.model}" if made.source == "local" else made.model
    if made.source == "cloud":
        name = f"cloud/{made.attempts[-1].backend}/{made.model}"
    extra = report.report(made) | {
        "space": made.space,
        "dimensions": made.dimensions,
        "windows": list(made.windows),
        "codes": list(made.codes),
        "text_codes": [list(codes) for codes in made.text_codes],
    }
    tokens = made.usage.input_tokens
    return {
        "object": "list",
        "data": [
            {"object": "embedding", "index": index, "embedding": _vector(vector, style)}
            for index, vector in enumerate(made.vectors)
        ],
        "model": name,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        "edgewise": extra,
    }


def _vector(vector: array[float] | array[int], style: str) -> list[float] | str:
    if style == "float":
        return list(vector)
    floats = array("f", vector)
    if sys.byteorder == "big":  # the form is little-endian everywhere
        floats.byteswap()
    return base64.b64encode(floats.tobytes()).decode("ascii")
