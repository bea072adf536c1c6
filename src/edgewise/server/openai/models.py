"""`/v1/models`: the names a request may use, and what they mean."""

from __future__ import annotations

from typing import Annotated, Literal

from annotated_types import MinLen
from typing_extensions import TypedDict

from edgewise.server.answer import Incoming
from edgewise.server.errors import fault_of, openai_error, refuse
from edgewise.server.routing import AUTO
from edgewise.server.state import ServerState
from edgewise.server.wire import JSON, Count, NotEmpty, Work, to_json, whole

CREATED = 1_760_000_000  # the shape wants a time; names have none


class ModelEntry(TypedDict):
    id: NotEmpty
    object: Literal["model"]
    created: Count
    owned_by: NotEmpty


class ModelList(TypedDict):
    object: Literal["list"]
    data: Annotated[list[ModelEntry], MinLen(1)]


def model_list(state: ServerState, _: Incoming) -> Work:
    found: ModelList = {"object": "list", "data": models(state)}
    yield whole(200, JSON, to_json(found))


def one_model(state: ServerState, incoming: Incoming) -> Work:
    name = incoming.path["model"]
    for model in models(state):
        if model["id"] == name:
            yield whole(200, JSON, to_json(model))
            return
    fault = fault_of(
        refuse(404, "model_not_found", f"model {name[:80]!r} not found", param="model")
    )
    yield whole(404, JSON, to_json(openai_error(fault)))


def models(state: ServerState) -> list[ModelEntry]:
    """`auto`, the local model, the other pulled ones, and what the chain of providers names."""
    names = [(AUTO, "edgewise")]
    if state.local_model:
        names.append((f"local/{state.local_model}", "device"))
    names += [(f"local/{model.name}", "device") for model in state.pulled()]
    for lane in state.lanes():
        names.append((f"cloud/{lane.config.name}/{lane.config.model}", lane.config.name))
    return [
        {"id": name, "object": "model", "created": CREATED, "owned_by": owner}
        for name, owner in dict(names).items()
    ]
