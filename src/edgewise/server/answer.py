"""Answers a chat request of any API, whole or streamed: read, route, run, write, note."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Protocol

from edgewise.bridge import Cancellation
from edgewise.errors import Cancelled, EdgewiseError, ExtraMissing, ModelNotFound
from edgewise.local.backend import DeviceFacts
from edgewise.server.access import Client
from edgewise.server.access_log import Served
from edgewise.server.errors import BROKEN, LATE, Fault, fault_of
from edgewise.server.routing import LOCAL, no_other, read_routing, resolve_model, stricter
from edgewise.server.state import ServerState
from edgewise.server.wire import (
    JSON,
    Ask,
    Head,
    Opening,
    Wire,
    Work,
    Writer,
    report,
    report_headers,
    to_json,
    whole,
)
from edgewise.types.messages import Request
from edgewise.types.replies import Event, Finished, Switched, TextDelta


@dataclass(frozen=True, slots=True)
class Incoming:
    """One HTTP request, read to its end. Header names are lower-case."""

    headers: Mapping[str, str]
    body: bytes
    client: Client
    cancellation: Cancellation
    path: Mapping[str, str]  # the parts of the path that the route names


def answer(state: ServerState, wire: Wire, incoming: Incoming) -> Work:
    """The whole of one request, on its own thread. Nothing is raised but what nobody foresaw."""
    served = Served(endpoint=wire.name, client=incoming.client.name)

    def work() -> Work:
        ask, options = _understood(state, wire, incoming, served)
        if ask.loaded is not None:
            yield from _loaded(state, ask.loaded, options, served)
            return
        request = state.engine._request(ask.messages, **options)
        served.id = request.id
        answered = _streamed if ask.stream else _whole
        yield from answered(state, wire, ask, request, served, incoming.cancellation)

    yield from noted(state, served, incoming.cancellation, work, wire.error)


def noted(
    state: ServerState,
    served: Served,
    cancellation: Cancellation,
    work: Callable[[], Work],
    error_body: Callable[[Fault], Mapping[str, Any]],
) -> Work:
    """What `work` yields, in the access log however it ends. A fault at its start is a response."""
    fault: Fault | None = None
    state.access_log.begin(served)
    try:
        yield from work()
    except EdgewiseError as error:
        fault = fault_to_tell(error, cancellation)
        served.left = fault is None
    except GeneratorExit:
        served.left = True
        raise
    except Exception:
        fault = BROKEN
        raise
    finally:
        begun = served.status != 0
        if fault is not None:
            served.status, served.code = fault.status, fault.code
        if served.left:
            served.code = Cancelled.code
        state.access_log.note(served)
    if fault is not None and not begun:
        yield whole(fault.status, JSON | fault.all_headers(), to_json(error_body(fault)))


def fault_to_tell(error: EdgewiseError, cancellation: Cancellation) -> Fault | None:
    """What to tell the client; None where it is gone."""
    if isinstance(error, Cancelled):
        return LATE if cancellation.late else None
    return fault_of(error)


def _understood(
    state: ServerState, wire: Wire, incoming: Incoming, served: Served
) -> tuple[Ask, dict[str, Any]]:
    """What is asked, and the engine's options for it."""
    ask = wire.read(incoming.body, remote_images=state.server.remote_images)
    served.stream, served.model = ask.stream, ask.model[:80]
    return ask, {**ask.options, **chat_options(state, incoming, ask.model, ask.metadata)}


def _loaded(
    state: ServerState, body: Mapping[str, Any], options: Mapping[str, Any], served: Served
) -> Work:
    """Nothing is asked: load the local model, unless only the cloud may answer."""
    model = options.get("model", "")
    if (model or state.local_model) and options.get("policy") != "cloud_only":
        state.engine.load(model)
    served.status, served.code = 200, "loaded"
    yield whole(200, JSON, to_json(body))


def _whole(
    state: ServerState,
    wire: Wire,
    ask: Ask,
    request: Request,
    served: Served,
    cancellation: Cancellation,
) -> Work:
    with closing(state.engine._run(request, live=False)) as events:
        for event in events:
            cancellation.check()
            if isinstance(event, TextDelta) and served.first_s is None:
                served.first_s = time.perf_counter() - served.started
            if isinstance(event, Finished):
                reply = event.reply
    served.reply, served.status, served.code = reply, 200, reply.decision.code
    body = to_json(wire.whole(ask, reply, report(reply)))
    yield whole(200, JSON | report_headers(reply), body)


def _streamed(
    state: ServerState,
    wire: Wire,
    ask: Ask,
    request: Request,
    served: Served,
    cancellation: Cancellation,
) -> Work:
    """The head is sent with the first text: until then a fault can still have its own status."""
    writer = wire.writer(ask, request.id)
    switched: Switched | None = None
    try:
        with closing(state.engine._run(request, live=True)) as events:
            for event in events:
                cancellation.check()
                if served.status == 0:
                    if isinstance(event, Switched):
                        switched = event
                        continue
                    opening = Opening(request.id, _source(event), switched)
                    served.first_s = time.perf_counter() - served.started
                    served.status = 200
                    yield Head(200, {**wire.stream_head, **opening.headers()})
                    yield b"".join(writer.begin(opening))
                yield b"".join(_written(writer, event, served))
    except EdgewiseError as error:
        fault = fault_to_tell(error, cancellation)
        if served.status and fault is not None:
            yield b"".join(writer.failed(fault))
        raise


def _written(writer: Writer, event: Event, served: Served) -> Iterator[bytes]:
    if isinstance(event, TextDelta):
        return writer.text(event)
    if isinstance(event, Switched):
        return writer.switched(event)
    served.reply, served.code = event.reply, event.reply.decision.code
    return writer.end(event.reply, report(event.reply))


def _source(event: TextDelta | Finished) -> str:
    return event.source if isinstance(event, TextDelta) else event.reply.source


class Described(Protocol):
    """Any local model."""

    def facts(self) -> DeviceFacts: ...


def chat_options(
    state: ServerState, incoming: Incoming, model: str, metadata: Mapping[str, Any]
) -> dict[str, Any]:
    """As below, for chat: every pulled chat model may be named."""
    return _routed(state, incoming, model, metadata, state.local_model, other=state.find_pulled)


def routed_options(
    state: ServerState,
    incoming: Incoming,
    model: str,
    metadata: Mapping[str, Any],
    device: Callable[[], Described],
    path: str = "metadata",
) -> dict[str, Any]:
    """Engine options from the model's name, the headers and the metadata, which stands at `path`.

    `device` is asked only where a local model is named.
    """
    return _routed(state, incoming, model, metadata, _name(model, device), path)


def _routed(
    state: ServerState,
    incoming: Incoming,
    model: str,
    metadata: Mapping[str, Any],
    local_model: str,
    path: str = "metadata",
    other: Callable[[str], str] = no_other,
) -> dict[str, Any]:
    """The cancellation learns which cloud is wanted: the engine looks there."""
    any_model = state.server.any_model
    route = resolve_model(model, local_model=local_model, any_model=any_model, other=other)
    options = stricter(read_routing(metadata, incoming.headers, path), route.options)
    if incoming.client.budget_key:
        options["budget_key"] = incoming.client.budget_key
    for name in ("redact", "private_kinds"):
        if kept := getattr(incoming.client, name):  # what a key keeps in, no request lets out
            options[name] = (*kept, *options.get(name, ()))
    incoming.cancellation.cloud = route.cloud
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
