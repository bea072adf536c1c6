"""Function calls: the device writes them, judges doubt them, the cloud is asked for what failed."""

from __future__ import annotations

import datetime
import math
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Protocol

from edgewise.calls.check import (
    EASY_GATE,
    FULL_GATE,
    Checked,
    asked_twice,
    better_fit,
    check_calls,
    fit_of,
    merge,
    same_call,
    source_of,
)
from edgewise.calls.coerce import Repaired, repair
from edgewise.calls.confidence import CallCalibration, call_features
from edgewise.calls.difficulty import (
    Tier,
    Weights,
    difficulty,
    tier,
)
from edgewise.calls.grammar import check_tools, compile_grammar
from edgewise.calls.intents import expected_calls, split
from edgewise.calls.normalize import normalize
from edgewise.calls.prompt import (
    answer_chance,
    none_chance,
    none_is_likelier,
    render_prompt,
)
from edgewise.calls.rank_tools import (
    assign,
    rank_tools,
    unanswered,
)
from edgewise.calls.values.text import RequestText, read_request
from edgewise.calls.values.words import spaced
from edgewise.cloud.provider import Chunk, Cloud, Stop
from edgewise.decide.fit import (
    MOST_CHARACTERS_PER_TOKEN,
    Capacity,
    Misfit,
    estimate_tokens,
    find_lateness,
)
from edgewise.decide.objective import find_objective
from edgewise.decide.policy import Plan, Policy, asked
from edgewise.errors import (
    CloudClosed,
    CloudError,
    ContextExceeded,
    DoesNotFit,
    EdgewiseError,
    InvalidRequest,
    LocalError,
    ModelNotFound,
)
from edgewise.flows.route import LocalAttempt
from edgewise.local.backend import CallBackend
from edgewise.types.calls import Complaint, Intent
from edgewise.types.messages import Message, Request, Source, Tool, ToolCall
from edgewise.types.objectives import (
    high_enough,
    needed,
)
from edgewise.types.replies import Attempt, CallReply, Decision, Usage
from edgewise.types.tokens import Finish, Token


class Speculation:
    """One whole request at the cloud, on a thread of its own from the moment it is made."""

    def __init__(self, cloud: Cloud, request: Request, patience_s: float) -> None:
        self._cloud = cloud
        self._request = request
        self._patience_s = patience_s
        self._stop = Stop()
        # Its own: the device writes its attempts down at the same time, and comes first.
        self._journal: list[Attempt] = []
        self._chunks: list[Chunk] = []
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="edgewise-speculate", daemon=True)
        self._thread.start()

    def answer(self, journal: list[Attempt]) -> list[Chunk]:
        """All of the cloud's answer, waited for; raises what went wrong."""
        self._thread.join()
        self._hand_over(journal)
        if self._error is not None:
            raise self._error
        return self._chunks

    def cancel(self, journal: list[Attempt]) -> None:
        """Nobody needs it: the connection is closed at once. After `answer` it does nothing."""
        if self._stop.ask():
            self._thread.join()  # until what was used is settled
        self._hand_over(journal)

    def _run(self) -> None:
        stream = self._cloud.stream(
            self._request, self._journal, live=False, patience_s=self._patience_s, stop=self._stop
        )
        try:
            with closing(stream):
                self._chunks += stream
        except Exception as error:  # noqa: BLE001  # `answer` raises it where somebody can see it
            self._error = error

    def _hand_over(self, journal: list[Attempt]) -> None:
        journal += self._journal
        self._journal.clear()


_last: weakref.WeakKeyDictionary[CallBackend, str] = weakref.WeakKeyDictionary()


def note(function_model: CallBackend, prompt: str) -> None:
    with suppress(TypeError):  # somebody's backend that cannot be referred to weakly
        _last[function_model] = prompt


def unread(function_model: CallBackend, prompt: str) -> str:
    """The part of a prompt that is new to the caller, as far as we gave it the one before."""
    before = ""
    with suppress(TypeError):
        before = _last.get(function_model, "")
    pairs = enumerate(zip(before, prompt, strict=False))
    most = min(len(before), len(prompt))
    return prompt[next((place for place, (one, two) in pairs if one != two), most) :]


@dataclass(frozen=True, slots=True)
class Written:
    """One answer of the local model to some text: its tokens, and the calls in it.

    `declined` is what it said in place of calls, unless that was `none`.
    """

    text: str
    tokens: tuple[Token, ...]
    calls: tuple[ToolCall, ...]
    declined: Complaint | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of a call that the device wrote: the cloud said the same, or something else."""

    tool: str
    confirmed: bool


def with_repairs(repaired: Repaired) -> tuple[ToolCall, ...]:
    """The calls of a repair, each with the codes of what was changed."""
    return tuple(
        replace(call, repairs=tuple(dict.fromkeys((*call.repairs, *made))))
        for call, made in zip(repaired.calls, repaired.by_call, strict=True)
    )


@dataclass(slots=True)
class CallDraft:
    """Mutable while the flow runs; `reply()` freezes it."""

    request: Request
    attempts: list[Attempt]
    started: float
    intents: tuple[Intent, ...]
    difficulty: float
    threshold: float = 0.0
    objective: str = ""
    calibration: str = ""
    code: str = ""
    reason: str = ""
    degraded_code: str = ""
    doubted: bool = False
    signalled: bool = False
    cloud_answered: bool = False
    confidence: float | None = None  # what the device said, also of calls the cloud replaced
    text: str = ""
    steps: dict[str, float] = field(default_factory=dict)
    complaints: tuple[Complaint, ...] = ()
    # Intents that were answered in words, and what is wrong with that.
    declined: dict[int, Complaint | None] = field(default_factory=dict)
    verdicts: list[Verdict] = field(default_factory=list)
    again: Set[int] = frozenset()  # intents that ask for what another has asked for
    evidence: dict[float, Mapping[str, float]] = field(default_factory=dict)  # by confidence
    _calls: dict[int, list[ToolCall]] = field(default_factory=dict)
    _nothing: dict[int, float] = field(default_factory=dict)  # sure that no tool serves it

    @property
    def local_calls(self) -> list[ToolCall]:
        return [call for calls in self._calls.values() for call in calls]

    @property
    def by_intent(self) -> Mapping[int, Sequence[ToolCall]]:
        return self._calls

    @property
    def answered(self) -> tuple[int, ...]:
        return tuple(number for number, calls in self._calls.items() if calls)

    @property
    def ungrounded(self) -> list[int]:
        """Intents with a call that holds something nobody said."""
        return [
            number
            for number, calls in self._calls.items()
            if any("ungrounded" in call.complaints for call in calls)
        ]

    def calls_of(self, number: int) -> Sequence[ToolCall]:
        return tuple(self._calls.get(number, ()))

    def took(self, step: str, milliseconds: float) -> None:
        self.steps[step] = self.steps.get(step, 0.0) + milliseconds

    def place(self, number: int, call: ToolCall) -> None:
        """A call for an intent, unless it was made for this intent already."""
        self._nothing.pop(number, None)
        self.declined.pop(number, None)
        calls = self._calls.setdefault(number, [])
        if not any(same_call(call, other) for other in calls):
            calls.append(call)

    def nothing(self, number: int, confidence: float, declined: Complaint | None = None) -> None:
        if number not in self._calls:
            self._nothing[number] = confidence
            if declined is not None:
                self.declined[number] = declined

    def forget(self, number: int) -> None:
        for held in (self._calls, self._nothing, self.declined):
            held.pop(number, None)

    def note(self, checked: Checked, again: Set[int]) -> None:
        """What the check found, in place of what an earlier one did."""
        for number, calls in checked.calls.items():
            if calls:
                self._calls[number] = list(calls)
        self.complaints, self.again = checked.complaints, again

    def compare(self, numbers: Sequence[int], others: Sequence[ToolCall]) -> None:
        """Note which of the device's calls for these intents the cloud makes as well."""
        self.verdicts += [
            Verdict(call.name, any(same_call(call, other) for other in others))
            for number in numbers
            for call in self._calls.get(number, ())
            if call.source == "local" and "unknown_tool" not in call.complaints
        ]

    def doubts(self, number: int) -> bool:
        """Whether an intent's answer is unlikely, whatever it says."""
        calls = self._calls.get(number, [])
        if not calls:
            return self._nothing.get(number, 0.0) < self.threshold
        return any((call.confidence or 0.0) < self.threshold for call in calls)

    def doubt(self, failed: Sequence[int], gate: Set[str]) -> str:
        """The first reason for doubt, in words."""
        calls, least = self._calls.get(failed[0], []), needed(self.threshold, self.objective)
        wrong = [one for one in self.complaints if one.intent == failed[0] and one.code in gate]
        if not calls:
            sure = self._nothing.get(failed[0])
            if wrong:
                return f"{wrong[0].code}: {wrong[0].message}"
            if sure is None:
                return f"nothing was called for {self.intents[failed[0]].text!r}"
            return f"confidence {sure:.2f} that no tool serves it is below {least}"
        worst = min(calls, key=lambda call: call.confidence or 0.0)
        if (worst.confidence or 0.0) < self.threshold:
            return f"{worst.name}: confidence {worst.confidence:.2f} is below {least}"
        faulty = next(call for call in calls if not gate.isdisjoint(call.complaints))
        return f"{faulty.name}: {', '.join(faulty.complaints)}"

    @property
    def enough(self) -> str:
        return high_enough(self.objective)

    def conclude(self, code: str, reason: str) -> None:
        self.code, self.reason = code, reason

    def signal(self, code: str, reason: str) -> None:
        self.signalled = True
        self.conclude(f"signalled_{code}", reason)

    def fall_back(self, error: CloudError) -> None:
        self.degraded_code = error.code
        self.conclude("fallback_local", f"{self.reason}; but the cloud did not answer: {error}")

    def reply(self, now: float) -> CallReply:
        calls = () if self.signalled else merge(self._calls, again=self.again)
        source = self._source(calls)
        return CallReply(
            id=self.request.id,
            text=self.text,
            source=source,
            decision=self._decision(),
            confidence=self.confidence,
            needs_cloud_handoff=self.doubted,
            cloud_handoff=self.signalled or source in ("cloud", "mixed"),
            degraded=bool(self.degraded_code),
            finish_reason="tool_calls" if calls else "stop",
            tool_calls=calls,
            attempts=tuple(self.attempts),
            usage=Usage(
                sum(attempt.input_tokens for attempt in self.attempts),
                sum(attempt.output_tokens for attempt in self.attempts),
                sum(attempt.cost_microdollars for attempt in self.attempts),
            ),
            total_ms=1000 * (now - self.started),
            intents=self.intents,
            complaints=() if self.signalled else self.complaints,
            difficulty=self.difficulty,
            steps_ms=dict(self.steps),
        )

    def measure(self) -> None:
        """Note the least sure thing the device said, before the cloud may replace it."""
        said = [call.confidence for call in self.local_calls if call.confidence is not None]
        self.confidence = min([*said, *self._nothing.values()], default=None)

    def _source(self, calls: Sequence[ToolCall]) -> Source:
        if self.signalled:
            return "none"
        source = source_of(calls, "cloud" if self.cloud_answered else "local")
        # Where the cloud said in words that no tool serves a part, that is its share.
        return "mixed" if self.text and source == "local" else source

    def _decision(self) -> Decision:
        return Decision(
            policy=self.request.policy,
            handoff=self.request.handoff,
            code=self.code,
            reason=self.reason,
            threshold=self.threshold,
            objective=self.objective,
            confidence=self.confidence,
            calibration=self.calibration,
            degraded_code=self.degraded_code,
            features=self.evidence.get(self.confidence or 0.0, {}),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRules:
    """Settings of this flow."""

    tools_limit: int = 24
    tiers: tuple[float, float] = (0.30, 0.60)
    weights: Weights = field(default_factory=Weights)


class Record(Protocol):
    """How the device's calls of each tool have turned out so far."""

    def shares(self, tools: Sequence[Tool]) -> Mapping[str, float]:
        """By name, the share of right calls of each tool that has been checked."""
        ...

    def note(self, outcomes: Sequence[tuple[Tool, bool]]) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the engine lends. `caller` raises ModelNotFound where there is none."""

    function_model: Callable[[], CallBackend]
    cloud: Cloud
    policy: Policy
    calibration: Callable[[CallBackend | None], CallCalibration]
    rules: CallRules
    patience_s: float
    clock: Callable[[], float]
    today: Callable[[], datetime.date]
    record: Record


@dataclass(slots=True)
class Walk:
    """One request on its way: read once, then written, judged and perhaps rescued."""

    request: Request
    parts: Parts
    draft: CallDraft
    tools: Mapping[str, Tool]
    offered: Sequence[Tool]
    heard: Sequence[RequestText]
    whole: RequestText
    function_model: CallBackend | None = None
    calibration: CallCalibration | None = None
    ahead: Speculation | None = None  # the cloud, asked while the device works
    retries: int = 0  # runs of the model that are left, after the first

    @property
    def tier(self) -> Tier:
        return tier(self.draft.difficulty, self.parts.rules.tiers)

    @property
    def gate(self) -> Set[str]:
        """The complaints that are reasons for doubt: nearly all, but of an easy request."""
        return EASY_GATE if self.tier == "local" else FULL_GATE

    def normalize(self, call: ToolCall, words: RequestText) -> ToolCall:
        tool, today = self.tools.get(call.name), self.parts.today()
        return normalize(call, tool, words, whole=self.whole, today=today)

    def check(self) -> Checked:
        """Hold all calls against the tools, each other and what was asked; noted in the draft."""
        by_intent = self.draft.by_intent
        checked = check_calls(by_intent, self.heard, self.offered, declined=self.draft.declined)
        self.draft.note(checked, asked_twice(by_intent, self.heard))
        return checked

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        begin = self.parts.clock()
        try:
            yield
        finally:
            self.draft.took(step, 1000 * (self.parts.clock() - begin))


MOST_TOKENS = 400
MOST_RETRIES = 8  # runs of the model for one request, after the first
LEAST_TOOLS = 1
# An answer less likely than this is written again in narrower ways. Of the 4,000 validation answers
# above it, too few change for the better to be worth the runs.
DOUBTED = math.log(2 / 3)

Try = Sequence[tuple[Written, Sequence[int]]]  # answers that make up one, and what they are for


def write_on_device(walk: Walk, retries: int = MOST_RETRIES) -> None:
    """All calls in one answer; then a narrower try for each intent that needs one.

    An unlikely answer is written again, and the likeliest stands. An intent without a call is asked
    alone. One whose call has made-up text is asked alone too,
    with text limited to the request's own words. One whose tool fits less than another is asked
    without that tool. The model runs once and at most `retries` times more.
    """
    draft, text = walk.draft, walk.request.messages[-1].content
    walk.retries = retries
    first = _write(walk, text)
    _place(walk, first, range(len(walk.heard)))
    with suppress(LocalError):  # it is in the attempts; what was written before it stands
        asked = _write_again(walk, first) if retries > 1 and draft.local_calls else False
        if not asked and len(draft.local_calls) < expected_calls(text, walk.offered):
            for number in unanswered(draft.answered, len(walk.heard)):
                if (alone := walk.heard[number].text) != text and _may_retry(walk):
                    _place(walk, _write(walk, alone), [number])
        for number in sorted({*draft.ungrounded, *_overrun(walk)}):
            if _may_retry(walk):
                _again(walk, number)
        for number in range(len(walk.heard)):
            _with_others(walk, number)


def _may_retry(walk: Walk) -> bool:
    walk.retries -= 1
    return walk.retries >= 0


def _write_again(walk: Walk, first: Written) -> bool:
    """An unlikely answer, with the tools that it calls alone, and intent by intent.

    The likeliest of the three stands. Returns whether every intent has been asked alone.
    """
    chance, everything = answer_chance(first.tokens), range(len(walk.heard))
    if chance is None or chance >= DOUBTED:
        return False
    tries: list[Try] = []
    names = {call.name for call in first.calls}
    called = [tool for tool in walk.offered if tool.name in names]
    if 0 < len(called) < len(walk.offered) and _may_retry(walk):
        tries.append([(_write(walk, first.text, called), everything)])
    alone = 1 < len(everything) <= walk.retries
    if alone:
        walk.retries -= len(everything)
        tries.append([(_write(walk, walk.heard[number].text), [number]) for number in everything])
    best = max(tries, key=_chance_of, default=())
    if best and _chance_of(best) > chance:
        for number in everything:
            walk.draft.forget(number)
        for written, numbers in best:
            _place(walk, written, numbers)
    return alone


def _chance_of(one: Try) -> float:
    """That of all its answers together; none at all where there is no call in any of several."""
    if len(one) > 1 and not any(written.calls for written, _ in one):
        return -math.inf
    return sum(answer_chance(written.tokens) or 0.0 for written, _ in one)


def _with_others(walk: Walk, number: int) -> None:
    """A call of a tool that fits the words less than another: asked without that tool.

    The other is taken where it fits better and is likelier to be right.
    """
    before, words = walk.draft.calls_of(number), walk.heard[number]
    if len(before) != 1 or not _misfits(walk, before[0], words):
        return
    others = [tool for tool in walk.offered if tool.name != before[0].name]
    if not (others and _may_retry(walk)):
        return
    after = _normalized(walk, _write(walk, words.text, others), [number])
    if len(after) != 1 or (after[0][1].confidence or 0.0) <= (before[0].confidence or 0.0):
        return
    call = after[0][1]
    old, new = (fit_of(name, words, walk.offered) for name in (before[0].name, call.name))
    if new > old:
        walk.draft.forget(number)
        walk.draft.place(number, replace(call, repairs=(*call.repairs, "other_tool")))


def _misfits(walk: Walk, call: ToolCall, words: RequestText) -> bool:
    """The call is in doubt, and another tool fits better.

    A call that the model is sure of stands, whatever the words: without its tool it would be as
    sure of the next ("tell Mum I'll be ten minutes late" sets a timer).
    """
    doubted = (call.confidence or 0.0) < walk.draft.threshold
    return doubted and better_fit(call, words, walk.offered) > 0


def _overrun(walk: Walk) -> list[int]:
    """Intents of several whose call holds text that runs on into another one.

    Text that is all another one's was carried over: "… to Oslo on Friday, and to Rome".
    """
    if len(walk.heard) < 2:
        return []
    return [
        number
        for number in range(len(walk.heard))
        for call in walk.draft.calls_of(number)
        if any(
            isinstance(value, str)
            and spaced(value) in walk.whole.spaced
            and not any(spaced(value) in words.spaced for words in walk.heard)
            for value in call.arguments.values()
        )
    ]


def _again(walk: Walk, number: int) -> None:
    """Copying only; kept where it makes the same calls, surer, without making anything up."""
    before = walk.draft.calls_of(number)
    after = _normalized(walk, _write(walk, walk.heard[number].text, copy=True), [number])
    names = [call.name for call in before] == [call.name for _, call in after]
    surer = _least([call for _, call in after]) >= _least(before)
    if names and surer and not any("ungrounded" in call.complaints for _, call in after):
        walk.draft.forget(number)
        for _, call in after:
            repairs = (*call.repairs, "copied")
            walk.draft.place(number, replace(call, repairs=repairs))


def _least(calls: Sequence[ToolCall]) -> float:
    return min((call.confidence or 0.0 for call in calls), default=0.0)


def _place(walk: Walk, written: Written, numbers: Sequence[int]) -> None:
    for number, call in _normalized(walk, written, numbers):
        walk.draft.place(number, call)


def _normalized(walk: Walk, written: Written, numbers: Sequence[int]) -> list[tuple[int, ToolCall]]:
    """Each call of an answer with the intent it answers, settled and with its confidence."""
    assert walk.calibration is not None, "a caller that writes has been opened"
    with walk.timed("judge"):
        words = [walk.heard[number] for number in numbers]
        owners = assign(written.calls, walk.tools, words)
        normalized = [
            walk.normalize(call, words[owner])
            for owner, call in zip(owners, written.calls, strict=True)
        ]
        features = call_features(written.tokens, normalized, walk.offered, written.text)
        sure = [walk.calibration.confidence(one) for one in features]
        walk.draft.evidence.update(zip(sure, features, strict=True))
        if not normalized:
            for number in numbers:
                walk.draft.nothing(number, sure[0], written.declined)
        made_up = any(one.get("ungrounded") or one.get("absent") for one in features)
        if normalized and none_is_likelier(written.tokens, made_up=made_up):
            _withhold(walk, written, numbers)
            return []
        return [
            (numbers[owner], replace(call, confidence=one))
            for owner, call, one in zip(owners, normalized, sure, strict=False)
        ]


def _withhold(walk: Walk, written: Written, numbers: Sequence[int]) -> None:
    """No call, as sure as the model was of that, and why."""
    names = ", ".join(dict.fromkeys(call.name for call in written.calls))
    why = f"{names} was not called: that no tool serves this, or something is missing, is likelier"
    for number in numbers:
        sure = math.exp(none_chance(written.tokens))
        walk.draft.nothing(number, sure, Complaint("withheld", why, intent=number))


def _write(walk: Walk, text: str, offered: Sequence[Tool] = (), *, copy: bool = False) -> Written:
    """One answer of the model under the grammar; fewer tools where they do not fit its context."""
    tools = list(offered or walk.offered)
    while True:
        try:
            return _write_once(walk, text, tools, copy=copy)
        except ContextExceeded:
            if len(tools) <= LEAST_TOOLS:
                raise
            tools = rank_tools(text, tools, max(LEAST_TOOLS, len(tools) // 2))


def _write_once(walk: Walk, text: str, tools: Sequence[Tool], *, copy: bool) -> Written:
    function_model, parts = walk.function_model, walk.parts
    assert function_model is not None, "a plan that starts on the device has a caller"
    prompt = render_prompt(tools, text)
    room = function_model.facts().context_tokens
    if len(prompt) > room * MOST_CHARACTERS_PER_TOKEN:  # before it costs a grammar and a count
        least = int(len(prompt) / MOST_CHARACTERS_PER_TOKEN)
        raise ContextExceeded(least, room, counted=False)
    with walk.timed("grammar"):
        grammar = compile_grammar(tools, text, copy=copy)
    tokens: list[Token] = []
    stream = function_model.write_call(prompt, grammar=grammar, max_tokens=MOST_TOKENS)
    with (
        walk.timed("model"),
        LocalAttempt(
            walk.request, walk.draft.attempts, function_model.facts(), parts.clock
        ) as attempt,
        closing(stream) as items,
    ):
        for item in items:
            if isinstance(item, Finish):
                attempt.finish = item
                break
            attempt.count()
            tokens.append(item)
        attempt.outcome = "answered"
        note(function_model, prompt)
    written = "".join(token.text for token in tokens)
    repaired = repair(written, tools, text, source="local")
    declined = next((one for one in repaired.complaints if one.call is None), None)
    return Written(text, tuple(tokens), with_repairs(repaired), declined)


USUAL_CALL_TOKENS = 40  # of a request for one or two calls
EASY_RETRIES = 1  # of a request that the cloud may be asked for
CLOUD_TOOLS = 128  # OpenAI takes no more


def answer(request: Request, parts: Parts, attempts: list[Attempt]) -> CallReply:
    """The calls the last user message asks for."""
    walk = _begin(request, parts, attempts)
    try:
        misfit = _open_device(walk)
        try:
            _follow(walk, _plan(walk, misfit))
        except ContextExceeded as error:
            # Counted exactly, with the fewest tools, before anything was computed: plan again.
            _follow(walk, _plan(walk, Misfit(error.code, str(error))))
    finally:
        if walk.ahead is not None:
            walk.ahead.cancel(attempts)
    parts.record.note([(walk.tools[one.tool], one.confirmed) for one in walk.draft.verdicts])
    return walk.draft.reply(parts.clock())


def _follow(walk: Walk, plan: Plan) -> None:
    draft = walk.draft
    draft.conclude(plan.code, plan.reason)
    draft.degraded_code = plan.degraded_code
    if plan.first is None:
        raise _refusal(walk.request, plan)
    if plan.first == "local":
        _from_device(walk, plan)
    elif walk.request.handoff == "signal":
        draft.signal(plan.code.removeprefix("handoff_"), plan.reason)
    else:
        _from_cloud(walk, plan)


def _begin(request: Request, parts: Parts, attempts: list[Attempt]) -> Walk:
    started = parts.clock()
    if request.messages[-1].role != "user":
        raise InvalidRequest("calls are for the user's words: the last message must be the user's")
    check_tools(request.tools)
    text = request.messages[-1].content
    intents = split(text, request.tools)
    offered = rank_tools(text, request.tools, parts.rules.tools_limit)
    scores = [
        difficulty(
            intent.resolved,
            offered,
            intents=max(1, len(intents)),
            weights=parts.rules.weights,
            record=parts.record.shares(offered),
        ).score
        for intent in intents
    ]
    draft = CallDraft(request, attempts, started, intents, max(scores, default=0.0))
    draft.took("split", 1000 * (parts.clock() - started))
    whole, tools = read_request(text), {tool.name: tool for tool in request.tools}
    words = [read_request(intent.resolved) for intent in intents] if len(intents) > 1 else [whole]
    return Walk(request, parts, draft, tools, offered, words, whole)


def _open_device(walk: Walk) -> Misfit | None:
    request = walk.request
    if request.policy == "cloud_only":
        return None
    if request.has_images:
        return Misfit("images_unsupported", "the function caller cannot see images")
    try:
        walk.function_model = walk.parts.function_model()
    except ModelNotFound as error:
        return Misfit(error.code, str(error))
    walk.calibration = walk.parts.calibration(walk.function_model)
    objective = find_objective(request, walk.calibration)
    walk.draft.threshold, walk.draft.calibration = objective.threshold, walk.calibration.name
    walk.draft.objective = objective.words
    return objective.misfit or _lateness(walk, walk.function_model)


def _lateness(walk: Walk, function_model: CallBackend) -> Misfit | None:
    """Judged by what is new to the caller: the same tools as before are not read again."""
    if walk.request.deadline_ms is None:
        return None
    facts = function_model.facts()
    capacity = Capacity(
        context_tokens=facts.context_tokens,
        prompt_tokens_per_second=facts.prompt_tokens_per_second,
        output_tokens_per_second=facts.output_tokens_per_second,
    )
    prompt = render_prompt(walk.offered, walk.request.messages[-1].content)
    tokens = estimate_tokens([Message("user", unread(function_model, prompt))])
    return find_lateness(walk.request, capacity, tokens, USUAL_CALL_TOKENS)


def _plan(walk: Walk, misfit: Misfit | None) -> Plan:
    shut = walk.parts.cloud.closed(walk.request)
    plan = walk.parts.policy(asked(walk.request, misfit, shut))
    if plan.first == "local" and plan.may_hand_off and walk.tier == "cloud_first":
        reason = f"difficulty {walk.draft.difficulty:.2f} asks for the cloud first"
        return replace(plan, first="cloud", code="handoff_difficult", reason=reason,
                       local_backup=True, hurried=True)  # fmt: skip
    return plan


def _refusal(request: Request, plan: Plan) -> EdgewiseError:
    if request.policy == "cloud_only":
        return CloudClosed(plan.reason, code=plan.code)
    return (
        ModelNotFound(plan.reason) if plan.code == ModelNotFound.code else DoesNotFit(plan.reason)
    )


def _from_device(walk: Walk, plan: Plan) -> None:
    draft, parts = walk.draft, walk.parts
    may_ask = plan.may_hand_off and walk.request.handoff != "signal"
    if may_ask and walk.request.speculative and walk.ahead is None:
        walk.ahead = Speculation(parts.cloud, _asking(walk), parts.patience_s)
    # An easy request that fails twice is better off with the cloud, where there is one.
    thrifty = plan.may_hand_off and walk.tier == "local"
    try:
        write_on_device(walk, EASY_RETRIES if thrifty else MOST_RETRIES)
    except ContextExceeded:
        raise
    except LocalError as error:
        if not may_ask:
            raise
        draft.conclude("handoff_local_failed", str(error))
        _from_cloud(walk, replace(plan, local_backup=False))
        return
    failed = _judge(walk)
    if failed and plan.may_hand_off:
        if not may_ask:
            draft.signal("low_confidence", draft.doubt(failed, walk.gate))
            return
        draft.conclude("handoff_low_confidence", draft.doubt(failed, walk.gate))
        _rescue(walk, failed)
    elif plan.code == "started_local":
        _conclude_kept(walk, failed)


def _conclude_kept(walk: Walk, failed: Sequence[int]) -> None:
    draft = walk.draft
    if not failed:
        draft.conclude("kept_confident", f"every call's confidence is {draft.enough}")
        return
    draft.conclude("kept_in_doubt", draft.doubt(failed, walk.gate))
    if (shut := walk.parts.cloud.closed(walk.request)) is not None:
        draft.degraded_code = shut.code
        draft.reason += f"; the cloud is closed: {shut}"


def _judge(walk: Walk) -> list[int]:
    """The intents whose answer is in doubt: unlikely, or with a complaint that the gate holds."""
    with walk.timed("judge"):
        checked = walk.check()
        failed = [
            number
            for number in _everything(walk)
            if walk.draft.doubts(number) or not walk.gate.isdisjoint(checked.of(number))
        ]
    walk.draft.measure()
    walk.draft.doubted = bool(failed)
    return failed


def _from_cloud(walk: Walk, plan: Plan) -> None:
    try:
        _ask(walk, _everything(walk), hurried=plan.hurried)
    except CloudError as error:
        if plan.local_backup:
            _fall_back(walk, error)
            return
        if not plan.code.startswith("handoff_"):  # the caller wanted the cloud itself
            raise
        raise DoesNotFit(f"{plan.reason}; and the cloud failed: {error}") from error


def _fall_back(walk: Walk, failure: CloudError) -> None:
    walk.draft.fall_back(failure)
    try:
        write_on_device(walk, MOST_RETRIES)
    except ContextExceeded as error:
        raise DoesNotFit(f"{error}; and the cloud failed: {failure}") from error
    _judge(walk)


def _rescue(walk: Walk, failed: Sequence[int]) -> None:
    """The cloud's calls for the intents that failed; the device's stay where it cannot help."""
    try:
        _ask(walk, _everything(walk) if walk.ahead else failed, hurried=True)
    except CloudError as error:
        walk.draft.fall_back(error)


def _everything(walk: Walk) -> Sequence[int]:
    return range(len(walk.heard))


def _asking(walk: Walk, numbers: Sequence[int] | None = None) -> Request:
    """What the cloud is asked: the request, or those of its intents that failed, in their words."""
    message = walk.request.messages[-1]
    if numbers is not None and len(numbers) < len(walk.heard):
        text = ". ".join(walk.heard[number].text.rstrip(".") for number in numbers)
        message = replace(message, content=text)
    tools = tuple(rank_tools(message.content, walk.request.tools, CLOUD_TOOLS))
    return replace(walk.request, messages=(*walk.request.messages[:-1], message), tools=tools)


def _ask(walk: Walk, numbers: Sequence[int], *, hurried: bool) -> None:
    draft, parts = walk.draft, walk.parts
    request = _asking(walk, numbers)
    with walk.timed("cloud"):
        if walk.ahead is not None:
            heard = walk.ahead.answer(draft.attempts)
        else:
            patience = parts.patience_s if hurried else None
            stream = parts.cloud.stream(request, draft.attempts, live=False, patience_s=patience)
            with closing(stream):
                heard = list(stream)
    said = "".join(chunk for chunk in heard if isinstance(chunk, str))
    given: Sequence[ToolCall] | str = [chunk for chunk in heard if isinstance(chunk, ToolCall)]
    text = request.messages[-1].content
    repaired = repair(given or said, walk.request.tools, text, source="cloud")
    calls, words = with_repairs(repaired), [walk.heard[number] for number in numbers]
    owners = assign(calls, walk.tools, words)
    normalized = [
        walk.normalize(call, words[owner]) for owner, call in zip(owners, calls, strict=True)
    ]
    declined = None if calls else _in_words(said, repaired.complaints)
    if declined is None:
        draft.compare(numbers, normalized)
    for number in numbers:
        draft.forget(number)
        if not calls:
            draft.declined[number] = declined
    for owner, call in zip(owners, normalized, strict=True):
        draft.place(numbers[owner], call)
    draft.text = "" if calls else said
    draft.cloud_answered = True
    walk.check()


def _in_words(said: str, complaints: Sequence[Complaint]) -> Complaint | None:
    """What is wrong with a cloud's words in place of calls; nothing where they are an answer."""
    if any(one.code == "refusal" for one in complaints):
        return Complaint("refusal", "the cloud declined in words")
    if said.rstrip().endswith("?"):
        return Complaint("question", "the cloud asks back")
    return None
