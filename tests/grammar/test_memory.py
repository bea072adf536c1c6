"""What is worked out about tools is worked out once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from edgewise.grammar import tools as memory
from edgewise.grammar.tools import per_field, per_tool, per_toolbox
from edgewise.types.messages import Tool

LAMP, FAN = Tool("lamp"), Tool("fan")


def test_a_tool_is_looked_at_once_and_an_equal_one_again() -> None:
    seen: list[str] = []

    @per_tool
    def name(tool: Tool) -> str:
        """Its name."""
        seen.append(tool.name)
        return tool.name

    assert [name(LAMP), name(LAMP), name(FAN), name(Tool("lamp"))] == [
        "lamp",
        "lamp",
        "fan",
        "lamp",
    ]
    assert seen == ["lamp", "fan", "lamp"]
    assert name.__doc__ == "Its name."


def test_tools_that_are_let_go_never_lend_their_place_to_others() -> None:
    @per_tool
    def name(tool: Tool) -> str:
        return tool.name

    assert all(name(Tool(f"tool_{number}")) == f"tool_{number}" for number in range(5_000))


def test_the_text_and_the_order_of_the_tools_count() -> None:
    seen: list[tuple[str, ...]] = []

    @per_toolbox
    def read(text: str, tools: Sequence[Tool]) -> int:
        seen.append((text, *(tool.name for tool in tools)))
        return len(seen)

    assert read("a", [LAMP, FAN]) == read("a", (LAMP, FAN)) == 1
    assert read("b", [LAMP, FAN]) == 2
    assert read("a", [FAN, LAMP]) == 3
    assert read("a", []) == 4


def test_a_field_is_looked_at_once_by_its_name_and_its_schema() -> None:
    seen: list[str] = []

    @per_field
    def read(name: str, schema: Mapping[str, Any]) -> int:
        seen.append(name)
        return len(seen)

    text, number = {"type": "string"}, {"type": "number"}
    assert [read("a", text), read("a", text), read("b", text), read("a", number)] == [1, 1, 2, 3]
    assert read("a", dict(text)) == 4, "an equal one may change on its own"


def test_what_raises_is_tried_again() -> None:
    failing = True

    @per_tool
    def read(tool: Tool) -> str:
        if failing:
            raise ValueError("no sense")
        return tool.name

    with pytest.raises(ValueError, match="no sense"):
        read(LAMP)
    failing = False
    assert read(LAMP) == "lamp"


def test_tools_of_a_strangers_size_are_let_go_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MOST_HELD", 10_000)
    seen: list[str] = []

    @per_tool
    def name(tool: Tool) -> str:
        seen.append(tool.name)
        return tool.name

    parameters = {"properties": {"x": {"enum": ["v" * 100] * 20}}}
    large = [Tool(f"tool_{number}", "", parameters) for number in range(4)]
    for tool in (*large, large[3], large[0]):
        name(tool)
    assert seen == ["tool_0", "tool_1", "tool_2", "tool_3", "tool_0"]


def test_it_does_not_grow_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MOST_TOOLBOXES", 3)
    seen: list[str] = []

    @per_toolbox
    def read(text: str, tools: Sequence[Tool]) -> str:
        seen.append(text)
        return text

    for text in "abcdea":
        assert read(text, [LAMP]) == text
    assert seen == list("abcdea"), "the first was let go"
