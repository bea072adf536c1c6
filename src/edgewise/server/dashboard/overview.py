"""What the dashboard shows, as JSON: read from the ledger, with no texts but stored ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Annotated, Any, Literal

from pydantic import Field
from typing_extensions import TypedDict

import edgewise
from edgewise.errors import EdgewiseError
from edgewise.monitor.why import explain_row
from edgewise.record.report import ProviderSpend, parse_since
from edgewise.server.answer import Incoming
from edgewise.server.dashboard.events import in_flight
from edgewise.server.errors import fault_of, openai_error, refuse, without_folders
from edgewise.server.state import ServerState
from edgewise.server.wire import JSON, Chance, Count, NotEmpty, Work, to_json, whole

STRETCHES = 48
RECENT = 200
UNLISTED = ("features", "error")  # of a row: only its details hold them
TEXTS = ("prompt_text", "reply_text", "tool_calls_text")
HEADERS = JSON | {"cache-control": "no-store"}


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
    window: NotEmpty
    limit: Count
    spent: Count
    reserved: int
    remaining: int
    resets_at: float | None


class Overview(TypedDict):
    version: NotEmpty
    device: Device
    settings: dict[str, Any]
    report: Totals
    timeline: list[Stretch]
    providers: list[Provider]
    budgets: list[Budget]
    drift: list[DriftState]
    keyed: Annotated[bool, Field(description="whether clients need a key")]
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


class Recent(TypedDict):
    requests: list[LedgerRow]


class Why(TypedDict):
    sentence: str
    changes: list[str]


class LedgerRequest(LedgerRow):
    attempts: list[dict[str, Any]]
    why: Why


def overview(state: ServerState, incoming: Incoming) -> Work:
    """Totals, requests over time, providers, budgets and the device."""
    yield from _told(incoming, lambda since: _overview(state, incoming, since))


def confidences(state: ServerState, incoming: Incoming) -> Work:
    """Measured confidences with their outcomes, newest first, as rows to be counted."""

    def found(since: float) -> dict[str, Any]:
        judged = state.engine.ledger.judged(since)
        names = ["task", "confidence", "threshold", "source", "cost", "avoided", "verified"]
        return {"columns": names, "rows": [list(asdict(each).values()) for each in judged]}

    yield from _told(incoming, found)


def recent(state: ServerState, incoming: Incoming) -> Work:
    """The latest requests; a client with a key of its own sees its own."""

    def found(_: float) -> dict[str, Any]:
        rows = state.engine.ledger.recent(RECENT)
        return {
            "requests": [
                {name: value for name, value in row.items() if name not in UNLISTED}
                for row in rows
                if _may_see(incoming, row)
            ]
        }

    yield from _told(incoming, found)


def one_request(state: ServerState, incoming: Incoming) -> Work:
    """One request with its attempts and why. Its texts only while the server stores texts."""

    def found(_: float) -> dict[str, Any]:
        row = state.engine.ledger.get(incoming.path["id"][:128])
        if row is None or not _may_see(incoming, row):
            raise refuse(404, "not_found", "no such request")
        hidden = () if state.settings.store_text else TEXTS
        shown = {name: value for name, value in row.items() if name not in hidden}
        return shown | {"why": explain_row(row, state.settings).to_dict()}

    yield from _told(incoming, found)


def _told(incoming: Incoming, found: Callable[[float], dict[str, Any]]) -> Work:
    try:
        since = parse_since(incoming.path.get("since", "24h"))
        status, body = 200, to_json(found(since))
    except EdgewiseError as error:
        fault = fault_of(error)
        status, body = fault.status, to_json(openai_error(fault))
    yield whole(status, HEADERS, body)


def _overview(state: ServerState, incoming: Incoming, since: float) -> dict[str, Any]:
    ledger = state.engine.ledger
    report = ledger.report(since)
    settings = state.settings
    running = in_flight(state, incoming.client.name if incoming.client.budget_key else "")
    return {
        "version": edgewise.__version__,
        "keyed": state.clients.keyed,
        "device": {
            "state": _device_state(state),
            "model": state.answering_model,
            "trouble": without_folders(state.model_trouble),
            "in_flight": running["count"],
            "queues": running["queues"],
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
        "timeline": [
            {"start": each.start, **each.counts} for each in ledger.timeline(since, STRETCHES)
        ],
        "providers": _providers(state, report.providers),
        "drift": _drift(state),
        "away": ledger.away(),
        "budgets": [
            {
                "key": state.budget.key,
                "window": state.budget.window,
                "limit": state.budget.limit_microdollars,
                "spent": state.spent,
                "reserved": state.reserved,
                "remaining": state.remaining,
                "resets_at": state.resets_at,
            }
            for state in report.budgets
            if not incoming.client.budget_key
            or state.budget.key in ("", incoming.client.budget_key)
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
        for name, found in list(state.engine._watch.found.items())
    ]


def _may_see(incoming: Incoming, row: Mapping[str, Any]) -> bool:
    key = incoming.client.budget_key
    return not key or row["budget_key"] == key
