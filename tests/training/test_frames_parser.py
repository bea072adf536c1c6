"""Frame files: what is read, what is repaired, what is refused with file and line."""

from __future__ import annotations

from pathlib import Path

import pytest
from training.frame_types import Choices, Flag, Number, Objects, Pairs, Pool
from training.frames_parser import main, parse_directory, parse_text, read_parameter
from training.templates import read_template

from tests.training.worlds import EXAMPLES, FRAMES, example_frames, frame

GOOD = """
domain gardening
tool water_schedule | Work out how often a plant needs watering.
  species* str [monstera|snake plant|JFK=Kennedy airport] | Common name
  pot* int 8..60 cm | Diameter
  light enum [low=a dark corner/no light|high=full sun] | Light
> how often do I water my {species} in a {pot} pot{light:, in }{light}
>? water my {species}
>- why do {species} leaves turn yellow
"""


def test_every_frame_file_of_the_repository_is_clean() -> None:
    parsed = parse_directory(FRAMES)
    assert parsed.errors == []
    assert len(parsed.frames) >= 500


def test_the_example_file_uses_every_kind_of_value() -> None:
    kinds = {
        type(parameter.values)
        for example in example_frames()
        for parameter in example.parameters.values()
    }
    assert kinds >= {Choices, Pool, Number, Flag, Pairs}


def test_a_tool_is_read_with_parameters_and_three_kinds_of_request() -> None:
    parsed = parse_text(GOOD, "g.frames")
    assert parsed.errors == []
    [found] = parsed.frames
    assert (found.name, found.domain) == ("water_schedule", "gardening")
    assert found.required == ["species", "pot"]
    assert [len(found.templates), len(found.incomplete), len(found.near_misses)] == [1, 1, 1]
    assert found.templates[0].conditions == {"light"}


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("> water my {species} in a {pott} pot", "g.frames:10: unknown slot pott"),
        ("> water my {species}", "g.frames:10: required pot"),
        (">? water my {species} in {pot}", "g.frames:10: nothing required"),
        ("> water {species in a {pot} pot", "g.frames:10: "),
        ("> water {species}} in a {pot}", "g.frames:10: a closing brace"),
        ("  late* int 1..2 | Too late", "g.frames:10: parameter 'late' after the first"),
        ("what is this", "g.frames:10: "),
    ],
)
def test_bad_lines_are_named_with_file_and_line(line: str, complaint: str) -> None:
    parsed = parse_text(f"{GOOD}{line}\n", "g.frames")
    assert parsed.errors
    assert parsed.errors[0].startswith(complaint)


@pytest.mark.parametrize("rest", ["colour red", "str", "int", "str @planet", "bool", "enum []"])
def test_a_tool_with_a_broken_required_parameter_is_left_out(rest: str) -> None:
    text = f"tool t | T.\n  x* {rest} | X\n> do {{x}}\n"
    parsed = parse_text(text, "b.frames")
    assert parsed.frames == []
    assert any(error.startswith("b.frames:2: ") for error in parsed.errors)


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        ("int 1,000..5M bytes | d", Number(1000, 5_000_000, None, "bytes")),
        ("float 0.5..2 step 0.25 kg | d", Number(0.5, 2, 0.25, "kg", integral=False)),
        ("money 5..90 EUR | d", Number(5, 90, None, "EUR", "money")),
        ("percent 1..40 | d", Number(1, 40, None, "", "percent")),
        ("year 1950..2024 | d", Number(1950, 2024, None, "", "year")),
        ("str @date:iso | d", Pool("date", "iso")),
        ("date:iso | d", Pool("date", "iso")),
        ("str @colour | d", Pool("color")),
    ],
)
def test_values_are_read_in_every_spelling(rest: str, expected: object) -> None:
    parameter = read_parameter("x", True, rest)
    assert parameter.values == expected
    assert parameter.description == "d"


def test_lists_carry_their_counts() -> None:
    assert read_parameter("x", True, "list str [a|b|c] 1..5 | d").counts == (1, 5)
    assert read_parameter("x", True, "list int 1..90 | d").counts == (2, 4)


def test_an_equals_sign_in_a_url_is_no_canonical_value() -> None:
    values = read_parameter("x", True, "str [https://a.b/?q=1|JFK=Kennedy] | d").values
    assert isinstance(values, Choices)
    assert [choice.value for choice in values.options] == ["https://a.b/?q=1", "JFK"]


def test_a_slash_in_a_unit_is_no_alternative() -> None:
    values = read_parameter("x", True, "enum [kmh=km/h|far=distant/remote] | d").values
    assert isinstance(values, Choices)
    assert [choice.said for choice in values.options] == [("km/h",), ("distant", "remote")]


def test_conditional_text_may_hold_slots() -> None:
    template = read_template("go{days: for {days}}!")
    assert [(part.text, part.slot, part.condition) for part in template.parts] == [
        ("go", "", ""),
        (" for ", "", "days"),
        ("", "days", "days"),
        ("!", "", ""),
    ]


def test_the_command_counts_and_fails_on_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.frames").write_text(EXAMPLES.read_text("utf-8"), "utf-8")
    assert main([str(tmp_path)]) == 0
    (tmp_path / "b.frames").write_text("> lost line\n", "utf-8")
    assert main([str(tmp_path)]) == 1
    assert "b.frames:1: " in capsys.readouterr().out


def test_nested_names_stay_whole() -> None:
    assert "guider.enabled" in frame("exposure_plan").parameters


def test_a_list_of_objects_is_read_with_its_fields() -> None:
    text = """tool order | Order.
  items* objects [{qty} {dish}|{dish} x {qty}] 1..3 | Items
  items[].dish* str [soup|cake] | Dish
  items[].qty* int 1..9 | How many
> order {items}
"""
    parsed = parse_text(text, "o.frames")
    assert parsed.errors == []
    values = parsed.frames[0].parameters["items"].values
    assert isinstance(values, Objects)
    assert list(values.fields) == ["dish", "qty"]
    orphan = parse_text("tool t | T.\n  a[].b* int 1..2 | B\n> x {a}\n", "p.frames")
    assert orphan.errors[0].startswith("p.frames:2: 'a' is no list of objects")
