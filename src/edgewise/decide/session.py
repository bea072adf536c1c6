"""Where a conversation goes on: with the cloud that has begun it, or that must help it along.

A provider keeps the beginning of what it has read for some minutes, and charges a tenth for it when
it comes again. An agent sends its whole conversation every turn.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from edgewise.decide.policy import Clock, Misfit, estimate_tokens, states_its_own
from edgewise.types.messages import Message, Request
from edgewise.types.replies import Attempt, Reply

MOST_KNOWN = 10_000  # beginnings of conversations; those that were longest unused are forgotten
LEAST_CACHED = 1_024  # tokens: providers keep no shorter beginning
CACHED_S = 300.0  # and none for longer, unless they are asked again
USUAL_ANSWER = 256  # tokens of a cloud's answer, where none is known
MOST_ROUNDS = 3  # the same call with the same result, anywhere in one piece of work


class CacheRates(NamedTuple):
    """What a provider charges for a token, in any one unit: read, out of its cache, written."""

    read: float
    cached: float
    written: float


# Where nobody knows the price: what is usual.
USUAL_RATES = CacheRates(1.0, 0.1, 5.0)
Rates = Callable[[str, str], CacheRates | None]


class Begun(NamedTuple):
    """What a conversation says about its next turn.

    misfit  why the cloud should answer it
    lane    the provider of the chain that should, if a cloud does
    """

    misfit: Misfit | None = None
    lane: str = ""


class _Known(NamedTuple):
    """Who answered some turns, when, and how long the answer was. `kept`: as far as anybody has
    seen, this provider keeps what it has read."""

    by_cloud: bool
    at: float
    lane: str = ""
    model: str = ""
    written: int = USUAL_ANSWER
    kept: bool = True


_NOBODY = _Known(by_cloud=False, at=0.0)


class Sessions:
    """Who answered which conversation last. It holds digests, and none of the words.

    `rates` are those of a provider and its model; None where nobody knows them.
    """

    def __init__(
        self, clock: Clock = time.monotonic, rates: Rates = lambda lane, model: None
    ) -> None:
        self._clock, self._rates = clock, rates
        self._known: OrderedDict[bytes, _Known] = OrderedDict()
        self._lock = threading.Lock()

    def watch(self, request: Request, reply: Reply) -> None:
        """Keep who answered these turns."""
        *before, (_, digest) = _beginnings(request)
        known = _Known(reply.source in ("cloud", "mixed"), self._clock())
        answered = _answered(reply.attempts)
        if known.by_cloud and answered is not None:
            _, last = self._latest(before)
            again = self._is_warm(request, before, answered.backend)
            known = known._replace(
                lane=answered.backend,
                model=answered.model,
                written=answered.output_tokens or USUAL_ANSWER,
                # Read again a moment later, and all of it charged in full: it keeps nothing.
                kept=answered.cached_tokens > 0 if again else last.kept,
            )
        with self._lock:
            self._known[digest] = known
            self._known.move_to_end(digest)
            if len(self._known) > MOST_KNOWN:
                self._known.popitem(last=False)

    def find(self, request: Request) -> Begun:
        """Where this turn should go, as far as the conversation says."""
        if request.threshold == 0 or request.policy == "local_only":
            return Begun()
        turns, known = self._latest(_beginnings(request))
        if not known.by_cloud:
            lane, misfit = "", None
        elif _said(request.messages)[-1].role == "tool":
            reason = "the cloud made the calls whose results these are"
            lane, misfit = known.lane, Misfit("session", reason, soft=True)
        else:
            misfit = self._weigh(request, turns, known)
            lane = known.lane if misfit is not None else ""
        if states_its_own(request):
            return Begun(lane=lane)
        return Begun(find_no_progress(request.messages) or misfit, lane)

    def _weigh(self, request: Request, turns: int, known: _Known) -> Misfit | None:
        """The cloud goes on where reading the beginning again, later, would cost more than this
        turn does there now."""
        read = estimate_tokens(request.messages[:turns])
        warm = self._clock() - known.at <= CACHED_S and known.kept
        if read < LEAST_CACHED or not warm:
            return None
        rates = self._rates(known.lane, known.model) or USUAL_RATES
        lost = read * (rates.read - rates.cached)
        new = estimate_tokens(request.messages[turns:])
        turn = read * rates.cached + new * rates.read + known.written * rates.written
        if lost <= turn:
            return None
        reason = f"the cloud has just read about {read:,} tokens of this conversation"
        return Misfit(
            "session", f"{reason}; to read them again costs more than this turn", soft=True
        )

    def _latest(
        self, beginnings: Iterator[tuple[int, bytes]] | Sequence[tuple[int, bytes]]
    ) -> tuple[int, _Known]:
        turns, latest = 0, _NOBODY
        for end, digest in beginnings:
            if (known := self._known.get(digest)) is not None:
                turns, latest = end, known
        return turns, latest

    def _is_warm(self, request: Request, before: Sequence[tuple[int, bytes]], lane: str) -> bool:
        """Whether this provider has read a long beginning of it a moment ago."""
        turns, known = self._latest(before)
        fresh = known.by_cloud and known.lane == lane and self._clock() - known.at <= CACHED_S
        return fresh and estimate_tokens(request.messages[:turns]) >= 2 * LEAST_CACHED


def _answered(attempts: Sequence[Attempt]) -> Attempt | None:
    """The cloud's answer among them."""
    found = [each for each in attempts if each.place == "cloud" and each.outcome == "answered"]
    return found[-1] if found else None


def find_no_progress(messages: Sequence[Message]) -> Misfit | None:
    """The same calls with the same results twice in a row, or three times in all; or only errors
    twice in a row."""
    if len(messages) < 4 or _said(messages)[-1].role != "tool":
        return None
    rounds: list[tuple[list[str], list[str]]] = []
    for message in _said(messages):
        if message.tool_calls:
            calls = [json.dumps([each.name, dict(each.arguments)]) for each in message.tool_calls]
            rounds.append((calls, []))
        elif message.role == "tool" and rounds:
            rounds[-1][1].append(message.content)
        elif message.role == "user":
            rounds.clear()
    if len(rounds) < 2:
        return None
    before, now = rounds[-2:]
    if before == now:
        return Misfit("no_progress", "the same call had the same result twice", soft=True)
    if rounds.count(now) >= MOST_ROUNDS:
        words = f"the same call had the same result {MOST_ROUNDS} times"
        return Misfit("no_progress", words, soft=True)
    if all(map(_is_error, (*before[1], *now[1]))):
        return Misfit("no_progress", "two calls in a row ended in an error", soft=True)
    return None


# -- the small work around a conversation ----------------------------------------------------------

LONGEST_CHORE = 6_000  # characters: what any model of ours reads, and soon
_LOOKED_AT = 1_500  # of the system's words, and at both ends of the user's
_TALK = (
    r"(conversation|chat|session|thread|discussion|dialogue|transcript|message|request|work)s?\b"
)
_MAKE = re.compile(
    r"\b(generat|creat|writ|giv|mak|suggest|produc|provid|extract|output|captur|come up)"
)
_CHORES = {
    "title": re.compile(
        rf"\btitle generator\b|\btitles?\b[^.!?\n]{{0,160}}\b{_TALK}"
        rf"|\b{_TALK}[^.!?\n]{{0,160}}\btitle\b"
    ),
    "topic": re.compile(
        rf"\b(new|same|changed?|current) topic\b|\bnew_?topic\b"
        rf"|\btags?\b[^.!?\n]{{0,80}}\b{_TALK}"
    ),
    "commit": re.compile(r"\bcommit message\b"),
    "summary": re.compile(
        rf"\bsummar(y|i[sz]e)\b[^.!?\n]{{0,80}}\b(this|the|our|following)\b[^.!?\n]{{0,40}}\b{_TALK}"
    ),
}
_DIFF = re.compile(r"^(diff --git |@@ |[-+]{3} )", re.MULTILINE)


def find_chore(messages: Sequence[Message], *, tools: bool) -> str:
    """Which small work of an agent or a chat page this is, by its shape: a `title`, a `topic`, a
    `commit` message, a `summary`; empty if none.

    Such a request is short, offers no tools, and says what is to be made of a conversation, or of a
    diff, that it quotes.
    """
    if tools or not messages or messages[-1].role != "user":
        return ""
    texts = [each.content for each in messages]
    if sum(map(len, texts)) > LONGEST_CHORE or any(each.images for each in messages):
        return ""
    system = "\n".join(each.content for each in messages if each.role == "system")[:_LOOKED_AT]
    said = "\n".join((system, texts[-1][:_LOOKED_AT], texts[-1][-_LOOKED_AT:])).lower()
    for name, words in _CHORES.items():
        if not words.search(said):
            continue
        if name == "commit":
            made = any(map(_DIFF.search, texts))
        else:
            made = name == "summary" or bool(_MAKE.search(said))
        if made:
            return name
    return ""


def _said(messages: Sequence[Message]) -> Sequence[Message]:
    """Without the notes that agents add for the system between turns."""
    return [each for each in messages if each.role != "system"] or messages


# As tools and the agents that run them say it: in words, as XML, as JSON, with a shell's exit code.
_ERROR = re.compile(
    r"\W*(error\b|traceback|is_error|tool_use_error|command failed|fatal:)"
    r"|.*^\W*exit.code\W{1,3}[1-9]",
    re.IGNORECASE | re.MULTILINE | re.DOTALL,
)
_EXIT = re.compile(r'"exit_code":\s*[1-9]')


def _is_error(result: str) -> bool:
    return bool(_ERROR.match(result[:4_000]) or _EXIT.search(result))


def _beginnings(request: Request) -> Iterator[tuple[int, bytes]]:
    """How many turns, and their digest: before each answer, and in the end."""
    digest = hashlib.blake2b(repr(request.owner).encode(), digest_size=16)
    for place, message in enumerate(request.messages):
        if message.role == "assistant":
            yield place, digest.digest()
        calls = [[each.name, dict(each.arguments)] for each in message.tool_calls]
        turn = json.dumps([message.role, message.content, calls, message.tool_call_id], default=str)
        digest.update(turn.encode())
    yield len(request.messages), digest.digest()
