"""What the dashboard and the health checks are told."""

from __future__ import annotations

from edgewise.server.openapi.shapes import (
    ANYTHING,
    CHANCE,
    COUNT,
    FLAG,
    NUMBER,
    OBJECT,
    TEXT,
    WORD,
    choice,
    listed,
    mapped,
    maybe,
    record,
)

ALIVE = record({"status": choice("ok")})
READY = record({"status": choice("ready", "starting", "draining"), "local_model": maybe(WORD)})
LEDGER_ROW = record(
    {
        "id": WORD,
        "created_at": NUMBER,
        "task": WORD,
        "policy": TEXT,
        "source": TEXT,
        "decision_code": TEXT,
        "reason": TEXT,
        "confidence": maybe(CHANCE),
        "threshold": maybe(CHANCE),
        "degraded": FLAG,
        "cost_microdollars": COUNT,
        "cost_avoided_microdollars": maybe(COUNT),
        "error_code": TEXT,
    }
)
ONE_REQUEST = LEDGER_ROW | {
    "properties": LEDGER_ROW["properties"]
    | {"attempts": listed(OBJECT), "why": record({"sentence": TEXT, "changes": listed(TEXT)})},
    "required": [*LEDGER_ROW["required"], "attempts", "why"],
}
RECENT = record({"requests": listed(LEDGER_ROW)})
CONFIDENCES = record({"columns": listed(TEXT), "rows": listed(listed(ANYTHING))})
OVERVIEW = record(
    {
        "version": WORD,
        "device": record(
            {
                "model": TEXT,
                "trouble": TEXT,
                "in_flight": COUNT,
                "queues": listed(
                    record({"model": TEXT, "slots": COUNT, "busy": COUNT, "waiting": COUNT})
                ),
            }
        ),
        "settings": OBJECT,
        "report": record(
            {
                "requests": COUNT,
                "failed": COUNT,
                "by_source": mapped(COUNT),
                "share_on_device": maybe(CHANCE),
                "spent_microdollars": COUNT,
                "avoided_microdollars": COUNT,
            }
        ),
        "timeline": listed(record({"start": NUMBER})),
        "providers": listed(record({"name": WORD, "model": TEXT, "state": WORD})),
        "budgets": listed(record({"key": TEXT, "window": WORD, "limit": COUNT, "spent": COUNT})),
    }
)
