"""The breaker: opens on failures, half-opens by itself, never latches."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.cloud.breaker import FAILURES_TO_OPEN, LONGEST_COOLDOWN_S, Breaker
from edgewise.errors import (
    CloudAuthFailed,
    CloudCut,
    CloudError,
    CloudFailed,
    CloudRateLimited,
    CloudRejected,
    CloudTimeout,
    CloudUnreachable,
)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.mark.parametrize("error", [CloudUnreachable, CloudTimeout, CloudAuthFailed])
def test_one_failure_to_reach_it_opens(clock: Clock, error: type[CloudError]) -> None:
    breaker = Breaker(5.0, clock)
    breaker.failed(error("x"))
    assert (breaker.state, breaker.allow()) == ("open", False)


def test_server_errors_open_only_when_they_repeat(clock: Clock) -> None:
    breaker = Breaker(5.0, clock)
    for _ in range(FAILURES_TO_OPEN - 1):
        breaker.failed(CloudFailed("500"))
        assert breaker.allow()
    breaker.failed(CloudCut("cut"))
    assert not breaker.allow()


def test_a_success_forgets_earlier_failures(clock: Clock) -> None:
    breaker = Breaker(5.0, clock)
    for _ in range(10):
        breaker.failed(CloudFailed("500"))
        breaker.succeeded()
    assert breaker.state == "closed"


def test_a_bad_request_says_nothing_about_the_provider(clock: Clock) -> None:
    breaker = Breaker(5.0, clock)
    for _ in range(20):
        breaker.failed(CloudRejected("400"))
    assert breaker.state == "closed"


def test_it_half_opens_by_itself_for_exactly_one_probe(clock: Clock) -> None:
    breaker = Breaker(5.0, clock)
    breaker.failed(CloudUnreachable("x"))
    clock.now = 4.9
    assert not breaker.allow()
    clock.now = 5.1
    assert breaker.would_allow()
    assert [breaker.allow(), breaker.allow()] == [True, False]
    breaker.succeeded()
    assert breaker.allow() and breaker.state == "closed"


def test_a_failed_probe_opens_it_for_longer(clock: Clock) -> None:
    breaker = Breaker(5.0, clock)
    breaker.failed(CloudUnreachable("x"))
    clock.now = 6.0
    assert breaker.allow()
    breaker.failed(CloudFailed("500"))
    assert 9.0 < breaker.seconds_left() <= 10.0


def test_a_probe_whose_user_left_is_given_back(clock: Clock) -> None:
    breaker = Breaker(5.0, clock)
    breaker.failed(CloudUnreachable("x"))
    clock.now = 6.0
    assert breaker.allow()
    breaker.released()
    assert breaker.allow()


def test_retry_after_is_honoured(clock: Clock) -> None:
    breaker = Breaker(5.0, clock)
    breaker.failed(CloudRateLimited("429", retry_after_s=42.0))
    assert breaker.seconds_left() == 42.0


outcomes = st.lists(
    st.sampled_from(["ok", "left", *range(6)]).map(str),
    max_size=60,
)
FAILURES = [
    CloudUnreachable("x"),
    CloudTimeout("x"),
    CloudFailed("x"),
    CloudRejected("x"),
    CloudRateLimited("x", retry_after_s=10_000),
    CloudAuthFailed("x"),
]


@given(outcomes)
def test_it_never_latches(history: list[str]) -> None:
    clock = Clock()
    breaker = Breaker(5.0, clock)
    for what in history:
        if breaker.allow():
            if what == "ok":
                breaker.succeeded()
            elif what == "left":
                breaker.released()
            else:
                breaker.failed(FAILURES[int(what)])
        clock.now += 1.0
    clock.now += LONGEST_COOLDOWN_S + 1
    assert breaker.allow(), "after the longest cool-down a probe is always allowed"
    breaker.succeeded()
    assert breaker.state == "closed"
