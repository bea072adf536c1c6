"""Finders of personal data that the settings name: presidio, and those of plug-ins."""

from __future__ import annotations

from functools import cache

from edgewise import plugins
from edgewise.cloud.personal_data import Finder
from edgewise.settings import Settings


def open_finders(settings: Settings) -> tuple[Finder, ...]:
    """Not yet loaded. Raises SettingsError for a name that nobody has registered."""
    return tuple(_open(name, settings.finder_model) for name in settings.finders)


@cache  # its model is large, and one serves all engines of a process
def _open(name: str, model: str) -> Finder:
    if name == "presidio":
        from edgewise.cloud.presidio import PresidioFinder  # noqa: PLC0415  # an extra

        return PresidioFinder(model)
    finder: Finder = plugins.load("finders", name)()
    return finder
