"""The bench of engines, on scripted ones."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from edgewise import Tool
from edgewise.calibrate.rows import Question
from edgewise.local.backend import TokenStream
from edgewise.settings import Settings
from edgewise.testing import ScriptedBackend, ScriptedFunctionModel
from edgewise.testing.scripted import SCRIPTED_FACTS
from edgewise.types.messages import Request
from edgewise_bench.calls.cases import CallCase
from edgewise_bench.chat.engines import (
    BASE,
    Child,
    Gone,
    Measured,
    Rounds,
    Worker,
    measure_engines,
    obey,
)

QUESTIONS = [
    Question(kind="made", prompt="What is two and two?", accepted=("4",), rule="contains"),
    Question(kind="made", prompt="Which capital?", accepted=("Paris",), rule="contains"),
]
TIMER = Tool(
    "set_timer", "Set a timer.", {"type": "object", "properties": {"minutes": {"type": "integer"}}}
)
CASES = [CallCase("made", "1", "set a timer for 5 minutes", (TIMER,), ())]
CALL = 'set_timer {"minutes":5}'


def worker(folder: Path, logprob: float = -0.05, call: str = CALL, **more: Any) -> Worker:
    settings = Settings(data_dir=folder, threads=1)
    backend = ScriptedBackend(["It is Paris."], logprob=logprob)
    return Worker(settings, backend, lambda: ScriptedFunctionModel([call]), **more)


def test_engines_are_compared_with_llama_cpp(tmp_path: Path) -> None:
    steps: list[int] = []
    engines: dict[str, Measured] = {
        BASE: worker(tmp_path / "a"),
        "onnx": worker(tmp_path / "b"),
        "openvino": worker(tmp_path / "c", logprob=-9.0, call="none"),
    }
    rounds = Rounds(rounds=2, tokens=4)
    outcome = measure_engines(engines, QUESTIONS, CASES, rounds, lambda: steps.append(1))
    found = outcome.metrics()
    assert len(steps) == rounds.steps(len(QUESTIONS), len(CASES))
    assert (found["engines_run"], found["questions"], found["cases"]) == (3, 2, 1)
    assert found["onnx_same_gate"] == found["onnx_same_text"] == found["onnx_calls_equal"] == 1
    assert (found["llama_cpp_kept"], found["openvino_kept"]) == (1, 0)
    assert (found["openvino_same_gate"], found["openvino_same_text"]) == (0, 1)
    assert found["same_gate"] == found["calls_equal"] == 0  # the lowest
    assert (found["onnx_same_at_median"], found["openvino_same_at_median"]) == (1, 0)
    # Both keep everything: that they agree shows nothing.
    assert found["onnx_same_gate_by_chance"] == found["onnx_plain_kept"] == 1
    assert found["openvino_confidence_change"] > found["onnx_confidence_change"] == 0
    for name in ("tokens_per_second_ratio", "long_ratio", "prefill_ratio", "memory_mb"):
        assert found[f"onnx_{name}"] > 0
    assert f"{BASE}_tokens_per_second_ratio" not in found


def test_hidden_states_do_not_count_where_only_llama_cpp_has_them(tmp_path: Path) -> None:
    asked: list[int] = []

    class WithStates(ScriptedBackend):
        @override
        def generate(self, request: Request, **options: Any) -> TokenStream:
            asked.append(options.get("layer", 0))
            return super().generate(request, **options)

    facts = replace(
        SCRIPTED_FACTS,
        backend="llama_cpp",
        model="smollm2-135m-instruct",
        quantisation="Q8_0",
        states=True,
        layers=30,
    )
    backend = WithStates(["It is Paris."], facts=facts)
    made = Worker(
        Settings(data_dir=tmp_path, threads=1), backend, lambda: ScriptedFunctionModel([CALL])
    )
    asked.clear()
    made.decide("Which capital?", "")
    whole, judged, plain = asked
    assert judged > 0 and whole == plain == 0


def test_an_engine_that_breaks_off_is_left_out_and_named(tmp_path: Path) -> None:
    class Broken(Worker):
        @override
        def decide(self, prompt: str, system: str) -> dict[str, Any]:
            raise Gone("its process ended")

    broken = Broken(
        Settings(data_dir=tmp_path / "b", threads=1),
        ScriptedBackend(["It is Paris."]),
        lambda: ScriptedFunctionModel([CALL]),
    )
    engines: dict[str, Measured] = {BASE: worker(tmp_path / "a"), "onnx": broken}
    outcome = measure_engines(engines, QUESTIONS, CASES, Rounds(rounds=1, tokens=2))
    assert outcome.metrics()["engines_run"] == 1
    assert outcome.versions()["onnx_missing"] == "its process ended"


@pytest.mark.parametrize(
    ("same_bits_as", "named"),
    [
        ("", "lent: smollm2-135m-instruct-q8_0"),
        ("smollm2-135m-instruct-q8_0", "smollm2-135m-instruct-q8_0:borrowed"),
    ],
)
def test_an_engine_without_a_calibration_is_lent_that_of_llama_cpp_unless_it_borrows(
    tmp_path: Path, same_bits_as: str, named: str
) -> None:
    shipped = (
        Path(__file__).parents[4] / "src/edgewise/calibrations/smollm2-135m-instruct-q8_0.json"
    )
    facts = replace(SCRIPTED_FACTS, backend="elsewhere", same_bits_as=same_bits_as)
    settings = Settings(data_dir=tmp_path, threads=1)
    made = Worker(
        settings,
        ScriptedBackend(["It is Paris."], facts=facts),
        lambda: ScriptedFunctionModel([CALL]),
        home=shipped,
    )
    assert made.calibration() == named


def test_a_worker_obeys_line_by_line(tmp_path: Path) -> None:
    orders = [["speed", "prefill", 0, 4], ["decide", "Which capital?", ""], ["peak_mb"]]
    said = io.StringIO()
    obey(worker(tmp_path), io.StringIO("".join(json.dumps(each) + "\n" for each in orders)), said)
    speed, decided, peak = (json.loads(line)["answer"] for line in said.getvalue().splitlines())
    assert speed["tokens"] > 300
    assert decided["text"] == "It is Paris." and decided["kept"] is True
    assert peak > 10


def test_an_engine_that_cannot_be_opened_says_why(tmp_path: Path) -> None:
    """From its own process, over the pipe."""
    settings = Settings(data_dir=tmp_path, cache_dir=tmp_path, threads=1)
    with pytest.raises(Gone, match="no runtime named 'nowhere'"):
        Child("nowhere", settings, None)
