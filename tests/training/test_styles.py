"""Other people's schemas: names, order, enums and nesting change, the meaning does not."""

from __future__ import annotations

from random import Random
from typing import Any

from training.frames_parser import parse_text
from training.houses import pick_house
from training.naming import join_words, tool_name, words_of
from training.sample import sample_clause
from training.styles import StyledTool, _clashes, style_tool
from training.values import Said
from training.wording import third_person, tool_description

from edgewise.calls.prompt import (
    parse_answer,
    render_answer,
)
from tests.training.worlds import example_frames, frame


def styles(seeds: int) -> list[tuple[StyledTool, dict[str, Said]]]:
    made = []
    for seed in range(seeds):
        rng = Random(seed)
        example = rng.choice(example_frames())
        clause = sample_clause(example, rng)
        made.append((style_tool(example, pick_house(rng), rng, [clause.values]), clause.values))
    return made


def leaves(value: Any) -> list[Any]:
    if isinstance(value, dict) and not all(len(key) == 1 for key in value):
        return [leaf for inner in value.values() for leaf in leaves(inner)]
    return [value]


def fields(schema: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = schema.get("properties", {})
    return found


def test_a_call_holds_every_value_and_nothing_else() -> None:
    for styled, values in styles(300):

        def as_written(name: str, styled: StyledTool = styled, values: Any = values) -> Any:
            value, choices = values[name].value, styled.choices.get(name, {})
            if isinstance(value, list):
                return [choices.get(str(item).lower(), item) for item in value]
            return choices.get(str(value).lower(), value)

        call = styled.call(values)
        found = sorted(map(repr, leaves(dict(call.arguments))), key=str.lower)
        wanted = sorted(
            (
                repr(styled.forms[name].convert(said) if name in styled.forms else as_written(name))
                for name, said in values.items()
            ),
            key=str.lower,
        )
        assert [text.lower() for text in found] == [text.lower() for text in wanted]


def test_arguments_are_in_the_order_of_the_schema_and_known_to_it() -> None:
    for styled, values in styles(300):
        names = list(styled.call(values).arguments)
        known = list(fields(dict(styled.tool.parameters)))
        assert names == [name for name in known if name in names]


def test_required_parameters_are_always_given() -> None:
    for styled, values in styles(300):
        arguments = styled.call(values).arguments
        assert set(styled.tool.parameters["required"]) <= set(arguments)


def test_a_value_of_an_enum_is_one_of_its_choices() -> None:
    checked = 0
    for styled, values in styles(400):
        arguments = styled.call(values).arguments
        for name, schema in fields(dict(styled.tool.parameters)).items():
            if "enum" in schema and name in arguments:
                assert arguments[name] in schema["enum"]
                checked += 1
    assert checked > 20


def test_strict_schemas_keep_what_is_required() -> None:
    example = frame("toolLibrary.borrow")
    for seed in range(60):
        rng = Random(seed)
        styled = style_tool(example, pick_house(rng), rng, strict=True)
        assert len(styled.tool.parameters["required"]) == 3


def test_optional_parameters_that_were_not_said_are_never_required() -> None:
    example = frame("print.quote")
    for seed in range(100):
        rng = Random(seed)
        styled = style_tool(example, pick_house(rng), rng)
        assert len(styled.tool.parameters["required"]) <= 3


def test_names_and_descriptions_vary() -> None:
    example = frame("forage.log_find")
    names, rendered = set(), set()
    for seed in range(200):
        rng = Random(seed)
        styled = style_tool(example, pick_house(rng), rng)
        names.add(styled.tool.name)
        rendered.add(styled.rendered)
    assert len(names) > 12
    assert len(rendered) > 150


def test_answers_of_styled_tools_can_be_written_and_read() -> None:
    for styled, values in styles(100):
        call = styled.call(values)
        [back] = parse_answer(render_answer([call]))
        assert (back.name, back.arguments) == (call.name, call.arguments)


def test_names_in_other_cases_keep_their_words() -> None:
    assert words_of("regularPolygon.areaHTML_v2") == ["regular", "polygon", "area", "html", "v2"]
    assert join_words(["set", "lamp", "colour"], "camel", Random(0)) == "setLampColour"
    assert join_words(["set", "lamp"], "pascal", Random(0)) == "SetLamp"
    assert join_words(["set", "lamp"], "dotted", Random(0)) == "set.lamp"
    for seed in range(50):
        name = tool_name("set_lamp", "light", "snake", True, Random(seed))
        assert "lamp" in name or name.isalpha()


def test_descriptions_say_the_same_in_other_words() -> None:
    assert third_person("Search the files") == "Searches the files"
    for seed in range(60):
        text = tool_description("Set the brightness of one lamp.", Random(seed)).lower()
        assert "the brightness of one lamp" in text


def test_a_group_and_a_field_of_the_same_name_do_not_clash() -> None:
    taken = [("filters",), ("options", "limit")]
    assert _clashes(("filters", "city"), taken)
    assert _clashes(("options",), taken)
    assert _clashes(("options", "limit"), taken)
    assert not _clashes(("options", "city"), taken)


def test_a_parameter_that_wants_codes_for_words_is_always_described() -> None:
    text = """domain money

tool fx | Exchange money.
  base* str [HUF=forints|CZK=crowns|GBP=pounds|SEK=kronor|JPY=yen|THB=baht] | Code of the currency
> exchange {base}
"""
    exchange = parse_text(text, "fx").frames[0]
    for seed in range(40):
        rng = Random(seed)
        styled = style_tool(exchange, pick_house(rng), rng)
        (name,) = styled.paths["base"]
        base = styled.tool.parameters["properties"][name]
        assert "code of the currency" in base["description"].lower()
