"""Agents' requests and answers go through a server unchanged; and the judge is no fool."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.campaigns import rounds

from edgewise.cloud import openai
from edgewise.cloud.http import Post
from edgewise_bench.campaigns.forward import changed, measure_forward, recorded, without_ours

REQUESTS = rounds(90)
FIGURES = ("bytes_changed_request", "bytes_changed_reply", "not_answered")


def test_nothing_is_changed_beyond_what_the_docs_name(tmp_path: Path) -> None:
    metrics = measure_forward(tmp_path, REQUESTS, seed=2026)
    assert [metrics[name] for name in FIGURES] == [0, 0, 0]
    assert metrics["requests"] == REQUESTS
    assert min(metrics["request_bytes"], metrics["reply_bytes"]) > 500 * REQUESTS


def test_a_field_that_is_lost_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(*given: object) -> Post:
        post = forwarded(*given)  # type: ignore[arg-type]
        body = {name: each for name, each in post.body.items() if name != "tools"}
        return Post(path=post.path, body=body, stream=post.stream, raw=post.raw)

    forwarded = openai.forwarded
    monkeypatch.setattr(openai, "forwarded", forgetful)
    metrics = measure_forward(tmp_path, 30, seed=1)
    assert metrics["bytes_changed_request"] > 1000


def test_what_is_ours_is_taken_out_and_nothing_else() -> None:
    answer = b'data: {"edgewise":{"id":"a","b":{"\xc3\xa9":[1]}},"x": 1}\n\ndata: [DONE]\n\n'
    assert without_ours(answer) == b'data: {"x": 1}\n\ndata: [DONE]\n\n'
    assert (changed(b"abcd", b"abcd"), changed(b"abcd", b"abXcd"), changed(b"aaa", b"")) == (
        0,
        1,
        3,
    )


def test_the_recorded_requests_are_those_of_every_protocol() -> None:
    cases = recorded()
    assert set(cases) == {"chat", "responses", "messages"}
    for marks in ("cache_control", "namespace", "logit_bias", "thinking", "custom_tool_call"):
        assert marks in json.dumps([case["requests"] for case in cases.values()])
