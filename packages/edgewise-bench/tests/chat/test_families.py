"""For whom a stated error holds: families of questions that nobody had measured."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgewise.calibrations import shipped_document
from edgewise.decide.calibration import Score, parse_calibration
from edgewise_bench.chat import families, life
from edgewise_bench.chat.families import Strangers, figures, left_out
from edgewise_bench.chat.held_out import path_of, read_held_out
from edgewise_bench.scorecard import reached

TRACES = Path(__file__).parents[2] / "results" / "traces"
STANDARD = "qwen2.5-coder-1.5b-instruct-q4_k_m"
MODELS = (STANDARD, "qwen2.5-coder-0.5b-instruct-q4_k_m", "smollm2-135m-instruct-q8_0")
# What README and docs say is missed. Whoever reaches it changes those words as well.
MISSED = {"kept_share_10"}


def found(name: str) -> Strangers:
    return families.strangers_of(name, read_held_out(path_of(TRACES, name)).traces, TRACES)


def test_a_promise_of_ten_per_cent_holds_for_nine_families_in_ten_that_nobody_measured() -> None:
    told = figures(found(STANDARD))
    for name, target in families.TARGETS.items():
        assert reached(name, told[name], families.TARGETS) is (name not in MISSED), (name, target)
    assert told["kept_share_10"] > 0.15
    assert told["families"] >= 40


@pytest.mark.parametrize("name", MODELS)
def test_the_shipped_calibrations_say_what_the_traces_say(name: str) -> None:
    document = shipped_document(name, "chat")
    assert document is not None
    anew = families.add_families(json.loads(json.dumps(document)), TRACES)
    shipped = document["with_state"]["families"]
    assert anew | {"centres": shipped["centres"]} == shipped
    both = parse_calibration(document, name)
    assert both.measured.families is not None
    assert not both.measured.families.cells, "the part for words alone was not measured by family"
    assert both.with_state is not None
    read = both.with_state.measured.families
    assert read is not None
    assert read.left_out["stranger_auroc"] > 0.85


def rows(family: int, count: int, wrong: int, sure: float, near: float = 0.9) -> list[list[float]]:
    return [[family, sure, number >= wrong, near] for number in range(count)]


def strangers(*groups: list[list[float]], names: tuple[str, ...]) -> Strangers:
    """Every row is nearest to its own family, and as near to all others."""
    all_rows = [row for group in groups for row in group]
    own = np.array([int(row[0]) for row in all_rows])
    others = [[each for each in range(len(names)) if each != number][:2] for number in own]
    tops = np.array([[number, *rest] for number, rest in zip(own, others, strict=True)])
    near = np.array([[0.95, row[3], row[3]] for row in all_rows])
    chances = np.array([row[1] for row in all_rows])
    return Strangers(names, own, tops, near, chances, np.array([bool(row[2]) for row in all_rows]))


def test_what_is_far_from_every_measured_family_is_promised_nothing() -> None:
    alike = strangers(
        rows(0, 200, 2, 0.99), rows(1, 200, 2, 0.99), rows(2, 100, 60, 0.99, near=0.1),
        names=("a", "b", "far"),
    )  # fmt: skip
    told = {each.name: each for each in left_out(alike, 0.10)}
    assert told["far"].promised == told["far"].kept == 0
    assert told["a"].promised == 1


def test_families_that_break_it_for_each_other_are_promised_nothing() -> None:
    """Two families in four are wrong where the others promise: no floor is low enough."""
    mixed = strangers(
        rows(0, 200, 2, 0.99), rows(1, 200, 2, 0.99), rows(2, 99, 60, 0.99), rows(3, 99, 60, 0.99),
        names=("a", "b", "c", "d"),
    )  # fmt: skip
    assert [each.kept for each in left_out(mixed, 0.10)] == [0, 0, 0, 0]


def many(families: int) -> Strangers:
    names = tuple("abcdefghijklmnopqrstuvwxyz")[:families]
    return strangers(*(rows(each, 200, 2, 0.99) for each in range(families)), names=names)


def test_few_families_do_not_prove_that_nine_in_ten_hold() -> None:
    """Nobody is broken; of 20 families that is not surprising if one in ten breaks it."""
    assert figures(many(20))["kept_share_10"] == 0
    assert figures(many(24))["kept_share_10"] > 0.9


def test_the_default_threshold_is_the_smallest_that_is_right_enough_for_strangers() -> None:
    """A large family that is right does not make up for a small one that is not."""
    large = strangers(
        *(rows(0, 1000, 10, sure) for sure in (0.9, 0.7)),
        *(rows(1, 20, wrong, sure) for sure, wrong in ((0.9, 2), (0.7, 12))),
        names=("large", "small"),
    )
    assert families.default_threshold(large) == 0.71
    hopeless = strangers(rows(0, 100, 60, 0.9), names=("a", "b"))
    assert families.default_threshold(hopeless) is None


def test_nearness_survives_its_file(tmp_path: Path) -> None:
    shutil.copy(families.near_path(TRACES), families.near_path(tmp_path))
    shutil.copy(life.path_of(TRACES, STANDARD), tmp_path)
    traces = read_held_out(path_of(TRACES, STANDARD)).traces
    read = families.strangers_of(STANDARD, traces, tmp_path)
    lived = families.lived_of(STANDARD, tmp_path)
    assert len(read.own) == len(traces) + len(lived)
    names = [read.families[number] for number in read.own]
    assert names[len(traces) :] == [row.family for row in lived]
    for name, row in zip(names, traces, strict=False):
        assert name == row.family or (name.startswith("public") and row.family == "public")


def lived(family: str, right: bool, chance: float, words: float) -> life.Lived:
    features = {"mean_logprob": -words}
    return life.Lived("", family, family, right, True, 3, 9, chance, words, chance, features)


def test_a_family_with_many_answers_weighs_as_much_as_one_with_few() -> None:
    answers = [lived("large", True, 0.9, 0.1)] * 90 + [lived("small", False, 0.2, 0.8)] * 10
    chances = np.array([row.chance for row in answers])
    found = replace(strangers(rows(0, 100, 0, 0.5), names=("a",)), chances=chances, plain=chances)
    told = families.unseen(answers, found)
    assert told["unseen_accuracy"] == pytest.approx(0.5)
    assert told["unseen_confidence"] == pytest.approx(0.55)
    assert (told["unseen_auroc"], told["unseen_auroc_words"]) == (1, 0)
    assert told["unseen_right_small"] == 0
    assert told["unseen_ece"] == pytest.approx(0.15, abs=0.03)
    assert families.unseen([], found) == {}


def of_lengths(short: float, long: float) -> tuple[Strangers, Any]:
    """Four families; answers of two tokens that are right in 80 of 100, and of 100 tokens that are
    right in 60, with what the confidence says of them."""
    groups = [rows(each, 100, 20, short) + rows(each, 100, 40, long) for each in range(4)]
    found = strangers(*groups, names=("a", "b", "c", "d"))
    lengths = np.array(([2.0] * 100 + [100.0] * 100) * 4)
    return replace(found, plain=found.chances), lengths


def test_answers_that_are_too_modest_because_they_are_long_are_judged_anew() -> None:
    found, lengths = of_lengths(short=0.8, long=0.1)
    anew = families.refit(found, lengths, np.ones(len(lengths), bool))
    assert anew.chances[lengths == 2] == pytest.approx(0.8, abs=0.01)
    assert anew.chances[lengths == 100] == pytest.approx(0.6, abs=0.01)
    assert families.refit_figures(anew)["refit_families_better"] == 1
    assert families.refit_figures(found) == {}, "nothing was fitted"


def test_a_family_is_judged_by_what_the_others_say() -> None:
    found, lengths = of_lengths(short=0.8, long=0.1)
    odd = replace(found, right=np.where(found.own == 3, False, found.right))
    anew = families.refit(odd, lengths, np.ones(len(lengths), bool))
    assert anew.chances[found.own == 3].mean() > 0.65, "its own answers had no part"
    assert anew.chances[found.own == 0].mean() < 0.65


def test_the_new_fit_is_taken_where_it_wins_on_families_that_it_has_not_seen() -> None:
    assert found(STANDARD).fit is not None
    tiny = found(MODELS[2])
    assert tiny.fit is None, "it was asked the newer questions, and the length says nothing of it"
    assert len(tiny.own) > 14_398


def test_an_answer_that_was_cut_by_the_measurement_fits_nothing() -> None:
    found, lengths = of_lengths(short=0.8, long=0.1)
    spoilt = replace(found, right=np.where(lengths == 100, False, found.right))
    anew = families.refit(spoilt, lengths, lengths < 100)
    assert anew.chances[lengths == 2] == pytest.approx(0.8, abs=0.01)


def test_an_answer_beyond_the_measured_length_is_not_counted_as_kept() -> None:
    all_kept = many(24)
    none_kept = replace(all_kept, within=np.zeros(len(all_kept.own), bool))
    assert figures(all_kept)["kept_share_10"] > 0.9
    assert figures(none_kept)["kept_share_10"] == 0


def test_a_score_that_was_fitted_anew_gives_the_chances_that_were_counted() -> None:
    fitted: dict[str, Any] = {"weights": {"min_logprob": 2.0}, "bias": 1.0}
    anew = families.final_of(fitted, np.array([0.5, 0.8, 0.25]))
    plain, features = Score(**fitted), {"min_logprob": -0.3, "length": 3.0}
    logit = np.log(plain.of(features) / (1 - plain.of(features)))
    wanted = 1 / (1 + np.exp(-(0.5 + 0.8 * logit + 0.25 * 3.0)))
    assert Score(**anew).of(features) == pytest.approx(wanted, abs=1e-4)


def test_the_shipped_score_of_the_standard_model_reads_the_length_of_an_answer() -> None:
    document = shipped_document(STANDARD, "chat")
    assert document is not None
    both = document["with_state"]
    anew = families.final_of(both["plain_final"], found(STANDARD).fit)
    assert both["final"] == anew
    assert anew["weights"]["length"] > 0
