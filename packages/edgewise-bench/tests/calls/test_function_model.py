"""The caller's bench on a real model, as briefly as it goes."""

from __future__ import annotations

import pytest

from edgewise.calls.prompt import render_prompt
from edgewise.local.store import InstalledModel
from edgewise.settings import Settings
from edgewise.testing import ScriptedFunctionModel
from edgewise_bench.calls.function_model import (
    QUICK,
    REQUESTS,
    TARGETS,
    TOOLS,
    Rounds,
    Written,
    compare,
    measure_function_model,
    speeds,
    tensor_bytes,
    write,
)
from edgewise_bench.scorecard import verdicts


def test_there_are_five_tools_and_thirty_different_requests() -> None:
    assert len({tool.name for tool in TOOLS}) == 5
    assert len(set(REQUESTS)) == Rounds().requests == 30


@pytest.mark.real_model
def test_measures_everything_it_promises(default_model: InstalledModel) -> None:
    """Any model reads and writes; only a trained one writes calls."""
    steps: list[None] = []
    settings = Settings.load(threads=1, function_model=str(default_model.path))
    found = measure_function_model(settings, QUICK, lambda: steps.append(None))
    assert {
        "first_call_ms", "call_ms_p50", "call_ms_p95", "prompt_tokens_per_second",
        "output_tokens_per_second", "bandwidth_share",
    } <= set(found)  # fmt: skip
    assert found["call_ms_p50"] <= found["call_ms_p95"]
    assert 5 < found["turn_tokens_p50"] < 40, "the tools' part of the prompt is reused"
    assert 0 < found["bandwidth_share"] < 1.5
    assert found.get("rss_mib", 200.0) > 100
    assert len(steps) == QUICK.steps


@pytest.mark.real_model
def test_nearly_the_whole_file_is_read_for_each_token(default_model: InstalledModel) -> None:
    assert 0.97 < tensor_bytes(default_model.path) / default_model.bytes < 1


def test_a_call_is_counted_by_its_finish() -> None:
    function_model = ScriptedFunctionModel(['set_timer {"minutes":5}'])
    written = write(function_model, TOOLS, "five minutes", max_tokens=3)
    assert function_model.asked[0].prompt == render_prompt(TOOLS, "five minutes")
    assert (function_model.asked[0].max_tokens, written.output_tokens) == (3, 3)
    assert written.fresh_tokens > 50


def test_speeds_are_those_of_the_parts() -> None:
    warm = [Written(0.1, 0.2, 10, 21), Written(0.1, 0.4, 12, 21), Written(0.3, 0.2, 14, 21)]
    found = speeds(warm, [Written(0.5, 0.0, 100, 1)])
    assert found["bare_ms_p50"] == pytest.approx(500)
    assert (found["read_ms_p50"], found["write_ms_p50"]) == pytest.approx((100, 200))
    assert found["prompt_tokens_per_second"] == pytest.approx(200)
    assert found["output_tokens_per_second"] == pytest.approx(60 / 0.8)


def test_our_calls_are_compared_with_the_same_calls_token_by_token() -> None:
    ours = [Written(0.1, 0.1, 9, 9, 0.2, 2, "a"), Written(0.1, 0.3, 9, 9, 0.2, 4, "b")]
    bare = [Written(0.1, 0.3, 9, 9, 0.4, 0, "a"), Written(0.1, 0.3, 9, 9, 0.6, 0, "c")]
    found = compare(ours, bare)
    assert found["call_ratio"] == pytest.approx(0.4)
    assert (found["passes_p50"], found["equal_share"]) == (3, 0.5)
    assert verdicts(found, TARGETS)["call_ms_p50"] == "< 150, missed"
