"""Who "him" is and where "there" is, from what was asked before."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.calls.intents import resolve


@pytest.mark.parametrize(
    ("before", "text", "resolved"),
    [
        ("find Tom", "text him", "text Tom"),
        ("Find Tom Ek in my contacts", "ring him at 5 PM", "ring Tom Ek at 5 PM"),
        ("look up the plumber", "call him", "call the plumber"),
        ("find my keys", "send them to Bo", "send my keys to Bo"),
        ("find Ana", "send her a card", "send Ana a card"),
        ("find Ana", "book her flight", "book Ana's flight"),
        ("open 'Autumn'", "play it loud", "play 'Autumn' loud"),
        ("I pay 20 EUR in March for Mia", "write down 3 for them", "write down 3 for Mia"),
        ("tide in the old harbour", "go there at noon", "go to the old harbour at noon"),
        ("Madagascar rain in 1987", "who lived there", "who lived in Madagascar"),
        ("open the gate", "what time is it", "what time is it"),
        ("weather in Faro", "are there storms", "are there storms"),
        ("open the gate", "tell Bo that I saw him", "tell Bo that I saw him"),
        ("sunny", "turn it off", "turn it off"),
    ],
)
def test_a_pronoun_is_put_back_only_where_it_is_clear(
    before: str, text: str, resolved: str
) -> None:
    assert resolve([before, text]) == [before, resolved]


def test_it_goes_on_through_several_intents() -> None:
    assert resolve(["find Tom", "text him", "then call him"])[2] == "then call Tom"


@given(st.lists(st.text(max_size=40), max_size=4))
def test_any_texts_give_as_many_and_the_first_stays(texts: list[str]) -> None:
    resolved = resolve(texts)
    assert len(resolved) == len(texts) and resolved[:1] == texts[:1]
