"""The dashboard: its page, the ledger, requests as they run, models in memory."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import math
import queue
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, astuple
from functools import cache
from importlib import resources
from typing import Annotated, Any, Literal, get_args

from pydantic import Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from typing_extensions import TypedDict

import edgewise
from edgewise.errors import EdgewiseError
from edgewise.local.models import needed_bytes
from edgewise.monitor.drift import Outlook
from edgewise.monitor.why import explain_row
from edgewise.record.report import By, ProviderSpend, Report, parse_since, usage_csv
from edgewise.record.report import Stretch as StretchRow
from edgewise.server.access import Served
from edgewise.server.answer import Incoming, logged
from edgewise.server.body import Flag, Model, Text, read_body
from edgewise.server.errors import Fault, fault_of, openai_error, refuse, without_folders
from edgewise.server.state import Found, ServerState
from edgewise.server.wire import (
    EVENTS,
    JSON,
    Chance,
    Count,
    Head,
    NotEmpty,
    Work,
    sse,
    to_json,
    whole,
)

# -- `/edgewise/events`: requests while they run and as they end -----------------------------------


BEAT_S = 15.0  # between signs of life, so that nobody in between lets go
LOOK_S = 0.2  # between looks at what is running: five a second, however fast tokens come
BACKLOG = 256  # requests a slow reader may be behind; more are passed over
MOST_WATCHING = 64  # readers at once; each has a thread, and looks five times a second
TOO_MANY = Fault(
    status=429, code="server_busy", message="as many look on as may", retry_after_s=5.0
)
MOST_SHOWN = 50  # of the requests in flight, the oldest first


def events(state: ServerState, incoming: Incoming) -> Work:
    """Server-sent events until the reader or the server goes. Holds no text of any request."""
    who = incoming.cancellation
    if not state.watching.enter(who, MOST_WATCHING, state.clients.share_of(MOST_WATCHING)):
        body = to_json(openai_error(TOO_MANY))
        yield whole(TOO_MANY.status, JSON | TOO_MANY.all_headers(), body)
        return
    waiting: queue.Queue[dict[str, Any]] = queue.Queue(BACKLOG)
    own = incoming.client.name if incoming.client.own else ""

    def listen(served: Served) -> None:
        if not own or served.client == own:
            with contextlib.suppress(queue.Full):  # whoever serves must not wait for who looks on
                waiting.put_nowait(served.to_dict())

    state.access_log.listeners.append(listen)
    try:
        yield Head(200, EVENTS)
        yield b": listening\n\n"
        shown: dict[str, Any] | None = None
        looked = told = time.monotonic()
        while not (incoming.cancellation.left or state.draining):
            try:
                yield sse(waiting.get(timeout=LOOK_S), "request")
                told = time.monotonic()
            except queue.Empty:
                pass
            now = time.monotonic()
            if now - looked >= LOOK_S:
                looked = now
                found = in_flight(state, own)
                if _without_time(found) != shown:
                    shown, told = _without_time(found), now
                    yield sse(found, "in_flight")
            if now - told >= BEAT_S:
                told = now
                yield b": here\n\n"
    finally:
        state.access_log.listeners.remove(listen)
        state.watching.leave(who)


def in_flight(state: ServerState, own: str = "") -> dict[str, Any]:
    """The requests that run now, and the queues before the local models.

    A client with a key of its own sees its own requests only.
    """
    found = [
        served
        for served in list(state.access_log.running.values())
        if not own or served.client == own
    ]
    return {
        "count": len(found),
        "requests": [describe(served) for served in found[:MOST_SHOWN]],
        "queues": [
            {"model": name, "slots": each.slots, "busy": each.busy, "waiting": each.waiting}
            for name, each in state.engine.parts.fair_queues.items()
        ],
    }


def describe(served: Served) -> dict[str, Any]:
    """One request as it is now. Asks for its confidence, which is written with its next token."""
    progress = served.progress
    progress.asked = True
    rate = progress.tokens_per_second
    return {
        "number": served.number,
        "id": served.id,
        "endpoint": served.endpoint,
        "client": served.client,
        "asked_for": served.model,
        "place": progress.place,
        "backend": progress.backend,
        "model": progress.model,
        "waiting": progress.waiting,
        "tokens": progress.tokens,
        "tokens_per_second": None if rate is None else round(rate, 1),
        "confidence": _rounded(progress.confidence),
        "confidence_verified": progress.verified,
        "threshold": _rounded(progress.threshold),
        "turns": [
            {
                "to": turn.to,
                "code": turn.code,
                "confidence": _rounded(turn.confidence),
                "at_ms": round(1000 * (turn.at - served.started)),
            }
            for turn in list(progress.turns)
        ],
        "elapsed_ms": round(1000 * (time.perf_counter() - served.started)),
    }


def _rounded(chance: float | None) -> float | None:
    return None if chance is None else round(chance, 3)


def _without_time(found: dict[str, Any]) -> dict[str, Any]:
    """What is worth telling: that time passes, a reader knows."""
    requests = [{**each, "elapsed_ms": 0} for each in found["requests"]]
    return found | {"requests": requests}


# -- what it shows, as JSON: read from the ledger, with no texts but stored ones -------------------


STRETCHES = 48
RECENT = 200
UNLISTED = ("features", "error")  # of a row: only its details hold them
JUDGED = [
    *("task", "confidence", "threshold", "source", "cost", "avoided", "verified"),
    *("calibration", "code", "degraded", "streamed"),
]
TEXTS = ("prompt_text", "reply_text", "tool_calls_text")
FRESH = JSON | {"cache-control": "no-store"}
WORTH_PACKING = 16_384  # bytes: an open page reads again and again, maybe on a phone


class QueueState(TypedDict):
    model: str
    slots: Count
    busy: Count
    waiting: Count


class Device(TypedDict):
    state: Literal["starting", "ready", "missing"]
    model: str
    trouble: str
    in_flight: Count
    queues: list[QueueState]
    joules_per_answer: Annotated[
        float | None, Field(description="of the processor, idle power included; null: not told")
    ]


class DriftState(TypedDict):
    """Whether what is asked still looks like what a calibration was measured on."""

    calibration: NotEmpty
    drifted: bool
    words: str
    rows: Count
    distance: float | None
    bound: float | None


class Totals(TypedDict):
    """Among others."""

    requests: Count
    failed: Count
    by_source: dict[str, Count]
    share_on_device: Chance | None
    spent_microdollars: Count
    avoided_microdollars: Count


class Stretch(TypedDict):
    """With the requests of that time by source."""

    start: float


class Provider(TypedDict):
    name: NotEmpty
    model: str
    state: NotEmpty


class Budget(TypedDict):
    key: str
    of: Annotated[str, Field(description="`user` or `group`: of the people behind the key")]
    name: Annotated[str, Field(description="of the user or group")]
    window: NotEmpty
    limit: Count
    spent: Count
    reserved: int
    remaining: int
    resets_at: float | None


class WorkloadState(TypedDict):
    """What the verdicts on a key's requests prove, and what is missing."""

    workload: str
    task: NotEmpty
    calibration: NotEmpty
    requests: Count
    kept: Chance
    verdicts: Count
    wrong: Count
    max_error: Chance
    threshold: Chance | None
    missing: Count
    words: NotEmpty


class Overview(TypedDict):
    version: NotEmpty
    device: Device
    settings: dict[str, Any]
    report: Totals
    timeline: list[Stretch]
    providers: list[Provider]
    budgets: list[Budget]
    drift: list[DriftState]
    workloads: list[WorkloadState]
    keyed: Annotated[bool, Field(description="whether clients need a key")]
    own: Annotated[
        str, Field(description="the key whose requests and budgets alone are shown; empty: all")
    ]
    captions: Annotated[bool, Field(description="whether live captions can work here")]
    away: Annotated[
        str, Field(description="why this shows this process's machine alone; else empty")
    ]


class Confidences(TypedDict):
    columns: list[str]
    rows: list[list[Any]]


class LedgerRow(TypedDict):
    """Among others: ledger.md lists the columns."""

    id: NotEmpty
    created_at: float
    task: NotEmpty
    policy: str
    source: str
    decision_code: str
    reason: str
    confidence: Chance | None
    confidence_verified: bool
    threshold: Chance | None
    degraded: bool
    cost_microdollars: Count
    cost_avoided_microdollars: Count | None
    error_code: str
    verdict: Annotated[bool | None, Field(description="whether it was right, if anybody said")]


class Recent(TypedDict):
    requests: list[LedgerRow]


class UsageRow(TypedDict):
    """What a key, or somebody behind it, asked, spent and saved; in all, or in one period."""

    period: str
    key: str
    user: str
    group: str
    requests: Count
    kept: Count
    doubtful: Count
    cloud: Count
    failed: Count
    spent_microdollars: int
    avoided_microdollars: Count


class UsageTable(TypedDict):
    by: Literal["key", "user", "group"]
    every: Literal["all", "day", "week"]
    rows: list[UsageRow]


class Why(TypedDict):
    sentence: str
    changes: list[str]


class LedgerRequest(LedgerRow):
    attempts: list[dict[str, Any]]
    why: Why


def overview(state: ServerState, incoming: Incoming) -> Work:
    """Totals, requests over time, providers, budgets and the device."""
    ledger = state.engine.ledger

    def read(since: float) -> tuple[tuple[Report, list[StretchRow], list[Outlook]], int]:
        report = ledger.report(since)
        outlooks = state.engine.parts.verdicts.outlooks()
        return (report, ledger.timeline(since, STRETCHES), outlooks), report.requests

    yield from _told(
        incoming, lambda: _overview(state, incoming, *_read(state, incoming, "overview", read))
    )


def confidences(state: ServerState, incoming: Incoming) -> Work:
    """Measured confidences with their outcomes, newest first, as rows to be counted."""

    def read(since: float) -> tuple[dict[str, Any], int]:
        rows = [list(astuple(each)) for each in state.engine.ledger.judged(since)]
        return {"columns": JUDGED, "rows": rows}, len(rows)

    yield from _told(incoming, lambda: _read(state, incoming, "confidences", read))


def recent(state: ServerState, incoming: Incoming) -> Work:
    """The latest requests; a client with a key of its own sees its own."""

    def read(_: float) -> tuple[list[dict[str, Any]], int]:
        rows = state.engine.ledger.recent(RECENT)
        return rows, len(rows)

    def found() -> dict[str, Any]:
        return {
            "requests": [
                {name: value for name, value in row.items() if name not in UNLISTED}
                for row in _read(state, incoming, "recent", read)
                if _may_see(incoming, row)
            ]
        }

    yield from _told(incoming, found)


def usage(state: ServerState, incoming: Incoming) -> Work:
    """What each key, user or group has asked, spent and saved; as CSV where that is accepted. A
    client with a key of its own sees its own."""
    by: Any = incoming.path["by"]
    every = incoming.path["every"]
    if by not in get_args(By) or every not in ("all", "day", "week"):
        words = "usage is by key, user or group, and of all, day or week"
        fault = Fault(status=404, code="not_found", message=words)
        yield whole(fault.status, FRESH, to_json(openai_error(fault)))
        return

    def read(since: float) -> tuple[list[dict[str, Any]], int]:
        periods: Any = "" if every == "all" else every
        found = state.engine.ledger.usage(since, by, periods, incoming.client.own)
        # As large as what it sums up: it is shown for as long as the overview of the same time.
        return [asdict(each) for each in found], sum(each.requests for each in found)

    def rows() -> list[dict[str, Any]]:
        name = f"usage/{by}/{every}/{incoming.client.own}"
        return _read(state, incoming, name, read)

    if "text/csv" in incoming.headers.get("accept", ""):
        try:
            written = usage_csv(rows()).encode()
        except EdgewiseError as error:
            fault = fault_of(error)
            yield whole(fault.status, FRESH, to_json(openai_error(fault)))
            return
        yield whole(200, FRESH | {"content-type": "text/csv; charset=utf-8"}, written)
        return
    yield from _told(incoming, lambda: {"by": by, "every": every, "rows": rows()})


def one_request(state: ServerState, incoming: Incoming) -> Work:
    """One request with its attempts and why. Its texts only while the server stores texts."""

    def found() -> dict[str, Any]:
        row = _own_row(state, incoming, incoming.path["id"])
        hidden = () if state.settings.store_text else TEXTS
        shown = {name: value for name, value in row.items() if name not in hidden}
        return shown | {"why": explain_row(row, state.settings).to_dict()}

    yield from _told(incoming, found)


_OF_ANSWER = re.compile(r"^(chatcmpl-|resp_|msg_)")  # what each API has before a request's id


ABOVE = "you judge only answers of at least this confidence, whether they look right or not"


class FeedbackRequest(Model):
    id: Annotated[Text, Field(description="of the answer as its API gave it, or of the request")]
    right: Flag
    above: Annotated[float, Field(ge=0, le=1, description=ABOVE)] = 0.0


class Feedback(TypedDict):
    id: NotEmpty
    right: bool
    workload: str


def feedback(state: ServerState, incoming: Incoming) -> Work:
    """A verdict on an answer. A client with a key of its own judges its own requests."""

    def found() -> dict[str, Any]:
        asked = read_body(FeedbackRequest, incoming.body)
        row = _own_row(state, incoming, _OF_ANSWER.sub("", asked.id))
        said = state.engine.parts.verdicts.say(row["id"], asked.right, above=asked.above)
        return {"id": said.id, "right": said.right, "workload": said.workload}

    yield from _told(incoming, found)


def _own_row(state: ServerState, incoming: Incoming, request_id: str) -> dict[str, Any]:
    """Raises Refusal: 404, also for what is somebody else's."""
    row = state.engine.ledger.get(request_id[:128])
    if row is None or not _may_see(incoming, row):
        raise refuse(404, "not_found", "no such request")
    return row


def _read(
    state: ServerState,
    incoming: Incoming,
    name: str,
    read: Callable[[float], tuple[Found, int]],
) -> Found:
    """What is read of the time that was asked for, with all others who ask for the same."""
    text = incoming.path.get("since", "24h")
    return state.reports.get((name, text), lambda: read(parse_since(text)))


def _told(incoming: Incoming, found: Callable[[], dict[str, Any]]) -> Work:
    try:
        status, body = 200, to_json(found())
    except EdgewiseError as error:
        fault = fault_of(error)
        status, body = fault.status, to_json(openai_error(fault))
    headers = FRESH
    if len(body) >= WORTH_PACKING and "gzip" in incoming.headers.get("accept-encoding", ""):
        body = gzip.compress(body, compresslevel=1, mtime=0)
        headers = FRESH | {"content-encoding": "gzip", "vary": "accept-encoding"}
    yield whole(status, headers, body)


def _overview(
    state: ServerState,
    incoming: Incoming,
    report: Report,
    stretches: Sequence[StretchRow],
    outlooks: Sequence[Outlook],
) -> dict[str, Any]:
    settings = state.settings
    running = in_flight(state, incoming.client.name if incoming.client.own else "")
    return {
        "version": edgewise.__version__,
        "keyed": state.clients.keyed,
        "own": incoming.client.own,
        "captions": state.engine.parts.hears,
        "device": {
            "state": _device_state(state),
            "model": state.answering_model,
            "trouble": without_folders(state.model_trouble),
            "in_flight": running["count"],
            "queues": running["queues"],
            "joules_per_answer": state.energy.joules_per_answer,
        },
        "settings": {
            "policy": settings.policy,
            "handoff": settings.handoff,
            "threshold": settings.threshold,
            "speech_threshold": settings.speech_threshold,
            "max_error": settings.max_error,
            "cloud_share": settings.cloud_share,
            "store_text": settings.store_text,
        },
        "report": {name: value for name, value in report.to_dict().items() if name != "budgets"},
        "timeline": [{"start": each.start, **each.counts} for each in stretches],
        "providers": _providers(state, report.providers),
        "drift": _drift(state),
        "workloads": [
            each.to_dict() for each in outlooks if incoming.client.own in ("", each.workload.name)
        ],
        "away": state.engine.ledger.away(),
        "budgets": [
            {
                "key": state.budget.key,
                "of": state.budget.of,
                "name": state.budget.name,
                "window": state.budget.window,
                "limit": state.budget.limit_microdollars,
                "spent": state.spent,
                "reserved": state.reserved,
                "remaining": state.remaining,
                "resets_at": state.resets_at,
            }
            for state in report.budgets
            if not incoming.client.own or state.budget.key in ("", incoming.client.own)
        ],
    }


def _providers(state: ServerState, spent: Mapping[str, ProviderSpend]) -> list[dict[str, Any]]:
    """The chain in its order, with each circuit as it is now and what the ledger says of it."""
    return [
        {
            "name": lane.config.name,
            "model": lane.config.model,
            "state": lane.breaker.state,
            "seconds_left": lane.breaker.seconds_left(),
            **asdict(spent.get(lane.config.name, ProviderSpend(0, 0, 0))),
        }
        for lane in state.lanes()
    ]


def _device_state(state: ServerState) -> str:
    if not state.warm.is_set():
        return "starting"
    return "ready" if state.answering_model else "missing"


def _drift(state: ServerState) -> list[DriftState]:
    """What the last check of each calibration found."""
    return [
        {
            "calibration": name,
            "drifted": found.drifted,
            "words": found.words,
            "rows": found.rows,
            "distance": found.distance,
            "bound": found.bound,
        }
        for name, found in list(state.engine.parts.watch.found.items())
    ]


def _may_see(incoming: Incoming, row: Mapping[str, Any]) -> bool:
    key = incoming.client.own
    return not key or row["budget_key"] == key


# -- its own files: a page, its style and its scripts; nothing from anywhere else ------------------


KINDS = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
# No inline script or style, no other host, no frame around it: what a request carries is shown as
# text, and even a slip there could not run.
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "cache-control": "no-cache",
    "content-security-policy": POLICY,
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(self)",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


async def page(request: Request) -> Response:
    """`/` is the page; its parts lie under `/dashboard/`."""
    name = request.path_params.get("name", "index.html")
    content = files().get(name)
    if content is None:
        fault = Fault(status=404, code="not_found", message="no such file")
        return JSONResponse(openai_error(fault), fault.status)
    tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
    headers = HEADERS | {"etag": tag}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers, media_type=KINDS[name.rpartition(".")[2]])


@cache
def files() -> dict[str, bytes]:
    """By name."""
    folder = resources.files("edgewise.server.dashboard") / "static"
    return {
        each.name: each.read_bytes()
        for each in folder.iterdir()
        if each.name.rpartition(".")[2] in KINDS
    }


# -- which local chat models are in memory, and until when -----------------------------------------
#
# Whoever shares a server with others, by a key of its own, may look. Only those without such a key
# may change what stays in memory.


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
    found: Residences = {"models": [_residence(state, name) for name in _resident_names(state)]}
    yield whole(200, JSON | {"cache-control": "no-store"}, to_json(found))


def change_residence(state: ServerState, incoming: Incoming) -> Work:
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
        yield whole(200, JSON, to_json(_residence(state, model or state.local_model)))

    yield from logged(state, served, incoming.cancellation, work, openai_error)


def _resident_names(state: ServerState) -> list[str]:
    pulled = [model.name for model in state.pulled()]
    own = [state.local_model] if state.local_model else []
    return list(dict.fromkeys((*own, *pulled)))


def _residence(state: ServerState, name: str) -> Residence:
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
