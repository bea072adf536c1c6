"""Waiting, measured on published files: what is there is measured, what is not is left out."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy
import pytest
from tests.calibrate.test_fit import HOLD, wandering

from edgewise.calibrate.fit import FOLDS, Judged, choose_boundaries
from edgewise.calibrate.traces import Sample
from edgewise.decide.calibration import Reading, Score, chat_calibration
from edgewise.types.replies import Token
from edgewise_bench.chat.traces import Origin, Recorded, TraceSet, read_trace_set, write_trace_set
from edgewise_bench.routing.rows import chat_path
from edgewise_bench.routing.waiting import (
    SEEDS,
    SHARES,
    STEPS,
    STUDY_STEPS,
    Decided,
    Pair,
    again_path,
    agreement,
    by_gate,
    compare,
    deal,
    in_the_end,
    measure_early,
    measure_second,
    measure_shipped,
    measure_waiting,
    pair_up,
    study_early,
)

PUBLISHED = Path(__file__).parents[2] / "results" / "traces"
pytestmark = pytest.mark.skipif(not chat_path(PUBLISHED).exists(), reason="no published traces")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A part of the published answers."""
    for path in (chat_path(PUBLISHED), again_path(PUBLISHED)):
        traces = read_trace_set(path)
        write_trace_set(TraceSet(traces.origin, traces.rows[:900]), tmp_path / path.name)
    return tmp_path


def test_early_decisions_and_second_answers_are_measured_and_drawn(folder: Path) -> None:
    pytest.importorskip("matplotlib")
    steps: list[None] = []
    found = measure_waiting(folder, lambda: steps.append(None), folder / "plots", rounds=5)
    assert len(steps) == STEPS
    assert found["tokens_wasted_early"] < found["tokens_wasted_end"]
    assert found["second_rows"] > 200
    assert (folder / "plots" / "early_decision.png").read_bytes().startswith(b"\x89PNG")


def test_without_second_answers_nothing_is_said_about_them(folder: Path) -> None:
    again_path(folder).unlink()
    found = measure_waiting(folder, rounds=5)
    assert "early_agreement" in found
    assert not any(name.startswith("second_") for name in found)


def test_without_traces_there_is_nothing_to_say(tmp_path: Path) -> None:
    assert measure_waiting(tmp_path) == {}


def course(*scores: float, right: bool = True) -> Judged:
    """An answer whose score takes these values, token by token; held for at most two."""
    readings = tuple(
        Reading(tokens=count, mean_logprob=math.log(score / (1 - score)))
        for count, score in enumerate(scores, start=1)
    )
    score = Score({"mean_logprob": 1.0}, 0.0)
    calibration = chat_calibration(
        name="", early=score, final=score, hold_tokens=2, keep_above=1.0, drop_below=0.0
    )
    return Judged(Sample("kind", right, readings), calibration)


def test_the_gate_stops_at_the_bound_where_the_end_reads_on() -> None:
    judged = [course(0.9, 0.9, 0.2), course(0.1, 0.1, 0.1), course(0.1, 0.4, 0.8)]
    end, gate = in_the_end(judged, 0.5), by_gate(judged, 0.5)
    assert end.kept.tolist() == [False, False, True]
    assert end.tokens.tolist() == [3, 3, 3]
    assert gate.kept.tolist() == [True, False, False]
    assert gate.tokens.tolist() == [2, 2, 2]


def test_a_rule_is_told_by_what_it_changes_and_what_it_saves() -> None:
    end = Decided(numpy.array([True, True, False, False]), numpy.array([8.0, 8, 8, 8]))
    rule = Decided(numpy.array([True, False, True, False]), numpy.array([1.0, 2, 3, 4]))
    confidence = numpy.array([0.9, 0.8, 0.3, 0.2])
    right = numpy.array([True, True, False, False])
    found = compare(rule, end, confidence, right)
    assert (found.agreement, found.lost, found.slipped) == (0.5, 0.5, 0.5)
    assert (found.tokens, found.wasted, found.kept) == (2.5, 3.0, 0.5)
    assert (found.error, found.end_error) == (0.5, 0.0)


def test_a_rule_that_keeps_nothing_has_no_error_and_does_not_divide_by_it() -> None:
    nothing = Decided(numpy.array([False, False]), numpy.array([1.0, 1.0]))
    found = compare(nothing, nothing, numpy.array([0.1, 0.2]), numpy.array([True, False]))
    assert (found.lost, found.slipped, found.error, found.wasted) == (0.0, 0.0, 0.0, 1.0)


def test_deciding_early_wastes_fewer_tokens_and_says_what_it_changed() -> None:
    judged = wandering(800, noise=1.0)
    metrics = measure_early(judged, rounds=50)
    assert metrics["tokens_wasted_early"] < 0.7 * metrics["tokens_wasted_end"]
    assert metrics["early_agreement"] > 0.9
    for name in ("early_agreement", "tokens_wasted_early", "tokens_wasted_end"):
        assert metrics[f"{name}_low"] <= metrics[name] <= metrics[f"{name}_high"]


def test_the_study_goes_from_the_end_to_ever_bolder_boundaries() -> None:
    steps: list[None] = []
    found = study_early(wandering(800, noise=1.0), step=lambda: steps.append(None))
    assert len(steps) == STUDY_STEPS == len(found)
    assert found["in the end"]["agreement"] == 1.0
    assert found["at the bound"]["tokens"] == HOLD
    tokens = [found[f"boundaries {share:g}"]["tokens"] for share in SHARES]
    assert tokens == sorted(tokens, reverse=True)


def test_a_shipped_calibration_is_judged_with_the_boundaries_it_came_with() -> None:
    judged = wandering(800, noise=1.0)
    samples = [each.sample for each in judged]
    plain = judged[0].calibration
    bounded = replace(plain, boundaries=choose_boundaries(judged))
    without, found = (measure_shipped(each, samples, rounds=10) for each in (plain, bounded))
    assert without["tokens_before_decision_early"] == HOLD
    assert found["tokens_before_decision_early"] < 0.7 * HOLD
    assert found["tokens_wasted_end"] == without["tokens_wasted_end"]
    assert found["early_tokens_at_50"] == found["tokens_before_decision_early"]
    assert found["early_tokens_at_50"] < found["cut_tokens_at_50"] <= found["bound_tokens_at_50"]
    assert found["bound_tokens_at_50"] == HOLD


def test_answers_are_dealt_by_kind_and_without_what_was_clear() -> None:
    judged = wandering(60, noise=1.0)
    samples = [
        replace(each.sample, kind=f"kind {number % 9}") for number, each in enumerate(judged)
    ]
    calibration = judged[0].calibration.with_numbers(keep_above=0.6)
    dealt = deal(calibration, samples)
    assert [each.sample for each in dealt] == samples
    assert len({id(each.calibration) for each in dealt}) == FOLDS
    assert all(each.calibration.keep_above == 1.0 for each in dealt)
    by_kind = {(each.sample.kind, id(each.calibration)) for each in dealt}
    assert len(by_kind) == 9  # no kind in two folds


def test_the_same_words_agree_whatever_their_case_and_punctuation() -> None:
    found = agreement("Capital of Peru?", "The capital is Lima.", "the capital is LIMA")
    assert (found["exact"], found["word_overlap"], found["new_word_overlap"]) == (1.0, 1.0, 1.0)
    assert (found["numbers_same"], found["numbers_differ"]) == (0.0, 0.0)


def test_repeating_the_question_is_no_agreement() -> None:
    found = agreement("What is the capital of Peru?", "Peru's capital is Lima.", "Peru: Cusco.")
    assert found["word_overlap"] > 0
    assert found["new_word_overlap"] == 0.0


@pytest.mark.parametrize(
    ("first", "second", "same", "differ"),
    [("12", "It is twelve.", 1.0, 0.0), ("12", "13", 0.0, 1.0), ("12", "many", 0.0, 1.0)],
)
def test_numbers_agree_by_value(first: str, second: str, same: float, differ: float) -> None:
    found = agreement("How many?", first, second)
    assert (found["numbers_same"], found["numbers_differ"]) == (same, differ)


def made_up_pairs(count: int, *, telling: bool) -> list[Pair]:
    """The score says little; the second answer repeats the first one where it is right, or not."""
    random = Random(3)
    pairs = []
    for number in range(count):
        right = random.random() < 0.5
        score = random.gauss(0.3 if right else -0.3, 1.0)
        sample = Sample(f"kind {number % 10}", right, (Reading(tokens=1, mean_logprob=score),))
        agrees = random.random() < ((0.8 if right else 0.2) if telling else 0.5)
        second = "red paint" if agrees else "blue ink"
        pairs.append(Pair("Which?", sample, "red paint", second, 10, right))
    return pairs


def test_an_agreement_that_tells_is_found_to_pay_and_one_that_does_not_is_not() -> None:
    telling = measure_second(made_up_pairs(600, telling=True), ["mean_logprob"], rounds=50)
    assert telling["second_auroc_gain_low"] > 0.05
    assert telling["second_kept_accuracy_gain_low"] > 0
    steps: list[None] = []
    idle = measure_second(
        made_up_pairs(600, telling=False),
        ["mean_logprob"],
        rounds=50,
        step=lambda: steps.append(None),
    )
    assert idle["second_auroc_gain_low"] < 0.01
    assert idle["second_auroc_gain"] < 0.02
    assert len(steps) == SEEDS


def test_only_the_doubtful_cost_anything() -> None:
    found = measure_second(made_up_pairs(300, telling=True), ["mean_logprob"], rounds=10)
    assert 0 < found["second_band_share"] < 1
    assert found["second_extra_tokens"] == pytest.approx(10 * found["second_band_share"])


def test_answers_are_paired_by_the_question_they_answer() -> None:
    def row(reference: str, text: str, *, right: bool) -> Recorded:
        return Recorded(reference, "kind", right, True, (Token(text, -0.1, 1.0, 0.1),))

    origin = Origin("m", "Q8_0", "0", {}, "", 48)
    first = TraceSet(origin, (row("own:1", "a", right=True), row("own:2", "b", right=False)))
    second = TraceSet(origin, (row("own:2", "c", right=True), row("own:3", "d", right=True)))
    (pair,) = pair_up(first, second, {"own:1": "One?", "own:2": "Two?", "own:3": "Three?"})
    assert (pair.prompt, pair.first, pair.second) == ("Two?", "b", "c")
    assert (pair.sample.right, pair.second_right, pair.second_tokens) == (False, True, 1)
