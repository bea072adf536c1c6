"""Answers a chat request of any API, whole or streamed: read, route, run, write, note."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

from edgewise.bridge import Cancellation
from edgewise.cloud.providers import row_for
from edgewise.decide.policy import find_chore
from edgewise.engine import run
from edgewise.errors import (
    Cancelled,
    CloudClosed,
    DoesNotFit,
    EdgewiseError,
    ExtraMissing,
    InvalidRequest,
    ModelNotFound,
)
from edgewise.local.backend import Described
from edgewise.server.access import Client, Served
from edgewise.server.errors import BROKEN, LATE, Fault, fault_of
from edgewise.server.forward import Verbatim, noted, original, unread, untranslated
from edgewise.server.state import ServerState
from edgewise.server.wire import (
    AUTO,
    CLOUD,
    HEADER,
    JSON,
    LOCAL,
    LOCAL_ONLY,
    Ask,
    Head,
    Opening,
    Pings,
    Report,
    Wire,
    Work,
    Writer,
    meant,
    no_other,
    read_routing,
    report,
    report_headers,
    resolve_model,
    stricter,
    to_json,
    whole,
)
from edgewise.types.messages import Request
from edgewise.types.replies import Event, Finished, Raw, Reply, Switched, TextDelta

# Of a cloud that is closed to a request for a while, whatever is in it.
_WAITS = ("breaker_open", "budget_spent", "cooldown")


@dataclass(frozen=True, slots=True)
class Incoming:
    """One HTTP request, read to its end. Header names are lower-case."""

    headers: Mapping[str, str]
    body: bytes
    client: Client
    cancellation: Cancellation
    path: Mapping[str, str]  # the parts of the path that the route names
    pings: Pings = field(default_factory=Pings)
    query: Mapping[str, str] = field(default_factory=dict)


def answer(state: ServerState, wire: Wire, incoming: Incoming) -> Work:
    """The whole of one request, on its own thread. Nothing is raised but what nobody foresaw."""
    served = Served(endpoint=wire.name, client=incoming.client.name)

    def work() -> Work:
        asked = _understood(state, wire, incoming, served)
        try:
            yield from _answered(state, wire, asked, served, incoming)
        except InvalidRequest as error:  # found when the device began: a schema that is none
            if served.status or asked[0].wrong is not None:
                raise
            asked = _judged_elsewhere(state, wire, incoming, served, error)
            yield from _answered(state, wire, asked, served, incoming)

    yield from logged(state, served, incoming.cancellation, work, wire.error, incoming.pings)


def logged(
    state: ServerState,
    served: Served,
    cancellation: Cancellation,
    work: Callable[[], Work],
    error_body: Callable[[Fault], Mapping[str, Any]],
    pings: Pings | None = None,
) -> Work:
    """What `work` yields, in the access log however it ends. A fault at its start is a response."""
    fault: Fault | None = None
    state.access_log.begin(served)
    try:
        yield from work()
    except GeneratorExit:
        served.left = True
        raise
    except Exception as error:
        fault = fault_to_tell(error, cancellation)
        served.left = fault is None
        if not isinstance(error, EdgewiseError):
            raise
    finally:
        begun = served.status != 0
        if fault is not None:
            served.status, served.code = fault.status, fault.code
        if served.left:
            served.code = Cancelled.code
        state.access_log.note(served)
    if fault is None or begun:
        return
    if pings is not None and pings.begin() and pings.failed is not None:
        yield pings.failed(fault)
    else:
        body = fault.body or to_json(error_body(fault))
        yield whole(fault.status, JSON | fault.all_headers(), body)


def telling(
    served: Served,
    cancellation: Cancellation,
    work: Work,
    failed: Callable[[Fault], Iterable[bytes]],
) -> Work:
    """A stream. Whatever breaks it after its head is told in it: it must not look whole.

    The head is sent with the first text: until then a fault can still have its own status.
    """
    try:
        yield from work
    except Exception as error:
        fault = fault_to_tell(error, cancellation)
        if served.status and fault is not None:
            yield fault.event or b"".join(failed(fault))
        raise


def fault_to_tell(error: Exception, cancellation: Cancellation) -> Fault | None:
    """What to tell the client; None where it is gone."""
    if isinstance(error, Cancelled):
        return LATE if cancellation.late else None
    return fault_of(error) if isinstance(error, EdgewiseError) else BROKEN


Understood = tuple[Ask, dict[str, Any], Request | None]


def _understood(state: ServerState, wire: Wire, incoming: Incoming, served: Served) -> Understood:
    """What is asked, the engine's options for it, and its request; None: there is nothing to ask.

    What cannot be read may still be its provider's to answer.
    """
    try:
        ask = wire.read(incoming.body, remote_images=state.server.remote_images)
        return _requested(state, wire, ask, incoming, served)
    except InvalidRequest as error:
        return _judged_elsewhere(state, wire, incoming, served, error)


def _judged_elsewhere(
    state: ServerState, wire: Wire, incoming: Incoming, served: Served, error: InvalidRequest
) -> Understood:
    """The same as its provider gets it. Raises the error where none may be asked."""
    if (left := unread(wire, incoming.body, error)) is None:
        raise error
    ask, options, request = _requested(state, wire, left, incoming, served)
    if request is None or not _has_judge(state, request):
        raise error
    return ask, options, request


def _answered(
    state: ServerState, wire: Wire, asked: Understood, served: Served, incoming: Incoming
) -> Work:
    ask, options, request = asked
    if request is None:
        yield from _loaded(state, ask, options, served, incoming.client.own)
        return
    served.id = request.id
    try:
        if ask.stream:
            yield from _streamed(state, wire, ask, request, served, incoming)
        else:
            yield from _whole(state, wire, ask, request, served, incoming.cancellation)
    except (CloudClosed, DoesNotFit) as error:
        if ask.wrong is None or error.code in _WAITS:
            raise
        raise ask.wrong from error
    finally:
        if options.get("policy") != "cloud_only":
            state.keep(options.get("model", ""), ask.keep_s, incoming.client.own)


def _has_judge(state: ServerState, request: Request) -> bool:
    """Whether a provider of its protocol may be asked what it thinks of a request."""
    sent = request.original
    if request.policy == LOCAL_ONLY or sent is None:
        return False
    shut = state.engine.parts.cloud("chat").closed(request)
    if shut is not None and shut.code not in _WAITS:
        return False
    return any(row_for(lane.config).speaks(sent.wire) for lane in state.lanes())


def _requested(
    state: ServerState, wire: Wire, ask: Ask, incoming: Incoming, served: Served
) -> Understood:
    served.stream, served.model = ask.stream, ask.model[:80]
    chore = find_chore(ask.messages, tools=bool(ask.options.get("tools") or ask.foreign))
    routed = chat_options(state, incoming, ask.model, ask.metadata, chore)
    options = {**ask.options, **routed}
    if ask.loaded is not None:
        return ask, options, None
    request = state.engine.parts.request(ask.messages, **options)
    left = original(wire, ask, incoming.headers, incoming.body)
    return ask, options, replace(request, original=left)


def _loaded(
    state: ServerState, ask: Ask, options: Mapping[str, Any], served: Served, own: str
) -> Work:
    """Nothing is asked: load the local model or let it go, unless only the cloud may answer."""
    model = options.get("model", "")
    served.status, served.code = 200, "loaded"
    if (model or state.local_model) and options.get("policy") != "cloud_only":
        if ask.keep_s == 0:
            served.code = "unloaded"
        else:
            state.load(model)
        state.keep(model, ask.keep_s, own)
    yield whole(200, JSON, to_json(ask.loaded))


def _whole(
    state: ServerState,
    wire: Wire,
    ask: Ask,
    request: Request,
    served: Served,
    cancellation: Cancellation,
) -> Work:
    raw: Raw | None = None
    with closing(run(state.engine.parts, request, live=False)) as events:
        for event in events:
            cancellation.check()
            if isinstance(event, TextDelta) and served.first_s is None:
                served.first_s = time.perf_counter() - served.started
            if isinstance(event, TextDelta) and event.raw is not None:
                raw = event.raw
            if isinstance(event, Finished):
                reply = event.reply
    served.reply, served.status, served.code = reply, 200, reply.decision.code
    if raw is not None:
        headers = {**JSON, **raw.headers, **report_headers(reply)}
        yield whole(200, headers, noted(raw, "", report(reply)).written)
        return
    told = _report(ask, reply)
    headers = JSON | report_headers(reply, told.get("not_translated", ()))
    yield whole(200, headers, to_json(wire.whole(ask, reply, told)))


def _report(ask: Ask, reply: Reply) -> Report:
    """Of an answer that was not passed on as it came: with what its cloud was not told."""
    told = report(reply)
    if reply.source in ("cloud", "mixed") and (missing := untranslated(ask)):
        told["not_translated"] = missing
    return told


def _streamed(
    state: ServerState,
    wire: Wire,
    ask: Ask,
    request: Request,
    served: Served,
    incoming: Incoming,
) -> Work:
    writer, cancellation = wire.writer(ask, request.id), incoming.cancellation
    waiting = Head(200, {**wire.stream_head, HEADER + "id": request.id})
    incoming.pings.arm(waiting, wire.ping, lambda fault: b"".join(writer.failed(fault)))
    verbatim: Verbatim | None = None

    def events() -> Work:
        nonlocal verbatim
        switched: Switched | None = None
        with closing(run(state.engine.parts, request, live=True)) as events:
            for event in events:
                cancellation.check()
                if served.status == 0:
                    if isinstance(event, Switched):
                        switched = event
                        continue
                    opening = Opening(request.id, _source(event), switched, _answering(served))
                    served.first_s = time.perf_counter() - served.started
                    served.status = 200
                    raw = event.raw if isinstance(event, TextDelta) else None
                    missing = [] if raw or opening.source == "local" else untranslated(ask)
                    sent = {**(raw.headers if raw else {}), **opening.headers(missing)}
                    if not incoming.pings.begin():
                        yield Head(200, {**wire.stream_head, **sent})
                    if raw is not None:
                        verbatim = Verbatim(wire, opening)
                    else:
                        yield b"".join(writer.begin(opening))
                if verbatim is None:
                    yield b"".join(_written(writer, ask, event, served))
                elif written := _passed_on(verbatim, event, served):
                    yield written

    yield from telling(served, cancellation, events(), writer.failed)


def _passed_on(verbatim: Verbatim, event: Event, served: Served) -> bytes:
    if isinstance(event, TextDelta):
        return verbatim.piece(event.raw) if event.raw else b""
    if isinstance(event, Switched):
        return b""
    served.reply, served.code = event.reply, event.reply.decision.code
    return verbatim.end(report(event.reply))


def _written(writer: Writer, ask: Ask, event: Event, served: Served) -> Iterator[bytes]:
    if isinstance(event, TextDelta):
        return writer.text(event)
    if isinstance(event, Switched):
        return writer.switched(event)
    served.reply, served.code = event.reply, event.reply.decision.code
    return writer.end(event.reply, _report(ask, event.reply))


def _answering(served: Served) -> str:
    """Who writes at the moment; empty where nobody does."""
    now = served.progress
    where = f"{LOCAL}/" if now.place == "local" else f"{CLOUD}/{now.backend}/"
    return where + now.model if now.model else ""


def _source(event: TextDelta | Finished) -> str:
    return event.source if isinstance(event, TextDelta) else event.reply.source


def chat_options(
    state: ServerState,
    incoming: Incoming,
    model: str,
    metadata: Mapping[str, Any],
    chore: str = "",
) -> dict[str, Any]:
    """As below, for chat: every pulled chat model may be named."""
    aliased = meant(model, state.settings.models, chore)
    incoming.client.check_model(model or AUTO, aliased or AUTO)
    return _routed(state, incoming, aliased, metadata, state.local_model, other=state.find_pulled)


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
    incoming.client.check_model(model or AUTO)
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
    incoming.cancellation.cloud = ""
    any_model = state.server.any_model
    route = resolve_model(
        model,
        local_model=local_model,
        any_model=any_model,
        other=other,
        provider=no_other if other is no_other else state.provider_of,
    )
    options = stricter(read_routing(metadata, incoming.headers, path), route.options)
    if policy := incoming.client.policy_for(options.get("policy", "")):
        options["policy"] = policy
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
