"""Requests that hold an action back, and orders in other languages."""

from __future__ import annotations

from random import Random

import pytest
from training.compose import compose
from training.example import Example
from training.held import LANGUAGES, in_words_of

from edgewise.calls.intents import held_back
from edgewise.calls.values.numbers import find_numbers
from edgewise.types.messages import Tool, ToolCall
from tests.training.worlds import family_world


def made(kind: str, count: int) -> list[Example]:
    world, rng = family_world(), Random(kind)
    drawn = (compose(world, rng, kind) for _ in range(count))
    return [example for example in drawn if example]


def test_what_is_held_back_is_not_called_and_what_is_wanted_is() -> None:
    found = made("held", 150)
    kinds = {example.kind for example in found}
    assert kinds == {"held", "held_wanted", "held_beside"}
    for example in found:
        assert len(example.calls) == (0 if example.kind == "held" else 1)
        assert example.answer == "none" or example.calls


def test_the_engine_reads_the_same_words_as_held_back() -> None:
    found = [one for one in made("held", 150) if one.kind in ("held", "held_wanted")]
    by_kind: dict[str, list[bool]] = {"held": [], "held_wanted": []}
    for example in found:
        tools = [Tool(one.tool.name, one.tool.description) for one in example.tools]
        cues = [held_back(ToolCall(tool.name, {}), example.query, tools) for tool in tools]
        by_kind[example.kind].append(any(cues))
    assert sum(by_kind["held"]) > 0.7 * len(by_kind["held"])
    assert sum(by_kind["held_wanted"]) < 0.1 * len(by_kind["held_wanted"])


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_number_in_words_is_read_back(language: str) -> None:
    english = {"de": {11}, "fr": {6, 7, 16}, "es": {11, 15}, "it": {2, 3, 6, 8}}[language]
    for number in set(range(2, 100)) - english:
        read = [one.value for one in find_numbers(in_words_of(number, language))]
        assert read == [number], in_words_of(number, language)


def test_an_order_in_another_language_calls_its_tool_with_its_number() -> None:
    for example in made("elsewhere", 60):
        (call,), (said,) = example.calls, example.clauses
        (value,) = call.arguments.values()
        number = int(str(value))  # some houses write numbers as texts
        words = {in_words_of(number, language) for language in LANGUAGES} | {str(number)}
        assert any(word in said for word in words)
