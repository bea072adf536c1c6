"""The bench of pictures: its cases are repeatable, its judgement is fair, its figures add up."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image as Pillow

from edgewise.settings import Settings
from edgewise.types.replies import Line, Sight
from edgewise.vision.question import CLASSES, read_question
from edgewise_bench.vision import measure
from edgewise_bench.vision.cases import (
    SeeCase,
    error_rate,
    is_right,
    text_cases,
    turned_cases,
)
from edgewise_bench.vision.measure import Seen, summarise
from edgewise_bench.vision.photos import PHOTOS, beyond_cases, object_cases, views
from edgewise_bench.vision.receipts import LAYOUTS, damaged, receipt_cases


def case(asked: str, *truth: str, unclear: tuple[str, ...] = ()) -> SeeCase:
    return SeeCase("x", "?", asked, truth, lambda: Pillow.new("RGB", (9, 9)), unclear)


def test_the_same_seed_draws_the_same_pictures() -> None:
    one, two = text_cases(8, 3), text_cases(8, 3)
    assert [a.question for a in one] == [b.question for b in two]
    assert all(a.draw().tobytes() == b.draw().tobytes() for a, b in zip(one, two, strict=True))
    assert one[0].draw().tobytes() != text_cases(8, 4)[0].draw().tobytes()


def test_every_question_is_for_the_skill_it_is_counted_under(tmp_path: Path) -> None:
    cases = [*text_cases(60, 0), *object_cases(tmp_path, 40, 0)]
    for one in cases:
        wanted = read_question(one.question)
        assert wanted is not None, one.question
        assert (wanted.skill, wanted.asked) == (one.skill, one.asked), one.question
    assert all(read_question(one.question) is None for one in beyond_cases(tmp_path, 10, 0))


def test_receipts_ask_for_the_total_and_no_layout_is_in_both_halves() -> None:
    fit, test = receipt_cases(10, 0, "fit"), receipt_cases(10, 0, "test")
    for one in (*fit, *test):
        wanted = read_question(one.question)
        assert wanted is not None and (wanted.asked, wanted.names) == ("field", ("total",))
    assert fit[0].draw().tobytes() == receipt_cases(10, 0, "fit")[0].draw().tobytes()
    assert not set(LAYOUTS["fit"]) & set(LAYOUTS["test"])


def test_a_worse_receipt_lacks_lines_or_has_other_letters() -> None:
    sight = Sight(lines=tuple(Line(f"Total {n}.50", 0.9) for n in range(20)))
    worse = damaged(sight, random.Random(1))
    assert worse.lines != sight.lines and len(worse.lines) <= 20
    assert worse == damaged(sight, random.Random(1))


def test_turned_pages_have_the_questions_of_upright_ones() -> None:
    turned, upright = turned_cases(3, 0), text_cases(3, 100)
    assert [one.question for one in turned] == [one.question for one in upright]
    assert turned[0].draw().size == upright[0].draw().size[::-1]
    assert turned[1].draw().size == upright[1].draw().size


def test_turned_pages_and_receipts_are_counted_apart() -> None:
    seen = [Seen(case("field", "x"), True, 0.9, True, True, 1.0)]
    for group in ("turned", "receipts", "receipts_damaged"):
        apart = replace(case("field", "x"), group=group)
        seen.append(Seen(apart, False, 0.1, False, True, 1.0))
    found = summarise(seen)
    assert (found["questions"], found["accuracy_all"]) == (1.0, 1.0)
    assert (found["turned_accuracy_all"], found["receipts_damaged_questions"]) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("one", "answer", "right"),
    [
        (case("all_text", "NO PARKING"), "NO  PARKING", True),
        (case("all_text", "NO PARKING"), "NO PARKINC", False),
        (case("field", "3.50"), "3.50", True),
        (case("field", "3.50"), "3.5O", False),
        (case("sum", "3.50"), "RM 3,50", True),
        (case("sum", "3.50"), "13.50", False),
        (case("document", "yes"), "Yes: by its words it is a menu.", True),
        (case("document", "no"), "Yes: by its words it is a menu.", False),
        (case("count", "2"), "2 dogs.", True),
        (case("choose", "dog"), "dog.", True),
        (case("list", "dog", unclear=("bed",)), "2 dogs, 1 bed.", True),
        (case("list", "dog"), "1 dog, 1 cat.", False),
    ],
)
def test_answers_are_judged_by_what_was_asked(one: SeeCase, answer: str, right: bool) -> None:
    assert is_right(one, answer) is right


def test_the_error_rate_counts_changed_characters() -> None:
    assert error_rate("abcd", "abcd") == 0
    assert error_rate("abcd", "abxd") == 0.25
    assert error_rate("ab", "") == 1


def test_no_photograph_serves_both_the_fit_and_the_test() -> None:
    assert len({photo.file for photo in PHOTOS}) == len(PHOTOS)
    for photo in PHOTOS:
        assert set(photo.holds) | set(photo.unclear) <= set(CLASSES.values())
    for view in views(Path("nowhere"), "test", 20, 0):
        assert not set(view.absent) & {*view.holds, *view.unclear}


def test_figures_count_what_was_kept() -> None:
    answers = [(True, 0.95, True), (True, 0.9, False), (False, 0.2, False), (False, 0.4, True)]
    seen = [Seen(case("field", "x"), kept, c, right, True, 10.0) for kept, c, right in answers]
    seen.append(Seen(case("beyond"), False, 0.0, False, False, 10.0))
    found = summarise(seen)
    assert found["accuracy_kept"] == 0.5
    assert found["share_handed_off"] == 0.5
    assert found["accuracy_all"] == 0.5
    assert found["hybrid_accuracy_with_stand_in_cloud"] == 0.75
    assert found["beyond_handed_off"] == 1.0
    assert found["text_questions"] == 4


@pytest.mark.real_model
def test_a_few_drawn_pages_go_through_the_engine(tmp_path: Path) -> None:
    settings = Settings.load(threads=1, data_dir=tmp_path)
    steps: list[int] = []
    seen = measure.measure_see(settings, text_cases(4, 0), lambda: steps.append(1))
    assert len(seen) == len(steps) == 4
    assert all(0 <= one.confidence <= 1 and one.taken for one in seen)
