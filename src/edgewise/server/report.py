"""The `edgewise` object of every answer, and the headers that say the same in short."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from edgewise.record.rows import (
    masked_start,
    short_error,
)
from edgewise.server.routing import HEADER
from edgewise.server.wire import Opening
from edgewise.types.replies import Attempt, CallReply, Reply


def report(reply: Reply) -> dict[str, Any]:
    """Where it came from, how sure it is, why, and at what price. No text of the conversation."""
    decision = reply.decision
    found: dict[str, Any] = {
        "id": reply.id,
        "source": reply.source,
        "model": reply.model,
        "confidence": reply.confidence,
        "cloud_handoff": reply.cloud_handoff,
        "needs_cloud_handoff": reply.needs_cloud_handoff,
        "decision": {
            "code": decision.code,
            "reason": masked_start(decision.reason)[0],  # it may quote a provider's error
            "policy": decision.policy,
            "handoff": decision.handoff,
            "threshold": decision.threshold,
            "objective": decision.objective,
            "calibration": decision.calibration,
            "decided_after_tokens": decision.decided_after_tokens,
            "truncated": decision.truncated,
        },
        "degraded": reply.degraded,
        "degraded_code": decision.degraded_code,
        "cost_usd": reply.usage.cost_microdollars / 1_000_000,
        "cost_microdollars": reply.usage.cost_microdollars,
        "usage": {
            "input_tokens": reply.usage.input_tokens,
            "output_tokens": reply.usage.output_tokens,
        },
        "attempts": [_attempt(each) for each in reply.attempts],
        "first_token_ms": reply.first_token_ms,
        "total_ms": reply.total_ms,
    }
    if reply.signalled:  # the original handoff signal, for applications that route themselves
        found |= {"success": True, "response": None}
    if isinstance(reply, CallReply):
        found["calls"] = [
            {"name": call.name, "source": call.source, "confidence": call.confidence}
            for call in reply.tool_calls
        ]
        found["difficulty"] = reply.difficulty
    return found


def headers(reply: Reply) -> dict[str, str]:
    found = {
        HEADER + "id": reply.id,
        HEADER + "source": reply.source,
        HEADER + "cost": f"{reply.usage.cost_microdollars / 1_000_000:.6f}",
        HEADER + "reason": reply.decision.code,
    }
    if reply.confidence is not None:
        found[HEADER + "confidence"] = f"{reply.confidence:.4f}"
    if reply.degraded:
        found[HEADER + "degraded"] = reply.decision.degraded_code
    if reply.signalled:
        found[HEADER + "handoff"] = "signal"
    return found


def opening_headers(opening: Opening) -> dict[str, str]:
    """What is known at the first byte of a stream; the rest is in its last event."""
    found = {HEADER + "id": opening.id, HEADER + "source": opening.source}
    if opening.switched is not None:
        found[HEADER + "reason"] = opening.switched.code
        if opening.switched.confidence is not None:
            found[HEADER + "confidence"] = f"{opening.switched.confidence:.4f}"
    return found


def _attempt(attempt: Attempt) -> dict[str, Any]:
    return asdict(attempt) | {"error": short_error(attempt.error)}
