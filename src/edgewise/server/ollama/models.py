"""Ollama's `/api/tags`, `/api/ps`, `/api/show` and `/api/version`; and its `/api/embed`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Annotated, Any, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from edgewise import __version__
from edgewise.server.access_log import Served
from edgewise.server.answer import Incoming, noted
from edgewise.server.body import (
    Between,
    DescribedBy,
    Flag,
    Model,
    Text,
    TextOrMany,
    read_body,
)
from edgewise.server.errors import ollama_error, refuse
from edgewise.server.ollama.chat import LATEST, NANOSECONDS, plain_name
from edgewise.server.openai.chat import ModelName, listed
from edgewise.server.openai.embeddings import (
    MOST_DIMENSIONS,
    EmbeddingsMetadata,
    EmbeddingsReport,
    embedded,
    embeddings_report,
    name_of,
    options_of,
)
from edgewise.server.openai.models import CREATED, models
from edgewise.server.state import ServerState
from edgewise.server.wire import JSON, Count, NotEmpty, Work, report_headers, to_json, whole
from edgewise.types.embeddings import Embeddings

# Of Ollama: clients look here for what a server can do. Three numbers, as some of them count.
OLLAMA_VERSION = "0.12.0"
NEVER = "2318-01-01T00:00:00Z"  # as Ollama writes it, and every client can read it


class ModelDetails(TypedDict):
    parent_model: str
    format: str
    family: str
    families: list[str]
    parameter_size: str
    quantization_level: str


class OllamaModel(TypedDict):
    name: NotEmpty
    model: NotEmpty
    modified_at: NotEmpty
    size: Count
    digest: NotEmpty
    details: ModelDetails


class LoadedModel(OllamaModel):
    expires_at: NotEmpty
    size_vram: Count


class OllamaModels(TypedDict):
    models: list[OllamaModel]


class LoadedModels(TypedDict):
    models: list[LoadedModel]


class OllamaVersion(TypedDict):
    version: NotEmpty
    edgewise: NotEmpty


class ShownModel(TypedDict):
    modelfile: str
    parameters: str
    template: str
    details: ModelDetails
    model_info: dict[str, Any]
    capabilities: list[str]
    modified_at: NotEmpty


class ShowRequest(Model):
    model: Text | None = None
    name: Annotated[Text | None, Field(description="what older clients say")] = None


class OllamaEmbedRequest(Model):
    model: ModelName
    input: Annotated[TextOrMany[Text] | None, Field(description="none: only load the model")] = None
    dimensions: Annotated[int, Between(1, MOST_DIMENSIONS)] | None = None
    truncate: Annotated[Flag | None, Field(description="ignored: long texts are windows")] = None
    metadata: Annotated[dict[str, Any], DescribedBy(EmbeddingsMetadata)] | None = None


class OllamaEmbeddingRequest(Model):
    """Of the older endpoint."""

    model: ModelName
    prompt: Annotated[Text | None, Field(description="none: only load the model")] = None
    metadata: Annotated[dict[str, Any], DescribedBy(EmbeddingsMetadata)] | None = None


class OllamaEmbeddings(TypedDict):
    model: str
    embeddings: list[list[float]]
    total_duration: NotRequired[Annotated[Count, Field(description="nanoseconds")]]
    load_duration: NotRequired[Count]
    prompt_eval_count: NotRequired[Count]
    edgewise: NotRequired[EmbeddingsReport]


class OllamaEmbedding(TypedDict):
    embedding: list[float]
    edgewise: NotRequired[EmbeddingsReport]


def version(_: ServerState, incoming: Incoming) -> Work:
    found: OllamaVersion = {"version": OLLAMA_VERSION, "edgewise": __version__}
    yield from _told(found)


def tags(state: ServerState, _: Incoming) -> Work:
    found: OllamaModels = {"models": _entries(state)}
    yield from _told(found)


def running(state: ServerState, _: Incoming) -> Work:
    """The local models that were opened, less those that have left the memory."""
    opened = {f"local/{name}" for name in state.engine.opened_models}
    found: LoadedModels = {
        "models": [
            {**entry, "expires_at": NEVER, "size_vram": 0}
            for entry in _entries(state)
            if plain_name(entry["name"]) in opened
        ]
    }
    yield from _told(found)


def show(state: ServerState, incoming: Incoming) -> Work:
    served = Served(endpoint="ollama.show", client=incoming.client.name)

    def work() -> Work:
        asked = read_body(ShowRequest, incoming.body)
        name = plain_name(asked.model or asked.name or "")
        served.model = name[:80]
        entry = next((each for each in _entries(state) if plain_name(each["name"]) == name), None)
        if entry is None:
            raise refuse(404, "model_not_found", f"model {name[:80]!r} not found", param="model")
        served.status, served.code = 200, "shown"
        found: ShownModel = {
            "modelfile": "",
            "parameters": "",
            "template": "",
            "details": entry["details"],
            "model_info": _facts(state, name),
            "capabilities": ["completion", "tools", "vision"],
            "modified_at": entry["modified_at"],
        }
        yield from _told(found)

    yield from noted(state, served, incoming.cancellation, work, ollama_error)


def embed(state: ServerState, incoming: Incoming) -> Work:
    served = Served(endpoint="ollama.embed", client=incoming.client.name)

    def work() -> Work:
        asked = read_body(OllamaEmbedRequest, incoming.body)
        texts = listed(asked.input)
        more = {} if asked.dimensions is None else {"dimensions": asked.dimensions}
        made = _embedded(state, incoming, served, asked, texts, more)
        if made is None:
            empty: OllamaEmbeddings = {"model": asked.model, "embeddings": []}
            yield from _told(empty)
            return
        found: OllamaEmbeddings = {
            "model": name_of(made),
            "embeddings": [list(vector) for vector in made.vectors],
            "total_duration": round(made.total_ms * NANOSECONDS),
            "load_duration": 0,
            "prompt_eval_count": made.usage.input_tokens,
            "edgewise": embeddings_report(made),
        }
        yield from _told(found, report_headers(made))

    yield from noted(state, served, incoming.cancellation, work, ollama_error)


def embeddings(state: ServerState, incoming: Incoming) -> Work:
    """The endpoint of older clients: one text, one vector."""
    served = Served(endpoint="ollama.embed", client=incoming.client.name)

    def work() -> Work:
        asked = read_body(OllamaEmbeddingRequest, incoming.body)
        made = _embedded(state, incoming, served, asked, listed(asked.prompt), {})
        if made is None:
            empty: OllamaEmbedding = {"embedding": []}
            yield from _told(empty)
            return
        found: OllamaEmbedding = {
            "embedding": list(made.vectors[0]),
            "edgewise": embeddings_report(made),
        }
        yield from _told(found, report_headers(made))

    yield from noted(state, served, incoming.cancellation, work, ollama_error)


def _embedded(
    state: ServerState,
    incoming: Incoming,
    served: Served,
    asked: OllamaEmbedRequest | OllamaEmbeddingRequest,
    texts: list[str],
    more: dict[str, Any],
) -> Embeddings | None:
    """The vectors; None where there are no words: that is Ollama's way to load a model."""
    model = plain_name(asked.model)
    served.model = model[:80]
    options = options_of(state, incoming, model, asked.metadata or {}) | more
    incoming.cancellation.check()
    if not any(texts):
        served.status, served.code = 200, "loaded"
        return None
    made = embedded(state, texts, options)
    served.id, served.reply = made.id, made
    served.status, served.code = 200, made.decision.code
    return made


def _entries(state: ServerState) -> list[OllamaModel]:
    """The names of `/v1/models`, in Ollama's words: each with a tag."""
    since = datetime.fromtimestamp(CREATED, UTC).isoformat().replace("+00:00", "Z")
    found: list[OllamaModel] = []
    pulled = {f"local/{model.name}": model for model in state.pulled()}
    for model in models(state):
        weights = pulled.get(model["id"])
        row = weights.row if weights else None
        name = model["id"] if ":" in model["id"] else model["id"] + LATEST
        details: ModelDetails = {
            "parent_model": "",
            "format": "gguf" if model["owned_by"] == "device" else "",
            "family": model["owned_by"],
            "families": [model["owned_by"]],
            "parameter_size": row.parameters if row else "",
            "quantization_level": weights.quantisation if weights else "",
        }
        found.append(
            {
                "name": name,
                "model": name,
                "modified_at": since,
                "size": weights.bytes if weights else 0,
                "digest": hashlib.sha256(name.encode()).hexdigest(),
                "details": details,
            }
        )
    return found


def _facts(state: ServerState, name: str) -> dict[str, Any]:
    facts: dict[str, Any] = {"general.architecture": "edgewise"}
    if state.local_model and not name.startswith("cloud"):
        asked = state.find_pulled(name.removeprefix("local/"))
        other = asked if asked != state.local_model else ""
        facts["edgewise.context_length"] = state.engine._open_backend(other).facts().context_tokens
    return facts


def _told(value: object, headers: Mapping[str, str] = MappingProxyType({})) -> Work:
    yield whole(200, JSON | dict(headers), to_json(value))
