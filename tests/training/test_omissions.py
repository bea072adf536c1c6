"""Requests that leave out something required, and questions no tool answers."""

from __future__ import annotations

from random import Random

from training.frame_types import Frame
from training.frames_parser import parse_text
from training.omissions import left_out, newly_required
from training.questions import question

TOOL = """domain test

tool send_parcel | Send a parcel to an address.
  address* str [12 Elm Road|7 Hill Street|3 Quay|1 Dock|9 Mall|4 Park] | Where to
  weight float 1..20 kg | Weight of the parcel
  insured bool [yes: insured|no: without insurance] | Whether it is insured
  note str [fragile|gift|urgent|cold|soft|heavy] | Note (optional)
> send a parcel to {address}
> parcel to {address}{weight:, }{weight}
"""


def tool() -> Frame:
    return parse_text(TOOL, "test").frames[0]


def test_only_what_nobody_could_guess_becomes_required() -> None:
    seen = set()
    for seed in range(80):
        found = newly_required(tool(), Random(seed))
        if found:
            asked, clause = found
            added = set(asked.required) - {"address"}
            assert not added & set(clause.values)
            seen |= added
    assert seen == {"weight"}


def test_a_request_without_something_required_does_not_mention_it() -> None:
    made = [left_out(tool(), Random(seed)) for seed in range(80)]
    found = [pair for pair in made if pair]
    assert found
    for asked, clause in found:
        assert "address" in asked.required
        assert "address" not in clause.values


def test_questions_are_many() -> None:
    rng = Random(1)
    assert len({question(rng) for _ in range(500)}) > 350
