"""The measurements of our own code measure what they say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from edgewise.bench.own_code import measure_requests, measure_tokens, percentile
from edgewise.local.backend import DeviceFacts
from edgewise.settings import Settings

FACTS = DeviceFacts(backend="replay", model="replay", quantisation="none", context_tokens=2048)


def chunk(text: str) -> dict[str, Any]:
    """What the runtime sends for one token."""
    entry = {"logprob": -0.1, "top_logprobs": [{"logprob": -0.1}, {"logprob": -3.0}]}
    return {"choices": [{"delta": {"content": text}, "logprobs": {"content": [entry]}}]}


def test_percentiles_are_values_that_were_measured() -> None:
    values = [float(value) for value in range(1, 101)]
    assert percentile(values, 99) == 99.0
    assert percentile(values, 100) == 100.0
    assert percentile([3.0, 1.0, 2.0], 50) == 2.0
    assert percentile([5.0], 99) == 5.0


def test_requests_are_timed_apart_from_the_ledger(tmp_path: Path) -> None:
    found = measure_requests(Settings.load(data_dir=tmp_path), 20)
    assert 0 < found["decision_ms_p50"] <= found["decision_ms_p99"]
    assert 0 < found["ledger_ms_p50"] <= found["ledger_ms_p99"]
    assert (tmp_path / "ledger.sqlite3").exists()


def test_tokens_are_timed_from_chunk_to_event(tmp_path: Path) -> None:
    settings = Settings.load(data_dir=tmp_path)
    found = measure_tokens(settings, [chunk(" word")] * 20, FACTS, 3)
    assert 0 < found["token_us_p50"] <= found["token_us_p99"]
