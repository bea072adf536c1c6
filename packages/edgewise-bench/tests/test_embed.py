"""`edgewise bench embed`: what it measures is really measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgewise.local.store import InstalledModel
from edgewise.settings import Settings
from edgewise_bench.embed import (
    QUICK,
    Pair,
    PlainRuntime,
    Rounds,
    bench_texts,
    cosine,
    lexical_score,
    mean_reciprocal_rank,
    measure_embed,
    ranks,
    read_pairs,
    recall_at,
    search_times,
)
from edgewise_bench.find import asked_of, measure_find, own_notes


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
    monkeypatch.setattr("edgewise_bench.embed.read_pairs", lambda: pairs)
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


def test_the_set_is_sixty_different_pairs_of_a_passage_and_a_question() -> None:
    pairs = read_pairs()
    assert len(pairs) == 60
    assert len({pair.passage for pair in pairs}) == len({pair.question for pair in pairs}) == 60
    assert all(pair.question.endswith("?") and "\n" not in pair.passage for pair in pairs)


def test_ranks_count_ties_against_the_right_passage() -> None:
    table = [[0.9, 0.1, 0.1], [0.5, 0.5, 0.1], [0.3, 0.2, 0.1]]
    places = ranks(3, lambda question, passage: table[question][passage])
    assert places == [1, 2, 3]
    assert recall_at(places, 1) == pytest.approx(1 / 3)
    assert recall_at(places, 2) == pytest.approx(2 / 3)
    assert mean_reciprocal_rank(places) == pytest.approx((1 + 1 / 2 + 1 / 3) / 3)


def test_the_baseline_finds_what_shares_rare_words() -> None:
    pairs = [
        Pair("The ferry leaves the quay.", "Which quay?"),
        Pair("The dough needs the fridge.", "What does dough need?"),
        Pair("The cat drinks the milk.", "Does a cat like milk?"),
    ]
    assert ranks(3, lexical_score(pairs)) == [1, 1, 1]


def test_half_of_the_notes_are_kept_for_the_report_and_no_query_belongs_to_two() -> None:
    notes = own_notes()
    assert len({one.query for one in notes.asked}) == len(notes.asked)
    for kind in ("meaning", "exact", "exact_in_words", "everyday"):
        halves = [one.half for one in notes.asked if one.kind == kind]
        assert halves.count(0) == halves.count(1) > 20
    for one in notes.asked:
        if one.kind == "exact" and one.query in notes.texts[one.path]:
            assert sum(one.query in text for text in notes.texts.values()) == 1


@pytest.mark.real_model
def test_questions_about_a_folder_of_ones_own_are_counted(
    default_embedder: InstalledModel, tmp_path: Path
) -> None:
    notes, questions = tmp_path / "notes", tmp_path / "questions.jsonl"
    notes.mkdir()
    (notes / "ferry.md").write_text("The ferry NR-7 leaves the harbour at nine.")
    (notes / "bread.txt").write_text("Bread needs flour, water, salt and yeast.")
    questions.write_text(
        '{"query": "NR-7", "path": "ferry.md", "kind": "exact"}\n'
        '{"query": "baking ingredients", "path": "ferry.md", "kind": "wrong"}\n'
    )
    found = measure_find(Settings.load(), notes, asked_of(questions), lambda: None)
    assert (found["files"], found["exact_at_1"], found["wrong_at_1"]) == (2, 1.0, 0.0)
