"""Which intent a call answers: an alignment that never goes back."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from edgewise.calls.rank_tools import (
    _score,
    assign,
    unanswered,
)
from edgewise.calls.values.read import (
    Heard,
    hear,
)
from edgewise.types.messages import ToolCall
from tests.flows.calling import FIVE, LONDON, TOOLS

BY_NAME = {each.name: each for each in TOOLS}


def heard(*texts: str) -> list[Heard]:
    return [hear(text) for text in texts]


def test_each_call_goes_to_the_words_that_say_its_arguments() -> None:
    tea = ToolCall("set_timer", {"minutes": 3})
    words = heard("Set a timer for 5 minutes", "check the weather in London", "a timer for 3")
    assert assign([FIVE, LONDON, tea], BY_NAME, words) == (0, 1, 2)
    assert assign([LONDON, tea], BY_NAME, words) == (1, 2)
    assert assign([LONDON], BY_NAME, words) == (1,)


def test_two_calls_may_answer_one_intent() -> None:
    paris = ToolCall("get_weather", {"location": "Paris"})
    words = heard("set a timer for 5 minutes", "the weather in London and in Paris")
    assert assign([FIVE, LONDON, paris], BY_NAME, words) == (0, 1, 1)


def test_one_intent_takes_all_and_no_call_takes_none() -> None:
    assert assign([FIVE, LONDON], BY_NAME, heard("anything")) == (0, 0)
    assert assign([FIVE], BY_NAME, []) == (0,)
    assert assign([], BY_NAME, heard("one", "two")) == ()


def test_unanswered_intents_are_named_in_order() -> None:
    assert unanswered((1, 1, 3), 5) == (0, 2, 4)
    assert unanswered((), 0) == ()


SAID = ["set", "timer", "5", "minutes", "weather", "London", "Paris", "message", "Tom", "7", "and"]
WORDS = st.lists(st.sampled_from(SAID), max_size=6).map(" ".join)
CALLS = st.one_of(
    st.builds(lambda n: ToolCall("set_timer", {"minutes": n}), st.integers(-1, 9)),
    st.builds(
        lambda place: ToolCall("get_weather", {"location": place}),
        st.sampled_from(["London", "Paris", "Rome", ""]),
    ),
    st.just(ToolCall("nobody_knows_this", {"x": [1, {"y": None}]})),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(CALLS, max_size=6), st.lists(WORDS, min_size=1, max_size=5))
def test_every_call_has_an_intent_and_the_order_never_goes_back(
    calls: list[ToolCall], texts: list[str]
) -> None:
    owners = assign(calls, BY_NAME, heard(*texts))
    assert len(owners) == len(calls)
    assert all(0 <= owner < len(texts) for owner in owners)
    assert all(before <= after for before, after in pairwise(owners))
    rest = unanswered(owners, len(texts))
    assert set(rest) | set(owners) == set(range(len(texts)))
    assert not set(rest) & set(owners)


def test_the_best_sum_is_found_not_the_first() -> None:
    """By trying every alignment."""

    words = heard("timer for 7 minutes", "timer for 5 minutes", "London weather", "timer 7")
    calls: list[Any] = [FIVE, LONDON, ToolCall("set_timer", {"minutes": 7})]
    scores = [[_score(call, BY_NAME[call.name], one) for one in words] for call in calls]

    def total(path: tuple[int, ...]) -> float:
        return sum(scores[row][column] for row, column in enumerate(path))

    paths = [p for p in product(range(len(words)), repeat=3) if list(p) == sorted(p)]
    assert total(assign(calls, BY_NAME, words)) == max(map(total, paths))
