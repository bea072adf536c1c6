"""Our own questions calibrate any model: within its time, again where it stopped, honestly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgewise.calibrate.builtin import (
    AnsweredQuestion,
    Outcome,
    Source,
    ask_questions,
    fit_builtin,
    layer_to_read,
    summary,
)
from edgewise.calibrate.rows import Question
from edgewise.calibrate.traces import request_of
from edgewise.decide.calibration import CHAT, Meter, parse_calibration
from edgewise.errors import InvalidRequest
from edgewise.local.backend import DeviceFacts, TokenStream
from edgewise.testing import word_tokens
from edgewise.types.messages import Request
from edgewise.types.replies import Finish

KINDS, PER_KIND, WIDTH = 20, 20, 24
QUESTIONS = [
    Question(kind=f"kind {number % KINDS}", prompt=f"Question {number}?", accepted=("right",))
    for number in range(KINDS * PER_KIND)
]
FACTS = DeviceFacts(
    backend="scripted", model="m", quantisation="Q8_0", context_tokens=512, states=True, layers=30
)
DATA = {"kinds": KINDS, "questions": len(QUESTIONS)}
SOURCE = Source("m-q8_0+own.1", "today", DATA, {"model": "m", "quantisation": "Q8_0"}, 20)


class Knower:
    """Right on every odd question; its words, or its states, tell more or less about that.

    `kinds_tell`: whether it is right depends on the kind alone, and so does its state.
    """

    def __init__(
        self, words: float, states: float, *, kinds_tell: bool = False, seed: int = 0
    ) -> None:
        self._random = np.random.default_rng(seed)
        self._words, self._states, self._kinds_tell = words, states, kinds_tell
        self._places = self._random.normal(0, 1, (KINDS, WIDTH))
        self.asked: list[int] = []
        self.layers: list[int] = []

    def facts(self) -> DeviceFacts:
        return FACTS

    def close(self) -> None: ...

    def generate(
        self, request: Request, *, already: str = "", layer: int = 0, prompt_layer: int = 0
    ) -> TokenStream:
        number = int(request.messages[-1].content.split()[1].strip("?"))
        self.asked.append(number)
        self.layers.append(layer)
        knows = bool((number % KINDS if self._kinds_tell else number // KINDS) % 2)
        sign = 1.0 if knows else -1.0
        sure = float(np.clip(-1.5 + self._words * sign + self._random.normal(0, 0.5), -9, -0.01))
        state = self._random.normal(0, 1, WIDTH).astype(np.float32)
        state[3] += self._states * sign
        if self._kinds_tell:
            state += 5 * self._places[number % KINDS].astype(np.float32)
        text = "it is right" if knows else "it is something else altogether"
        for token in word_tokens(text, logprob=sure):
            yield replace(token, state=state if layer else None)
        yield Finish("stop", state=state if layer else None)


class Clock:
    """Every answer takes half a second."""

    def __init__(self) -> None:
        self._now = 0.0

    def __call__(self) -> float:
        self._now += 0.5
        return self._now


def asked(
    backend: Any, path: Path, layer: int = 20, seconds: float = 1e9
) -> list[AnsweredQuestion]:
    return ask_questions(backend, QUESTIONS, path, seconds=seconds, layer=layer)


def fitted(backend: Any, folder: Path, layer: int = 20) -> Outcome:
    answers = asked(backend, folder / "answers.jsonl", layer)
    return fit_builtin(answers, CHAT.uncalibrated, SOURCE)


# -- asking ----------------------------------------------------------------------------------------


def test_asking_ends_with_its_time_and_goes_on_where_it_stopped(tmp_path: Path) -> None:
    path, first, second = tmp_path / "answers.jsonl", Knower(1, 1), Knower(1, 1)
    half_a_second = Clock()
    found = ask_questions(first, QUESTIONS, path, seconds=10, clock=half_a_second)
    assert first.asked == list(range(20))
    assert ask_questions(second, QUESTIONS, path, seconds=10, clock=half_a_second) == found
    assert second.asked == [], "the time of both runs counts"
    more = ask_questions(second, QUESTIONS, path, seconds=12, clock=half_a_second)
    assert second.asked == list(range(20, 24))
    assert more[:20] == found


def test_an_answer_that_was_cut_by_a_crash_is_asked_again(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    ask_questions(Knower(1, 1), QUESTIONS[:3], path, seconds=9)
    path.write_text(path.read_text("utf-8")[:-30], "utf-8")
    again = Knower(1, 1)
    assert len(ask_questions(again, QUESTIONS[:3], path, seconds=9)) == 3
    assert again.asked == [2]


def test_progress_says_how_many_there_will_be_in_the_time(tmp_path: Path) -> None:
    steps: list[tuple[int, int, float]] = []
    path = tmp_path / "answers.jsonl"
    step = lambda *told: steps.append(told)  # noqa: E731
    ask_questions(Knower(1, 1), QUESTIONS, path, seconds=10, progress=step, clock=Clock())
    assert steps[0] == (1, 20, 9.5) and steps[-1] == (20, 20, 0.0)
    few = QUESTIONS[:5]
    ask_questions(Knower(1, 1), few, tmp_path / "b.jsonl", seconds=10, progress=step, clock=Clock())
    assert steps[-1] == (5, 5, 0.0), "never more than there are"


def test_states_are_read_where_the_head_in_use_reads_them() -> None:
    assert layer_to_read(FACTS, CHAT.uncalibrated) == 20
    assert layer_to_read(replace(FACTS, states=False), CHAT.uncalibrated) == 0


# -- fitting ---------------------------------------------------------------------------------------


def test_words_that_tell_become_a_calibration_with_a_risk_table(tmp_path: Path) -> None:
    outcome = fitted(Knower(words=1.0, states=0.0), tmp_path, layer=0)
    assert "with_state" not in outcome.document
    found = parse_calibration(outcome.document, "new")
    assert found.verified and found.fitted and found.measured.risk_rows == 400
    told = summary(outcome)
    assert told["score"] == "words" and told["auroc"] > 0.9
    assert told["auroc"] > told["in_force"]["auroc"] - 0.05
    assert told["ece"] < 0.08 < told["in_force"]["ece"]
    assert [each["max_error"] for each in told["risk"]] == [0.05, 0.10, 0.20]
    assert told["risk"][-1]["threshold"] is not None and told["right_share"] == 0.5
    assert sum(each["questions"] for each in told["families"]) == 400
    too_sure = [each["confidence"] - each["right"] for each in told["families"]]
    assert too_sure == sorted(too_sure, reverse=True) and too_sure[0] > too_sure[-1]


def test_a_head_is_kept_if_it_beats_the_words_and_reads_like_the_meter(tmp_path: Path) -> None:
    outcome = fitted(Knower(words=0.2, states=1.5), tmp_path)
    assert summary(outcome)["score"] == "words and states"
    assert outcome.comparison.after.auroc > 0.85 > outcome.words.after.auroc
    both = parse_calibration(outcome.document, "new").seen(states=True)
    assert both.layer_of("state") == 20
    backend, right = Knower(words=0.2, states=1.5), []
    for question in QUESTIONS[:100]:
        meter = Meter(both.heads)
        for item in tokens_of(backend, question):
            if isinstance(item, Finish):
                meter.end(item.state)
            else:
                meter.add(item)
        knows = bool(int(question.prompt.split()[1].strip("?")) // KINDS % 2)
        right.append((both.final.of(meter.reading().features()) >= 0.5) == knows)
    assert sum(right) > 85


def tokens_of(backend: Knower, question: Question) -> Iterator[Any]:
    return backend.generate(request_of(question, 9), layer=20)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_head_that_only_knows_its_kinds_is_not_kept(tmp_path: Path, seed: int) -> None:
    """Its states tell a kind that it has seen, and nothing of a new one."""
    outcome = fitted(Knower(words=0.6, states=0.0, kinds_tell=True, seed=seed), tmp_path)
    assert "with_state" not in outcome.document
    assert outcome.words.after.auroc > 0.9


def test_a_model_that_is_always_wrong_cannot_be_calibrated(tmp_path: Path) -> None:
    wrong = [replace(question, accepted=("nothing like it",)) for question in QUESTIONS[:60]]
    answers = ask_questions(Knower(1, 1), wrong, tmp_path / "answers.jsonl", seconds=99)
    with pytest.raises(InvalidRequest, match="of 60 answers 0 are right"):
        fit_builtin(answers, CHAT.uncalibrated, SOURCE)


def test_too_few_answers_are_refused(tmp_path: Path) -> None:
    answers = asked(Knower(1, 1), tmp_path / "answers.jsonl")[:30]
    with pytest.raises(InvalidRequest, match="30 rows are too few"):
        fit_builtin(answers, CHAT.uncalibrated, SOURCE)
