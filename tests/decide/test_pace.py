"""How long an answer would take: what is measured, and when it is a reason to leave."""

from __future__ import annotations

from statistics import median
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.decide.policy import FRESH_S, LEAST, WINDOW, MovingMedian, Pace
from edgewise.types.messages import Image, Message, Money, Request, Steering, Tool
from edgewise.types.replies import Attempt, Decision, Reply

ASKED = Message("user", "Tell me about the sea." * 4)  # 27 tokens, as they are estimated
DECISION = Decision(policy="prefer_local", handoff="automatic", code="", reason="")


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@given(
    st.lists(
        st.tuples(st.floats(0, FRESH_S), st.floats(0, 1e6)),
        max_size=4 * WINDOW,
    )
)
def test_a_moving_median_is_that_of_the_last_fresh_values(
    values: list[tuple[float, float]],
) -> None:
    clock = Clock()
    moving = MovingMedian(clock)
    added: list[tuple[float, float]] = []
    for later, value in values:
        clock.now += later
        moving.add(value)
        added.append((clock.now, value))
        fresh = [one for at, one in added[-WINDOW:] if clock.now - at <= FRESH_S]
        assert moving.value == (median(fresh) if len(fresh) >= LEAST else None)
    clock.now += 2 * FRESH_S
    assert moving.value is None, "everything is forgotten in the end"


def local(
    seconds: float = 14.0, tokens: int = 101, outcome: str = "answered", first_s: float = 4.0
) -> Attempt:
    return Attempt(
        place="local",
        backend="scripted",
        model="here",
        outcome=outcome,
        first_token_ms=1000 * first_s,
        total_ms=1000 * seconds,
        input_tokens=27,
        output_tokens=tokens,
    )


def cloud(seconds: float = 2.0, model: str = "there", outcome: str = "answered") -> Attempt:
    return Attempt(
        place="cloud", backend="played", model=model, outcome=outcome, total_ms=1000 * seconds
    )


def ask(*messages: Message, **options: Any) -> Request:
    return Request(messages=messages or (ASKED,), **options)


def paced(*attempts: Attempt, slow_after_s: float = 10.0, clock: Clock | None = None) -> Pace:
    pace = Pace(slow_after_s, clock or Clock())
    for attempt in attempts:
        pace.watch(ask(), served(attempt))
    return pace


def served(*attempts: Attempt) -> Reply:
    return Reply(id="r", text="", source="local", decision=DECISION, attempts=attempts)


THREE_EACH = (*[local()] * 3, *[cloud()] * 3)


def test_a_device_that_needs_longer_than_the_cloud_and_longer_than_the_limit_is_slow() -> None:
    slow = paced(*THREE_EACH).find_slowness(ask(), "here")
    assert slow is not None and (slow.code, slow.soft) == ("slow_device", True)
    assert slow.reason == "the device would need about 14 s, the cloud usually takes 2.0 s"


@pytest.mark.parametrize(
    ("attempts", "because"),
    [
        ([local()] * 3 + [cloud()] * 2, "the cloud was asked twice"),
        ([local()] * 2 + [cloud()] * 3, "the device has answered twice"),
        ([local(9.0)] * 3 + [cloud()] * 3, "nobody minds so short a wait"),
        ([local()] * 3 + [cloud(15.0)] * 3, "the cloud is slower"),
        ([local()] * 3 + [cloud()] * 3 + [cloud(20.0, "other")] * 3, "another cloud answers now"),
        ([local(tokens=2)] * 3 + [cloud()] * 3, "two tokens say nothing about speed"),
        ([local(outcome="handed_off")] * 3 + [cloud()] * 3, "no answer was ever finished"),
        ([local()] * 3 + [cloud(outcome="cloud_timeout")] * 3, "the cloud has only failed"),
    ],
)
def test_otherwise_time_is_no_reason(attempts: list[Attempt], because: str) -> None:
    assert paced(*attempts).find_slowness(ask(), "here") is None, because


@pytest.mark.parametrize("tokens", [1, 12])
def test_a_device_that_reads_for_long_and_never_answers_is_slow(tokens: int) -> None:
    handed_off = local(outcome="handed_off", tokens=tokens, first_s=12.0)
    slow = paced(*[handed_off] * 3, *[cloud()] * 3).find_slowness(ask(), "here")
    assert slow is not None and slow.code == "slow_device"
    assert paced(*[handed_off] * 2, *[cloud()] * 3).find_slowness(ask(), "here") is None


def test_one_setting_turns_it_off_and_another_model_is_not_known() -> None:
    assert paced(*THREE_EACH, slow_after_s=0.0).find_slowness(ask(), "here") is None
    assert paced(*THREE_EACH).find_slowness(ask(), "elsewhere") is None


def test_a_request_that_says_itself_what_it_wants_is_left_alone() -> None:
    pace = paced(*THREE_EACH)
    for options in (
        {"policy": "local_only"},
        {"handoff": "signal"},
        {"deadline_ms": 60_000},
        {"max_tokens": 50},  # 4 s of reading and 5 s of writing
    ):
        assert pace.find_slowness(ask(**options), "here") is None, options


def test_a_paced_budget_keeps_the_answer_unless_there_is_money_for_all() -> None:
    pace = paced(*THREE_EACH)
    for left, leaves in ((999, False), (1000, True)):
        money = Money(left, requests_left=10, handoff_microdollars=100, words="$1/day")
        found = pace.find_slowness(ask(steering=Steering(money=money)), "here")
        assert (found is not None) == leaves


def test_a_longer_prompt_takes_longer_and_earlier_turns_were_read_before() -> None:
    pace = paced(*[local(seconds=9.0)] * 3, *[cloud()] * 3)
    long = Message("user", ASKED.content * 4)
    assert pace.find_slowness(ask(), "here") is None
    assert pace.find_slowness(ask(long), "here") is not None
    answered = Message("assistant", "It is wet.")
    assert pace.find_slowness(ask(long, answered, ASKED), "here") is None


def test_a_model_that_was_loading_when_it_was_first_asked_is_not_slow() -> None:
    loading = local(seconds=60.0, first_s=55.0)
    quick = [local(seconds=3.0, first_s=0.5)] * 3
    assert paced(loading, *quick, *[cloud()] * 3).find_slowness(ask(), "here") is None


def test_a_device_that_was_busy_gets_another_chance() -> None:
    clock = Clock()
    pace = paced(*THREE_EACH, clock=clock)
    assert pace.find_slowness(ask(), "here") is not None
    clock.now += FRESH_S + 1
    assert pace.find_slowness(ask(), "here") is None


@pytest.mark.parametrize(
    "other",
    [
        ask(task="call"),
        ask(tools=(Tool("alarm"),)),
        ask(Message("user", "What is this?", images=(Image(b"png"),))),
    ],
)
def test_calls_and_pictures_say_nothing_about_words(other: Request) -> None:
    pace = Pace(10.0, Clock())
    for attempt in THREE_EACH:
        pace.watch(other, served(attempt))
    assert pace.find_slowness(ask(), "here") is None
