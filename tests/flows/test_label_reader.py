"""Typed questions read off a real model: labels, orders, groups, and what was read before."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from typing_extensions import override

from edgewise.errors import ContextExceeded, GenerationFailed
from edgewise.flows.judge import LabelReader, write
from edgewise.local.backend import TokenStream
from edgewise.local.llama_cpp import LlamaLoop
from edgewise.local.store import InstalledModel
from edgewise.requests import as_questions
from edgewise.testing import ScriptedBackend
from edgewise.types.messages import Choice, Message, Question, Request, Score, YesNo
from edgewise.types.replies import Finish, Token

MAIL = "I was charged twice. Give me my money back, now!"


def about(question: Any, state: str = MAIL, **options: Any) -> Request:
    asked = as_questions({"q": question})
    return Request(messages=(Message("user", state),), questions=asked, **options)


def written(question: Question, order: tuple[str, ...], labels: tuple[str, ...]) -> str:
    told = dict(zip(question.options, question.described, strict=True))
    return write("the state", question, told, order, labels)


def test_the_state_comes_first_and_the_options_behind_their_labels() -> None:
    choice = Choice({"billing": "payments", "tech": None}, "Which team?")
    assert written(choice, ("tech", "billing"), ("A", "B")).splitlines() == [
        "Text:",
        "the state",
        "",
        "Question: Which team?",
        "A) tech",
        "B) billing: payments",
        "Answer with the letter.",
    ]


def test_a_yes_or_no_names_both_answers_and_says_what_they_mean() -> None:
    question = YesNo("Is it so?", true="it is")
    assert written(question, ("false", "true"), ("No", "Yes")).splitlines()[3:] == [
        "Question: Is it so?",
        "Yes: it is",
        "Answer No or Yes.",
    ]


def test_levels_are_read_by_what_they_mean() -> None:
    question = Score(["calm", "angry"])
    assert "A) calm\nB) angry" in written(question, ("0", "1"), ("A", "B"))


def test_two_opposite_orders_are_averaged() -> None:
    class LikesTheFirst(ScriptedBackend):
        @override
        def generate(self, request: Request, **given: Any) -> TokenStream:
            for item in super().generate(request, **given):
                if isinstance(item, Token):
                    low = math.log(0.1 / (len(request.labels) - 1))
                    found = [(name, low) for name in request.labels]
                    found[0] = (request.labels[0], math.log(0.9))
                    item = replace(item, alternatives=tuple(found))
                yield item

    device = LikesTheFirst.deciding({})
    read = LabelReader(device).read_question(about(Choice(["a", "b"])))
    assert read.chances == {"a": pytest.approx(0.5), "b": pytest.approx(0.5)}
    assert read.one_way[0]["a"] == pytest.approx(0.9)
    assert read.one_way[1]["b"] == pytest.approx(0.9)


def test_a_model_that_gives_no_chances_is_a_failure_of_the_device() -> None:
    class Mute(ScriptedBackend):
        @override
        def generate(self, request: Request, **given: Any) -> TokenStream:
            yield from super().generate(replace(request, labels=()), **given)

    with pytest.raises(GenerationFailed, match="no chances for the labels"):
        LabelReader(Mute.deciding({})).read_question(about(YesNo("so?")))


# -- a real model ----------------------------------------------------------------------------------


@pytest.fixture
def model(default_model: InstalledModel) -> Iterator[LlamaLoop]:
    opened = LlamaLoop(default_model, threads=1, context_tokens=512)
    yield opened
    opened.close()


@pytest.mark.real_model
def test_the_labels_chances_are_those_of_the_next_token(model: LlamaLoop) -> None:
    request = Request(messages=(Message("user", "Say A or B."),), max_tokens=1)
    (plain, _) = model.generate(replace(request, evidence=True))
    assert isinstance(plain, Token)
    best, logprob = next(one for one in plain.alternatives if len(one[0]) == 1 and one[0].isalpha())
    (told, finish) = model.generate(replace(request, labels=(best, "Z")))
    assert isinstance(told, Token) and isinstance(finish, Finish)
    assert [name for name, _ in told.alternatives] == [best, "Z"]
    assert told.alternatives[0][1] == pytest.approx(logprob, abs=1e-3)
    assert finish.output_tokens == 1


@pytest.mark.real_model
def test_a_label_of_two_tokens_is_named(model: LlamaLoop) -> None:
    asked = Request(messages=(Message("user", "Hi."),), labels=("Unbelievably long label",))
    with pytest.raises(GenerationFailed, match="no token for the label"):
        list(model.generate(asked))


@pytest.mark.real_model
def test_what_was_read_of_the_state_is_not_read_again(model: LlamaLoop) -> None:
    reader = LabelReader(model)
    state = MAIL * 8
    first = reader.read_question(about(YesNo("Do they want money back?"), state))
    second = reader.read_question(about(YesNo("Is the writer angry?"), state))
    assert first.input_tokens - first.cached_tokens > 100
    assert second.input_tokens - second.cached_tokens < 80
    assert sum(second.chances.values()) == pytest.approx(1)


@pytest.mark.real_model
def test_a_state_that_is_too_long_is_told_before_any_work(model: LlamaLoop) -> None:
    with pytest.raises(ContextExceeded):
        LabelReader(model).read_question(about(YesNo("so?"), MAIL * 200))
