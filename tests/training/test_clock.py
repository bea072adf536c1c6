"""A time of day that a tool wants as two whole numbers."""

from __future__ import annotations

from random import Random

from training.frames_parser import parse_text
from training.houses import pick_house
from training.sample import clause_from
from training.styles import style_tool

ALARM = """domain clock
tool alarm_at | Set an alarm.
  hour* int clock:hour | Hour, 0 to 23
  minute* int clock:minute | Minute
> wake me at {hour}
"""


def test_one_phrase_fills_both_the_hour_and_the_minute() -> None:
    frame = parse_text(ALARM, "a.frames").frames[0]
    seen = set()
    for seed in range(200):
        rng = Random(seed)
        clause = clause_from(frame, frame.templates[0], rng)
        call = style_tool(frame, pick_house(rng), rng, [clause.values]).call(clause.values)
        hour, minute = clause.values["hour"].value.split(":")
        assert sorted(call.arguments.values()) == sorted([int(hour), int(minute)])
        seen.add(int(minute) == 0)
    assert seen == {True, False}


def test_a_template_may_not_speak_of_the_minute_alone() -> None:
    parsed = parse_text(ALARM + "> {minute} past {hour}\n", "a.frames")
    assert any("said along with the hour" in error for error in parsed.errors)


def test_a_minute_without_an_hour_is_an_error() -> None:
    parsed = parse_text(
        "domain d\ntool t | Ring.\n  m* int clock:minute | Minute\n> ring\n", "a.frames"
    )
    assert any("no hour" in error for error in parsed.errors)
