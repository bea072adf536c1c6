"""Which local chat models are in memory, and until when; loading, pinning and letting them go.

Whoever shares a server with others, by a key of its own, may look. Only those without such a key
may change what stays in memory.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

from edgewise.local.models import needed_bytes
from edgewise.server.access import Served
from edgewise.server.answer import Incoming, logged
from edgewise.server.body import Model, Text, read_body
from edgewise.server.errors import openai_error, refuse
from edgewise.server.state import ServerState
from edgewise.server.wire import JSON, Count, NotEmpty, Work, to_json, whole


class Residence(TypedDict):
    name: NotEmpty
    own: Annotated[bool, Field(description="the server's own, which answers where none is named")]
    state: Literal["loaded", "loading", "unloaded"]
    pinned: bool
    given: Annotated[bool, Field(description="to the server, by its program: it stays")]
    until: Annotated[float | None, Field(description="when it leaves if nobody asks; null: never")]
    bytes: Annotated[Count, Field(description="of its file")]
    needed_bytes: Annotated[Count, Field(description="of memory, estimated")]
    progress: Annotated[float | None, Field(description="of loading, 0 to 1, where it is known")]


class Residences(TypedDict):
    models: list[Residence]


class ResidenceRequest(Model):
    model: Text
    action: Literal["load", "unload", "pin", "unpin"]


def residences(state: ServerState, _: Incoming) -> Work:
    """The chat models that were pulled, and the server's own."""
    found: Residences = {"models": [_told(state, name) for name in _names(state)]}
    yield whole(200, JSON | {"cache-control": "no-store"}, to_json(found))


def change(state: ServerState, incoming: Incoming) -> Work:
    """Load a model, let it go, or pin it. Answers when that is done."""
    served = Served(endpoint="models.change", client=incoming.client.name)

    def work() -> Work:
        asked = read_body(ResidenceRequest, incoming.body)
        served.model = asked.model[:80]
        if incoming.client.own:
            words = "a client with a key of its own may not change what stays in memory"
            raise refuse(403, "not_allowed", words)
        model = state.find_local(asked.model)
        found = state.pooled(model)
        if found is None and asked.action in ("unload", "unpin"):
            words = "this model was given to the server, and stays in memory"
            raise refuse(409, "model_stays", words)
        if asked.action == "load":
            state.load(model)
        elif found is not None:
            found.pin(pinned=asked.action == "pin")
            if asked.action == "unload":
                found.keep(0.0)
        served.status, served.code = 200, f"model_{asked.action}"
        yield whole(200, JSON, to_json(_told(state, model or state.local_model)))

    yield from logged(state, served, incoming.cancellation, work, openai_error)


def _names(state: ServerState) -> list[str]:
    pulled = [model.name for model in state.pulled()]
    own = [state.local_model] if state.local_model else []
    return list(dict.fromkeys((*own, *pulled)))


def _told(state: ServerState, name: str) -> Residence:
    parts = state.engine.parts
    weights = next((each for each in state.pulled() if each.name == name), None)
    settings = state.settings
    needed = needed_bytes(weights, settings.context_tokens, settings.slots) if weights else 0
    is_loading, found = name in state.loading, parts.models.known(name)
    is_loaded = name in parts.opened_models and not is_loading
    progress = None
    if is_loading and needed and (supervisor := parts.supervisors.get(name)) is not None:
        progress = round(min(0.99, supervisor.resident_bytes / needed), 2)
    until = None if found is None or not is_loaded else found.until
    return {
        "name": name,
        "own": name == state.local_model,
        "state": "loading" if is_loading else "loaded" if is_loaded else "unloaded",
        "pinned": found is not None and found.pinned,
        "given": is_loaded and found is None,
        "until": None if until is None or math.isinf(until) else until,
        "bytes": weights.bytes if weights else 0,
        "needed_bytes": needed,
        "progress": progress,
    }
