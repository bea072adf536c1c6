from __future__ import annotations

import math

import pytest

from edgewise.calls.prompt import (
    MADE_UP,
    answer_chance,
    none_chance,
    none_is_likelier,
)
from edgewise.types.tokens import Token


def answer(first: float, *rest: float, none: float | None = None) -> list[Token]:
    told = (("set", first),) if none is None else (("set", first), (" none", none))
    return [Token("set", first, alternatives=told), *(Token("x", one) for one in rest)]


def test_an_answer_is_as_likely_as_its_tokens_together() -> None:
    assert answer_chance(answer(-0.5, -1.0, -0.25)) == pytest.approx(-1.75)


def test_text_without_evidence_says_nothing_about_the_chance() -> None:
    assert answer_chance([Token("set", has_evidence=False)]) is None
    assert answer_chance([Token("", has_evidence=False), Token("set", -0.5)]) == pytest.approx(-0.5)


def test_none_is_read_from_the_alternatives_of_the_first_token() -> None:
    assert none_chance(answer(-0.5, none=-1.5)) == -1.5
    assert none_chance(answer(-0.5)) == -math.inf
    assert none_chance([]) == -math.inf


def test_none_wins_over_an_answer_whose_values_are_a_guess() -> None:
    assert none_is_likelier(answer(-0.4, -1.0, -1.0, none=-1.2))
    assert not none_is_likelier(answer(-0.4, -0.1, -0.1, none=-1.2))


def test_what_nobody_said_makes_none_win_sooner() -> None:
    said = answer(-0.1, -0.1, none=-3.0)
    assert not none_is_likelier(said)
    assert none_is_likelier(said, made_up=True)
    assert not none_is_likelier(answer(-0.1, none=-0.2 - MADE_UP), made_up=True)


def test_a_runtime_that_tells_no_alternatives_keeps_its_calls() -> None:
    assert not none_is_likelier(answer(-3.0, -3.0), made_up=True)
    assert not none_is_likelier([Token("set", has_evidence=False)], made_up=True)
