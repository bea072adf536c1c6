"""`edgewise bench embed`: what it measures is really measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgewise.bench.embed import (
    QUICK,
    PlainRuntime,
    Rounds,
    bench_texts,
    cosine,
    measure_embed,
    search_times,
)
from edgewise.bench.retrieval import read_pairs
from edgewise.local.store.store import InstalledModel
from edgewise.settings import Settings


def test_the_steps_of_the_progress_bar_are_those_that_happen() -> None:
    assert QUICK.steps == 5
    assert Rounds().vectors == 100_000


def test_search_times_come_from_searches_that_find(tmp_path: Path) -> None:
    found = search_times(tmp_path / "index.sqlite3", Rounds(vectors=500, queries=5))
    assert found["search_vectors"] == 500
    assert found["search_agreement_at_10"] > 0.8
    assert 0 < found["search_ms_p50"] <= found["search_ms_p99"]


@pytest.mark.real_model
def test_a_quick_run_agrees_with_the_plain_runtime_and_finds(
    default_embedder: InstalledModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = read_pairs()[:12]
    monkeypatch.setattr("edgewise.bench.embed.read_pairs", lambda: pairs)
    steps: list[None] = []
    rounds = Rounds(repeats=1, vectors=200, queries=3)
    found = measure_embed(Settings.load(threads=1), rounds, lambda: steps.append(None))
    assert len(steps) == rounds.steps
    assert found["cosine_agreement"] >= 0.999
    assert found["windowed_texts"] > 0
    assert found["int8_vectors_cosine_least"] > 0.999
    assert found["recall_at_1"] > found["lexical_recall_at_1"]


@pytest.mark.real_model
def test_the_reference_would_show_a_difference(default_embedder: InstalledModel) -> None:
    plain = PlainRuntime(default_embedder, 1)
    one, other = plain.vector("The ferry leaves at nine."), plain.vector("Bread needs yeast.")
    assert cosine(one, one) == pytest.approx(1.0)
    assert cosine(one, other) < 0.9


def test_some_texts_are_longer_than_a_window() -> None:
    assert sum(len(text.split()) > 256 for text in bench_texts(read_pairs())) == 4
