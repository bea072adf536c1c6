"""What every answer says of itself, and what a refusal says."""

from __future__ import annotations

from edgewise.server.anthropic.messages import ERRORS
from edgewise.server.openapi.shapes import (
    AMOUNT,
    ANYTHING,
    CHANCE,
    COUNT,
    FLAG,
    NUMBER,
    TEXT,
    WORD,
    Schema,
    choice,
    listed,
    maybe,
    record,
    said,
)

SOURCE = choice("local", "cloud", "mixed", "none")
DECISION = record(
    {
        "code": said("see decision-codes.md", WORD),
        "reason": TEXT,
        "policy": TEXT,
        "handoff": choice("automatic", "signal"),
        "threshold": maybe(CHANCE),
        "objective": said("what the threshold was found for", TEXT),
        "calibration": TEXT,
        "decided_after_tokens": maybe(COUNT),
        "truncated": FLAG,
    }
)
ATTEMPT = record(
    {
        "place": choice("local", "cloud"),
        "backend": TEXT,
        "model": TEXT,
        "outcome": WORD,
        "error": TEXT,
        "tries": COUNT,
        "first_token_ms": maybe(AMOUNT),
        "total_ms": AMOUNT,
        "input_tokens": COUNT,
        "output_tokens": COUNT,
        "cached_tokens": COUNT,
        "cost_microdollars": COUNT,
        "estimated": FLAG,
        "shown_chars": COUNT,
        "audio_seconds": AMOUNT,
    }
)
REPORT_FIELDS: dict[str, Schema] = {
    "id": WORD,
    "source": SOURCE,
    "model": said("empty where only signalled", TEXT),
    "confidence": maybe(CHANCE),
    "cloud_handoff": FLAG,
    "needs_cloud_handoff": FLAG,
    "decision": DECISION,
    "degraded": FLAG,
    "degraded_code": TEXT,
    "cost_usd": AMOUNT,
    "cost_microdollars": COUNT,
    "usage": record({"input_tokens": COUNT, "output_tokens": COUNT}),
    "attempts": listed(ATTEMPT),
    "first_token_ms": maybe(AMOUNT),
    "total_ms": AMOUNT,
}
SIGNAL_FIELDS: dict[str, Schema] = {"success": choice(True), "response": {"type": "null"}}
_CALLS: dict[str, Schema] = {
    "calls": listed(record({"name": TEXT, "source": SOURCE, "confidence": maybe(CHANCE)})),
    "difficulty": ANYTHING,
}
REPORT = record(REPORT_FIELDS | SIGNAL_FIELDS | _CALLS, optional=(*SIGNAL_FIELDS, *_CALLS))
SEGMENT_REPORT = record(
    {
        "id": COUNT,
        "start": AMOUNT,
        "end": AMOUNT,
        "source": SOURCE,
        "confidence": maybe(CHANCE),
        "expected_error": maybe(NUMBER),
        "corrected": FLAG,
        "codes": listed(TEXT),
        "error": TEXT,
    }
)
SPEECH_REPORT = record(
    REPORT_FIELDS
    | SIGNAL_FIELDS
    | {
        "language": TEXT,
        "seconds": AMOUNT,
        "speech_seconds": AMOUNT,
        "codes": listed(TEXT),
        "segments": listed(SEGMENT_REPORT),
        "dropped": COUNT,
    },
    optional=tuple(SIGNAL_FIELDS),
)
ERROR = record(
    {
        "error": record(
            {
                "message": TEXT,
                "type": WORD,
                "param": maybe(TEXT),
                "code": said("see decision-codes.md and server.md", WORD),
            }
        )
    }
)
ANTHROPIC_ERROR = record(
    {
        "type": choice("error"),
        "error": record(
            {
                "type": choice(*dict.fromkeys(ERRORS.values()), "api_error"),
                "message": TEXT,
                "code": WORD,
            }
        ),
    }
)
