"""The routing bench: its parts, each of which measures something and says how long it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from edgewise import assembly
from edgewise.bench import frozen_routing
from edgewise.bench.frozen_outcomes import open_data
from edgewise.bench.routing_plots import draw_deferral
from edgewise.settings import Settings

TARGETS = {**frozen_routing.TARGETS}

Step = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Part:
    """`measure` steps `steps` times and returns metrics, flat; it may draw into a folder."""

    title: str
    steps: int
    measure: Callable[[Step, Path | None], dict[str, float]]


@contextmanager
def open_parts(settings: Settings, data: Path | None) -> Iterator[list[Part]]:
    """What can be measured: frozen outcomes only where their data is."""
    parts: list[Part] = []
    if data is None:
        yield parts
        return
    with open_data(data) as folder:
        parts.append(_frozen(settings, folder))
        yield parts


def _frozen(settings: Settings, folder: Path) -> Part:
    data = frozen_routing.read_frozen(folder)

    def measure(step: Step, plots: Path | None) -> dict[str, float]:
        embedder = assembly.open_embedder(settings)
        try:
            cache = settings.cache_dir / "bench"
            found, routed = frozen_routing.measure_frozen(data, embedder, cache, step)
        finally:
            embedder.close()
        if plots is not None:
            draw_deferral(plots / "routing_deferral.png", routed)
        return found

    return Part("frozen outcomes", data.steps, measure)
