"""For whom a stated error holds: families of questions that nobody had measured."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from edgewise.calibrations import shipped_document
from edgewise.decide.calibration import parse_calibration
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


def test_a_promise_holds_for_nine_families_in_ten_that_nobody_measured() -> None:
    told = figures(found(STANDARD))
    for name, target in families.TARGETS.items():
        assert reached(name, told[name], families.TARGETS) is (name not in MISSED), (name, target)
    assert told["kept_share_10"] > 0.15


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
    traces = read_held_out(path_of(TRACES, STANDARD)).traces
    read = families.strangers_of(STANDARD, traces, tmp_path)
    assert len(read.own) == len(traces)
    names = [read.families[number] for number in read.own]
    for name, row in zip(names, traces, strict=True):
        assert name == row.family or (name.startswith("public") and row.family == "public")


def lived(family: str, right: bool, chance: float, words: float) -> life.Lived:
    features = {"mean_logprob": -words}
    return life.Lived("", family, family, right, True, 3, 9, chance, words, chance, features)


def test_a_family_with_many_answers_weighs_as_much_as_one_with_few() -> None:
    answers = [lived("large", True, 0.9, 0.1)] * 90 + [lived("small", False, 0.2, 0.8)] * 10
    told = families.unseen(answers)
    assert told["unseen_accuracy"] == pytest.approx(0.5)
    assert told["unseen_confidence"] == pytest.approx(0.55)
    assert (told["unseen_auroc"], told["unseen_auroc_words"]) == (1, 0)
    assert told["unseen_right_small"] == 0
    assert told["unseen_ece"] == pytest.approx(0.15, abs=0.03)
    assert families.unseen([]) == {}


def test_a_new_slope_is_of_use_where_all_families_are_wrong_in_the_same_way() -> None:
    sure = [rows(family, 100, 40, 0.95) + rows(family, 100, 80, 0.05) for family in range(4)]
    modest = [rows(family, 100, 10, 0.9) + rows(family, 100, 90, 0.1) for family in range(4)]
    names = ("a", "b", "c", "d")
    assert families.refitted(strangers(*sure, names=names))["refit_families_better"] == 1
    right = families.refitted(strangers(*modest, names=names))
    assert right["refit_gain"] == pytest.approx(0, abs=1e-3)
