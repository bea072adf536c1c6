"""Other forms of a value: the description asks for one, the call has exactly that."""

from __future__ import annotations

from random import Random

import pytest
from training.forms import pick_form
from training.frames_parser import read_parameter
from training.houses import House
from training.styles import style_tool
from training.values import Said

from tests.training.worlds import frame


@pytest.mark.parametrize(
    ("rest", "said", "expected"),
    [
        ("percent 1..40 | Share", Said(15, "15%"), {15, 0.15}),
        ("fraction 0.01..0.4 | Share", Said(0.15, "15%"), {15, 0.15}),
        (
            "date:iso | Day",
            Said("2025-03-04", "4 March 2025"),
            {"2025-03-04", "4 March 2025", "03/04/2025", "04/03/2025", "04.03.2025", "20250304"},
        ),
        (
            "time:24h | When",
            Said("19:05", "five past seven"),
            {"19:05", "five past seven", "7:05 PM"},
        ),
        (
            "duration:min | How long",
            Said(90, "an hour and a half"),
            {90, 5400, "an hour and a half"},
        ),
    ],
)
def test_every_form_is_reached_and_exact(rest: str, said: Said, expected: set[object]) -> None:
    parameter = read_parameter("x", True, rest)
    found = set()
    for step in range(200):
        form = pick_form(parameter, step / 200)
        found.add(form.convert(said) if form else said.value)
    assert found == expected


@pytest.mark.parametrize(
    ("name", "rest"),
    [("rate_percent", "percent 1..40 | Rate"), ("day", "date:iso | Day as YYYY-MM-DD")],
)
def test_a_name_or_description_that_settles_the_form_is_obeyed(name: str, rest: str) -> None:
    parameter = read_parameter(name, True, rest)
    assert all(pick_form(parameter, step / 50) is None for step in range(50))


def test_a_city_is_given_in_full_where_the_schema_asks_and_it_is_known() -> None:
    parameter = read_parameter("x", True, "str @city | City")
    form = pick_form(parameter, 0.99, [Said("boston", "boston", True)])
    assert form and form.convert(Said("boston", "boston", True)) == "Boston, MA"
    assert form.convert(Said("Lyon, France", "Lyon, France", True)) == "Lyon, France"
    assert pick_form(parameter, 0.99, [Said("Atlantis", "Atlantis", True)]) is None
    assert pick_form(parameter, 0.5, [Said("Boston", "Boston", True)]) is None


def test_the_description_says_which_form_is_wanted() -> None:
    house = House("as_is", False, 1.0, 0.0, 0.0)
    for seed in range(200):
        styled = style_tool(frame("toolLibrary.borrow"), house, Random(seed))
        name = styled.paths["from_day"][-1]
        text = styled.tool.parameters["properties"][name].get("description", "")
        form = styled.forms.get("from_day")
        assert not form or any(hint in text for hint in form.hints)
        assert form or "YYYY" in text or "ISO" in text
