"""Explains a reply or a ledger row with the calibration that its decision names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from edgewise.calibrations import find_document, read_document, shipped_document
from edgewise.decide.calibration import STATE, Score, read_measured, state_document
from edgewise.decide.explain import Case, Explanation, Known, explain
from edgewise.errors import SettingsError
from edgewise.record.rows import mask_secrets
from edgewise.settings import Settings
from edgewise.types.messages import Task
from edgewise.types.replies import BORROWED, TYPED, UNTYPED, Decision, Reply

# The kinds of calibration that a task may use; a chat may have been about pictures.
_KINDS: Mapping[str, tuple[str, ...]] = {
    "chat": ("chat", "see"),
    "call": ("calls",),
    "transcribe": ("speech",),
    "decide": ("decide",),
}
OWN = "+"  # separates a calibration's name from the time it was fitted here
# Scores of a calibration that are not about being right.
_OTHER_SCORES = {"error", "agreement"}


def explain_reply(reply: Reply, settings: Settings, task: Task = "chat") -> Explanation:
    """Why this answer stayed or left, as `edgewise why` says it."""
    case = Case(
        decision=replace(reply.decision, reason=mask_secrets(reply.decision.reason)),
        source=reply.source,
        task=task,
        in_doubt=reply.needs_cloud_handoff,
    )
    return explain(case, known_today(settings, task, reply.decision.calibration))


def explain_row(row: Mapping[str, Any], settings: Settings) -> Explanation:
    """The same for a request in the ledger, however old."""
    decision = Decision(
        policy=row["policy"],
        handoff=row["handoff"],
        code=row["decision_code"],
        reason=row["reason"],
        threshold=row["threshold"],
        confidence=row["confidence"],
        calibration=row["calibration"],
        decided_after_tokens=row["decided_after_tokens"],
        degraded_code=row["degraded_code"],
        truncated=row["truncated"],
        features={name: value for name, value in row["features"].items() if value is not None},
    )
    case = Case(
        decision=decision,
        source=row["source"],
        task=row["task"],
        in_doubt=row["needs_cloud_handoff"],
        error_code=row["error_code"],
        error=row["error"],
    )
    return explain(case, known_today(settings, row["task"], decision.calibration))


def known_today(settings: Settings, task: str, name: str) -> Known:
    """What the calibration of this name holds now; it may have been fitted again since."""
    data = document_of(settings, task, name)
    return Known() if data is None else _known(data)


def document_of(settings: Settings, task: str, name: str) -> Mapping[str, Any] | None:
    """The contents of the calibration file that a decision names, if it exists."""
    for kind in _KINDS.get(task, ()) if name else ():
        data = _document(settings, name, kind)
        if data is not None:
            return data
    return None


def _document(settings: Settings, name: str, kind: str) -> Mapping[str, Any] | None:
    """The file, or its part for hidden states, that holds a calibration of exactly this name."""
    name = name.removesuffix(TYPED).removesuffix(UNTYPED).removesuffix(BORROWED)
    key = name.removesuffix(STATE).partition(OWN)[0]  # files are named after the model only
    places: list[Callable[[], Mapping[str, Any] | None]] = [
        lambda: find_document(settings, key, kind),
        lambda: shipped_document(key, kind),  # the user's own file may hold another
    ]
    if kind == "chat" and settings.calibration:
        path = Path(settings.calibration).expanduser()
        places.insert(0, lambda: read_document(path))
    for place in places:
        try:
            data = place()
        except SettingsError:  # moved or damaged: treat it as missing
            continue
        if data is not None and name.endswith(STATE) and "with_state" in data:
            data = state_document(data)
        if data is not None and data.get("name") == name:
            return data
    return None


def _known(data: Mapping[str, Any]) -> Known:
    try:
        measured = read_measured(data)
        scores = {
            name: Score(
                {str(each): float(weight) for each, weight in found["weights"].items()},
                float(found["bias"]),
                measured.map_of(name if name in ("early", "before") else "final"),
            )
            for name, found in data.items()
            if name not in _OTHER_SCORES and isinstance(found, dict) and "weights" in found
        }
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
        return Known()
    return Known(
        found=True,
        scores=scores,
        measured=measured,
        hold_tokens=data.get("hold_tokens"),
    )
