"""Prompts with numbered passages, and reading the numbers back."""

from __future__ import annotations

import pytest

from edgewise.search.documents import cited_numbers, cited_prompt, room_for_passages, sources
from edgewise.types.embeddings import Hit


def hit(path: str, text: str) -> Hit:
    return Hit(path=path, first_line=3, last_line=9, text=text, score=0.5)


def test_passages_are_numbered_with_their_places() -> None:
    prompt, used = cited_prompt("Why?", [hit("a.md", "Because."), hit("b.md", "So.")], 500)
    assert "[1] a.md:3-9\nBecause." in prompt
    assert "[2] b.md:3-9\nSo." in prompt
    assert "Question: Why?" in prompt
    assert len(used) == 2


@pytest.mark.parametrize("room", [0, 100, 250, 500, 1000, 5000])
def test_passages_never_take_more_than_the_room(room: int) -> None:
    bare = len(cited_prompt("Why?", [hit("a", "x")], 100)[0]) - len("[1] a:3-9\nx")
    prompt, used = cited_prompt("Why?", [hit("a.md", "y" * 400), hit("b.md", "z" * 400)], room)
    assert len(prompt) - bare <= room or not used


def test_without_room_the_question_stands_alone() -> None:
    assert cited_prompt("Why?", [hit("a.md", "y" * 900)], 20) == ("Why?", [])


def test_a_larger_answer_leaves_less_room() -> None:
    assert room_for_passages(2048, "Why?", 256) > room_for_passages(2048, "Why?", 1024) > 0
    assert room_for_passages(100, "Why?", 256) < 0


def test_numbers_are_read_back_and_made_up_ones_are_not() -> None:
    assert cited_numbers("So it is [1, 3] and [2]; see [9] and [x].", 3) == {1, 2, 3}
    found = sources([hit("a.md", "A"), hit("b.md", "B")], "It is so [2].")
    assert [(one["number"], one["cited"], one["path"]) for one in found] == [
        (1, False, "a.md"),
        (2, True, "b.md"),
    ]
