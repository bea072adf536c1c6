"""What the name of a model means to an endpoint whose device model is not the one that chats."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from edgewise.errors import ExtraMissing, ModelNotFound
from edgewise.local.backend import DeviceFacts
from edgewise.server.answer import Incoming
from edgewise.server.fields import Fields
from edgewise.server.house import House
from edgewise.server.routing import LOCAL, read_routing, resolve_model


class Described(Protocol):
    """Any local model."""

    def facts(self) -> DeviceFacts: ...


def routed_options(
    house: House, incoming: Incoming, model: str, metadata: Fields, device: Callable[[], Described]
) -> dict[str, Any]:
    """Engine options from the model's name, the headers and the metadata.

    The visit learns which cloud is wanted. `device` is asked only where a local model is named.
    """
    route = resolve_model(model, local_model=_name(model, device), any_model=house.server.any_model)
    options: dict[str, Any] = {**read_routing(metadata, incoming.headers), **route.options}
    if incoming.client.budget_key:
        options["budget_key"] = incoming.client.budget_key
    incoming.visit.cloud = route.cloud
    return options


def only(options: Mapping[str, Any], *, without: tuple[str, ...]) -> dict[str, Any]:
    """Options, less those that mean nothing here."""
    return {name: value for name, value in options.items() if name not in without}


def _name(model: str, device: Callable[[], Described]) -> str:
    if not model.startswith(f"{LOCAL}/"):
        return ""
    try:
        return device().facts().model
    except (ModelNotFound, ExtraMissing):
        return model.removeprefix(f"{LOCAL}/")  # the engine then says what is missing, and how
