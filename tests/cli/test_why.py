"""`edgewise why`: the sentence, the chart, and the JSON of one request."""

from __future__ import annotations

import pytest

from edgewise import Engine, Settings
from edgewise.cli.ledger import HALF_BAR, LINE, bars, confidence_line
from edgewise.decide.explain import Pull
from edgewise.local.store import InstalledModel
from edgewise.testing import LoopbackCloud, ScriptedBackend, Status
from tests.cli.conftest import KEY, Run


def ask(backend: ScriptedBackend) -> str:
    with Engine(Settings.load(), backend=backend) as engine:
        return engine.complete("What is the capital of France?", policy="prefer_local").id


def test_an_answer_that_stayed(run: Run) -> None:
    request_id = ask(ScriptedBackend.confident("Paris."))
    page = run("why", request_id).out
    assert page.startswith("It stayed on the device: its unverified confidence of ")
    assert request_id in page
    assert "o unverified confidence " in page
    assert "| threshold 0.50" in page
    assert "→ It would have left at a threshold of " in page


def test_the_beginning_of_an_id_is_enough_and_last_needs_none(run: Run) -> None:
    request_id = ask(ScriptedBackend.confident("Paris."))
    whole = run("why", request_id, "--json").json
    assert whole["id"] == request_id
    assert whole["outcome"] == "stayed"
    assert run("why", request_id[:6], "--json").json == whole
    assert run("why", "--last", "--json").json == whole


def test_a_failure_says_what_happened_and_hides_the_key(run: Run, cloud: LoopbackCloud) -> None:
    cloud.script(Status(400, message=f"no such key {KEY}"))
    assert run("ask", "--cloud", "hello").code == 4
    page = run("why", "--last").out
    assert page.startswith("It failed with cloud_rejected: ")
    assert KEY not in page


def test_what_cannot_be_meant_is_refused(run: Run) -> None:
    assert run("why").code == 2
    assert run("why", "abc", "--last").code == 2
    empty = run("why", "--last")
    assert empty.code == 1
    assert "nothing asked yet" in empty.err
    assert "no request 'abc'" in run("why", "abc").err


@pytest.mark.real_model
def test_a_real_answer_is_explained_by_the_shipped_calibration(
    run: Run, default_model: InstalledModel
) -> None:
    asked = run("ask", "--local", "--max-tokens", "12", "--json", "What is 317 times 482?").json
    told = run("why", "--last", "--json").json
    assert (told["id"], told["score"]) == (asked["id"], "final")
    assert told["calibration"] == "smollm2-135m-instruct-q8_0:state"
    assert "the hidden state of the model spoke" in told["evidence"]
    assert told["confidence"] == asked["confidence"]
    assert not told["notes"]
    assert {pull["feature"] for pull in told["pulls"]} <= set(asked["decision"]["features"])


def test_bars_are_as_long_as_what_they_show_and_point_its_way() -> None:
    against, half, none = bars(
        (
            Pull("number_share", 0.5, 0.1, -6.0, -2.4),
            Pull("margin", 1.0, 0.0, 1.2, 1.2),
            Pull("other", 0.0, 0.0, 1.0, 0.0),
        )
    )
    left, right = against.split("│")
    assert (left.count("█"), right) == (HALF_BAR, "")
    assert "-2.40" in left
    left, right = half.split("│")
    assert (left.count("█"), right) == (0, "█" * (HALF_BAR // 2))
    assert "+1.20" in left
    assert "█" not in none


def test_the_line_puts_both_numbers_in_their_places() -> None:
    line, words = confidence_line(0.2, 0.6)
    cells = line.removeprefix("0 ").removesuffix(" 1")
    assert (cells.index("o"), cells.index("|")) == (LINE * 0.2, LINE * 0.6)
    assert words.strip() == "o confidence 0.20   | threshold 0.60"
    edge, _ = confidence_line(1.0, None)
    assert edge.endswith("o 1")
