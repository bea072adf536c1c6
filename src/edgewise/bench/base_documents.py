"""What a calibration is fitted from: the shipped file of a model, or a plain one for any other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgewise.assembly.calibrations import (
    Kind,
    find_document,
    shipped_document,
)
from edgewise.calls.confidence import UNCALIBRATED_CALLS
from edgewise.decide.calibration import FORMAT, UNCALIBRATED
from edgewise.settings import Settings
from edgewise.speech.confidence import UNCALIBRATED_SPEECH


def shipped_base(name: str, kind: Kind) -> Mapping[str, Any]:
    """Whatever was fitted here before has no part in it."""
    return shipped_document(name, kind) or plain_document(kind)


def base_in_use(settings: Settings, name: str, kind: Kind) -> Mapping[str, Any]:
    """That which gave today's confidences."""
    return find_document(settings, name, kind) or plain_document(kind)


def plain_document(kind: Kind) -> dict[str, Any]:
    """For a model that nobody has calibrated: its numbers are an ordering."""
    plain: Any
    scores: tuple[str, ...]
    if kind == "calls":
        plain, scores = UNCALIBRATED_CALLS, ("call", "none", "worded_call", "worded_none")
    elif kind == "speech":
        plain, scores = UNCALIBRATED_SPEECH, ("chance", "error")
    else:
        plain, scores = UNCALIBRATED, ("early", "final")
    document: dict[str, Any] = {"format": FORMAT, "name": plain.name, "threshold": plain.threshold}
    for name in scores:
        score = getattr(plain, name)
        document[name] = {"weights": dict(score.weights), "bias": score.bias}
    if kind == "chat":
        cuts = ("hold_tokens", "keep_above", "drop_below")
        document |= {name: getattr(plain, name) for name in cuts}
    return document
