"""Entry points: local backends, cloud providers and policies. Built-ins use the same door."""

from __future__ import annotations

import difflib
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Literal

from edgewise.errors import SettingsError

Group = Literal["local_backends", "cloud_providers", "policies"]


@cache
def _points(group: Group) -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=f"edgewise.{group}")}


def names(group: Group) -> list[str]:
    """What is installed, ours and others'."""
    return sorted(_points(group))


@cache
def load(group: Group, name: str) -> Any:
    """The object an entry point names; a clear error when there is none or it does not load."""
    points = _points(group)
    if name not in points:
        near = difflib.get_close_matches(name, points, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise SettingsError(
            f"nothing called {name!r} in edgewise.{group}{hint} ({', '.join(points)})"
        )
    try:
        return points[name].load()
    except (ImportError, AttributeError) as error:
        raise SettingsError(f"plug-in {points[name].value!r} does not load: {error}") from error
