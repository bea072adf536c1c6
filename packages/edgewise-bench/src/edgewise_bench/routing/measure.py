"""The routing bench: its parts, each of which measures something and says how long it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from edgewise import parts as assembly
from edgewise.settings import Settings
from edgewise_bench.plots import draw_deferral, draw_own
from edgewise_bench.routing import frozen, own_traces, waiting

TARGETS = {**frozen.TARGETS, **own_traces.TARGETS}

Step = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Part:
    """`measure` steps `steps` times and returns metrics, flat; it may draw into a folder."""

    title: str
    steps: int
    measure: Callable[[Step, Path | None], dict[str, float]]


@contextmanager
def open_study(settings: Settings, data: Path) -> Iterator[Part]:
    """Variants of the routers, on frozen outcomes."""
    with frozen.open_data(data) as folder:
        yield _study(settings, folder)


@contextmanager
def open_parts(
    settings: Settings, data: Path | None, traces: Path | None = None
) -> Iterator[list[Part]]:
    """What can be measured: our own traces, and frozen outcomes, each where its data is."""
    if data is None:
        yield [_own(traces, None), _waiting(traces)] if traces else []
        return
    with frozen.open_data(data) as folder:
        parts = [_own(traces, folder), _waiting(traces)] if traces else []
        yield [*parts, _frozen(settings, folder)]


def _own(traces: Path, folder: Path | None) -> Part:
    larger = folder / "llmrouter" if folder else None

    def measure(step: Step, plots: Path | None) -> dict[str, float]:
        found = own_traces.measure_own(traces, larger, step)
        if plots is not None:
            draw_own(plots, traces)
        return found

    return Part("own traces", own_traces.STEPS, measure)


def _waiting(traces: Path) -> Part:
    def measure(step: Step, plots: Path | None) -> dict[str, float]:
        return waiting.measure_waiting(traces, step, plots)

    return Part("waiting", waiting.STEPS, measure)


def _frozen(settings: Settings, folder: Path) -> Part:
    data = frozen.read_frozen(folder)

    def measure(step: Step, plots: Path | None) -> dict[str, float]:
        embedder = assembly.open_embedder(settings)
        try:
            cache = settings.cache_dir / "bench"
            found, routed = frozen.measure_frozen(data, embedder, cache, step)
        finally:
            embedder.close()
        if plots is not None:
            draw_deferral(plots / "routing_deferral.png", routed)
        return found

    return Part("frozen outcomes", data.steps, measure)


def _study(settings: Settings, folder: Path) -> Part:
    data = frozen.read_frozen(folder)

    def measure(step: Step, plots: Path | None) -> dict[str, float]:
        embedder = assembly.open_embedder(settings)
        try:
            return frozen.measure_study(data, embedder, settings.cache_dir / "bench", step)
        finally:
            embedder.close()

    return Part("variants", frozen.study_steps(data), measure)
