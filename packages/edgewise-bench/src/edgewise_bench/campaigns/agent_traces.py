"""Work of coding agents replayed: what it costs where a conversation stays, and turn by turn.

Each trace is the work of one agent: what people ask, calls, their results, and a title. Its sizes
are those measured with real agents (docs/notes/campaigns.md), drawn from a seed. Both ways of
routing meet the same turns, the same device and the same two providers, by a clock that is made up.
`Sessions` is the engine's own; prices are those of the list; a provider's cache is modelled as
providers describe theirs.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from edgewise.cloud.provider import ProviderConfig
from edgewise.cloud.providers import LibraryPrices
from edgewise.decide.policy import CACHED_S, LEAST_CACHED, Sessions, find_chore
from edgewise.types.messages import Message, Request, Source, ToolCall
from edgewise.types.replies import Attempt, Decision, Reply

TARGETS: dict[str, tuple[str, float]] = {
    "traces_taken_in_loop": ("<=", 0),
    "traces_cost_ratio": ("<=", 1),
}
CHARACTERS = 4  # of a token
WINDOW = 8_192  # tokens: of the device's model
SURE = 0.35  # of the turns that fit the device
DOWN = 0.05  # of the turns, the first provider does not answer
READS = 400.0  # tokens a second that the device reads, of what is new to it
# Tokens of what an agent says of itself and its tools, and how often it is asked.
AGENTS = {18_000: 0.3, 9_000: 0.2, 7_000: 0.2, 1_000: 0.3}
LANES = ("first", "second")  # both at the same price
PRICED_AS = ProviderConfig(name="anthropic", protocol="anthropic", model="claude-opus-4-8", key="")
TITLE = "Write a title for this conversation, of five words at most:\n\n"


@dataclass(frozen=True, slots=True)
class Turn:
    """What an agent sends next. `seconds` after the last answer; what will come of it."""

    new: tuple[Message, ...]
    seconds: float
    sure: bool
    down: bool
    written: int
    calls: bool


@dataclass(slots=True)
class Tally:
    """What one way of routing did with all traces."""

    dollars: float = 0.0
    requests: int = 0
    kept: int = 0
    tokens: int = 0
    kept_tokens: int = 0
    sent_tokens: int = 0
    cached_tokens: int = 0
    taken_in_loop: int = 0
    caches: dict[tuple[int, str], tuple[int, float]] = field(default_factory=dict)


def measure_traces(traces: int, seed: int) -> dict[str, float]:
    clock = _Clock()
    sessions, stays, turn_by_turn = Sessions(clock), Tally(), Tally()
    for number in range(traces):
        rng = random.Random(f"{seed}/{number}")
        made = list(_turns(rng))
        begun = clock.now
        for tally, known in ((stays, sessions), (turn_by_turn, None)):
            clock.now = begun
            _replay(number, made, tally, known, clock)
    metrics = {"traces": float(traces), "traces_requests": float(stays.requests)}
    for name, tally in (("staying", stays), ("by_turn", turn_by_turn)):
        metrics |= {
            f"traces_dollars_{name}": tally.dollars,
            f"traces_cached_share_{name}": tally.cached_tokens / max(1, tally.sent_tokens),
            f"traces_requests_kept_{name}": tally.kept / tally.requests,
            f"traces_tokens_kept_{name}": tally.kept_tokens / tally.tokens,
            f"traces_taken_in_loop_{name}": float(tally.taken_in_loop),
        }
    metrics["traces_taken_in_loop"] = metrics.pop("traces_taken_in_loop_staying")
    metrics["traces_cost_ratio"] = stays.dollars / turn_by_turn.dollars
    return metrics


class _Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def _turns(rng: random.Random) -> Iterator[Turn]:
    """One agent's work: a few requests of a person, each with calls until it is done."""
    size = rng.choices(list(AGENTS), list(AGENTS.values()))[0]
    begins = [Message("system", _words(rng, size))]
    for asked in range(rng.randint(1, 5)):
        waits = rng.uniform(20, 700) if asked else 0.0
        new = (*begins, Message("user", _words(rng, rng.randint(20, 600))))
        begins = []
        rounds = rng.randint(0, 15)
        for left in range(rounds, -1, -1):
            yield Turn(
                new,
                waits,
                sure=rng.random() < SURE,
                down=rng.random() < DOWN,
                written=rng.randint(40, 400),
                calls=left > 0,
            )
            waits = rng.uniform(1, 8)
            new = (Message("tool", _words(rng, rng.randint(50, 2_000)), tool_call_id="c"),)


def _words(rng: random.Random, tokens: int) -> str:
    return f"{rng.getrandbits(64):016x}" + "w" * (CHARACTERS * tokens - 16)


def _replay(
    number: int, turns: Sequence[Turn], tally: Tally, sessions: Sessions | None, clock: _Clock
) -> None:
    said: list[Message] = []
    read_here = 0  # tokens of the conversation that the device has read
    last = ""  # who answered the last turn
    for place, turn in enumerate(turns):
        clock.now += turn.seconds
        said += turn.new
        request = Request(messages=tuple(said))
        tokens = sum(map(_tokens, said))
        begun = sessions.find(request) if sessions is not None else None
        stays = begun is not None and begun.misfit is not None
        here = tokens <= WINDOW and turn.sure and not stays
        lane = _lane(begun.lane if begun is not None else "", turn)
        tally.taken_in_loop += here and said[-1].role == "tool" and last in LANES
        if here:
            clock.now += (tokens - read_here) / READS
            read_here, last = tokens, "device"
            reply = _reply(
                "local", Attempt(place="local", backend="device", model="m", outcome="answered")
            )
        else:
            if tokens <= WINDOW and not stays:  # it was tried here, and was not sure
                clock.now += (tokens - read_here) / READS
                read_here = tokens
            cached = _send(number, lane, tokens, turn.written, tally, clock.now)
            last = lane
            attempt = Attempt(
                place="cloud",
                backend=lane,
                model=PRICED_AS.model,
                outcome="answered",
                input_tokens=tokens,
                output_tokens=turn.written,
                cached_tokens=cached,
            )
            reply = _reply("cloud", attempt)
        _count(tally, tokens, kept=here)
        if sessions is not None:
            sessions.watch(request, reply)
        clock.now += turn.written / 60
        call = (ToolCall("run", {"n": place}, "c"),) if turn.calls else ()
        said.append(Message("assistant", "w" * CHARACTERS * turn.written, tool_calls=call))
        if not place:
            _title(said[1], number, tally, clock.now, sessions is not None)


def _title(asked: Message, number: int, tally: Tally, now: float, known: bool) -> None:
    """A session's title: known by its shape, it stays; else the cloud gets it as anything else."""
    words = Message("user", TITLE + asked.content)
    kept = known and bool(find_chore([words], tools=False))
    if not kept:
        _send(-1 - number, LANES[0], _tokens(words), 10, tally, now)
    _count(tally, _tokens(words), kept=kept)


def _lane(begun: str, turn: Turn) -> str:
    """The provider that is asked first, unless it does not answer."""
    chain = sorted(LANES, key=lambda each: each != begun)
    return chain[1] if turn.down else chain[0]


def _send(number: int, lane: str, tokens: int, written: int, tally: Tally, now: float) -> int:
    """Charge it, and keep what this provider has read. Returns the tokens out of its cache."""
    read, at = tally.caches.get((number, lane), (0, 0.0))
    cached = read if now - at <= CACHED_S and read >= LEAST_CACHED else 0
    tally.caches[number, lane] = (tokens, now)
    cost = LibraryPrices().cost(PRICED_AS, tokens, written, cached_tokens=cached)
    tally.dollars += cost / 1_000_000
    tally.sent_tokens += tokens
    tally.cached_tokens += cached
    return cached


def _count(tally: Tally, tokens: int, *, kept: bool) -> None:
    tally.requests += 1
    tally.tokens += tokens
    tally.kept += kept
    tally.kept_tokens += tokens * kept


def _tokens(message: Message) -> int:
    return len(message.content) // CHARACTERS


def _reply(source: Source, attempt: Attempt) -> Reply:
    decision = Decision(policy="prefer_local", handoff="automatic", code="", reason="")
    return Reply(id="", text="", source=source, decision=decision, attempts=(attempt,))
