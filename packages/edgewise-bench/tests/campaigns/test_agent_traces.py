"""Agents' work replayed: the model of a cache, and what it says of conversations that stay."""

from __future__ import annotations

from edgewise.cloud.provider import ProviderConfig
from edgewise.cloud.providers import LibraryPrices
from edgewise.decide.policy import CACHED_S, LEAST_CACHED
from edgewise_bench.campaigns import agent_traces
from edgewise_bench.campaigns.agent_traces import Tally, measure_traces


def test_a_conversation_that_stays_is_not_taken_out_of_a_loop_of_calls() -> None:
    metrics = measure_traces(12, seed=3)
    assert metrics["traces_taken_in_loop"] == 0 < metrics["traces_taken_in_loop_by_turn"]
    assert metrics == measure_traces(12, seed=3)
    assert 0 < metrics["traces_cached_share_staying"] < 1
    # Each title stays, where its shape is known.
    assert metrics["traces_requests_kept_staying"] >= 12 / metrics["traces_requests"]


def test_what_a_provider_has_read_a_moment_ago_costs_less() -> None:
    tally = Tally()

    def send(tokens: int, now: float) -> int:
        return agent_traces._send(1, "first", tokens, 10, tally, now)

    assert send(2_000, 0.0) == 0
    once = tally.dollars
    assert send(2_500, 10.0) == 2_000
    assert tally.dollars - once < once
    assert send(3_000, 11.0 + CACHED_S) == 0, "it is forgotten"
    assert agent_traces._send(2, "first", 5_000, 10, tally, 12.0) == 0, "another conversation"
    assert agent_traces._send(1, "second", 5_000, 10, tally, 12.0) == 0, "another provider"
    agent_traces._send(3, "first", LEAST_CACHED - 1, 10, tally, 0.0)
    assert agent_traces._send(3, "first", 3_000, 10, tally, 1.0) == 0, "too short to be kept"


def test_the_price_is_a_listed_one() -> None:
    priced: ProviderConfig = agent_traces.PRICED_AS
    assert LibraryPrices().known(priced)
