"""Outcomes of calls and of speech come back as they were, without what was said."""

from __future__ import annotations

import gzip
from pathlib import Path

from edgewise_bench.routing.rows import (
    AnsweredCalls,
    read_calls,
    read_speech,
    write_calls,
    write_speech,
)
from edgewise_bench.speech.traces import Trace, TracedSegment

CALLS = [
    AnsweredCalls("fit:0", "frames", True, True, -0.25, ({"name_margin": 2.5}, {"none": 1.0})),
    AnsweredCalls("fresh:0", "nlu", False, False, -4.0, ()),
]
SEGMENT = TracedSegment(0.0, 2.5, "hello there", False, {"mean_word": 0.75}, 1, 2)
HEARD = Trace("jfk-0", "jfk", "human", None, "", "hello dear", 2.5, 0.5, (SEGMENT,), 1, 2)


def test_calls_come_back_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "calls.jsonl.gz"
    write_calls(CALLS, path)
    assert read_calls(path) == CALLS


def test_speech_comes_back_without_what_was_said(tmp_path: Path) -> None:
    path = tmp_path / "speech.jsonl.gz"
    write_speech([HEARD], path)
    (again,) = read_speech(path)
    assert again.segments[0].features == SEGMENT.features
    assert (again.segments[0].rate, again.errors, again.voice) == (0.5, 1, "jfk")
    assert (again.text, again.segments[0].text) == ("", "")
    assert b"hello" not in gzip.decompress(path.read_bytes())


def test_the_same_rows_give_the_same_bytes(tmp_path: Path) -> None:
    first, second = tmp_path / "a.gz", tmp_path / "b.gz"
    write_calls(CALLS, first)
    write_calls(CALLS, second)
    assert first.read_bytes() == second.read_bytes()
