"""Function calls: the device writes and judges them; the cloud is asked for those that failed."""

from __future__ import annotations

import datetime
import math
import threading
import weakref
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence, Set
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Protocol

from typing_extensions import override

from edgewise.calls.check import (
    COVERING_FIT,
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
from edgewise.calls.confidence import call_confidence, call_features, repeated_values
from edgewise.calls.difficulty import (
    Tier,
    Weights,
    difficulty,
    tier,
)
from edgewise.calls.draft import draft_answers
from edgewise.calls.formats import CallFormat, format_named
from edgewise.calls.grammar import Calls, check_tools, compile_question
from edgewise.calls.ground import ground
from edgewise.calls.history import Told, told_text
from edgewise.calls.home import (
    MOST_TOOLS,
    is_aimed,
    lacks_target,
    offered_in,
    read_home,
    take_from_list,
)
from edgewise.calls.intents import expected_calls, split
from edgewise.calls.listed import as_listed
from edgewise.calls.normalize import normalize
from edgewise.calls.parameters import required
from edgewise.calls.prompt import (
    answer_chance,
    ask_chance,
    none_chance,
    none_is_likelier,
)
from edgewise.calls.question import Question, question_text
from edgewise.calls.rank_tools import (
    assign,
    rank_tools,
    unanswered,
)
from edgewise.calls.tools_template import Render
from edgewise.calls.values.text import RequestText, read_request
from edgewise.cloud.provider import Chunk, Cloud, Stop
from edgewise.decide.calibration import Calibration
from edgewise.decide.fit import (
    MOST_CHARACTERS_PER_TOKEN,
    Capacity,
    Misfit,
    estimate_tokens,
    find_lateness,
)
from edgewise.decide.objective import find_objective
from edgewise.decide.policy import Plan, Policy
from edgewise.errors import (
    CloudMalformed,
    ContextExceeded,
    DeadlinePassed,
    GenerationFailed,
    InvalidRequest,
    LocalError,
    ModelNotFound,
)
from edgewise.flows.route import Draft, Flow, LocalAttempt, run
from edgewise.local.backend import CallBackend, TokenStream
from edgewise.types.calls import Complaint, Intent
from edgewise.types.messages import Message, Request, Source, Tool, ToolCall
from edgewise.types.replies import Attempt, CallReply, Event
from edgewise.types.tokens import Finish, Token

EARLIER_REQUESTS = 2  # that say what a follow-up is about
USUAL_CALL_TOKENS = 40  # for a request of one or two calls
EASY_RETRIES = 1  # for an easy request that the cloud may also answer
CLOUD_TOOLS = 128  # OpenAI takes no more
# Of one answer. The longest right one on validation data has 116; nested values need more.
MOST_TOKENS = 200
# Runs of the function model for one request, after the first. On 333 validation requests, four more
# changed no answer.
MOST_RETRIES = 4
DEADLINE_MS = 2_500.0  # of a request that sets none itself
STOPPING = 0.02  # of the deadline: the device is cut so much before it, because stopping takes time
LEAST_TOOLS = 1
# A less likely answer is written again in narrower ways. Of the 4,000 validation answers above
# this, too few improve to be worth the extra runs.
DOUBTED = math.log(2 / 3)
# A question as likely as this is written where the call is in doubt. Of 65 validation requests that
# lack something, 52 are then asked about instead of 34; of 559 that lack nothing, 23 instead of 17.
LIKELY_QUESTION = math.log(0.1)
# A doubtful call comes back from this on if the cloud answers in words.
LIKELIER_RIGHT = 0.5

_last: weakref.WeakKeyDictionary[CallBackend, tuple[str, str]] = weakref.WeakKeyDictionary()


def answer(request: Request, parts: Parts, attempts: list[Attempt]) -> CallReply:
    """The calls the last user message asks for."""
    flow = Calling(request, parts, attempts)
    try:
        flow.misfit = flow.open_device()
        run(flow)
    finally:
        if flow.ahead is not None:
            flow.ahead.cancel(attempts)
    flow.own_up()
    parts.record.note([(flow.tools[one.tool], one.confirmed) for one in flow.draft.verdicts])
    return flow.draft.reply(parts.clock())


class Speculation:
    """A whole request to the cloud, running on its own thread from the start."""

    def __init__(self, cloud: Cloud, request: Request, patience_s: float) -> None:
        self._cloud = cloud
        self._request = request
        self._patience_s = patience_s
        self._stop = Stop()
        # A separate list: the device writes its attempts at the same time, and comes first.
        self._journal: list[Attempt] = []
        self._chunks: list[Chunk] = []
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="edgewise-speculate", daemon=True)
        self._thread.start()

    def answer(self, journal: list[Attempt]) -> list[Chunk]:
        """Wait for the cloud's whole answer. Raises what went wrong."""
        self._thread.join()
        self._hand_over(journal)
        if self._error is not None:
            raise self._error
        return self._chunks

    def cancel(self, journal: list[Attempt]) -> None:
        """Close the connection: nobody needs the answer. After `answer` it does nothing."""
        if self._stop.ask():
            self._thread.join()  # until the costs are settled
        self._hand_over(journal)

    def _run(self) -> None:
        stream = self._cloud.stream(
            self._request, self._journal, live=False, patience_s=self._patience_s, stop=self._stop
        )
        try:
            with closing(stream):
                self._chunks += stream
        except Exception as error:  # noqa: BLE001  # `answer` raises it again
            self._error = error

    def _hand_over(self, journal: list[Attempt]) -> None:
        journal += self._journal
        self._journal.clear()


def last_request(messages: Sequence[Message]) -> int:
    """The place of the user's last words. After them stand only calls and their results."""
    place = max((at for at, one in enumerate(messages) if one.role == "user"), default=-1)
    rest = messages[place + 1 :]
    if place < 0 or any(one.role == "system" for one in rest) or (rest and rest[-1].role != "tool"):
        raise InvalidRequest(
            "calls are for the user's words: the last message must be the user's, or a tool's"
        )
    return place


def note(function_model: CallBackend, owner: str, prompt: str) -> None:
    with suppress(TypeError):  # a backend that allows no weak references
        _last[function_model] = owner, prompt


def unread(function_model: CallBackend, owner: str, prompt: str) -> str:
    """The part of a prompt that its owner's last one did not begin with."""
    before = ""
    with suppress(TypeError):
        whose, last = _last.get(function_model, ("", ""))
        before = last if whose == owner else ""
    pairs = enumerate(zip(before, prompt, strict=False))
    most = min(len(before), len(prompt))
    return prompt[next((place for place, (one, two) in pairs if one != two), most) :]


@dataclass(frozen=True, slots=True)
class Written:
    """One answer of the function model: its tokens, and the calls in it.

    `declined` is what it said instead of calls, unless that was `none`; `questions` ask for what
    is missing.
    """

    text: str
    tokens: tuple[Token, ...]
    calls: tuple[ToolCall, ...]
    declined: Complaint | None = None
    questions: tuple[Question, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the cloud made the same call as the device."""

    tool: str
    confirmed: bool


def with_repairs(repaired: Repaired) -> tuple[ToolCall, ...]:
    """The calls of a repair, each with the codes of its changes."""
    return tuple(
        replace(call, repairs=tuple(dict.fromkeys((*call.repairs, *made))))
        for call, made in zip(repaired.calls, repaired.by_call, strict=True)
    )


@dataclass(slots=True, kw_only=True)
class CallDraft(Draft):
    """The calls so far: who answered which intent, and how sure."""

    intents: tuple[Intent, ...]
    difficulty: float
    cloud_answered: bool = False
    text: str = ""
    steps: dict[str, float] = field(default_factory=dict)
    complaints: tuple[Complaint, ...] = ()
    # Intents that were answered in words, and the complaint about it.
    declined: dict[int, Complaint | None] = field(default_factory=dict)
    questions: dict[int, Question] = field(default_factory=dict)  # asked in place of a call
    verdicts: list[Verdict] = field(default_factory=list)
    again: Set[int] = frozenset()  # intents that ask for what another has asked for
    out_of_time: str = ""  # why the function model was not asked again
    evidence: dict[float, Mapping[str, float]] = field(default_factory=dict)  # by confidence
    _calls: dict[int, list[ToolCall]] = field(default_factory=dict)
    _nothing: dict[int, float] = field(default_factory=dict)  # how sure it is that no tool fits

    @property
    def local_calls(self) -> list[ToolCall]:
        return [call for calls in self._calls.values() for call in calls]

    @property
    def by_intent(self) -> Mapping[int, Sequence[ToolCall]]:
        return self._calls

    @property
    def answered(self) -> tuple[int, ...]:
        called = (number for number, calls in self._calls.items() if calls)
        return (*called, *self.questions)

    @property
    def ungrounded(self) -> list[int]:
        """Intents with a call that contains something nobody said."""
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
        """Add a call for an intent, unless this intent has it already."""
        for held in (self._nothing, self.declined, self.questions):
            held.pop(number, None)
        calls = self._calls.setdefault(number, [])
        if not any(same_call(call, other) for other in calls):
            calls.append(call)

    def nothing(self, number: int, confidence: float, declined: Complaint | None = None) -> None:
        if number not in self._calls:
            self._nothing[number] = confidence
            if declined is not None:
                self.declined[number] = declined

    def forget(self, number: int) -> None:
        for held in (self._calls, self._nothing, self.declined, self.questions):
            held.pop(number, None)

    def ask(self, number: int, question: Question, confidence: float) -> None:
        """Ask for what is missing, if nothing was called for this intent."""
        missing = f"{question.tool} needs {', '.join(question.needs)}"
        self.nothing(number, confidence, Complaint("question", missing, intent=number))
        if number not in self._calls:
            self.questions[number] = question

    def note(self, checked: Checked, again: Set[int]) -> None:
        """Replace the findings of an earlier check."""
        for number, calls in checked.calls.items():
            if calls:
                self._calls[number] = list(calls)
        self.complaints, self.again = checked.complaints, again

    def compare(self, numbers: Sequence[int], others: Sequence[ToolCall]) -> None:
        """Note which of the device's calls for these intents the cloud makes too."""
        self.verdicts += [
            Verdict(call.name, any(same_call(call, other) for other in others))
            for number in numbers
            for call in self._calls.get(number, ())
            if call.source == "local" and "unknown_tool" not in call.complaints
        ]

    def doubts(self, number: int) -> bool:
        """Whether an intent's answer is unlikely."""
        calls, least = self._calls.get(number, []), self.threshold or 0.0
        if not calls:
            return self._nothing.get(number, 0.0) < least
        return any((call.confidence or 0.0) < least for call in calls)

    def doubt(self, failed: Sequence[int], gate: Set[str]) -> str:
        """The first reason for doubt, in words."""
        why = self._first_doubt(failed, gate)
        return f"{why}; {self.out_of_time}" if self.out_of_time else why

    def _first_doubt(self, failed: Sequence[int], gate: Set[str]) -> str:
        calls = self._calls.get(failed[0], [])
        wrong = [one for one in self.complaints if one.intent == failed[0] and one.code in gate]
        if not calls:
            sure = self._nothing.get(failed[0])
            if wrong:
                return f"{wrong[0].code}: {wrong[0].message}"
            if sure is None:
                return f"nothing was called for {self.intents[failed[0]].text!r}"
            return f"{self.sureness} that no tool fits: {self.below_needed(sure)}"
        worst = min(calls, key=lambda call: call.confidence or 0.0)
        if (worst.confidence or 0.0) < (self.threshold or 0.0):
            return f"{worst.name}: {self.too_low(worst.confidence)}"
        faulty = next(call for call in calls if not gate.isdisjoint(call.complaints))
        return f"{faulty.name}: {', '.join(faulty.complaints)}"

    def reply(self, now: float) -> CallReply:
        calls = () if self.signalled else merge(self._calls, again=self.again)
        return CallReply(
            **self.common(self._source(calls), now),
            text=self.text or ("" if calls else self._question),
            decision=self.decision(features=self.evidence.get(self.confidence or 0.0, {})),
            finish_reason="tool_calls" if calls else "stop",
            tool_calls=calls,
            needs=() if self.signalled else self.needs,
            intents=self.intents,
            complaints=() if self.signalled else self.complaints,
            difficulty=self.difficulty,
            steps_ms=dict(self.steps),
        )

    @property
    def _question(self) -> str:
        # A question beside calls may be settled by their results, so it waits.
        return question_text(tuple(self.questions.values()), self.request.tools)

    @property
    def needs(self) -> tuple[str, ...]:
        """The parameters that are asked for."""
        asked = [name for number in sorted(self.questions) for name in self.questions[number].needs]
        return tuple(dict.fromkeys(asked))

    def measure(self) -> None:
        """Record the least sure part of the device's answer, before the cloud may replace it."""
        said = [call.confidence for call in self.local_calls if call.confidence is not None]
        self.confidence = min([*said, *self._nothing.values()], default=None)

    def _source(self, calls: Sequence[ToolCall]) -> Source:
        if self.signalled:
            return "none"
        source = source_of(calls, "cloud" if self.cloud_answered else "local")
        # If the cloud said in words that no tool fits a part, that counts as its share.
        return "mixed" if self.text and source == "local" else source


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRules:
    """Settings of this flow.

    `deadline_ms` is for requests that have none of their own. With `ask_for_made_up`, a required
    value that the model made up becomes a question; calibrations are fitted to the calls before.
    """

    tools_limit: int = 24
    deadline_ms: float = DEADLINE_MS
    tiers: tuple[float, float] = (0.30, 0.60)
    weights: Weights = field(default_factory=Weights)
    ask_for_made_up: bool = True


class Record(Protocol):
    """How the device's calls of each tool have turned out so far."""

    def shares(self, tools: Sequence[Tool]) -> Mapping[str, float]:
        """By name, the share of right calls of each tool that has been checked."""
        ...

    def note(self, outcomes: Sequence[tuple[Tool, bool]]) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the engine provides. `function_model` raises ModelNotFound if there is none."""

    function_model: Callable[[], CallBackend]
    cloud: Cloud
    policy: Policy
    calibration: Callable[[CallBackend | None], Calibration]
    rules: CallRules
    patience_s: float
    clock: Callable[[], float]
    today: Callable[[], datetime.date]
    record: Record
    render: Render | None = None  # fills in a model's own chat template


class Calling(Flow):
    """One request for calls: read once, then written, judged and perhaps sent to the cloud."""

    draft: CallDraft
    function_model: CallBackend | None = None
    calibration: Calibration | None = None
    ahead: Speculation | None = None  # the cloud, asked while the device works
    retries: int = 0  # remaining runs of the function model, after the first
    slowest_s: float = 0.0  # run of the function model for this request
    wrote_at: float = 0.0  # by the clock: when its last run ended
    longest_tokens: int = 0  # answer of the function model to this request
    failed: Sequence[int] = ()  # intents whose answer on the device is in doubt
    tried: bool = False  # the device has written its calls
    cut_at: float | None = None  # by the clock: the device stops here; None: it goes on to its end

    def __init__(self, request: Request, parts: Parts, attempts: list[Attempt]) -> None:
        started = parts.clock()
        self.place = last_request(request.messages)
        check_tools(request.tools)
        text = self.text = request.messages[self.place].content
        before, after = request.messages[: self.place], request.messages[self.place + 1 :]
        prompts = [message.content for message in before if message.role == "system"]
        self.home = read_home(request.context, prompts)
        context = {**request.context, **self.home.told(text)} if self.home else request.context
        self.told = Told(context, before, after)
        # Part of a request that is being served has been answered: it is read as one.
        whole = (Intent(text, 0, len(text), text),)
        as_one = self.told.after or request.single_call
        intents = whole if as_one else split(text, request.tools)
        self.parts, self.cloud, self.policy = parts, parts.cloud, parts.policy
        self.clock, self.patience_s = parts.clock, parts.patience_s
        self.tools = {tool.name: tool for tool in request.tools}
        ranked_by = self._ranked_by()
        known: Sequence[Tool] = request.tools
        limit = parts.rules.tools_limit
        if self.home:
            known = offered_in(self.home, known, [intent.resolved for intent in intents])
            limit = min(limit, MOST_TOOLS * max(1, len(intents)))
        self.offered = rank_tools(ranked_by, known, limit)
        self.draft = CallDraft(
            request=request,
            attempts=attempts,
            started=started,
            threshold=0.0,
            intents=intents,
            difficulty=self._difficulty(intents),
        )
        self.draft.took("split", 1000 * (parts.clock() - started))
        self._known = told_text(self.told.context, (*self.told.before, *self.told.after))
        self.whole = self.read(text)
        several = len(intents) > 1
        self.heard = [self.read(intent.resolved) for intent in intents] if several else [self.whole]

    def read(self, text: str) -> RequestText:
        """Words of the request, with what was known before it."""
        return read_request(text, self._known)

    def _ranked_by(self) -> str:
        """The words that tools are ranked by: "make it ten" says nothing without what was done."""
        said = [message.content for message in self.told.before if message.role == "user"]
        made = [call.name for message in self.told.before for call in message.tool_calls]
        text = self.text.replace("%", " percent") if self.home else self.text
        return " ".join([text, *said[-EARLIER_REQUESTS:], *made[-EARLIER_REQUESTS:]])

    def _difficulty(self, intents: Sequence[Intent]) -> float:
        """The difficulty of the hardest intent."""
        scores = [
            difficulty(
                intent.resolved,
                self.offered,
                intents=max(1, len(intents)),
                weights=self.parts.rules.weights,
                record=self.parts.record.shares(self.offered),
            ).score
            for intent in intents
        ]
        return max(scores, default=0.0)

    @property
    def must_call(self) -> bool:
        """A call is required: the answer is neither `none`, nor a question, nor words."""
        return self.request.tool_choice == "required"

    @property
    def calls(self) -> Calls:
        """How many calls the answer has."""
        if not self.must_call:
            return "any"
        return "one" if self.request.single_call else "some"

    @property
    def may_ask(self) -> bool:
        """Whether the function model may ask for what is missing."""
        return self.format.asks and not self.must_call

    @property
    def everything(self) -> Sequence[int]:
        return range(len(self.heard))

    def open_device(self) -> Misfit | None:
        request = self.request
        if request.policy == "cloud_only":
            return None
        if request.has_images:
            return Misfit("images_unsupported", "the function model cannot see images")
        try:
            self.function_model = self.parts.function_model()
        except ModelNotFound as error:
            return Misfit(error.code, str(error))
        self.calibration = self.parts.calibration(self.function_model)
        objective = find_objective(request, self.calibration)
        self.draft.threshold, self.draft.calibration = objective.threshold, self.calibration.name
        self.draft.objective = objective.words
        return objective.misfit or self._lateness(self.function_model)

    def _lateness(self, function_model: CallBackend) -> Misfit | None:
        """Counts only what is new to the model: tools that it read before cost no time."""
        if self.request.deadline_ms is None:
            return None
        facts = function_model.facts()
        capacity = Capacity(
            context_tokens=facts.context_tokens,
            prompt_tokens_per_second=facts.prompt_tokens_per_second,
            output_tokens_per_second=facts.output_tokens_per_second,
        )
        try:
            prompt = self.format.prompt(self.offered, self.text, self.told)
        except LocalError:  # a template that refuses these turns: the attempt will tell
            return None
        new = unread(function_model, self.request.owner, prompt)
        tokens = estimate_tokens([Message("user", new)])
        return find_lateness(self.request, capacity, tokens, USUAL_CALL_TOKENS)

    @override
    def adjust(self, plan: Plan) -> Plan:
        if plan.first != "local" or not plan.may_hand_off or self.tier != "cloud_first":
            return plan
        if self.told.after:
            return plan
        reason = f"difficulty {self.draft.difficulty:.2f} asks for the cloud first"
        return replace(plan, first="cloud", code="handoff_difficult", reason=reason,
                       local_backup=True, hurried=True)  # fmt: skip

    @override
    def try_device(self, plan: Plan) -> Generator[Event, None, bool]:
        yield from ()  # calls are returned whole
        may_ask = plan.may_hand_off and self.request.handoff != "signal"
        if may_ask and self.request.speculative and self.ahead is None:
            self.ahead = Speculation(self.cloud, self._asking(), self.parts.patience_s)
        # An easy request that fails twice should go to the cloud, if there is one.
        thrifty = plan.may_hand_off and self.tier == "local"
        known_late = self.misfit is not None and self.misfit.code == DeadlinePassed.code
        may_cut = plan.may_hand_off and not known_late and self._counts_time()
        allowed_s = (1 - STOPPING) * self.deadline_ms / 1000
        self.cut_at = self.draft.started + allowed_s if may_cut else None
        self._write_and_judge(EASY_RETRIES if thrifty else MOST_RETRIES)
        return bool(self.failed)

    def _write_and_judge(self, retries: int) -> None:
        write_on_device(self, retries)
        if self.must_call and not self.draft.local_calls:
            raise GenerationFailed("the function model wrote no call, though one is required")
        self.ask_for_targets()
        self.tried = True
        with self.timed("judge"):
            checked = self.check()
            self.failed = [
                number
                for number in self.everything
                if self.draft.doubts(number) or not self.gate.isdisjoint(checked.of(number))
            ]
        if self.told.after and not self.must_call:
            self._go_on_only_if_sure()
        self.draft.measure()
        self.draft.doubted = bool(self.failed)

    def _go_on_only_if_sure(self) -> None:
        """Of a request that has results: a doubtful further call is not made, chat answers."""
        for number in self.failed:
            self.draft.forget(number)
        self.failed = ()

    def was_made(self, call: ToolCall) -> bool:
        """Whether this request has led to this call before."""
        return any(same_call(call, one) for turn in self.told.after for one in turn.tool_calls)

    @override
    def ask_cloud(self, patience_s: float | None) -> Iterator[Event]:
        """All calls, or only those for the intents that failed; the device's other calls stay."""
        yield from ()
        rescue = self.tried and self.ahead is None
        self._ask(self.failed if rescue else self.everything, patience_s)

    @override
    def fall_back(self) -> Iterator[Event]:
        yield from ()
        self.cut_at = None  # late calls are better than none
        if not self.tried:  # else the device's calls stand
            self._write_and_judge(MOST_RETRIES)

    @override
    def doubt(self) -> str:
        return self.draft.doubt(self.failed, self.gate)

    @override
    def surety(self) -> str:
        sureness, enough = self.draft.sureness, self.draft.enough
        if not self.draft.local_calls:
            return f"nothing is to be called: the {sureness} in that is {enough}"
        return f"every call's {sureness} is {enough}"

    def _asking(self, numbers: Sequence[int] | None = None) -> Request:
        """The request for the cloud: the whole, or only the intents that failed."""
        messages = list(self.request.messages)
        if numbers is not None and len(numbers) < len(self.heard):
            text = ". ".join(self.heard[number].text.rstrip(".") for number in numbers)
            messages[self.place] = replace(messages[self.place], content=text)
        tools = tuple(rank_tools(self._ranked_by(), self.request.tools, CLOUD_TOOLS))
        asking = replace(self.request, messages=tuple(messages), tools=tools)
        others = set(self.everything).difference(self.everything if numbers is None else numbers)
        called = any(self.draft.calls_of(number) for number in others)
        # One call is enough: for the rest, that no tool fits may be right.
        return replace(asking, tool_choice="auto") if called and self.must_call else asking

    def _ask(self, numbers: Sequence[int], patience_s: float | None) -> None:
        draft, request = self.draft, self._asking(numbers)
        with self.timed("cloud"):
            if self.ahead is not None:
                heard = self.ahead.answer(draft.attempts)
            else:
                stream = self.cloud.stream(
                    request, draft.attempts, live=False, patience_s=patience_s
                )
                with closing(stream):
                    heard = list(stream)
        said = "".join(chunk for chunk in heard if isinstance(chunk, str))
        given: Sequence[ToolCall] | str = [chunk for chunk in heard if isinstance(chunk, ToolCall)]
        text = request.messages[self.place].content
        repaired = repair(given or said, self.request.tools, text, source="cloud")
        calls, words = with_repairs(repaired), [self.heard[number] for number in numbers]
        calls = calls[:1] if request.single_call else calls
        if not calls and request.tool_choice == "required":
            raise CloudMalformed("the cloud made no call, though one is required")
        owners = assign(calls, self.tools, words)
        normalized = [
            self.normalize(call, words[owner]) for owner, call in zip(owners, calls, strict=True)
        ]
        declined = None if calls else _in_words(said, repaired.complaints)
        if calls or declined is not None:
            self._replace(numbers, owners, normalized, declined)
        else:
            self._keep_beside_words(numbers)
        self.ask_for_targets()
        draft.text = "" if calls else said
        draft.cloud_answered = True
        self.check()

    def _replace(
        self,
        numbers: Sequence[int],
        owners: Sequence[int],
        calls: Sequence[ToolCall],
        declined: Complaint | None,
    ) -> None:
        """The cloud's calls in place of the device's; `declined` says why there are none."""
        if declined is None:
            self.draft.compare(numbers, calls)
        for number in numbers:
            self.draft.forget(number)
            if not calls:
                self.draft.declined[number] = declined
        for owner, call in zip(owners, calls, strict=True):
            self.draft.place(numbers[owner], call)

    def _keep_beside_words(self, numbers: Sequence[int]) -> None:
        """The cloud said something and called nothing. No call of the device is lost silently.

        A call that is likelier right than wrong, and against which nothing else speaks, comes back
        in doubt: the cloud's words do not set an alarm. Another one is not made, and a complaint
        says so.
        """
        draft = self.draft
        draft.reason += "; the cloud answered in words" if draft.local_calls else ""
        for number in numbers:
            if self.tried and number not in self.failed:
                continue  # the whole was asked ahead; the device is sure of this part
            calls = draft.calls_of(number)
            back = [call for call in calls if self._may_come_back(call, number)]
            if not back:
                draft.compare([number], ())
            draft.forget(number)
            draft.declined[number] = None
            if calls and not back:
                names = ", ".join(dict.fromkeys(call.name for call in calls))
                why = f"{names} was in doubt and is not called: the cloud answered in words"
                draft.declined[number] = Complaint("in_words", why, intent=number)
            for call in back:
                draft.place(number, replace(call, complaints=(*call.complaints, "in_words")))

    def _may_come_back(self, call: ToolCall, number: int) -> bool:
        if not FULL_GATE.isdisjoint(call.complaints) or self.made_up(call, number):
            return False
        if (call.confidence or 0.0) < LIKELIER_RIGHT:
            return False
        return fit_of(call.name, self.heard[number], self.offered) >= COVERING_FIT

    def _counts_time(self) -> bool:
        """A deadline that nobody asked for spares the first request: it loads the weights."""
        assert self.function_model is not None, "a plan that starts on the device has a model"
        return bool(
            self.request.deadline_ms or self.function_model.facts().output_tokens_per_second
        )

    @property
    def deadline_ms(self) -> float:
        return self.request.deadline_ms or self.parts.rules.deadline_ms

    @contextmanager
    def in_time(self, stream: TokenStream) -> Iterator[None]:
        """While inside, a stream is cut when the time is up, also while the model still reads.

        A runtime without `abort` is left at its next token.
        """
        abort: Callable[[], None] | None = getattr(stream, "abort", None)
        if self.cut_at is None or abort is None:
            yield
            return
        cut = threading.Event()

        def cut_stream() -> None:
            cut.set()
            abort()

        timer = threading.Timer(max(0.0, self.cut_at - self.clock()), cut_stream)
        timer.daemon = True
        timer.start()
        try:
            yield
        except GenerationFailed as error:
            if cut.is_set():
                raise self._too_late() from error
            raise
        finally:
            timer.cancel()

    def check_time(self) -> None:
        """Raises DeadlinePassed where the device must stop."""
        if self.cut_at is not None and self.clock() >= self.cut_at:
            raise self._too_late()

    def _too_late(self) -> DeadlinePassed:
        if self.longest_tokens:  # there is a first answer
            self.draft.out_of_time = f"another try was cut after {self.deadline_ms:,.0f} ms"
        return DeadlinePassed(f"the device had no answer after {self.deadline_ms:,.0f} ms")

    def own_up(self) -> None:
        """Say so if the device's answer came late because nobody else might give one."""
        draft, took_ms = self.draft, 1000 * (self.wrote_at - self.draft.started)
        if took_ms <= self.deadline_ms or draft.cloud_answered or draft.signalled:
            return
        if self.request.deadline_ms:  # who asked for none is not let down
            draft.degraded_code = draft.degraded_code or DeadlinePassed.code
        draft.reason += f"; it took {took_ms:,.0f} ms, the deadline is {self.deadline_ms:,.0f} ms"

    @property
    def tier(self) -> Tier:
        return tier(self.draft.difficulty, self.parts.rules.tiers)

    @property
    def gate(self) -> Set[str]:
        """The complaints that count as doubt: nearly all, except for an easy request.

        If a call is required, it may have been made at all costs.
        """
        return EASY_GATE if self.tier == "local" and not self.must_call else FULL_GATE

    @property
    def format(self) -> CallFormat:
        assert self.function_model is not None, "a plan that starts on the device has a model"
        facts = self.function_model.facts()
        return format_named(facts.call_format, facts.chat_template, self.parts.render)

    def normalize(self, call: ToolCall, words: RequestText) -> ToolCall:
        tool, today = self.tools.get(call.name), self._today()
        normalized = normalize(call, tool, words, whole=self.whole, today=today)
        listed = as_listed(normalized, self.told.context)
        if self.home and tool:
            return take_from_list(listed, tool, self.home, words.text)
        return listed

    def ask_for_targets(self) -> None:
        """Ask what is meant where a call names nothing that the home has."""
        for number in self.draft.answered if self.home and not self.must_call else ():
            for call in self.draft.calls_of(number):
                tool = self.tools.get(call.name)
                if tool is not None and lacks_target(call, tool):
                    sure = 1.0 - (call.confidence or 0.0)
                    self.draft.forget(number)
                    self.draft.ask(number, Question(call.name, ("name",)), sure)
                    break

    def aimed(self, calls: Sequence[ToolCall]) -> bool:
        """Whether all of these are for what the words name in the list of a home."""
        return self.home is not None and all(
            is_aimed(call, self.tools.get(call.name), self.text) for call in calls
        )

    def _today(self) -> datetime.date:
        """The day that the request was told, else the day it is."""
        try:
            return datetime.date.fromisoformat(str(self.told.context.get("date", ""))[:10])
        except ValueError:
            return self.parts.today()

    def check(self) -> Checked:
        """Check all calls against the tools, each other and the request; note it in the draft."""
        draft = self.draft
        served = {0: None} if self.told.after else {}  # what is done needs no further call
        declined = {**served, **draft.declined}
        checked = check_calls(draft.by_intent, self.heard, self.offered, declined=declined)
        if self.must_call:
            checked = self._with_doubts(checked)
        draft.note(checked, asked_twice(draft.by_intent, self.heard))
        return checked

    def _with_doubts(self, checked: Checked) -> Checked:
        """Calls that nobody may take for good, only because one is required."""
        calls: dict[int, tuple[ToolCall, ...]] = {}
        complaints = list(checked.complaints)
        for number, made in checked.calls.items():
            calls[number] = tuple(self._doubted(call, number, complaints) for call in made)
        return Checked(calls, tuple(complaints))

    def _doubted(self, call: ToolCall, number: int, complaints: list[Complaint]) -> ToolCall:
        codes = list(call.complaints)
        if unsaid := self.made_up(call, number):
            why = f"{call.name}: nobody said {', '.join(unsaid)}"
            complaints.append(Complaint("ungrounded", why, intent=number))
            codes.append("ungrounded")
        if self.was_made(call):
            why = f"{call.name} was called before, and has its result"
            complaints.append(Complaint("duplicate_call", why, intent=number))
            codes.append("duplicate_call")
        return replace(call, complaints=tuple(dict.fromkeys(codes)))

    def made_up(self, call: ToolCall, number: int) -> tuple[str, ...]:
        """What a tool requires and nobody said.

        It was made up, or stands in for another argument's value: "rename a.txt" to `a.txt`. A
        zero, a `false` or an empty value may go without saying: nine o'clock has minute 0. The
        cloud knows more than the words.
        """
        tool = self.tools.get(call.name)
        if tool is None or call.source == "cloud":
            return ()
        unsaid = ground(call.arguments, tool, self.whole).ungrounded  # another part may say it
        suspect = {*unsaid, *repeated_values(call, self.heard[number])}
        suspect = {name for name in suspect if call.arguments.get(name)}
        return tuple(name for name in required(tool.parameters) if name in suspect)

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        begin = self.parts.clock()
        try:
            yield
        finally:
            self.draft.took(step, 1000 * (self.parts.clock() - begin))


Try = Sequence[tuple[Written, Sequence[int]]]  # answers that belong together, and their intents


def write_on_device(flow: Calling, retries: int = MOST_RETRIES) -> None:
    """All calls in one answer; then a narrower try for each intent that needs one.

    An unlikely answer is written again, and the most likely one counts. An intent without a call is
    asked alone. So is one whose call contains invented text, and then text may only be copied from
    the request. If another tool fits an intent better, it is asked without the first tool. A
    required value that is invented even then becomes a question. The model runs once, and at most
    `retries` times more; none of these is begun that would end after the deadline. Raises
    DeadlinePassed if the first answer was cut.
    """
    draft, text = flow.draft, flow.text
    flow.retries = retries
    first = _write(flow, text)
    _place(flow, first, range(len(flow.heard)))
    with suppress(LocalError):  # the attempts record it; earlier calls stand
        asked = _write_again(flow, first) if retries > 1 and draft.local_calls else False
        if not asked and len(draft.local_calls) < expected_calls(text, flow.offered):
            for number in unanswered(draft.answered, len(flow.heard)):
                if (alone := flow.heard[number].text) != text and _may_retry(flow, [alone]):
                    _place(flow, _write(flow, alone), [number])
        for number in sorted(draft.ungrounded):
            if _may_retry(flow, [flow.heard[number].text]):
                _again(flow, number)
        for number in range(len(flow.heard)):
            _with_others(flow, number)
        if flow.may_ask and not _call_if_said(flow, first):
            _ask_if_likely(flow, first)
        _call_another(flow)
    if flow.may_ask and flow.parts.rules.ask_for_made_up:
        for number in draft.answered:
            _ask_for_made_up(flow, number)


def _call_if_said(flow: Calling, first: Written) -> bool:
    """A doubtful question for numbers that were said becomes the call."""
    question = flow.draft.questions.get(0)
    if len(flow.heard) > 1 or question is None or not flow.draft.doubts(0):
        return False
    tool = flow.tools.get(question.tool)
    if tool is None or not _may_retry(flow, [first.text]):
        return False
    grammar = flow.format.grammar([tool], first.text, copy=False, calls="one")
    written = _write(flow, first.text, grammar=grammar)
    for number, call in _normalized(flow, written, [0], forced=True):
        asked = [call.arguments.get(name) for name in question.needs]
        numbers = all(isinstance(one, int | float) and not isinstance(one, bool) for one in asked)
        if numbers and not flow.made_up(call, number):
            flow.draft.forget(number)
            flow.draft.place(number, call)
            return True
    return False


def _ask_if_likely(flow: Calling, first: Written) -> None:
    """Where the only call is in doubt and a question was not unlikely, have it written."""
    calls = flow.draft.calls_of(0)
    if len(flow.heard) > 1 or len(calls) != 1 or not flow.draft.doubts(0):
        return
    tool = flow.tools.get(calls[0].name)
    grammar = compile_question(tool) if tool else ""
    likely = ask_chance(first.tokens) >= LIKELY_QUESTION
    if not (grammar and likely and _may_retry(flow, [first.text])):
        return
    for question in _write(flow, first.text, grammar=grammar).questions:
        flow.draft.forget(0)
        flow.draft.ask(0, question, 1.0 - (calls[0].confidence or 0.0))


def _ask_for_made_up(flow: Calling, number: int) -> None:
    """Ask for what a tool requires and nobody said. The call would be wrong."""
    for call in flow.draft.calls_of(number):
        if made_up := flow.made_up(call, number):
            flow.draft.forget(number)
            flow.draft.ask(number, Question(call.name, made_up), 1.0 - (call.confidence or 0.0))
            return


def _call_another(flow: Calling) -> None:
    """A call is required, and the one that was written has its result: write another.

    If there is no other tool, the same call has to do; it is in doubt.
    """
    if flow.draft.local_calls or not flow.must_call:
        return
    made = {call.name for turn in flow.told.after for call in turn.tool_calls}
    others = [tool for tool in flow.offered if tool.name not in made]
    for number, call in _normalized(flow, _write(flow, flow.text, others), [0], repeats=True):
        flow.draft.place(number, call)


def _may_retry(flow: Calling, texts: Sequence[str], offered: Sequence[Tool] = ()) -> bool:
    """Whether there are retries left for asking these texts, and time for them."""
    if flow.retries < len(texts):
        return False
    needed_ms = 1000 * _seconds_for(flow, texts, offered or flow.offered)
    spent_ms = 1000 * (flow.parts.clock() - flow.draft.started)
    deadline_ms = flow.deadline_ms
    if spent_ms + needed_ms > deadline_ms:
        flow.draft.took("not_retried", needed_ms)
        flow.draft.out_of_time = (
            f"another try of about {needed_ms:,.0f} ms would end after {deadline_ms:,.0f} ms"
        )
        return False
    flow.retries -= len(texts)
    return True


def _seconds_for(flow: Calling, texts: Sequence[str], offered: Sequence[Tool]) -> float:
    """How long the function model will take for these texts, at its speed so far.

    A model that has not told its speed takes as long as it took before.
    """
    assert flow.function_model is not None, "a retry comes after a first run"
    facts = flow.function_model.facts()
    reading, writing = facts.prompt_tokens_per_second, facts.output_tokens_per_second
    if not reading or not writing:
        return flow.slowest_s * len(texts)
    prompt = flow.format.prompt(offered, texts[0], flow.told)
    first = unread(flow.function_model, flow.request.owner, prompt)
    new = [first, *texts[1:]]  # the tools are read once
    tokens = sum(estimate_tokens([Message("user", one)]) for one in new)
    # Together the answers to the parts are about as long as the answer to the whole.
    return tokens / reading + flow.longest_tokens / writing


def _write_again(flow: Calling, first: Written) -> bool:
    """Write an unlikely answer again: with only the tools it calls, and intent by intent.

    The most likely of the three counts. Returns whether every intent has been asked alone.
    """
    chance, everything = answer_chance(first.tokens), range(len(flow.heard))
    if chance is None or chance >= DOUBTED:
        return False
    tries: list[Try] = []
    names = {call.name for call in first.calls}
    called = [tool for tool in flow.offered if tool.name in names]
    if 0 < len(called) < len(flow.offered) and _may_retry(flow, [first.text], called):
        tries.append([(_write(flow, first.text, called), everything)])
    texts = [words.text for words in flow.heard]
    alone = len(texts) > 1 and _may_retry(flow, texts)
    if alone:
        tries.append([(_write(flow, texts[number]), [number]) for number in everything])
    best = max(tries, key=_chance_of, default=())
    if best and _chance_of(best) > chance:
        for number in everything:
            flow.draft.forget(number)
        for written, numbers in best:
            _place(flow, written, numbers)
    return alone


def _chance_of(one: Try) -> float:
    """The joint log-probability; minus infinity if there are several answers and no call."""
    if len(one) > 1 and not any(written.calls for written, _ in one):
        return -math.inf
    return sum(answer_chance(written.tokens) or 0.0 for written, _ in one)


def _with_others(flow: Calling, number: int) -> None:
    """If another tool fits the words better, ask again without the called tool.

    The new call counts if its tool fits better and it is more likely to be right.
    """
    before, words = flow.draft.calls_of(number), flow.heard[number]
    if len(before) != 1 or not _misfits(flow, before[0], words):
        return
    others = [tool for tool in flow.offered if tool.name != before[0].name]
    if not (others and _may_retry(flow, [words.text], others)):
        return
    after = _normalized(flow, _write(flow, words.text, others), [number])
    if len(after) != 1 or (after[0][1].confidence or 0.0) <= (before[0].confidence or 0.0):
        return
    call = after[0][1]
    old, new = (fit_of(name, words, flow.offered) for name in (before[0].name, call.name))
    if new > old:
        flow.draft.forget(number)
        flow.draft.place(number, replace(call, repairs=(*call.repairs, "other_tool")))


def _misfits(flow: Calling, call: ToolCall, words: RequestText) -> bool:
    """Whether the call is in doubt and another tool fits better.

    A call that the model is sure of stands: without its tool, the model would be just as sure of
    the next tool ("tell Mum I'll be ten minutes late" would set a timer).
    """
    doubted = (call.confidence or 0.0) < (flow.draft.threshold or 0.0)
    return doubted and better_fit(call, words, flow.offered) > 0


def _again(flow: Calling, number: int) -> None:
    """Allow only copied text. Kept if the calls are the same, surer, and nothing is invented."""
    before = flow.draft.calls_of(number)
    after = _normalized(flow, _write(flow, flow.heard[number].text, copy=True), [number])
    names = [call.name for call in before] == [call.name for _, call in after]
    surer = _least([call for _, call in after]) >= _least(before)
    if names and surer and not any("ungrounded" in call.complaints for _, call in after):
        flow.draft.forget(number)
        for _, call in after:
            repairs = (*call.repairs, "copied")
            flow.draft.place(number, replace(call, repairs=repairs))


def _least(calls: Sequence[ToolCall]) -> float:
    return min((call.confidence or 0.0 for call in calls), default=0.0)


def _place(flow: Calling, written: Written, numbers: Sequence[int]) -> None:
    for number, call in _normalized(flow, written, numbers):
        flow.draft.place(number, call)


def _normalized(
    flow: Calling,
    written: Written,
    numbers: Sequence[int],
    *,
    repeats: bool = False,
    forced: bool = False,
) -> list[tuple[int, ToolCall]]:
    """Each call of an answer with the intent it answers, normalized and with its confidence.

    `forced`: the grammar left the model no other answer, so `none` is not weighed against it.
    """
    assert flow.calibration is not None, "a model that writes has been opened"
    with flow.timed("judge"):
        words = [flow.heard[number] for number in numbers]
        owners = assign(written.calls, flow.tools, words)
        normalized = [
            flow.normalize(call, words[owner])
            for owner, call in zip(owners, written.calls, strict=True)
        ]
        kept = [
            place for place, call in enumerate(normalized) if repeats or not flow.was_made(call)
        ]
        owners = tuple(owners[place] for place in kept)
        normalized = [normalized[place] for place in kept]
        heard = flow.read(written.text)
        features = call_features(written.tokens, normalized, flow.offered, heard)
        sure = [call_confidence(flow.calibration, one) for one in features]
        flow.draft.evidence.update(zip(sure, features, strict=True))
        if not normalized and not written.questions:
            for number in numbers:
                flow.draft.nothing(number, sure[0], written.declined)
        for question, owner in zip(
            written.questions, assign(_asking_calls(written), flow.tools, words), strict=True
        ):
            flow.draft.ask(numbers[owner], question, min(sure))
        made_up = any(one.get("ungrounded") or one.get("absent") for one in features)
        if (
            normalized
            and not (flow.must_call or forced)
            and not flow.aimed(normalized)
            and none_is_likelier(written.tokens, made_up=made_up)
        ):
            _withhold(flow, written, numbers)
            return []
        return [
            (numbers[owner], replace(call, confidence=one))
            for owner, call, one in zip(owners, normalized, sure, strict=False)
        ]


def _asking_calls(written: Written) -> list[ToolCall]:
    """The calls that the questions stand for."""
    return [ToolCall(question.tool, {}) for question in written.questions]


def _withhold(flow: Calling, written: Written, numbers: Sequence[int]) -> None:
    """Make no call, with the model's confidence in that, and the reason."""
    names = ", ".join(dict.fromkeys(call.name for call in written.calls))
    why = f"{names} was not called: more likely no tool fits, or something is missing"
    for number in numbers:
        sure = math.exp(none_chance(written.tokens))
        flow.draft.nothing(number, sure, Complaint("withheld", why, intent=number))


def _write(
    flow: Calling,
    text: str,
    offered: Sequence[Tool] = (),
    *,
    copy: bool = False,
    grammar: str = "",
) -> Written:
    """One answer of the model under the grammar, with fewer tools if not all fit its context."""
    tools = list(offered or flow.offered)
    while True:
        try:
            return _write_once(flow, text, tools, copy=copy, grammar=grammar)
        except ContextExceeded:
            if len(tools) <= LEAST_TOOLS:
                raise
            tools = rank_tools(text, tools, max(LEAST_TOOLS, len(tools) // 2))


def _write_once(
    flow: Calling, text: str, tools: Sequence[Tool], *, copy: bool, grammar: str
) -> Written:
    function_model, parts = flow.function_model, flow.parts
    assert function_model is not None, "a plan that starts on the device has a model"
    flow.check_time()
    prompt = flow.format.prompt(tools, text, flow.told)
    room = function_model.facts().context_tokens
    if len(prompt) > room * MOST_CHARACTERS_PER_TOKEN:  # cheaper than a grammar and a count
        least = int(len(prompt) / MOST_CHARACTERS_PER_TOKEN)
        raise ContextExceeded(least, room, counted=False)
    with flow.timed("grammar"):
        grammar = grammar or flow.format.grammar(tools, text, copy=copy, calls=flow.calls)
    with flow.timed("draft"):
        drafts = [flow.format.draft(lines) for lines in draft_answers(text, tools)]
    tokens: list[Token] = []
    stream = function_model.write_call(
        prompt,
        grammar=grammar,
        # An answer that is asked for as a call has the length of an answer.
        max_tokens=max(MOST_TOKENS, flow.request.max_tokens) if flow.must_call else MOST_TOKENS,
        drafts=drafts,
        prefix=flow.format.prefix(tools),
        owner=flow.request.owner,
    )
    begin = parts.clock()
    with (
        flow.timed("model"),
        LocalAttempt(
            flow.request, flow.draft.attempts, function_model.facts(), parts.clock
        ) as attempt,
        flow.in_time(stream),
        closing(stream) as items,
    ):
        for item in items:
            if isinstance(item, Finish):
                attempt.finish = item
                break
            attempt.count()
            tokens.append(item)
            flow.check_time()
        attempt.outcome = "answered"
        note(function_model, flow.request.owner, prompt)
    flow.wrote_at = parts.clock()
    flow.slowest_s = max(flow.slowest_s, flow.wrote_at - begin)
    flow.longest_tokens = max(flow.longest_tokens, len(tokens))
    read = flow.format.read(tokens)
    asks_only = read.questions and not read.text
    repaired = Repaired((), (), ()) if asks_only else repair(read.text, tools, text, source="local")
    declined = next((one for one in repaired.complaints if one.call is None), None)
    return Written(text, read.tokens, with_repairs(repaired), declined, read.questions)


def _in_words(said: str, complaints: Sequence[Complaint]) -> Complaint | None:
    """The complaint about a cloud's words in place of calls; None if they are an answer."""
    if any(one.code == "refusal" for one in complaints):
        return Complaint("refusal", "the cloud declined in words")
    if said.rstrip().endswith("?"):
        return Complaint("question", "the cloud asks back")
    return None
