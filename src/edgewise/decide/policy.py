"""Where a request starts, where it may go, which threshold applies, where a conversation stays.

A policy is a function from a `Question` to a `Plan`. The four built-in ones are registered as entry
points, like anybody else's (docs/guide/extending.md).
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import median
from typing import NamedTuple, Protocol

from edgewise.decide.calibration import Judged, Measured, RiskRow, RiskTable
from edgewise.decide.drift import stricter
from edgewise.decide.families import Families, on_grid
from edgewise.errors import CloudClosed
from edgewise.types.messages import Learnt, Message, Money, Request, Steering, percent
from edgewise.types.replies import Attempt, Place, Reply

# Why the cloud is asked first because it is the better choice: it is not hurried then.
BETTER_THERE = ("busy", "slow_device", "session", "no_progress")
# On average over a text, a token of our models is never longer than this, so a longer prompt
# cannot fit. Near the limit the runtime counts exactly, before it computes anything.
MOST_CHARACTERS_PER_TOKEN = 8.0
USUAL_CHARACTERS_PER_TOKEN = 4.0
TOKENS_PER_TURN = 5  # what a chat template adds around each message
MOST_FOREIGN_LETTERS = 0.3  # a few Greek letters in a formula are no foreign language
_LAST_LATIN = 0x024F
_LATIN_ADDITIONS = range(0x1E00, 0x1F00)
# Languages written in Latin letters only. They are not told apart.
_LATIN_LANGUAGES = {"de", "en", "es", "fr", "it", "nl", "pt"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """What the device can take: the facts about a backend that this module needs."""

    context_tokens: int
    images: bool = False
    tools: bool = False
    schemas: bool = False
    prompt_tokens_per_second: float | None = None
    output_tokens_per_second: float | None = None
    wait_s: float = 0.0  # for a turn


@dataclass(frozen=True, slots=True)
class Misfit:
    """Why the device should not answer.

    A soft misfit can still be answered there: too slow, or too long but may be truncated.
    """

    code: str
    reason: str
    soft: bool = False


def count_characters(messages: Sequence[Message]) -> int:
    return sum(len(message.content) for message in messages)


def estimate_tokens(messages: Sequence[Message]) -> int:
    characters = count_characters(messages)
    return int(characters / USUAL_CHARACTERS_PER_TOKEN) + TOKENS_PER_TURN * len(messages)


def find_misfit(request: Request, capacity: Capacity) -> Misfit | None:
    """The first reason why the device cannot serve this request, or not in time."""
    if (misfit := find_foreign(request)) is not None:
        return misfit
    if request.has_images and not capacity.images:
        return Misfit("images_unsupported", "the local model cannot see images")
    if request.tool_choice == "required" and not capacity.tools:
        return Misfit("tools_unsupported", "the local model cannot call tools")
    if request.response_format is not None and not capacity.schemas:
        return Misfit("schema_unsupported", "the local runtime cannot enforce a schema")
    characters = count_characters(request.messages)
    if characters > capacity.context_tokens * MOST_CHARACTERS_PER_TOKEN:
        return Misfit(
            "context_exceeded",
            f"the prompt has {characters:,} characters, far more than the "
            f"{capacity.context_tokens:,} tokens of the context window",
            soft=request.truncate,
        )
    # Of a turn that is no user's: whoever goes on needs the tools.
    goes_on = request.original is not None and request.messages[-1].role != "user"
    if goes_on and (tokens := tokens_with_tools(request)) > capacity.context_tokens:
        return Misfit(
            "context_exceeded",
            f"with its tools the prompt has about {tokens:,} tokens, more than the "
            f"{capacity.context_tokens:,} of the context window",
            soft=True,
        )
    return find_lateness(
        request, capacity, estimate_tokens(request.messages), request.device_tokens
    )


def tokens_with_tools(request: Request) -> int:
    """About how many tokens a cloud reads of it."""
    tools = sum(len(json.dumps([t.name, t.description, dict(t.parameters)])) for t in request.tools)
    return estimate_tokens(request.messages) + int(tools / USUAL_CHARACTERS_PER_TOKEN)


def find_foreign(request: Request) -> Misfit | None:
    """What only a provider of the client's own protocol can answer."""
    if request.original is None or not request.original.foreign:
        return None
    names = ", ".join(name[:40] for name in request.original.foreign[:3])
    return Misfit("parts_unsupported", f"no local model takes {names}")


def find_lateness(
    request: Request, capacity: Capacity, prompt_tokens: int, output_tokens: int
) -> Misfit | None:
    """Whether the device, at its measured speed, would miss the request's deadline."""
    prompt_speed = capacity.prompt_tokens_per_second
    output_speed = capacity.output_tokens_per_second
    if request.deadline_ms is None or not prompt_speed or not output_speed:
        return None
    seconds = capacity.wait_s + prompt_tokens / prompt_speed + output_tokens / output_speed
    return _late(request.deadline_ms, seconds, f"for up to {output_tokens} tokens")


def find_queue(request: Request, wait_s: float, shut: CloudClosed | None) -> Misfit | None:
    """Whether so many wait for the device that the cloud, where it is open, should be asked.

    Not if the request says itself what it wants: a place, a deadline, or money that must last.
    """
    stays = request.policy == "local_only" or request.threshold == 0 or states_its_own(request)
    if not wait_s or shut is not None or stays:
        return None
    reason = f"others are before it at the device: about {_told(wait_s)} until its turn"
    return Misfit("busy", reason, soft=True)


def find_late_hearing(
    request: Request, sound_s: float, real_time_factor: float | None, spent_s: float = 0.0
) -> Misfit | None:
    """Whether the device, at its measured speed, would still be listening after the deadline.

    `sound_s` is how much sound is left, 0 if nobody knows; `spent_s` is the time already spent.
    """
    if request.deadline_ms is None or not real_time_factor or not sound_s:
        return None
    seconds = spent_s + sound_s * real_time_factor
    if not spent_s:
        return _late(request.deadline_ms, seconds, f"for {sound_s:,.0f} s of sound")
    return _late(request.deadline_ms, seconds, f"in all, with {sound_s:,.0f} s of sound to go")


def _late(deadline_ms: float, seconds: float, work: str) -> Misfit | None:
    if seconds * 1000 <= deadline_ms:
        return None
    return Misfit(
        "deadline",
        f"at its measured speed the device needs about {seconds * 1000:,.0f} ms {work}, "
        f"the deadline is {deadline_ms:,.0f} ms",
        soft=True,
    )


def drop_oldest(
    messages: Sequence[Message], prompt_tokens: int, room_tokens: int
) -> tuple[Message, ...]:
    """Truncate messages on request: system messages and the newest turns are kept.

    Whole turns are dropped first, oldest first. If the last turn alone is too long, its beginning
    is dropped. `prompt_tokens` is the runtime's exact count of `messages`, used to scale lengths.
    """
    kept = list(messages)
    per_character = prompt_tokens / max(1, count_characters(kept))
    excess = prompt_tokens - room_tokens
    while excess > 0 and len([m for m in kept if m.role != "system"]) > 1:
        oldest = next(i for i, message in enumerate(kept) if message.role != "system")
        excess -= int(len(kept.pop(oldest).content) * per_character)
    if excess > 0 and kept:
        cut = min(len(kept[-1].content), int(excess / per_character) + 1)
        kept[-1] = replace(kept[-1], content=kept[-1].content[cut:])
    return tuple(kept)


def outside_script(text: str, languages: tuple[str, ...]) -> bool:
    """Whether many letters of a text belong to no script of these languages.

    It only tells Latin letters from others: French passes as English. The answer is False if no
    language is given, or one that is not written in Latin letters.
    """
    if not languages or not _LATIN_LANGUAGES.issuperset(languages):
        return False
    letters = [ord(character) for character in text if character.isalpha()]
    foreign = sum(each > _LAST_LATIN and each not in _LATIN_ADDITIONS for each in letters)
    return foreign > MOST_FOREIGN_LETTERS * len(letters)


# -- whether the device is quick enough ------------------------------------------------------------


WINDOW = 15  # values that a moving median is taken of
LEAST = 3  # fewer say nothing
FRESH_S = 1800.0  # older values are forgotten, so that a device that was busy gets another chance
LEAST_OUTPUT = 4  # tokens: fewer say nothing about speed

Clock = Callable[[], float]


class MovingMedian:
    """The median of the last few values that are still fresh; None while there are too few.

    Values are kept in one tuple that is replaced as a whole, so that threads need no lock: two that
    add at the same moment may lose one value, which does no harm.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._values: tuple[tuple[float, float], ...] = ()

    def add(self, value: float) -> None:
        self._values = (*self._values, (self._clock(), value))[-WINDOW:]

    @property
    def value(self) -> float | None:
        now = self._clock()
        fresh = [value for added, value in self._values if now - added <= FRESH_S]
        return median(fresh) if len(fresh) >= LEAST else None


@dataclass(frozen=True, slots=True)
class DevicePace:
    """Of one model on this device: seconds for a token of each kind, and tokens of an answer."""

    reading: MovingMedian
    writing: MovingMedian
    length: MovingMedian

    def seconds(self, prompt_tokens: int, most_tokens: int) -> float | None:
        """To the end of an answer of the usual length; None while too little is known."""
        writing, length = self.writing.value, self.length.value
        if writing is None or length is None:
            return None
        return prompt_tokens * (self.reading.value or 0.0) + min(length, most_tokens) * writing

    def to_read(self, prompt_tokens: int) -> float | None:
        """Seconds before the first word, which a request loses that is handed off then."""
        reading = self.reading.value
        return None if reading is None else prompt_tokens * reading


class Pace:
    """What is served here in plain chat, by model. `slow_after_s` of 0: time is no reason."""

    def __init__(self, slow_after_s: float, clock: Clock = time.monotonic) -> None:
        self._slow_after_s = slow_after_s
        self._clock = clock
        self._devices: dict[str, DevicePace] = {}
        self._clouds: dict[str, MovingMedian] = {}
        self._last_cloud = ""  # the model that answered last is the one to expect

    def watch(self, request: Request, reply: Reply) -> None:
        """Measure an answer. Calls and pictures take other times than words."""
        if request.task != "chat" or request.tools or request.has_images:
            return
        for attempt in reply.attempts:
            if attempt.place == "local":
                self._watch_device(request, attempt)
            elif attempt.outcome == "answered":
                self._last_cloud = f"{attempt.backend}/{attempt.model}"
                usual = self._clouds.setdefault(self._last_cloud, MovingMedian(self._clock))
                usual.add(attempt.total_ms / 1000)

    def _watch_device(self, request: Request, attempt: Attempt) -> None:
        first_ms, tokens = attempt.first_token_ms, attempt.output_tokens
        if first_ms is None:
            return
        device = self._device(attempt.model)
        if len(new_turns(request)) == len(request.messages) and attempt.input_tokens:
            device.reading.add(first_ms / 1000 / attempt.input_tokens)
        if tokens < LEAST_OUTPUT:
            return
        device.writing.add((attempt.total_ms - first_ms) / 1000 / (tokens - 1))
        if attempt.outcome == "answered":
            device.length.add(tokens)

    def _device(self, model: str) -> DevicePace:
        if model not in self._devices:
            reading, writing, length = (MovingMedian(self._clock) for _ in range(3))
            self._devices[model] = DevicePace(reading, writing, length)
        return self._devices[model]

    def find_queue(
        self, request: Request, model: str, wait_s: float, shut: CloudClosed | None
    ) -> Misfit | None:
        """The same as `find_queue`, unless the device is sooner all the same."""
        cloud = self._clouds.get(self._last_cloud)
        cloud_s = None if cloud is None else cloud.value
        prompt_tokens = estimate_tokens(new_turns(request))
        device_s = self._device(model).seconds(prompt_tokens, request.device_tokens)
        if cloud_s is not None and device_s is not None and wait_s + device_s <= cloud_s:
            return None
        return find_queue(request, wait_s, shut)

    def find_slowness(self, request: Request, model: str) -> Misfit | None:
        """Whether this model would take longer than the cloud, and longer than people like to wait.

        Not if the request says itself what it wants: a place, a deadline, or money that must last.
        """
        if not self._slow_after_s or request.policy == "local_only" or states_its_own(request):
            return None
        cloud = self._clouds.get(self._last_cloud)
        cloud_s = None if cloud is None else cloud.value
        prompt_tokens, device = estimate_tokens(new_turns(request)), self._device(model)
        device_s = device.seconds(prompt_tokens, request.device_tokens)
        if (
            device_s is None
        ):  # nothing was answered yet: what has been handed off was read all the same
            device_s = device.to_read(prompt_tokens)
        if cloud_s is None or device_s is None or device_s <= max(cloud_s, self._slow_after_s):
            return None
        return Misfit(
            "slow_device",
            f"the device would need about {_told(device_s)}, "
            f"the cloud usually takes {_told(cloud_s)}",
            soft=True,
        )


def new_turns(request: Request) -> tuple[Message, ...]:
    """What the device has not read yet: the turns after its last answer."""
    places = [at for at, message in enumerate(request.messages) if message.role == "assistant"]
    return request.messages[places[-1] + 1 :] if places else request.messages


def states_its_own(request: Request) -> bool:
    money = request.steering.money if request.steering else None
    short = money is not None and money.allowed_share < 1
    return request.handoff == "signal" or request.deadline_ms is not None or short


def _told(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"


# -- the policies ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is known before anything runs."""

    misfit: Misfit | None = None
    cloud_closed: str = ""  # the code of why the cloud is closed; empty if it is open
    cloud_closed_reason: str = ""

    @property
    def impossible_here(self) -> bool:
        return self.misfit is not None and not self.misfit.soft


def asked(request: Request, misfit: Misfit | None, shut: CloudClosed | None) -> Question:
    """What a policy is asked about a request. `shut` says why its cloud is closed, if it is."""
    kept = not request.may_leave or (shut is not None and shut.code == "private_kind")
    if request.handoff == "signal" and not kept:
        shut = None  # the application routes, so our cloud does not matter
    return Question(
        misfit=misfit,
        cloud_closed=shut.code if shut else "",
        cloud_closed_reason=str(shut) if shut else "",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Where to start. `first` is None if the request must be refused.

    may_hand_off   the gate may stop the device and let the cloud answer
    local_backup   the device answers if the cloud cannot
    hurried        the device could answer instead, so the wait for the cloud's first token is short
    degraded_code  set if the plan is second best: why the cloud is closed
    """

    first: Place | None
    code: str
    reason: str
    may_hand_off: bool = False
    local_backup: bool = False
    hurried: bool = False
    degraded_code: str = ""


Policy = Callable[[Question], Plan]


def local_only(question: Question) -> Plan:
    """Never the cloud."""
    if question.misfit is not None and question.impossible_here:
        return Plan(first=None, code=question.misfit.code, reason=question.misfit.reason)
    reason = "the policy keeps it on the device"
    if question.misfit is not None:
        reason += f", although {question.misfit.reason}"
    return Plan(first="local", code="policy_local_only", reason=reason)


def prefer_local(question: Question) -> Plan:
    """The device first; the cloud if the answer is in doubt or the request does not fit."""
    misfit, closed = question.misfit, question.cloud_closed
    if misfit is None:
        return Plan(
            first="local",
            code="started_local",
            reason="the device answers first",
            may_hand_off=not closed,
        )
    if not closed:
        return Plan(
            first="cloud",
            code=f"handoff_{misfit.code}",
            reason=misfit.reason,
            local_backup=misfit.soft,
            hurried=misfit.soft,
        )
    if misfit.soft:
        return Plan(first="local", code=misfit.code, reason=misfit.reason, degraded_code=closed)
    return _refuse(question, misfit)


def prefer_cloud(question: Question) -> Plan:
    """The cloud first; the device if the cloud cannot answer."""
    closed = question.cloud_closed
    if not closed:
        return Plan(
            first="cloud",
            code="policy_prefer_cloud",
            reason="the policy asks the cloud first",
            local_backup=not question.impossible_here,
        )
    if question.misfit is not None and question.impossible_here:
        return _refuse(question, question.misfit)
    return Plan(
        first="local",
        code="cloud_closed",
        reason=question.cloud_closed_reason,
        degraded_code=closed,
    )


def cloud_only(question: Question) -> Plan:
    """Never the device: no answer is better than a local one."""
    if question.cloud_closed:
        return Plan(first=None, code=question.cloud_closed, reason=question.cloud_closed_reason)
    return Plan(first="cloud", code="policy_cloud_only", reason="the policy asks only the cloud")


def _refuse(question: Question, misfit: Misfit) -> Plan:
    return Plan(
        first=None,
        code=misfit.code,
        reason=f"{misfit.reason}; and the cloud is closed: {question.cloud_closed_reason}",
        degraded_code=question.cloud_closed,
    )


# -- from an objective (a risk, a share, a budget, a deadline) to the threshold --------------------

# Testing starts at the first threshold that keeps one of these shares of the rows. The shares are
# fixed before any rows are seen, and each gets an eighth of the probability. Having eight of them
# leaves room for mistakes at the top and for noise in the rows.
STARTS = (1 / 128, 1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)
# The thresholds of a table, if nothing else decides them.
GRID = tuple(hundredth / 100 for hundredth in range(99, 0, -1))
_NEGLIGIBLE = 1e-17
Curve = Sequence[tuple[float, float]]  # threshold and share handed off, both rising
KEEPS_ALL = 0.0
TOLD_ERRORS = (0.01, 0.05, 0.10, 0.20)
ALL_LEAVE = 1.0  # no confidence is above it, and hardly any reaches it


@lru_cache(maxsize=256)
def find_threshold(table: RiskTable, rows: int, error: float, probability: float) -> float | None:
    """The lowest threshold at which at most `error` of the kept answers are wrong, or None.

    `rows` is how many rows the table was counted on. The returned threshold has a larger true error
    with at most this `probability`.
    """
    level = probability / len(STARTS)
    proven = [
        row.threshold for start in STARTS for row in _passed(table, start * rows, error, level)
    ]
    return min(proven, default=None)


def _passed(table: RiskTable, least_kept: float, error: float, level: float) -> RiskTable:
    """The rows from one start to the last that is proven."""
    start = next((at for at, row in enumerate(table) if row.kept >= least_kept), len(table))
    end = start
    while end < len(table) and tail(table[end].wrong, table[end].kept, error) <= level:
        end += 1
    return table[start:end]


def tail(wrong: int, kept: int, error: float) -> float:
    """The chance of at most this many wrong among the kept, if the true share is `error`."""
    if wrong >= kept or error <= 0.0:
        return 1.0
    if error >= 1.0:
        return 0.0
    if wrong < kept * error:
        return min(1.0, _sum(wrong, kept, error, -1))
    return max(0.0, 1.0 - _sum(wrong + 1, kept, error, 1))


def _sum(first: int, trials: int, chance: float, step: int) -> float:
    """Sum binomial terms from `first`, away from the middle, until they no longer matter."""
    odds = chance / (1.0 - chance)
    log_term = (
        math.lgamma(trials + 1)
        - math.lgamma(first + 1)
        - math.lgamma(trials - first + 1)
        + first * math.log(chance)
        + (trials - first) * math.log1p(-chance)
    )
    total, part, at = 1.0, 1.0, first
    while part > _NEGLIGIBLE * total and 0 <= at + step <= trials:
        part *= at / ((trials - at + 1) * odds) if step < 0 else (trials - at) * odds / (at + 1)
        total, at = total + part, at + step
    return total * math.exp(log_term)


def handoff_curve(measured: Measured, judged: Judged = "whole") -> Curve:
    """The share that each threshold hands off: counted with the gate, else from the confidences."""
    table = measured.risk.get(judged, ())
    if table and measured.risk_rows:
        return [(row.threshold, 1 - row.kept / measured.risk_rows) for row in reversed(table)]
    steps = len(measured.quantiles) - 1
    return [(at, place / steps) for place, at in enumerate(measured.quantiles)]


def share_at(threshold: float, curve: Curve) -> float:
    """At most this share is handed off. Between two points, the higher one counts."""
    if threshold <= KEEPS_ALL:
        return 0.0
    return next((share for at, share in curve if at >= threshold), 1.0)


def pace(usual: float, money: Money, curve: Curve) -> float:
    """The threshold at which the money should last; the usual one if it lasts anyway.

    Never a stricter one. It is 0, which keeps everything, if no other threshold will do. Without a
    curve the usual threshold applies; the budget's limit holds in any case.
    """
    allowed = money.allowed_share
    if not curve or share_at(usual, curve) <= allowed:
        return usual
    fitting = [at for at, share in curve if at <= usual and share <= allowed]
    return max(fitting, default=KEEPS_ALL)


class Steered(NamedTuple):
    """`usual` is the threshold without pacing, if that differs."""

    threshold: float
    words: str
    misfit: Misfit | None
    usual: float | None


def steer(
    threshold: float,
    words: str,
    steering: Steering,
    name: str,
    measured: Measured,
    judged: Judged | None,
    *,
    at_risk: bool = False,
) -> Steered:
    """Drift first, which can only raise the threshold; then pacing, which can only lower it.

    `judged` is None if nothing is paced. A threshold of 0 always keeps everything. `at_risk`:
    an error is stated, and nothing but the calibration promises it.
    """
    drift = steering.drifted.get(name, "")
    if drift and threshold > 0:
        if steering.on_drift == "cloud":
            reason = f"calibration {name} no longer fits: {drift}"
            return Steered(1.0, words, Misfit("drifted", reason, soft=True), None)
        if steering.on_drift == "widen" or (steering.on_drift == "risk" and at_risk):
            threshold = stricter(threshold, measured)
            words = _joined(words, "a calibration that no longer fits")
    if steering.money is None or judged is None:
        return Steered(threshold, words, None, None)
    paced = pace(threshold, steering.money, handoff_curve(measured, judged))
    if paced >= threshold:
        return Steered(threshold, words, None, None)
    return Steered(paced, _joined(words, f"pacing {steering.money.words}"), None, threshold)


def _joined(*parts: str) -> str:
    return " and ".join(part for part in parts if part)


class Fitted(Protocol):
    """A calibration of any task."""

    @property
    def name(self) -> str: ...
    @property
    def threshold(self) -> float: ...
    @property
    def measured(self) -> Measured: ...


@dataclass(frozen=True, slots=True)
class Objective:
    """The threshold of a request, what it is for, and why no threshold will do, if none does.

    `whole`: it was proven on whole answers, so no answer may be judged sooner. `learnt`: verdicts
    prove it, whatever the calibration was measured on. `longest`: tokens of the longest answer
    that it was proven for; 0: of any.
    """

    threshold: float
    words: str = ""
    misfit: Misfit | None = None
    usual: float | None = None  # the threshold without budget pacing, if that differs
    whole: bool = False
    learnt: bool = False
    longest: int = 0


def find_objective(
    request: Request, fitted: Fitted, judged: Judged = "whole", *, paced: bool = False
) -> Objective:
    """What applies to a request: its own objective, else the calibration's threshold.

    `judged` says which risk table counts: streamed answers are decided on less than whole ones.
    `paced`: whether the flow may keep doubtful answers so that a budget lasts.
    """
    stated = _stated(request, fitted, judged)
    if request.steering is None or stated.misfit is not None:
        return stated
    pace = judged if paced else None
    steered = steer(
        stated.threshold,
        stated.words,
        request.steering,
        fitted.name,
        fitted.measured,
        pace,
        at_risk=request.max_error is not None and not stated.learnt,
    )
    return replace(stated, **steered._asdict())


def _stated(request: Request, fitted: Fitted, judged: Judged) -> Objective:
    if request.max_error is not None:
        return _for_error(request, request.max_error, fitted, judged)
    if request.cloud_share is not None:
        return _for_share(request.cloud_share, fitted)
    return Objective(fitted.threshold if request.threshold is None else request.threshold)


def _for_error(request: Request, error: float, fitted: Fitted, judged: Judged) -> Objective:
    risk = (
        f"an error of at most {percent(error)} "
        f"with probability {percent(1 - request.error_probability)}"
    )
    learnt = None if request.steering is None else request.steering.learnt.get(fitted.name)
    if learnt is not None and learnt.threshold is not None:
        proven = f"{risk}, proven by {learnt.verdicts:,} verdicts of this workload"
        return Objective(learnt.threshold, proven, whole=True, learnt=True)
    words = f"{risk} on requests like those measured"
    measured = fitted.measured
    if measured.families is not None:
        return _for_families(request, error, fitted.name, measured.families, words, learnt)
    table = measured.risk.get(judged, ())
    if not table:
        why = f"calibration {fitted.name} has no risk table for it"
        return _unreachable(f"{words} cannot be promised: {why}")
    threshold = find_threshold(table, measured.risk_rows, error, request.error_probability)
    if threshold is None:
        why = f"the {measured.risk_rows:,} rows of {fitted.name} prove no threshold"
        return _unreachable(f"{words} cannot be promised: {why}")
    return _unless_refuted(threshold, words, learnt)


def _unless_refuted(
    threshold: float, words: str, learnt: Learnt | None, families: Families | None = None
) -> Objective:
    if learnt is not None and on_grid(threshold) in learnt.refuted:
        why = f"{learnt.verdicts:,} verdicts of this workload refute it here"
        return _unreachable(f"{words} is not promised: {why}", "risk_unproven")
    if families is None:
        return Objective(threshold, words)
    return Objective(threshold, words, whole=True, longest=families.conditions.longest)


def _for_families(
    request: Request,
    error: float,
    name: str,
    families: Families,
    words: str,
    learnt: Learnt | None,
) -> Objective:
    """The promise of a calibration that knows for whom it was measured."""
    probability = request.error_probability
    if not any(
        threshold_of(families, family, error, probability) is not None for family in families.cells
    ):
        why = f"the {families.rows:,} rows of {name} prove no threshold"
        return _unreachable(f"{words} cannot be promised: {why}")
    why = families.conditions.broken_by(request)
    if not why:
        family, nearness = families.near(request)
        if not family:
            why = (
                f"it is a stranger: its words are {nearness:.2f} like those measured, and "
                f"{families.least:g} is the least"
            )
        else:
            threshold = threshold_of(families, family, error, probability)
            if threshold is not None:
                return _unless_refuted(threshold, f"{words} ({family})", learnt, families)
            why = f"the rows like it ({family}) prove no threshold"
    return _unreachable(f"{words} is not promised: {why}", "risk_unproven")


def threshold_of(families: Families, family: str, error: float, probability: float) -> float | None:
    """What a measured family's own rows prove, and no less than what families prove of each other;
    None: nothing is proven."""
    floor = families.floor(error)
    if floor is None or family not in families.cells:
        return None
    table = tuple(RiskRow(*row) for row in families.table(family))
    own = find_threshold(table, families.cells[family].rows, floor[0], probability)
    return None if own is None else max(own, floor[1])


def kept_share(families: Families, error: float, probability: float) -> float:
    """The share of the measured rows that is promised this error, and kept."""
    kept = 0
    for family in families.cells:
        threshold = threshold_of(families, family, error, probability)
        table = families.table(family)
        if threshold is not None:
            kept += next((each for at, each, _ in reversed(table) if at >= threshold), 0)
    return kept / families.rows if families.rows else 0.0


def _unreachable(words: str, code: str = "risk_unreachable") -> Objective:
    return Objective(ALL_LEAVE, words, Misfit(code, words, soft=True))


def _for_share(share: float, fitted: Fitted) -> Objective:
    words = f"a cloud share of about {percent(share)}"
    quantiles = fitted.measured.quantiles
    if share <= 0.0:
        return Objective(0.0, words)
    if share >= 1.0:
        return Objective(ALL_LEAVE, words)
    if not quantiles:
        unknown = f"calibration {fitted.name} has no quantiles, so its own threshold applies"
        return Objective(fitted.threshold, f"{words} ({unknown})")
    return Objective(_quantile(quantiles, share), words)


def _quantile(quantiles: Sequence[float], share: float) -> float:
    """Linear between the two nearest quantiles, which are evenly spaced."""
    place = share * (len(quantiles) - 1)
    below = int(place)
    low, high = quantiles[below], quantiles[below + 1]
    return low + (high - low) * (place - below)


def promises(fitted: Fitted, probability: float, judged: Judged = "whole") -> tuple[str, bool]:
    """What a calibration can promise, in words, and whether it is anything at all."""
    measured, families = fitted.measured, fitted.measured.families
    table = measured.risk.get(judged, ())
    if families is None and not table:
        return "with max_error every answer goes to the cloud: it has no risk table", False
    keeps, sends = [], []
    for error in TOLD_ERRORS:
        share = promised_share(measured, error, probability, judged)
        if round(share, 2):
            told = percent(round(share, 2))
            keeps.append(f"with max_error {percent(error)} it keeps {told} of the answers")
        else:
            sends.append(percent(error))
    if sends:
        keeps.append(f"with max_error {_either(sends)} every answer goes to the cloud")
    rows = measured.risk_rows if families is None else families.rows
    told = f"for requests like the {rows:,} measured: {', '.join(keeps)}"
    if families is not None:
        told += "; a stranger is promised nothing"
    return told, len(sends) < len(TOLD_ERRORS)


def promised_share(
    measured: Measured, error: float, probability: float, judged: Judged = "whole"
) -> float:
    """The share of the measured answers that is kept under this stated error."""
    if measured.families is not None:
        return kept_share(measured.families, error, probability)
    table = measured.risk.get(judged, ())
    threshold = find_threshold(table, measured.risk_rows, error, probability)
    kept = next((row.kept for row in table if row.threshold == threshold), 0)
    return kept / measured.risk_rows if measured.risk_rows else 0.0


def _either(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


# -- which side a conversation stays on ------------------------------------------------------------
#
# Where a conversation goes on: with the cloud that has begun it, or that must help it along.
#
# A provider keeps the beginning of what it has read for some minutes, and charges a tenth for it
# when it comes again. An agent sends its whole conversation every turn.


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
