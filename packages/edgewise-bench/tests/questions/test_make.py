"""The questions: the same for the same seed, plenty, and each with an answer that passes."""

from __future__ import annotations

from collections import Counter

import pytest

from edgewise.calibrate.rows import Question, is_right
from edgewise_bench.questions.make import make_questions

ALL = make_questions(0)


def ideal_answer(question: Question) -> str:
    if question.rule == "every":
        return " ".join(need.split("|")[0] for need in question.accepted)
    return ", ".join(question.accepted) if question.rule == "in_order" else question.accepted[0]


def test_there_are_enough_of_many_kinds() -> None:
    assert len(ALL) >= 1200
    assert len({question.prompt for question in ALL}) == len(ALL)
    counts = Counter(question.kind for question in ALL)
    assert len(counts) >= 12
    assert min(counts.values()) >= 15


def test_a_seed_makes_the_same_questions_again_and_another_makes_others() -> None:
    assert make_questions(0) == ALL
    others = {question.prompt for question in make_questions(1)}
    assert len(others & {question.prompt for question in ALL}) < 0.8 * len(ALL)


def test_a_part_of_the_questions_has_all_kinds() -> None:
    kinds = {question.kind for question in ALL}
    part = make_questions(0, len(kinds))
    assert {question.kind for question in part} == kinds
    assert part == ALL[: len(kinds)]


@pytest.mark.parametrize("kind", sorted({question.kind for question in ALL}))
def test_every_question_accepts_its_answer_and_nothing_empty_or_rival(kind: str) -> None:
    for question in (each for each in ALL if each.kind == kind):
        assert is_right(question, ideal_answer(question)), question
        assert not is_right(question, ""), question
        assert not is_right(question, "I do not know that at all"), question
        for rival in question.rivals[:5]:
            assert not is_right(question, f"{rival}, or {ideal_answer(question)}"), question


@pytest.mark.parametrize("kind", ["arithmetic", "sequences", "counting", "word_problems"])
def test_echoing_the_question_is_no_answer(kind: str) -> None:
    for question in (each for each in ALL if each.kind == kind):
        assert not is_right(question, question.prompt), question
