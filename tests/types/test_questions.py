"""Typed questions: what may be asked, and what the chances of the options say."""

from __future__ import annotations

from typing import Any

import pytest

from edgewise.errors import InvalidRequest
from edgewise.requests import as_questions, as_state
from edgewise.types.answers import Answer, Answers, value_of
from edgewise.types.messages import Choice, Score, YesNo
from edgewise.types.replies import Decision

WIRE = {
    "refund": {
        "type": "noul",
        "instructions": "Do they want money back?",
        "criteria": {"true": "asks for a refund", "false": None},
    },
    "team": {"type": "choice", "criteria": {"billing": "payments", "tech": None}},
    "anger": {"type": "score", "instructions": "How angry?", "criteria": ["calm", "furious"]},
}


def test_plain_objects_and_our_own_values_ask_the_same() -> None:
    own = {
        "refund": YesNo("Do they want money back?", true="asks for a refund"),
        "team": Choice({"billing": "payments", "tech": None}),
        "anger": Score(["calm", "furious"], "How angry?"),
    }
    assert as_questions(WIRE) == as_questions(own)


def test_a_list_of_names_is_a_choice_without_descriptions() -> None:
    asked = as_questions({"team": Choice(["billing", "tech"])})["team"]
    assert (asked.options, asked.described) == (("billing", "tech"), (None, None))


def test_a_yes_no_may_only_describe_its_outcomes() -> None:
    assert as_questions({"q": {"type": "noul", "criteria": {"true": "it worked"}}})
    assert as_questions({"q": {"type": "noul", "instructions": "Worked?", "criteria": None}})


def test_what_is_no_text_is_asked_as_json() -> None:
    asked = as_questions({"q": YesNo({"claim": "it worked"})})["q"]
    assert asked.ask == '{"claim": "it worked"}'
    assert as_state({"exit": 0, "log": ["ok"]}) == '{"exit": 0, "log": ["ok"]}'


@pytest.mark.parametrize(
    ("questions", "words"),
    [
        ([], "questions: expected questions by name"),
        ({}, "questions: 0; 1 to 400"),
        ({str(number): YesNo("so?") for number in range(401)}, "questions: 401; 1 to 400"),
        ({" ": YesNo("so?")}, "a name is empty"),
        ({"q": "so?"}, "questions['q']: expected a YesNo"),
        ({"q": {"type": "box"}}, "questions['q'].type: expected noul, choice or score"),
        ({"q": YesNo()}, "questions['q']: there is no question"),
        ({"q": Choice([])}, "questions['q'].choices: 0; 1 to 255"),
        ({"q": Choice([str(n) for n in range(256)])}, "questions['q'].choices: 256; 1 to 255"),
        ({"q": Choice(["a", "b", "a"])}, "questions['q'].choices: 'a' is there twice"),
        ({"q": Choice("ab")}, "questions['q'].choices: expected a list"),
        ({"q": Choice(["a", " "])}, "questions['q'].choices[1]: an option without a name"),
        ({"q": {"type": "choice", "criteria": ["a", True]}}, "choices[1]: expected text"),
        ({"q": Score([])}, "questions['q'].levels: 0; 1 to 10"),
        ({"q": Score(["x"] * 11)}, "questions['q'].levels: 11; 1 to 10"),
        ({"q": Score(["calm", 3])}, "questions['q'].levels[1]: expected text"),  # type: ignore[list-item]
        ({"q": YesNo(7)}, "questions['q'].ask: expected text"),  # type: ignore[arg-type]
    ],
)
def test_a_question_that_cannot_be_asked_is_named(questions: Any, words: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        as_questions(questions)
    assert words in str(caught.value)


@pytest.mark.parametrize("state", [None, 7, b"x", {"x": {1, 2}}])
def test_a_state_that_is_none_is_refused(state: Any) -> None:
    with pytest.raises(InvalidRequest, match="state"):
        as_state(state)


def test_the_chances_say_a_bool_a_name_or_the_mean_level() -> None:
    assert value_of(YesNo("so?"), {"true": 0.4, "false": 0.6}) is False
    assert value_of(Choice(["a", "b"]), {"a": 0.3, "b": 0.7}) == "b"
    levels = Score(["calm", "annoyed", "furious"])
    assert value_of(levels, {"0": 0.1, "1": 0.4, "2": 0.5}) == pytest.approx(1.4)


def test_answers_are_read_by_name_and_shown_on_one_line() -> None:
    def answer(name: str, value: Any) -> Answer:
        return Answer(name=name, value=value, probabilities={}, confidence=None, source="local")

    answers = Answers(
        id="1",
        text="",
        source="local",
        confidence=None,
        decision=Decision(policy="prefer_local", handoff="automatic", code="kept", reason=""),
        answers={"refund": answer("refund", True), "anger": answer("anger", 1.4)},
    )
    assert answers["refund"].value is True
    assert list(answers) == ["refund", "anger"]
    assert "refund=yes, anger=1.40" in repr(answers)
    assert answers.to_dict()["answers"]["anger"]["value"] == 1.4
