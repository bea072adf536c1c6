"""Several requests in one: what stands between them."""

from __future__ import annotations

from collections import Counter
from random import Random

from training.boundaries import as_list, as_sentences, in_order, join_clauses, led, with_commas
from training.frame_types import Frame
from training.sample import Clause, Piece

from training import boundaries

FRAME = Frame("tool", "A tool", "test")
LIGHTS = [Piece("Turn on the "), Piece("lamp", "device"), Piece(".")]
TIMER = [Piece("Set a timer for "), Piece("9 p.m.", "time")]
SONG = [Piece("Play "), Piece("Summertime", "song"), Piece("!")]
STORY = [Piece("I am tired. Play "), Piece("Summertime", "song")]


def text(pieces: list[Piece]) -> str:
    return "".join(piece.text for piece in pieces)


def test_commas_join_orders_without_the_marks_between_them() -> None:
    seen = {text(with_commas([LIGHTS, TIMER, SONG], Random(seed))) for seed in range(60)}
    assert "Turn on the lamp, set a timer for 9 p.m. and play Summertime!" in seen
    assert "Turn on the lamp, set a timer for 9 p.m., play Summertime!" in seen


def test_one_polite_lead_serves_all_orders() -> None:
    for seed in range(40):
        found = text(led([LIGHTS, TIMER, SONG], Random(seed)))
        assert "turn on the lamp, set a timer for 9 p.m." in found
        assert not found.startswith("Turn")


def test_two_sentences_in_one_request_are_not_joined_by_commas() -> None:
    found = text(with_commas([STORY, TIMER], Random(1)))
    assert found.replace("\n", " ") == "I am tired. Play Summertime. Set a timer for 9 p.m.."


def test_sentences_lists_and_orders_keep_every_value() -> None:
    parts = [LIGHTS, TIMER, SONG]
    for manner in (as_sentences, as_list, in_order, *boundaries._MANNERS):
        for seed in range(30):
            pieces = manner(parts, Random(seed))
            values = [piece.text for piece in pieces if piece.slot not in ("", ",")]
            assert values == ["lamp", "9 p.m.", "Summertime"]


def test_bare_commas_are_common() -> None:
    rng = Random(5)
    clauses = [Clause(FRAME, list(part), {}) for part in (LIGHTS, TIMER, SONG)]
    found = [text(join_clauses(clauses, rng)) for _ in range(600)]
    starts = Counter("lamp, set" in line for line in found)
    assert starts[True] > 150
    assert len(set(found)) > 250


def test_one_request_stays_as_it_is() -> None:
    assert join_clauses([Clause(FRAME, SONG, {})], Random(1)) == SONG
