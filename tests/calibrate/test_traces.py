"""Traces are made once, survive an interrupted run, and carry all evidence."""

from __future__ import annotations

import base64
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from typing_extensions import override

from edgewise.calibrate.rows import Question
from edgewise.calibrate.traces import collect_traces
from edgewise.decide.calibration import Head
from edgewise.local.backend import TokenStream
from edgewise.testing import ScriptedBackend
from edgewise.types.messages import Request

QUESTIONS = [
    Question(kind="capitals", prompt=f"Capital of {country}?", accepted=(capital,))
    for country, capital in (("France", "Paris"), ("Italy", "Rome"), ("Spain", "Madrid"))
]


def test_answers_are_asked_for_once(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "traces.jsonl"
    first = ScriptedBackend(["It is Paris.", "It is Paris."])
    steps: list[None] = []
    traces = collect_traces(first, QUESTIONS[:2], path, lambda: steps.append(None))
    assert [trace.right for trace in traces] == [True, False]
    assert [len(trace.readings()) for trace in traces] == [3, 3]
    assert len(steps) == 2

    second = ScriptedBackend(["Madrid, of course."])
    again = collect_traces(second, QUESTIONS, path)
    assert again[:2] == traces
    assert again[2].text == "Madrid, of course."
    assert second.started == 1


def test_a_line_that_was_cut_is_asked_again(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    collect_traces(ScriptedBackend(["Paris", "Rome"]), QUESTIONS[:2], path)
    whole = path.read_text("utf-8")
    path.write_text(whole[:-20], "utf-8")
    backend = ScriptedBackend(["Rome"])
    traces = collect_traces(backend, QUESTIONS[:2], path)
    assert [trace.text for trace in traces] == ["Paris", "Rome"]
    assert backend.started == 1
    assert collect_traces(ScriptedBackend(["?"]), QUESTIONS[:2], path) == traces


def test_what_a_head_reads_is_kept_with_the_answer(tmp_path: Path) -> None:
    numbers = base64.b64encode(np.ones(4, "<f4").tobytes()).decode()
    zeros = base64.b64encode(np.zeros(4, "<f4").tobytes()).decode()
    head = Head(layer=3, centre=zeros, spread=numbers, weights=numbers, clip=8.0)

    class Stateful(ScriptedBackend):
        @override
        def generate(self, request: Request, **given: Any) -> TokenStream:
            assert given == {"layer": 3, "prompt_layer": 0}
            for item in ScriptedBackend.generate(self, request):
                yield replace(item, state=np.full(4, 0.5, np.float32))

    path = tmp_path / "traces.jsonl"
    first = collect_traces(Stateful(["It is Paris."]), QUESTIONS[:1], path, heads={"state": head})
    assert [reading.state for reading in first[0].readings()] == [None, 2.0, 2.0]
    assert collect_traces(ScriptedBackend(["?"]), QUESTIONS[:1], path) == first


def test_an_answer_cut_at_the_limit_is_marked(tmp_path: Path) -> None:
    backend = ScriptedBackend(["word " * 100])
    (trace,) = collect_traces(backend, QUESTIONS[:1], tmp_path / "traces.jsonl")
    assert not trace.ended
    assert len(trace.tokens) == 48
    assert stat.S_IMODE((tmp_path / "traces.jsonl").stat().st_mode) == 0o600
