"""Function calls: the device writes and judges them; the cloud is asked for those that failed."""

from __future__ import annotations

import datetime
import itertools
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
    GATE,
    STRICT_GATE,
    Checked,
    asked_twice,
    call_confidence,
    call_features,
    check_calls,
    fit_of,
    merge,
    repeated_values,
    same_call,
    source_of,
)
from edgewise.calls.draft import draft_answers
from edgewise.calls.formats import CallFormat, Render, format_named
from edgewise.calls.hearing import as_heard, call_of_choices, least_heard, with_choices
from edgewise.calls.home import (
    FEW_TOOLS,
    MOST_TOOLS,
    is_aimed,
    lacks_target,
    offered_in,
    read_home,
    take_from_list,
)
from edgewise.calls.intents import as_meant, as_written, expected_calls, held_back, split
from edgewise.calls.normalize import join_lists, normalize
from edgewise.calls.parse import Repaired, as_listed, no_calls, repair
from edgewise.calls.prompt import (
    Question,
    Told,
    answer_chance,
    ask_chance,
    narrow_facts,
    none_chance,
    none_is_likelier,
    question_text,
    told_text,
)
from edgewise.calls.rank_tools import assign, for_cloud, rank_tools, unanswered
from edgewise.calls.schema import awaited, ground, parameters, required, wanted
from edgewise.calls.values.text import RequestText, read_request
from edgewise.cloud.provider import Chunk, Cloud, Stop
from edgewise.decide.calibration import Calibration
from edgewise.decide.policy import (
    MOST_CHARACTERS_PER_TOKEN,
    Capacity,
    Misfit,
    Plan,
    Policy,
    estimate_tokens,
    find_foreign,
    find_lateness,
    find_objective,
    find_queue,
    tokens_with_tools,
)
from edgewise.errors import (
    CloudMalformed,
    ContextExceeded,
    DeadlinePassed,
    GenerationFailed,
    InvalidRequest,
    LocalError,
    ModelNotFound,
)
from edgewise.flows.route import Draft, Flow, LocalAttempt, route
from edgewise.grammar.check import validate
from edgewise.grammar.tools import Calls, check_tools, compile_question
from edgewise.local.backend import UNFINISHED, CallBackend, CallToWrite, TokenStream, guarded
from edgewise.types.messages import Message, Request, Source, Tool, ToolCall, Word, is_below
from edgewise.types.replies import (
    Attempt,
    CallReply,
    Complaint,
    Event,
    Finish,
    Intent,
    Raw,
    TextDelta,
    Token,
)

EARLIER_REQUESTS = 2  # that say what a follow-up is about
USUAL_CALL_TOKENS = 40  # for a request of one or two calls
# Of one answer. The longest right one on validation data has 116; nested values need more.
MOST_TOKENS = 200
# Runs of the function model for one request, after the first. On 333 validation requests, four more
# changed no answer.
MOST_RETRIES = 4
# New tokens of a client's request that a device reads whose speed nobody knows yet.
READ_UNTIMED = 4_000
DEADLINE_MS = 2_500.0  # of a request that sets none itself
STOPPING = 0.02  # of the deadline: the device is cut so much before it, because stopping takes time
LEAST_TOOLS = 1
# A less likely answer is written again in narrower ways. Of the 4,000 validation answers above
# this, too few improve to be worth the extra runs.
DOUBTED = math.log(2 / 3)
# A question as likely as this is written where the call is in doubt. Of 65 validation requests that
# lack something, 52 are then asked about instead of 34; of 559 that lack nothing, 23 instead of 17.
LIKELY_QUESTION = math.log(0.1)
# A value with this support is said: no question takes the place of a call for it.
SAID = 0.95
# After a tool's result a doubtful call is left in doubt from this on, and not made below it. Of
# validation requests, most such calls are right above it; where all is done, nothing is written.
LIKELY_NEXT = 0.4
# A doubtful call comes back from this on if the cloud answers in words.
LIKELIER_RIGHT = 0.5
# Choices that were heard make a call of their own, with this confidence: nobody has fitted more.
LEAST_CHOICES, GUESSED = 2, 0.4
# A call that only the cloud has written is in doubt if a word of it was heard below this.
HEARD = 0.5


# -- what the engine provides ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRules:
    """Settings of this flow.

    `deadline_ms` is for requests that have none of their own. With `ask_for_made_up`, a required
    value that the model made up becomes a question; calibrations are fitted to the calls before.
    """

    tools_limit: int = 24
    deadline_ms: float = DEADLINE_MS
    ask_for_made_up: bool = True


class Record(Protocol):
    """How the device's calls of each tool have turned out so far."""

    def note(self, outcomes: Sequence[tuple[Tool, bool]]) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CallNeeds:
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


# -- the course of a request -----------------------------------------------------------------------


def answer(
    request: Request, parts: CallNeeds, attempts: list[Attempt]
) -> Generator[Event, None, CallReply]:
    """The calls the last user message asks for. Events are what a cloud says that is passed on."""
    flow = Calling(request, parts, attempts)
    try:
        flow.misfit = flow.open_device()
        yield from route(flow)
    finally:
        if flow.ahead is not None:
            flow.ahead.cancel(attempts)
    flow.own_up()
    flow.doubt_hearing()
    parts.record.note([(flow.tools[one.tool], one.confirmed) for one in flow.draft.verdicts])
    return flow.draft.reply(parts.clock())


def last_request(messages: Sequence[Message]) -> int:
    """The place of the user's last words. After them stand only calls and their results."""
    place = max((at for at, one in enumerate(messages) if one.role == "user"), default=-1)
    rest = messages[place + 1 :]
    if place < 0 or any(one.role == "system" for one in rest) or (rest and rest[-1].role != "tool"):
        raise InvalidRequest(
            "calls are for the user's words: the last message must be the user's, or a tool's"
        )
    return place


class Calling(Flow):
    """One request for calls: read once, then written, judged and perhaps sent to the cloud."""

    draft: CallDraft
    function_model: CallBackend | None = None
    calibration: Calibration | None = None
    ahead: Speculation | None = None  # the cloud, asked while the device works
    asks: Mapping[int, float]  # by intent: the model's chance of a question where it wrote a call
    repeated: set[int]  # intents for which it wrote a call that was made before
    retries: int = 0  # remaining runs of the function model, after the first
    slowest_s: float = 0.0  # run of the function model for this request
    wrote_at: float = 0.0  # by the clock: when its last run ended
    longest_tokens: int = 0  # answer of the function model to this request
    failed: Sequence[int] = ()  # intents whose answer on the device is in doubt
    tried: bool = False  # the device has written its calls
    passed_on: bool = False  # the cloud's answer, as it is: nobody else can go on
    cut_at: float | None = None  # by the clock: the device stops here; None: it goes on to its end

    def __init__(self, request: Request, parts: CallNeeds, attempts: list[Attempt]) -> None:
        started = parts.clock()
        self.place = last_request(request.messages)
        self.asks = {}
        self.repeated = set()
        self.asked = request  # as it may leave: a cloud also knows the tools that were not chosen
        request = replace(request, tools=request.offered)
        check_tools(request.tools)
        text = self.text = as_meant(request.messages[self.place].content)
        before, after = request.messages[: self.place], request.messages[self.place + 1 :]
        prompts = [message.content for message in before if message.role == "system"]
        known = request.context or prompts  # else nobody has listed a home
        self.home = read_home(request.context, prompts) if known else None
        context = {**request.context, **self.home.told(text)} if self.home else request.context
        self.told = Told(context, before, after)
        # Part of a request that is being served has been answered: it is read as one.
        whole = (Intent(text, 0, len(text), text),)
        as_one = self.told.after or request.single_call
        intents = whole if as_one else split(text, request.tools)
        self.parts, self.cloud, self.policy = parts, parts.cloud, parts.policy
        self.clock, self.patience_s = parts.clock, parts.patience_s
        self.tools = {tool.name: tool for tool in request.tools}
        tools: Sequence[Tool] = request.tools
        limit = parts.rules.tools_limit
        if self.home:
            tools = offered_in(self.home, tools, [intent.resolved for intent in intents])
            if len(tools) > FEW_TOOLS:
                limit = min(limit, MOST_TOOLS * max(1, len(intents)))
        self.offered = rank_tools(self._ranked_by(), tools, limit)
        self.draft = CallDraft(
            request=request,
            attempts=attempts,
            started=started,
            threshold=0.0,
            intents=intents,
        )
        self.draft.took("split", 1000 * (parts.clock() - started))
        self._known = told_text(self.told.context, (*self.told.before, *self.told.after))
        self._facts = narrow_facts(self.told.context)
        self.whole = self.read(text)
        several = len(intents) > 1
        self.heard = [self.read(intent.resolved) for intent in intents] if several else [self.whole]

    def read(self, text: str) -> RequestText:
        """Words of the request, with what was known before it."""
        return read_request(text, self._known, self._facts)

    def _ranked_by(self) -> str:
        """The words that tools are ranked by: "make it ten" says nothing without what was done."""
        said = [message.content for message in self.told.before if message.role == "user"]
        made = [call.name for message in self.told.before for call in message.tool_calls]
        text = self.text.replace("%", " percent") if self.home else self.text
        return " ".join([text, *said[-EARLIER_REQUESTS:], *made[-EARLIER_REQUESTS:]])

    # -- what is asked --

    @property
    def spoken(self) -> Sequence[Word]:
        """The words of the request as they were heard; none if it was written."""
        return self.request.messages[self.place].heard

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

    @property
    def gate(self) -> Set[str]:
        """The complaints that count as doubt. A required call may have been made at all costs."""
        return STRICT_GATE if self.must_call else GATE

    @property
    def format(self) -> CallFormat:
        assert self.function_model is not None, "a plan that starts on the device has a model"
        facts = self.function_model.facts()
        return format_named(facts.call_format, facts.chat_template, self.parts.render)

    @property
    def deadline_ms(self) -> float:
        return self.request.deadline_ms or self.parts.rules.deadline_ms

    # -- the device --

    def open_device(self) -> Misfit | None:
        request = self.request
        if request.policy == "cloud_only":
            return None
        if (misfit := find_foreign(request)) is not None:
            return misfit
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
        misfit = objective.misfit or self._lateness(self.function_model)
        if misfit is None and (wait_s := self.function_model.facts().wait_s):
            misfit = find_queue(request, wait_s, self.cloud.closed(request))
        return misfit

    def _lateness(self, function_model: CallBackend) -> Misfit | None:
        """Counts only what is new to the model: tools that it read before cost no time."""
        if self.request.deadline_ms is None and self.request.original is None:
            return None
        facts = function_model.facts()
        capacity = Capacity(
            context_tokens=facts.context_tokens,
            prompt_tokens_per_second=facts.prompt_tokens_per_second,
            output_tokens_per_second=facts.output_tokens_per_second,
            wait_s=facts.wait_s,
        )
        try:
            prompt = self.format.prompt(self.offered, as_written(self.text), self.told)
        except LocalError:  # a template that refuses these turns: the attempt will tell
            return None
        new = unread(function_model, self.request.owner, prompt)
        tokens = estimate_tokens([Message("user", new)])
        if self.request.original is not None and (long := self._length(tokens, capacity)):
            return long
        return find_lateness(self.request, capacity, tokens, USUAL_CALL_TOKENS)

    def _length(self, new_tokens: int, capacity: Capacity) -> Misfit | None:
        """Of a client's own request: tools and turns that do not fit, or that nobody waits for."""
        speed = capacity.prompt_tokens_per_second
        if (sent := tokens_with_tools(self.asked)) > capacity.context_tokens:
            words = f"with its tools the request has about {sent:,} tokens, more than the device's"
            return Misfit(ContextExceeded.code, f"{words} {capacity.context_tokens:,}", soft=True)
        # What is cut is not lost: the next turn begins where this one ended.
        reads = READ_UNTIMED if not speed else int(2 * speed * self.deadline_ms / 1000)
        if new_tokens <= reads:
            return None
        words = f"about {new_tokens:,} new tokens, {reads:,} are what the device reads in time"
        return Misfit(ContextExceeded.code, words, soft=True)

    @override
    def adjust(self, plan: Plan) -> Plan:
        """An agent's request that the device cannot read is its cloud's alone: that gets its time,
        and its errors are told. Only where it is closed the device does what it can."""
        long = self.misfit is not None and self.misfit.code == ContextExceeded.code
        return replace(plan, hurried=False, local_backup=False) if long else super().adjust(plan)

    @override
    def try_device(self, plan: Plan) -> Generator[Event, None, bool]:
        yield from ()  # calls are returned whole
        may_ask = plan.may_hand_off and self.request.handoff != "signal"
        if may_ask and self.request.speculative and self.ahead is None:
            self.ahead = Speculation(self.cloud, self._asking(), self.parts.patience_s)
        assert self.function_model is not None, "a plan that starts on the device has a model"
        known_late = self.misfit is not None and self.misfit.code == DeadlinePassed.code
        # A deadline that nobody asked for spares the first request: it loads the weights. An agent
        # sends thousands of tokens, and many turns: its first one teaches how fast they are read.
        known = self.function_model.facts().output_tokens_per_second
        counts = self.request.deadline_ms or known or self.request.original is not None
        may_cut = plan.may_hand_off and not known_late and bool(counts)
        allowed_s = (1 - STOPPING) * self.deadline_ms / 1000
        self.cut_at = self.draft.started + allowed_s if may_cut else None
        self._write_and_judge()
        return bool(self.failed)

    def _write_and_judge(self) -> None:
        write_on_device(self)
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
        if not self.must_call:
            self._leave_out_held()
            if self.told.after:
                self._drop_doubtful()
        self._mark_doubts()
        self.draft.measure()
        self.draft.doubted = bool(self.failed)

    def ask_for_targets(self) -> None:
        """Ask what is meant where a call names nothing that the home has."""
        for number in self.draft.answered if not self.must_call else ():
            for call in self.draft.calls_of(number):
                if self._lacks_target(call):
                    sure = self.asking_surety(call, number)
                    self.draft.forget(number)
                    self.draft.ask(number, Question(call.name, ("name",)), sure)
                    break

    def check(self) -> Checked:
        """Check all calls against the tools, each other and the request; note it in the draft."""
        draft = self.draft
        served = {0: None} if self.told.after else {}  # what is done needs no further call
        declined = {**served, **draft.declined}
        checked = check_calls(
            draft.by_intent, self.heard, self.offered, declined=declined, request=self.text
        )
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
        if self._lacks_target(call):
            complaints.append(
                Complaint("missing_argument", f"{call.name} names no device", intent=number)
            )
            codes.append("missing_argument")
        if self.was_made(call):
            why = f"{call.name} was called before, and has its result"
            complaints.append(Complaint("duplicate_call", why, intent=number))
            codes.append("duplicate_call")
        return replace(call, complaints=tuple(dict.fromkeys(codes)))

    def _leave_out_held(self) -> None:
        """Make no call that the words negate, take back or only consider, and ask nothing for it.

        A client that reads no doubts would run it. A complaint names it, and the answer is in
        doubt: a cloud that may be asked is asked.
        """
        draft = self.draft
        for number in self.failed:
            calls = draft.calls_of(number)
            left = [call for call in calls if not self._is_held(call)]
            if len(left) < len(calls):
                draft.forget(number)
                for call in left:
                    draft.place(number, call)
        for number, asked in [*draft.questions.items()]:
            if cue := held_back(ToolCall(asked.tool, {}), self.text, self.offered):
                draft.hold(number, asked.tool, cue)
                self.failed = sorted({*self.failed, number})

    def _is_held(self, call: ToolCall) -> bool:
        # The complaint may also say that the words were not understood.
        marked = "held_back" in call.complaints
        return marked and bool(held_back(call, self.text, self.offered))

    def _drop_doubtful(self) -> None:
        """It has results: what was made is not made again, and a chat answers in words.

        In a request for calls a doubtful next call stays, in doubt, if it is likely and all that it
        needs was said or found; another one is not made, and a complaint names it. That nothing is
        left to do is in doubt too, unless the model only repeated what was done.
        """
        draft, failed = self.draft, self.failed
        chats = self.request.task != "call"
        self.failed = [one for one in failed if not chats and one not in self.repeated]
        for number in failed:
            calls = draft.calls_of(number)
            if number not in self.failed:
                draft.forget(number)
            elif calls and not all(self._may_be_next(call, number) for call in calls):
                names = ", ".join(dict.fromkeys(call.name for call in calls))
                why = f"{names} would be the next call, but {self.doubt()}"
                sure = min(call.confidence or 0.0 for call in calls)
                draft.forget(number)
                draft.nothing(number, sure, Complaint("withheld", why, intent=number))
        self.check()

    def _may_be_next(self, call: ToolCall, number: int) -> bool:
        likely = (call.confidence or 0.0) >= LIKELY_NEXT
        wrong = GATE & {*call.complaints} - {"weak_fit"}  # the words fit what was called before
        return likely and not wrong and not self.made_up(call, number)

    def asking_surety(self, call: ToolCall, number: int) -> float:
        """How sure a question is that takes the place of a call.

        A call that is wrong need not lack anything, so its own doubt does not prove the question.
        The model has written the call, though it may ask: its chance of a question is below one
        half, and nobody has fitted more than that. Such a question is in doubt.
        """
        return min(1.0 - (call.confidence or 0.0), self.asks.get(number, 0.0))

    def _mark_doubts(self) -> None:
        """Part the calls that may be run from those in doubt.

        `cloud_share` says how much leaves, not how much is right: below the calibration's own
        threshold a call is kept then, and in doubt all the same.
        """
        draft = self.draft
        least = self._least_sure() if self.request.cloud_share is not None else 0.0
        for number in self.everything:
            calls = draft.calls_of(number)
            unsure = [call for call in calls if (call.confidence or 0.0) < least]
            if number in self.failed:
                draft.mark(number, draft.doubt([number], self.gate))
            elif unsure:
                low = is_below(unsure[0].confidence or 0.0, least)
                draft.mark(number, f"{unsure[0].name}: {draft.sureness} {low}")

    @override
    def doubt(self) -> str:
        return self.draft.doubt(self.failed, self.gate)

    @override
    def surety(self) -> str:
        sureness, enough = self.draft.sureness, self.draft.enough
        if not self.draft.local_calls:
            return f"nothing is to be called: the {sureness} in that is {enough}"
        return f"every call's {sureness} is {enough}"

    # -- the cloud --

    @override
    def ask_cloud(self, patience_s: float | None) -> Iterator[Event]:
        """All calls, or only those for the intents that failed; the device's other calls stay."""
        rescue = self.tried and self.ahead is None
        numbers = self.failed if rescue else self.everything
        draft, request = self.draft, self._asking(numbers)
        if len(numbers) < len(self.heard):  # a client's own request asks for everything
            request = replace(request, original=None)
        with self.timed("cloud"):
            heard = yield from self._heard(request, patience_s)
        if self.passed_on:
            self._take_as_passed_on(numbers, heard)
            return
        said = "".join(chunk for chunk in heard if isinstance(chunk, str))
        given = [chunk for chunk in heard if isinstance(chunk, ToolCall)]
        draft.cut = any(isinstance(one, Finish) and one.reason == "length" for one in heard)
        given = given[:1] if request.single_call else given
        text = request.messages[self.place].content
        # Words of a chat are words, also where they show how a call is written.
        read = given or self.request.task == "call" or self.must_call
        repaired = repair(given or said, self.request.tools, text, source="cloud") if read else None
        calls = with_repairs(repaired) if repaired else ()
        calls = calls[:1] if request.single_call else calls
        if not calls and request.tool_choice == "required" and not draft.cut:
            raise CloudMalformed("the cloud made no call, though one is required")
        whole = bool(given) and len(numbers) == len(self.heard)
        declined = None if calls else _in_words(said)
        if calls or declined is not None or draft.cut:
            self._replace(numbers, calls, declined, as_written=given if whole else ())
        else:
            self._keep_beside_words(numbers)
        self.ask_for_targets()
        beside = whole and not draft.questions  # a question about a call takes its words' place
        draft.text = said if beside or not calls else ""
        draft.cloud_answered = True
        self.check()

    def _asking(self, numbers: Sequence[int] | None = None) -> Request:
        """The request for the cloud: the whole, or only the intents that failed."""
        messages = list(self.asked.messages)
        if numbers is not None and len(numbers) < len(self.heard):
            text = ". ".join(self.heard[number].text.rstrip(".") for number in numbers)
            messages[self.place] = replace(messages[self.place], content=text)
        asking = replace(for_cloud(self.asked, self._ranked_by()), messages=tuple(messages))
        others = set(self.everything).difference(self.everything if numbers is None else numbers)
        called = any(self.draft.calls_of(number) for number in others)
        # One call is enough: for the rest, that no tool fits may be right.
        return replace(asking, tool_choice="auto") if called and self.must_call else asking

    def _heard(
        self, request: Request, patience_s: float | None
    ) -> Generator[Event, None, list[Chunk]]:
        """The cloud's answer. What is passed on as it comes is told at once."""
        if self.ahead is not None:
            return self.ahead.answer(self.draft.attempts)
        heard: list[Chunk] = []
        live = request.original is not None and request.original.stream
        stream = self.cloud.stream(request, self.draft.attempts, live=live, patience_s=patience_s)
        with closing(stream):
            for chunk in stream:
                heard.append(chunk)
                if isinstance(chunk, Raw):
                    self.passed_on = True
                    yield TextDelta(chunk.text, "cloud", raw=chunk)
        return heard

    def _take_as_passed_on(self, numbers: Sequence[int], heard: Sequence[Chunk]) -> None:
        """The client has all of it already: nothing is read into it, and nothing else is called."""
        draft = self.draft
        calls = [chunk for chunk in heard if isinstance(chunk, ToolCall)]
        draft.text = "".join(chunk.text for chunk in heard if isinstance(chunk, Raw))
        draft.cut = any(isinstance(one, Finish) and one.reason == "length" for one in heard)
        draft.cloud_answered = True
        self._replace(numbers, calls, None, as_written=calls)

    def _replace(
        self,
        numbers: Sequence[int],
        calls: Sequence[ToolCall],
        declined: Complaint | None,
        *,
        as_written: Sequence[ToolCall] = (),
    ) -> None:
        """The cloud's calls in place of the device's; `declined` says why there are none.

        What it wrote when it was asked for the whole, `as_written`, is the client's: complained
        about where it breaks its schema, and not touched. What fills a gap becomes like the rest.
        """
        draft, words = self.draft, [self.heard[number] for number in numbers]
        owners = assign(calls, self.tools, words)
        normalized = [
            self.normalize(call, words[owner]) for owner, call in zip(owners, calls, strict=True)
        ]
        if declined is None and (calls or not draft.cut):
            draft.compare(numbers, normalized)
        for number in numbers:
            draft.forget(number)
            if not calls:
                draft.declined[number] = declined
        if as_written:
            draft.take(owners, [self._faulted(call) for call in as_written])
            return
        for owner, call in zip(owners, normalized, strict=True):
            draft.place(numbers[owner], call)

    def _faulted(self, call: ToolCall) -> ToolCall:
        """The same call, with what its schema says against it."""
        tool = self.tools.get(call.name)
        if tool is None:
            return replace(call, complaints=("unknown_tool",))
        codes = (one.code for one in validate(call.name, call.arguments, tool))
        return replace(call, complaints=tuple(dict.fromkeys(codes)))

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
        if not STRICT_GATE.isdisjoint(call.complaints) or self.made_up(call, number):
            return False
        if (call.confidence or 0.0) < LIKELIER_RIGHT:
            return False
        return fit_of(call.name, self.heard[number], self.offered) >= COVERING_FIT

    @override
    def may_fall_back(self) -> bool:
        return not self.passed_on

    @override
    def fall_back(self) -> Iterator[Event]:
        yield from ()
        self.cut_at = None  # late calls are better than none
        if not self.tried:  # else the device's calls stand
            self._write_and_judge()

    def own_up(self) -> None:
        """Say so if the device's answer came late because nobody else might give one."""
        draft, took_ms = self.draft, 1000 * (self.wrote_at - self.draft.started)
        if took_ms <= self.deadline_ms or draft.cloud_answered or draft.signalled:
            return
        if self.request.deadline_ms:  # who asked for none is not let down
            draft.degraded_code = draft.degraded_code or DeadlinePassed.code
        draft.reason += f"; it took {took_ms:,.0f} ms, the deadline is {self.deadline_ms:,.0f} ms"

    def doubt_hearing(self) -> None:
        """Make no call surer than its words were heard, whoever wrote it.

        A cloud that reads the words cannot tell that a name was misheard.
        """
        draft, heard = self.draft, self.spoken
        if not heard or draft.signalled:
            return
        least = self._least_sure()
        doubts: list[str] = []
        for number, calls in draft.by_intent.items():
            found = []
            for call in calls:
                tool = self.tools.get(call.name)
                doubt = least_heard(call, tool, heard) if tool else None
                after = as_heard(call, doubt, least) if doubt else call
                doubts += [after.doubt] if after.doubt != call.doubt else []
                found.append(after)
                if doubt and call.confidence is not None and after.confidence is not None:
                    evidence = draft.evidence.get(call.confidence, {})
                    draft.evidence[after.confidence] = {**evidence, "heard": doubt.chance}
            draft.by_intent[number] = found
        sure = [call.confidence for call in draft.local_calls if call.confidence is not None]
        draft.confidence = min([*sure, draft.confidence or 0.0]) if sure else draft.confidence
        if not doubts:
            return
        draft.doubted = True
        if self.request.handoff == "signal":
            draft.signal(self.doubt_code, "; ".join(doubts))
        elif draft.code == "kept_confident":
            draft.conclude("kept_in_doubt", "; ".join(doubts))
        else:
            draft.reason += f"; {'; '.join(doubts)}"

    def _least_sure(self) -> float:
        """The confidence below which a call is in doubt, whatever share may leave."""
        if self.calibration is None:
            return HEARD
        if self.request.cloud_share is not None:
            return self.calibration.threshold
        return self.draft.threshold or 0.0

    # -- one call --

    def normalize(self, call: ToolCall, words: RequestText) -> ToolCall:
        tool, today = self.tools.get(call.name), self._today()
        if tool and call.source == "local" and self.spoken:
            call = with_choices(call, tool, words.text)
        normalized = normalize(call, tool, words, whole=self.whole, today=today)
        listed = as_listed(normalized, self.told.context)
        if self.home and tool:
            return take_from_list(listed, tool, self.home, words.text)
        return listed

    def _today(self) -> datetime.date:
        """The day that the request was told, else the day it is."""
        try:
            return datetime.date.fromisoformat(str(self.told.context.get("date", ""))[:10])
        except ValueError:
            return self.parts.today()

    def was_made(self, call: ToolCall) -> bool:
        """Whether this request has led to this call before."""
        return any(same_call(call, one) for turn in self.told.after for one in turn.tool_calls)

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

    def waits(self, call: ToolCall) -> bool:
        """Whether something that it requires is what another call of this request will find."""
        tool = self.tools.get(call.name)
        if tool is None or self.told.after or len(self.draft.local_calls) < 2:
            return False
        fields = parameters(tool.parameters)
        given = call.arguments.items()
        return any(awaited(value, name, fields.get(name, {}), self.whole) for name, value in given)

    def aimed(self, calls: Sequence[ToolCall]) -> bool:
        """Whether all of these are for what the words name in the list of a home."""
        return self.home is not None and all(
            is_aimed(call, self.tools.get(call.name), self.text) for call in calls
        )

    def _lacks_target(self, call: ToolCall) -> bool:
        """Whether a call would switch something of a home without saying what.

        Without a list of the home nobody knows what it has, but locks and covers are named anyway.
        """
        tool, listed = self.tools.get(call.name), self.home is not None
        if tool is None or not (listed or "domain" in call.arguments):
            return False
        return lacks_target(call, tool, listed=listed, text=self.text)

    # -- time --

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
            self.draft.not_retried |= {*self.everything}
        return DeadlinePassed(f"the device had no answer after {self.deadline_ms:,.0f} ms")

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        begin = self.parts.clock()
        try:
            yield
        finally:
            self.draft.took(step, 1000 * (self.parts.clock() - begin))


def _in_words(said: str) -> Complaint | None:
    """The complaint about a cloud's words in place of calls; None if they are an answer."""
    if any(one.code == "refusal" for one in no_calls(said)):
        return Complaint("refusal", "the cloud declined in words")
    if said.rstrip().endswith("?"):
        return Complaint("question", "the cloud asks back")
    return None


# -- writing on the device -------------------------------------------------------------------------


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


def write_on_device(flow: Calling) -> None:
    """All calls in one answer; then a narrower try for each intent that needs one.

    An unlikely answer is written again, and the most likely one counts. An intent without a call is
    asked alone. So is one whose call contains invented text, and then text may only be copied from
    the request. A required value that is invented even then becomes a question. The model runs
    once, and at most `MOST_RETRIES` times more; none of these is begun that would end after the
    deadline. Raises DeadlinePassed if the first answer was cut.
    """
    draft, text = flow.draft, flow.text
    flow.retries = MOST_RETRIES
    first = _write(flow, text)
    _place(flow, first, range(len(flow.heard)))
    with suppress(LocalError):  # the attempts record it; earlier calls stand
        asked = _write_again(flow, first) if draft.local_calls else False
        if not asked and len(draft.local_calls) < expected_calls(text, flow.offered):
            for number in unanswered(draft.answered, len(flow.heard)):
                alone = flow.heard[number].text
                if alone != text and _may_retry(flow, [alone], [number]):
                    _place(flow, _write(flow, alone), [number])
        for number in sorted(draft.ungrounded):
            if not any(map(flow.waits, draft.calls_of(number))) and _may_retry(
                flow, [flow.heard[number].text], [number]
            ):
                _again(flow, number)
        if flow.may_ask and not _call_if_said(flow, first):
            _ask_if_likely(flow, first)
        _call_another(flow)
    _call_of_choices(flow)
    _join_lists(flow)
    _hold_for_results(flow)
    if flow.may_ask and flow.parts.rules.ask_for_made_up:
        for number in draft.answered:
            _ask_for_made_up(flow, number)


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
    said = as_written(text)
    prompt = flow.format.prompt(tools, said, flow.told)
    room = function_model.facts().context_tokens
    if len(prompt) > room * MOST_CHARACTERS_PER_TOKEN:  # cheaper than a grammar and a count
        least = int(len(prompt) / MOST_CHARACTERS_PER_TOKEN)
        raise ContextExceeded(least, room, counted=False)
    with flow.timed("grammar"):
        grammar = grammar or flow.format.grammar(tools, said, copy=copy, calls=flow.calls)
    with flow.timed("draft"):
        drafts = tuple(map(flow.format.draft, draft_answers(said, tools)))
    tokens: list[Token] = []
    facts, begin = function_model.facts(), parts.clock()
    with (
        flow.timed("model"),
        LocalAttempt(flow.request, flow.draft.attempts, facts, parts.clock) as attempt,
        guarded(facts.model),
    ):
        stream = function_model.write_call(
            CallToWrite(
                prompt,
                grammar=grammar,
                # An answer that is asked for as a call has the length of an answer.
                max_tokens=max(MOST_TOKENS, flow.request.device_tokens)
                if flow.must_call
                else MOST_TOKENS,
                drafts=drafts,
                prefix=flow.format.prefix(tools),
                owner=flow.request.owner,
            )
        )
        with flow.in_time(stream), closing(stream) as items:
            for item in items:
                if isinstance(item, Finish):
                    attempt.finish = item
                    break
                attempt.count()
                tokens.append(item)
                flow.check_time()
            else:
                raise GenerationFailed(f"{facts.model} {UNFINISHED}")
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


def with_repairs(repaired: Repaired) -> tuple[ToolCall, ...]:
    """The calls of a repair, each with the codes of its changes."""
    return tuple(
        replace(call, repairs=tuple(dict.fromkeys((*call.repairs, *made))))
        for call, made in zip(repaired.calls, repaired.by_call, strict=True)
    )


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
        flow.repeated |= {numbers[owner] for owner in owners} if len(kept) < len(owners) else set()
        owners = tuple(owners[place] for place in kept)
        normalized = [normalized[place] for place in kept]
        heard = flow.read(written.text)
        features = call_features(written.tokens, normalized, flow.offered, heard)
        sure = [call_confidence(flow.calibration, one) for one in features]
        flow.draft.evidence.update(zip(sure, features, strict=True))
        if not normalized and not written.questions:
            for number in numbers:
                flow.draft.nothing(number, sure[0], written.declined)
        asking = [ToolCall(question.tool, {}) for question in written.questions]
        for question, owner in zip(
            written.questions, assign(asking, flow.tools, words), strict=True
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
        flow.asks = {**flow.asks, **dict.fromkeys(numbers, math.exp(ask_chance(written.tokens)))}
        return [
            (numbers[owner], replace(call, confidence=one))
            for owner, call, one in zip(owners, normalized, sure, strict=False)
        ]


def _withhold(flow: Calling, written: Written, numbers: Sequence[int]) -> None:
    """Make no call, with the model's confidence in that, and the reason."""
    names = ", ".join(dict.fromkeys(call.name for call in written.calls))
    why = f"{names} was not called: more likely no tool fits, or something is missing"
    for number in numbers:
        sure = math.exp(none_chance(written.tokens))
        flow.draft.nothing(number, sure, Complaint("withheld", why, intent=number))


# -- writing again ---------------------------------------------------------------------------------


def _may_retry(
    flow: Calling, texts: Sequence[str], numbers: Sequence[int], offered: Sequence[Tool] = ()
) -> bool:
    """Whether there are retries left for asking these texts, and time for them.

    Where only time is lacking, the answer to these intents is in doubt: how fast a machine is
    decides who answers, and never what counts as sure.
    """
    if flow.retries < len(texts):
        return False
    needed_ms = 1000 * _seconds_for(flow, texts, offered or flow.offered)
    spent_ms = 1000 * (flow.parts.clock() - flow.draft.started)
    deadline_ms = flow.deadline_ms
    if spent_ms + needed_ms > deadline_ms:
        flow.draft.took("not_retried", needed_ms)
        flow.draft.not_retried |= {*numbers}
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
    prompt = flow.format.prompt(offered, as_written(texts[0]), flow.told)
    first = unread(flow.function_model, flow.request.owner, prompt)
    new = [first, *texts[1:]]  # the tools are read once
    tokens = sum(estimate_tokens([Message("user", one)]) for one in new)
    # Together the answers to the parts are about as long as the answer to the whole.
    return tokens / reading + flow.longest_tokens / writing


_last: weakref.WeakKeyDictionary[CallBackend, tuple[str, str]] = weakref.WeakKeyDictionary()


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


Try = Sequence[tuple[Written, Sequence[int]]]  # answers that belong together, and their intents


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
    if 0 < len(called) < len(flow.offered) and _may_retry(flow, [first.text], everything, called):
        tries.append([(_write(flow, first.text, called), everything)])
    texts = [words.text for words in flow.heard]
    alone = len(texts) > 1 and _may_retry(flow, texts, everything)
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


def _call_if_said(flow: Calling, first: Written) -> bool:
    """A doubtful question for numbers that were said becomes the call."""
    question = flow.draft.questions.get(0)
    if len(flow.heard) > 1 or question is None or not flow.draft.doubts(0):
        return False
    tool = flow.tools.get(question.tool)
    if tool is None or not _may_retry(flow, [first.text], [0]):
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
    if not (grammar and likely and _may_retry(flow, [first.text], [0])):
        return
    for question in _write(flow, first.text, grammar=grammar).questions:
        if _all_said(flow, calls[0], question):
            return
        flow.draft.forget(0)
        flow.draft.ask(0, question, flow.asking_surety(calls[0], 0))


def _all_said(flow: Calling, call: ToolCall, question: Question) -> bool:
    """Whether a call has all that is asked for, as lengths of time or lists that were said.

    A name or a number may have been said of something else; "15 minutes" are the minutes, and two
    things that stand side by side are the items.
    """
    fields = parameters(flow.tools[call.name].parameters)
    scores = ground(call.arguments, flow.tools[call.name], flow.whole).arguments
    timed = any(one.kind == "duration" for one in flow.whole.found)

    def is_said(name: str) -> bool:
        value, asked = call.arguments.get(name), wanted(name, fields.get(name, {}))
        plain = isinstance(value, list) and len(value) > 1
        return (plain or (timed and asked.role == "duration")) and scores[name].score >= SAID

    return all(name in scores and is_said(name) for name in question.needs)


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


def _call_of_choices(flow: Calling) -> None:
    """Choices that were heard make a call where the model is unsure that there is none.

    Such a call is in doubt: it does not run by itself, and it is not lost.
    """
    draft = flow.draft
    if not flow.spoken or len(flow.heard) > 1 or flow.told.after or draft.calls_of(0):
        return
    if not draft.doubts(0):
        return
    question = draft.questions.get(0)
    tools = [tool for tool in flow.offered if question is None or tool.name == question.tool]
    calls = [call for tool in tools if (call := call_of_choices(tool, flow.text)) is not None]
    calls = [
        call for call in calls if len(call.arguments) >= (LEAST_CHOICES if not question else 1)
    ]
    if len(calls) == 1:
        draft.forget(0)
        draft.place(0, replace(flow.normalize(calls[0], flow.whole), confidence=GUESSED))


def _join_lists(flow: Calling) -> None:
    """Make one call again of a list of objects that was split into several."""
    draft = flow.draft
    made = [(number, call) for number in draft.answered for call in draft.calls_of(number)]
    for (number, one), (other_number, other) in itertools.pairwise(made):
        joined = join_lists(one, other, flow.tools.get(one.name), flow.text)
        if joined is None:
            continue
        joined = flow.normalize(joined, flow.whole)
        for place, call, instead in ((number, one, joined), (other_number, other, None)):
            left = [each for each in draft.calls_of(place) if each is not call]
            draft.forget(place)
            for each in (*left, *filter(None, (instead,))):
                draft.place(place, each)
            if not left and instead is None:
                draft.nothing(place, joined.confidence or 0.0)
        return _join_lists(flow)
    return None


def _hold_for_results(flow: Calling) -> None:
    """Leave out a call that needs what another one finds: it comes after that one's result."""
    draft = flow.draft
    waiting = [(number, call) for number in draft.answered for call in draft.calls_of(number)]
    waiting = [(number, call) for number, call in waiting if flow.waits(call)]
    others = [one for one in draft.local_calls if not any(one is call for _, call in waiting)]
    for number, call in waiting if others else ():
        left = [one for one in draft.calls_of(number) if one is not call]
        draft.forget(number)
        for one in left:
            draft.place(number, one)
        why = f"{call.name} waits for what {others[0].name} finds"
        if not left:
            sure = min(one.confidence or 0.0 for one in others)
            draft.nothing(number, sure, Complaint("withheld", why, intent=number))


def _ask_for_made_up(flow: Calling, number: int) -> None:
    """Ask for what a tool requires and nobody said. The call would be wrong."""
    for call in flow.draft.calls_of(number):
        if made_up := flow.made_up(call, number):
            sure = flow.asking_surety(call, number)
            flow.draft.forget(number)
            flow.draft.ask(number, Question(call.name, made_up), sure)
            return


# -- the calls so far ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Agreed:
    """Whether the cloud made the same call as the device."""

    tool: str
    confirmed: bool


@dataclass(slots=True, kw_only=True)
class CallDraft(Draft):
    """The calls so far: who answered which intent, and how sure."""

    intents: tuple[Intent, ...]
    cloud_answered: bool = False
    text: str = ""
    cut: bool = False  # the cloud's limit ended its answer
    steps: dict[str, float] = field(default_factory=dict)
    complaints: tuple[Complaint, ...] = ()
    # Intents that were answered in words, and the complaint about it.
    declined: dict[int, Complaint | None] = field(default_factory=dict)
    questions: dict[int, Question] = field(default_factory=dict)  # asked in place of a call
    verdicts: list[Agreed] = field(default_factory=list)
    again: Set[int] = frozenset()  # intents that ask for what another has asked for
    out_of_time: str = ""  # why the function model was not asked again
    # Intents that would have been asked again: another answer might have come of it.
    not_retried: set[int] = field(default_factory=set)
    evidence: dict[float, Mapping[str, float]] = field(default_factory=dict)  # by confidence
    # Whose each call is, in the order in which the cloud wrote the whole answer.
    owners: Sequence[int] = ()
    by_intent: dict[int, list[ToolCall]] = field(default_factory=dict)
    _nothing: dict[int, float] = field(default_factory=dict)  # how sure it is that no tool fits

    @property
    def local_calls(self) -> list[ToolCall]:
        return [call for calls in self.by_intent.values() for call in calls]

    def calls_of(self, number: int) -> Sequence[ToolCall]:
        return tuple(self.by_intent.get(number, ()))

    @property
    def answered(self) -> tuple[int, ...]:
        called = (number for number, calls in self.by_intent.items() if calls)
        return (*called, *self.questions)

    @property
    def ungrounded(self) -> list[int]:
        """Intents with a call that contains something nobody said."""
        return [
            number
            for number, calls in self.by_intent.items()
            if any("ungrounded" in call.complaints for call in calls)
        ]

    @property
    def needs(self) -> tuple[str, ...]:
        asked = [name for number in sorted(self.questions) for name in self.questions[number].needs]
        return tuple(dict.fromkeys(asked))

    @property
    def _needs_of(self) -> dict[str, tuple[str, ...]]:
        """The parameters that are asked for, by tool."""
        found: dict[str, tuple[str, ...]] = {}
        for _, asked in sorted(self.questions.items()):
            found[asked.tool] = tuple(dict.fromkeys((*found.get(asked.tool, ()), *asked.needs)))
        return found

    def place(self, number: int, call: ToolCall) -> None:
        """Add a call for an intent, unless this intent has it already."""
        for held in (self._nothing, self.declined, self.questions):
            held.pop(number, None)
        calls = self.by_intent.setdefault(number, [])
        if not any(same_call(call, other) for other in calls):
            calls.append(call)

    def take(self, owners: Sequence[int], calls: Sequence[ToolCall]) -> None:
        """A cloud's whole answer: all of its calls, as often and in the order it wrote them."""
        self.owners = owners
        for number, call in zip(owners, calls, strict=True):
            self.by_intent.setdefault(number, []).append(call)

    def nothing(self, number: int, confidence: float, declined: Complaint | None = None) -> None:
        if number not in self.by_intent:
            self._nothing[number] = confidence
            if declined is not None:
                self.declined[number] = declined

    def ask(self, number: int, question: Question, confidence: float) -> None:
        """Ask for what is missing, if nothing was called for this intent."""
        missing = f"{question.tool} needs {', '.join(question.needs)}"
        self.nothing(number, confidence, Complaint("question", missing, intent=number))
        if number not in self.by_intent:
            self.questions[number] = question

    def hold(self, number: int, tool: str, cue: str) -> None:
        """Ask nothing for a tool that the words hold back."""
        self.forget(number)
        why = Complaint("held_back", f"the words {cue!r} hold {tool} back", intent=number)
        asked = (one for one in self.complaints if (one.code, one.intent) != ("question", number))
        self.complaints = (*asked, why)

    def forget(self, number: int) -> None:
        for held in (self.by_intent, self._nothing, self.declined, self.questions):
            held.pop(number, None)

    def note(self, checked: Checked, again: Set[int]) -> None:
        """Replace the findings of an earlier check."""
        for number, calls in checked.calls.items():
            if calls:
                self.by_intent[number] = list(calls)
        self.complaints, self.again = checked.complaints, again

    def doubts(self, number: int) -> bool:
        """Whether an intent's answer is unlikely, or might be another one on a faster machine."""
        if number in self.not_retried:
            return True
        calls, least = self.by_intent.get(number, []), self.threshold or 0.0
        if not calls:
            return self._nothing.get(number, 0.0) < least
        return any((call.confidence or 0.0) < least for call in calls)

    def _is_sure(self, confidence: float | None) -> bool:
        return confidence is not None and confidence >= (self.threshold or 0.0)

    def measure(self) -> None:
        """Record the least sure part of the device's answer, before the cloud may replace it."""
        said = [call.confidence for call in self.local_calls if call.confidence is not None]
        self.confidence = min([*said, *self._nothing.values()], default=None)

    def mark(self, number: int, why: str) -> None:
        """Say on the calls of an intent why they are in doubt, for whoever may run them."""
        if number in self.by_intent:
            self.by_intent[number] = [replace(call, doubt=why) for call in self.by_intent[number]]

    def doubt(self, failed: Sequence[int], gate: Set[str]) -> str:
        """The first reason for doubt, in words."""
        why = self._first_doubt(failed, gate)
        return f"{why}; {self.out_of_time}" if self.out_of_time else why

    def _first_doubt(self, failed: Sequence[int], gate: Set[str]) -> str:
        calls = self.by_intent.get(failed[0], [])
        wrong = [one for one in self.complaints if one.intent == failed[0] and one.code in gate]
        if not calls:
            sure = self._nothing.get(failed[0])
            if self._is_sure(sure) and failed[0] in self.not_retried:
                return "the first answer was to be checked"
            if wrong:
                return f"{wrong[0].code}: {wrong[0].message}"
            if sure is None:
                return f"nothing was called for {self.intents[failed[0]].text!r}"
            return f"{self.sureness} that no tool fits: {self.below_needed(sure)}"
        worst = min(calls, key=lambda call: call.confidence or 0.0)
        if (worst.confidence or 0.0) < (self.threshold or 0.0):
            return f"{worst.name}: {self.too_low(worst.confidence)}"
        if wrong:
            return f"{wrong[0].code}: {wrong[0].message}"
        faulty = next((call for call in calls if not gate.isdisjoint(call.complaints)), None)
        if faulty is None:
            return "the first answer was to be checked"
        return f"{faulty.name}: {', '.join(faulty.complaints)}"

    def compare(self, numbers: Sequence[int], others: Sequence[ToolCall]) -> None:
        """Note which of the device's calls for these intents the cloud makes too."""
        self.verdicts += [
            Agreed(call.name, any(same_call(call, other) for other in others))
            for number in numbers
            for call in self.by_intent.get(number, ())
            if call.source == "local" and "unknown_tool" not in call.complaints
        ]

    def took(self, step: str, milliseconds: float) -> None:
        self.steps[step] = self.steps.get(step, 0.0) + milliseconds

    def reply(self, now: float) -> CallReply:
        calls = () if self.signalled else self._in_order()
        # A question beside calls may be settled by their results, so it waits.
        asked = () if calls else tuple(self.questions.values())
        return CallReply(
            **self.common(self._source(calls), now),
            text=self.text or question_text(asked, self.request.tools),
            decision=self.decision(features=self.evidence.get(self.confidence or 0.0, {})),
            finish_reason="length" if self.cut else "tool_calls" if calls else "stop",
            tool_calls=calls,
            needs=() if self.signalled else self.needs,
            needs_of={} if self.signalled else self._needs_of,
            intents=self.intents,
            complaints=() if self.signalled else self.complaints,
            steps_ms=dict(self.steps),
        )

    def _in_order(self) -> tuple[ToolCall, ...]:
        if not self.owners:
            return merge(self.by_intent, again=self.again)
        left = {number: iter(calls) for number, calls in self.by_intent.items()}
        return tuple(next(left[number]) for number in self.owners if number in left)

    def _source(self, calls: Sequence[ToolCall]) -> Source:
        if self.signalled:
            return "none"
        source = source_of(calls, "cloud" if self.cloud_answered else "local")
        # If the cloud said in words that no tool fits a part, that counts as its share.
        return "mixed" if self.text and source == "local" else source


# -- the cloud, asked while the device works -------------------------------------------------------


class Speculation:
    """A whole request to the cloud, running on its own thread from the start."""

    def __init__(self, cloud: Cloud, request: Request, patience_s: float) -> None:
        self._cloud = cloud
        self._request = replace(request, original=None)  # its answer may be thrown away
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
