"""Ollama's lists: `/api/tags`, `/api/ps`, `/api/show`, `/api/version`; and `/api/embed`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from edgewise import __version__
from edgewise.server.access_log import Served
from edgewise.server.answer import Incoming, noted
from edgewise.server.body import Flag, Model, Text, TextOrMany, read_body
from edgewise.server.errors import ollama_error, refuse
from edgewise.server.ollama.chat import NANOSECONDS
from edgewise.server.openai.embeddings import embedded, options_of
from edgewise.server.openai.models import CREATED, models
from edgewise.server.state import ServerState
from edgewise.server.wire import JSON, Head, Work, report, report_headers, to_json

# Ollama's own: clients look here for what a server can do.
PRETENDED_VERSION = "0.12.0"


class NamedModel(Model):
    model: Text | None = None
    name: Text | None = None  # what older clients say


class EmbedRequest(Model):
    model: Text | None = None
    input: TextOrMany[Text] | None = None
    prompt: Text | None = None  # of the older endpoint, for one text
    truncate: Flag | None = None


def version(_: ServerState, incoming: Incoming) -> Work:
    yield from _told({"version": PRETENDED_VERSION, "edgewise": __version__})


def tags(state: ServerState, _: Incoming) -> Work:
    yield from _told({"models": _entries(state)})


def running(state: ServerState, _: Incoming) -> Work:
    """What is loaded: the local models that were asked for."""
    loaded = {f"local/{name}" for name in state.engine.fair_queues}
    never = datetime.max.replace(tzinfo=UTC).isoformat()
    found = [
        {**entry, "expires_at": never, "size_vram": 0}
        for entry in _entries(state)
        if entry["name"] in loaded
    ]
    yield from _told({"models": found})


def show(state: ServerState, incoming: Incoming) -> Work:
    served = Served(endpoint="ollama.show", client=incoming.client.name)

    def work() -> Work:
        asked = read_body(NamedModel, incoming.body)
        name = (asked.model or asked.name or "").removesuffix(":latest")
        served.model = name[:80]
        entry = next((each for each in _entries(state) if each["name"] == name), None)
        if entry is None:
            raise refuse(404, "model_not_found", f"model '{name[:80]}' not found", param="model")
        served.status, served.code = 200, "shown"
        yield from _told(
            {
                "modelfile": "",
                "parameters": "",
                "template": "",
                "details": entry["details"],
                "model_info": {"general.architecture": "edgewise"},
                "capabilities": ["completion", "tools", "vision"],
                "modified_at": entry["modified_at"],
            }
        )

    yield from noted(state, served, incoming.cancellation, work, ollama_error)


def embed(state: ServerState, incoming: Incoming) -> Work:
    yield from _embed(state, incoming, older=False)


def embeddings(state: ServerState, incoming: Incoming) -> Work:
    """The endpoint of older clients: one text, one vector."""
    yield from _embed(state, incoming, older=True)


def _embed(state: ServerState, incoming: Incoming, *, older: bool) -> Work:
    served = Served(endpoint="ollama.embed", client=incoming.client.name)

    def work() -> Work:
        asked = read_body(EmbedRequest, incoming.body)
        given = asked.prompt if older else asked.input
        texts = [given] if isinstance(given, str) else given or []
        model = (asked.model or "auto").removesuffix(":latest")
        served.model = model[:80]
        if not any(texts):  # Ollama's way to load a model
            served.status, served.code = 200, "loaded"
            yield from _told({"embedding": []} if older else {"model": model, "embeddings": []})
            return
        made = embedded(state, texts, options_of(state, incoming, model, {}))
        served.reply, served.status, served.code = made, 200, made.decision.code
        served.id = made.id
        vectors = [list(vector) for vector in made.vectors]
        body = to_json(
            {"embedding": vectors[0]}
            if older
            else {
                "model": model,
                "embeddings": vectors,
                "total_duration": round(made.total_ms * NANOSECONDS),
                "load_duration": 0,
                "prompt_eval_count": made.usage.input_tokens,
                "edgewise": report(made),
            }
        )
        yield Head(200, JSON | report_headers(made) | {"content-length": str(len(body))})
        yield body

    yield from noted(state, served, incoming.cancellation, work, ollama_error)


def _entries(state: ServerState) -> list[dict[str, Any]]:
    """The names of `/v1/models`, in Ollama's words."""
    known = datetime.fromtimestamp(CREATED, UTC).isoformat().replace("+00:00", "Z")
    return [
        {
            "name": model["id"],
            "model": model["id"],
            "modified_at": known,
            "size": 0,
            "digest": "",
            "details": {
                "parent_model": "",
                "format": "gguf" if model["owned_by"] == "device" else "",
                "family": model["owned_by"],
                "families": [model["owned_by"]],
                "parameter_size": "",
                "quantization_level": "",
            },
        }
        for model in models(state)
    ]


def _told(value: object) -> Work:
    yield Head(200, JSON)
    yield to_json(value)
