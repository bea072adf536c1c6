"""Entry points: runtimes, clouds, ledgers, policies, commands. Built-ins are entry points too."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Literal

from edgewise.errors import ExtraMissing, SettingsError, did_you_mean

Group = Literal[
    "commands",
    "local_backends",
    "runtimes",
    "speech_backends",
    "embed_backends",
    "cloud_providers",
    "ledgers",
    "policies",
    "finders",
]

# What a plug-in of each group is called in messages.
_KINDS: dict[Group, str] = {
    "commands": "command",
    "local_backends": "backend",
    "runtimes": "runtime",
    "speech_backends": "runtime for speech",
    "embed_backends": "runtime for embeddings",
    "cloud_providers": "protocol",
    "ledgers": "ledger",
    "policies": "policy",
    "finders": "finder",
}

_ENGINES = {
    **{name: (name, "edgewise-engines") for name in ("executorch", "onnx", "openvino")},
    **dict.fromkeys(("cactus", "geniex"), ("engines", "edgewise-engines")),
}
# What our other distributions bring: the extra of edgewise, and the distribution.
OURS: dict[Group, dict[str, tuple[str, str]]] = {
    "commands": {"deploy": ("cluster", "edgewise-cluster")},
    "ledgers": dict.fromkeys(("postgres", "postgresql"), ("postgres", "edgewise-cluster")),
    "local_backends": {"ray": ("cluster", "edgewise-cluster"), **_ENGINES},
    "runtimes": _ENGINES,
}


@cache
def _installed() -> Any:
    """What every distribution registers; read once, since a look goes through all of them."""
    return entry_points()


@cache
def _points(group: Group) -> dict[str, list[EntryPoint]]:
    found: dict[str, list[EntryPoint]] = {}
    for point in _installed().select(group=f"edgewise.{group}"):
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
        if name in (ours := OURS.get(group, {})):
            raise ExtraMissing(*ours[name])
        known = sorted({*points, *ours})
        raise SettingsError(
            f"there is no {_KINDS[group]} {name!r}{did_you_mean(name, known)} "
            f"(known: {', '.join(known)})"
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


def check(group: Group, name: str, place: str, *ours: str) -> None:
    """Raises SettingsError for a name that is neither installed nor an extra's; loads nothing."""
    known = sorted({*ours, *names(group), *OURS.get(group, ())})
    if name not in known:
        raise SettingsError(
            f"{place} = {name!r}: there is no such {_KINDS[group]}{did_you_mean(name, known)} "
            f"(known: {', '.join(known)})"
        )


def owner(group: Group, name: str) -> str:
    """The distribution that registers a name."""
    return _owner(_points(group)[name][0])


def _owner(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else "an unknown package"
