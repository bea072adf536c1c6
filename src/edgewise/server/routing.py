"""What a request says about routing: its model's name, its headers, its metadata."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from edgewise.server.errors import refuse
from edgewise.server.fields import BadField, Fields
from edgewise.types.objectives import as_share

HEADER = "x-edgewise-"
AUTO, LOCAL, CLOUD = "auto", "local", "cloud"
LEAST_SHARE, MOST_SHARE = 0.0001, 0.9999  # of errors: none at all cannot be promised


@dataclass(frozen=True, slots=True)
class Route:
    """Options for the engine, and the one cloud model that is wanted, if any."""

    options: Mapping[str, Any] = field(default_factory=dict)
    cloud: str = ""


def read_routing(metadata: Fields, headers: Mapping[str, str]) -> dict[str, Any]:
    """Engine options from `metadata` and `x-edgewise-*` headers; a header wins.

    In metadata both `policy` and `edgewise_policy` are understood. A wrong value is refused and
    not passed over: a misspelt privacy must not let a request out.
    """
    options: dict[str, Any] = {}
    for name, read in _READERS.items():
        for given in (name, f"edgewise_{name}"):
            if metadata.has(given):
                options |= read(metadata.values[given], metadata.name_of(given))
        header = HEADER + name.replace("_", "-")
        if header in headers:
            options |= read(headers[header], header)
    return options


def resolve_model(name: str, *, local_model: str, any_model: bool) -> Route:
    """What a model's name means: `auto`, `local/<name>` or `cloud/<provider>/<name>`."""
    where, _, rest = name.partition("/")
    if name in ("", AUTO, f"edgewise/{AUTO}"):
        return Route()
    if where == LOCAL:
        if rest in ("", local_model):
            return Route({"policy": "local_only"})
        raise _unknown(
            name, f"the local model is {f'{LOCAL}/{local_model}' if local_model else 'missing'}"
        )
    if where == CLOUD:
        if rest in ("", AUTO):
            return Route({"policy": "cloud_only"})
        return Route({"policy": "cloud_only"}, cloud=rest)
    if any_model:
        return Route()
    raise _unknown(name, "known are auto, local/NAME and cloud/PROVIDER/NAME")


def _unknown(name: str, hint: str) -> Exception:
    return refuse(404, "model_not_found", f"no model {name[:80]!r}: {hint}", param="model")


def _policy(value: Any, path: str) -> dict[str, Any]:
    return {"policy": _word(value, path)}


def _handoff(value: Any, path: str) -> dict[str, Any]:
    word = _word(value, path)
    if word not in ("automatic", "signal"):
        raise BadField(path, f"expected automatic or signal, got {word[:40]!r}")
    return {"handoff": word}


def _privacy(value: Any, path: str) -> dict[str, Any]:
    word = _word(value, path).lower()
    if word not in ("private", "open"):
        raise BadField(path, f"expected private or open, got {word[:40]!r}")
    return {"private": word == "private"}


def _budget_key(value: Any, path: str) -> dict[str, Any]:
    return {"budget_key": _word(value, path)}


def _number(name: str, low: float, high: float) -> Callable[[Any, str], dict[str, Any]]:
    read_number = float if high > 1 else _share

    def read(value: Any, path: str) -> dict[str, Any]:
        try:
            number = math.nan if isinstance(value, bool) else read_number(value)
        except (TypeError, ValueError):
            number = math.nan
        if not low <= number <= high:
            raise BadField(path, f"expected a number from {low:g} to {high:g}")
        return {name: number}

    return read


def _share(value: Any) -> float:
    return as_share(value) if isinstance(value, str) else float(value)


def _word(value: Any, path: str) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > 128:
        raise BadField(path, "expected a word")
    return value.strip()


_READERS: Mapping[str, Callable[[Any, str], dict[str, Any]]] = {
    "policy": _policy,
    "privacy": _privacy,
    "handoff": _handoff,
    "threshold": _number("threshold", 0.0, 1.0),
    "max_error": _number("max_error", LEAST_SHARE, MOST_SHARE),
    "error_probability": _number("error_probability", LEAST_SHARE, MOST_SHARE),
    "cloud_share": _number("cloud_share", 0.0, 1.0),
    "deadline_ms": _number("deadline_ms", 1.0, 86_400_000.0),
    "budget_key": _budget_key,
}
