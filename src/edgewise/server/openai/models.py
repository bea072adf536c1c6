"""`/v1/models`: the names a request may use, and what they mean."""

from __future__ import annotations

from typing import Any

from edgewise.server.answer import JSON, Incoming
from edgewise.server.errors import (
    fault_of,
    refuse,
)
from edgewise.server.openai.chat import openai_error
from edgewise.server.routing import AUTO
from edgewise.server.state import ServerState
from edgewise.server.wire import Head, Work, to_json

CREATED = 1_760_000_000  # the shape wants a time; names have none


def model_list(state: ServerState, _: Incoming) -> Work:
    yield Head(200, JSON)
    yield to_json({"object": "list", "data": models(state)})


def one_model(state: ServerState, incoming: Incoming) -> Work:
    name = incoming.path["model"]
    for model in models(state):
        if model["id"] == name:
            yield Head(200, JSON)
            yield to_json(model)
            return
    fault = fault_of(refuse(404, "model_not_found", f"no model {name[:80]!r}", param="model"))
    yield Head(404, JSON)
    yield to_json(openai_error(fault))


def models(state: ServerState) -> list[dict[str, Any]]:
    """`auto`, the local model, and what the chain of providers names."""
    names = [(AUTO, "edgewise")]
    if state.local_model:
        names.append((f"local/{state.local_model}", "device"))
    for lane in state.lanes():
        names.append((f"cloud/{lane.config.name}/{lane.config.model}", lane.config.name))
    return [
        {"id": name, "object": "model", "created": CREATED, "owned_by": owner}
        for name, owner in dict(names).items()
    ]
