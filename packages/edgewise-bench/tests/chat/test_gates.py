"""Recorded answers through the gate as it runs: streams keep what `complete` keeps."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgewise.calibrations import shipped_document
from edgewise.decide.calibration import Calibration, parse_calibration
from edgewise.decide.gate import HELD_TOKENS
from edgewise.testing import word_tokens
from edgewise_bench.chat.gates import compare_gates, replay
from edgewise_bench.chat.traces import Recorded, read_trace_set, traces_of

TRACES = Path(__file__).parents[2] / "results" / "traces"
MODEL = "qwen2.5-coder-1.5b-instruct"


@pytest.fixture(scope="module")
def words() -> Calibration:
    document = shipped_document(f"{MODEL}-q4_k_m", "chat")
    assert document is not None
    return parse_calibration(document, MODEL)


def test_what_a_stream_keeps_is_right_as_often_as_what_is_judged_whole(words: Calibration) -> None:
    found = compare_gates(read_trace_set(traces_of(TRACES, MODEL)).rows, words)
    assert found["stream_kept_accuracy"] >= found["complete_kept_accuracy"] - 0.02
    assert found["complete_kept_accuracy"] > 0.7 and found["complete_kept_share"] > 0.7
    assert found["stopped_of_passing"] <= 0.01, "an early stop loses next to nothing"
    assert found["stream_held_tokens_p90"] < HELD_TOKENS


def row(text: str, *, right: bool, logprob: float, ended: bool = True) -> Recorded:
    return Recorded(text[:9], "own", right, ended, word_tokens(text, logprob=logprob))


def test_a_replay_sees_what_a_user_would_see(words: Calibration) -> None:
    long = " ".join(f"word{number}" for number in range(60))
    sure = row("In Paris it is.", right=True, logprob=-0.01)
    unsure = row("In Lyon it may be.", right=False, logprob=-4.0)
    rows = [sure, unsure, row(long, right=True, logprob=-0.01), row(long, right=False, logprob=-4)]
    short, wrong, begun, stopped = replay(rows, words, live=True)
    assert (short.kept, short.held) == (True, short.tokens)
    assert (wrong.kept, wrong.held) == (False, wrong.tokens)
    assert (begun.kept, begun.held, begun.tokens) == (True, HELD_TOKENS, 60)
    assert (stopped.kept, stopped.held) == (False, HELD_TOKENS)
    *_, whole, stopped = replay(rows, words, live=False)
    assert (whole.kept, whole.held) == (True, 60)
    assert (stopped.kept, stopped.held) == (False, HELD_TOKENS)
