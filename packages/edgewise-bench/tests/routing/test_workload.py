"""Quality against cost on a workload: what is sent first, what it costs, whose shares count."""

from __future__ import annotations

import json
from pathlib import Path

import numpy
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from edgewise_bench.commands import bench
from edgewise_bench.commands.cost import read_shares
from edgewise_bench.routing.workload import SHARES, Part, Rows, exam_part, figures, mixed

TRACES = Path(__file__).parents[2] / "results" / "traces"


def part(*rows: tuple[float, float, float, float]) -> Part:
    """Rows of confidence, the device's quality, the cloud's, and dollars."""
    return Part(*numpy.array(rows, dtype=numpy.float64).T)


def alone(given: Part) -> Rows:
    return Rows(numpy.full(len(given.device), 1 / len(given.device)), given)


def test_the_least_sure_is_sent_first() -> None:
    curve = alone(part((0.9, 1, 1, 2), (0.2, 0, 1, 4), (0.6, 0, 1, 2), (0.8, 1, 1, 2))).curve()
    assert curve[0] == (0.5, 0.0, 0.0), "nothing is sent, and nothing paid"
    assert curve[1] == (0.75, 1.0, 0.25)
    assert curve[2] == (1.0, 1.5, 0.5)
    assert curve[-1] == (1.0, 2.5, 1.0), "all is sent: the cloud's quality at its price"


def test_times_cheaper_is_the_least_price_of_the_quality() -> None:
    rows = [(0.9, 1, 1, 1)] * 19 + [(0.1, 0, 1, 1)]
    found = figures(alone(part(*rows)))
    assert found["device_quality"] == pytest.approx(0.95)
    assert found["times_cheaper_at_95"] == 1000.0, "nothing need be sent"
    assert found["times_cheaper_at_99"] == pytest.approx(20)
    assert found["quality_at_5_times"] == pytest.approx(1.0)


def test_shares_weigh_the_parts() -> None:
    easy, hard = part((0.9, 1, 1, 1), (0.8, 1, 1, 1)), part((0.5, 0, 1, 9))
    assert figures(mixed({"a": easy, "b": hard}, {"a": 3, "b": 1}))["device_quality"] == 0.75
    assert figures(mixed({"a": easy, "b": hard}, {"a": 1, "b": 1}))["cloud_usd"] == 5000


@given(
    st.lists(
        st.tuples(*(st.sampled_from([0.0, 0.25, 0.5, 1.0]) for _ in range(3)), st.floats(0.01, 9)),
        min_size=1,
    )
)
def test_more_quality_never_costs_less(rows: list[tuple[float, float, float, float]]) -> None:
    found = figures(alone(part(*rows)))
    if found["cloud_quality"] > found["device_quality"]:
        goals = [found[f"times_cheaper_at_{goal}"] for goal in (90, 95, 99)]
        assert goals == sorted(goals, reverse=True)
        assert min(goals) >= 1 - 1e-9


def test_recorded_outcomes_stand_in_for_a_perfect_cloud() -> None:
    from edgewise.cloud.providers import LibraryPrices
    from edgewise_bench.chat.held_out import Judged

    rows = [Judged(None, True, 0.9, 0.9, None, "public", 40, 9) for _ in range(3)]
    assert exam_part(rows, None, LibraryPrices()).cloud.tolist() == [1, 1, 1]
    assert exam_part(rows, {0: 0.0, 2: 1.0}, LibraryPrices()).cloud.tolist() == [0, 1]


def test_shares_are_read_and_bad_ones_are_named() -> None:
    assert read_shares("calls=0.5, chat=2", SHARES) == {"calls": 0.5, "chat": 2.0}
    for wrong in ("calls", "calls=many", "music=1", "calls=0", "calls=-1,chat=2"):
        result = CliRunner().invoke(bench, ["cost", "--shares", wrong, "--traces", str(TRACES)])
        assert result.exit_code == 2 and "--shares" in result.stderr, wrong


def test_the_published_answers_give_figures_for_each_task_and_overall() -> None:
    arguments = ["cost", "--traces", str(TRACES), "--json"]
    metrics = json.loads(CliRunner().invoke(bench, arguments, catch_exceptions=False).stdout)[
        "metrics"
    ]
    for name in SHARES:
        assert metrics[f"{name}_times_cheaper_at_95"] > 1
    assert metrics["times_cheaper_at_95"] > 2
    assert metrics["quality_at_5_times"] > 0.8
    assert metrics["tasks_device_quality"] > metrics["exam_device_quality"]
