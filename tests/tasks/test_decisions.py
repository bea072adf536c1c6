"""Learnt questions: from a few dozen labels to answers with a stated risk."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgewise import Choice, Engine, InvalidRequest, Score, SettingsError, YesNo
from edgewise.calibrate.learn import learn_question, meanings_of
from edgewise.calibrations import learnt_path, write_own
from edgewise.decide.decisions import key_of, read_learnt
from edgewise.record.ledger import Ledger
from edgewise.settings import Settings
from edgewise.testing import ScriptedBackend, ScriptedEmbedder

WHAT = Choice({"billing": None, "weather": None}, "What is it about?")
BILLING = ("invoice", "refund", "payment", "charge", "receipt", "price")
WEATHER = ("rain", "snow", "wind", "sun", "storm", "cloud")
FRAMES = ("about the {}", "a question on {} please", "tell me of {} now", "{} today")


def labelled() -> tuple[list[str], list[str]]:
    rows = [
        (frame.format(f"{one} {other}"), label)
        for label, words in (("billing", BILLING), ("weather", WEATHER))
        for frame in FRAMES
        for one, other in itertools.combinations(words, 2)
    ]
    return [state for state, _ in rows], [label for _, label in rows]


def engine(tmp_path: Path, **given: Any) -> Engine:
    return Engine(
        Settings.load({}, data_dir=tmp_path),
        ledger=Ledger(tmp_path / "ledger.sqlite3"),
        policy="local_only",
        **given,
    )


def vectors_of(states: Sequence[str]) -> list[Any]:
    return list(ScriptedEmbedder().embed(states).vectors)


def test_a_question_has_one_key_whatever_the_order_of_its_options() -> None:
    turned = Choice({"weather": None, "billing": None}, "What is it about?")
    assert key_of(WHAT) == key_of(turned)
    assert key_of(WHAT) != key_of(Choice(WHAT.choices, "What is it?"))
    assert key_of(WHAT) != key_of(Choice({"billing": "money", "weather": None}, WHAT.ask))


def test_what_is_learnt_is_the_same_when_it_is_read_again() -> None:
    states, labels = labelled()
    learnt = learn_question("what", WHAT, states, labels)
    again = read_learnt(json.loads(json.dumps(learnt.to_dict())), "file")
    assert again.chances("refund of a charge") == pytest.approx(
        learnt.chances("refund of a charge")
    )
    assert again.calibration.measured.risk == learnt.calibration.measured.risk
    with pytest.raises(SettingsError, match="file: no learnt question"):
        read_learnt({"format": 1}, "file")


def test_the_words_alone_tell_what_a_known_word_is_about() -> None:
    states, labels = labelled()
    learnt = learn_question("what", WHAT, states, labels)
    assert learnt.reads == "words"
    assert learnt.report["held_out_accuracy"] > 0.95
    assert learnt.chances("the invoice")["billing"] > 0.8
    assert learnt.is_stranger("quarterly xylophone")
    assert not learnt.is_stranger("the invoice")


def test_labels_are_held_out_so_chance_labels_promise_nothing() -> None:
    states, _ = labelled()
    labels = ["billing" if len(state) % 2 else "weather" for state in reversed(states)]
    noise = [f"word{number * 7919 % 1009} thing{number}" for number in range(len(states))]
    learnt = learn_question("noise", WHAT, noise, labels)
    assert learnt.report["held_out_accuracy"] < 0.7
    strictest = learnt.calibration.measured.risk["whole"][0]
    assert strictest.kept < 12 or strictest.wrong > 0


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (["billing"] * 5, "at least 12"),
        (["billing"] * 20, "all labels are the same"),
        (["billing", "sports"] * 10, "'sports' is no option"),
    ],
)
def test_labels_that_teach_nothing_are_refused(labels: list[str], words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        learn_question("what", WHAT, [f"row {n}" for n in range(len(labels))], labels)


def test_a_learnt_question_is_answered_without_the_language_model(tmp_path: Path) -> None:
    states, labels = labelled()
    learnt = learn_question("what", WHAT, states, labels)
    device = ScriptedBackend.deciding({"what": {"billing": 0.5, "weather": 0.5}})
    with engine(tmp_path, backend=device) as asked:
        write_own(learnt_path(asked.settings, learnt.key), learnt.to_dict())
        answers = asked.decide("the invoice and the refund", {"anything": WHAT})
    assert answers["anything"].value == "billing"
    assert answers["anything"].calibration == "learnt:what"
    assert answers["anything"].confidence_verified
    assert device.requests == []


def test_a_learnt_question_promises_what_its_labels_prove(tmp_path: Path) -> None:
    states, labels = labelled()
    learnt = learn_question("what", WHAT, states, labels)
    device = ScriptedBackend.deciding({})
    with engine(tmp_path, backend=device) as asked:
        write_own(learnt_path(asked.settings, learnt.key), learnt.to_dict())
        sure = asked.decide("the invoice and the refund", {"q": WHAT}, max_error=0.1)
        strange = asked.decide("quarterly xylophone", {"q": WHAT}, max_error=0.1)
        unmeasured = asked.decide("the invoice", {"q": YesNo("Is it money?")}, max_error=0.1)
    assert not sure["q"].doubted
    assert strange["q"].doubted
    assert "nothing like it" in strange["q"].reason
    assert unmeasured["q"].doubted
    assert "promised" in unmeasured["q"].reason


@pytest.mark.parametrize(("helps", "least"), [(True, 0.9), (False, 0.0)])
def test_what_options_are_called_counts_as_far_as_labels_prove_it(
    helps: bool, least: float
) -> None:
    draw = np.random.default_rng(5)
    topics = Choice([f"topic{number}" for number in range(8)])
    meant = np.eye(24)[:8]
    places = [number % 8 for number in range(16)]
    rows = meant[places] + draw.normal(0.0, 0.22, (16, 24))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    told = meant if helps else np.roll(meant, 1, axis=0)
    states, labels = [f"word{number}" for number in range(16)], [f"topic{at}" for at in places]
    plain = learn_question("t", topics, states, labels, rows.tolist(), "s")
    learnt = learn_question("t", topics, states, labels, rows.tolist(), "s", told.tolist())
    before, after = (one.report["held_out_accuracy"] for one in (plain, learnt))
    assert (after > before) if helps else (after == before)
    assert after >= least
    new = meant + draw.normal(0.0, 0.22, meant.shape)
    new /= np.linalg.norm(new, axis=1, keepdims=True)
    chances = [learnt.chances("", row) for row in new.tolist()]
    found = [max(each, key=lambda name: each[name]) for each in chances]
    right = sum(name == f"topic{at}" for at, name in enumerate(found))
    assert right >= (7 if helps else 4)


def test_an_option_that_says_nothing_by_itself_has_no_meaning() -> None:
    assert meanings_of(WHAT) == ("billing", "weather")
    assert meanings_of(Choice({"tech": "it does not work"})) == ("tech: it does not work",)
    assert meanings_of(Score(["calm", "furious"])) == ("calm", "furious")
    assert meanings_of(YesNo("Is it so?", true="it is so")) == ()
    assert meanings_of(YesNo("Is it so?", true="it is", false="it is not")) == (
        "it is",
        "it is not",
    )


def test_vectors_are_read_where_they_do_better_and_only_in_their_space(tmp_path: Path) -> None:
    states, labels = labelled()
    learnt = learn_question("what", WHAT, states, labels, vectors_of(states), "scripted@none-32")
    learnt = replace(learnt, reads="vector", space="scripted@none-32")
    learnt = replace(learnt, weights=([1.0] * 32, [-1.0] * 32), biases=(9.0, 0.0))
    device = ScriptedBackend.deciding({"q": {"billing": 0.1, "weather": 0.9}})
    with engine(tmp_path, backend=device, embedder=ScriptedEmbedder()) as asked:
        write_own(learnt_path(asked.settings, learnt.key), learnt.to_dict())
        assert asked.decide("the invoice and the refund", {"q": WHAT})["q"].value == "billing"
    other = ScriptedEmbedder("other@none-32")
    with engine(tmp_path, backend=device, embedder=other) as asked:
        assert asked.decide("the invoice and the refund", {"q": WHAT})["q"].value == "weather"
