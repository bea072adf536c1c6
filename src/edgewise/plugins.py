"""Entry points: runtimes, cloud providers, policies, commands. Built-ins are entry points too."""

from __future__ import annotations

import difflib
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Literal

from edgewise.errors import SettingsError

Group = Literal[
    "commands",
    "local_backends",
    "speech_backends",
    "embed_backends",
    "cloud_providers",
    "policies",
    "finders",
]


@cache
def _points(group: Group) -> dict[str, list[EntryPoint]]:
    found: dict[str, list[EntryPoint]] = {}
    for point in entry_points(group=f"edgewise.{group}"):
        found.setdefault(point.name, []).append(point)
    return found


def names(group: Group) -> list[str]:
    """The names of everything installed, ours and others'."""
    return sorted(_points(group))


@cache
def load(group: Group, name: str) -> Any:
    """The object that an entry point names. A clear error if it is missing or does not load."""
    points = _points(group)
    if name not in points:
        near = difflib.get_close_matches(name, points, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise SettingsError(
            f"nothing called {name!r} in edgewise.{group}{hint} ({', '.join(points)})"
        )
    if len(points[name]) > 1:
        # Which one comes first would depend on the order of sys.path, which nobody chose.
        owners = " and ".join(sorted(_owner(point) for point in points[name]))
        raise SettingsError(f"{name!r} in edgewise.{group} is registered by {owners}; remove one")
    point = points[name][0]
    try:
        return point.load()
    except Exception as error:  # importing somebody else's module may raise anything
        raise SettingsError(
            f"plug-in {point.value!r} of {_owner(point)} does not load: "
            f"{type(error).__name__}: {error}"
        ) from error


def _owner(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else "an unknown package"
