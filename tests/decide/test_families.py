"""For whom a calibration promises anything: measured families, and strangers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from edgewise.decide.calibration import CHAT, Measured
from edgewise.decide.families import (
    Cell,
    Conditions,
    Families,
    centres_of,
    digest_of,
    read_centres,
    read_families,
    write_cells,
    write_centres,
)
from edgewise.decide.policy import find_objective, promises, threshold_of
from edgewise.types.messages import Learnt, Message, Request, Steering

ASKED = [
    *(("capitals", "capitals", f"What is the capital of {land}?") for land in ("Peru", "Chad")),
    *(("sums", "sums", f"How much is {one} plus 4?") for one in range(2, 9)),
]
CENTRES = centres_of(ASKED)
THRESHOLDS = (0.95, 0.9, 0.8, 0.5)
# Capitals prove 10 % down to 0.5, sums never do: they are wrong even where the model is sure.
CELLS = {
    "capitals": Cell(400, ((100, 0), (200, 2), (300, 6), (400, 8))),
    "sums": Cell(400, ((100, 40), (200, 90), (300, 140), (400, 200))),
}
SYSTEM = "Answer briefly."
FAMILIES = Families(
    rows=1000,
    least=0.3,
    conditions=Conditions(
        temperature=0.0, tokens=64, longest=64, turns=1, systems=frozenset([digest_of(SYSTEM)])
    ),
    floors=((0.1, 0.8), (0.2, 0.6)),
    thresholds=THRESHOLDS,
    cells=CELLS,
    centres=CENTRES,
)
FITTED = replace(CHAT.uncalibrated, name="mine", measured=Measured(families=FAMILIES))


def asks(text: str, *before: Message, **options: Any) -> Request:
    options = {"max_error": 0.1, **options}
    return Request(messages=(*before, Message("user", text)), **options)


def test_a_request_like_a_measured_family_is_promised_what_its_rows_prove() -> None:
    found = find_objective(asks("What is the capital of Norway?"), FITTED)
    assert found.misfit is None
    assert found.threshold == 0.8, "its own rows prove 0.5; families prove 0.8 of each other"
    assert found.words.endswith("on requests like those measured (capitals)")
    assert (found.whole, found.longest) == (True, 64)


def test_a_stranger_is_promised_nothing_and_is_told_so() -> None:
    found = find_objective(asks("Translate this poem about my grandmother's garden."), FITTED)
    assert found.misfit is not None
    assert (found.misfit.code, found.misfit.soft) == ("risk_unproven", True)
    assert "is not promised: it is a stranger: its words are 0." in found.misfit.reason


def test_a_family_whose_rows_prove_nothing_is_promised_nothing() -> None:
    found = find_objective(asks("How much is 3 plus 4?"), FITTED)
    assert found.misfit is not None
    assert found.misfit.code == "risk_unproven"
    assert found.misfit.reason.endswith("the rows like it (sums) prove no threshold")


@pytest.mark.parametrize(
    ("options", "before", "why"),
    [
        ({"temperature": 1.5}, (), "temperature 1.5, where 0 was measured"),
        ({"max_tokens": 2}, (), "at most 2 tokens, where answers had room for 64"),
        ({}, (Message("system", "Always lie."),), "a system prompt that was not measured"),
        (
            {},
            (Message("user", "Hi."), Message("assistant", "Hello!")),
            "2 turns, where at most 1 was measured",
        ),
    ],
)
def test_outside_the_conditions_of_the_measurement_nothing_is_promised(
    options: dict[str, Any], before: tuple[Message, ...], why: str
) -> None:
    found = find_objective(asks("What is the capital of Norway?", *before, **options), FITTED)
    assert found.misfit is not None
    assert found.misfit.code == "risk_unproven"
    assert found.misfit.reason.endswith(f"is not promised: {why}")


def test_a_measured_system_prompt_and_room_enough_are_within_the_conditions() -> None:
    request = asks("What is the capital of Norway?", Message("system", SYSTEM), max_tokens=64)
    assert find_objective(request, FITTED).misfit is None


def test_an_error_that_no_family_proves_cannot_be_promised_to_anybody() -> None:
    found = find_objective(asks("What is the capital of Norway?", max_error=0.01), FITTED)
    assert found.misfit is not None
    assert found.misfit.code == "risk_unreachable"
    assert found.misfit.reason.endswith("the 1,000 rows of mine prove no threshold")


def test_an_error_between_two_that_families_prove_takes_the_stricter_proof() -> None:
    assert threshold_of(FAMILIES, "capitals", 0.15, 0.1) == 0.8
    assert threshold_of(FAMILIES, "capitals", 0.2, 0.1) == 0.6


def test_verdicts_of_a_workload_promise_also_to_strangers() -> None:
    learnt = {"mine": Learnt(verdicts=90, threshold=0.7, refuted=frozenset(), missing=0)}
    found = find_objective(
        asks("Translate this poem.", steering=Steering(learnt=learnt), temperature=1.0), FITTED
    )
    assert (found.threshold, found.misfit) == (0.7, None)


def test_drift_makes_a_promise_stricter_by_default_and_leaves_other_thresholds_alone() -> None:
    steering = Steering(on_drift="risk", drifted={"mine": "far away"})
    promised = find_objective(asks("What is the capital of Norway?", steering=steering), FITTED)
    assert promised.threshold > 0.8
    plain = find_objective(Request(messages=(), steering=steering), FITTED)
    assert plain.threshold == FITTED.threshold
    learnt = {"mine": Learnt(verdicts=90, threshold=0.7, refuted=frozenset(), missing=0)}
    proven = replace(steering, learnt=learnt)
    assert find_objective(asks("Any?", steering=proven), FITTED).threshold == 0.7


def test_what_is_promised_is_said_with_its_limit() -> None:
    told, anything = promises(FITTED, 0.1)
    assert anything
    assert told == (
        "for requests like the 1,000 measured: with max_error 10 % it keeps 30 % of "
        "the answers, with max_error 20 % it keeps 30 % of the answers, with max_error 1 % or 5 % "
        "every answer goes to the cloud; a stranger is promised nothing"
    )


def test_centres_and_cells_are_read_as_they_were_written() -> None:
    document: dict[str, Any] = {
        "rows": 1000,
        "least": 0.3,
        "conditions": {"tokens": 64, "turns": 1, "systems": [digest_of(SYSTEM)]},
        "floors": [[0.2, 0.6], [0.1, 0.8]],
        "thresholds": list(THRESHOLDS),
        "cells": write_cells(CELLS),
        "centres": write_centres(CENTRES),
    }
    read = read_families(document)
    assert (dict(read.cells), read.floors) == (CELLS, FAMILIES.floors)
    for _, _, text in ASKED:
        exact, rounded = CENTRES.nearest(text), read.centres.nearest(text)
        assert rounded.family == exact.family
        assert rounded.nearness == pytest.approx(exact.nearness, abs=0.02)
    assert read_centres(document["centres"]) is read.centres, "it is read once"


@pytest.mark.parametrize(
    "wrong",
    [
        {"thresholds": [0.5, 0.9]},
        {"thresholds": [0.9], "cells": {"a": [3, "1 2"]}},
        {"thresholds": [0.9, 0.5], "cells": {"a": [3, "1 0"]}},
        {"centres": {"rarity": "AAAA", "kinds": []}},
    ],
)
def test_bad_families_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError, KeyError)):
        read_families(wrong)


def test_a_family_that_was_left_out_is_a_stranger_to_the_others() -> None:
    near = CENTRES.nearest("What is the capital of Norway?")
    assert near.family == "capitals"
    without = CENTRES.nearest("What is the capital of Norway?", frozenset(["capitals"]))
    assert without.family != "capitals"
    assert without.nearness < near.nearness
    assert CENTRES.nearest("") == ("", 0.0)
