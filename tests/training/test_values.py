"""Values and their words: every surface form means exactly its value."""

from __future__ import annotations

import datetime as dt
import re
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from training.frame_types import Choice, Choices, Flag, Number, Objects, Parameter, Pool
from training.frames_parser import read_parameter
from training.templates import read_template
from training.values import Said, join_list, sample_value
from training.word_pools import from_pool, pool_entries

from training import number_forms, time_forms

SEEDS = st.integers(0, 10**9)
SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9}
SHORT = {"k": 10**3, "K": 10**3, "M": 10**6, "m": 10**6, "mn": 10**6, "B": 10**9, "bn": 10**9}
WORDS = {number_forms.in_words(number): number for number in range(1000)}


def read_back(text: str) -> float:
    """What a careful reader understands: an independent inverse of the forms."""
    text = text.strip().replace(",", "")
    match = re.fullmatch(r"(-?[\d.]+)\s*(?:x 10\^|\u00d710\^)(-?\d+)", text)
    if match:
        return float(f"{match[1]}e{match[2]}")
    match = re.fullmatch(r"(-?[\d.]+)(k|K|M|m|mn|B|bn)", text)
    if match:
        return round(float(match[1]) * SHORT[match[2]], 6)
    head, _, scale = text.rpartition(" ")
    if scale in SCALES and (head in WORDS or head.replace(".", "").isdigit()):
        return round(read_back(head) * SCALES[scale], 6)
    if " point " in text:
        whole, _, fraction = text.partition(" point ")
        sign = -1 if whole.startswith("minus ") else 1
        digits = "".join(str(WORDS[word]) for word in fraction.split())
        return sign * float(f"{WORDS[whole.removeprefix('minus ')]}.{digits}")
    if text.startswith("minus "):
        return -read_back(text.removeprefix("minus "))
    return float(WORDS[text]) if text in WORDS else _long_words(text)


def _long_words(text: str) -> float:
    match = re.match(r"(.+?) (billion|million|thousand)(?: and)?(?: (.+))?$", text)
    if match:
        rest = read_back(match[3]) if match[3] else 0
        return read_back(match[1]) * SCALES[match[2]] + rest
    return float(text)


@given(st.integers(-999, 10**10) | st.integers(0, 9999).map(lambda n: n * 10**5), SEEDS)
def test_integers_mean_themselves_in_every_form(value: int, seed: int) -> None:
    assert read_back(number_forms.say_number(value, Random(seed))) == value


@given(st.decimals(min_value=-500, max_value=10**6, places=2).map(float), SEEDS)
def test_decimals_mean_themselves_in_every_form(value: float, seed: int) -> None:
    assert read_back(number_forms.say_number(value, Random(seed))) == pytest.approx(value)


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, "zero"),
        (21, "twenty-one"),
        (213, "two hundred and thirteen"),
        (1005, "one thousand and five"),
        (5_000_000, "five million"),
    ],
)
def test_numbers_in_words(number: int, words: str) -> None:
    assert number_forms.in_words(number) == words


def test_big_numbers_come_scaled_with_separators_and_bare() -> None:
    said = {number_forms.say_number(5_000_000, Random(seed)) for seed in range(80)}
    assert {"5,000,000", "5000000", "5 million", "5M"} <= said


@given(SEEDS)
def test_a_fraction_is_said_as_percent_or_as_itself(seed: int) -> None:
    spec = Number(0.01, 0.4, kind="fraction", integral=False)
    rng = Random(seed)
    value = number_forms.pick_number(spec, rng)
    said = number_forms.say(spec, value, rng)
    percent = re.fullmatch(r"(.+?)\s*(?:%|percent|per cent)", said)
    read = read_back(percent[1]) / 100 if percent else read_back(said)
    assert read == pytest.approx(value)


@given(SEEDS)
def test_money_means_its_amount(seed: int) -> None:
    rng = Random(seed)
    spec = Number(5, 3_000_000, unit="EUR", kind="money")
    value = number_forms.pick_number(spec, rng)
    said = number_forms.say(spec, value, rng)
    bare = re.sub(r"^€| (euros|EUR)$", "", said)
    assert read_back(bare) == value


@given(SEEDS, st.sampled_from([(1.0, 900.0), (0.001, 0.9), (-40.0, 40.0), (1e3, 9e8)]))
def test_picked_numbers_stay_in_range(seed: int, limits: tuple[float, float]) -> None:
    for integral in (True, False):
        if integral and limits[1] < 1:
            continue
        value = number_forms.pick_number(Number(*limits, integral=integral), Random(seed))
        assert limits[0] <= value <= limits[1]
        assert not integral or value == int(value)


def test_units_agree_in_number() -> None:
    one = {number_forms.with_unit("1", 1, "km", Random(seed)) for seed in range(40)}
    two = {number_forms.with_unit("2", 2, "km", Random(seed)) for seed in range(40)}
    assert {"1 kilometre", "1 km", "1km"} <= one and "1 kilometres" not in one
    assert "2 kilometres" in two and "2 kilometre" not in two
    assert number_forms.with_unit("1", 1, "guests", Random(0)) == "1 guest"


@given(SEEDS)
def test_an_iso_date_is_the_day_that_was_said(seed: int) -> None:
    iso, said = time_forms.say_iso_date(Random(seed))
    day = dt.date.fromisoformat(iso)
    assert str(day.year) in said
    assert re.search(rf"(?<!\d)0?{day.day}(?!\d)", said.replace(str(day.year), ""))
    month = time_forms.MONTHS[day.month - 1]
    assert month[:3] in said or f"-{day.month:02}-" in said or f"/{day.month:02}/" in said


def minutes_of(said: str) -> int:
    """Minutes after midnight, read independently of the code under test."""
    said = said.lower().replace("a.m.", "am").replace("p.m.", "pm").replace(".", ":")
    if said in ("noon", "midnight"):
        return 720 if said == "noon" else 0
    hours = {number_forms.in_words(hour): hour for hour in range(1, 13)}
    match = re.fullmatch(r"(\d+)(?::(\d\d))?\s*(am|pm)?", said)
    if match:
        hour, minute = int(match[1]), int(match[2] or 0)
        return (hour % 12 + 12 * (match[3] == "pm") if match[3] else hour) * 60 + minute
    match = re.fullmatch(r"(\w+)(?: ([a-z-]+))? (am|pm)", said)
    if match and match[1] in hours:
        minute = WORDS[match[2]] if match[2] else 0
        return (hours[match[1]] % 12 + 12 * (match[3] == "pm")) * 60 + minute
    match = re.fullmatch(r"(.+?) (past|to|o'clock) ?(\w+)?(?: (in the \w+|at night))", said)
    assert match, said
    late = match[4] != "in the morning"
    if match[2] == "o'clock":
        raise AssertionError(said)
    step = {"half": 30, "quarter": 15}.get(match[1]) or WORDS[match[1]]
    hour = hours[match[3]] % 12 + 12 * late
    return hour * 60 + (step if match[2] == "past" else -step)


@given(SEEDS)
def test_an_exact_time_is_the_time_that_was_said(seed: int) -> None:
    value, said = time_forms.say_exact_time(Random(seed))
    hour, minute = map(int, value.split(":"))
    if "o'clock" in said:
        assert minute == 0 and said.startswith(number_forms.in_words(hour % 12 or 12))
    else:
        assert minutes_of(said) == hour * 60 + minute


FIXED_LENGTHS = {
    "half an hour": 30, "an hour": 60, "an hour and a half": 90, "a quarter of an hour": 15,
    "three quarters of an hour": 45, "two and a half hours": 150,
}  # fmt: skip


@given(SEEDS, st.sampled_from(["min", "s"]))
def test_an_exact_duration_is_as_long_as_was_said(seed: int, form: str) -> None:
    value, said = time_forms.say_exact_duration(form, Random(seed))
    if said in FIXED_LENGTHS:
        seconds = FIXED_LENGTHS[said] * 60.0
    else:
        seconds = 0.0
        for number, unit in re.findall(r"([\d.]+|[a-z-]+)\s*(h|m|s)[a-z]*(?: and)?", said):
            count = float(number) if number[0].isdigit() else WORDS[number]
            seconds += count * {"h": 3600, "m": 60, "s": 1}[unit]
    assert seconds == value * (60 if form == "min" else 1)


@pytest.mark.parametrize("pool", ["person", "city", "date", "time", "datetime", "email", "id"])
def test_pools_are_copied_word_for_word(pool: str) -> None:
    parameter = read_parameter("x", True, f"str @{pool} | d")
    for seed in range(50):
        said = sample_value(parameter, Random(seed))
        assert said.value == said.text and said.verbatim


@pytest.mark.parametrize("pool", ["city", "country", "song", "food", "topic", "movie", "book"])
def test_pools_hold_more_than_a_hundred_entries_without_doubles(pool: str) -> None:
    entries = pool_entries(pool)
    assert len(entries) >= 100
    assert len(set(entries)) == len(entries)


def test_made_up_pools_vary() -> None:
    for pool in ("person", "email", "phone", "url", "id", "filename", "street", "username"):
        assert len({from_pool(pool, Random(seed)) for seed in range(100)}) > 80


@given(st.lists(st.integers(1, 99), min_size=1, max_size=5, unique=True), SEEDS)
def test_a_list_is_said_whole_and_in_order(items: list[int], seed: int) -> None:
    text = join_list([str(item) for item in items], Random(seed))
    assert [int(number) for number in re.findall(r"\d+", text)] == items


def test_lowering_follows_copied_values_only() -> None:
    assert Said("Oslo", "Oslo", True).lowered() == Said("oslo", "oslo", True)
    assert Said("LAX", "The Airport").lowered() == Said("LAX", "the airport")
    assert Said(["A", "B"], "A and B", True).lowered().value == ["a", "b"]


def test_choices_say_one_of_their_ways() -> None:
    values = Choices((Choice("low", ("dim", "dark")),), closed=True)
    said = {sample_value(_parameter(values), Random(seed)).text for seed in range(20)}
    assert said == {"dim", "dark"}


def test_a_flag_says_yes_or_no() -> None:
    flag = Flag(("with it",), ("without",))
    for seed in range(20):
        said = sample_value(_parameter(flag), Random(seed))
        assert said.value is (said.text == "with it")


def test_objects_hold_what_is_said_of_each() -> None:
    dishes = Choices(tuple(Choice(name, (name,), True) for name in ("Soup", "Cake", "Rice", "Tea")))
    fields = {
        "dish": Parameter("dish", True, "str", dishes),
        "qty": Parameter("qty", True, "int", Number(20, 90)),
    }
    values = Objects((read_template("{qty} x {dish}"),), fields)
    parameter = Parameter("items", True, "str", values, counts=(2, 3))
    for seed in range(40):
        said = sample_value(parameter, Random(seed))
        names = [entry["dish"] for entry in said.value]
        assert len(set(names)) == len(names) and 2 <= len(names) <= 3
        places = [said.text.index(f"x {name}") for name in names]
        assert places == sorted(places)
        assert [entry["dish"] for entry in said.lowered().value] == [n.lower() for n in names]


def _parameter(values: Choices | Flag | Pool) -> Parameter:
    return Parameter("x", True, "str", values)
