"""Values that are looked up: days, places, contacts, what a tool gave back, devices of a home."""

from __future__ import annotations

import datetime as dt
import json
from random import Random

import pytest
from training.example import Example
from training.facts import relative_day, relative_time, with_facts
from training.home import home
from training.home_world import Device, Home, build_home, in_split, other_words
from training.rounds import rounds
from training.world import World

from tests.training.worlds import family_world
from training import generate


def test_days_are_counted_from_today() -> None:
    today = dt.date(2026, 11, 16)  # a Monday
    said = {one.text: one.value for one in (relative_day(today, Random(n)) for n in range(400))}
    assert said["today"] == "2026-11-16"
    assert said["tomorrow"] == "2026-11-17"
    assert said["the day after tomorrow"] == "2026-11-18"
    assert said["Friday"] == said["this Friday"] == "2026-11-20"
    assert said["in two weeks"] == "2026-11-30"
    assert "Monday" not in said  # today, or in a week?


def test_times_stay_within_the_day() -> None:
    times = [relative_time("22:30", Random(seed)) for seed in range(60)]
    assert {(one.text, one.value) for one in times if one} >= {("in an hour", "23:30")}
    assert all(one is None or one.value >= "22:30" for one in times)


def test_what_is_looked_up_is_in_the_context() -> None:
    rng, seen = Random(5), dict[str, int]()
    while sum(seen.values()) < 60:
        example = with_facts(family_world(), rng)
        if example is None or example.kind not in ("facts_place", "facts_contact", "facts_mine"):
            continue
        values = json.dumps([dict(call.arguments) for call in example.calls], ensure_ascii=False)
        before = example.before.replace("<|im_end|>", "").replace(": ", "|").replace("\n", "|")
        told = [cell.strip() for cell in before.split("|")]
        assert any(f'"{cell}' in values for cell in told if len(cell) > 2), example.query
        seen[example.kind] = seen.get(example.kind, 0) + 1
    assert len(seen) == 3


def test_what_a_tool_found_is_what_the_next_one_gets() -> None:
    rng, seen = Random(6), dict[str, int]()
    while sum(seen.values()) < 60:
        example = rounds(family_world(), rng)
        if example is None:
            continue
        seen[example.kind] = seen.get(example.kind, 0) + 1
        assert (not example.calls) == (example.kind == "rounds_done")
        if example.kind in ("rounds_second", "rounds_later"):
            result = (example.before + example.after).rpartition("<|im_start|>tool\n")[2]
            values = json.dumps(dict(example.calls[0].arguments), ensure_ascii=False)
            assert any(text in result for text in values.split('"') if len(text) > 3), result
    assert set(seen) == {"rounds_first", "rounds_second", "rounds_later", "rounds_done"}


def test_devices_and_rooms_are_called_as_they_are_listed() -> None:
    rng, checked = Random(7), 0
    while checked < 150:
        example = home(family_world(), rng)
        if example is None or not example.calls:
            continue
        rows = example.before.split("\n")
        listed = {cell.strip() for row in rows for cell in row.replace("area: ", "").split(" | ")}
        listed = {cell.removesuffix("<|im_end|>") for cell in listed}
        for call in example.calls:
            for key in ("area", "room", "floor", "device", "entity"):
                if key in call.arguments:
                    assert call.arguments[key] in listed, (call, example.query)
                    checked += 1


def test_rooms_and_ways_to_ask_of_the_validation_are_its_own() -> None:
    train = {room for seed in range(80) for room in build_home(Random(seed), False).floors}
    valid = {room for seed in range(80) for room in build_home(Random(seed), True).floors}
    assert valid - train
    ways = tuple(f"way {number}" for number in range(40))
    assert not set(in_split(ways, True)) & set(in_split(ways, False))


def test_other_words_for_a_device_fit_no_other_one() -> None:
    desk = Device("Desk Lamp", "light", "Study")
    alone = Home({"Study": "Attic"}, [desk, Device("Floor Lamp", "light", "Study")])
    assert "lamp on the desk" in other_words(desk, alone, valid=False)
    beside = Home({"Study": "Attic"}, [desk, Device("Desk Fan", "fan", "Study")])
    assert other_words(desk, beside, valid=False)
    twins = Home({"Study": "Attic"}, [desk, Device("Desk Lamp Left", "light", "Study")])
    assert not other_words(desk, twins, valid=False)


def test_a_draw_that_breaks_costs_one_example(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = iter(range(100))

    def breaks_once(world: World, rng: Random, kind: str | None = None) -> Example | None:
        if next(calls) == 1:
            raise KeyError("an odd draw")
        return home(world, rng)

    monkeypatch.setattr(generate, "compose", breaks_once)
    assert len(list(generate.examples(family_world(), None, Random(1), 5))) == 5
    monkeypatch.setattr(generate, "compose", lambda *_: dict[str, Example]()["always"])
    with pytest.raises(KeyError):
        list(generate.examples(family_world(), None, Random(1), 5))
