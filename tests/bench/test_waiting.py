"""Waiting, measured on published files: what is there is measured, what is not is left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgewise.bench.judged_rows import chat_path
from edgewise.bench.trace_set import TraceSet, read_trace_set, write_trace_set
from edgewise.bench.waiting import STEPS, again_path, measure_waiting

PUBLISHED = Path(__file__).parents[2] / "benchmarks/traces"
pytestmark = pytest.mark.skipif(not chat_path(PUBLISHED).exists(), reason="no published traces")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A part of the published answers."""
    for path in (chat_path(PUBLISHED), again_path(PUBLISHED)):
        traces = read_trace_set(path)
        write_trace_set(TraceSet(traces.origin, traces.rows[:900]), tmp_path / path.name)
    return tmp_path


def test_early_decisions_and_second_answers_are_measured_and_drawn(folder: Path) -> None:
    pytest.importorskip("matplotlib")
    steps: list[None] = []
    found = measure_waiting(folder, lambda: steps.append(None), folder / "plots", rounds=5)
    assert len(steps) == STEPS
    assert found["tokens_wasted_early"] < found["tokens_wasted_end"]
    assert found["second_rows"] > 200
    assert (folder / "plots" / "early_decision.png").read_bytes().startswith(b"\x89PNG")


def test_without_second_answers_nothing_is_said_about_them(folder: Path) -> None:
    again_path(folder).unlink()
    found = measure_waiting(folder, rounds=5)
    assert "early_agreement" in found
    assert not any(name.startswith("second_") for name in found)


def test_without_traces_there_is_nothing_to_say(tmp_path: Path) -> None:
    assert measure_waiting(tmp_path) == {}
