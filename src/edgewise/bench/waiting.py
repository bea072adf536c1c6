"""What waiting is worth, for more tokens or for a second answer, on the published traces."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from edgewise.bench.early_decision import THRESHOLDS, deal, measure_shipped, study_early
from edgewise.bench.fit import Sample
from edgewise.bench.judged_rows import CHAT, chat_calibration, chat_path, chat_samples
from edgewise.bench.questions import make_questions
from edgewise.bench.routing_plots import draw_early
from edgewise.bench.second_sample import SEEDS, measure_second, pair_up
from edgewise.bench.shipped_calibration import measures
from edgewise.bench.trace_set import TraceSet, own_reference, read_trace_set

STEPS = 1 + SEEDS
ROUNDS = 400  # of the bootstrap


def measure_waiting(
    folder: Path,
    step: Callable[[], None] = lambda: None,
    plots: Path | None = None,
    rounds: int = ROUNDS,
) -> dict[str, float]:
    """All figures, flat; nothing where the files are not there."""
    if not chat_path(folder).exists():
        return {}
    first = read_trace_set(chat_path(folder))
    fresh = _fresh(first)
    calibration = chat_calibration()
    found = measure_shipped(calibration, fresh, rounds)
    if plots is not None:
        dealt = deal(calibration, fresh)
        studies = {f"threshold {at:g}": study_early(dealt, at) for at in THRESHOLDS}
        draw_early(plots / "early_decision.png", studies)
    step()
    if again_path(folder).exists():
        prompts = {own_reference(each.prompt): each.prompt for each in make_questions(0)}
        pairs = pair_up(first, read_trace_set(again_path(folder)), prompts)
        features = list(calibration.final.weights)
        found |= measure_second(pairs, features, rounds=rounds, step=step)
    return found


def again_path(folder: Path) -> Path:
    """The same model's answers at a temperature; texts alone."""
    return folder / f"{CHAT}-again.jsonl.gz"


def _fresh(traces: TraceSet) -> list[Sample]:
    """Answers that the shipped calibration was not fitted on."""
    pairs = zip(*chat_samples(traces), strict=True)
    return [sample for reference, sample in pairs if measures(reference)]
