"""Requests in a conversation: every right answer can be found in what was said."""

from __future__ import annotations

import json
from random import Random

from training.dialogues import SHARES, dialogue
from training.example import Example
from training.followups import varied
from training.generic import label_of
from training.sample import clause_from

from tests.training.worlds import family_world, frame


def made(kind: str, count: int = 40) -> list[Example]:
    rng, found = Random(kind), list[Example]()
    for _ in range(4000):
        example = dialogue(family_world(), rng, kind)
        if example:
            found.append(example)
        if len(found) == count:
            return found
    raise AssertionError(f"only {len(found)} of {kind}")


def last_call(example: Example) -> tuple[str, dict[str, object]]:
    """The call that the history ends with."""
    lines = [line for line in example.before.split("\n") if line.endswith("}<|im_end|>")]
    line = next(one for one in reversed(lines) if not one.startswith(("{", "[")))
    name, _, arguments = line.removesuffix("<|im_end|>").partition(" {")
    return name, json.loads("{" + arguments)


def leaves(value: object, path: str = "") -> dict[str, object]:
    if not isinstance(value, dict):
        return {path: value}
    found: dict[str, object] = {}
    for key, inner in value.items():
        found |= leaves(inner, f"{path}.{key}")
    return found


def test_a_follow_up_changes_one_value_of_the_last_call() -> None:
    checked = 0
    for kind in ("change", "same"):
        for example in made(kind):
            [call] = example.calls
            if "…" in example.before:
                continue
            name, before = last_call(example)
            assert call.name == name
            old, new = leaves(before), leaves(dict(call.arguments))
            assert old.keys() == new.keys()
            assert sum(old[path] != new[path] for path in old) == 1
            checked += 1
    assert checked > 60


def test_bare_words_change_a_value_only_if_it_is_the_only_one_of_its_kind() -> None:
    two_numbers = frame("print.quote")
    for seed in range(200):
        rng = Random(seed)
        clause = clause_from(two_numbers, rng.choice(two_numbers.templates), rng)
        found = varied(two_numbers, clause.values, rng, again=False)
        if found is None:
            continue
        name, said, text = found
        kinds = [value.value for value in clause.values.values() if isinstance(value.value, int)]
        if isinstance(said.value, int) and len(kinds) > 1:
            assert label_of(name) in text.lower() or clause.values[name].text in text, text


def test_we_ask_for_what_is_required_and_was_not_said() -> None:
    for kind in ("ask", "part_answer"):
        for example in made(kind):
            [question] = example.questions
            tool = next(one.tool for one in example.tools if one.tool.name == question.tool)
            for need in question.needs:
                schema = tool.parameters
                for part in need.split("."):
                    assert part in schema["required"]
                    schema = schema["properties"][part]


def test_an_answer_to_our_question_completes_the_call() -> None:
    for example in made("answer"):
        [call] = example.calls
        tool = next(one.tool for one in example.tools if one.tool.name == call.name)
        assert set(tool.parameters["required"]) <= set(call.arguments)
        assert example.before.rstrip().endswith(("?<|im_end|>", ".<|im_end|>"))


def test_nothing_is_called_if_nothing_is_asked_for() -> None:
    for kind in ("thanks", "never_mind"):
        assert {example.answer for example in made(kind)} == {"none"}


def test_every_kind_is_made() -> None:
    assert all(made(kind, 3) for kind in SHARES)
