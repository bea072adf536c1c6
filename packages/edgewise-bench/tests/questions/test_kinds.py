"""The questions of `edgewise calibrate --builtin`: many kinds, with gold a program can trust."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from random import Random

import pytest

from edgewise.calibrate.rows import Question, is_right
from edgewise.grammar.check import validate
from edgewise_bench.questions.kinds.builtin import (
    FAMILIES,
    PER_KIND,
    SHORT_SENTENCE,
    SYSTEMS,
    family_of,
    make_builtin_questions,
    questions_by_kind,
)
from edgewise_bench.questions.kinds.calls import KINDS, make_builtin_calls

ByKind = dict[str, Sequence[Question]]
REFUSALS = ("I do not know.", "Sorry, I cannot help with that.", "Please give me more context.")


@pytest.fixture(scope="module")
def by_kind() -> ByKind:
    return {
        kind: questions
        for kinds in questions_by_kind(0).values()
        for kind, questions in kinds.items()
    }


def gold(question: Question) -> str:
    """A right answer, written as a model would write it."""
    first, *rest = question.accepted
    match question.rule:
        case "every":
            return " and ".join(each.split("|")[0] for each in question.accepted)
        case "in_order":
            return ", ".join(question.accepted)
        case "pick":
            return ", ".join(each.split("|")[0] for each in rest[: int(first)])
        case "brief":
            return " ".join(each.split("|")[0] for each in rest)
        case "exact" | "json":
            return first
        case _:
            return f"The answer is {first}."


def test_there_are_far_more_than_eighty_kinds_in_many_families(by_kind: ByKind) -> None:
    assert len(by_kind) >= 150
    assert len(FAMILIES) >= 20
    assert all(family_of(kind) in FAMILIES for kind in by_kind)
    assert family_of("natural_qa", "public") == "public"


def test_every_gold_answer_is_accepted_by_its_own_rule(by_kind: ByKind) -> None:
    refused = [
        (kind, question)
        for kind, questions in by_kind.items()
        for question in questions
        if not is_right(question, gold(question))
    ]
    assert not refused


def test_every_accepted_writing_is_accepted(by_kind: ByKind) -> None:
    refused = [
        (kind, question, each)
        for kind, questions in by_kind.items()
        for question in questions
        if question.rule in ("mention", "contains", "exact", "json", "letter")
        for each in question.accepted
        if not is_right(question, each)
    ]
    assert not refused


def test_the_answer_to_another_question_of_the_kind_is_wrong(by_kind: ByKind) -> None:
    too_lenient = {}
    for kind, questions in by_kind.items():
        random = Random(kind)
        tried, passed = 0, []
        for question in questions:
            for other in random.sample(questions, 5):
                if not set(other.accepted) & set(question.accepted):
                    tried += 1
                    if is_right(question, gold(other)):
                        passed.append((question.prompt, gold(other)))
        if len(passed) > 0.02 * tried:
            too_lenient[kind] = passed[:5]
    assert not too_lenient


def test_an_answer_that_says_nothing_is_wrong(by_kind: ByKind) -> None:
    accepted = [
        (kind, question, text)
        for kind, questions in by_kind.items()
        for question in questions
        for text in REFUSALS
        if is_right(question, text)
    ]
    assert not accepted


def test_a_kind_has_enough_questions_and_none_twice(by_kind: ByKind) -> None:
    wrong = []
    for kind, questions in by_kind.items():
        prompts = {question.prompt for question in questions}
        answers = Counter(question.accepted for question in questions)
        answer, times = answers.most_common(1)[0]
        if not 30 <= len(questions) <= PER_KIND:
            wrong.append(f"{kind}: {len(questions)} questions")
        if len(prompts) < len(questions):
            wrong.append(f"{kind}: {len(questions) - len(prompts)} asked twice")
        if times > 0.8 * len(questions):
            wrong.append(f"{kind}: nearly always {answer}")
    assert not wrong


def test_a_seed_makes_the_same_questions_in_every_process() -> None:
    code = (
        "import hashlib; "
        "from edgewise_bench.questions.kinds.builtin import make_builtin_questions as m; "
        "print(hashlib.sha256(repr(m(3)).encode()).hexdigest())"
    )
    runs = {subprocess.check_output([sys.executable, "-c", code]) for _ in range(2)}
    assert len(runs) == 1
    assert make_builtin_questions(1, 200) != make_builtin_questions(2, 200)


def test_the_first_questions_are_of_as_many_kinds() -> None:
    first = make_builtin_questions(0, 150)
    assert len({question.kind for question in first}) == 150


def test_questions_come_with_several_system_prompts_that_do_not_contradict_them() -> None:
    questions = make_builtin_questions(0)
    assert {question.system for question in questions} == set(SYSTEMS)
    strict = [question for question in questions if question.rule in ("exact", "brief", "json")]
    assert strict
    assert SHORT_SENTENCE not in {question.system for question in strict}


# -- calls -----------------------------------------------------------------------------------------


def test_requests_for_calls_ask_for_what_their_tools_take() -> None:
    rows = make_builtin_calls(0)
    assert len(rows) > 200
    assert len({row.prompt for row in rows}) == len(rows)
    for row in rows:
        offered = {tool.name: tool for tool in row.tools}
        for name, arguments in row.calls:
            assert validate(name, dict(arguments), offered[name]) == []
            for value in arguments.values():
                assert str(value).casefold() in row.prompt.casefold()


def test_requests_for_calls_are_of_several_sorts() -> None:
    rows = make_builtin_calls(1, 120)
    assert rows == make_builtin_calls(1, 120) != make_builtin_calls(2, 120)
    counts = Counter(len(row.calls) for row in rows)
    assert min(counts[0], counts[1], counts[2]) >= 8, "nothing fits, one call, two calls"
    assert {name for row in rows for name, _ in row.calls} == {kind.tool.name for kind in KINDS}
    assert all(row.tools for row in rows)
