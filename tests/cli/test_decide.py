"""`edgewise decide`: questions from options, files and lines, and an exit code that answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from edgewise.cli.decide import read_questions
from edgewise.errors import InvalidRequest
from edgewise.settings import Settings
from edgewise.testing import ScriptedBackend
from edgewise.types.messages import Choice, Score, YesNo
from tests.cli.conftest import Run

SURE: dict[str, Any] = {
    "refund": 0.99,
    "answer": 0.01,
    "team": {"billing": 0.98, "tech": 0.02},
}


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedBackend]:
    made = ScriptedBackend.deciding(SURE)
    monkeypatch.setattr("edgewise.parts.open_backend", lambda _: made)
    monkeypatch.setattr("edgewise.cli.decide.ensure_model", lambda settings, _: settings)
    monkeypatch.setattr("edgewise.cli.decide.choose_model", lambda settings, _: settings)
    yield made


def test_options_say_typed_questions() -> None:
    found = read_questions(
        None,
        ["refund=Money back?", "Is 2 + 2 = 4?"],
        ["team: Which team should take it?=billing, tech"],
        ["anger=calm,furious"],
    )
    assert found == {
        "refund": YesNo("Money back?"),
        "answer": YesNo("Is 2 + 2 = 4?"),
        "team": Choice({"billing": None, "tech": None}, "Which team should take it?"),
        "anger": Score(["calm", "furious"]),
    }


def test_two_questions_of_one_name_are_a_usage_error() -> None:
    with pytest.raises(click.UsageError, match="two questions are called 'answer'"):
        read_questions(None, ["so?", "or so?"], [], [])


def test_a_file_of_questions_has_the_form_of_the_wire(tmp_path: Path) -> None:
    file = tmp_path / "questions.json"
    file.write_text(json.dumps({"refund": {"type": "noul", "instructions": "Money back?"}}))
    assert read_questions(file, [], [], []) == {"refund": YesNo("Money back?")}
    file.write_text("[1]")
    with pytest.raises(InvalidRequest, match="expected questions by name"):
        read_questions(file, [], [], [])


def test_a_single_yes_or_no_is_the_exit_code(run: Run, device: ScriptedBackend) -> None:
    assert run("decide", "Charged twice!", "--yes-no", "refund=Money back?", "--local").code == 0
    ran = run("decide", "Charged twice!", "--yes-no", "Is it spam?", "--local")
    assert (ran.code, ran.out) == (1, "answer: no\n")


def test_several_questions_answer_in_lines_and_exit_with_0(
    run: Run, device: ScriptedBackend, tmp_path: Path
) -> None:
    (tmp_path / "mail.txt").write_text("Charged twice!")
    ran = run(
        "decide",
        "--state",
        str(tmp_path / "mail.txt"),
        "--yes-no",
        "answer=Spam?",
        "--choice",
        "team=billing,tech",
        "--local",
    )
    assert (ran.code, ran.out) == (0, "answer: no\nteam: billing\n")
    assert "local" in ran.err


def test_json_has_every_chance_and_its_source(run: Run, device: ScriptedBackend) -> None:
    ran = run("decide", "Charged twice!", "--choice", "team=billing,tech", "--local", "--json")
    answer = ran.json["answers"]["team"]
    assert (answer["value"], answer["source"]) == ("billing", "local")
    assert answer["probabilities"] == {
        "billing": pytest.approx(0.98),
        "tech": pytest.approx(0.02),
    }


def test_why_explains_a_decision_afterwards(run: Run, device: ScriptedBackend) -> None:
    ran = run("decide", "Charged twice!", "--choice", "team=billing,tech", "--local", "--json")
    told = run("why", ran.json["id"])
    assert told.code == 0
    assert "device" in told.out


def test_each_line_is_decided_by_itself_and_an_error_does_not_stop_the_rest(
    run: Run, device: ScriptedBackend, tmp_path: Path
) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text(
        '"Charged twice!"\n\n{"id": "b", "state": null}\n{"id": "c", "state": {"x": 1}}\n'
    )
    ran = run("decide", "--each", str(rows), "--choice", "team=billing,tech", "--local")
    told = [json.loads(line) for line in ran.out.splitlines()]
    assert [one["id"] for one in told] == [1, "b", "c"]
    assert told[0]["answers"]["team"]["value"] == "billing"
    assert told[1]["code"] == "invalid_request"
    assert ran.code == 1


def test_without_a_question_nothing_is_asked(run: Run) -> None:
    ran = run("decide", "words")
    assert ran.code == 2
    assert "no question" in ran.err


def test_a_question_is_learnt_and_then_used_where_it_is_asked_again(
    run: Run, device: ScriptedBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgewise.cli.decide.ensure_embedder", lambda settings, _: settings)
    monkeypatch.setattr("edgewise.cli.decide.space_of", lambda _: "")
    rows = [
        {"state": f"{word} number {number}", "label": label}
        for number in range(15)
        for word, label in (("invoice", "billing"), ("crash", "tech"))
    ]
    file = tmp_path / "labels.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    asked = ("--choice", "team=billing,tech")
    ran = run("decide", "learn", "team", "--labels", str(file), *asked)
    assert "team reads a state by its words: 100 % of 30 labels right, unseen" in ran.out
    ran = run("decide", "an invoice", "--choice", "other=billing,tech", "--local", "--json")
    assert ran.json["answers"]["other"]["calibration"] == "learnt:team"
    assert ran.json["answers"]["other"]["value"] == "billing"


def test_no_model_is_fetched_for_a_learnt_question(
    run: Run, device: ScriptedBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: list[str] = []
    monkeypatch.setattr("edgewise.cli.decide.ensure_embedder", lambda settings, _: settings)
    monkeypatch.setattr("edgewise.cli.decide.space_of", lambda _: "")

    def fetch(settings: Settings, _: object) -> Settings:
        fetched.append("m")
        return settings

    monkeypatch.setattr("edgewise.cli.decide.ensure_model", fetch)
    rows = [
        {"state": f"{word} number {number}", "label": label}
        for number in range(15)
        for word, label in (("invoice", "billing"), ("crash", "tech"))
    ]
    file = tmp_path / "labels.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    asked = ("--choice", "team=billing,tech")
    run("decide", "an invoice", *asked, "--local")
    assert fetched == ["m"]
    run("decide", "learn", "team", "--labels", str(file), *asked)
    assert run("decide", "an invoice", *asked, "--local").code == 0
    assert fetched == ["m"], "nothing is fetched for what labels have taught"
    run("decide", "an invoice", *asked, "--yes-no", "urgent=Is it urgent?", "--local")
    assert fetched == ["m", "m"]


def test_learning_names_the_question_that_it_cannot_find(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "labels.jsonl"
    file.write_text("")
    ran = run("decide", "learn", "team", "--labels", str(file))
    assert ran.code == 2
    assert "no question 'team'" in ran.err
    assert run("decide", "words", "--labels", str(file)).code == 2
