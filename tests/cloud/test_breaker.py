"""The breaker: opens on failures, half-opens by itself, never latches."""

from __future__ import annotations

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.cloud.door import FAILURES_TO_OPEN, LONGEST_COOLDOWN_S, Breaker, Permit
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


def permitted(breaker: Breaker) -> Permit:
    permit = breaker.allow()
    assert permit is not None
    return permit


def fail(breaker: Breaker, error: CloudError) -> None:
    """A request that left, and failed."""
    breaker.failed(permitted(breaker), error)


@pytest.mark.parametrize("error", [CloudUnreachable, CloudTimeout, CloudAuthFailed])
def test_one_failure_to_reach_it_opens(clock: Clock, error: type[CloudError]) -> None:
    breaker = Breaker(5.0, clock)
    fail(breaker, error("x"))
    assert (breaker.state, breaker.allow()) == ("open", None)


def test_server_errors_open_only_when_they_repeat(clock: Clock) -> None:
    breaker = Breaker(5.0, clock)
    for _ in range(FAILURES_TO_OPEN - 1):
        fail(breaker, CloudFailed("500"))
        assert breaker.allow()
    fail(breaker, CloudCut("cut"))
    assert not breaker.allow()


def test_a_success_forgets_earlier_failures(clock: Clock) -> None:
    breaker = Breaker(5.0, clock)
    for _ in range(10):
        fail(breaker, CloudFailed("500"))
        breaker.succeeded(permitted(breaker))
    assert breaker.state == "closed"


def test_a_bad_request_says_nothing_about_the_provider(clock: Clock) -> None:
    breaker = Breaker(5.0, clock)
    for _ in range(20):
        fail(breaker, CloudRejected("400"))
    assert breaker.state == "closed"


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOBUFS])
def test_what_this_machine_lacks_says_nothing_about_the_provider(clock: Clock, number: int) -> None:
    breaker = Breaker(cooldown_s=5, clock=clock)
    for _ in range(2 * FAILURES_TO_OPEN):
        error = CloudUnreachable("no connection")
        error.__cause__ = RuntimeError("the SDK's")
        error.__cause__.__context__ = OSError(number, "none left")
        breaker.failed(permitted(breaker), error)
    assert breaker.would_allow()


def test_it_half_opens_by_itself_for_exactly_one_probe(clock: Clock) -> None:
    breaker = Breaker(5.0, clock)
    fail(breaker, CloudUnreachable("x"))
    clock.now = 4.9
    assert not breaker.allow()
    clock.now = 5.1
    assert breaker.would_allow()
    probe = permitted(breaker)
    assert not breaker.allow()
    breaker.succeeded(probe)
    assert breaker.allow() and breaker.state == "closed"


def test_nobody_waits_for_the_end_of_a_probe_whose_answer_has_begun(clock: Clock) -> None:
    breaker = Breaker(5.0, clock)
    fail(breaker, CloudUnreachable("x"))
    clock.now = 6.0
    probe = permitted(breaker)
    breaker.began(probe)
    other = permitted(breaker)
    breaker.began(other)
    breaker.failed(probe, CloudTimeout("cut after all"))
    assert breaker.state == "open", "what it found in the end still counts"


def test_a_failed_probe_opens_it_for_longer(clock: Clock) -> None:
    breaker = Breaker(5.0, clock)
    fail(breaker, CloudUnreachable("x"))
    clock.now = 6.0
    fail(breaker, CloudFailed("500"))
    assert 9.0 < breaker.seconds_left() <= 10.0


def test_a_probe_whose_user_left_is_given_back(clock: Clock) -> None:
    breaker = Breaker(5.0, clock)
    fail(breaker, CloudUnreachable("x"))
    clock.now = 6.0
    first = permitted(breaker)
    breaker.released(first)
    second = permitted(breaker)
    breaker.released(first)
    assert not breaker.allow(), "the second one is still out"
    breaker.succeeded(second)
    assert breaker.state == "closed"


@pytest.mark.parametrize("ending", ["succeeded", "released", "rejected", "failed"])
def test_what_left_before_it_opened_does_not_act_on_the_probe(clock: Clock, ending: str) -> None:
    breaker = Breaker(5.0, clock)
    early = permitted(breaker)
    fail(breaker, CloudUnreachable("x"))
    clock.now = 6.0
    probe = permitted(breaker)
    if ending == "succeeded":
        breaker.succeeded(early)
    elif ending == "released":
        breaker.released(early)
    else:
        kind = CloudRejected if ending == "rejected" else CloudUnreachable
        breaker.failed(early, kind("x"))
    assert not breaker.allow(), "the probe is still out"
    breaker.succeeded(probe)
    assert breaker.state == "closed"


def test_many_that_fail_at_once_open_it_once(clock: Clock) -> None:
    breaker = Breaker(5.0, clock)
    for permit in [permitted(breaker) for _ in range(30)]:
        breaker.failed(permit, CloudUnreachable("x"))
    assert breaker.seconds_left() == 5.0
    clock.now = 6.0
    breaker.succeeded(permitted(breaker))
    assert breaker.state == "closed"


def test_retry_after_is_honoured(clock: Clock) -> None:
    breaker = Breaker(5.0, clock)
    fail(breaker, CloudRateLimited("429", retry_after_s=42.0))
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
        if permit := breaker.allow():
            if what == "ok":
                breaker.succeeded(permit)
            elif what == "left":
                breaker.released(permit)
            else:
                breaker.failed(permit, FAILURES[int(what)])
        clock.now += 1.0
    clock.now += LONGEST_COOLDOWN_S + 1
    permit = breaker.allow()
    assert permit, "after the longest cool-down a probe is always allowed"
    breaker.succeeded(permit)
    assert breaker.state == "closed"
