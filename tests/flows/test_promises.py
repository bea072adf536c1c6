"""Promises that hold for any token stream, any gate and any cloud."""

from __future__ import annotations

import time

from hypothesis import given, settings
from hypothesis import strategies as st

from edgewise.cloud.provider import Chunk
from edgewise.decide import policy as policies
from edgewise.decide.calibration import CHAT, Calibration, Score
from edgewise.decide.gate import HELD_TOKENS
from edgewise.errors import (
    CloudClosed,
    CloudCut,
    CloudEmpty,
    CloudError,
    CloudTimeout,
    CloudUnreachable,
    EdgewiseError,
)
from edgewise.flows.chat import ChatNeeds, answer
from edgewise.testing import ScriptedBackend
from edgewise.types.messages import Handoff, Message, Request
from edgewise.types.replies import Attempt, Finished, TextDelta, Token
from tests.campaigns import rounds
from tests.flows.clouds import PlayedCloud

token = st.builds(
    Token,
    text=st.text(max_size=6),
    logprob=st.floats(-8, 0),
    margin=st.floats(0, 8),
    entropy=st.floats(0, 3),
    has_evidence=st.booleans(),
)
chunks: st.SearchStrategy[list[Chunk]] = st.lists(st.text(min_size=1, max_size=8), max_size=5)
errors: st.SearchStrategy[CloudError | None] = st.sampled_from(
    [None, CloudUnreachable("x"), CloudTimeout("x"), CloudCut("x"), CloudEmpty("x")]
)
shut = st.sampled_from([None, None, CloudClosed("x", code="no_key")])
calibrations = st.builds(
    lambda bias, hold, threshold, above, below: CHAT.uncalibrated.with_scores(
        early=Score({"mean_logprob": 1.0}, bias),
        final=Score({"mean_logprob": 1.0, "first_margin": 0.3}, bias),
        hold_tokens=hold,
        threshold=threshold,
        keep_above=above,
        drop_below=below,
    ),
    st.floats(-3, 3),
    st.integers(1, 20),
    st.floats(0, 1),
    st.floats(0, 1),
    st.floats(0, 1),
)


@settings(max_examples=rounds(400), deadline=None)
@given(
    tokens=st.lists(token, max_size=30),
    calibration=calibrations,
    said=chunks,
    error=errors,
    closed=shut,
    policy=st.sampled_from(["local_only", "prefer_local", "prefer_cloud", "cloud_only"]),
    handoff=st.sampled_from(["automatic", "signal"]),
    private=st.booleans(),
    live=st.booleans(),
    fail_after=st.none() | st.integers(0, 10),
)
def test_text_shown_is_the_text_of_the_reply(
    tokens: list[Token],
    calibration: Calibration,
    said: list[Chunk],
    error: CloudError | None,
    closed: CloudClosed | None,
    policy: str,
    handoff: Handoff,
    private: bool,
    live: bool,
    fail_after: int | None,
) -> None:
    answers = [tuple(tokens)]
    backend = (
        ScriptedBackend(answers)
        if fail_after is None
        else ScriptedBackend(answers, fail_after=fail_after)
    )
    cloud = PlayedCloud(said, error=error, shut=closed)
    request = Request(
        messages=(Message("user", "?"),),
        policy=policy,
        handoff=handoff,
        private=private,
    )
    parts = ChatNeeds(
        backend=lambda: backend,
        cloud=cloud,
        policy=getattr(policies, policy),
        calibration=lambda _: calibration,
        patience_s=2.0,
        clock=time.perf_counter,
    )
    attempts: list[Attempt] = []
    shown = ""
    reply = None
    try:
        for event in answer(request, parts, attempts, live=live):
            assert reply is None, "nothing comes after Finished"
            if isinstance(event, TextDelta):
                shown += event.text
            elif isinstance(event, Finished):
                reply = event.reply
    except EdgewiseError:
        return  # an honest refusal; what was shown until then was never called an answer
    assert reply is not None
    assert reply.text == shown
    if private or policy == "local_only":
        assert cloud.asked == []
        assert reply.source in ("local", "none")
    if reply.source == "local" and reply.text:
        assert all(a.place == "local" for a in reply.attempts if a.shown_chars)
    if reply.degraded:
        assert reply.decision.degraded_code
    if reply.signalled:
        assert handoff == "signal" and reply.text == "" and cloud.asked == []
    if any(a.place == "cloud" and a.outcome != "answered" for a in reply.attempts):
        assert reply.degraded, "a failed cloud call is never passed over in silence"
    assert sum(a.shown_chars for a in reply.attempts) == len(reply.text)


@settings(max_examples=rounds(150), deadline=None)
@given(tokens=st.lists(token, min_size=1, max_size=60), calibration=calibrations)
def test_no_more_than_the_bound_is_ever_held_back(
    tokens: list[Token], calibration: Calibration
) -> None:
    backend = ScriptedBackend([tuple(tokens)])
    parts = ChatNeeds(
        backend=lambda: backend,
        cloud=PlayedCloud(),
        policy=policies.prefer_local,
        calibration=lambda _: calibration,
        patience_s=2.0,
        clock=time.perf_counter,
    )
    attempts: list[Attempt] = []
    request = Request(messages=(Message("user", "?"),))
    for event in answer(request, parts, attempts, live=True):
        if isinstance(event, Finished):
            after = event.reply.decision.decided_after_tokens
            assert after is None or after <= HELD_TOKENS
            break
        assert backend.generated <= len(tokens)
